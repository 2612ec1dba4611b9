"""The skeleton of policies whose state is a tuple of arrays and whose steps are kernels."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conebandit.geometry.cone import as_saved
from conebandit.kernels.floor import explored
from conebandit.kernels.types import Batch, Chunk
from conebandit.policies import one_by_one
from conebandit.policies.base import Decision, Decisions, Front, chances_at, fronts_of
from conebandit.policies.layout import Layout, Limits
from conebandit.policies.logs import LogPolicy
from conebandit.validate import storage
from conebandit.validate.arguments import Key, as_key, as_keys
from conebandit.validate.arrays import FloatArray

_BOOL = np.dtype(np.bool_)  # to look it up takes a while


@dataclass(eq=False, repr=False)
class CompiledPolicy(LogPolicy):
    """Everything but the algorithm: arguments, growing arrays, saving, the loop over a chunk.

    A policy is a subclass and a file of kernels. The subclass is a dataclass whose fields are the settings. It says in
    a :class:`~conebandit.policies.layout.Layout` what the arrays of its state are, and gives those that are not simply
    filled with numbers (``_given``). The file of kernels has four functions:

    ``choose(state, seed, x, key, active, reported, chances) -> arm``
        Pure; fills ``active`` and ``reported``, both (K,) booleans, and the probabilities ``chances`` (K,) of all arms.
    ``learn(state, x, arm, reward)``
        One observation, nan for an unknown metric; the only one that writes into the state, which has room for it.
    ``estimate(state, x, means, radii)``
        Fills (K, M) estimates and how far they may be off: nan and inf where nothing is known.
    ``run(state, seed, start, *chunk) -> stop``
        ``choose`` and ``learn`` for rounds ``start``, ... of a chunk, up to the one for which the state has no room;
        a line that calls :func:`conebandit.kernels.loop.play`.

    Kernels need not know of ``explore`` and ``resolution``. Parameters are as for :class:`ConeTree`.

    Attributes
    ----------
    _kernels
        The file of kernels.
    _query
        ``choose`` and ``estimate`` at many contexts, from :mod:`conebandit.kernels.queries`. May be left out: then the
        kernels are called context by context, which is slower.
    _observe_rows
        ``learn`` for many rows, from :mod:`conebandit.kernels.rows`; may be left out as well.
    _layout
        What the arrays of the state are.
    _may_skip_report
        Whether ``choose`` takes an empty ``reported`` where nobody reads it, and then takes less time.

    Examples
    --------
    >>> import conebandit as cb
    >>> issubclass(cb.ConeKernel, cb.CompiledPolicy)
    True
    """

    _kernels: ClassVar[Any]
    _query: ClassVar[Any]
    _layout: ClassVar[Layout]
    _may_skip_report: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "_kernels" in vars(cls):  # inherited loops would call the kernels of another policy
            cls._query = vars(cls).get("_query", one_by_one.ask)
            cls._observe_rows = vars(cls).get("_observe_rows", one_by_one.observe_rows)
            cls._may_skip_report = vars(cls).get("_may_skip_report", False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._sizes = {
            "arms": self.n_arms,
            "objectives": self.n_objectives,
            "coordinates": self.context_dim,
            "facets": len(self.cone.facets),
            **self._own_sizes(),
        }
        self._state: Any = self._layout.fresh(self._sizes, self._given())
        self._limits: Limits = [(0, -1)]  # no room yet

    def _own_sizes(self) -> dict[str, int]:
        """Sizes that the layout speaks of, beyond arms, objectives, coordinates and facets."""
        return {}

    def _given(self) -> dict[str, NDArray[Any]]:
        """Arrays of a fresh state that are not simply filled with numbers."""
        return {"facets": self.cone.facets}

    # ---- deciding and observing ---------------------------------------------------------------------------------

    def decide(self, context: ArrayLike, key: Key) -> Decision:
        """Arm for a context: a pure function of state, context and key.

        Parameters
        ----------
        context
            Shape (d,), within the bounds.
        key
            Identifies the decision: a round number or an id. The same key gives the same arm until the next
            observation.
        """
        x = self.box.point(context)
        active, chances = np.empty(self.n_arms, _BOOL), np.empty(self.n_arms)
        bits = key if type(key) is int and 0 <= key < 2**63 else _bits(key)
        # Not kept: threads that decide at once would share it.
        unread = np.empty(0 if self._may_skip_report else self.n_arms, _BOOL)
        arm = self._kernels.choose(self._state, self._seed, x, bits, active, unread, chances)
        if self.explore:
            arm = explored(self.explore, self._seed, bits, arm, active, chances)
        return Decision(arm, chances.item(arm), active, chances)

    def decide_many(self, contexts: ArrayLike, keys: Iterable[Key]) -> Decisions:
        """Arms for many contexts in one compiled loop: row by row what :meth:`decide` says.

        Parameters
        ----------
        contexts
            Shape (n, d), within the bounds.
        keys
            One for each context: integers, strings or bytes, or an array of n integers.
        """
        rows = self.box.rows(contexts)
        batch = self._ask(rows, as_keys(keys, len(rows)), explore=self.explore, estimates=0)
        return Decisions(batch.arms, chances_at(batch.chances, batch.arms), batch.active, batch.chances)

    def observe(self, context: ArrayLike, arm: int, reward: ArrayLike) -> None:
        """Learn from one reward vector.

        Parameters
        ----------
        context
            Shape (d,), within the bounds.
        arm
            Which arm was played; it need not be one that the policy would have chosen.
        reward
            Shape (M,); nan for a metric that is not known.
        """
        self._learn(*self._checked(context, arm, reward))

    def _learn(self, x: FloatArray, arm: int, reward: FloatArray) -> None:
        """Learn from a reward at a point of the unit cube; nothing is checked."""
        counts = self._state.size.tolist()
        for position, limit in self._limits:
            if counts[position] > limit:
                self._make_room(1)
                break
        self._kernels.learn(self._state, x, arm, reward)
        self._settle()

    def front(self, context: ArrayLike) -> Front:
        """Arms that are undominated by the estimates at a context, or essential, among those in the running."""
        x = self.box.point(context)
        flags = self._flags(x)
        means, radii = np.empty((2, self.n_arms, self.n_objectives))
        self._kernels.estimate(self._state, x, means, radii)
        reported = one_by_one.essential_arms(self, *flags, means, radii) if self._resolves else flags[1]
        arms = np.flatnonzero(reported)
        chances = self._front_chances(x, means, radii)
        return Front(tuple(int(k) for k in arms), means[arms], radii[arms], chances)

    def _front_chances(self, x: FloatArray, means: FloatArray, radii: FloatArray) -> FloatArray | None:
        """Chance of every arm to be on the front, from the estimates (K, M) there; None if there is no posterior."""
        return None

    def _flags(self, x: FloatArray) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Arms that the policy itself may play at a point of the unit cube, and those that it reports, both (K,)."""
        active, reported = np.empty((2, self.n_arms), dtype=np.bool_)
        self._kernels.choose(self._state, self._seed, x, 0, active, reported, np.empty(self.n_arms))
        return active, reported

    def fronts(self, contexts: ArrayLike) -> list[Front]:
        """Fronts in many contexts (n, d) in one compiled loop: one by one what :meth:`front` says."""
        rows = self.box.rows(contexts)
        batch = self._ask(rows, np.zeros(len(rows), dtype=np.uint64), explore=0.0, estimates=len(rows))
        if self._resolves:
            one_by_one.keep_essential(self, batch)
        chances = map(self._front_chances, batch.contexts, batch.means, batch.radii)
        return fronts_of(batch.reported, batch.means, batch.radii, chances)

    def _ask(self, contexts: FloatArray, keys: NDArray[np.uint64], *, explore: float, estimates: int) -> Batch:
        """Decisions in all contexts, and estimates in the first of them."""
        x, n, arms = self.box.points(contexts), len(contexts), self.n_arms
        active, numbers = np.empty((n, arms), dtype=np.bool_), np.empty((2, estimates, arms, self.n_objectives))
        reported = np.empty((n, 0 if self._may_skip_report and not estimates else arms), dtype=np.bool_)
        chosen, chances = np.empty(n, dtype=np.int64), np.empty((n, arms))
        bits = keys.view(np.int64)
        batch = Batch(x, bits, explore, chosen, active, reported, chances, numbers[0], numbers[1])
        self._query(self._state, self._seed, *batch)
        return batch

    def run_chunk(
        self, contexts: FloatArray, outcomes: FloatArray, keys: NDArray[np.uint64]
    ) -> tuple[NDArray[np.int64], FloatArray, NDArray[np.bool_], NDArray[np.bool_]]:
        """Decide and observe for many rounds in one compiled loop; the simulator calls it.

        Parameters
        ----------
        contexts, outcomes, keys
            Shapes (n, d), (n, K, M), (n,); ``outcomes`` are those of all arms.

        Returns
        -------
        arms, propensities, active, reported
            Shapes (n,), (n,), (n, K), (n, K), as they were when each decision was made.
        """
        if self._resolves:
            return one_by_one.run(self, contexts, outcomes, keys)
        x, n = self.box.points(contexts), len(contexts)
        bits = np.ascontiguousarray(keys, dtype=np.uint64).view(np.int64)
        flags = np.empty((2, n, self.n_arms), dtype=np.bool_)
        arms, propensities = np.empty(n, dtype=np.int64), np.empty(n)
        chunk = Chunk(x, outcomes, bits, self.explore, arms, propensities, flags[0], flags[1])
        done = 0
        while done < n:
            self._make_room(n - done)
            done = self._kernels.run(self._state, self._seed, done, *chunk)
            self._settle()
        return arms, propensities, chunk.active, chunk.reported

    # ---- state --------------------------------------------------------------------------------------------------

    def _make_room(self, observations: int) -> None:
        self._state, self._limits = self._layout.grown(self._state, self._sizes, observations)

    def state(self) -> dict[str, NDArray[Any]]:
        """Copies of the arrays that make up the state, cut to what is in use."""
        return self._layout.saved(self._state)

    def copy(self) -> Self:
        """An independent policy in the same state."""
        return self.clone()._with(self.state())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the policy to a file; :func:`load_policy` reads it back bit for bit."""
        storage.write(path, *self.saved())

    def saved(self) -> tuple[str, dict[str, Any], storage.Arrays]:
        """What is written to a file: a kind, options and arrays."""
        options = {**self._options(), "names": None if self.cone.names is None else list(self.cone.names)}
        if self.cone.minimise:
            options["minimise"] = list(self.cone.minimise)
        return self._kind, options, {"cone": self.cone.facets, **self.state()}

    @property
    def _kind(self) -> str:
        """Name by which files and :func:`load_policy` know the policy."""
        return type(self).__name__

    def _options(self) -> dict[str, Any]:
        """What is written beside the arrays: all that :meth:`_restore` needs."""
        return self._arguments()

    @classmethod
    def _restore(cls, kind: str, options: dict[str, Any], arrays: storage.Arrays) -> Self:
        """The policy of this kind with these options and arrays, as they were saved."""
        cone = as_saved(arrays.pop("cone"), options.pop("names"), options.pop("minimise", ()))
        return cls(cone=cone, **options)._with(arrays)

    def _with(self, arrays: storage.Arrays) -> Self:
        """Go on from the state that the arrays are; a ``ValueError`` if they do not fit."""
        self._state = self._layout.restored(self._state, self._sizes, arrays)
        self._limits = [(0, -1)]
        return self

    def _shown(self) -> dict[str, Any]:
        return {**super()._shown(), "n_observations": self.n_observations}


def estimates(policy: CompiledPolicy, contexts: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Estimated means of *all* arms in many contexts (n, d), and how far they may be off, both (n, K, M).

    For the arms on a front they are what :attr:`Front.means` and :attr:`Front.radii` say.
    """
    rows = policy.box.rows(contexts)
    batch = policy._ask(rows, np.zeros(len(rows), dtype=np.uint64), explore=0.0, estimates=len(rows))
    return batch.means, batch.radii


def _bits(key: Key) -> int:
    """The 64 bits of a key as the integer that kernels take, which has a sign."""
    bits = int(as_key(key))
    return bits if bits < 2**63 else bits - 2**64
