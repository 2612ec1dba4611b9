"""Vowpal Wabbit's files: text for ``--cb`` and lines of JSON for ``--cb_adf --dsjson``. Costs are minus a reward.

Vowpal Wabbit knows one cost. All rewards are written beside it where it does not look (the tag of a line of text; an
entry of its own in JSON), so that reading gives back the whole log. It computes in single precision; the files do not.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from conebandit.formats.feedback import Feedback, Logged, one_metric
from conebandit.validate.arguments import is_integer
from conebandit.validate.arrays import FloatArray

TAG = "rewards="
NAMESPACE = "context"
Path = str | os.PathLike[str]


# ---- text -----------------------------------------------------------------------------------------------------------


def write_vw(log: Logged, path: Path, metric: str | int = 0) -> None:
    """Write a line ``arm:cost:probability 'rewards=...|context x0:... x1:...`` for each decision; for ``vw --cb K``.

    Parameters
    ----------
    log
        A :class:`Feedback`, or any object with its fields. Arms are counted from 1 in the file.
    path
        Where to.
    metric
        Whose values, with the sign changed, are the costs; a cost, minimised by the cone of a
        :class:`conebandit.Log`, as it is.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from conebandit.formats import Feedback, read_vw, write_vw
    >>> path = pathlib.Path(tempfile.mkdtemp(), "log.vw")
    >>> write_vw(Feedback([[0.1]], [1], [[1.0, 0.25]], [0.5]), path)
    >>> print(path.read_text().rstrip())
    2:-1.0:0.5 'rewards=1.0,0.25|context x0:0.1
    >>> read_vw(path).rewards.tolist()
    [[1.0, 0.25]]
    """
    costs = -one_metric(log, metric)
    rows = zip(log.contexts.tolist(), log.arms.tolist(), costs.tolist(), *_chances(log), strict=True)
    with open(path, "w", encoding="utf-8") as file:
        for context, arm, cost, propensity, rewards in rows:
            features = " ".join(f"x{i}:{value!r}" for i, value in enumerate(context))
            tag = ",".join(map(repr, rewards))
            file.write(f"{arm + 1}:{cost!r}:{propensity!r} '{TAG}{tag}|{NAMESPACE} {features}\n")


def read_vw(path: Path, arm_names: Sequence[str] = ()) -> Feedback:
    r"""Read lines of ``arm:cost:probability | features``, ours or others'.

    Features are numbered in the order in which they first appear; where one is absent it is 0, where it is there twice
    it is the sum, and the weight of a namespace multiplies its features, as in Vowpal Wabbit. Without our tag, the
    reward is minus the cost. Lines of several actions (``shared``) are refused: write them as dsjson. The file does not
    say how many arms there are, so ``arm_names`` are needed if the last ones were never played.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from conebandit.formats import read_vw
    >>> path = pathlib.Path(tempfile.mkdtemp(), "log.vw")
    >>> _ = path.write_text("1:2:0.4 | a c\n3:0.5:0.2 | b:0.5 c\n")
    >>> log = read_vw(path)
    >>> log.arms.tolist(), log.rewards.ravel().tolist(), log.contexts.tolist()
    ([0, 2], [-2.0, -0.5], [[1.0, 1.0, 0.0], [0.0, 1.0, 0.5]])
    """
    arms, propensities, rewards, features = [], [], [], []
    for number, line in _lines(path):
        try:
            head, *namespaces = line.split("|")
            label, *more = head.split()
            tag = more[-1].lstrip("'") if more else ""
            if any(":" in word for word in more if not word.startswith("'")):
                raise ValueError("it has several labels")
            arm, cost, propensity = label.split(":")
            arms.append(int(arm) - 1)
            propensities.append(float(propensity))
            ours = [float(v) for v in tag.removeprefix(TAG).split(",")] if tag.startswith(TAG) else [_reward(cost)]
            rewards.append(ours)
            features.append(_summed(_features(namespaces)))
        except (ValueError, IndexError) as error:
            raise ValueError(f"{path}, line {number} must be arm:cost:probability | features: {error}.") from None
    return _feedback(path, features, arms, rewards, propensities, None, tuple(arm_names))


def _features(namespaces: Sequence[str]) -> Iterator[tuple[str, float]]:
    """Names and values of the features of a line; a name without a value is 1."""
    for text in namespaces:
        named = not text[:1].isspace()
        words = text.split()
        space, _, weight = words.pop(0).partition(":") if named and words else ("", "", "")
        for word in words:
            name, _, value = word.partition(":")
            yield f"{space}^{name}", (float(weight) if weight else 1.0) * (float(value) if value else 1.0)


# ---- dsjson ---------------------------------------------------------------------------------------------------------


def write_dsjson(log: Logged, path: Path, metric: str | int = 0) -> None:
    """Write an object for each decision, one on a line; for ``vw --dsjson --cb_explore_adf``.

    Arms are the actions of ``_multi``, each with its name as its only feature, in the namespace ``arm``. If the
    probabilities of all arms are known, they are in ``p``, for the arms in ``a``.

    Parameters
    ----------
    log, path, metric
        As for :func:`write_vw`.

    Examples
    --------
    >>> import json, tempfile, pathlib
    >>> from conebandit.formats import Feedback, read_dsjson, write_dsjson
    >>> path = pathlib.Path(tempfile.mkdtemp(), "log.json")
    >>> write_dsjson(Feedback([[0.1]], [1], [[1.0, 0.25]], [0.5], arm_names=("old", "new")), path)
    >>> event = json.loads(path.read_text())
    >>> event["_label_cost"], event["_label_Action"], event["c"]["_multi"]
    (-1.0, 2, [{'arm': {'old': 1}}, {'arm': {'new': 1}}])
    >>> read_dsjson(path).rewards.tolist()
    [[1.0, 0.25]]
    """
    costs = -one_metric(log, metric)
    multi = [{"arm": {name: 1}} for name in log.arm_names]
    rows = zip(log.contexts.tolist(), log.arms.tolist(), costs.tolist(), *_chances(log), strict=True)
    with open(path, "w", encoding="utf-8") as file:
        for i, (context, arm, cost, propensity, rewards) in enumerate(rows):
            others = [k for k in range(len(multi)) if k != arm] if log.probabilities is not None else []
            chances = [] if log.probabilities is None else log.probabilities[i, others].tolist()
            event = {
                "_label_cost": cost,
                "_label_probability": propensity,
                "_label_Action": arm + 1,
                "_labelIndex": arm,
                "Version": "1",
                "EventId": str(i),
                "a": [arm + 1, *(k + 1 for k in others)],
                "p": [propensity, *chances],
                "c": {NAMESPACE: {f"x{j}": value for j, value in enumerate(context)}, "_multi": multi},
                "VWState": {"m": "N/A"},
                "rewards": {n: None if np.isnan(v) else v for n, v in zip(log.metric_names, rewards, strict=True)},
            }
            file.write(json.dumps(event) + "\n")


def read_dsjson(path: Path) -> Feedback:
    r"""Read lines of dsjson, ours or others', whose actions are the same in every line.

    Features of the shared context become columns, named and numbered in the order in which they first appear; text and
    true or false count as 1 where they stand. Without our ``rewards``, the reward is minus the cost.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from conebandit.formats import read_dsjson
    >>> path = pathlib.Path(tempfile.mkdtemp(), "log.json")
    >>> line = '{"_label_cost": -1, "_label_probability": 0.8, "_labelIndex": 0, "a": [1, 2], "p": [0.8, 0.2],'
    >>> _ = path.write_text(line + ' "c": {"User": {"age": 30, "city": "Bonn"}, "_multi": [{}, {}]}}\n')
    >>> log = read_dsjson(path)
    >>> log.contexts.tolist(), log.probabilities.tolist()
    ([[30.0, 1.0]], [[0.8, 0.2]])
    """
    arms, propensities, rewards, features, chances = [], [], [], [], []
    names: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    for number, line in _lines(path):
        try:
            event = json.loads(line, parse_constant=_refuse_constant)
            shared = event["c"]
            multi = shared.pop("_multi")
            arms.append(_arm(event, len(multi)))
            propensities.append(float(event["_label_probability"]))
            told = event.get("rewards") or {"reward": _reward(event["_label_cost"])}
            rewards.append([np.nan if value is None else float(value) for value in told.values()])
            found = _arm_names(multi), tuple(told)
            if names and found != (names, metrics):
                raise ValueError("arms or metrics are not those of the first line")
            names, metrics = found
            features.append(_summed(_flat(shared)))
            chances.append(_in_order(event, len(multi)))
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
            raise ValueError(
                f"{path}, line {number} must be an event with a label and the same actions as all others: {error!r}."
            ) from None
    whole = None if any(row is None for row in chances) else np.array(chances)
    return _feedback(path, features, arms, rewards, propensities, whole, names, metrics)


def _arm(event: dict[str, Any], n_arms: int) -> int:
    """Index of the arm that was played; where both are there, ``_label_Action`` must say the same, counted from 1."""
    arm = event["_labelIndex"]
    if not is_integer(arm) or not 0 <= arm < n_arms or event.get("_label_Action", arm + 1) != arm + 1:
        raise ValueError(
            f"_labelIndex must be that of one of the {n_arms} actions, and _label_Action one more; got {arm!r} and "
            f"{event.get('_label_Action')!r}"
        )
    return int(arm)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number of JSON")


def _arm_names(multi: list[dict[str, Any]]) -> tuple[str, ...]:
    """Names that we wrote, or numbers."""
    found = tuple(next(iter(action.get("arm", {})), "") for action in multi)
    return found if all(found) and len(set(found)) == len(found) else tuple(map(str, range(len(multi))))


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, float]]:
    """Features of nested objects, by their path; entries that begin with an underscore are not features."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if not name.startswith("_"):
                yield from _flat(inner, f"{prefix}^{name}" if prefix else name)
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from _flat(inner, f"{prefix}[{i}]")
    elif isinstance(value, str | bool):
        if value:
            yield f"{prefix}={value}", 1.0
    elif value is not None:
        yield prefix, float(value)


def _in_order(event: dict[str, Any], n_arms: int) -> FloatArray | None:
    """Probabilities of all arms by their index, if the event has them."""
    actions, chances = event.get("a", []), event.get("p", [])
    if sorted(actions) != list(range(1, n_arms + 1)) or len(chances) != n_arms:
        return None
    row = np.empty(n_arms)
    row[np.array(actions) - 1] = chances
    return row


# ---- both -----------------------------------------------------------------------------------------------------------


def _chances(log: Logged) -> tuple[list[float], list[list[float]]]:
    return log.propensities.tolist(), log.rewards.tolist()


def _reward(cost: Any) -> float:
    """Minus the cost, which must be known."""
    if not math.isfinite(float(cost)):
        raise ValueError(f"the cost must be finite; got {cost}")
    return -float(cost)


def _summed(features: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Features by name; what is there more than once is added up."""
    found: dict[str, float] = {}
    for name, value in features:
        found[name] = found.get(name, 0.0) + value
    return found


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines that are not empty, with their numbers."""
    try:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line.rstrip("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be in UTF-8: {error}.") from None


def _feedback(
    path: Path, features: list[dict[str, float]], arms: list[int], rewards: list[list[float]], *more: Any
) -> Feedback:
    if not features:
        raise ValueError(f"{path} must have at least one decision; it is empty.")
    columns = list(dict.fromkeys(name for row in features for name in row))
    if not columns:
        raise ValueError(f"{path} must have features; no line has any.")
    contexts = [[row.get(name, 0.0) for name in columns] for row in features]
    if len({len(row) for row in rewards}) > 1:
        raise ValueError(f"{path} must have the same number of rewards in every line.")
    return Feedback(np.array(contexts), np.array(arms), np.array(rewards), *more)
