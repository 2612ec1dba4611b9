"""Posterior sampling on random Fourier features, on arrays: a Bayesian regression for each arm and metric.

    frequencies (D, d)      of the features sqrt(2 / D) cos(w.x + b); a constant comes first, so there are P = D + 1
    phases      (D,)
    covs        (K, M, P, P)   posterior covariances of the weights, in units of the variance of the metric
    weights     (K, M, 2, P)   what rewards without standardisation give, and what a one in place of each of them gives

Rewards are standardised by the moments of each metric over all arms, which change with every observation. Since the
posterior mean is linear in the rewards, the two rows of ``weights`` say what it is for any centre c: the regression of
reward - c is the first row less c times the second.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from conebandit.kernels.compile import compiled, in_place
from conebandit.kernels.fronts import draw, images, keep_undominated, report
from conebandit.kernels.loop import always, play
from conebandit.kernels.optimism import flag_candidates
from conebandit.kernels.rng import GOLDEN, hash_vector, mix, normal, uniform
from conebandit.kernels.types import Bools, Floats, Ints

OBSERVATIONS = 0
ANCHOR, COUNT, CENTRE, SQUARES, ERRORS = range(5)  # rows of ``moments``
REWARDS, ONES = 0, 1  # rows of ``weights``
N_FRONTS = 16  # perturbed fronts at a context, of which the key picks one; finite, so that chances can be counted
RADIUS = 2.0  # posterior deviations that a radius is wide
MIN_NOISE = 1e-4  # share of the variance; with less, rounding errors would pile up in the covariances


class State(NamedTuple):
    """Observations; ``counts`` (K, M) of known rewards; features; regressions; ``moments`` (5, M); what is constant.

    Rows of ``moments`` are, for each metric: the first reward, from which all are counted; how many are known; their
    mean; the sum of squares around it; the sum of squared errors of the predictions, without what the posterior knew to
    be uncertain.
    """

    size: Ints
    counts: Ints
    frequencies: Floats
    phases: Floats
    covs: Floats
    weights: Floats
    moments: Floats
    facets: Floats
    temperature: Floats


@compiled
def draw_features(seed: np.uint64, length_scale: float, frequencies: Floats, phases: Floats) -> None:
    """Frequencies w ~ N(0, 1 / length_scale^2) and uniform phases: the features of the Gaussian kernel."""
    bits = mix(seed)
    for i in range(phases.size):
        bits += GOLDEN
        phases[i] = 2.0 * math.pi * uniform(seed, mix(bits))
        for j in range(frequencies.shape[1]):
            bits += GOLDEN
            frequencies[i, j] = normal(mix(bits)) / length_scale


@in_place
def _write_features(state: State, x: Floats, phi: Floats) -> None:
    phi[0], scale = 1.0, math.sqrt(2.0 / state.phases.size)
    for i in range(state.phases.size):
        angle = state.phases[i]
        for j in range(x.size):
            angle += state.frequencies[i, j] * x[j]
        phi[i + 1] = scale * math.cos(angle)


@in_place
def _variance(state: State, m: int) -> float:
    """Variance of the rewards so far; 1 while they do not differ."""
    variance = state.moments[SQUARES, m] / max(state.moments[COUNT, m], 1.0)
    return float(variance) if variance > 0.0 else 1.0


@in_place
def _noise(state: State, m: int) -> float:
    """Noise as a share of the variance, from errors of predictions; the first, which nothing predicted, counts as 1."""
    share = (1.0 + state.moments[ERRORS, m] / _variance(state, m)) / max(state.moments[COUNT, m], 1.0)
    return float(min(max(share, MIN_NOISE), 1.0))


@in_place
def _multiply(cov: Floats, phi: Floats, gain: Floats) -> float:
    """Write the covariance times the features into ``gain``; the variance of the prediction, phi' cov phi."""
    gain[:] = 0.0
    for i in range(phi.size):
        row, factor = cov[i], phi[i]
        for j in range(gain.size):
            gain[j] += factor * row[j]
    variance = 0.0
    for j in range(phi.size):
        variance += phi[j] * gain[j]
    return max(variance, 0.0)


@in_place
def _centred(state: State, k: int, m: int, phi: Floats) -> float:
    """Posterior mean, counted from the anchor."""
    value, centre, weights = state.moments[CENTRE, m], state.moments[CENTRE, m], state.weights[k, m]
    for i in range(phi.size):
        value += phi[i] * (weights[REWARDS, i] - centre * weights[ONES, i])
    return float(value)


@compiled
def estimate(state: State, x: Floats, means: Floats, radii: Floats) -> None:
    """Posterior means and RADIUS posterior deviations; nan and inf where nothing is known of an arm."""
    phi, gain = np.empty((2, state.phases.size + 1))
    _write_features(state, x, phi)
    for k in range(means.shape[0]):
        for m in range(means.shape[1]):
            if state.counts[k, m] == 0:
                means[k, m], radii[k, m] = np.nan, np.inf
                continue
            means[k, m] = state.moments[ANCHOR, m] + _centred(state, k, m, phi)
            radii[k, m] = RADIUS * math.sqrt(_variance(state, m) * _multiply(state.covs[k, m], phi, gain))


@compiled
def choose(state: State, seed: np.uint64, x: Floats, key: int, active: Bools, reported: Bools, chances: Floats) -> int:
    """Any arm on one of the perturbed fronts, which the key picks; arms with an unknown metric come first."""
    estimates, values = np.empty((2, *state.counts.shape)), np.empty((active.size, state.facets.shape[0]))
    means, radii = estimates
    estimate(state, x, means, radii)
    active[:] = True
    known = report(state.facets, means, radii, active, values, reported)
    if known < active.size:
        flags = np.empty(active.size, dtype=np.bool_)
        flag_candidates(values, radii, known, flags)
        return draw(flags, uniform(seed, key), chances)
    # A hash of state and context, not of the key: so all keys choose among the same fronts, and chances are exact.
    bits = mix(hash_vector(x.view(np.uint64)) ^ mix(seed + np.uint64(state.size[OBSERVATIONS])))
    return _play_perturbed(state, means, radii, bits, uniform(seed, key), values, chances)


@compiled
def _play_perturbed(
    state: State, means: Floats, radii: Floats, bits: np.uint64, u: float, values: Floats, chances: Floats
) -> int:
    """Perturb the predictions N_FRONTS times, by random ``bits``; ``u`` picks one of the fronts and an arm on it."""
    drawn, arm = int(u * N_FRONTS), 0
    perturbed, shares, flags = np.empty_like(means), np.empty(chances.size), np.empty(chances.size, dtype=np.bool_)
    factor = state.temperature[0] / RADIUS
    chances[:] = 0.0
    for front in range(N_FRONTS):
        for k in range(means.shape[0]):
            for m in range(means.shape[1]):
                bits += GOLDEN
                perturbed[k, m] = means[k, m] + factor * radii[k, m] * normal(mix(bits))
        images(state.facets, perturbed, radii, 0.0, values)
        flags[:] = True
        keep_undominated(values, flags)
        one = draw(flags, u * N_FRONTS - drawn, shares)
        if front == drawn:
            arm = one
        for k in range(chances.size):
            chances[k] += shares[k] / N_FRONTS
    return arm


@compiled
def learn(state: State, x: Floats, arm: int, reward: Floats) -> None:
    """Update the posterior of the arm, and the moments, in every metric that is known."""
    state.size[OBSERVATIONS] += 1
    phi, gain = np.empty((2, state.phases.size + 1))
    _write_features(state, x, phi)
    for m in range(reward.size):
        if not np.isnan(reward[m]):
            if state.moments[COUNT, m] == 0.0:
                state.moments[ANCHOR, m] = reward[m]
            value, noise = reward[m] - state.moments[ANCHOR, m], _noise(state, m)
            variance = _multiply(state.covs[arm, m], phi, gain)
            error = value - _centred(state, arm, m, phi)
            # A squared error is the noise and the variance of the prediction: the share of it that is noise counts.
            state.moments[ERRORS, m] += error * error * noise / (noise + variance)
            _regress(state.covs[arm, m], state.weights[arm, m], phi, value, gain, noise + variance)
            state.counts[arm, m] += 1
            state.moments[COUNT, m] += 1.0
            rise = value - state.moments[CENTRE, m]
            state.moments[CENTRE, m] += rise / state.moments[COUNT, m]
            state.moments[SQUARES, m] += rise * (value - state.moments[CENTRE, m])


@in_place
def _regress(cov: Floats, weights: Floats, phi: Floats, value: float, gain: Floats, total: float) -> None:
    """Sherman-Morrison for the covariance and for both rows of weights; ``gain`` is the covariance times ``phi``."""
    surprise, surprise_of_one = value, 1.0
    for i in range(phi.size):
        surprise -= phi[i] * weights[REWARDS, i]
        surprise_of_one -= phi[i] * weights[ONES, i]
    for i in range(phi.size):
        share = gain[i] / total
        weights[REWARDS, i] += share * surprise
        weights[ONES, i] += share * surprise_of_one
        row = cov[i]
        for j in range(phi.size):
            row[j] -= share * gain[j]


@compiled
def run(state: State, seed: np.uint64, start: int, *chunk: Any) -> int:
    """Decide and observe, round by round."""
    return play(choose, learn, always, state, seed, start, chunk)
