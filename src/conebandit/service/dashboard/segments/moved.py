"""What has moved in the population: traffic of segments over time, and two parts of a sample compared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conebandit.diagnose.report import Moved, shift_report
from conebandit.diagnose.rho import Rho
from conebandit.diagnose.tables import MIN_ROWS, Pair
from conebandit.experiment.columns import Categorical, Column, by_column
from conebandit.pages.chart import DAY
from conebandit.service.dashboard.counts.tally import Sample
from conebandit.service.dashboard.looks import Look
from conebandit.service.dashboard.segments.maps import ask, rows_within
from conebandit.service.dashboard.segments.rules import Rules, sample_of
from conebandit.validate.arrays import FloatArray

MAX_COMPARED = 500  # decisions of each part whose columns are compared
MAX_ASKED = 200  # of each part for which the policy is asked
MAX_PERIODS = 40  # bars of traffic over time
BINS = 10  # of the small picture of a number
SURE = 0.01  # probability with which any column at all is said to have moved although none has
_STEPS = [n * 1000 for n in (1, 5, 15, 60, 300, 900, 3600, 6 * 3600)]
_STEPS += [n * DAY for n in (1, 7, 28, 91, 364)]
# How far apart the shares below a value are, and how one says that.
SIZES = ((0.1, "hardly"), (0.25, "a little"), (0.5, "clearly"), (math.inf, "very much"))

Flags = NDArray[np.bool_]


class Period(NamedTuple):
    """A bar: from when to when, in milliseconds, how many decisions of the sample, and the share of each segment."""

    start: int
    end: int
    decisions: int
    shares: list[float]


class Part(NamedTuple):
    """A part of a sample: how many decisions, and when the first and the last of them were made."""

    decisions: int
    first: int
    last: int


class BeforeAfter(NamedTuple):
    """What has a share in both parts."""

    name: str
    before: float
    after: float


@dataclass(frozen=True)
class MovedColumn:
    """How a column, or a level of one, differs between two parts.

    Attributes
    ----------
    name
        In words.
    measured
        Means, the distance of Kolmogorov and Smirnov, and its p-value.
    surely
        Whether it is more than chance allows.
    size
        The distance in a word.
    bins
        Shares of both parts in bins of the column, for a picture.
    is_level
        Whether means are shares of a level.
    beyond
        Share of the later values that are smaller or larger than every earlier one.
    """

    name: str
    measured: Moved
    surely: bool
    size: str
    bins: tuple[list[float], list[float]]
    is_level: bool
    beyond: float


@dataclass(frozen=True)
class Comparison:
    """Two parts of a sample, an earlier one and a later one.

    Attributes
    ----------
    early, late
        Which these are.
    columns
        Those that moved most first.
    exchange, h
        How many earlier decisions one later one is worth, for what happens within h of a context.
    little_support
        Share of later contexts with fewer than five earlier ones that near.
    beyond
        Share of later contexts that are beyond all earlier ones in at least one of the columns that surely moved. In
        others, the more there are, chance alone puts many contexts there.
    arms, segments
        Share of the contexts to which each arm is recommended by the policy of now, and which follow each rule.
    """

    early: Part
    late: Part
    columns: list[MovedColumn]
    exchange: Rho | None
    h: float
    little_support: float | None
    beyond: float
    arms: list[BeforeAfter]
    segments: list[BeforeAfter]


def traffic(rules: Rules, sample: Sample) -> list[Period]:
    """Shares of segments over time, in periods of a length that people use."""
    first, last = int(sample.at[0]), int(sample.at[-1])
    step = next((s for s in _STEPS if (last - first) / s < MAX_PERIODS), (last - first) // MAX_PERIODS + 1)
    places = sample.at // step
    found = []
    for place in np.unique(places).tolist():
        inside = places == place
        found.append(Period(place * step, (place + 1) * step, int(inside.sum()), rules.shares(inside)))
    return found


def compare(look: Look, rules: Rules, sample: Sample, since: int | None) -> Comparison | None:
    """What came before a time and what after; by default the first third of a sample and its last third.

    Of a unit that comes again only the first context counts, as in the shift monitor. None if one part has too few.
    """
    own = sample.visit == 1
    if since is None:
        order = np.cumsum(own) - own
        early, late = own & (order < own.sum() / 3), own & (order >= own.sum() * 2 / 3)
    else:
        early, late = own & (sample.at < since), own & (sample.at >= since)
    if min(int(early.sum()), int(late.sum())) < MIN_ROWS:
        return None
    contexts = sample_of(look, sample)
    parts = [_evenly(contexts[flags], MAX_COMPARED) for flags in (early, late)]
    pair = as_pair(look.experiment.columns, *parts)
    report = shift_report(pair) if pair.columns else None
    columns = [] if report is None else [_moved_column(pair, moved, len(report.moved)) for moved in report.moved]
    beyond = _beyond(*pair.only([column.name for column in columns if column.surely]))
    rows = rows_within(look.policy, MAX_ASKED)
    shares = [_recommended(look, _evenly(part, rows)) for part in parts]
    return Comparison(
        early=_part(sample, early),
        late=_part(sample, late),
        columns=columns,
        exchange=None if report is None else report.exchange,
        h=math.nan if report is None else report.h,
        little_support=None if report is None else report.little_support,
        beyond=float(beyond.any(axis=1).mean()),
        arms=[BeforeAfter(*each) for each in zip(look.experiment.arms, *shares, strict=True) if max(each[1:]) > 0],
        segments=[
            BeforeAfter(segment.rule, before, after)
            for segment, before, after in zip(rules.segments, rules.shares(early), rules.shares(late), strict=True)
        ],
    )


def as_pair(columns: Sequence[Column], early: FloatArray, late: FloatArray) -> Pair:
    """Two tables of contexts as ``diagnose`` compares them: numbers in their units, and a column for each level.

    Of two levels the second is enough. Columns that are the same everywhere are left out.

    Examples
    --------
    >>> device = Categorical("device", ("phone", "desk"))
    >>> pair = as_pair([device], np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]]))
    >>> pair.columns, pair.source.tolist(), pair.target.tolist()
    (('device is desk',), [[0.0]], [[1.0]])
    """
    names, tables = [], []
    for column, part in by_column(columns, np.vstack([early, late])):
        if isinstance(column, Categorical):
            enough = 1 if len(column.levels) == 2 and column.unknown == "refuse" else 0
            names += [f"{column.name} is {level}" for level in column.levels[enough:]]
            tables += list(part.T[enough:])
        else:
            names.append(column.name)
            tables.append(column.decode(part))
    kept = [k for k, values in enumerate(tables) if (values != values[0]).any()]
    both = np.column_stack([tables[k] for k in kept]) if kept else np.empty((len(early) + len(late), 0))
    return Pair(tuple(names[k] for k in kept), both[: len(early)], both[len(early) :], ())


def _moved_column(pair: Pair, moved: Moved, n_columns: int) -> MovedColumn:
    before, after = (table[:, 0] for table in pair.only([moved.column]))
    both = np.concatenate([before, after])
    is_level = bool(np.isin(both, (0.0, 1.0)).all())
    edges = np.linspace(both.min(), both.max(), (2 if is_level else BINS) + 1)
    bins = [(np.histogram(values, edges)[0] / len(values)).tolist() for values in (before, after)]
    return MovedColumn(
        name=moved.column,
        measured=moved,
        surely=moved.p_value < SURE / n_columns,
        size=next(word for most, word in SIZES if moved.distance < most),
        bins=(bins[0], bins[1]),
        is_level=is_level,
        beyond=float(_beyond(before, after).mean()),
    )


def _beyond(early: FloatArray, late: FloatArray) -> Flags:
    """Which later values are smaller or larger than every earlier one of their column."""
    return np.asarray((late < early.min(axis=0)) | (late > early.max(axis=0)))


def _recommended(look: Look, contexts: FloatArray) -> list[float]:
    """Share of some contexts (n, d) to which each arm is recommended."""
    arms = [made.arm for made in ask(look, contexts)]
    return (np.bincount(arms, minlength=look.policy.n_arms) / len(arms)).tolist()  # type: ignore[no-any-return]


def _evenly(rows: FloatArray, most: int) -> FloatArray:
    return rows[np.unique(np.linspace(0, len(rows) - 1, most).astype(np.int64))]


def _part(sample: Sample, flags: Flags) -> Part:
    times = sample.at[flags]
    return Part(int(flags.sum()), int(times[0]), int(times[-1]))
