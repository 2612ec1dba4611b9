"""Our own log as a table: a row for each decision, with the columns that the service exports."""

from __future__ import annotations

import csv
import json
import math
import os
from typing import Any

import numpy as np

from conebandit.formats.feedback import Feedback, Logged
from conebandit.formats.files import read_columns
from conebandit.validate.arrays import FloatArray

CONTEXT, METRIC, CHANCES = "context.", "metric.", "choice_probabilities"


def write_csv(log: Logged, path: str | os.PathLike[str]) -> None:
    """Write the columns ``arm``, ``propensity``, ``context.*``, ``metric.*`` and ``choice_probabilities``.

    The service's export has these columns as well, so what reads the one reads the other.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from conebandit.formats import Feedback, read_csv, write_csv
    >>> path = pathlib.Path(tempfile.mkdtemp(), "log.csv")
    >>> write_csv(Feedback([[0.1]], [1], [[1.0]], [0.5], arm_names=("old", "new"), metric_names=("sales",)), path)
    >>> print(path.read_text().rstrip())
    arm,propensity,context.x0,metric.sales,choice_probabilities
    new,0.5,0.1,1.0,
    >>> read_csv(path).arm_names
    ('new',)
    """
    for what, names in (("arm_names", log.arm_names), ("metric_names", log.metric_names)):
        odd = [name for name in names if name != name.strip()]
        if odd:
            raise ValueError(f"{what} must not begin or end with a blank, which CSV files do not keep; got {odd[0]!r}.")
    columns = [f"{CONTEXT}x{i}" for i in range(log.contexts.shape[1])]
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["arm", "propensity", *columns, *(METRIC + name for name in log.metric_names), CHANCES])
        for i, (context, arm, rewards) in enumerate(zip(log.contexts, log.arms, log.rewards, strict=True)):
            every = None if log.probabilities is None else log.probabilities[i].tolist()
            chances = "" if every is None else json.dumps(dict(zip(log.arm_names, every, strict=True)))
            values = ["" if math.isnan(value) else value for value in rewards.tolist()]
            chance = float(log.propensities[i])
            writer.writerow([log.arm_names[arm], chance, *context.tolist(), *values, chances])


def read_csv(path: str | os.PathLike[str]) -> Feedback:
    r"""Read what :func:`write_csv` wrote, or what the service exports if its contexts are numbers.

    Arms are numbered as in ``choice_probabilities``, where it is there, and otherwise in the order in which they come;
    more is taken to be better in every metric. A declaration knows more: levels of text, directions, the order of arms.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from conebandit.formats import read_csv
    >>> path = pathlib.Path(tempfile.mkdtemp(), "log.csv")
    >>> _ = path.write_text("arm,propensity,context.age,metric.sales\nold,0.5,30,1\nnew,0.5,40,\n")
    >>> log = read_csv(path)
    >>> log.arm_names, log.rewards.tolist()
    (('old', 'new'), [[1.0], [nan]])
    """
    columns = read_columns(path)
    contexts, metrics = _columns(path, list(columns))
    told = _told(path, columns)
    arms = tuple(dict.fromkeys([*(name for chances in told for name in chances), *columns["arm"]]))
    return Feedback(
        contexts=_numbers(path, columns, contexts),
        arms=np.array([arms.index(name) for name in columns["arm"]]),
        rewards=_numbers(path, columns, metrics),
        propensities=_numbers(path, columns, ["propensity"])[:, 0],
        probabilities=np.array([[chances.get(name, 0.0) for name in arms] for chances in told]) if told else None,
        arm_names=arms,
        metric_names=tuple(name.removeprefix(METRIC) for name in metrics),
    )


def _columns(path: Any, names: list[str]) -> tuple[list[str], list[str]]:
    """Columns of contexts and of metrics; a ``ValueError`` if there are none, or no arms and propensities."""
    contexts, metrics = ([name for name in names if name.startswith(kind)] for kind in (CONTEXT, METRIC))
    if not {"arm", "propensity"} <= set(names) or not contexts or not metrics:
        raise ValueError(
            f"{path} must have the columns arm, propensity, context.* and metric.*; it has {', '.join(names)}."
        )
    return contexts, metrics


def _told(path: Any, columns: dict[str, list[str]]) -> list[dict[str, float]]:
    """Probabilities of all arms by name, if every row has them and the policy itself chose the arms."""
    if any(mode != "live" for mode in columns.get("mode", [])) or not all(columns.get(CHANCES, [""])):
        return []
    try:
        found = [json.loads(text) for text in columns[CHANCES]]
    except ValueError as error:
        raise ValueError(f"{path} must have objects of JSON in {CHANCES}, of probabilities by arm: {error}.") from None
    return [{name: float(chance) for name, chance in row.items()} for row in found]


def _numbers(path: Any, columns: dict[str, list[str]], names: list[str]) -> FloatArray:
    """Some columns as numbers (n, columns), nan where a cell is empty."""
    try:
        return np.column_stack([[float(text) if text else np.nan for text in columns[name]] for name in names])
    except ValueError as error:
        raise ValueError(
            f"{path} must have numbers in {', '.join(names)}: {error}. Text needs a declaration that says its levels."
        ) from None
