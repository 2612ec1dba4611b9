"""A monitor that says, at any moment and with a bound on false alarms, that the population of contexts has moved."""

from __future__ import annotations

import os
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from conebandit.diagnose.dependence import Blocks, choose_from_first
from conebandit.diagnose.rank_bets import n_finite
from conebandit.diagnose.snapshot import ShiftAlarm, ShiftSnapshot
from conebandit.diagnose.watches import BlockWatch, ContextWatch, make_watches
from conebandit.validate import storage
from conebandit.validate.arguments import as_count, as_integer, as_number, as_seed
from conebandit.validate.arrays import FloatArray, as_floats
from conebandit.validate.storage import Arrays

Block = int | Literal["auto", "manual"]
_PREFIXES = ("", "pairs_")  # of the names of arrays in a file, by watch
_OPTIONS = ("context_dim", "alpha", "reference", "window", "block", "gap", "pairs")


class ShiftMonitor:
    """Watches a stream of contexts for a change of their law, with a guarantee that holds at every moment.

    The first contexts are the reference. Every later one is ranked among those before it: in each coordinate, by how
    high and by how far out it is in all of them, and in a tree over all of them. So are blocks of contexts, by the pair
    of coordinates that goes together most unlike before. Ranks of independent draws from one law, whatever law, are
    exactly uniform, and the monitor bets that they are not (``kernels/monitor.py`` says how, ``docs/shift.md`` why).
    If the law never changes, the probability of *ever* raising an alarm is at most ``alpha``, for any number of
    contexts.

    That holds for contexts that do not depend on each other. If they do, give a ``block``: then whole blocks are
    ranked, by how high, how far out and how much together their coordinates are on average, and the same holds if
    *blocks* are independent draws from one law, whatever goes on within them.

    Parameters
    ----------
    context_dim
        Number of coordinates, d. No bounds are needed.
    alpha
        Probability of a false alarm, ever.
    reference
        Number of contexts of the reference, 511 by default; with a block, number of blocks, 15 by default. One less
        than a power of two. A change within them goes unseen. With ``"auto"``, blocks are chosen from so many contexts,
        or from more if these are not enough.
    window
        How many recent contexts :meth:`snapshot` looks at; by default 512, or a block if that is more.
    seed
        Of the random order of equal values.
    block
        Number of contexts in a block. For a rhythm a whole period (or several): a week, say. For a dependence that
        fades, many times as long as it takes to fade. ``"auto"``: chosen from the first contexts by
        :func:`~conebandit.diagnose.dependence.choose_blocks`; that is 1 if they show no dependence. ``"manual"``: a
        block ends when :meth:`end_block` is called, every Sunday night, say.
    gap
        How many contexts at the beginning of each block are left out, so that blocks do not touch.
    pairs
        Whether to watch pairs of coordinates.

    Attributes
    ----------
    blocks
        Length (0 if they end by hand) and gap of the blocks; None as long as they are not chosen.

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
        self,
        context_dim: int,
        *,
        alpha: float = 0.01,
        reference: int | None = None,
        window: int | None = None,
        seed: int = 0,
        block: Block = 1,
        gap: int = 0,
        pairs: bool = True,
    ) -> None:
        self.context_dim = as_count(context_dim, "context_dim")
        self.alpha = as_number(alpha, "alpha", above=0, below=1)
        self.block, self.gap = _as_block(block, gap)
        self.reference = _as_reference(reference, self.block)
        usual = 512 if isinstance(self.block, str) else max(512, self.block)
        self.window = usual if window is None else as_count(window, "window")
        self.pairs = pairs
        self.seed, self._seed = seed, as_seed(seed)
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
        self.blocks: Blocks | None = None
        self.n_streams = 1
        self._watches: list[ContextWatch | BlockWatch] = []
        self._first = np.empty((0, self.context_dim))  # contexts from which blocks are to be chosen
        if self.block != "auto":
            self._begin(Blocks(0 if self.block == "manual" else self.block, self.gap))

    def _begin(self, blocks: Blocks, set_aside: int | None = None) -> None:
        """Set up the bets on blocks of this length."""
        self.blocks = blocks
        self._watches = make_watches(
            self.context_dim,
            blocks,
            reference=self.reference,
            set_aside=set_aside,
            alpha=self.alpha,
            window=self.window,
            pairs=self.pairs,
            seed=self._seed,
        )
        self.n_streams = sum(watch.bets.n_streams for watch in self._watches)

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

    def end_block(self) -> bool:
        """End a block, with ``block="manual"``; whether there is, or was, an alarm."""
        if self.block != "manual":
            raise ValueError(f"a block can be ended by hand only with block='manual'; got block={self.block!r}.")
        for watch in self._watches:
            if isinstance(watch, BlockWatch):
                watch.end_block()
        return any(watch.bets.has_alarm for watch in self._watches)

    def _feed(self, x: FloatArray) -> bool:
        """See contexts, (n, d)."""
        if self.blocks is None:
            x = self._choose_blocks(x)
        seen, alarm = len(x), False
        for watch in self._watches:
            seen = watch.feed(x if seen == len(x) else x[:seen])
            alarm |= watch.bets.has_alarm
        if seen < len(x):
            raise _not_finite(self.n_contexts, x[seen])
        return alarm

    def _choose_blocks(self, x: FloatArray) -> FloatArray:
        """Keep contexts until blocks can be chosen from them; gives those that are then to be fed."""
        good = n_finite(x)
        self._first = np.vstack([self._first, x[:good]])
        enough, blocks = choose_from_first(self._first, self.reference, len(self._first) - good)
        if blocks is not None:
            self._begin(blocks, enough)
            fed, self._first = self._first, self._first[:0]
            return np.vstack([fed, x[good:]])
        if good < len(x):
            raise _not_finite(self.n_contexts, x[good])
        return x[:0]

    # ---- what it knows ------------------------------------------------------------------------------------------

    @property
    def has_reference(self) -> bool:
        """Whether the reference is complete; before that there are no alarms."""
        return bool(self._watches) and self._watches[0].bets.has_reference

    @property
    def n_contexts(self) -> int:
        """Contexts seen since the start or the last reset."""
        return self._watches[0].n_contexts if self._watches else len(self._first)

    @property
    def alarm(self) -> ShiftAlarm | None:
        """The first alarm since the start or the last reset."""
        alarms = [watch.alarm for watch in self._watches]
        return min((alarm for alarm in alarms if alarm is not None), key=lambda alarm: alarm.at, default=None)

    @property
    def evidence(self) -> float:
        """Wealth of the richest stream, divided by the number of streams; an alarm is raised at 1 / alpha."""
        return max((watch.bets.wealth for watch in self._watches), default=1.0) / self.n_streams

    def recent(self) -> FloatArray:
        """The last contexts after the reference, oldest first; at most ``window``."""
        return self._watches[0].recent() if self._watches else self._first[:0]

    def snapshot(self, h: float | None = None, level: int | None = None) -> ShiftSnapshot:
        """Compare the recent window with the reference.

        Parameters
        ----------
        h
            Radius for the dissimilarity; by default the smallest 2^-k at which at most 5 % of the contexts of the
            reference have no other one near.
        level
            Of the dyadic cells, which have side 2^-level, from 0 to 50; by default so that 16 contexts of the reference
            fall into a cell on average, but at least 1.

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
        return ShiftSnapshot.compare(
            self._watches[0].before(),
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
        options = {name: getattr(self, name) for name in _OPTIONS}
        storage.write(path, type(self).__name__, {**options, "seed": int(self.seed)}, _kept(self))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a monitor that was written by :meth:`save`."""
        kind, options, arrays = storage.read(path)
        if kind != cls.__name__:
            raise storage.PolicyFileError(f"{os.fspath(path)!r} holds a {kind}, not a {cls.__name__}.")
        self = cls(**{"pairs": False} | options)  # which monitors did not have at first
        if self.block == "auto" and arrays.get("chosen", np.zeros(0)).shape == (3,):
            length, gap, set_aside = (int(number) for number in arrays["chosen"])
            self._first = arrays["first"]
            if length:
                self._begin(Blocks(length, gap), set_aside)
        _check_arrays(path, arrays, _kept(self))
        for prefix, watch in zip(_PREFIXES, self._watches, strict=False):
            watch.restore({name: arrays[prefix + name] for name in watch.kept()})
        return self


def _not_finite(n: int, x: FloatArray) -> ValueError:
    return ValueError(
        f"contexts must be finite; context {n} is {x.tolist()}. Those before it were seen; fill in missing values "
        "before, in the same way for all."
    )


def _kept(monitor: ShiftMonitor) -> Arrays:
    """The arrays that a file holds."""
    arrays: Arrays = {}
    watches = monitor._watches
    if monitor.block == "auto":
        set_aside = watches[0].n_aside if watches else 0
        arrays = {"first": monitor._first, "chosen": np.array([*(monitor.blocks or (0, 0)), set_aside])}
    for prefix, watch in zip(_PREFIXES, watches, strict=False):
        arrays |= {prefix + name: array for name, array in watch.kept().items()}
    return arrays


def _check_arrays(path: str | os.PathLike[str], arrays: Arrays, wanted: Arrays) -> None:
    """Refuse arrays of other names, shapes or types: kernels do not check, and would reach beyond them."""
    if set(arrays) != set(wanted):
        raise storage.PolicyFileError(
            f"{os.fspath(path)!r} was written by a version of conebandit whose monitor worked differently; feed "
            "the contexts to a new one."
        )
    for name, array in arrays.items():
        if (array.shape, array.dtype) != (wanted[name].shape, wanted[name].dtype):
            raise storage.PolicyFileError(f"{os.fspath(path)!r} is damaged: {name} has shape {array.shape}.")


def _as_block(block: Block, gap: int) -> tuple[Block, int]:
    """The length of blocks and their gap."""
    if not isinstance(block, str):
        length = as_count(block, "block")
        return length, as_integer(gap, "gap", least=0, most=length - 1, hint="less than block")
    if block not in ("auto", "manual"):
        raise ValueError(f"block must be a number of contexts, 'auto' or 'manual'; got {block!r}.")
    if block == "auto" and gap:
        raise ValueError(f"gap must be left out with block='auto', which chooses it as well; got {gap!r}.")
    return block, as_integer(gap, "gap", least=0)


def _as_reference(reference: int | None, block: Block) -> int:
    """Contexts, or blocks, of the reference."""
    least, usual, examples = (15, 511, "127, 255, 511") if block in (1, "auto") else (7, 15, "7, 15, 31")
    checked = usual if reference is None else as_count(reference, "reference")
    if checked < least or (checked + 1) & checked:
        raise ValueError(
            f"reference must be one less than a power of two, at least {least} ({examples}, ...); got {reference!r}."
        )
    return checked
