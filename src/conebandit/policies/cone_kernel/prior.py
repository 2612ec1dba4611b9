"""Steps of a fit that set the prior: each takes a state and gives a new one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from conebandit.kernels.cone_kernel.constants import (
    COST_OF_A_CALL,
    COST_OF_A_FUNCTION,
    INITIAL_CONSTANT_VARIANCE,
    INITIAL_RATIO,
    MAX_PRIOR_VARIANCE,
    MIN_FREEDOM_SHARE,
    MIN_KNOWN_SHARE,
    MIN_NOISE,
    MIN_PRIOR_VARIANCE,
    NOISE_WEIGHT,
    ROUNDING,
    SENTINEL_SIGNAL_TO_NOISE,
    SETTLED_CHANGE,
)
from conebandit.kernels.cone_kernel.fit import squared_errors
from conebandit.kernels.cone_kernel.prior import MOVES, improve_priors, write_prior
from conebandit.kernels.cone_kernel.state import (
    AMPLITUDE,
    CENTRE,
    DESCRIBED,
    LEVEL_OF_ARMS,
    NOISE,
    OBSERVATIONS,
    SPREAD,
    State,
)
from conebandit.policies.cone_kernel.candidates import Candidates, are_sentinels
from conebandit.policies.cone_kernel.posterior import Posterior
from conebandit.policies.cone_kernel.sums import Totals
from conebandit.policies.cone_kernel.work import Work, in_units
from conebandit.validate.arrays import FloatArray

# Before anything is known, in units of the variance of the rewards: noise and the means of an arm add up to it, and of
# the means the constant has as many parts as INITIAL_CONSTANT_VARIANCE says, all other features together one.
INITIAL_NOISE = 1.0 / (1.0 + INITIAL_RATIO)
INITIAL_AMPLITUDE = (1.0 - INITIAL_NOISE) / (1.0 + INITIAL_CONSTANT_VARIANCE)


def standardise(state: State) -> Work[State]:
    """Centre and spread of the rewards seen so far; what is measured in units of the spread is converted.

    What was learned of a metric in units that were not known yet is forgotten.
    """
    rewards = state.data[: int(state.size[OBSERVATIONS]), state.orders.shape[1] :]
    scales, noise = state.scales.copy(), state.noise.copy()
    for m in range(rewards.shape[1]):
        # Of many rewards one pass takes a while, so each is a unit of work; together they count as what they are.
        cost = COST_OF_A_CALL + COST_OF_A_FUNCTION * len(rewards)
        known = rewards[~np.isnan(rewards[:, m]), m]
        yield cost // 2
        if len(known):
            largest = np.abs(known).max() or 1.0  # so that squares of huge rewards do not overflow
            spread = largest * (known / largest).std()
            spread = spread if spread > ROUNDING * largest else largest  # as for constant rewards
            if state.fitted_to[m]:
                change = (scales[SPREAD, m] / spread) ** 2
                # Within bounds, since a reward may be as large as can be.
                scales[NOISE:, m] = np.clip(change * scales[NOISE:, m], MIN_PRIOR_VARIANCE, MAX_PRIOR_VARIANCE)
                noise[:, m] = np.clip(change * noise[:, m], MIN_PRIOR_VARIANCE, MAX_PRIOR_VARIANCE)
            else:
                scales[NOISE, m], scales[AMPLITUDE:, m], noise[:, m] = INITIAL_NOISE, INITIAL_AMPLITUDE, INITIAL_NOISE
            scales[CENTRE, m], scales[SPREAD, m] = known.mean(), spread
        yield cost - cost // 2
    return state._replace(scales=scales, noise=noise)


def learn_prior(state: State, found: Posterior, totals: Totals, density: FloatArray) -> Work[State]:
    """One step of the iteration on noise, amplitudes and the kernel, from the posterior.

    The share of a weight that is known from the data is g = 1 - variance / prior variance (MacKay 1992).
    """
    own, effects = found.means - found.common, found.effects
    own_prior = state.scales[AMPLITUDE][:, None] * state.prior
    known = own_known = _known_share(found.variances, own_prior)
    if len(effects.features) > state.prior.shape[1]:
        # Effects along the features of arms may explain nearly all that sets arms apart: then little is known of it.
        own_known = _known_share(found.variances + known**2 * found.common_variances, own_prior)
    shared_known = _known_share(found.shared_variances, effects.prior(state.scales))
    scales = state.scales.copy()
    scales[NOISE], noise = _noise(state, found.means, known, shared_known, totals)
    yield known.size * known.shape[2]
    varying = np.arange(len(state.orders)) > 0  # all features but the constant
    squares = (own[:, :, varying] ** 2 / state.prior[:, varying]).sum(axis=(0, 2))
    scales[AMPLITUDE] = _variance(squares, own_known[:, :, varying].sum(axis=(0, 2)), INITIAL_AMPLITUDE)
    moments, shares = (own**2 / scales[AMPLITUDE][:, None]).sum(axis=0), own_known.sum(axis=0)  # (M, D)
    squared_shares = (own_known**2).sum(axis=0)
    constant = _variance(moments[:, 0], shares[:, 0], INITIAL_CONSTANT_VARIANCE)
    for row, mine in effects.by_scale(len(scales)):
        squares = found.shared[:, mine] ** 2
        total, known_here = (squares / effects.units[:, mine]).sum(axis=1), shared_known[:, mine].sum(axis=1)
        scales[row] = _variance(total, known_here, INITIAL_AMPLITUDE)
        if row != LEVEL_OF_ARMS:  # effects on the constant say nothing about the kernel
            np.add.at(moments.T, effects.features[mine], squares.T / scales[row])
            np.add.at(shares.T, effects.features[mine], shared_known[:, mine].T)
            np.add.at(squared_shares.T, effects.features[mine], shared_known[:, mine].T ** 2)
    shares[totals.squares.sum(axis=0) == 0.0] = 0.0  # rewards that are all the same say nothing about the kernel
    state = state._replace(scales=scales, noise=noise, constant=constant)
    yield COST_OF_A_CALL + COST_OF_A_FUNCTION * known.size
    told = Measurements.of(moments, shares, squared_shares, state.prior)
    return (yield from _learn_kernel(state, Measurements(*(array[:, 1:].copy() for array in told)), density))


class Measurements(NamedTuple):
    """What the data tell about the weights of each feature, over arms, in units of the amplitude: shapes (M, D).

    As much as ``number`` equal measurements whose squares add up to ``squares``, with an ``error`` of this variance.
    Shares and errors are those under the amplitude that the posterior was found with, squares are in units of the new
    one: where nothing changes any more it is the same.
    """

    squares: FloatArray
    number: FloatArray
    error: FloatArray

    @classmethod
    def of(cls, moments: FloatArray, shares: FloatArray, squared_shares: FloatArray, prior: FloatArray) -> Self:
        """From sums over arms of squared posterior means, of g, the known share of a weight, and of its square.

        For one weight these are g times the measurement, squared; g; and its square. Arms know a weight to different
        degrees: so many equal ones are taken for them as have the same two sums of g, so that how probable a prior is
        has the same slope at the present one, and is expected to have the same curvature.
        """
        anything = shares > 0.0
        typical = np.where(anything, squared_shares / np.where(anything, shares, 1.0), 1.0)
        return cls(
            squares=np.where(anything, moments / typical**2, 0.0),
            number=np.where(anything, shares / typical, 0.0),
            error=prior * (1.0 - typical) / typical,
        )


def _learn_kernel(state: State, told: Measurements, density: FloatArray) -> Work[State]:
    """The state with the kernel under which what is told of all features but the constant is most probable."""
    kernel = state.relevance.copy(), state.lengths.copy(), state.smoothness.copy()
    orders = state.orders[1:]
    floor = np.where(are_sentinels(orders), least_of_sentinels(state)[:, None], MIN_PRIOR_VARIANCE)
    cost = len(floor) * (orders.size + len(MOVES) * len(orders) * COST_OF_A_FUNCTION)
    for first, last in in_units(orders.shape[1], cost):
        improve_priors(first, last, *told, orders, floor, density, *kernel)
        yield (last - first) * cost
    relevance, lengths, smoothness = kernel
    return state._replace(relevance=relevance, lengths=lengths, smoothness=smoothness)


def _known_share(variances: FloatArray, prior: FloatArray) -> FloatArray:
    return np.asarray(np.minimum(np.maximum(1.0 - variances / prior, MIN_KNOWN_SHARE), 1.0))


def _noise(
    state: State, means: FloatArray, known: FloatArray, shared_known: FloatArray, totals: Totals
) -> tuple[FloatArray, FloatArray]:
    """Variance of the noise of each metric (M,), and of each arm (K, M).

    Both are squared errors over the degrees of freedom that are left by the arms' own weights and, in proportion to the
    observations of an arm, by what arms have in common. An arm also has NOISE_WEIGHT imagined observations with the
    noise of all arms together, and a metric one with the noise of the beginning. Without it, weights that pass through
    every sample leave no errors, so no noise, and so weights that pass through every sample: small trials ended there.
    """
    count = state.counts.astype(np.float64)
    taken = known.sum(axis=2) + shared_known.sum(axis=1) * count / np.maximum(count.sum(axis=0), 1.0)
    freedom = np.maximum(count - taken, MIN_FREEDOM_SHARE * count)
    errors = squared_errors(*totals, np.ascontiguousarray(means))
    pooled = np.maximum((INITIAL_NOISE + errors.sum(axis=0)) / (1.0 + freedom.sum(axis=0)), MIN_NOISE)
    return pooled, np.maximum((NOISE_WEIGHT * pooled + errors) / (NOISE_WEIGHT + freedom), MIN_NOISE)


def _variance(squares: FloatArray, known: FloatArray, typical: float) -> FloatArray:
    """Variance of weights by their sum of squares and how many of them are known, and by one imagined weight.

    Without the imagined one, of ``typical`` variance, a variance could vanish by chance, and never be learned again.
    """
    variance = (typical + squares) / (1.0 + known)
    return np.asarray(np.minimum(np.maximum(variance, MIN_PRIOR_VARIANCE), MAX_PRIOR_VARIANCE))


def signal_to_noise(state: State) -> FloatArray:
    """Signal-to-noise ratio (M,) of a weight of unit prior variance, for an arm with its share of the observations."""
    amplitude = state.scales[AMPLITUDE] + state.scales[DESCRIBED:].sum(axis=0)
    return np.asarray(amplitude / state.scales[NOISE] * (int(state.size[OBSERVATIONS]) / state.weights.shape[0]))


def least_of_sentinels(state: State) -> FloatArray:
    """Least prior variance (M,) of the sentinels, which always stay in view."""
    return SENTINEL_SIGNAL_TO_NOISE / signal_to_noise(state)


def prior_variances(state: State, candidates: Candidates, density: FloatArray) -> FloatArray:
    """Prior variance (M, N) of all candidates, in units of the amplitude; see the kernels' ``prior``."""
    return _prior_variances(state, candidates.orders, candidates.sentinels, density)


def prior_of_features(state: State, density: FloatArray) -> FloatArray:
    """The same of the features that are in use, (M, D)."""
    return _prior_variances(state, state.orders, are_sentinels(state.orders), density)


def _prior_variances(
    state: State, orders: NDArray[np.int64], sentinels: NDArray[np.bool_], density: FloatArray
) -> FloatArray:
    prior = np.empty((len(state.relevance), len(orders)))
    kernel = density, state.relevance, state.lengths, state.smoothness, state.constant
    write_prior(orders, *kernel, sentinels, least_of_sentinels(state), prior)
    return prior


def is_settled(seen: Sequence[State], state: State) -> bool:
    """Whether a step of the iteration on the prior changed nothing of note, or led back to where it was two before."""
    if _same(state, seen[-1], "parts", "relevance", "lengths", "smoothness"):
        logs = [np.log(one.scales[NOISE:]) + 2.0 * np.log(one.scales[SPREAD]) for one in (seen[-1], state)]
        return bool(np.abs(logs[0] - logs[1]).max() < SETTLED_CHANGE)
    return len(seen) > 1 and _same(state, seen[-2], "relevance", "lengths", "smoothness")


def _same(one: State, other: State, *names: str) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)
