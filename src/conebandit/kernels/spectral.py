"""Bayesian regression on products of cosines, shared by all arms: deciding and observing.

The mean of arm k in metric m is modelled as a sum of D features with Gaussian weights. A feature is a product of
sqrt(2) cos(pi j u_i) over a few coordinates, u_i the i-th context coordinate within a box a little larger than the unit
cube (so that slopes at its edge are free); this is the Hilbert-space form of a Gaussian process (Solin & Sarkka 2020).
For each arm and metric the state holds the covariance of the weights and a table of L columns: the posterior mean and
L - 1 draws from the posterior, which are kept up to date by perturbed observations (ensemble sampling, Lu & Van Roy
2017). The spread of the draws tells how sure a prediction is without a quadratic form for each arm.

    size    (3,)          OBSERVATIONS; NEXT_FIT, the number of observations at which the model is fitted anew; FITTED
    orders  (D, d)        order j of each feature in each coordinate
    parts   (D, Q)        the same as positions in the table of one-dimensional cosines, 0 for none
    weights (K, M, D, L)  posterior mean and draws; covs (K, M, D, D)
    prior   (D,)          variance of the weights, in units of the amplitude of a metric
    scales  (4, M)        CENTRE and SPREAD of the rewards; NOISE and AMPLITUDE, variances in units of the spread
    relevance, lengths    (d,), share and position of the length scale of each coordinate; see ``spectral_fit``
    levels  (6,)          CONSTANT, variance of the weight of the constant; TIE and PLAY_TIE, for reporting and
                          for playing, see :func:`undominated`; from LEADS on see ``ConeKernel._learn_ties``
    counts  (K, M); data (n, d + M); chosen (n,); facets (F, M)

Loops run along the last axis and add to a vector: the compiler can use vector instructions without changing the order
of any sum, so that results are the same on every machine.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conebandit.kernels.compile import compiled, in_place
from conebandit.kernels.fronts import draw, keep_undominated
from conebandit.kernels.rng import hash_vector, mix, uniform

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

OBSERVATIONS, NEXT_FIT, FITTED = 0, 1, 2
CENTRE, SPREAD, NOISE, AMPLITUDE = 0, 1, 2, 3
CONSTANT, TIE, PLAY_TIE, LEADS = 0, 1, 2, 3

PAD = 0.15  # how far the cosines' box reaches beyond the unit cube on each side
TEMPERATURE = 0.7  # deviation of the perturbations that choose an arm, in posterior deviations
PRICE = 0.025  # what a wrong picture of the front costs beside a bad play, halved; see worthwhile
CLEARLY = 2.0  # posterior deviations by which arms must differ somewhere before a near tie elsewhere counts as one
OUT = 4.0  # posterior deviations on every facet by which an arm must be beaten to be out of the running
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_LOW = np.uint64(0xFFFF)


class State(NamedTuple):
    """What the policy knows; see the top of this file."""

    size: Ints
    orders: Ints
    parts: Ints
    weights: Floats
    covs: Floats
    prior: Floats
    scales: Floats
    relevance: Floats
    lengths: Ints
    levels: Floats
    counts: Ints
    data: Floats
    chosen: Ints
    facets: Floats


@in_place
def featurise(parts: Ints, x: Floats, table: Floats, phi: Floats) -> None:
    """Write the features at ``x`` into ``phi``; ``table`` is scratch of length 1 + d J."""
    table[0] = 1.0
    highest = (table.size - 1) // x.size
    for i in range(x.size):
        step = math.cos(math.pi * (x[i] + PAD) / (1.0 + 2.0 * PAD))
        before, now = 1.0, step  # cos((j - 1) v) and cos(j v)
        for j in range(highest):
            table[1 + i * highest + j] = math.sqrt(2.0) * now
            before, now = now, 2.0 * step * now - before
    for f in range(parts.shape[0]):
        value = 1.0
        for q in range(parts.shape[1]):
            value *= table[parts[f, q]]
        phi[f] = value


@compiled
def features_at(state: State, x: Floats, highest: int) -> Floats:
    """The features at one context."""
    phi = np.empty(state.parts.shape[0])
    featurise(state.parts, x, np.empty(1 + x.size * highest), phi)
    return phi


@in_place
def add_rows(total: Floats, shares: Floats, rows: Floats) -> None:
    """Add ``shares[k] * rows[k]`` for k = 0, ... to ``total``, which may be shorter than the rows.

    Four rows are added at once, so that ``total`` is read and written a quarter as often.
    """
    whole = shares.size - shares.size % 4
    for k in range(0, whole, 4):
        a, b, c, d = shares[k], shares[k + 1], shares[k + 2], shares[k + 3]
        p, q, r, s = rows[k], rows[k + 1], rows[k + 2], rows[k + 3]
        for i in range(total.size):
            total[i] = (((total[i] + a * p[i]) + b * q[i]) + c * r[i]) + d * s[i]
    for k in range(whole, shares.size):
        share, row = shares[k], rows[k]
        for i in range(total.size):
            total[i] += share * row[i]


@in_place
def predict(weights: Floats, phi: Floats, values: Floats) -> None:
    """Write the prediction of every column of the weights into ``values`` (K, M, L), in units of the spread."""
    for k in range(weights.shape[0]):
        for m in range(weights.shape[1]):
            values[k, m, :] = 0.0
            add_rows(values[k, m], phi, weights[k, m])


@in_place
def image(state: State, values: Floats, column: int, y: Floats) -> None:
    """Images on the facets (K, F) of one column of predictions."""
    for k in range(y.shape[0]):
        for j in range(y.shape[1]):
            total = 0.0
            for m in range(values.shape[1]):
                metric = state.scales[CENTRE, m] + state.scales[SPREAD, m] * values[k, m, column]
                total += state.facets[j, m] * metric
            y[k, j] = total


@in_place
def believe(state: State, values: Floats, y: Floats, variances: Floats, scratch: Floats) -> None:
    """Image of the posterior mean on the facets, and its variances, from the spread of the draws."""
    image(state, values, 0, y)
    variances[:] = 0.0
    draws = values.shape[2] - 1
    for c in range(1, draws + 1):
        image(state, values, c, scratch)
        for k in range(y.shape[0]):
            for j in range(y.shape[1]):
                variances[k, j] += (scratch[k, j] - y[k, j]) ** 2 / draws


@in_place
def tell_apart(variances: Floats, apart: Floats) -> None:
    """Posterior deviation of the difference of every two arms on every facet: (K, F) -> (K, K, F)."""
    for a in range(apart.shape[0]):
        for b in range(apart.shape[1]):
            for j in range(apart.shape[2]):
                apart[a, b, j] = math.sqrt(variances[a, j] + variances[b, j])


@in_place
def undominated(y: Floats, apart: Floats, tie: float, flags: Bools) -> None:
    """Flag arms held for undominated: none of those that a clearly different arm equals up to ``tie`` deviations.

    With ``tie`` = 0 this is the front of ``y``. Where arms really tie in a metric (at a floor or ceiling, say), an arm
    that is clearly worse in the others would still be on that front half of the time.
    """
    found = 0
    for b in range(flags.size):
        flags[b] = True
        for a in range(flags.size):
            if a != b and _beats(y, apart, tie, a, b):
                flags[b] = False
                break
        found += flags[b]
    if found == 0:
        flags[:] = True
        keep_undominated(y, flags)


@in_place
def _beats(y: Floats, apart: Floats, tie: float, a: int, b: int) -> bool:
    above, clearly = True, False
    for j in range(y.shape[1]):
        rise = y[a, j] - y[b, j]
        if rise < -tie * apart[a, b, j]:
            return False
        above &= rise > 0.0
        clearly |= rise > CLEARLY * apart[a, b, j]
    return above or clearly


@in_place
def in_the_running(y: Floats, apart: Floats, active: Bools) -> None:
    """Clear the flags of arms that another one beats on every facet by more than OUT posterior deviations."""
    for b in range(active.size):
        active[b] = True
        for a in range(active.size):
            beaten = a != b
            for j in range(y.shape[1]):
                beaten &= y[a, j] - y[b, j] > OUT * apart[a, b, j]
            if beaten:
                active[b] = False
                break


@in_place
def perturb(values: Floats, key: np.uint64) -> None:
    """Replace the draws by the mean plus fresh noise of their variance, hashed from ``key``.

    Fresh noise explores more than a few fixed draws can, and as it does not depend on the key of the decision, the
    chance of every arm is known. Four uniform numbers out of 64 bits add up to nearly a normal one.
    """
    arms, objectives, columns = values.shape
    bits = key
    for k in range(arms):
        for m in range(objectives):
            variance = 0.0
            for c in range(1, columns):
                variance += (values[k, m, c] - values[k, m, 0]) ** 2
            scale = math.sqrt(3.0 * variance / (columns - 1)) / 65536.0
            for c in range(1, columns):
                bits = mix(bits + _GOLDEN)
                total = float(bits & _LOW) + float((bits >> np.uint64(16)) & _LOW)
                total += float((bits >> np.uint64(32)) & _LOW) + float(bits >> np.uint64(48))
                values[k, m, c] = values[k, m, 0] + scale * (total - 131070.0)


@compiled
def worthwhile(state: State, values: Floats, apart: Floats, unsureness: Floats, y: Floats, worth: Bools) -> None:
    """Flag arms on the front of the predictions, and those whose expected gap is below what knowing them better saves.

    An arm that is misjudged, with chance q, distorts the front by about its distance to the nearest other arm of it.
    One more observation lowers q by a share of v_k / (2 sigma^2), for about as many contexts as were seen nearby, the
    sum over arms of sigma^2 / v. Gaps and distances are relative to the typical size of each metric.
    """
    arms, objectives, columns = values.shape
    size, unit = np.empty(objectives), np.zeros(y.shape[1])
    for m in range(objectives):
        size[m] = math.hypot(state.scales[CENTRE, m], state.scales[SPREAD, m])
        for j in range(unit.size):
            unit[j] += abs(state.facets[j, m]) * size[m]
    on, gaps, nearby = np.zeros(arms), np.zeros(arms), 0.0
    for c in range(1, columns):
        image(state, values, c, y)
        for k in range(arms):
            gap = _gap(y, unit, k)
            on[k] += (gap <= 0.0) / (columns - 1)
            gaps[k] += max(gap, 0.0) / (columns - 1)
    for k in range(arms):
        nearby += 1.0 / max(unsureness[k], 1e-300)
    image(state, values, 0, y)
    undominated(y, apart, state.levels[TIE], worth)
    front = worth.copy()
    for k in range(arms):
        distance = _distance_to_others(state, values, front, size, k)
        misjudged = min(on[k], 1.0 - on[k])
        worth[k] |= gaps[k] < PRICE * nearby * unsureness[k] * misjudged * distance


@in_place
def _gap(y: Floats, unit: Floats, k: int) -> float:
    """By how much ``k`` is beaten on every facet by the arm that beats it most; not positive if none does."""
    worst = -np.inf
    for a in range(y.shape[0]):
        if a != k:
            least = np.inf
            for j in range(unit.size):
                least = min(least, (y[a, j] - y[k, j]) / unit[j])
            worst = max(worst, least)
    return worst


@in_place
def _distance_to_others(state: State, values: Floats, front: Bools, size: Floats, k: int) -> float:
    """Distance of the prediction of ``k`` to the nearest other arm of a front, 0 if there is none."""
    nearest = np.inf
    for a in range(front.size):
        if front[a] and a != k:
            far = 0.0
            for m in range(size.size):
                far = max(far, abs(values[a, m, 0] - values[k, m, 0]) * state.scales[SPREAD, m] / size[m])
            nearest = min(nearest, far)
    return nearest if nearest < np.inf else 0.0


@in_place
def least_known(flags: Bools, unsureness: Floats) -> None:
    """Keep only the flagged arm about which least is known."""
    best = -1
    for k in range(flags.size):
        if flags[k] and (best < 0 or unsureness[k] > unsureness[best]):
            best = k
    for k in range(flags.size):
        flags[k] = k == best


@in_place
def keep_common(flags: Bools, others: Bools) -> bool:
    """Clear flags that the others do not have; whether any is left."""
    left = False
    for k in range(flags.size):
        flags[k] &= others[k]
        left |= flags[k]
    return left


@in_place
def cool(values: Floats) -> None:
    """Shrink perturbations to the temperature at which arms are chosen."""
    for k in range(values.shape[0]):
        for m in range(values.shape[1]):
            for c in range(1, values.shape[2]):
                values[k, m, c] = values[k, m, 0] + TEMPERATURE * (values[k, m, c] - values[k, m, 0])


@in_place
def pick(
    state: State,
    values: Floats,
    apart: Floats,
    unsureness: Floats,
    worth: Bools,
    u: float,
    y: Floats,
    flags: Bools,
    chances: Floats,
) -> tuple[int, float]:
    """One of the perturbed fronts, and of it a worthwhile arm: any, or (in every second front) the least known.

    Returns it with its chance. A front without a worthwhile arm is replaced by the front of the predictions.
    """
    arms, columns = values.shape[0], values.shape[2]
    draws = columns - 1
    mine = int(u * draws)
    arm = 0
    chances[:] = 0.0
    for c in range(1, columns):
        image(state, values, c, y)
        undominated(y, apart, state.levels[PLAY_TIE], flags)
        if not keep_common(flags, worth):
            image(state, values, 0, y)
            undominated(y, apart, state.levels[TIE], flags)
        if c % 2 == 0:
            least_known(flags, unsureness)
        if c == mine + 1:
            arm, _ = draw(flags, u * draws - mine)
        size = 0
        for k in range(arms):
            size += flags[k]
        for k in range(arms):
            if flags[k]:
                chances[k] += 1.0 / (size * draws)
    return arm, chances[arm]


@compiled
def choose(
    state: State, seed: np.uint64, x: Floats, key: np.uint64, active: Bools, reported: Bools
) -> tuple[int, float]:
    """An arm on the front of perturbed predictions; before the first fit, one of those seen least."""
    arms, objectives, _, columns = state.weights.shape
    active[:] = True
    flags = np.empty(arms, dtype=np.bool_)
    if state.size[FITTED] == 0:
        reported[:] = True
        fewest = state.counts.min()
        for k in range(arms):
            flags[k] = state.counts[k].min() == fewest
        return draw(flags, uniform(seed, key))
    values = np.empty((arms, objectives, columns))
    predict(state.weights, features_at(state, x, highest_order(x.size)), values)
    y, scratch = np.empty((2, arms, state.facets.shape[0]))
    variances = np.empty_like(y)
    believe(state, values, y, variances, scratch)
    apart = np.empty((arms, arms, y.shape[1]))
    tell_apart(variances, apart)
    undominated(y, apart, state.levels[TIE], reported)
    in_the_running(y, apart, active)
    unsureness = np.zeros(arms)
    for k in range(arms):
        for m in range(objectives):
            for c in range(1, columns):
                unsureness[k] += (values[k, m, c] - values[k, m, 0]) ** 2 / state.scales[NOISE, m]
    perturb(values, mix(hash_vector(x.view(np.uint64)) ^ mix(seed + np.uint64(state.size[OBSERVATIONS]))))
    worth = np.empty(arms, dtype=np.bool_)
    worthwhile(state, values, apart, unsureness, scratch, worth)
    cool(values)
    return pick(state, values, apart, unsureness, worth, uniform(seed, key), scratch, flags, np.empty(arms))


@in_place
def highest_order(dim: int) -> int:
    """Highest order of a cosine in one coordinate."""
    return 64 if dim == 1 else 31


@compiled
def estimate(state: State, x: Floats, means: Floats, radii: Floats) -> None:
    """Posterior means and two posterior deviations of all arms; nan and inf before the first fit."""
    means[:], radii[:] = np.nan, np.inf
    if state.size[FITTED] == 0:
        return
    phi = features_at(state, x, highest_order(x.size))
    for k in range(means.shape[0]):
        for m in range(means.shape[1]):
            value = variance = 0.0
            for i in range(phi.size):
                value += phi[i] * state.weights[k, m, i, 0]
                for j in range(phi.size):
                    variance += phi[i] * phi[j] * state.covs[k, m, i, j]
            means[k, m] = state.scales[CENTRE, m] + state.scales[SPREAD, m] * value
            radii[k, m] = 2.0 * state.scales[SPREAD, m] * math.sqrt(max(variance, 0.0))


@compiled
def learn(state: State, x: Floats, arm: int, reward: Floats) -> None:
    """One observation: store it, and update the posterior of the arm in every known metric."""
    sample, dim = state.size[OBSERVATIONS], x.size
    state.data[sample, :dim] = x
    state.data[sample, dim:] = reward
    state.chosen[sample] = arm
    state.size[OBSERVATIONS] += 1
    features, columns = state.weights.shape[2:]
    phi = features_at(state, x, highest_order(dim))
    gain, error = np.empty(features), np.empty(columns)
    for m in range(reward.size):
        if not np.isnan(reward[m]):
            state.counts[arm, m] += 1
            if state.size[FITTED] == 1:
                target = (reward[m] - state.scales[CENTRE, m]) / state.scales[SPREAD, m]
                signs = mix(np.uint64(sample) * _GOLDEN + np.uint64(m))
                condition(
                    state.weights[arm, m], state.covs[arm, m], phi, target, state.scales[NOISE, m], signs, gain, error
                )


@in_place
def condition(
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
    gain[:] = 0.0
    add_rows(gain, phi, cov)
    total = noise
    for j in range(features):
        total += phi[j] * gain[j]
    deviation = math.sqrt(noise)
    error[:] = 0.0
    add_rows(error, phi, weights)
    error[0] = target - error[0]
    for c in range(1, columns):
        error[c] = target + (deviation if (signs >> np.uint64(c)) & np.uint64(1) else -deviation) - error[c]
    for j in range(features):
        share = gain[j] / total
        for c in range(columns):
            weights[j, c] += share * error[c]
        for i in range(features):
            cov[j, i] -= share * gain[i]


@compiled
def run(
    state: State,
    seed: np.uint64,
    contexts: Floats,
    outcomes: Floats,
    keys: NDArray[np.uint64],
    start: int,
    arms: Ints,
    chances: Floats,
    active: Bools,
    reported: Bools,
) -> int:
    """Decide and observe, round by round, up to the one after which the model is to be fitted anew."""
    for i in range(start, contexts.shape[0]):
        arms[i], chances[i] = choose(state, seed, contexts[i], keys[i], active[i], reported[i])
        learn(state, contexts[i], arms[i], outcomes[i, arms[i]])
        if state.size[OBSERVATIONS] >= state.size[NEXT_FIT]:
            return i + 1
    return int(contexts.shape[0])
