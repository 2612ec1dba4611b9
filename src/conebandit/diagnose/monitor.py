"""A monitor that says, at any moment and with a bound on false alarms, that the population of contexts has moved."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conebandit._validate import FloatArray, as_floats
from conebandit.diagnose.rho import Rho, rho
from conebandit.kernels import monitor as kernels
from conebandit.policies import storage
from conebandit.policies.base import as_count, as_seed

LITTLE = 5  # fewer reference contexts than this in a cell are little support
POWERS = (0.25, 0.5, 0.75)  # bets on small ranks, u^(k - 1) scaled, and mirrored on large ones


@dataclass(frozen=True)
class Alarm:
    """When a shift was seen, in what, and when it probably began.

    Attributes
    ----------
    at
        Number of contexts seen when the alarm was raised.
    coordinate
        Which coordinate gave it away; None if only all of them together did.
    change_point
        Estimated number of contexts before the change.
    """

    at: int
    coordinate: int | None
    change_point: int


@dataclass(frozen=True)
class Snapshot:
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
    """

    contexts: int
    evidence: float
    alarm: Alarm | None
    rho: Rho
    h: float
    cells: NDArray[np.int64]
    before: FloatArray
    after: FloatArray
    level: int
    little_support: float


class ShiftMonitor:
    """Watches a stream of contexts for a change of their law, with a guarantee that holds at every moment.

    The first contexts are the reference. Every later one is ranked among all before it, in each coordinate and in a
    tree over all of them; ranks of independent draws from one law, whatever law, are exactly uniform, and the monitor
    bets that they are not (``kernels/monitor.py`` says how, ``docs/shift.md`` why). If the law never changes, the
    probability of *ever* raising an alarm is at most ``alpha``, for any number of contexts.

    Parameters
    ----------
    context_dim
        Number of coordinates, d. No bounds are needed.
    alpha
        Probability of a false alarm, ever.
    reference
        Number of contexts of the reference, one less than a power of two. A change within them goes unseen.
    window
        How many recent contexts :meth:`snapshot` looks at.
    seed
        Of the random order of equal values.

    Attributes
    ----------
    has_reference
        Whether the reference is complete; before that there are no alarms.

    Examples
    --------
    >>> import numpy as np, conebandit as cb
    >>> from conebandit.environments import shift
    >>> schedule = shift.change_point(shift.power_law(3), shift.uniform(), at=2000)
    >>> monitor = cb.ShiftMonitor(context_dim=1)
    >>> monitor.update_many(schedule.sample(np.random.default_rng(0), 2100))
    True
    >>> 2000 < monitor.alarm.at < 2050, abs(monitor.alarm.change_point - 2000) < 20
    (True, True)
    """

    def __init__(
        self, context_dim: int, *, alpha: float = 0.01, reference: int = 511, window: int = 512, seed: int = 0
    ) -> None:
        self.context_dim = as_count(context_dim, "context_dim")
        if not 0.0 < alpha < 1.0:
            raise ValueError(f"alpha must lie between 0 and 1; got {alpha!r}.")
        self.alpha = float(alpha)
        self.reference = as_count(reference, "reference")
        if self.reference < 15 or (self.reference + 1) & self.reference:
            raise ValueError(
                f"reference must be one less than a power of two, at least 15 (127, 255, 511, ...); got {reference!r}."
            )
        self.window = as_count(window, "window")
        self.seed, self._seed = seed, as_seed(seed)
        self.n_streams = self.context_dim + (self.context_dim > 1)
        self._shape = (self.context_dim,)
        self.reset()

    def reset(self) -> None:
        """Begin anew: the next contexts are the reference. The bound on false alarms holds from one reset to the next.

        Examples
        --------
        >>> import numpy as np, conebandit as cb
        >>> monitor = cb.ShiftMonitor(context_dim=1, reference=127)
        >>> _ = monitor.update_many(np.random.default_rng(0).random((500, 1)))
        >>> monitor.reset()
        >>> monitor.n_contexts, monitor.has_reference
        (0, False)
        """
        self.has_reference = False
        bets = np.zeros((self.n_streams, _TABLE.shape[1] + len(kernels.MEMORY), 3))
        self._state = kernels.State(
            size=np.array([0, -1, -1, -1]),
            cuts=np.empty((self.n_streams, self.reference, 2)),
            lefts=np.zeros((self.n_streams, self.reference), dtype=np.int64),
            bets=bets,
            lately=np.full((self.n_streams, len(kernels.MEMORY), kernels.BINS), 1.0 / kernels.BINS),
            table=_TABLE,
            rows=np.empty((self.reference + self.window, self.context_dim)),
            limit=np.array([self.n_streams / self.alpha]),
        )

    # ---- feeding ------------------------------------------------------------------------------------------------

    def update(self, context: ArrayLike) -> bool:
        """See one context, shape (d,); whether there is, or was, an alarm."""
        x = as_floats(context, "context")
        if x.shape != self._shape:
            raise ValueError(f"context must have shape {self._shape}; got {x.shape}.")
        return self._feed(x[None])

    def update_many(self, contexts: ArrayLike) -> bool:
        """See contexts, shape (n, d), one after the other; whether there is, or was, an alarm."""
        x = as_floats(contexts, "contexts")
        if x.ndim != 2 or x.shape[1:] != self._shape:
            raise ValueError(f"contexts must have shape (n, {self.context_dim}); got {x.shape}.")
        return self._feed(x)

    def _feed(self, x: FloatArray) -> bool:
        if not self.has_reference:
            missing = self.reference - self.n_contexts
            self._fill_reference(x[:missing])
            x = x[missing:]
            if not len(x):
                return False
        code = kernels.watch(*self._state, self._seed, x)
        if code < 0:
            self._refuse(x[-1 - code])
        return code > 0

    def _fill_reference(self, x: FloatArray) -> None:
        size = self._state.size
        bad = ~np.isfinite(x).all(axis=1)
        good = int(np.argmax(bad)) if bad.any() else len(x)
        seen = int(size[kernels.SEEN])
        self._state.rows[seen : seen + good] = x[:good]
        size[kernels.SEEN] += good
        if good < len(x):
            self._refuse(x[good])
        if size[kernels.SEEN] == self.reference:
            self._plant_trees()
            self.has_reference = True

    def _refuse(self, x: FloatArray) -> None:
        raise ValueError(
            f"contexts must be finite; context {self.n_contexts} is {x.tolist()}. Those before it were seen; fill in "
            "missing values before, in the same way for all."
        )

    def _plant_trees(self) -> None:
        """Cuts of all streams: in each node the middle one of its contexts, by one coordinate, ties by chance."""
        d = self.context_dim
        rows = self._state.rows[: self.reference]
        ties = np.array([[kernels.tie_breaker(self._seed, i, m, d) for m in range(d)] for i in range(self.reference)])
        for s in range(self.n_streams):
            members = np.arange(self.reference)[None]  # (nodes of the level, contexts in each)
            for depth in range(self.reference.bit_length()):
                axis = s if s < d else depth % d
                order = np.lexsort((ties[members, axis], rows[members, axis]), axis=-1)
                members = np.take_along_axis(members, order, axis=-1)
                half = members.shape[1] // 2
                middle = members[:, half]
                nodes = slice(2**depth - 1, 2 ** (depth + 1) - 1)
                self._state.cuts[s, nodes, kernels.VALUE] = rows[middle, axis]
                self._state.cuts[s, nodes, kernels.TIE] = ties[middle, axis]
                members = np.stack([members[:, :half], members[:, half + 1 :]], axis=1).reshape(2 * len(middle), half)

    # ---- what it knows ------------------------------------------------------------------------------------------

    @property
    def n_contexts(self) -> int:
        """Contexts seen since the start or the last reset."""
        return int(self._state.size[kernels.SEEN])

    @property
    def alarm(self) -> Alarm | None:
        """The first alarm since the start or the last reset."""
        at, stream, change = (int(self._state.size[i]) for i in (kernels.ALARM, kernels.STREAM, kernels.CHANGE))
        if at < 0:
            return None
        return Alarm(at, stream if stream < self.context_dim else None, change)

    @property
    def evidence(self) -> float:
        """Wealth of the richest stream, divided by the number of streams; an alarm is raised at 1 / alpha."""
        t = max(self.n_contexts - self.reference, 0)
        cash = np.log(kernels.PATIENCE) / np.log(kernels.PATIENCE + t)
        best = float(self._state.bets[:, :, kernels.WEALTH].mean(axis=1).max())
        return (best + float(cash)) / self.n_streams

    def recent(self) -> FloatArray:
        """The last contexts after the reference, oldest first; at most ``window``."""
        late = min(max(self.n_contexts - self.reference, 0), self.window)
        places = np.arange(self.n_contexts - late, self.n_contexts) % self.window
        return self._state.rows[self.reference + places]

    def snapshot(self, h: float | None = None, level: int | None = None) -> Snapshot:
        """Compare the recent window with the reference.

        Parameters
        ----------
        h
            Radius for the dissimilarity; by default the smallest 2^-k at which at most 5 % of the contexts of the
            reference have no other one near.
        level
            Of the dyadic cells, which have side 2^-level; by default so that 16 contexts of the reference fall into a
            cell on average, but at least 1.

        Examples
        --------
        >>> import numpy as np, conebandit as cb
        >>> rng = np.random.default_rng(0)
        >>> monitor = cb.ShiftMonitor(context_dim=1)
        >>> _ = monitor.update_many(np.vstack([rng.random((511, 1)), 2 * rng.random((500, 1))]))
        >>> round(monitor.snapshot().little_support, 1)
        0.5
        """
        late = self.recent()
        if not len(late):
            raise ValueError(
                f"a snapshot needs contexts after the reference of {self.reference}; got {self.n_contexts}."
            )
        before = self._state.rows[: self.reference].copy()
        radius = filled_radius(before) if h is None else h
        depth = max(1, int(np.log2((self.reference + 1) / 16) // self.context_dim)) if level is None else level
        cells, counts = _cells(before, late, depth)
        return Snapshot(
            contexts=self.n_contexts,
            evidence=self.evidence,
            alarm=self.alarm,
            rho=rho(before, late, radius, seed=int(self.seed)),
            h=radius,
            cells=cells,
            before=counts[0] / len(before),
            after=counts[1] / len(late),
            level=depth,
            little_support=float(counts[1][counts[0] < LITTLE].sum() / len(late)),
        )

    # ---- keeping ------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the monitor to a file; :meth:`load` reads it back bit for bit."""
        options = {name: getattr(self, name) for name in ("context_dim", "alpha", "reference", "window")}
        arrays = {name: a for name, a in self._state._asdict().items() if name not in ("table", "limit")}
        storage.write(path, type(self).__name__, {**options, "seed": int(self.seed)}, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a monitor that was written by :meth:`save`."""
        kind, options, arrays = storage.read(path)
        if kind != cls.__name__:
            raise storage.PolicyFileError(f"{os.fspath(path)!r} holds a {kind}, not a {cls.__name__}.")
        self = cls(**options)
        fresh = self._state._asdict()
        for name, array in arrays.items():  # kernels do not check: a wrong shape would reach beyond the array
            if name not in fresh or (array.shape, array.dtype) != (fresh[name].shape, fresh[name].dtype):
                raise storage.PolicyFileError(f"{os.fspath(path)!r} is damaged: {name} has shape {array.shape}.")
        self._state = self._state._replace(**arrays)
        self.has_reference = self.n_contexts >= self.reference
        return self


def filled_radius(rows: FloatArray) -> float:
    """The smallest 2^-k at which at most 5 % of the rows have no other row near; 1/2 if there is none."""
    radius = 0.5
    for k in range(2, 11):
        if rho(rows, rows, 2.0**-k, resamples=2).empty > 0.05:
            break
        radius = 2.0**-k
    return radius


def _cells(before: FloatArray, after: FloatArray, level: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Dyadic cells, of the box around both, that hold something; and counts of both in them, shape (2, C)."""
    both = np.vstack([before, after])
    low, span = both.min(axis=0), np.ptp(both, axis=0)
    scaled = (both - low) / np.where(span > 0.0, span, 1.0)
    index = np.minimum((scaled * 2**level).astype(np.int64), 2**level - 1)
    cells, where = np.unique(index, axis=0, return_inverse=True)
    parts = (where.ravel()[: len(before)], where.ravel()[len(before) :])
    return cells, np.array([np.bincount(part, minlength=len(cells)) for part in parts])


def _fixed_bets() -> FloatArray:
    """Densities that are constant on each of GRID cells, shape (GRID, bets).

    Powers of u and of 1 - u (ranks that are too low or too high), of the distance to the nearer end (too far out) and
    to the middle (too far in). Each is the mean of the density over its cell, so that it adds up to one exactly.
    """
    ends = np.linspace(0.0, 1.0, kernels.GRID + 1)
    low = [ends**k for k in POWERS]
    high = [1.0 - (1.0 - ends) ** k for k in POWERS]
    out = np.where(ends < 0.5, 0.5 * (2 * ends) ** 0.5, 1.0 - 0.5 * np.abs(2 * (1 - ends)) ** 0.5)
    centre = 2 * ends - 1
    inside = 0.5 + 0.5 * np.sign(centre) * np.abs(centre) ** 0.5
    return np.ascontiguousarray(kernels.GRID * np.diff(np.array([*low, *high, out, inside]), axis=1).T)


_TABLE = _fixed_bets()
