"""Studies from Python: run one, load one, and what it found."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from conebandit.progress import Progress, steps
from conebandit.studies.declaration import given_study, read_by
from conebandit.studies.failures import Failures
from conebandit.studies.folder import Folder, in_words, versions
from conebandit.studies.paired import LEVEL, Average, Paired, half_width
from conebandit.studies.parts import polars
from conebandit.studies.plan import Kind, Plan
from conebandit.studies.pool import Backend, Workers
from conebandit.studies.results import Results
from conebandit.studies.runs import COLUMNS, STUDY, make_runs
from conebandit.validate.arrays import FloatArray


def run_study(
    study: str | os.PathLike[str] | Mapping[str, Any],
    to: str | os.PathLike[str],
    *,
    backend: Backend = "loky",
    jobs: int = 0,
    address: str | None = None,
    progress: Progress = False,
) -> Study:
    """Run a study, or what is left of it, and keep every finished run in a folder.

    A study that was stopped goes on where it was: finished runs are not made again. The result does not depend on
    backend or number of processes.

    Parameters
    ----------
    study
        A study file, or the same as a table; see ``docs/studies.md``.
    to
        The folder of results. It holds one study: another one is refused.
    backend, jobs, address
        Where runs are made: "loky", on so many processes of this machine (0 for one on each core); "threads", on so
        many threads of this process, as :func:`simulate_many` has them; "dask" or "ray", on a cluster at an address or,
        without one, on processes of this machine; "sequential", one after the other in this very process, where a
        debugger sees everything. In this process the last bits of results may differ.
    progress
        Whether to show a progress bar; or a function, called with a few words after each run.

    Raises
    ------
    ValueError
        If the study is wrong, before anything is run; or if the folder is another study's, or is in use.
    RuntimeError
        If runs have failed, with those that have. All others are kept; when it is called again, only those are made.

    Examples
    --------
    >>> import tempfile, conebandit as cb
    >>> folder = tempfile.mkdtemp()
    >>> study = cb.run_study(
    ...     {
    ...         "policies": ["random", {"name": "ParetoUCB1", "grid": {"width": [0.1, 0.2]}}],
    ...         "environments": [{"name": "paper", "n_arms": 3, "change_point": 50}],
    ...         "horizon": 200,
    ...         "seeds": 2,
    ...     },
    ...     folder,
    ...     backend="sequential",
    ... )
    >>> len(study), study.policies
    (6, ('random', 'ParetoUCB1(width=0.1)', 'ParetoUCB1(width=0.2)'))
    """

    def caution(text: str) -> None:
        warnings.warn(text, stacklevel=3)

    source = study if isinstance(study, Mapping) else Path(study)
    execute(source, Path(to), Workers(backend, jobs, address), progress=progress, caution=caution)
    return Study(Path(to))


def execute(
    source: Path | Mapping[str, Any],
    to: Path,
    workers: Workers,
    *,
    progress: Progress,
    caution: Callable[[str], None],
    kind: Kind = STUDY,
    instead: Mapping[str, Any] | None = None,
) -> int:
    """As :func:`run_study`, of any kind; what may make results differ from earlier ones goes to ``caution``.

    Entries in ``instead`` hold instead of those of the file. How many runs there are now.
    """
    polars()
    table, where = given_study(source)
    given = {**table, **(instead or {})}
    plan, folder = read_by(kind.read, source, given, where), Folder(to, kind)
    plan.try_all()
    with folder.locked():
        about = folder.begin(plan, given, where, _digest(source, table))
        plan = folder.as_begun(plan)
        for text in _changes(about, plan):
            caution(text)
        done = folder.parts.open()
        missing = [run for run in range(len(plan)) if run not in done]
        with steps(progress, "compiling kernels", len(missing)) as step:
            failures = make_runs(kind, plan, folder.parts, missing, workers, step=step, caution=caution)
    if failures:
        raise RuntimeError(_failed(failures, plan, kind, to))
    return len(plan)


def _failed(failures: Failures, plan: Plan[Any], kind: Kind, to: Path) -> str:
    """What is said when runs have failed; a line for each policy and environment, if there are several."""
    untried = f", and {failures.untried} were not tried" if failures.untried else ""
    first = f"{len(failures)} of {len(plan)} runs have failed{untried}; all that finished are kept in {to}."
    last = f"Start the {kind.name} again when this is mended: only what is missing is run."
    told = failures.in_words()
    return (" " if len(told) == 1 else "\n").join([first, *told, last])


def _digest(source: Path | Mapping[str, Any], table: Mapping[str, Any]) -> str:
    """A fingerprint of a study file, or of a study that is a table: of what it says."""
    given = json.dumps(table).encode() if isinstance(source, Mapping) else source.read_bytes()
    return hashlib.sha256(given).hexdigest()


def _changes(about: Mapping[str, Any], plan: Plan[Any]) -> list[str]:
    """What is not as it was when the study was begun, so that results may differ; in words."""
    found = []
    if about["versions"] != versions():
        found.append(
            f"the study was begun with {in_words(about['versions'])}, and goes on with {in_words(versions())}: the "
            "same run may come out differently. The column versions says which run was made with what."
        )
    for name, seen in plan.modules().items():
        if about["modules"].get(name, seen) != seen:  # a new one is there since one that imports it has changed
            found.append(f"the file of the module {name} has changed since the study was begun; earlier runs are kept.")
    return found


def load_study(path: str | os.PathLike[str]) -> Study:
    """The results of a study, finished or not, from its folder.

    Parameters
    ----------
    path
        The folder that ``conebandit study run`` or :func:`run_study` has written.

    Examples
    --------
    >>> import tempfile, conebandit as cb
    >>> folder, world = tempfile.mkdtemp(), {"name": "paper", "n_arms": 3, "change_point": 50}
    >>> table = {"policies": ["random", "ucb1"], "environments": [world], "horizon": 200, "seeds": 3}
    >>> _ = cb.run_study(table, folder, backend="sequential")
    >>> study = cb.load_study(folder)
    >>> study.to_frame().select("policy", "seed").rows()[:3]
    [('random', 0), ('ucb1', 0), ('random', 1)]
    """
    return Study(Path(path))


class Study:
    """What the runs of a study have found; made by :func:`run_study` and :func:`load_study`.

    Attributes
    ----------
    path
        The folder.
    policies, environments, series
        Labels of the policies and environments, and of which series there are curves. With several horizons the
        label of an environment ends with one.
    versions
        Of conebandit, NumPy, Numba and Python when the study was begun.
    digest
        Fingerprint (SHA-256) of the study file.

    Examples
    --------
    >>> import tempfile, conebandit as cb
    >>> table = {"policies": ["random", "ucb1"], "environments": ["suite/paper"], "horizon": 5100, "seeds": 4}
    >>> study = cb.run_study(table, tempfile.mkdtemp(), backend="sequential")
    >>> study.n_missing, study.curves("play")["ucb1"].shape
    (0, (4, 50))
    >>> found = study.differences("play", reference="random")
    >>> found.select("policy", "reference", "seeds").rows()
    [('ucb1', 'random', 4)]
    """

    def __init__(self, path: Path) -> None:
        self._results = results = Results(path)
        self.path = path
        self.versions: dict[str, str] = results.about["versions"]
        self.digest: str = results.about["digest"]
        self.policies, self.environments = results.policies, results.environments
        self.series = results.plan.recipe.curves

    def __len__(self) -> int:
        return len(self._results.plan)

    def __repr__(self) -> str:
        seeds = len(self._results.plan.seeds)
        sizes = f"{len(self.policies)} policies, {len(self.environments)} environments, {seeds} seeds"
        return f"<Study in {self.path}: {sizes}; {self.n_missing} of {len(self)} runs are missing>"

    @property
    def n_missing(self) -> int:
        """How many runs are not finished."""
        return len(self) - self._results.n_finished

    def to_frame(self, *, curves: bool = False) -> Any:
        """All finished runs as a frame of polars, a row for each.

        ``policy`` and ``environment`` are labels; ``environment.nu`` and the like are settings, null where there is
        none. Series are averages over the rounds from ``after`` on, the last change point. ``curves`` says whether sums
        of series up to some rounds are wanted, too: lists in columns such as ``play_curve``.
        """
        library, plan = polars(), self._results.plan
        frame = self._results.rows(None if curves else COLUMNS)
        settings = {
            "policy": {entry.label: entry.settings for entry in plan.policies},
            "environment": {scene.label: scene.environment.settings for scene in plan.scenes},
        }
        added = []
        for role, known in settings.items():
            for name in dict.fromkeys(name for each in known.values() for name in each):
                values = [_plain(known[label].get(name)) for label in frame[role].to_list()]
                added.append(library.Series(f"{role}.{name}", _alike(values), strict=False))
        return frame.with_columns(added)

    def rounds(self, environment: str | None = None) -> FloatArray:
        """The rounds at which curves of an environment are kept; it may be left out if there is one."""
        found: FloatArray = self._results.plan.recipe.rounds(self._results.scene(environment).horizon)
        return found

    def curves(self, series: str, environment: str | None = None) -> dict[str, FloatArray]:
        """Sums of a series from the first round on, for each policy: shape (seeds, rounds), in the order of the seeds.

        ``environment`` may be left out if there is one.
        """
        found = self._results.curves(series, environment)
        return {policy: np.array(list(runs.values())) for policy, runs in found.items()}

    def bands(
        self, series: str, environment: str | None = None, *, per_round: bool = False, level: float = LEVEL
    ) -> dict[str, tuple[FloatArray, FloatArray, FloatArray]]:
        """For each policy rounds, mean and half the width of its interval: what ``plots.bands`` draws.

        ``environment`` may be left out if there is one. ``per_round`` says whether sums are divided by the number of
        rounds. Intervals are Student's t over seeds, for each round alone, and hold with probability ``level``.
        """
        at = self.rounds(environment)
        scale = at if per_round else 1.0
        runs = {policy: curves / scale for policy, curves in self.curves(series, environment).items()}
        return {policy: (at, each.mean(axis=0), half_width(each, level)) for policy, each in runs.items()}

    def averages(self, *series: str, level: float = LEVEL) -> Any:
        """Averages over seeds with intervals (Student's t), as a frame: a row for each cell and each of the series."""
        return _frame(self._results.averages(series, level), Average._fields)

    def differences(self, *series: str, reference: str | None = None, level: float = LEVEL) -> Any:
        """Every policy minus ``reference``, the first one by default, seed by seed; as a frame.

        Policies meet the same contexts and the same luck under one seed, so differences are paired by it. ``low`` and
        ``high`` are Student's t interval of one difference; intervals from ``low_all`` to ``high_all`` hold with
        probability ``level`` for all rows of the frame together (Bonferroni).
        """
        return _frame(self._results.differences(series, reference, level), Paired._fields)


def _frame(rows: Sequence[Average] | Sequence[Paired], names: Sequence[str]) -> Any:
    columns = list(zip(*rows, strict=True)) if rows else [() for _ in names]
    return polars().DataFrame(dict(zip(names, columns, strict=True)))


def _plain(value: Any) -> Any:
    """A setting as one entry of a column: lists and tables as text."""
    return json.dumps(value) if isinstance(value, list | dict) else value


def _alike(values: list[Any]) -> list[Any]:
    """Values as they are if they are of one kind, otherwise as texts."""
    kinds = {float if isinstance(v, int) and not isinstance(v, bool) else type(v) for v in values if v is not None}
    return values if len(kinds) <= 1 else [None if v is None else str(v) for v in values]
