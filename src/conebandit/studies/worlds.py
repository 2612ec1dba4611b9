"""The environments of a study by name: ours with settings, those of the suite, tables, and the user's own."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from conebandit import environments
from conebandit.environments import shift
from conebandit.environments.base import Environment, World
from conebandit.formats.files import read_columns
from conebandit.geometry.cone import Cone
from conebandit.studies.modules import digest
from conebandit.studies.own import OwnEnvironment, drawn_by, is_own
from conebandit.studies.suite import EXTRA, SUITE, pick
from conebandit.validate.arrays import FloatArray

OURS = environments.__all__
TABLE = "from_table"
OF_SUITE = "suite/"  # before the name of an environment of the contest: suite/smooth-2
CONES: dict[str, Callable[[Any], Cone]] = {
    "orthant": Cone.orthant,
    "wedge": Cone.wedge,
    "facets": Cone.from_facets,
    "rays": Cone.from_rays,
    "weights": Cone.from_weights,
}


def world_maker(name: str, folders: tuple[str, ...] = (), known: str | None = None) -> Callable[..., Environment]:
    """What makes an environment of this name from the seed of a run and settings.

    Own modules are looked for in ``folders``. A table must have the digest ``known``, if that is given.

    Raises
    ------
    ValueError
        If there is none of this name, with those that there are.

    Examples
    --------
    >>> world_maker("paper")(0, n_arms=4, cone={"wedge": 60}).n_arms
    4
    """
    if is_own(name):
        return OwnEnvironment(name, folders)
    if name.startswith(OF_SUITE):
        return pick([name.removeprefix(OF_SUITE)], (*SUITE, *EXTRA))[0].make
    if name not in OURS:
        every = [*OURS, *(f"{OF_SUITE}{task.name}" for task in (*SUITE, *EXTRA))]
        raise ValueError(
            f"there is no environment {name!r}; choose from {', '.join(every)}, or give the import path of your own, "
            "such as mine:world."
        )

    def make(seed: int, /, **settings: Any) -> Environment:
        if name == TABLE:
            file = Path(str(settings.get("path", "")))
            return _kept_table(json.dumps(settings), known or (digest(file) if file.is_file() else None))
        return drawn_by(getattr(environments, name), seed, _with_cone(settings))

    return make


def _with_cone(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings in which a declared cone is a cone."""
    return {**settings, "cone": as_declared_cone(settings["cone"])} if "cone" in settings else settings


def as_declared_cone(given: Any) -> Cone:
    """A cone from a table with one entry: a constructor's name and its argument.

    Examples
    --------
    >>> as_declared_cone({"rays": [[1, 0], [1, 1]]}).dim
    2
    """
    if not isinstance(given, Mapping) or len(given) != 1 or next(iter(given)) not in CONES:
        raise ValueError(f"cone must be a table with one of {', '.join(CONES)}, such as {{ wedge = 60 }}; got {given}.")
    kind, argument = next(iter(given.items()))
    return CONES[kind](argument)


# ---- tables ---------------------------------------------------------------------------------------------------------


def from_file(
    path: str,
    *,
    contexts: Sequence[str],
    arms: str,
    outcomes: Sequence[str],
    group: str | None = None,
    phases: Sequence[Any] | None = None,
    sorted_by: str | None = None,
    at: Sequence[int] = (),
    **settings: Any,
) -> World:
    r"""An environment from a CSV or Parquet file, see :func:`conebandit.environments.from_table`.

    Parameters
    ----------
    path
        The file.
    contexts, arms, outcomes
        Names of its columns.
    group, phases, sorted_by, at
        When which rows come: those of one group after those of another, or sorted by a column of the contexts; a phase
        begins at each round of ``at``. Either ``group`` or ``sorted_by``; by default all rows at any time.
    settings
        ``ranges``, ``low`` and ``cone`` of ``from_table``.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "visits.csv")
    >>> rows = [f"{age},{'ab'[age % 2]},{age % 7}" for age in range(40)]
    >>> _ = path.write_text("\n".join(["age,arm,relief", *rows]))
    >>> from_file(path, contexts=["age"], arms="arm", outcomes=["relief"], sorted_by="age", at=[100]).change_points
    (100,)
    """
    if group is not None and sorted_by is not None:
        raise ValueError(
            f"group and sorted_by both say which rows come when; got group {group!r} and sorted_by {sorted_by!r}. "
            "Leave one out."
        )
    columns = read_columns(path)
    x = _numbers(columns, contexts, "contexts")
    if group is not None:
        schedule = shift.by_group(x, _column(columns, group, "group"), at, phases=phases)
    elif sorted_by is not None:
        if sorted_by not in contexts:
            raise ValueError(f"sorted_by must be one of the contexts, {', '.join(contexts)}; got {sorted_by!r}.")
        schedule = shift.by_column(x, list(contexts).index(sorted_by), at)
    else:
        schedule = shift.stationary(shift.empirical(x))
    made, seen = _column(columns, arms, "arms"), _numbers(columns, outcomes, "outcomes")
    return environments.from_table(x, made, seen, schedule=schedule, name=Path(path).name, **settings)


@lru_cache(maxsize=8)
def _kept_table(settings: str, known: str | None) -> World:
    """As :func:`from_file`, from settings as JSON and the digest of the file: runs of a worker need the same few."""
    given = json.loads(settings)
    made = from_file(**_with_cone(given))
    if digest(Path(given["path"])) != known:  # asked when it was read: it may be edited at any moment
        raise ValueError(
            f"{given['path']} was changed while the study was run, and results of both forms are not mixed. Undo the "
            "change, or begin another study."
        )
    return made


def _column(columns: Mapping[str, list[Any]], name: str, what: str) -> list[Any]:
    if name not in columns:
        raise ValueError(f"{what}: there is no column {name!r}; the table has {', '.join(columns)}.")
    return columns[name]


def _numbers(columns: Mapping[str, list[Any]], names: Sequence[str], what: str) -> FloatArray:
    """Columns side by side as numbers, (rows, columns)."""
    if isinstance(names, str) or not names:
        raise ValueError(f"{what} must be a list of names of columns; got {names!r}.")
    found = []
    for name in names:
        try:
            found.append(np.array(_column(columns, name, what), dtype=np.float64))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{what}: column {name!r} must hold numbers in every row; {error}.") from None
    return np.column_stack(found)
