"""A log as a table, with a row for each decision, in the words of a declaration."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conebandit.experiment.declaration import Experiment
from conebandit.experiment.frames import Frame
from conebandit.experiment.rows import arm_column, read_contexts, read_values
from conebandit.validate.arrays import FloatArray

# In the service's export of an experiment with units: columns, and what stands where something was erased.
ID, UNIT, REPEATS, ERASED = "id", "unit", "repeats", "erased"

CHANCES = "choice_probabilities"  # column of the service's export: what the policy would do, by name, as JSON
EXPORTED_PROPENSITY = "propensity"
MODE, LIVE = "mode", "live"  # column that says whether the policy decided, or a baseline was served


def as_experiment(value: Any) -> Experiment:
    """The argument, if it is a declaration."""
    if not isinstance(value, Experiment):
        raise TypeError(f"experiment must be an Experiment, a declaration that was read; got {value!r}.")
    return value


def read_table(table: Any, experiment: Experiment, *, arm: str | None, propensity: str | None) -> dict[str, Any]:
    """Arguments of :class:`Log` from a table; a ``ValueError`` says which column or row is wrong."""
    if not isinstance(table, str | os.PathLike) and not hasattr(table, "__getitem__"):
        raise TypeError(f"table must be a path, a data frame or a dict of columns; got {table!r}.")
    frame = Frame(table)
    if experiment.units is not None and UNIT in frame.names:
        frame = _without_erased(frame)
    drawn = _draws(experiment, frame)
    name = arm_column(experiment, frame, arm)
    played = frame.levels(name, experiment.arms)
    if None in played:
        raise ValueError(f"column {name!r} must not be empty; it is in row {played.index(None)}.")
    arms = tuple(dict.fromkeys([*experiment.arms, *map(str, played)]))  # arms come and go
    return {
        "contexts": read_contexts(experiment, frame)[drawn],
        "arms": [arms.index(str(name)) for name in played],
        "rewards": read_values(experiment, frame),
        "propensities": _propensities(frame, experiment, propensity)[drawn],
        # Values as they were measured, for people: the cone of the declaration is that of rewards.
        "cone": experiment.cone.turned([m.name for m in experiment.metrics if m.direction == "min"]),
        "probabilities": _chances(frame, [str(name) for name in played], arms, drawn),
        "arm_names": arms,
        "adaptive": True if CHANCES in frame.names else None,
        "units": frame.texts(UNIT) if experiment.units is not None and UNIT in frame.names else None,
    }


def _without_erased(frame: Frame) -> Frame:
    """The rows of which something is known."""
    if ID not in frame.names:
        return frame
    kept = [row for row, id_ in enumerate(frame.texts(ID)) if id_ != ERASED]
    return frame if len(kept) == len(frame) else frame.take(kept)


def _draws(experiment: Experiment, frame: Frame) -> NDArray[np.int64]:
    """For each row that in which its arm was drawn: an earlier one where a unit has kept an arm, else itself.

    What is judged is the draw, in the context and with the probabilities that it had; its rewards are those of all rows
    that followed from it.
    """
    drawn = np.arange(len(frame))
    if experiment.units is None or not {REPEATS, ID} <= set(frame.names):
        return drawn
    rows = {id_: row for row, id_ in enumerate(frame.texts(ID))}
    for row, repeats in enumerate(frame.texts(REPEATS)):
        if not repeats:
            continue
        if repeats not in rows:
            raise ValueError(
                f"column {REPEATS!r}, row {row}: there is no row with id {repeats!r}, in which the arm was drawn. If "
                "rows are left out, then all of a unit."
            )
        drawn[row] = rows[repeats]
    return drawn


def _propensities(frame: Frame, experiment: Experiment, given: str | None) -> FloatArray:
    """Probabilities (n,) of the arms that were played, from the column that is given, declared or exported."""
    declared = experiment.propensity_column or EXPORTED_PROPENSITY
    names = (declared, EXPORTED_PROPENSITY) if given is None else (given,)
    name = next((name for name in names if name in frame.names), None)
    if name is None:
        raise ValueError(
            f"the table must have a column {names[0]!r}, the probability with which the arm of each row was chosen; it "
            f"has {', '.join(frame.names)}. Name the column with the argument 'propensity'."
        )
    found = np.empty(len(frame))
    for i, value in enumerate(frame.numbers(name)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise ValueError(f"column {name!r} must hold numbers; row {i} is {value!r}.")
        found[i] = np.nan if value is None else value
    return found


def _chances(frame: Frame, played: Sequence[str], arms: Sequence[str], drawn: NDArray[np.int64]) -> FloatArray | None:
    """Probabilities (n, K) of all arms, if rows have them; where the policy did not decide, 1 for what was served."""
    if CHANCES not in frame.names:
        return None
    found = np.zeros((len(played), len(arms)))
    modes = frame.column(MODE) if MODE in frame.names else [LIVE] * len(played)
    for i, (text, mode) in enumerate(zip(frame.column(CHANCES), modes, strict=True)):
        if drawn[i] != i:
            continue
        if mode != LIVE:
            found[i, arms.index(played[i])] = 1.0
            continue
        if text is None or text == "":
            return None  # logs of earlier versions
        for name, chance in _parsed(text, i).items():
            if name not in arms:
                raise ValueError(f"column {CHANCES!r}, row {i}: there is no arm {name!r}; arms are {', '.join(arms)}.")
            found[i, arms.index(name)] = chance
    return found[drawn]


def _parsed(text: str, row: int) -> dict[str, float]:
    try:
        found = json.loads(text)
        return {str(name): float(chance) for name, chance in found.items()}
    except (json.JSONDecodeError, AttributeError, TypeError, ValueError):
        raise ValueError(
            f"column {CHANCES!r}, row {row} must be arms and their probabilities as JSON, such as "
            f'{{"old": 0.5, "new": 0.5}}; got {text!r}.'
        ) from None
