"""What policies share whose state is a tuple of arrays and whose steps are kernels."""

from __future__ import annotations

import os
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conebandit.geometry.cone import Cone, as_cone
from conebandit.policies.base import Decision, Front
from conebandit.validate import storage
from conebandit.validate.arguments import Key, as_arm, as_count, as_key, as_reward, as_seed, refuse_extreme
from conebandit.validate.arrays import FloatArray
from conebandit.validate.box import Box

OBSERVATIONS = 0  # position in the array ``size`` of every state: how many observations it has learned from


class CompiledPolicy:
    """Everything but the algorithm: arguments, growing arrays, saving, the loop over a chunk.

    A policy is a subclass and a file of kernels. The subclass makes a state, a ``NamedTuple`` of arrays whose first is
    ``size`` (integers; ``size[OBSERVATIONS]`` counts observations). The file of kernels has four functions:

    ``choose(state, seed, x, key, active, reported) -> arm, chance``
        Pure; fills ``active`` and ``reported``, both (K,) booleans.
    ``learn(state, x, arm, reward)``
        One observation, nan for an unknown metric; the only one that writes into the state, which has room for it.
    ``estimate(state, x, means, radii)``
        Fills (K, M) estimates and how far they may be off: nan and inf where nothing is known.
    ``run(state, seed, contexts, outcomes, keys, start, arms, chances, active, reported) -> stop``
        ``choose`` and ``learn`` for rounds ``start``, ... of a chunk, up to the one for which the state has no room.

    The loops of ``run`` look alike and yet stand in every file of kernels: Numba keeps no machine code on disk for a
    loop that a factory makes or that is handed ``choose`` and ``learn``, so a shared one would cost every process 0.5
    to 0.9 s for each policy.

    Attributes
    ----------
    kernels
        The file of kernels.
    grows
        Arrays of the state with a growing number of rows: name to (position in ``size`` that counts the rows in use,
        most rows that one observation adds).
    resized
        Arrays of the state whose shape depends on what was learned.
    fixed
        Arrays of integers that learning does not change.
    """

    kernels: ClassVar[Any]
    grows: ClassVar[dict[str, tuple[int, int]]] = {}
    resized: ClassVar[frozenset[str]] = frozenset()
    fixed: ClassVar[frozenset[str]] = frozenset()

    def __init__(
        self, n_arms: int, cone: Cone, context_dim: int, *, seed: int, bounds: ArrayLike | None, **settings: Any
    ) -> None:
        self.n_arms = as_count(n_arms, "n_arms")
        self.context_dim = as_count(context_dim, "context_dim")
        self.cone, self.n_objectives = as_cone(cone), cone.dim
        self.box = Box(self.context_dim, bounds)
        self.seed, self._seed = seed, as_seed(seed)
        self.settings = settings
        self._state: Any = self._fresh_state()

    def _fresh_state(self) -> Any:
        """The state before the first observation, with room for none."""
        raise NotImplementedError

    # ---- deciding and observing ---------------------------------------------------------------------------------

    @property
    def n_observations(self) -> int:
        """How many observations the policy has learned from."""
        return int(self._state.size[OBSERVATIONS])

    def decide(self, context: ArrayLike, key: Key) -> Decision:
        """Arm for a context: a pure function of state, context and key; see :meth:`ConeTree.decide`."""
        x = self.box.point(context)
        active, reported = np.empty((2, self.n_arms), dtype=np.bool_)
        arm, chance = self.kernels.choose(self._state, self._seed, x, as_key(key), active, reported)
        return Decision(int(arm), float(chance), active)

    def observe(self, context: ArrayLike, arm: int, reward: ArrayLike) -> None:
        """Learn from one reward vector, nan for a metric that is not known; see :meth:`ConeTree.observe`."""
        x = self.box.point(context)
        vector, index = as_reward(reward, self.n_objectives), as_arm(arm, self.n_arms)
        refuse_extreme(vector)
        self._make_room(1)
        self.kernels.learn(self._state, x, index, vector)
        self._settle()

    def front(self, context: ArrayLike) -> Front:
        """Arms that the estimates at a context hold for undominated."""
        x = self.box.point(context)
        active, reported = np.empty((2, self.n_arms), dtype=np.bool_)
        self.kernels.choose(self._state, self._seed, x, np.uint64(0), active, reported)
        means, radii = np.empty((2, self.n_arms, self.n_objectives))
        self.kernels.estimate(self._state, x, means, radii)
        arms = np.flatnonzero(reported)
        return Front(tuple(int(k) for k in arms), means[arms], radii[arms])

    def run_chunk(
        self, contexts: FloatArray, outcomes: FloatArray, keys: NDArray[np.uint64]
    ) -> tuple[NDArray[np.int64], FloatArray, NDArray[np.bool_], NDArray[np.bool_]]:
        """Many rounds in one compiled loop, for the simulator; see :meth:`ConeTree.run_chunk`."""
        x = self.box.points(contexts)
        n = len(x)
        arms, chances = np.empty(n, dtype=np.int64), np.empty(n)
        active, reported = np.empty((2, n, self.n_arms), dtype=np.bool_)
        done = 0
        while done < n:
            self._make_room(n - done)
            done = self.kernels.run(self._state, self._seed, x, outcomes, keys, done, arms, chances, active, reported)
            self._settle()
        return arms, chances, active, reported

    def _settle(self) -> None:
        """What is to be done from time to time after an observation; the loop of a chunk must stop where it is due."""

    # ---- state --------------------------------------------------------------------------------------------------

    def _make_room(self, observations: int) -> None:
        """Let the growing arrays hold this many more observations; of other rows, what the next one may add."""
        longer = {}
        for name, (counter, rows) in self.grows.items():
            array, used = getattr(self._state, name), int(self._state.size[counter])
            need = used + rows * (observations if counter == OBSERVATIONS else 1)
            if need > len(array):
                longer[name] = np.zeros((max(need, 2 * len(array)), *array.shape[1:]), dtype=array.dtype)
                longer[name][:used] = array[:used]
        if longer:
            self._state = self._state._replace(**longer)

    def state(self) -> dict[str, NDArray[Any]]:
        """Copies of the arrays that make up the state, cut to what is in use."""
        arrays = self._state._asdict()
        for name, (counter, _) in self.grows.items():
            arrays[name] = arrays[name][: int(self._state.size[counter])]
        return {name: array.copy() for name, array in arrays.items()}

    def copy(self) -> Self:
        """An independent policy in the same state."""
        return self._from_state(self._options(), self.cone, self.state())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the policy to a file; :func:`load_policy` reads it back bit for bit."""
        options = {**self._options(), "names": None if self.cone.names is None else list(self.cone.names)}
        storage.write(path, type(self).__name__, options, {"cone": self.cone.facets, **self.state()})

    def _options(self) -> dict[str, Any]:
        size = {"n_arms": self.n_arms, "context_dim": self.context_dim}
        return {**size, "seed": int(self.seed), "bounds": self.box.bounds.tolist(), **self.settings}

    @classmethod
    def _restore(cls, options: dict[str, Any], arrays: storage.Arrays) -> Self:
        return cls._from_state(options, Cone.from_facets(arrays.pop("cone"), names=options.pop("names")), arrays)

    @classmethod
    def _from_state(cls, options: dict[str, Any], cone: Cone, arrays: storage.Arrays) -> Self:
        self = cls(cone=cone, **options)
        for name, like in self._state._asdict().items():
            free = like.ndim if name in cls.resized else 1 if name in cls.grows else 0  # axes of any length
            array = arrays[name]
            if array.dtype != like.dtype or array.ndim != like.ndim or array.shape[free:] != like.shape[free:]:
                raise ValueError(f"array {name!r} does not fit")
            if name in cls.fixed and not np.array_equal(array, like):
                raise ValueError(f"array {name!r} does not fit the options")
            if name in cls.grows:
                storage.require_rows(name, array, int(arrays["size"][cls.grows[name][0]]), len(like))
        self._state = type(self._state)(**{name: np.ascontiguousarray(arrays[name]) for name in self._state._fields})
        self._check_indices()
        return self

    def _check_indices(self) -> None:
        """A ``ValueError`` if an index in a state that was handed over leads out of an array."""
