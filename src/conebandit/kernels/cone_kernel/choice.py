"""From predictions to an arm: which arms are active, on the front, worth playing, reported, and which one is played.

Predictions come as ``values`` (K, M, L): in column 0 the posterior means, in the others L - 1 draws, in units of the
spread of a metric; ``scales`` says how to convert them. Their ``images`` (K, F, L) on the facets of the cone are
compared facet by facet. Only the arms that are active at a context, often few, take part in what costs the square of
their number.
"""

from __future__ import annotations

import math

import numpy as np

from conebandit.kernels.compile import compiled, in_place
from conebandit.kernels.cone_kernel.constants import (
    CLEAR_LEAD,
    ELIMINATION_MARGIN,
    FRONT_ERROR_PRICE,
    LEAST_KNOWN_EVERY,
    MIN_UNCERTAINTY,
    PLAY_TEMPERATURE,
    REPORT_CHANCE,
    REPORT_CHANCE_ON_FRONT,
)
from conebandit.kernels.cone_kernel.state import CENTRE, NOISE, SPREAD
from conebandit.kernels.fronts import draw, keep_undominated
from conebandit.kernels.rng import GOLDEN, mix
from conebandit.kernels.types import Bools, Floats, Ints

_PART, _LOW_16_BITS = 2.0**16, np.uint64(0xFFFF)


@in_place
def write_images(facets: Floats, scales: Floats, values: Floats, images: Floats) -> None:
    """Images on the facets of all columns: (K, M, L) -> (K, F, L)."""
    for k in range(images.shape[0]):
        for j in range(images.shape[1]):
            row = images[k, j]
            row[:] = 0.0
            for m in range(values.shape[1]):
                weight, centre, spread, column = facets[j, m], scales[CENTRE, m], scales[SPREAD, m], values[k, m]
                for c in range(row.size):
                    row[c] += weight * (centre + spread * column[c])


@in_place
def variances_of_draws(values: Floats, variances: Floats) -> None:
    """Mean square of the draws' distance to column 0: (A, B, L) -> (A, B)."""
    draws = values.shape[2] - 1
    for a in range(values.shape[0]):
        for b in range(values.shape[1]):
            total = 0.0
            for c in range(1, draws + 1):
                total += (values[a, b, c] - values[a, b, 0]) ** 2
            variances[a, b] = total / draws


@in_place
def uncertainty_by_arm(values: Floats, scales: Floats, variances: Floats, uncertainty: Floats) -> float:
    """Write variances of predictions (K, M), and their sums over metrics in units of the noise, v_k / sigma^2 (K,).

    Gives about how many contexts were seen nearby: the sum over arms of sigma^2 / v_k.
    """
    variances_of_draws(values, variances)
    nearby = 0.0
    for k in range(uncertainty.size):
        uncertainty[k] = 0.0
        for m in range(variances.shape[1]):
            uncertainty[k] += variances[k, m] / scales[NOISE, m]
        nearby += 1.0 / max(uncertainty[k], MIN_UNCERTAINTY)
    return nearby


@in_place
def deviations_of_differences(variances: Floats, arms: Ints, deviations: Floats) -> None:
    """Posterior deviation of the difference of every two of some ``arms`` on every facet: (K, F) -> (n, n, F)."""
    for a in range(arms.size):
        for b in range(a + 1):
            for j in range(deviations.shape[2]):
                deviations[a, b, j] = math.sqrt(variances[arms[a], j] + variances[arms[b], j])
                deviations[b, a, j] = deviations[a, b, j]


@compiled
def find_active(images: Floats, variances: Floats, active: Bools) -> Ints:
    """Clear the flags of arms that another one beats on every facet by more than ELIMINATION_MARGIN deviations.

    Gives those that are left.
    """
    for b in range(active.size):
        active[b] = True
        for a in range(active.size):
            beaten = a != b
            for j in range(images.shape[1]):
                rise = images[a, j, 0] - images[b, j, 0]
                margin = ELIMINATION_MARGIN * ELIMINATION_MARGIN * (variances[a, j] + variances[b, j])
                beaten &= rise > 0.0 and rise * rise > margin
            if beaten:
                active[b] = False
                break
    return np.flatnonzero(active)


@in_place
def find_front(images: Floats, deviations: Floats, tie: float, front: Bools) -> None:
    """Flag arms on the front of the means, without those that merely tie with a clearly different arm.

    A tie is a lead of up to ``tie`` deviations; with ``tie`` = 0 this is the front of column 0 of the images. Where
    arms really tie in a metric (at a floor or ceiling, say), an arm that is clearly worse in the others would still be
    on that front half of the time.
    """
    found = 0
    for b in range(front.size):
        front[b] = not _is_beaten(images, 0, deviations, tie, b)
        found += front[b]
    if found == 0:
        front[:] = True
        keep_undominated(images[:, :, 0], front)


@in_place
def _is_beaten(images: Floats, column: int, deviations: Floats, tie: float, b: int) -> bool:
    """Whether an arm is nowhere below ``b`` by more than a tie, and above it on every facet or clearly on one."""
    for a in range(images.shape[0]):
        if a != b:
            above, clearly = True, False
            for j in range(images.shape[1]):
                rise, deviation = images[a, j, column] - images[b, j, column], deviations[b, a, j]
                if rise < -tie * deviation:
                    break
                above &= rise > 0.0
                clearly |= rise > CLEAR_LEAD * deviation
            else:
                if above or clearly:
                    return True
    return False


@in_place
def approximately_normal(bits: np.uint64) -> float:
    """A number of mean 0 and variance 1: 64 random bits are four uniform numbers, whose sum is nearly normal.

    Each of the four is below P = 2^16, with mean (P - 1) / 2 and a variance of about P^2 / 12.
    """
    total = float(bits & _LOW_16_BITS) + float((bits >> np.uint64(16)) & _LOW_16_BITS)
    total += float((bits >> np.uint64(32)) & _LOW_16_BITS) + float(bits >> np.uint64(48))
    return (total - 2.0 * (_PART - 1.0)) * (math.sqrt(3.0) / _PART)


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
                values[k, m, c] = mean + deviation * approximately_normal(mix(key + count * GOLDEN))


@compiled
def find_worthwhile(
    facets: Floats,
    scales: Floats,
    values: Floats,
    images: Floats,
    front: Bools,
    uncertainty: Floats,
    nearby: float,
    worthwhile: Bools,
    chances: Floats,
) -> None:
    """Flag arms on the front of the predictions, and those whose expected gap is below what knowing them better saves.

    An arm that is misjudged, with chance q, distorts the front by about its distance to the nearest other arm on it.
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
    for k in range(worthwhile.size):
        _write_gaps(images, unit, k, scratch, gaps)
        on, gap = 0, 0.0
        for c in range(1, columns):
            on += gaps[c] <= 0.0
            gap += max(gaps[c], 0.0)
        misjudged, distance = min(on, columns - 1 - on), _distance_to_front(scales, values, front, size, k)
        worthwhile[k] = front[k] or gap < FRONT_ERROR_PRICE * nearby * uncertainty[k] * misjudged * distance
        chances[k] = on / (columns - 1)


@in_place
def _write_gaps(images: Floats, unit: Floats, k: int, least: Floats, gaps: Floats) -> None:
    """By how much ``k`` is beaten on every facet by the arm that beats it most, in each column; ``least`` is scratch.

    Not positive where none beats it.
    """
    for c in range(gaps.size):
        gaps[c] = -np.inf
    for a in range(images.shape[0]):
        if a != k:
            better, mine, scale = images[a, 0], images[k, 0], 1.0 / unit[0]
            for c in range(least.size):
                least[c] = scale * (better[c] - mine[c])
            for j in range(1, unit.size):
                better, mine, scale = images[a, j], images[k, j], 1.0 / unit[j]
                for c in range(least.size):
                    rise = scale * (better[c] - mine[c])
                    least[c] = rise if rise < least[c] else least[c]
            for c in range(gaps.size):
                gaps[c] = least[c] if least[c] > gaps[c] else gaps[c]


@in_place
def _distance_to_front(scales: Floats, values: Floats, front: Bools, size: Floats, k: int) -> float:
    """Distance of the prediction of ``k`` to the nearest other arm on the front, 0 if there is none."""
    nearest = np.inf
    for a in range(front.size):
        if front[a] and a != k:
            far = 0.0
            for m in range(size.size):
                far = max(far, abs(values[a, m, 0] - values[k, m, 0]) * scales[SPREAD, m] / size[m])
            nearest = min(nearest, far)
    return nearest if nearest < np.inf else 0.0


@in_place
def find_reported(front: Bools, chances: Floats, reported: Bools) -> None:
    """Flag arms that are probably on the front: those on the front of the predictions need less of a chance."""
    found = 0
    for k in range(front.size):
        reported[k] = chances[k] >= (REPORT_CHANCE_ON_FRONT if front[k] else REPORT_CHANCE)
        found += reported[k]
    if found == 0:
        for k in range(front.size):
            reported[k] = front[k]


@in_place
def shrink_perturbations(images: Floats) -> None:
    """Shrink perturbations to the temperature at which arms are played."""
    for k in range(images.shape[0]):
        for j in range(images.shape[1]):
            row, mean = images[k, j], images[k, j, 0]
            for c in range(row.size):
                row[c] = mean + PLAY_TEMPERATURE * (row[c] - mean)


@compiled
def pick(
    images: Floats,
    deviations: Floats,
    tie: float,
    uncertainty: Floats,
    front: Bools,
    worthwhile: Bools,
    u: float,
    chances: Floats,
) -> int:
    """One of the perturbed fronts, and of it a worthwhile arm: any, or (in every second front) the least known.

    A front without a worthwhile arm is replaced by the ``front`` of the predictions. The uniform number ``u`` decides
    on front and arm; ``chances`` receives how probable each arm was.
    """
    arms, draws = images.shape[0], images.shape[2] - 1
    drawn = int(u * draws)
    arm = 0
    shares, flags = np.empty(arms), np.empty(arms, dtype=np.bool_)
    chances[:] = 0.0
    for c in range(1, draws + 1):
        found = 0
        for b in range(arms):
            flags[b] = worthwhile[b] and not _is_beaten(images, c, deviations, tie, b)
            found += flags[b]
        if found == 0:
            flags[:] = front
        if c % LEAST_KNOWN_EVERY == 0:
            _keep_least_known(flags, uncertainty)
        if c == drawn + 1:
            arm = draw(flags, u * draws - drawn, shares)
        size = 0
        for k in range(arms):
            size += flags[k]
        for k in range(arms):
            if flags[k]:
                chances[k] += 1.0 / (size * draws)
    return arm


@in_place
def _keep_least_known(flags: Bools, uncertainty: Floats) -> None:
    """Keep only the flagged arm about which least is known."""
    best = -1
    for k in range(flags.size):
        if flags[k] and (best < 0 or uncertainty[k] > uncertainty[best]):
            best = k
    for k in range(flags.size):
        flags[k] = k == best
