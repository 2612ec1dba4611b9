"""Posterior sampling on random Fourier features: a Bayesian regression for each arm and metric."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from conebandit.kernels import fourier_sampling as kernels
from conebandit.kernels import queries, rows
from conebandit.kernels.fourier_sampling import ANCHOR, CENTRE, COUNT, ERRORS, ONES, REWARDS, SQUARES
from conebandit.policies.common import setting
from conebandit.policies.compiled import CompiledPolicy
from conebandit.policies.layout import Array, Counter, Layout
from conebandit.policies.merging import Regression, added, pooled
from conebandit.validate.arguments import as_count, as_number
from conebandit.validate.arrays import FloatArray

MAX_FEATURES = 256  # each arm and metric has a matrix of their square from the start
MIN_SETTING, MAX_SETTING = 1e-6, 1e6  # beyond, cosines and perturbations lose their meaning


@dataclass(eq=False, repr=False, kw_only=True)
class FourierSampling(CompiledPolicy):
    """Thompson sampling (Agrawal and Goyal, 2013) on random Fourier features (Rahimi and Recht, 2007), for any cone.

    Each metric of each arm is a Bayesian linear regression on cosines of random frequencies and a constant: close to a
    Gaussian process with the kernel exp(-|x - y|^2 / (2 length_scale^2)) on the unit cube that contexts are scaled to.
    All weights have the prior N(0, 1), since rewards are standardised by their running moments; the noise is estimated
    from the errors of predictions. Predictions are perturbed by ``temperature`` posterior deviations, and an arm on the
    front of these is played, uniformly; arms with an unknown metric come first. Reports the front of the posterior
    means. There are 16 perturbed fronts in each state and context, so the probabilities of all arms are known.

    Parameters
    ----------
    n_arms, cone, context_dim, seed, bounds, explore, resolution
        As for :class:`ConeTree`. The seed also draws the frequencies.
    n_features
        Number of cosines, up to 256. The cost of a round and the memory grow with its square.
    length_scale
        Distance over which means change. The default was chosen on the development suite
        (``benchmarks/results/tuning.md``), like that of ``temperature``.
    temperature
        Factor on the posterior deviation; 1 is posterior sampling, 0 is greedy.

    Examples
    --------
    >>> import numpy as np, conebandit as cb
    >>> policy = cb.FourierSampling(n_arms=2, cone=cb.Cone.orthant(1), context_dim=1, length_scale=0.3)
    >>> for x in np.linspace(0, 1, 30):
    ...     policy.observe([x], 0, [np.sin(6 * x)])
    ...     policy.observe([x], 1, [np.cos(6 * x)])
    >>> [policy.front([x]).arms for x in (0.0, 0.4, 0.9)]
    [(1,), (0,), (1,)]
    """

    n_features: int = setting(64, partial(as_count, most=MAX_FEATURES))
    length_scale: float = setting(0.6, partial(as_number, least=MIN_SETTING, most=MAX_SETTING))
    temperature: float = setting(0.3, partial(as_number, least=0.0, most=MAX_SETTING))

    _kernels: ClassVar[Any] = kernels
    _query: ClassVar[Any] = staticmethod(queries.ask_fourier_sampling)
    _observe_rows: ClassVar[Any] = staticmethod(rows.observe_fourier_sampling)
    _layout: ClassVar[Layout] = Layout(
        kernels.State,
        {"observations": Counter()},
        {
            "counts": Array(("arms", "objectives"), np.int64),
            "frequencies": Array(("cosines", "coordinates")),
            "phases": Array(("cosines",)),
            "covs": Array(("arms", "objectives", "features", "features")),
            "weights": Array(("arms", "objectives", 2, "features")),
            "moments": Array((5, "objectives")),
            "facets": Array(("facets", "objectives")),
            "temperature": Array((1,)),
        },
        cone_free=True,
    )

    def _merged(self, other: Self, start: Self) -> Self:
        for name, policy in (("other", other), ("since", start)):
            if not np.array_equal(self._state.frequencies, policy._state.frequencies):
                raise ValueError(
                    f"{name} must have this policy's seed, {self.seed}, which draws the features; got {policy.seed}."
                )
        states = self._state, other._state, start._state
        made = added(states, ("size", "counts"))
        anchors = np.where(self._state.moments[COUNT] > 0, self._state.moments[ANCHOR], other._state.moments[ANCHOR])
        covs, weights = np.empty_like(self._state.covs), np.empty_like(self._state.weights)
        for k, m in np.ndindex(covs.shape[:2]):
            fits = [Regression(state.covs[k, m], _weights_from(anchors[m], state, k, m).T) for state in states]
            covs[k, m], transposed = pooled(*fits)
            weights[k, m] = transposed.T
        moments = _pooled_moments(*(_moments_from(anchors, state.moments) for state in states))
        return self.clone()._with({**self.state(), **made, "covs": covs, "weights": weights, "moments": moments})

    def _own_sizes(self) -> dict[str, int]:
        return {"cosines": self.n_features, "features": self.n_features + 1}

    def _given(self) -> dict[str, NDArray[Any]]:
        frequencies, phases = np.empty((self.n_features, self.context_dim)), np.empty(self.n_features)
        kernels.draw_features(self._seed, self.length_scale, frequencies, phases)
        return {
            **super()._given(),
            "frequencies": frequencies,
            "phases": phases,
            "covs": np.eye(self.n_features + 1),
            "temperature": np.array([self.temperature]),
        }


def _weights_from(anchor: float, state: kernels.State, k: int, m: int) -> FloatArray:
    """Both rows of weights (2, P) of an arm and metric, with rewards counted from another anchor."""
    moved: FloatArray = state.weights[k, m].copy()
    moved[REWARDS] += (state.moments[ANCHOR, m] - anchor) * moved[ONES]
    return moved


def _moments_from(anchors: FloatArray, moments: FloatArray) -> FloatArray:
    """Moments (5, M) with rewards counted from other anchors (M,)."""
    moved = moments.copy()
    moved[CENTRE] += np.where(moments[COUNT] > 0, moments[ANCHOR] - anchors, 0.0)
    moved[ANCHOR] = anchors
    return moved


def _pooled_moments(mine: FloatArray, theirs: FloatArray, start: FloatArray) -> FloatArray:
    """Moments (5, M) of the rewards of two policies; those of ``start``, which are among both, count once."""
    found = mine.copy()
    n, before = mine[COUNT], start[COUNT]
    new = theirs[COUNT] - before
    with np.errstate(divide="ignore", invalid="ignore"):
        centre = np.where(new > 0, (theirs[COUNT] * theirs[CENTRE] - before * start[CENTRE]) / new, 0.0)
        between = np.where(new > 0, before * new / theirs[COUNT], 0.0)
        squares = np.maximum(theirs[SQUARES] - start[SQUARES] - between * (centre - start[CENTRE]) ** 2, 0.0)
        share = np.where(new > 0, new / (n + new), 0.0)
    found[COUNT] = n + new
    found[CENTRE] += share * (centre - mine[CENTRE])
    found[SQUARES] += squares + n * share * (centre - mine[CENTRE]) ** 2
    found[ERRORS] += theirs[ERRORS] - start[ERRORS]
    return found
