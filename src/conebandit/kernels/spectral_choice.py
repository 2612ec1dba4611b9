"""From predictions to an arm: who is in the running, who is on the front, who is worth playing, who is played.

Predictions come as ``values`` (K, M, L): in column 0 the posterior means, in the others L - 1 draws, in units of the
spread of a metric; ``scales`` says how to convert them. Only the arms in the running at a context, often few, take part
in what costs the square of their number.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from conebandit.kernels.compile import compiled, in_place
from conebandit.kernels.fronts import draw, keep_undominated
from conebandit.kernels.rng import mix

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

CENTRE, SPREAD, NOISE, AMPLITUDE = 0, 1, 2, 3

TEMPERATURE = 0.7  # deviation of the perturbations that choose an arm, in posterior deviations
PRICE = 0.022  # what a wrong picture of the front costs beside a bad play, halved; see worthwhile
CLEARLY = 2.0  # posterior deviations by which arms must differ somewhere before a near tie elsewhere counts as one
SURE, UNSURE = (
    0.75,
    0.4,
)  # chances of being on the front from which on an arm is reported; the latter if predictions agree
OUT = 4.0  # posterior deviations on every facet by which an arm must be beaten to be out of the running
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_LOW = np.uint64(0xFFFF)


@in_place
def see(facets: Floats, scales: Floats, values: Floats, y: Floats) -> None:
    """Images on the facets of all columns: (K, M, L) -> (K, F, L)."""
    for k in range(y.shape[0]):
        for j in range(y.shape[1]):
            row = y[k, j]
            row[:] = 0.0
            for m in range(values.shape[1]):
                weight, centre, spread, column = facets[j, m], scales[CENTRE, m], scales[SPREAD, m], values[k, m]
                for c in range(row.size):
                    row[c] += weight * (centre + spread * column[c])


@in_place
def spread_of_draws(y: Floats, variances: Floats) -> None:
    """Mean square of the draws' distance to column 0: (A, B, L) -> (A, B)."""
    draws = y.shape[2] - 1
    for k in range(y.shape[0]):
        for j in range(y.shape[1]):
            total = 0.0
            for c in range(1, draws + 1):
                total += (y[k, j, c] - y[k, j, 0]) ** 2
            variances[k, j] = total / draws


@in_place
def how_unsure(values: Floats, scales: Floats, variances: Floats, unsureness: Floats) -> float:
    """Variances of predictions (K, M), and their sums over metrics in units of the noise, v_k / sigma^2 (K,).

    Gives about how many contexts were seen nearby, the sum over arms of sigma^2 / v_k.
    """
    spread_of_draws(values, variances)
    nearby = 0.0
    for k in range(unsureness.size):
        unsureness[k] = 0.0
        for m in range(variances.shape[1]):
            unsureness[k] += variances[k, m] / scales[NOISE, m]
        nearby += 1.0 / max(unsureness[k], 1e-300)
    return nearby


@in_place
def tell_apart(variances: Floats, few: Ints, apart: Floats) -> None:
    """Posterior deviation of the difference of every two of some arms on every facet: (K, F) -> (n, n, F)."""
    for a in range(few.size):
        for b in range(a + 1):
            for j in range(apart.shape[2]):
                apart[a, b, j] = math.sqrt(variances[few[a], j] + variances[few[b], j])
                apart[b, a, j] = apart[a, b, j]


@compiled
def in_the_running(y: Floats, variances: Floats, active: Bools) -> Ints:
    """Clear the flags of arms that another one beats on every facet by more than OUT posterior deviations.

    Gives those that are left.
    """
    for b in range(active.size):
        active[b] = True
        for a in range(active.size):
            beaten = a != b
            for j in range(y.shape[1]):
                rise = y[a, j, 0] - y[b, j, 0]
                beaten &= rise > 0.0 and rise * rise > OUT * OUT * (variances[a, j] + variances[b, j])
            if beaten:
                active[b] = False
                break
    return np.flatnonzero(active)


@in_place
def undominated(y: Floats, apart: Floats, tie: float, flags: Bools) -> None:
    """Flag arms held for undominated: none of those that a clearly different arm equals up to ``tie`` deviations.

    With ``tie`` = 0 this is the front of column 0 of ``y``. Where arms really tie in a metric (at a floor or ceiling,
    say), an arm that is clearly worse in the others would still be on that front half of the time.
    """
    found = 0
    for b in range(flags.size):
        flags[b] = not _beaten(y, 0, apart, tie, b)
        found += flags[b]
    if found == 0:
        flags[:] = True
        keep_undominated(y[:, :, 0], flags)


@in_place
def _beaten(y: Floats, column: int, apart: Floats, tie: float, b: int) -> bool:
    for a in range(y.shape[0]):
        if a != b:
            above, clearly = True, False
            for j in range(y.shape[1]):
                rise, deviation = y[a, j, column] - y[b, j, column], apart[b, a, j]
                if rise < -tie * deviation:
                    break
                above &= rise > 0.0
                clearly |= rise > CLEARLY * deviation
            else:
                if above or clearly:
                    return True
    return False


@in_place
def nearly_normal(bits: np.uint64) -> float:
    """A number of mean 0 and variance 1: 64 random bits are four uniform numbers, whose sum is nearly normal."""
    total = float(bits & _LOW) + float((bits >> np.uint64(16)) & _LOW)
    total += float((bits >> np.uint64(32)) & _LOW) + float(bits >> np.uint64(48))
    return (total - 131070.0) * (math.sqrt(3.0) / 65536.0)


@in_place
def perturb(values: Floats, variances: Floats, key: np.uint64) -> None:
    """Replace the draws by the mean plus fresh noise of their ``variances`` (K, M), hashed from ``key``.

    Fresh noise explores more than a few fixed draws can, and as it does not depend on the key of the decision, the
    chance of every arm is known.
    """
    arms, objectives, columns = values.shape
    count = np.uint64(0)
    for k in range(arms):
        for m in range(objectives):
            mean, deviation = values[k, m, 0], math.sqrt(variances[k, m])
            for c in range(1, columns):
                count += np.uint64(1)
                values[k, m, c] = mean + deviation * nearly_normal(mix(key + count * GOLDEN))


@compiled
def worthwhile(
    facets: Floats,
    scales: Floats,
    values: Floats,
    y: Floats,
    front: Bools,
    unsureness: Floats,
    nearby: float,
    worth: Bools,
    chances: Floats,
) -> None:
    """Flag arms on the front of the predictions, and those whose expected gap is below what knowing them better saves.

    An arm that is misjudged, with chance q, distorts the front by about its distance to the nearest other arm of it.
    One more observation lowers q by a share of v_k / (2 sigma^2), for about as many contexts as were seen ``nearby``,
    the sum over arms of sigma^2 / v. Gaps and distances are relative to the typical size of each metric.

    ``chances`` receives the chance of each arm to be on the front: the share of perturbed fronts that have it.
    """
    objectives, columns = values.shape[1:]
    size, unit = np.empty(objectives), np.zeros(facets.shape[0])
    for m in range(objectives):
        size[m] = math.hypot(scales[CENTRE, m], scales[SPREAD, m])
        for j in range(unit.size):
            unit[j] += abs(facets[j, m]) * size[m]
    gaps, scratch = np.empty((2, columns))
    for k in range(worth.size):
        _gaps(y, unit, k, scratch, gaps)
        on, gap = 0, 0.0
        for c in range(1, columns):
            on += gaps[c] <= 0.0
            gap += max(gaps[c], 0.0)
        distance = _distance_to_others(scales, values, front, size, k)
        worth[k] = front[k] or gap < PRICE * nearby * unsureness[k] * min(on, columns - 1 - on) * distance
        chances[k] = on / (columns - 1)


@in_place
def report(front: Bools, chances: Floats, reported: Bools) -> None:
    """Flag arms that are probably on the front: those of the front of the predictions need less of a chance."""
    found = 0
    for k in range(front.size):
        reported[k] = chances[k] >= (UNSURE if front[k] else SURE)
        found += reported[k]
    if found == 0:
        for k in range(front.size):
            reported[k] = front[k]


@in_place
def _gaps(y: Floats, unit: Floats, k: int, least: Floats, worst: Floats) -> None:
    """By how much ``k`` is beaten on every facet by the arm that beats it most, in each column; ``least`` is scratch.

    Not positive where none beats it.
    """
    for c in range(worst.size):
        worst[c] = -np.inf
    for a in range(y.shape[0]):
        if a != k:
            better, mine, scale = y[a, 0], y[k, 0], 1.0 / unit[0]
            for c in range(least.size):
                least[c] = scale * (better[c] - mine[c])
            for j in range(1, unit.size):
                better, mine, scale = y[a, j], y[k, j], 1.0 / unit[j]
                for c in range(least.size):
                    rise = scale * (better[c] - mine[c])
                    least[c] = rise if rise < least[c] else least[c]
            for c in range(worst.size):
                worst[c] = least[c] if least[c] > worst[c] else worst[c]


@in_place
def _distance_to_others(scales: Floats, values: Floats, front: Bools, size: Floats, k: int) -> float:
    """Distance of the prediction of ``k`` to the nearest other arm of a front, 0 if there is none."""
    nearest = np.inf
    for a in range(front.size):
        if front[a] and a != k:
            far = 0.0
            for m in range(size.size):
                far = max(far, abs(values[a, m, 0] - values[k, m, 0]) * scales[SPREAD, m] / size[m])
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
def cool(y: Floats) -> None:
    """Shrink perturbations to the temperature at which arms are chosen."""
    for k in range(y.shape[0]):
        for j in range(y.shape[1]):
            row, mean = y[k, j], y[k, j, 0]
            for c in range(row.size):
                row[c] = mean + TEMPERATURE * (row[c] - mean)


@compiled
def pick(
    y: Floats, apart: Floats, tie: float, unsureness: Floats, front: Bools, worth: Bools, u: float
) -> tuple[int, float]:
    """One of the perturbed fronts, and of it a worthwhile arm: any, or (in every second front) the least known.

    Returns it with its chance. A front without a worthwhile arm is replaced by the ``front`` of the predictions.
    """
    arms, draws = y.shape[0], y.shape[2] - 1
    mine = int(u * draws)
    arm = 0
    chances, flags = np.zeros(arms), np.empty(arms, dtype=np.bool_)
    for c in range(1, draws + 1):
        found = 0
        for b in range(arms):
            flags[b] = worth[b] and not _beaten(y, c, apart, tie, b)
            found += flags[b]
        if found == 0:
            flags[:] = front
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
