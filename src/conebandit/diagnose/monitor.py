"""A monitor that says, at any moment and with a bound on false alarms, that the population of contexts has moved."""

from __future__ import annotations

import os
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from conebandit.diagnose.snapshot import ShiftAlarm, ShiftSnapshot
from conebandit.kernels import monitor as kernels
from conebandit.validate import storage
from conebandit.validate.arguments import as_count, as_number, as_seed
from conebandit.validate.arrays import FloatArray, as_floats

_NOT_KEPT = ("logs", "columns", "limit")  # arrays that follow from the options, or are only room to work


class ShiftMonitor:
    """Watches a stream of contexts for a change of their law, with a guarantee that holds at every moment.

    The first contexts are the reference. Every later one is ranked among those before it: in each coordinate, by how
    high and by how far out it is in all of them, and in a tree over all of them. Ranks of independent draws from one
    law, whatever law, are exactly uniform, and the monitor bets that they are not (``kernels/monitor.py`` says how,
    ``docs/shift.md`` why). If the law never changes, the probability of *ever* raising an alarm is at most ``alpha``,
    for any number of contexts.

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
        self.alpha = as_number(alpha, "alpha", above=0, below=1)
        self.reference = as_count(reference, "reference")
        if self.reference < 15 or (self.reference + 1) & self.reference:
            raise ValueError(
                f"reference must be one less than a power of two, at least 15 (127, 255, 511, ...); got {reference!r}."
            )
        self.window = as_count(window, "window")
        self.seed, self._seed = seed, as_seed(seed)
        several = self.context_dim > 1
        self._n_columns = self.context_dim + 2 * several  # coordinates, level and spread: what streams look at
        self.n_streams = self._n_columns + several
        self._shape = (self.context_dim,)
        self.reset()

    def reset(self) -> None:
        """Start again: the next contexts are the reference. The bound on false alarms holds from one reset to the next.

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
        options = (self.context_dim, self.reference, self.window)
        self._at = kernels.places(*options)
        fixed = (*options, self._seed.astype(np.int64), kernels.LANE)
        self._size = np.array([0, -1, -1, -1, *fixed, *[0] * self.n_streams], dtype=np.int64)
        self._room = np.zeros(self._at.end)
        kernels.groups(self._room, self._at)[:, kernels.HIGHS] = 1.0  # in empty lanes all ranks are [0, 1]
        state = self._state
        state.lately[:] = np.linspace(0.0, 1.0, kernels.BINS + 1)
        kernels.put_bets(self._room, self._at, state.bets, state.lately)
        state.logs[:] = np.log(np.maximum(np.arange(self.reference + 3), 1) / (self.reference + 3))
        state.limit[:] = self.n_streams / self.alpha

    @property
    def _state(self) -> kernels.State:
        return kernels.arrays(self._size, self._room)

    # ---- feeding ------------------------------------------------------------------------------------------------

    def update(self, context: ArrayLike) -> bool:
        """See one context, shape (d,); whether there is, or was, an alarm."""
        x = as_floats(context, "context")
        if x.shape != self._shape:
            raise ValueError(f"context must have shape {self._shape}; got {x.shape}.")
        return self._feed(x)

    def update_many(self, contexts: ArrayLike) -> bool:
        """See contexts, shape (n, d), one after the other; whether there is, or was, an alarm."""
        x = as_floats(contexts, "contexts")
        if x.ndim != 2 or x.shape[1:] != self._shape:
            raise ValueError(f"contexts must have shape (n, {self.context_dim}); got {x.shape}.")
        return self._feed(x.reshape(-1))

    def _feed(self, x: FloatArray) -> bool:
        """See contexts that follow each other in a flat array."""
        if not self.has_reference:
            missing = (self.reference - self.n_contexts) * self.context_dim
            self._fill_reference(x[:missing].reshape(-1, self.context_dim))
            x = x[missing:]
            if not len(x):
                return False
        code = kernels.watch(self._size, self._room, x)
        if code < 0:
            self._refuse(x.reshape(-1, self.context_dim)[-1 - code])
        return code > 0

    def _fill_reference(self, x: FloatArray) -> None:
        size = self._size
        bad = ~np.isfinite(x).all(axis=1)
        good = int(np.argmax(bad)) if bad.any() else len(x)
        start = self._at.rows + self.n_contexts * self.context_dim
        self._room[start : start + good * self.context_dim] = x[:good].ravel()
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
        """Balanced trees of the reference; those of level and spread only of what comes after its first half."""
        state, half, d = self._state, (self.reference + 1) // 2, self.context_dim
        rows = state.rows[: self.reference]
        state.ordered[:] = np.sort(rows[:half], axis=0).T
        values = np.empty((self.reference, self._n_columns))
        for i in range(self.reference):
            kernels.fill_columns(self._room, self._at, rows[i])
            values[i] = state.columns
        ties = np.array(
            [
                [kernels.tie_breaker(self._seed, i, c, self._n_columns) for c in range(self._n_columns)]
                for i in range(self.reference)
            ]
        )
        for s in range(self.n_streams):
            first = half if d <= s < self._n_columns else 0
            axes = [s] if s < self._n_columns else list(range(d))
            _plant(state.nodes[s], values[first:, axes], ties[first:, axes])

    # ---- what it knows ------------------------------------------------------------------------------------------

    @property
    def n_contexts(self) -> int:
        """Contexts seen since the start or the last reset."""
        return int(self._size[kernels.SEEN])

    @property
    def alarm(self) -> ShiftAlarm | None:
        """The first alarm since the start or the last reset."""
        at, stream, change = (int(self._size[i]) for i in (kernels.ALARM, kernels.STREAM, kernels.CHANGE))
        if at < 0:
            return None
        return ShiftAlarm(at, stream if stream < self.context_dim else None, change)

    @property
    def evidence(self) -> float:
        """Wealth of the richest stream, divided by the number of streams; an alarm is raised at 1 / alpha."""
        cash = kernels.cash_after(float(max(self.n_contexts - self.reference, 0)))
        best = float(kernels.wealth(self._room, self._at).sum(axis=1).max())
        return (best + cash) / self.n_streams

    def recent(self) -> FloatArray:
        """The last contexts after the reference, oldest first; at most ``window``."""
        late = min(max(self.n_contexts - self.reference, 0), self.window)
        places = np.arange(self.n_contexts - late, self.n_contexts) % self.window
        return self._state.rows[self.reference + places]

    def snapshot(self, h: float | None = None, level: int | None = None) -> ShiftSnapshot:
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
        return ShiftSnapshot.compare(
            before,
            late,
            h=h,
            level=level,
            seed=int(self.seed),
            contexts=self.n_contexts,
            evidence=self.evidence,
            alarm=self.alarm,
        )

    # ---- keeping ------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the monitor to a file; :meth:`load` reads it back bit for bit."""
        options = {name: getattr(self, name) for name in ("context_dim", "alpha", "reference", "window")}
        state = self._state._asdict()
        arrays = {name: np.ascontiguousarray(a) for name, a in state.items() if name not in _NOT_KEPT}
        storage.write(path, type(self).__name__, {**options, "seed": int(self.seed)}, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a monitor that was written by :meth:`save`."""
        kind, options, arrays = storage.read(path)
        if kind != cls.__name__:
            raise storage.PolicyFileError(f"{os.fspath(path)!r} holds a {kind}, not a {cls.__name__}.")
        self = cls(**options)
        fresh = self._state._asdict()
        if set(arrays) != set(fresh) - set(_NOT_KEPT):
            raise storage.PolicyFileError(
                f"{os.fspath(path)!r} was written by a version of conebandit whose monitor worked differently; feed "
                "the contexts to a new one."
            )
        for name, array in arrays.items():  # kernels do not check: a wrong shape would reach beyond the array
            if (array.shape, array.dtype) != (fresh[name].shape, fresh[name].dtype):
                raise storage.PolicyFileError(f"{os.fspath(path)!r} is damaged: {name} has shape {array.shape}.")
        for name, array in arrays.items():
            fresh[name][:] = array
        kernels.put_bets(self._room, self._at, fresh["bets"], fresh["lately"])
        self.has_reference = self.n_contexts >= self.reference
        return self


def _plant(nodes: FloatArray, values: FloatArray, ties: FloatArray) -> None:
    """A balanced tree of n = 2^k - 1 contexts: in each node the middle one of its contexts, by the columns in turn."""
    members = np.arange(len(values))[None]  # (nodes of the level, contexts in each)
    for depth in range(len(values).bit_length()):
        axis = depth % values.shape[1]
        order = np.lexsort((ties[members, axis], values[members, axis]), axis=-1)
        members = np.take_along_axis(members, order, axis=-1)
        half = members.shape[1] // 2
        middle = members[:, half]
        level = nodes[2**depth - 1 : 2 ** (depth + 1) - 1]
        level[:, kernels.VALUE], level[:, kernels.TIE] = values[middle, axis], ties[middle, axis]
        level[:, kernels.LEFT] = half + 1
        members = np.stack([members[:, :half], members[:, half + 1 :]], axis=1).reshape(2 * len(middle), half)
