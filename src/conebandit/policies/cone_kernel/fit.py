"""Fits the model of a ``ConeKernel`` anew: standardise, learn the prior, choose features, fit weights, learn ties."""

from __future__ import annotations

import numpy as np

from conebandit.kernels.cone_kernel.constants import (
    FEATURES_PER_OBSERVATION,
    LAST_FIT,
    MAX_PRIOR_STEPS,
    MIN_SIGNAL_TO_NOISE,
    REFIT_GROWTH,
    SENTINEL_PRIORITY,
    SPARE_FEATURES,
)
from conebandit.kernels.cone_kernel.features import highest_order
from conebandit.kernels.cone_kernel.fit import inverse_root, posterior_draws, posterior_mean
from conebandit.kernels.cone_kernel.prior import spectral_density
from conebandit.kernels.cone_kernel.state import AMPLITUDE, FITTED, NEXT_FIT, NOISE, OBSERVATIONS, State
from conebandit.policies.cone_kernel.candidates import Candidates
from conebandit.policies.cone_kernel.prior import is_settled, learn_prior, prior_variances, signal_to_noise, standardise
from conebandit.policies.cone_kernel.sums import Sums
from conebandit.policies.cone_kernel.ties import learn_ties
from conebandit.validate.arrays import FloatArray


class Fitter:
    """The steps of a fit in their order, with what they share: candidates, spectral density, sums over samples."""

    def __init__(self, context_dim: int, max_features: int, seed: int) -> None:
        self.sums = Sums()
        self._candidates = Candidates.of_dim(context_dim)
        self._density = spectral_density(int(highest_order(context_dim)))
        self._max_features = max_features
        self._seed = seed

    def fit(self, state: State) -> State:
        """The state with a model fitted to all samples; iterates on the prior until it has settled."""
        variances = np.einsum("kmjj->kmj", state.covs)
        for step in range(1, MAX_PRIOR_STEPS + 1):
            before = state
            if state.size[FITTED]:
                state = learn_prior(state, variances, self.sums, self._density)
            state = choose_features(standardise(state), self._candidates, self._density, self._max_features)
            last = step == MAX_PRIOR_STEPS or is_settled(before, state)
            state, variances = fit_weights(state, self.sums, self._seed, final=last)
            if last:
                break
        return _schedule_next_fit(learn_ties(state))


def choose_features(state: State, candidates: Candidates, density: FloatArray, max_features: int) -> State:
    """Take the features that the data can tell apart; their weights are not fitted yet."""
    n, (n_arms, n_objectives, _, columns) = int(state.size[OBSERVATIONS]), state.weights.shape
    prior = prior_variances(state, candidates.orders, density)
    ratio = signal_to_noise(state) * prior
    ratio[candidates.sentinels] += SENTINEL_PRIORITY
    ratio[0] = np.inf  # the constant
    most = min(SPARE_FEATURES + int(FEATURES_PER_OBSERVATION * n / n_arms), max_features)
    size = min(int((ratio > MIN_SIGNAL_TO_NOISE).sum()), most)
    chosen = np.sort(np.argsort(-ratio, kind="stable")[:size])
    return state._replace(
        orders=candidates.orders[chosen],
        parts=candidates.parts[chosen],
        weights=np.zeros((n_arms, n_objectives, size, columns)),
        prior=prior[chosen],
    )


def fit_weights(state: State, sums: Sums, seed: int, *, final: bool) -> tuple[State, FloatArray]:
    """Posterior means of the weights from all samples; draws and covariances if ``final``. Gives the variances, too."""
    gram, cross, _ = sums.over_all(state)
    n_arms, n_objectives, features, columns = state.weights.shape
    weights, variances = np.zeros_like(state.weights), np.empty((n_arms, n_objectives, features))
    covs = np.empty((n_arms, n_objectives, features, features)) if final else state.covs
    rng = np.random.default_rng([seed, int(state.size[OBSERVATIONS])])
    mean, nothing = np.empty(features), np.zeros((features, features))
    for k in range(n_arms):
        for m in range(n_objectives):
            partial = gram[k, 1 + m] if gram.shape[1] > 1 else nothing
            noise = state.scales[NOISE, m]
            inverse = inverse_root(gram[k, 0], partial, state.scales[AMPLITUDE, m] * state.prior, noise)
            posterior_mean(inverse, cross[k, m], noise, mean, variances[k, m])
            weights[k, m, :, 0] = mean
            if final:
                normals = np.zeros((features, columns))  # in column 0, the mean, nothing is added
                normals[:, 1:] = rng.standard_normal((features, columns - 1))
                posterior_draws(inverse, mean, normals, covs[k, m], weights[k, m])
    size = state.size.copy()
    size[FITTED] = 1
    return state._replace(size=size, weights=weights, covs=covs), variances


def _schedule_next_fit(state: State) -> State:
    """Say at how many observations the next fit is due; never again after the last one."""
    size, n = state.size.copy(), int(state.size[OBSERVATIONS])
    following = max(int(n * REFIT_GROWTH), n + state.weights.shape[0])
    size[NEXT_FIT] = following if following <= LAST_FIT else np.iinfo(np.int64).max
    return state._replace(size=size)
