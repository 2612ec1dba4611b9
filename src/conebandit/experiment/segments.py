"""Who gets what: a small tree of readable rules that says nearly the same as a policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from conebandit.experiment.columns import Categorical, Column, Numeric, by_column
from conebandit.experiment.declaration import Experiment
from conebandit.experiment.outlook import Interval, estimates_by_name, units_of, with_units
from conebandit.experiment.policy import Served
from conebandit.experiment.recommendation import Recommended, recommended
from conebandit.experiment.summary import as_text
from conebandit.policies.compiled import estimates
from conebandit.validate.arrays import FloatArray

# By hand: none of these changes what a policy does, and how well rules agree with it is measured each time.
MAX_CONTEXTS = 5000  # that rules are made from; of more, as many at equal distances. Shares are then known to 0.7 %
MAX_THRESHOLDS = 31  # that are tried for a number: steps of 3 %, hardly more than the smallest share
MIN_SHARE = 0.02  # of the contexts that a rule must hold for: a reader wants no rule for less
MIN_GAIN = 0.01  # share of all that is left to explain that a further rule must explain: less is not worth a line

Flags = NDArray[np.bool_]


class Condition(NamedTuple):
    """What a rule asks of a column: to be below a number, or to be a level; not to be so, if ``holds`` is False.

    Examples
    --------
    >>> at_least_40 = Condition("age", 40.0, holds=False)
    >>> at_least_40.column, at_least_40.value
    ('age', 40.0)
    """

    column: str
    value: float | str
    holds: bool


@dataclass(frozen=True)
class Segment:
    """Contexts that get the same.

    Attributes
    ----------
    rule
        Which contexts, in words.
    size, share
        How many there are, and which share of all.
    arm
        The arm that is on most of their fronts; of several the one that is recommended most.
    front
        The arms that are on the front of more than half of them.
    estimates
        Of each metric for ``arm``, by name: averages over the contexts of the segment.
    agreement
        Share of its contexts whose front, by the policy, is exactly ``front``.
    conditions
        What the rule asks of each column; a context is in the segment if all of it is so.

    Examples
    --------
    >>> Segment("age < 40", 60, 0.6, "new", ("new",), {"revenue": Interval(2.0, 1.8, 2.2)}, 0.95).rule
    'age < 40'
    """

    rule: str
    size: int
    share: float
    arm: str
    front: tuple[str, ...]
    estimates: dict[str, Interval]
    agreement: float
    conditions: tuple[Condition, ...] = ()

    def has(self, columns: Sequence[Column], contexts: FloatArray) -> Flags:
        """Which of some contexts (n, d), as the policy sees them, are in the segment.

        Examples
        --------
        >>> young = Segment("age < 40", 1, 1.0, "new", ("new",), {}, 1.0, (Condition("age", 40.0, True),))
        >>> young.has([Numeric("age", 20, 60)], np.array([[0.4], [0.5]])).tolist()
        [True, False]
        """
        parts = {column.name: (column, part) for column, part in by_column(columns, contexts)}
        inside: Flags = np.ones(len(contexts), dtype=np.bool_)
        for name, value, holds in self.conditions:
            inside &= _is_so(*parts[name], value) == holds
        return inside


@dataclass(frozen=True)
class Segments:
    """A few rules that say nearly the same as a policy; every context follows exactly one. Print it.

    Attributes
    ----------
    leaves
        The segments, largest first.
    agreement
        Share of all contexts on which the rules agree with the policy: the front is the same.
    on_front
        Share of all contexts where the arm of their segment is on the front, by the policy.
    units
        Of each metric that has some, by name.

    Examples
    --------
    >>> young = Segment("age < 40", 60, 0.6, "new", ("new",), {"revenue": Interval(2.0, 1.8, 2.2)}, 0.95)
    >>> others = Segment("age >= 40", 40, 0.4, "old", ("old", "new"), {"revenue": Interval(1.0, 0.8, 1.2)}, 0.8)
    >>> print(Segments((young, others), 0.89, 0.97, {}))
    who        share  arm  front     revenue              same front
    age < 40   60%    new  new       2.00 (1.80 to 2.20)  95%
    age >= 40  40%    old  old, new  1.00 (0.80 to 1.20)  80%
    <BLANKLINE>
    By these rules, 89% of the contexts have the same front as by the policy, and 97% an arm on it.
    """

    leaves: tuple[Segment, ...]
    agreement: float
    on_front: float
    units: dict[str, str]

    def figure(self) -> Any:
        """A figure of matplotlib: a row for each segment, as tall as its share, and which arms are on its front."""
        from conebandit.plots import segments_figure  # noqa: PLC0415  (matplotlib is an extra)

        arms = dict.fromkeys(arm for leaf in self.leaves for arm in (leaf.arm, *leaf.front))
        return segments_figure(
            [leaf.share for leaf in self.leaves],
            rules=[leaf.rule for leaf in self.leaves],
            arms=sorted(arms),
            recommended=[leaf.arm for leaf in self.leaves],
            fronts=[leaf.front for leaf in self.leaves],
        )

    def __iter__(self) -> Iterator[Segment]:
        return iter(self.leaves)

    def __len__(self) -> int:
        return len(self.leaves)

    def __str__(self) -> str:
        metrics = with_units(list(self.leaves[0].estimates), self.units)
        rows = [["who", "share", "arm", "front", *metrics, "same front"]]
        for leaf in self.leaves:
            estimates = map(str, leaf.estimates.values())
            front = ", ".join(leaf.front)
            rows.append([leaf.rule, f"{leaf.share:.0%}", leaf.arm, front, *estimates, f"{leaf.agreement:.0%}"])
        return (
            f"{as_text(rows)}\n\nBy these rules, {self.agreement:.0%} of the contexts have the same front as by the "
            f"policy, and {self.on_front:.0%} an arm on it."
        )


def find_segments(experiment: Experiment, policy: Served, contexts: FloatArray, max_leaves: int) -> Segments:
    """Grow a tree on the fronts of a policy, best split first."""
    if not len(contexts):
        raise ValueError("segments need at least one row; the table has none.")
    x = contexts[np.unique(np.linspace(0, len(contexts) - 1, MAX_CONTEXTS).astype(np.int64))]
    return segments_of(experiment, x, recommended(policy, x), estimates(policy, x), max_leaves)


def segments_of(
    experiment: Experiment,
    x: FloatArray,
    made: Sequence[Recommended],
    estimated: tuple[FloatArray, FloatArray],
    max_leaves: int,
) -> Segments:
    """The same for contexts (n, d) at which a policy has been asked already.

    Parameters
    ----------
    experiment
        What is declared.
    x
        The contexts.
    made
        What is recommended in each.
    estimated
        Means and radii of all arms in each, both (n, K, M).
    max_leaves
        How many segments at most.
    """
    (means, radii), n_arms = estimated, len(experiment.arms)
    on = np.zeros((len(x), n_arms), dtype=np.bool_)
    for flags, each in zip(on, made, strict=True):
        flags[list(each.front.arms)] = True
    chosen = np.array([each.arm for each in made])
    found, same, right = [], np.empty(len(x), dtype=np.bool_), np.empty(len(x), dtype=np.bool_)
    for members, rule in _grow(experiment.columns, x, on, max_leaves):
        shares = on[members].mean(axis=0)
        counts = np.bincount(chosen[members], minlength=n_arms)
        arm = int(np.lexsort((counts, shares))[-1])
        usual = shares > 0.5 if (shares > 0.5).any() else np.arange(n_arms) == arm
        same[members], right[members] = (on[members] == usual).all(axis=1), on[members, arm]
        average = (each[members, arm].mean(axis=0).tolist() for each in (means, radii))
        found.append(
            Segment(
                rule=_in_words(rule, experiment.columns),
                size=int(members.sum()),
                share=float(members.mean()),
                arm=experiment.arms[arm],
                front=tuple(experiment.arms[k] for k in np.flatnonzero(usual)),
                estimates=estimates_by_name(experiment.metrics, *average),
                agreement=float(same[members].mean()),
                conditions=tuple(Condition(question.column.name, question.value, yes) for question, yes in rule),
            )
        )
    found.sort(key=lambda leaf: -leaf.size)
    return Segments(tuple(found), float(same.mean()), float(right.mean()), units_of(experiment.metrics))


# ---- the tree -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Question:
    """Whether a column is below a number, or is a level; ``yes`` says for which contexts (n,) it is so."""

    column: Column
    value: Any
    yes: Flags


_Rule = tuple[tuple[_Question, bool], ...]  # questions and their answers


def _grow(columns: Sequence[Column], x: FloatArray, on: Flags, max_leaves: int) -> list[tuple[Flags, _Rule]]:
    """Leaves: which contexts (n,) are in each, and by which answers."""
    questions = list(_questions(columns, x))
    splits = np.array([question.yes for question in questions], dtype=np.float64).reshape(len(questions), len(x))
    everyone: Flags = np.ones(len(x), dtype=np.bool_)
    least = MIN_GAIN * max(float(_impurity(on.sum(axis=0, keepdims=True), np.array([len(x)]))[0]), 1.0)
    leaves: list[tuple[Flags, _Rule]] = [(everyone, ())]
    best = [_best_split(splits, everyone, on)]
    while len(leaves) < max_leaves:
        i = int(np.argmax([gain for gain, _ in best]))
        gain, place = best[i]
        if gain < least:
            break
        members, rule = leaves.pop(i)
        best.pop(i)
        question = questions[place]
        for part, answer in ((question.yes, True), (~question.yes, False)):
            leaves.append((members & part, (*rule, (question, answer))))
            best.append(_best_split(splits, members & part, on))
    return leaves


def _best_split(splits: FloatArray, members: Flags, on: Flags) -> tuple[float, int]:
    """How much the best question (of Q, (Q, n)) explains among some contexts, and which one it is."""
    if not len(splits):
        return -np.inf, 0
    inside, flags = splits[:, members], on[members].astype(np.float64)
    total, n_total = flags.sum(axis=0, keepdims=True), inside.shape[1]
    yes, n_yes = inside @ flags, inside.sum(axis=1)
    gains = _impurity(total, np.array([n_total])) - _impurity(yes, n_yes) - _impurity(total - yes, n_total - n_yes)
    gains[np.minimum(n_yes, n_total - n_yes) < max(MIN_SHARE * on.shape[0], 1.0)] = -np.inf
    place = int(gains.argmax())
    return float(gains[place]), place


def _impurity(counts: FloatArray, n: FloatArray) -> FloatArray:
    """How far sets of contexts are from having the same front: Gini's index of each arm, added up, times their size."""
    return np.asarray((counts * (1.0 - counts / np.maximum(n, 1.0)[:, None])).sum(axis=1))


def _questions(columns: Sequence[Column], x: FloatArray) -> Iterator[_Question]:
    for column, part in by_column(columns, x):
        values = column.levels if isinstance(column, Categorical) else _thresholds(column.decode(part))
        for value in values:
            yield _Question(column, value, _is_so(column, part, value))


def _is_so(column: Column, part: FloatArray, value: Any) -> Flags:
    """Where the coordinates (n, width) of a column are those of a level, or of a number below this one."""
    if isinstance(column, Categorical):
        return np.asarray(part[:, column.levels.index(value)] == 1.0)
    return np.asarray(column.decode(part) < value)


def _thresholds(values: FloatArray) -> list[float]:
    """Numbers with few digits that tell neighbouring values apart, at even shares of the contexts."""
    known = np.unique(values)
    places = np.unique(np.searchsorted(known, np.quantile(values, np.linspace(0, 1, MAX_THRESHOLDS + 2)[1:-1])))
    return [_short_between(known[i - 1], known[i]) for i in places.tolist() if i > 0]


def _short_between(low: float, high: float) -> float:
    """The number with the fewest digits that is above ``low`` and at most ``high``."""
    for digits in range(1, 17):
        for number in (float(f"{(low + high) / 2:.{digits}g}"), float(f"{high:.{digits}g}")):
            if low < number <= high:
                return number
    return float(high)


# ---- words ----------------------------------------------------------------------------------------------------------


def _in_words(rule: _Rule, columns: Sequence[Column]) -> str:
    parts = []
    for column in columns:
        answers = [(question.value, answer) for question, answer in rule if question.column is column]
        if answers:
            parts.append(
                _number_words(column, answers) if isinstance(column, Numeric) else _level_words(column, answers)
            )
    return " and ".join(parts) or "everyone"


def _number_words(column: Numeric, answers: Sequence[tuple[Any, bool]]) -> str:
    above = max((value for value, below in answers if not below), default=None)
    under = min((value for value, below in answers if below), default=None)
    if above is None:
        return f"{column.name} < {under:.12g}"
    return f"{column.name} >= {above:.12g}" if under is None else f"{above:.12g} <= {column.name} < {under:.12g}"


def _level_words(column: Categorical, answers: Sequence[tuple[Any, bool]]) -> str:
    chosen = [level for level, is_it in answers if is_it]
    others = [level for level, _ in answers]
    left = [level for level in column.levels if level not in others]
    if not chosen and column.unknown == "refuse" and len(left) <= len(others):
        chosen = left
    return f"{column.name} is {' or '.join(chosen)}" if chosen else f"{column.name} is not {' or '.join(others)}"
