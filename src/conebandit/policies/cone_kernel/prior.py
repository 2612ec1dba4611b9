"""Steps of a fit that set the prior: each takes a state and gives a new one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from conebandit.kernels.cone_kernel.constants import (
    IMAGINED_WEIGHTS,
    INITIAL_NOISE,
    MAX_AMPLITUDE,
    MAX_CONSTANT_VARIANCE,
    MIN_AMPLITUDE,
    MIN_CONSTANT_VARIANCE,
    MIN_FREEDOM,
    MIN_FREEDOM_SHARE,
    MIN_KNOWN_SHARE,
    MIN_NOISE,
    MIN_PRIOR_VARIANCE,
    ROUNDING,
    SENTINEL_SIGNAL_TO_NOISE,
    SETTLED_CHANGE,
)
from conebandit.kernels.cone_kernel.fit import squared_errors
from conebandit.kernels.cone_kernel.prior import improve_prior
from conebandit.kernels.cone_kernel.state import (
    AMPLITUDE,
    CENTRE,
    CONSTANT_VARIANCE,
    FITTED,
    NOISE,
    OBSERVATIONS,
    SPREAD,
    State,
)
from conebandit.policies.cone_kernel.candidates import are_sentinels
from conebandit.policies.cone_kernel.sums import Sums
from conebandit.validate.arrays import FloatArray


def standardise(state: State) -> State:
    """Centre and spread of the rewards seen so far; what is measured in units of the spread is converted."""
    rewards = state.data[: int(state.size[OBSERVATIONS]), state.orders.shape[1] :]
    scales = state.scales.copy()
    for m in range(rewards.shape[1]):
        known = rewards[~np.isnan(rewards[:, m]), m]
        if len(known):
            largest = np.abs(known).max() or 1.0  # so that squares of huge rewards do not overflow
            spread = largest * (known / largest).std()
            spread = spread if spread > ROUNDING * largest else largest  # as for constant rewards
            if state.size[FITTED]:
                scales[[NOISE, AMPLITUDE], m] *= (scales[SPREAD, m] / spread) ** 2
            scales[CENTRE, m], scales[SPREAD, m] = known.mean(), spread
    return state._replace(scales=scales)


def learn_prior(state: State, variances: FloatArray, sums: Sums, density: FloatArray) -> State:
    """One step of the iteration on noise, amplitudes, relevances and length scales, from the current posterior.

    ``variances`` (K, M, D) are those of the weights. The share of a weight that is known from the data is
    g = 1 - variance / prior variance (MacKay 1992).
    """
    means = state.weights[..., 0]
    known = np.clip(1.0 - variances / (state.scales[AMPLITUDE][:, None] * state.prior), MIN_KNOWN_SHARE, 1.0)
    varying = state.orders.any(axis=1)  # all features but the constant
    scales, levels = state.scales.copy(), state.levels.copy()
    scales[NOISE] = _noise(state, means, known, sums)
    weighed = (means[:, :, varying] ** 2 / state.prior[varying]).sum(axis=(0, 2))
    amplitude = _variance(weighed, known[:, :, varying].sum(axis=(0, 2)))
    scales[AMPLITUDE] = np.clip(amplitude, MIN_AMPLITUDE, MAX_AMPLITUDE)
    moments, shares = (means**2 / scales[AMPLITUDE][:, None]).sum(axis=(0, 1)), known.sum(axis=(0, 1))
    constant = _variance(moments[~varying].sum(), shares[~varying].sum())
    levels[CONSTANT_VARIANCE] = np.clip(constant, MIN_CONSTANT_VARIANCE, MAX_CONSTANT_VARIANCE)
    relevance, lengths = state.relevance.copy(), state.lengths.copy()
    state = state._replace(scales=scales, levels=levels, relevance=relevance, lengths=lengths)
    orders = state.orders[varying]
    floor = least_prior(state, orders)
    improve_prior(moments[varying], shares[varying], orders, floor, density, relevance, lengths)
    return state


def _noise(state: State, means: FloatArray, known: FloatArray, sums: Sums) -> FloatArray:
    """Variance of the noise of each metric: squared errors over the degrees of freedom that are left."""
    count = state.counts.sum(axis=0)
    freedom = np.maximum(count - known.sum(axis=(0, 2)), MIN_FREEDOM_SHARE * count)
    errors = squared_errors(*sums.over_all(state), np.ascontiguousarray(means))
    return np.where(count > 0, np.maximum(errors / np.maximum(freedom, MIN_FREEDOM), MIN_NOISE), INITIAL_NOISE)


def _variance(moments: FloatArray, known: FloatArray) -> FloatArray:
    """Variance of weights by their sum of squares and how many of them are known, with a few imagined ones."""
    return np.asarray((IMAGINED_WEIGHTS + moments) / (IMAGINED_WEIGHTS + known))


def signal_to_noise(state: State) -> float:
    """Signal-to-noise ratio of a weight of unit prior variance, for an arm with its share of the observations."""
    best = (state.scales[AMPLITUDE] / state.scales[NOISE]).max()
    return float(best * int(state.size[OBSERVATIONS]) / state.weights.shape[0])


def least_prior(state: State, orders: NDArray[np.int64]) -> FloatArray:
    """Least prior variance of each feature: sentinels always stay in view."""
    return np.where(are_sentinels(orders), SENTINEL_SIGNAL_TO_NOISE / signal_to_noise(state), MIN_PRIOR_VARIANCE)


def prior_variances(state: State, orders: NDArray[np.int64], density: FloatArray) -> FloatArray:
    """Prior variance of features, in units of the amplitude; see the kernels' ``prior``."""
    prior = np.full(len(orders), 1.0 / (np.prod(1.0 + state.relevance) - 1.0))
    for i in range(orders.shape[1]):
        share = state.relevance[i] * density[state.lengths[i], orders[:, i]]
        prior *= np.where(orders[:, i] > 0, share, 1.0)
    prior = np.maximum(prior, least_prior(state, orders))
    prior[~orders.any(axis=1)] = state.levels[CONSTANT_VARIANCE]
    return np.asarray(prior)


def is_settled(before: State, after: State) -> bool:
    """Whether a step of the iteration on the prior changed nothing of note."""
    same = all(
        np.array_equal(getattr(before, name), getattr(after, name)) for name in ("parts", "relevance", "lengths")
    )
    logs = [np.log(state.scales[[NOISE, AMPLITUDE]]) + 2.0 * np.log(state.scales[SPREAD]) for state in (before, after)]
    return same and bool(np.abs(logs[0] - logs[1]).max() < SETTLED_CHANGE)
