"""The steps of a ``ConeKernel``: choose an arm, learn from an observation, estimate means."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from conebandit.kernels.compile import compiled, in_place
from conebandit.kernels.cone_kernel import choice
from conebandit.kernels.cone_kernel.agreement import add_agreeing
from conebandit.kernels.cone_kernel.blocks import predict_columns
from conebandit.kernels.cone_kernel.constants import FIRST_FIT, RADIUS, REFIT_GROWTH, VARIANCE_FACTOR
from conebandit.kernels.cone_kernel.features import features_at
from conebandit.kernels.cone_kernel.state import (
    CENTRE,
    FIT_BEGAN,
    FITTED,
    NEVER,
    NEXT_WORK,
    OBSERVATIONS,
    ROWS,
    SPREAD,
    State,
)
from conebandit.kernels.fronts import draw
from conebandit.kernels.loop import play
from conebandit.kernels.rng import GOLDEN, hash_numbers, mix, uniform
from conebandit.kernels.symmetric import multiply_symmetric
from conebandit.kernels.types import Bools, Floats, Ints


@compiled
def choose(state: State, seed: np.uint64, x: Floats, key: int, active: Bools, reported: Bools, chances: Floats) -> int:
    """An arm that is worth an observation, by how uncertain it is; before the first fit, one of those seen least."""
    if state.size[FITTED] == 0:
        return choose_least_seen(state.counts, seed, key, active, reported, chances)
    arms, objectives, features, columns = state.weights.shape
    means, variances, units = np.empty((arms, objectives)), np.empty((arms, objectives)), np.empty(state.slack.size)
    phi, values = features_at(state.parts, x), np.empty(columns)
    for k in range(arms):
        for m in range(objectives):
            means[k, m], variances[k, m] = choice.predict(state.weights[k, m], phi, values)
    few = choice.find_active(state.facets, state.scales, means, variances, active)
    reach = np.empty(few.size)
    if few.size > 1:
        choice.exact_variances(state.covs, phi, few, np.empty(features), variances, reach)
    choice.write_units(state.facets, state.scales, units)
    return choose_among(state, seed, x, key, few, means, variances, reach, units, reported, chances)


@compiled
def choose_among(
    state: State,
    seed: np.uint64,
    x: Floats,
    key: int,
    few: Ints,
    means: Floats,
    variances: Floats,
    reach: Floats,
    units: Floats,
    reported: Bools,
    chances: Floats,
) -> int:
    """One of the arms ``few``, those that are active, of which exact variances and the ``reach`` are known.

    If ``reported`` is empty, nobody asks what is reported.
    """
    judged, shown, weights = np.empty((few.size, 2)), np.empty(few.size, dtype=np.bool_), np.empty(few.size)
    best = 0
    if few.size > 1:
        uncertainty = np.empty(means.shape[0])
        noise_key = key_of_noise(state, seed, x)
        nearby = choice.uncertainty_by_arm(variances, state.noise, uncertainty)
        images = choice.perturbed_images(state.facets, state.scales, means, variances, units, few, noise_key)
        choice.judge(images, state.slack, units, judged)
        costs, errors, centres = np.empty(few.size), np.empty(few.size), np.empty((few.size, units.size))
        best = choice.write_costs(judged, costs)
        choice.write_centres(state.facets, state.scales, means, units, few, centres)
        choice.share_errors(judged, images, centres, state.slack, units, errors)
        choice.count_informed(reach, costs, best, few, state.cheap, nearby, state.size[OBSERVATIONS])
        choice.weigh(judged, costs, best, uncertainty, few, reach, errors, weights)
        if reported.size:
            choice.undo_factor(images, centres)
            choice.flag_reported(images, state.slack, units, shown)
    else:
        shown[0], weights[0] = True, 1.0
    arm = choice.draw_by_weight(weights, best, uniform(seed, key))
    reported[:], chances[:] = False, 0.0
    for i in range(few.size):
        chances[few[i]] = weights[i]
        if reported.size:
            reported[few[i]] = shown[i]
    return int(few[arm])


@in_place
def key_of_noise(state: State, seed: np.uint64, x: Floats) -> np.uint64:
    """What perturbations of predictions at a context depend on."""
    return mix(hash_numbers(x) ^ mix(seed + np.uint64(state.size[OBSERVATIONS])))


@compiled
def costs_at(state: State, seed: np.uint64, x: Floats, costs: Floats) -> None:
    """Write what each arm is expected to cost more than the best one (K,); inf if it is not active.

    Deviations are those that draws tell, which will do for a typical cost.
    """
    arms, objectives, _, columns = state.weights.shape
    means, variances, units = np.empty((arms, objectives)), np.empty((arms, objectives)), np.empty(state.slack.size)
    phi, values, active = features_at(state.parts, x), np.empty(columns), np.empty(arms, dtype=np.bool_)
    for k in range(arms):
        costs[k] = np.inf
        for m in range(objectives):
            means[k, m], variances[k, m] = choice.predict(state.weights[k, m], phi, values)
    few = choice.find_active(state.facets, state.scales, means, variances, active)
    if few.size == 1:
        costs[few[0]] = 0.0
        return
    choice.write_units(state.facets, state.scales, units)
    noise_key = key_of_noise(state, seed, x)
    images = choice.perturbed_images(state.facets, state.scales, means, variances, units, few, noise_key)
    judged, found = np.empty((few.size, 2)), np.empty(few.size)
    choice.judge(images, state.slack, units, judged)
    best = choice.write_costs(judged, found)
    for i in range(few.size):
        costs[few[i]] = found[i] - found[best]


@compiled
def agreeing_at(state: State, seed: np.uint64, x: Floats, agreeing: Floats) -> None:
    """Add how many pairs of arms are expected to be in the same order at a context, for any two metrics (M, M)."""
    arms, objectives, _, columns = state.weights.shape
    means, variances = np.empty((arms, objectives)), np.empty((arms, objectives))
    phi, values, everyone = features_at(state.parts, x), np.empty(columns), np.arange(arms)
    for k in range(arms):
        for m in range(objectives):
            means[k, m], variances[k, m] = choice.predict(state.weights[k, m], phi, values)
    noise_key = key_of_noise(state, seed, x)
    by_metric, units = np.eye(objectives), np.ones(objectives)
    images = choice.perturbed_images(by_metric, state.scales, means, variances, units, everyone, noise_key)
    add_agreeing(images, state.agreement, agreeing)


@compiled
def choose_least_seen(counts: Ints, seed: np.uint64, key: int, active: Bools, reported: Bools, chances: Floats) -> int:
    """One of the arms with the fewest observations of a metric; all are active and reported."""
    active[:] = True
    reported[:] = True
    flags, fewest = np.empty(active.size, dtype=np.bool_), least(counts[0])
    for k in range(1, flags.size):
        fewest = min(fewest, least(counts[k]))
    for k in range(flags.size):
        flags[k] = least(counts[k]) == fewest
    return draw(flags, uniform(seed, key), chances)


@in_place
def least(numbers: Ints) -> int:
    """The smallest of some numbers."""
    found = numbers[0]
    for i in range(1, numbers.size):
        found = min(found, numbers[i])
    return int(found)


@compiled
def estimate(state: State, x: Floats, means: Floats, radii: Floats) -> None:
    """Posterior means and RADIUS posterior deviations of all arms; nan and inf of metrics that are not known."""
    means[:], radii[:] = np.nan, np.inf
    if state.size[FITTED] == 0:
        return
    phi = features_at(state.parts, x)
    gain = np.empty(phi.size)
    for k in range(means.shape[0]):
        for m in range(means.shape[1]):
            if not is_known(state, m):
                continue
            value = 0.0
            for i in range(phi.size):
                value += phi[i] * state.weights[k, m, i, 0]
            variance = VARIANCE_FACTOR * choice.quadratic_form(state.covs[k, m], phi, gain) + state.beyond[m]
            means[k, m] = state.scales[CENTRE, m] + state.scales[SPREAD, m] * value
            radii[k, m] = RADIUS * state.scales[SPREAD, m] * math.sqrt(variance)


@compiled
def learn(state: State, x: Floats, arm: int, reward: Floats) -> None:
    """One observation: store it if a fit is still to come, and update the posterior of the arm."""
    sample, dim = state.size[OBSERVATIONS], x.size
    if state.size[NEXT_WORK] != NEVER:
        row = state.size[ROWS]
        for i in range(dim):
            state.data[row, i] = x[i]
        for m in range(reward.size):
            state.data[row, dim + m] = reward[m]
        state.chosen[row] = arm
        state.size[ROWS] += 1
    state.size[OBSERVATIONS] += 1
    for m in range(reward.size):
        if not np.isnan(reward[m]):
            state.counts[arm, m] += 1
            values = 0
            for k in range(state.counts.shape[0]):
                values += state.counts[k, m]
            call_for_fit(state, m, values)
    if state.size[FITTED] == 1:
        update(state, sample, x, arm, reward)


@in_place
def is_known(state: State, m: int) -> bool:
    """Whether the last fit had enough values of a metric to know its scale."""
    return bool(state.fitted_to[m] > 0)


@in_place
def call_for_fit(state: State, m: int, values: int) -> None:
    """Let a fit begin if it is time for it by the ``values`` of a metric, many of which may have come late.

    That is, by what :meth:`~conebandit.policies.cone_kernel.fit.Fitter` says of observations. Where all metrics are
    always known, it says the same.
    """
    if state.size[FIT_BEGAN] == 0 and state.size[NEXT_WORK] != NEVER:
        arms, before = state.counts.shape[0], state.fitted_to[m]
        if values >= max(FIRST_FIT * arms, before + arms, int(before * REFIT_GROWTH)):
            state.size[NEXT_WORK] = min(state.size[NEXT_WORK], state.size[OBSERVATIONS])


@compiled
def update(state: State, sample: int, x: Floats, arm: int, reward: Floats) -> None:
    """Update the posterior of an arm in every known metric, given observation number ``sample``."""
    features, columns = state.weights.shape[2:]
    phi = features_at(state.parts, x)
    gain, error = np.empty(features), np.empty(columns)
    for m in range(reward.size):
        if is_known(state, m) and not np.isnan(reward[m]):
            update_metric(state, sample, phi, arm, m, reward[m], gain, error)


@in_place
def update_metric(
    state: State, sample: int, phi: Floats, arm: int, m: int, reward: float, gain: Floats, error: Floats
) -> None:
    """Update the posterior of an arm in one metric; ``gain`` (D,) and ``error`` (L,) are to write on."""
    target = (reward - state.scales[CENTRE, m]) / state.scales[SPREAD, m]
    signs = mix(np.uint64(sample) * GOLDEN + np.uint64(m))
    weights, cov, noise = state.weights[arm, m], state.covs[arm, m], state.noise[arm, m]
    _update_posterior(weights, cov, phi, target, noise, signs, gain, error)


@in_place
def _update_posterior(
    weights: Floats,
    cov: Floats,
    phi: Floats,
    target: float,
    noise: float,
    signs: np.uint64,
    gain: Floats,
    error: Floats,
) -> None:
    """Sherman-Morrison update of covariance, mean and draws; draws see the target plus or minus the noise."""
    features, columns = weights.shape
    multiply_symmetric(cov, phi, gain)
    total = noise
    for j in range(features):
        total += phi[j] * gain[j]
    deviation = math.sqrt(noise)
    predict_columns(weights, phi, error)
    error[0] = target - error[0]
    for c in range(1, columns):
        error[c] = target + (deviation if (signs >> np.uint64(c)) & np.uint64(1) else -deviation) - error[c]
    for j in range(features):
        share, row = gain[j] / total, cov[j]
        for c in range(columns):
            weights[j, c] += share * error[c]
        for i in range(features):
            row[i] -= share * gain[i]


@in_place
def can_go_on(state: State, x: Floats) -> bool:
    """Whether no fit has work to do before the next observation, and there is room for it."""
    return bool(state.size[OBSERVATIONS] < state.size[NEXT_WORK] and state.size[ROWS] < state.data.shape[0])


@compiled
def run(state: State, seed: np.uint64, start: int, *chunk: Any) -> int:
    """Decide and observe, round by round, until a fit has work to do."""
    return play(choose, learn, can_go_on, state, seed, start, chunk)
