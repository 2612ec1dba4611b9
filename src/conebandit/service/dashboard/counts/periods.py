"""Numbers by hour and by day."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from conebandit.service.dashboard.counts.tally import DAY, HOUR, Periods

YOUNG = 3 * DAY  # milliseconds for which an experiment is shown by the hour

Counts = Counter[tuple[int, int]]  # by period and by what it is that was counted


class Series:
    """How often each of some things happened, by day, and in the first days by hour.

    Examples
    --------
    >>> series = Series()
    >>> series.add(since=0, times=[5, HOUR, 4 * DAY], things=[0, 1, 1])
    >>> dict(series.hours), dict(series.days)
    ({(0, 0): 1, (1, 1): 1}, {(0, 0): 1, (0, 1): 1, (4, 1): 1})
    """

    def __init__(self) -> None:
        self.days: Counts = Counter()
        self.hours: Counts = Counter()

    def add(self, since: int, times: Iterable[int], things: Iterable[int]) -> None:
        """Count things that happened at these times; the experiment began at ``since``."""
        young = (since + YOUNG) // HOUR
        for (hour, thing), count in Counter(zip([at // HOUR for at in times], things, strict=True)).items():
            self.days[hour * HOUR // DAY, thing] += count
            if hour <= young:
                self.hours[hour, thing] += count

    def totals(self, n: int) -> list[int]:
        """How often each of ``n`` things happened."""
        sums = Counter[int]()
        for (_, thing), count in self.days.items():
            sums[thing] += count
        return [sums[thing] for thing in range(n)]


def by_day(served: Series, came: Series, arms: Sequence[str], metrics: Sequence[str]) -> Periods:
    """Decisions by arm, and values by metric, for each day."""
    return _periods(DAY, served.days, came.days, arms, metrics)


def by_hour(served: Series, came: Series, arms: Sequence[str], metrics: Sequence[str]) -> Periods:
    """The same for each hour."""
    return _periods(HOUR, served.hours, came.hours, arms, metrics)


def _periods(length: int, served: Counts, came: Counts, arms: Sequence[str], metrics: Sequence[str]) -> Periods:
    when = sorted({period for counts in (served, came) for period, _ in counts})
    row = {period: k for k, period in enumerate(when)}
    by_arm, by_metric = _table(served, row, len(arms)), _table(came, row, len(metrics))
    used = [k for k in range(len(arms)) if by_arm[k].any()]
    return Periods(
        length=length,
        starts=np.array(when, dtype=np.int64) * length,
        decisions=by_arm.sum(axis=0),
        by_arm={arms[k]: by_arm[k] for k in used},
        outcomes={name: by_metric[k] for k, name in enumerate(metrics)},
    )


def _table(counts: Counts, row: dict[int, int], n: int) -> NDArray[np.int64]:
    """By thing and by period."""
    table = np.zeros((n, len(row)), dtype=np.int64)
    for (period, thing), count in counts.items():
        table[thing, row[period]] = count
    return table
