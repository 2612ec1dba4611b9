"""Trees that keep no samples: ``ConeTree(history="stream")``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from conebandit.kernels import adaptive_stream, tree, tree_stream
from conebandit.kernels.types import Floats
from conebandit.policies.adaptive_tree import ARRAYS_OF_NODES, ARRAYS_OF_THE_WHOLE, AdaptiveTree
from conebandit.policies.compiled import CompiledPolicy
from conebandit.policies.dyadic_tree import DyadicTree
from conebandit.policies.layout import Array, Counter, Index, Layout

MAX_BYTES = 2**28  # of all bins of a tree, so that its memory is bounded for good

MAX_FOR_QUARTERS = 3  # coordinates up to which the adaptive tree keeps sums over halves of halves; beyond, too many
SPLIT_IN = 2  # halves of a leaf of the adaptive tree

_NO_NODE = (0, -1, -1, -1, 0, 0)  # links of the root: level, parent, child, ahead, since, seen

LAYOUT = Layout(
    tree_stream.State,
    {"observations": Counter(), "nodes": Counter(1, step="children")},
    {
        "links": Array(
            ("nodes", 6),
            np.int64,
            fill=_NO_NODE,
            indices={
                tree.LEVEL: Index(tree.DEEPEST + 1),
                tree.PARENT: Index("nodes", none=True, towards="earlier"),
                tree.CHILD: Index("nodes", none=True, block="children", towards="later"),
                tree_stream.AHEAD: Index("nodes", none=True, block="children", towards="later"),
            },
        ),
        "tallies": Array(("nodes", "arms", "tallies"), np.int64),
        "moments": Array(("nodes", "arms", "moments")),
        "facets": Array(("facets", "objectives"), saved=False),
        "constants": Array((tree_stream.MOST_NODES + 1,), saved=False),
    },
)

ADAPTIVE_LAYOUT = Layout(
    adaptive_stream.State,
    {"observations": Counter(), "nodes": Counter(1, step=2)},
    {
        **ARRAYS_OF_NODES,
        "sums": Array(("nodes", "parts", "arms", "objectives", "sums")),
        "contexts": Array(("nodes", "parts"), np.int64),
        **ARRAYS_OF_THE_WHOLE,
        "most": Array((1,), np.int64, saved=False),
    },
    cone_free=True,
)


class OneByOneStreamed:
    """The kernels as the skeleton calls them; they take the arrays one by one, as those of the other tree do."""

    estimate = staticmethod(tree.estimate)

    @staticmethod
    def choose(state: tree_stream.State, seed: np.uint64, x: Floats, key: int, *answer: NDArray[Any]) -> int:
        """An arm."""
        return tree.choose(state.size, state.links, state.tallies, state.constants, seed, x, key, *answer)

    @staticmethod
    def learn(state: tree_stream.State, x: Floats, arm: int, reward: Floats) -> None:
        """One observation."""
        tree_stream.learn(*state, x, arm, reward)

    @staticmethod
    def run(state: tree_stream.State, seed: np.uint64, start: int, *chunk: NDArray[Any]) -> int:
        """Rounds ``start``, ... of a chunk."""
        return tree_stream.run(seed, start, *state, *chunk)

    @staticmethod
    def learn_rows(state: tree_stream.State, start: int, *rows: NDArray[Any]) -> int:
        """Rows ``start``, ... of a log."""
        return tree_stream.learn_rows(start, *state, *rows)


@dataclass(frozen=True)
class StreamedTree(DyadicTree):
    """The same algorithm, whose bins count ahead for the parts that they may be split into."""

    kernels: ClassVar[Any] = OneByOneStreamed
    layout: ClassVar[Layout] = LAYOUT

    def given(self, policy: CompiledPolicy) -> dict[str, NDArray[Any]]:
        """As for the other tree; the last of the constants says how many bins there may be."""
        given = super().given(policy)
        row = 8 * (len(_NO_NODE) + policy.n_arms * (len(given["tallies"]) + len(given["moments"])))
        return {**given, "constants": np.append(given["constants"], max(1, MAX_BYTES // row))}


class StreamedAdaptiveTree(AdaptiveTree):
    """The same algorithm, whose leaves keep sums over the halves that they may be split into."""

    kernels: ClassVar[Any] = adaptive_stream
    layout: ClassVar[Layout] = ADAPTIVE_LAYOUT

    def sizes(self, policy: CompiledPolicy) -> dict[str, int]:
        """Sizes that the layout speaks of."""
        sizes, dim = super().sizes(policy), policy.context_dim
        p, quarters = sizes["features"], 2 * dim * (dim + 1) if dim <= MAX_FOR_QUARTERS else 0
        return {**sizes, "sums": adaptive_stream.MOMENTS + p + p * (p + 1) // 2, "parts": 2 * dim + quarters}

    def given(self, policy: CompiledPolicy) -> dict[str, NDArray[Any]]:
        """As for the other tree; and how many leaves and former leaves there may be."""
        sizes = self.sizes(policy)
        fits = policy.n_arms * policy.n_objectives
        row = 8 * fits * (sizes["features"] ** 2 + sizes["parts"] * sizes["sums"])  # by far the most of it
        if (most := MAX_BYTES // row) < 1 + SPLIT_IN:
            raise ValueError(
                f"history='stream' takes {row / 2**20:.0f} MB for each bin with n_arms = {policy.n_arms}, "
                f"context_dim = {policy.context_dim} and {policy.n_objectives} objectives, which is more than a third "
                f"of the {MAX_BYTES / 2**20:.0f} MB that there are for all; use history='exact'."
            )
        return {**super().given(policy), "most": np.array([most])}
