"""The tree that learns everything it needs: ``ConeTree(preset="adaptive")``."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conebandit.geometry.cone import Cone
from conebandit.kernels import adaptive_tree as kernels
from conebandit.kernels.quadratics import prior_variance
from conebandit.policies.compiled import CompiledPolicy
from conebandit.policies.cone_tree import Bin, ConeTree, Elimination, Explanation
from conebandit.validate import storage
from conebandit.validate.arrays import FloatArray

MAX_FOR_PRODUCTS = 3  # coordinates up to which products of two are features; beyond, they would be too many


class AdaptiveTree(CompiledPolicy, ConeTree):
    """What ``ConeTree(preset="adaptive")`` makes: noise, smoothness and relevant coordinates are learned from the data.

    Every leaf has a quadratic fit for each arm and metric that starts from its parent's. A leaf is split, along one
    coordinate, when two fits are better than one by more than chance explains. Played, uniformly, are the arms on the
    front of the optimistic estimates at the context; reported is the front of the estimates. No arm is ever lost for
    good. ``docs/adaptive.md`` has the formulas.

    Parameters
    ----------
    n_arms, cone, context_dim, seed, bounds
        As for :class:`ConeTree`; any number of coordinates.
    preset
        ``"adaptive"``.

    Examples
    --------
    >>> import conebandit as cb
    >>> policy = cb.ConeTree(n_arms=3, cone=cb.Cone.orthant(2), context_dim=20, preset="adaptive")
    >>> decision = policy.decide([0.5] * 20, key=1)
    >>> policy.observe([0.5] * 20, decision.arm, [900.0, -4.0])      # any scale
    >>> policy.n_leaves
    1
    """

    kernels: ClassVar[Any] = kernels
    grows: ClassVar[dict[str, tuple[int, int]]] = {
        **dict.fromkeys(("data", "chain"), (kernels.OBSERVATIONS, 1)),
        **dict.fromkeys(
            ("links", "boxes", "ties", "counts", "residuals", "coefficients", "covariances"), (kernels.NODES, 2)
        ),
    }
    fixed: ClassVar[frozenset[str]] = frozenset({"terms"})
    preset = "adaptive"

    def __init__(
        self,
        n_arms: int,
        cone: Cone,
        context_dim: int,
        *,
        preset: str = "adaptive",
        seed: int = 0,
        bounds: ArrayLike | None = None,
        **constants: Any,
    ) -> None:
        if constants:
            raise ValueError(
                f"{', '.join(constants)} cannot be given to preset 'adaptive', which learns what it needs from the "
                "data; leave it out, or use preset 'sound'."
            )
        if preset != "adaptive":
            raise ValueError(f"preset must be 'adaptive' for an AdaptiveTree; got {preset!r}. Use ConeTree for others.")
        CompiledPolicy.__init__(self, n_arms, cone, context_dim, seed=seed, bounds=bounds)

    def _fresh_state(self) -> kernels.State:
        arms, objectives, dim = self.n_arms, self.n_objectives, self.context_dim
        terms = _terms(dim)
        prior = [prior_variance(terms, a) / kernels.ROOT_PRIOR for a in range(len(terms))]
        links = np.full((1, 8), -1)
        links[0, [kernels.SEEN, kernels.NEXT_TEST, kernels.TESTS]] = 0, kernels.FIRST_TEST, 0
        return kernels.State(
            size=np.array([0, 1]),
            links=links,
            boxes=np.full((1, dim, 2), 0.5),
            ties=np.array([kernels.ROOT_PRIOR]),
            counts=np.zeros((1, arms, objectives), dtype=np.int64),
            residuals=np.zeros((1, arms, objectives, 2)),
            coefficients=np.zeros((1, arms, objectives, len(terms))),
            covariances=np.tile(np.diag(prior), (1, arms, objectives, 1, 1)),
            data=np.zeros((0, dim + objectives)),
            chain=np.zeros((0, 2), dtype=np.int64),
            known=np.zeros((arms, objectives), dtype=np.int64),
            anchor=np.full(objectives, np.nan),
            noise=np.zeros((objectives, 2)),
            facets=self.cone.facets.copy(),
            terms=terms,
        )

    def _check_indices(self) -> None:
        s = self._state
        samples, nodes = len(s.data), len(s.links)
        storage.require_range("links", s.links[:, [kernels.PARENT]], -1, nodes)
        storage.require_range("links", s.links[:, [kernels.CHILD]], -1, nodes - 1)  # the first of two
        storage.require_range("links", s.links[:, [kernels.AXIS]], -1, self.context_dim)
        storage.require_range("links", s.links[:, [kernels.FIRST, kernels.LAST]], -1, samples)
        storage.require_range("chain", s.chain[:, kernels.ARM], 0, self.n_arms)
        storage.require_range("chain", s.chain[:, kernels.FOLLOWING], -1, samples)

    def _make_room(self, observations: int) -> None:
        samples, nodes = self._state.size.tolist()
        # Looking at two of the arrays is enough, since the others grow with them; this is called for every observation.
        if samples + observations > len(self._state.data) or nodes + 2 > len(self._state.links):
            super()._make_room(observations)

    @property
    def n_leaves(self) -> int:
        """Number of boxes that are not split."""
        return (int(self._state.size[kernels.NODES]) + 1) // 2

    @property
    def noise(self) -> FloatArray:
        """Shape (M,), deviation of the noise in each metric as it is estimated from all leaves; nan before."""
        squares, freedom = self._state.noise.T
        with np.errstate(invalid="ignore"):
            return np.asarray(np.sqrt(np.maximum(squares, 0.0) / freedom))

    def explain(self, context: ArrayLike) -> Explanation:
        """The path of boxes to a context, the arms played there, and which arm keeps each of the others out for now.

        Parameters
        ----------
        context
            Shape (d,), within the bounds.
        """
        x = self.box.point(context)
        decision = self.decide(context, 0)
        upper = np.empty((self.n_arms, len(self.cone.facets)))
        kernels.raise_images(self._state, x, upper)
        path = self._boxes(x)
        eliminated = []
        for k in np.flatnonzero(~decision.mask):
            by = next(a for a in decision.active if (upper[a] >= upper[k]).all())
            now, level = self.n_observations, path[-1].level
            eliminated.append(Elimination(int(k), observation=now, by=by, level=level, margins=upper[by] - upper[k]))
        return Explanation(path, decision.active, tuple(eliminated))

    def _boxes(self, x: FloatArray) -> tuple[Bin, ...]:
        """The boxes on the way to a point, from the root on, in the units of the contexts."""
        links, boxes = self._state.links, self._state.boxes
        nodes = [int(kernels.leaf_of(self._state, x[None, :], 0))]
        while links[nodes[0], kernels.PARENT] >= 0:
            nodes.insert(0, int(links[nodes[0], kernels.PARENT]))
        low, span = self.box.bounds[:, 0], np.ptp(self.box.bounds, axis=1)
        path = []
        for level, node in enumerate(nodes):
            middle, half = boxes[node].T
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
