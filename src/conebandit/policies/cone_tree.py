"""Algorithm 1 of the paper: an adaptive tree over contexts, with elimination of arms in every bin."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conebandit.geometry.cone import Cone, as_cone
from conebandit.kernels import tree as kernels
from conebandit.policies.base import Decision, Front
from conebandit.validate import storage
from conebandit.validate.arguments import (
    MAX_REWARD,
    Key,
    as_arm,
    as_count,
    as_key,
    as_positive,
    as_reward,
    as_seed,
    refuse_extreme,
)
from conebandit.validate.arrays import FloatArray
from conebandit.validate.box import Box

Preset = Literal["paper", "sound", "adaptive"]

# A split makes 2^d bins; beyond this many coordinates that is no longer a sensible tree.
MAX_COORDINATES = 10

MIN_DELTA = 1e-300  # its inverse is multiplied by the number of arms and objectives


class Tree(NamedTuple):
    """The arrays that make up the state; ``kernels/tree.py`` says what is where. Longer than what is in use."""

    size: NDArray[np.int64]
    links: NDArray[np.int64]
    tallies: NDArray[np.int64]
    moments: FloatArray
    data: FloatArray
    chain: NDArray[np.int32]


@dataclass(frozen=True)
class Bin:
    """One bin on the way from the root to a context."""

    level: int
    lower: FloatArray
    upper: FloatArray
    seen: int


@dataclass(frozen=True)
class Elimination:
    """Why an arm is no longer played.

    ``margins`` are the leads of ``by`` over the arm on each facet that are left after both estimates are taken at their
    worst (preset ``sound``), or by how much the arm misses the printed rule (preset ``paper``).
    """

    arm: int
    observation: int
    by: int
    level: int
    margins: FloatArray


@dataclass(frozen=True)
class Explanation:
    """Everything that led to the arms a context is offered."""

    path: tuple[Bin, ...]
    active: tuple[int, ...]
    eliminated: tuple[Elimination, ...]


class ConeTree:
    """Tree policy of the paper (Algorithm 1), for any cone, number of arms and (few) context dimensions.

    Contexts are sorted into dyadic bins. A bin is split in 2^d when it has seen enough contexts, and its samples are
    dealt anew. In every bin arms are eliminated that cannot be on the front; among the others one is drawn uniformly.

    Parameters
    ----------
    n_arms
        Number of arms, K.
    cone
        The preference cone; its dimension is the number of objectives, M.
    context_dim
        Number of context coordinates, d, at most 10 (any number for ``"adaptive"``).
    preset
        ``"sound"`` eliminates an arm only if another one is better on every facet of the cone even when all estimates
        are at their worst, with radii that hold for all bins and rounds at once: with probability 1 - delta no arm is
        lost that is undominated anywhere in a bin (``docs/sound.md``). ``"paper"`` is Algorithm 1 as printed, with all
        constants 1 and the printed elimination rule, which is not sound; it is here to be compared with.
        ``"adaptive"`` keeps the tree and the optimism but learns noise and smoothness from the data
        (``docs/adaptive.md``); it promises less, learns much faster, and takes none of the constants below.
    seed
        Seed of the policy's own randomness.
    delta
        Probability of error. The paper uses 1 / horizon.
    sigma
        Noise level: rewards are sub-Gaussian with this parameter. Only for ``"sound"``; 1 by default.
    beta, holder
        Smoothness: means differ by at most ``holder * distance ** beta`` (sup norm, contexts scaled to the unit cube).
        ``holder`` only for ``"sound"``; 1 by default.
    bounds
        Shape (d, 2), range of each context coordinate; the unit cube by default.

    Examples
    --------
    >>> import conebandit as cb
    >>> policy = cb.ConeTree(n_arms=3, cone=cb.Cone.orthant(2), context_dim=1, preset="sound", seed=0)
    >>> decision = policy.decide([0.3], key=17)
    >>> policy.observe([0.3], decision.arm, [0.9, 0.4])
    >>> policy.front([0.3]).arms
    (2,)
    """

    def __new__(cls, *args: Any, preset: Preset = "sound", **options: Any) -> ConeTree:
        """A policy of the preset's own class: for users one name, in the code no branches between two algorithms."""
        if cls is ConeTree and preset == "adaptive":
            from conebandit.policies.adaptive_tree import AdaptiveTree  # noqa: PLC0415  (it is a subclass of this one)

            return super().__new__(AdaptiveTree)
        return super().__new__(cls)

    def __init__(
        self,
        n_arms: int,
        cone: Cone,
        context_dim: int,
        *,
        preset: Preset = "sound",
        seed: int = 0,
        delta: float = 0.05,
        sigma: float | None = None,
        beta: float = 1.0,
        holder: float | None = None,
        bounds: ArrayLike | None = None,
    ) -> None:
        self.n_arms = as_count(n_arms, "n_arms")
        self.context_dim = as_count(context_dim, "context_dim")
        if self.context_dim > MAX_COORDINATES:
            raise ValueError(
                f"context_dim must be at most {MAX_COORDINATES}, since a split makes 2**context_dim bins; "
                f"got {context_dim}. Choose the coordinates that matter, or another policy."
            )
        self.cone = as_cone(cone)
        self.n_objectives = cone.dim
        self.box = Box(self.context_dim, bounds)
        self.preset = preset
        self.seed, self.delta, self.beta = seed, delta, beta
        self.sigma, self.holder = _constants(preset, sigma, holder)
        if not isinstance(delta, int | float | np.number) or not MIN_DELTA <= delta < 1.0:
            raise ValueError(f"delta must lie above 0 (at least {MIN_DELTA:g}) and below 1; got {delta!r}.")
        if not isinstance(beta, int | float | np.number) or not 0.0 < beta <= 1.0:
            raise ValueError(f"beta must lie above 0 and at most 1; got {beta!r}.")
        self._facets, self._seed = cone.facets.copy(), as_seed(seed)
        self._constants = self._make_constants()
        self._warm_up = int(self._constants[kernels.WARM_UP])
        self._tree = _empty_tree(self.n_arms, cone, self.context_dim)
        self._room = 0  # observations that surely fit into the arrays

    def _make_constants(self) -> FloatArray:
        pairs = self.n_arms * self.n_objectives
        exploration = 8.0 * self.n_arms * np.log(pairs / self.delta)
        sound = self.preset == "sound"
        h = np.arange(kernels.DEEPEST + 1)
        constants = np.empty(kernels.CONSTANTS)
        constants[kernels.SOUND] = sound
        constants[kernels.BIAS + h] = self.holder * 0.5 ** (self.beta * h)
        constants[kernels.UNION + h] = np.log(2.0) * self.context_dim * h + np.log((h + 1.0) * (h + 2.0))
        constants[kernels.NOISE] = self.sigma * np.sqrt(2.0) if sound else self.sigma
        constants[kernels.LOG_TERM] = np.log((2 if sound else 1) * pairs / self.delta)
        constants[kernels.SPLIT_AT] = exploration * self.sigma**2
        constants[kernels.WARM_UP] = np.ceil(exploration)
        return constants

    # ---- deciding and observing ---------------------------------------------------------------------------------

    @property
    def n_observations(self) -> int:
        """How many observations the policy has learned from."""
        return int(self._tree.size[kernels.OBSERVATIONS])

    @property
    def n_leaves(self) -> int:
        """Number of bins that are not split."""
        nodes = int(self._tree.size[kernels.NODES])
        return int((self._tree.links[:nodes, kernels.CHILD] < 0).sum())

    def decide(self, context: ArrayLike, key: Key) -> Decision:
        """Arm for a context: a pure function of state, context and key.

        Parameters
        ----------
        context
            Shape (d,), within the bounds.
        key
            Identifies the decision: a round number or an id. The same key gives the same arm until the next
            observation. Round numbers make the warm-up a round robin.
        """
        x = self.box.scaled(context)
        mask = np.empty(self.n_arms, dtype=np.bool_)
        size, links, tallies = self._tree[:3]
        bits = key if type(key) is int and 0 <= key < 2**63 else as_key(key)
        arm, chance = kernels.decide(size, links, tallies, x, bits, self._warm_up, self._seed, mask)
        if arm < 0:
            self.box.point(context)  # says what is wrong with it
        return Decision(int(arm), chance, mask)

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
        x = self.box.scaled(context)
        vector, index = as_reward(reward, self.n_objectives), as_arm(arm, self.n_arms)
        if self._room == 0:
            self._reserve(samples=1)
        self._room -= 1
        fault = kernels.fold(*self._tree, self._facets, self._constants, x, index, vector)
        if fault == kernels.BAD_CONTEXT:
            self.box.point(context)  # says what is wrong with it
        elif fault == kernels.BAD_REWARD:
            refuse_extreme(vector)

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
        x = self.box.points(contexts)
        n = len(x)
        arms, chances = np.empty(n, dtype=np.int64), np.empty(n)
        active, reported = np.empty((n, self.n_arms), dtype=np.bool_), np.empty((n, self.n_arms), dtype=np.bool_)
        self._reserve(samples=n)
        self._room = 0
        done = 0
        while True:
            done = kernels.run(
                *self._tree,
                self._facets,
                self._constants,
                self._seed,
                x,
                outcomes,
                keys,
                done,
                arms,
                chances,
                active,
                reported,
            )
            if done == n:
                return arms, chances, active, reported
            self._reserve(samples=0)
            self._room = 0

    # ---- what it knows ------------------------------------------------------------------------------------------

    def front(self, context: ArrayLike) -> Front:
        """Undominated arms by the estimates of the context's bin, among those still active."""
        tree, m = self._tree, self.n_objectives
        leaf = kernels.leaf_of(tree.links, self.box.point(context))
        arms = np.flatnonzero(tree.tallies[leaf, :, kernels.REPORTED])
        unknown = tree.tallies[leaf, arms, kernels.COUNT :] == 0
        means = np.where(unknown, np.nan, tree.moments[leaf, arms, m : 2 * m])
        return Front(tuple(int(k) for k in arms), means, tree.moments[leaf, arms, 2 * m : 3 * m].copy())

    def explain(self, context: ArrayLike) -> Explanation:
        """The path of bins to a context, the arms still active there, and why the others are not.

        Parameters
        ----------
        context
            Shape (d,), within the bounds.
        """
        links, tallies = self._tree.links, self._tree.tallies
        nodes = [int(kernels.leaf_of(links, self.box.point(context)))]
        while links[nodes[0], kernels.PARENT] >= 0:
            nodes.insert(0, int(links[nodes[0], kernels.PARENT]))
        active = np.flatnonzero(tallies[nodes[-1], :, kernels.ACTIVE])
        eliminated = tuple(
            Elimination(
                arm=int(k),
                observation=int(tallies[v, k, kernels.WHEN]),
                by=int(tallies[v, k, kernels.BY]),
                level=int(links[v, kernels.LEVEL]),
                margins=self._tree.moments[v, k, -len(self._facets) :].copy(),
            )
            for v in nodes
            for k in np.flatnonzero(tallies[v, :, kernels.WHEN] >= 0)
        )
        return Explanation(self._path(nodes), tuple(int(k) for k in active), eliminated)

    def _path(self, nodes: list[int]) -> tuple[Bin, ...]:
        """The bins of these nodes, from the root on, in the units of the contexts."""
        links, low, span = self._tree.links, self.box.bounds[:, 0], np.ptp(self.box.bounds, axis=1)
        corner, bins = np.zeros(self.context_dim), []
        for node in nodes:
            level, parent = int(links[node, kernels.LEVEL]), int(links[node, kernels.PARENT])
            if parent >= 0:
                which = node - int(links[parent, kernels.CHILD])
                corner = corner + 0.5**level * np.array([which >> m & 1 for m in range(self.context_dim)])
            lower, upper = low + span * corner, low + span * (corner + 0.5**level)
            bins.append(Bin(level, lower, upper, int(links[node, kernels.SEEN])))
        return tuple(bins)

    # ---- state --------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, NDArray[Any]]:
        """Copies of the arrays that make up the state, cut to what is in use."""
        samples, nodes = (int(n) for n in self._tree.size)
        return {
            name: (array if name == "size" else array[: samples if name in _PER_SAMPLE else nodes]).copy()
            for name, array in self._tree._asdict().items()
        }

    def copy(self) -> Self:
        """An independent policy in the same state."""
        return self._from_state(self._options(), self.cone, self.state())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the policy to a file; :func:`load_policy` reads it back bit for bit."""
        storage.write(path, type(self).__name__, self._options(), {"cone": self.cone.facets, **self.state()})

    @classmethod
    def _restore(cls, options: dict[str, Any], arrays: storage.Arrays) -> Self:
        names = options.get("names")
        return cls._from_state(options, Cone.from_facets(arrays.pop("cone"), names=names), arrays)

    @classmethod
    def _from_state(cls, options: dict[str, Any], cone: Cone, arrays: storage.Arrays) -> Self:
        settings = {k: v for k, v in options.items() if k != "names"}
        if settings["preset"] == "paper":
            del settings["sigma"], settings["holder"]
        self = cls(cone=cone, **settings)
        fields = {name: np.ascontiguousarray(arrays[name]) for name in Tree._fields}
        empty = self._tree
        for name, array in fields.items():
            like = getattr(empty, name)
            if array.dtype != like.dtype or array.ndim != like.ndim or array.shape[1:] != like.shape[1:]:
                raise ValueError(f"array {name!r} does not fit")
        self._tree = Tree(**fields)
        self._check_indices()
        self._reserve(samples=0)
        return self

    def _check_indices(self) -> None:
        """A ``ValueError`` if an index in a state that was handed over leads out of an array."""
        tree = self._tree
        storage.require_rows("size", tree.size, 2, 2)
        samples, nodes = tree.size.tolist()
        for name, array in tree._asdict().items():
            if name != "size":
                rows, least = (samples, 0) if name in _PER_SAMPLE else (nodes, 1)
                storage.require_rows(name, array, rows, least)
        storage.require_range("links", tree.links[:, kernels.LEVEL], 0, kernels.DEEPEST + 1)
        storage.require_range("links", tree.links[:, kernels.PARENT], -1, nodes)
        last = max(-1, nodes - (1 << self.context_dim))  # of the first children; -1 is none
        storage.require_range("links", tree.links[:, kernels.CHILD], -1, last + 1)
        storage.require_range("links", tree.links[:, [kernels.FIRST, kernels.LAST]], -1, samples)
        storage.require_range("chain", tree.chain[:, kernels.ARM], 0, self.n_arms)
        storage.require_range("chain", tree.chain[:, kernels.FOLLOWING], -1, samples)

    def _options(self) -> dict[str, Any]:
        return {
            "n_arms": self.n_arms,
            "context_dim": self.context_dim,
            "preset": self.preset,
            "seed": int(self.seed),
            "delta": float(self.delta),
            "sigma": self.sigma,
            "beta": float(self.beta),
            "holder": self.holder,
            "bounds": self.box.bounds.tolist(),
            "names": None if self.cone.names is None else list(self.cone.names),
        }

    def _reserve(self, samples: int) -> None:
        """Make room for this many more samples and for one more split."""
        tree = self._tree
        wanted = {"samples": int(tree.size[0]) + samples, "nodes": int(tree.size[1]) + (1 << self.context_dim)}
        have = {"samples": len(tree.data), "nodes": len(tree.links)}
        room = {k: have[k] if wanted[k] <= have[k] else max(wanted[k], have[k] + have[k] // 2) for k in have}
        spare = (room["samples"] - int(tree.size[0]), (room["nodes"] - int(tree.size[1])) >> self.context_dim)
        self._room = min(spare)  # each observation takes one sample and at most one split
        grown = {}
        for name, array in tree._asdict().items():
            length = room["samples" if name in _PER_SAMPLE else "nodes"]
            if name == "size" or length == len(array):
                grown[name] = array
            else:
                grown[name] = np.empty((length, *array.shape[1:]), dtype=array.dtype)
                grown[name][: len(array)] = array
        self._tree = Tree(**grown)

    def __repr__(self) -> str:
        return (
            f"ConeTree(n_arms={self.n_arms}, cone={self.cone!r}, context_dim={self.context_dim}, "
            f"preset={self.preset!r}, {self.n_observations} observations, {self.n_leaves} leaves)"
        )


_PER_SAMPLE = {"data", "chain"}


def _constants(preset: str, sigma: float | None, holder: float | None) -> tuple[float, float]:
    if preset == "paper":
        if sigma is not None or holder is not None:
            raise ValueError("sigma and holder are for preset 'sound'; preset 'paper' has all constants 1, as printed.")
        return 1.0, 1.0
    if preset != "sound":
        raise ValueError(f"preset must be 'paper', 'sound' or 'adaptive'; got {preset!r}.")
    values = []
    for name, value in (("sigma", sigma), ("holder", holder)):
        number = 1.0 if value is None else as_positive(value, name)
        if number > MAX_REWARD:
            raise ValueError(f"{name} must be at most {MAX_REWARD:g}; got {value!r}. Give rewards in other units.")
        values.append(number)
    return values[0], values[1]


def _empty_tree(n_arms: int, cone: Cone, dim: int) -> Tree:
    """A root without samples, and room for its first split."""
    nodes, samples, (facets, objectives) = 1 + (1 << dim), 256, cone.facets.shape
    tree = Tree(
        size=np.array([0, 1]),
        links=np.zeros((nodes, 6), dtype=np.int64),
        tallies=np.zeros((nodes, n_arms, kernels.COUNT + objectives), dtype=np.int64),
        moments=np.zeros((nodes, n_arms, 3 * objectives + 4 * facets)),
        data=np.zeros((samples, dim + objectives)),
        chain=np.zeros((samples, 2), dtype=np.int32),
    )
    kernels.blank(tree.links, tree.tallies, tree.moments, 0, 0, -1)
    return tree
