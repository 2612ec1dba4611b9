"""The tree that learns everything it needs: ``ConeTree(preset="adaptive")``."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conebandit.kernels import adaptive_tree as kernels
from conebandit.kernels import queries
from conebandit.kernels.quadratics import prior_variance
from conebandit.policies.compiled import CompiledPolicy
from conebandit.policies.explanation import Bin, Elimination, Explanation
from conebandit.policies.layout import Array, Counter, Index, Layout
from conebandit.policies.merging import Samples
from conebandit.validate.arrays import FloatArray

MAX_FOR_PRODUCTS = 3  # coordinates up to which products of two are features; beyond, they would be too many

_NO_NODE = (-1, -1, -1, -1, -1, 0, kernels.FIRST_TEST, 0)  # parent, child, axis, first, last, seen, next test, tests

ARRAYS_OF_NODES = {
    "links": Array(
        ("nodes", 8),
        np.int64,
        fill=_NO_NODE,
        indices={
            kernels.PARENT: Index("nodes", none=True, towards="earlier"),
            kernels.CHILD: Index("nodes", none=True, block=2, towards="later"),
            kernels.AXIS: Index("coordinates", none=True),
            kernels.FIRST: Index("observations", none=True),
            kernels.LAST: Index("observations", none=True),
        },
    ),
    "boxes": Array(("nodes", "coordinates", 2), fill=0.5),
    "ties": Array(("nodes",), fill=kernels.ROOT_PRIOR),
    "counts": Array(("nodes", "arms", "objectives"), np.int64),
    "residuals": Array(("nodes", "arms", "objectives", 2)),
    "coefficients": Array(("nodes", "arms", "objectives", "features")),
    "covariances": Array(("nodes", "arms", "objectives", "features", "features")),
}

ARRAYS_OF_THE_WHOLE = {
    "known": Array(("arms", "objectives"), np.int64),
    "anchor": Array(("objectives",), fill=np.nan),
    "noise": Array(("objectives", 2)),
    "facets": Array(("facets", "objectives")),
    "terms": Array(("features", 2), np.int64, fixed=True),
}

LAYOUT = Layout(
    kernels.State,
    {"observations": Counter(step=1), "nodes": Counter(1, step=2)},
    {
        **ARRAYS_OF_NODES,
        "data": Array(("observations", "sample")),
        "chain": Array(
            ("observations", 2),
            np.int64,
            indices={
                kernels.ARM: Index("arms"),
                kernels.FOLLOWING: Index("observations", none=True, towards="later"),
            },
        ),
        **ARRAYS_OF_THE_WHOLE,
    },
    cone_free=True,
)


class AdaptiveTree:
    """The algorithm behind ``ConeTree(preset="adaptive")``: noise, smoothness and relevant coordinates are learned.

    Every leaf has a quadratic fit for each arm and metric that starts from its parent's. A leaf is split, along one
    coordinate, when two fits are better than one by more than chance explains. Played, uniformly, are the arms on the
    front of the optimistic estimates at the context; reported is the front of the estimates. No arm is ever lost for
    good. ``docs/adaptive.md`` has the formulas.
    """

    kernels: ClassVar[Any] = kernels
    query: ClassVar[Any] = staticmethod(queries.ask_adaptive_tree)
    layout: ClassVar[Layout] = LAYOUT

    def sizes(self, policy: CompiledPolicy) -> dict[str, int]:
        """Sizes that the layout speaks of."""
        dim = policy.context_dim
        return {"sample": dim + policy.n_objectives, "features": len(_terms(dim))}

    def given(self, policy: CompiledPolicy) -> dict[str, NDArray[Any]]:
        """A root in which nothing is known but the prior."""
        terms = _terms(policy.context_dim)
        prior = [prior_variance(terms, a) / kernels.ROOT_PRIOR for a in range(len(terms))]
        return {"covariances": np.diag(prior), "facets": policy.cone.facets, "terms": terms}

    def n_leaves(self, state: kernels.State) -> int:
        """Number of boxes that are not split."""
        return (int(state.size[kernels.NODES]) + 1) // 2

    def noise(self, state: kernels.State) -> FloatArray:
        """Shape (M,), deviation of the noise in each metric as it is estimated from all leaves; nan before."""
        squares, freedom = state.noise.T
        with np.errstate(invalid="ignore"):
            return np.asarray(np.sqrt(np.maximum(squares, 0.0) / freedom))

    def add(self, policy: CompiledPolicy, samples: Samples) -> None:
        """Let a tree learn from samples of another one, after its own."""
        policy._learn_rows(*samples.columns(policy.context_dim))

    def explain(self, policy: CompiledPolicy, state: kernels.State, context: ArrayLike) -> Explanation:
        """The path of boxes to a context, the arms played there, and which arm keeps each of the others out for now."""
        x = policy.box.point(context)
        active = policy._flags(x)[0]
        playable = tuple(np.flatnonzero(active).tolist())
        upper = np.empty((policy.n_arms, len(state.facets)))
        kernels.raise_images(state, x, upper)
        path = _boxes(state, x, policy.box.bounds)
        eliminated = []
        for k in np.flatnonzero(~active):
            by = next(a for a in playable if (upper[a] >= upper[k]).all())
            now, level = policy.n_observations, path[-1].level
            eliminated.append(Elimination(int(k), observation=now, by=by, level=level, margins=upper[by] - upper[k]))
        return Explanation(path, playable, tuple(eliminated))


def _boxes(state: kernels.State, x: FloatArray, bounds: FloatArray) -> tuple[Bin, ...]:
    """The boxes on the way to a point, from the root on, in the units of the contexts."""
    links = state.links
    nodes = [int(kernels.leaf_of(state, x[None, :], 0))]
    while links[nodes[0], kernels.PARENT] >= 0:
        nodes.insert(0, int(links[nodes[0], kernels.PARENT]))
    low, span = bounds[:, 0], np.ptp(bounds, axis=1)
    path = []
    for level, node in enumerate(nodes):
        middle, half = state.boxes[node].T
        seen = int(links[node, kernels.SEEN])
        path.append(Bin(level, low + span * (middle - half), low + span * (middle + half), seen))
    return tuple(path)


def _terms(dim: int) -> NDArray[np.int64]:
    """The coordinates that make up each feature, -1 for none."""
    none, all_ = -1, range(dim)
    terms = [(none, none)] + [(j, none) for j in all_] + [(j, j) for j in all_]
    if dim <= MAX_FOR_PRODUCTS:
        terms += [(i, j) for i in all_ for j in range(i)]
    return np.array(terms, dtype=np.int64)
