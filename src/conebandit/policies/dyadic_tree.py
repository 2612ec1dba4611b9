"""Algorithm 1 of the paper: bins that are cut in 2^d, and elimination of arms in every bin. As printed, or sound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conebandit.kernels import queries, tree_rows
from conebandit.kernels import tree as kernels
from conebandit.kernels.types import Bools, Floats
from conebandit.policies.compiled import CompiledPolicy
from conebandit.policies.explanation import Bin, Elimination, Explanation
from conebandit.policies.export import cells
from conebandit.policies.layout import Array, Counter, Index, Layout
from conebandit.policies.merging import Samples
from conebandit.validate.arrays import FloatArray

# A split makes 2^d bins; beyond this many coordinates that is no longer a sensible tree.
MAX_COORDINATES = 10

_NO_NODE = (0, -1, -1, -1, -1, 0)  # links of a root without samples: level, parent, child, first, last, seen

LAYOUT = Layout(
    kernels.State,
    {"observations": Counter(step=1), "nodes": Counter(1, step="children")},
    {
        "links": Array(
            ("nodes", 6),
            np.int64,
            fill=_NO_NODE,
            indices={
                kernels.LEVEL: Index(kernels.DEEPEST + 1),
                kernels.PARENT: Index("nodes", none=True, towards="earlier"),
                kernels.CHILD: Index("nodes", none=True, block="children", towards="later"),
                kernels.FIRST: Index("observations", none=True),
                kernels.LAST: Index("observations", none=True),
            },
        ),
        "tallies": Array(("nodes", "arms", "tallies"), np.int64),
        "moments": Array(("nodes", "arms", "moments")),
        "data": Array(("observations", "sample")),
        "chain": Array(
            ("observations", 2),
            np.int32,
            indices={
                kernels.ARM: Index("arms"),
                kernels.FOLLOWING: Index("observations", none=True, towards="later"),
            },
        ),
        "facets": Array(("facets", "objectives"), saved=False),
        "constants": Array((kernels.CONSTANTS,), saved=False),
    },
)


class OneByOne:
    """The kernels as the skeleton calls them; they take the arrays one by one, since a tuple takes longer to hand over.

    A single step lasts a few microseconds, so this is felt.
    """

    estimate = staticmethod(kernels.estimate)

    @staticmethod
    def choose(  # noqa: PLR0917  (the signature of all kernels)
        state: kernels.State, seed: np.uint64, x: Floats, key: int, active: Bools, reported: Bools, chances: Floats
    ) -> int:
        """An arm."""
        size, links, tallies, _, _, _, _, constants = state
        return kernels.choose(size, links, tallies, constants, seed, x, key, active, reported, chances)

    @staticmethod
    def learn(state: kernels.State, x: Floats, arm: int, reward: Floats) -> None:
        """One observation."""
        kernels.learn(*state, x, arm, reward)

    @staticmethod
    def run(state: kernels.State, seed: np.uint64, start: int, *chunk: NDArray[Any]) -> int:
        """Rounds ``start``, ... of a chunk."""
        return kernels.run(seed, start, *state, *chunk)

    @staticmethod
    def learn_rows(state: kernels.State, start: int, *rows: NDArray[Any]) -> int:
        """Rows ``start``, ... of a log."""
        return tree_rows.learn_rows(start, *state, *rows, np.zeros(len(state.links), dtype=np.bool_))


@dataclass(frozen=True)
class DyadicTree:
    """The algorithm behind two presets of :class:`ConeTree`, with its constants."""

    sound: bool
    delta: float
    sigma: float
    beta: float
    holder: float

    kernels: ClassVar[Any] = OneByOne
    query: ClassVar[Any] = staticmethod(queries.ask_dyadic_tree)
    layout: ClassVar[Layout] = LAYOUT

    def sizes(self, policy: CompiledPolicy) -> dict[str, int]:
        """Sizes that the layout speaks of."""
        if policy.context_dim > MAX_COORDINATES:
            raise ValueError(
                f"context_dim must be at most {MAX_COORDINATES}, since a split makes 2**context_dim bins; "
                f"got {policy.context_dim}. Choose the coordinates that matter, or another policy."
            )
        objectives, facets = policy.n_objectives, len(policy.cone.facets)
        return {
            "children": 1 << policy.context_dim,
            "tallies": kernels.COUNT + objectives,
            "moments": 3 * objectives + 4 * facets,
            "sample": policy.context_dim + objectives,
        }

    def given(self, policy: CompiledPolicy) -> dict[str, NDArray[Any]]:
        """A root in which all arms are active and nothing is known, and the constants."""
        tallies = np.zeros(kernels.COUNT + policy.n_objectives)
        tallies[[kernels.ACTIVE, kernels.REPORTED]], tallies[[kernels.WHEN, kernels.BY]] = 1, -1
        moments = np.zeros(3 * policy.n_objectives + 4 * len(policy.cone.facets))
        moments[2 * policy.n_objectives : 3 * policy.n_objectives] = np.inf
        constants = self._constants(policy.n_arms, policy.n_objectives, policy.context_dim)
        return {"tallies": tallies, "moments": moments, "facets": policy.cone.facets, "constants": constants}

    def _constants(self, n_arms: int, n_objectives: int, context_dim: int) -> FloatArray:
        pairs = n_arms * n_objectives
        exploration = 8.0 * n_arms * np.log(pairs / self.delta)
        h = np.arange(kernels.DEEPEST + 1)
        constants = np.empty(kernels.CONSTANTS)
        constants[kernels.SOUND] = self.sound
        constants[kernels.BIAS + h] = self.holder * 0.5 ** (self.beta * h)
        constants[kernels.UNION + h] = np.log(2.0) * context_dim * h + np.log((h + 1.0) * (h + 2.0))
        constants[kernels.NOISE] = self.sigma * np.sqrt(2.0) if self.sound else self.sigma
        constants[kernels.LOG_TERM] = np.log((2 if self.sound else 1) * pairs / self.delta)
        constants[kernels.SPLIT_AT] = exploration * self.sigma**2
        constants[kernels.WARM_UP] = np.ceil(exploration)
        return constants

    def n_leaves(self, state: kernels.State) -> int:
        """Number of bins that are not split; bins have all of their parts or none."""
        links = state.links[: state.size[kernels.NODES]]
        split = links[:, kernels.CHILD] >= 0
        return int((split[links[:, kernels.PARENT]] & ~split).sum()) if split[0] else 1

    def add(self, policy: CompiledPolicy, samples: Samples) -> None:
        """Add samples of another tree, as if they and its own had come at once: bins and active arms follow anew."""
        policy._make_room(len(samples.arms))
        tree_rows.add_samples(*policy._state, *(np.ascontiguousarray(array) for array in samples))
        done = tree_rows.split_due(0, *policy._state)
        while done < policy._state.size[kernels.NODES]:
            policy._make_room(0)
            done = tree_rows.split_due(done, *policy._state)
        tree_rows.judge_anew(*policy._state)

    def tree(self, policy: CompiledPolicy, state: kernels.State) -> dict[str, Any]:
        """All bins with the probabilities of arms in each, to be exported."""
        low, span = policy.box.bounds[:, 0], np.ptp(policy.box.bounds, axis=1)

        def probabilities(middle: FloatArray) -> FloatArray:
            chances = policy.decide(low + span * middle, key=0).probabilities
            assert chances is not None
            return chances

        return cells(policy.context_dim, probabilities, lambda node: int(state.links[node, kernels.CHILD]))

    def explain(self, policy: CompiledPolicy, state: kernels.State, context: ArrayLike) -> Explanation:
        """The path of bins to a context, the arms still active there, and why the others are not."""
        links, tallies = state.links, state.tallies
        nodes = [int(kernels.leaf_of(links, policy.box.point(context)))]
        while links[nodes[0], kernels.PARENT] >= 0:
            nodes.insert(0, int(links[nodes[0], kernels.PARENT]))
        active = np.flatnonzero(tallies[nodes[-1], :, kernels.ACTIVE])
        eliminated = tuple(
            Elimination(
                arm=int(k),
                observation=int(tallies[v, k, kernels.WHEN]),
                by=int(tallies[v, k, kernels.BY]),
                level=int(links[v, kernels.LEVEL]),
                margins=state.moments[v, k, -len(state.facets) :].copy(),
            )
            for v in nodes
            for k in np.flatnonzero(tallies[v, :, kernels.WHEN] >= 0)
        )
        return Explanation(_path(links, nodes, policy.box.bounds), tuple(int(k) for k in active), eliminated)


def _path(links: NDArray[np.int64], nodes: list[int], bounds: FloatArray) -> tuple[Bin, ...]:
    """The bins of these nodes, from the root on, in the units of the contexts."""
    low, span = bounds[:, 0], np.ptp(bounds, axis=1)
    corner, bins = np.zeros(len(bounds)), []
    for node in nodes:
        level, parent = int(links[node, kernels.LEVEL]), int(links[node, kernels.PARENT])
        if parent >= 0:
            which = node - int(links[parent, kernels.CHILD])
            corner = corner + 0.5**level * np.array([which >> m & 1 for m in range(len(bounds))])
        lower, upper = low + span * corner, low + span * (corner + 0.5**level)
        bins.append(Bin(level, lower, upper, int(links[node, kernels.SEEN])))
    return tuple(bins)
