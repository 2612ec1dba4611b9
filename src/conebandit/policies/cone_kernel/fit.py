"""Fits the model of a ``ConeKernel`` anew: standardise, learn the prior and choose features, fit weights."""

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
from conebandit.kernels.cone_kernel.prior import spectral_density
from conebandit.kernels.cone_kernel.state import NEXT_FIT, OBSERVATIONS, State
from conebandit.policies.cone_kernel.candidates import Candidates
from conebandit.policies.cone_kernel.posterior import fit_weights, posterior
from conebandit.policies.cone_kernel.prior import is_settled, learn_prior, prior_variances, signal_to_noise, standardise
from conebandit.policies.cone_kernel.sums import Sums
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
        state = self._choose_features(standardise(state))
        for _ in range(MAX_PRIOR_STEPS):
            before = state
            state = learn_prior(state, posterior(state, self.sums), self.sums, self._density)
            state = self._choose_features(state)
            if is_settled(before, state):
                break
        return _schedule_next_fit(fit_weights(state, self.sums, self._seed))

    def _choose_features(self, state: State) -> State:
        return choose_features(state, self._candidates, self._density, self._max_features)


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


def _schedule_next_fit(state: State) -> State:
    """Say at how many observations the next fit is due; never again after the last one."""
    size, n = state.size.copy(), int(state.size[OBSERVATIONS])
    following = max(int(n * REFIT_GROWTH), n + state.weights.shape[0])
    size[NEXT_FIT] = following if following <= LAST_FIT else np.iinfo(np.int64).max
    return state._replace(size=size)
