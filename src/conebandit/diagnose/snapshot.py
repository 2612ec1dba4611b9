"""What a shift monitor reports: its alarm, and how recent contexts differ from those of the reference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conebandit.diagnose.cells import MAX_LEVEL, dyadic_cells, to_unit_cube
from conebandit.diagnose.rho import Rho, rho
from conebandit.validate.arguments import as_integer
from conebandit.validate.arrays import FloatArray

MIN_SUPPORT = 5  # contexts of the reference; what is learned near fewer of them rests on little
CONTEXTS_PER_CELL = 16  # of the reference, on average, by default


@dataclass(frozen=True)
class ShiftAlarm:
    """When a shift was seen, in what, and when it probably began.

    Attributes
    ----------
    at
        Number of contexts seen when the alarm was raised.
    coordinate
        Which coordinate gave it away; None if several together did so more clearly than any alone.
    change_point
        Estimated number of contexts before the change.
    pair
        Which two coordinates gave it away by going together, or apart, unlike before; None if that is not what did.

    Examples
    --------
    >>> import numpy as np, conebandit as cb
    >>> monitor = cb.ShiftMonitor(1)
    >>> rng = np.random.default_rng(0)
    >>> _ = monitor.update_many(np.concatenate([rng.uniform(size=(2000, 1)), rng.uniform(0.5, 1.0, size=(500, 1))]))
    >>> monitor.alarm.coordinate, abs(monitor.alarm.change_point - 2000) < 50
    (0, True)
    """

    at: int
    coordinate: int | None
    change_point: int
    pair: tuple[int, int] | None = None


@dataclass(frozen=True)
class ShiftSnapshot:
    """How recent contexts differ from those of the reference.

    Attributes
    ----------
    contexts
        How many the monitor has seen.
    evidence
        Factor by which the bets against "nothing has changed" have multiplied their stake; an alarm at 1 / alpha.
    alarm
        The alarm, if there was one.
    rho
        Dissimilarity between the reference (source) and the recent window (target).
    h
        Its radius, as a share of the range of each coordinate.
    cells
        Shape (C, d), indices of the dyadic cells that hold a context of either window; cells have side 2^-level.
    before, after
        Shape (C,), share of the reference and of the recent window in each cell.
    level
        Of the cells.
    little_support
        Share of the recent window in cells with fewer than five contexts of the reference.

    Examples
    --------
    >>> import numpy as np, conebandit as cb
    >>> monitor = cb.ShiftMonitor(1)
    >>> _ = monitor.update_many(np.random.default_rng(0).uniform(size=(3000, 1)))
    >>> now = monitor.snapshot()
    >>> now.contexts, now.alarm, now.little_support < 0.1
    (3000, None, True)
    """

    contexts: int
    evidence: float
    alarm: ShiftAlarm | None
    rho: Rho
    h: float
    cells: NDArray[np.int64]
    before: FloatArray
    after: FloatArray
    level: int
    little_support: float

    @classmethod
    def compare(
        cls,
        reference: FloatArray,
        recent: FloatArray,
        *,
        h: float | None,
        level: int | None,
        seed: int,
        contexts: int,
        evidence: float,
        alarm: ShiftAlarm | None,
    ) -> ShiftSnapshot:
        """Compare two windows of contexts, (R, d) and (n, d); ``h`` and ``level`` as for ``ShiftMonitor.snapshot``."""
        radius = filled_radius(reference) if h is None else h
        depth = _usual_level(reference) if level is None else as_integer(level, "level", least=0, most=MAX_LEVEL)
        cells, where = dyadic_cells(to_unit_cube(np.vstack([reference, recent])), depth)
        before, after = (
            np.bincount(part, minlength=len(cells)) for part in (where[: len(reference)], where[len(reference) :])
        )
        return cls(
            contexts=contexts,
            evidence=evidence,
            alarm=alarm,
            rho=rho(reference, recent, radius, seed=seed),
            h=radius,
            cells=cells,
            before=before / len(reference),
            after=after / len(recent),
            level=depth,
            little_support=float(after[before < MIN_SUPPORT].sum() / len(recent)),
        )


def filled_radius(rows: FloatArray) -> float:
    """The smallest 2^-k at which at most 5 % of the rows have no other row near; 1/2 if there is none."""
    radius = 0.5
    for k in range(2, 11):
        if rho(rows, rows, 2.0**-k, resamples=2).is_lower_bound:
            break
        radius = 2.0**-k
    return radius


def _usual_level(reference: FloatArray) -> int:
    """The level at which a cell holds ``CONTEXTS_PER_CELL`` contexts of the reference on average, but at least 1."""
    size, dim = reference.shape
    return max(1, int(np.log2((size + 1) / CONTEXTS_PER_CELL) // dim))
