"""From predictions to an arm: which arms are active, which are reported, and what one more observation is worth.

Predictions come as posterior ``means`` and ``variances`` (K, M), in units of the spread of a metric. Arms are compared
by their ``images`` on the facets of the cone, in units of the typical size of a reward there. Only the arms that are
active at a context, often few, take part in what costs the square of their number.

The *margin* of an arm is by how much another one beats it on every facet: the largest, over the other arms, of the
least lead. If it is positive, the arm is off the front and to play it costs that much. If it is negative, the arm is on
the front, and a report without it falls short by that much. So either way, to misjudge an arm costs the size of its
margin, and a normal law for the margin, from perturbed predictions, says what that is expected to be.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from conebandit.kernels.compile import compiled, in_place
from conebandit.kernels.cone_kernel.blocks import predict_columns
from conebandit.kernels.cone_kernel.constants import (
    BLOCK,
    ELIMINATION_MARGIN,
    FAR_SHARE,
    MIN_DEVIATION,
    N_FRONTS,
    N_STRATA,
    REPORT_PRICE,
    ROUNDING,
    VARIANCE_FACTOR,
)
from conebandit.kernels.cone_kernel.margins import add_up, margins_of
from conebandit.kernels.cone_kernel.state import CENTRE, SPREAD
from conebandit.kernels.rng import mix
from conebandit.kernels.symmetric import multiply_symmetric
from conebandit.kernels.types import Bools, Floats, Ints

_DENSITY_AT_ZERO = 1.0 / math.sqrt(2.0 * math.pi)


def _strata() -> Floats:
    """Rows of N_FRONTS standard normal numbers, one from each of as many equally probable intervals, in random order.

    Latin hypercube sampling (McKay, Beckman & Conover 1979): every row has mean 0 and variance 1 exactly, so that much
    less is left to luck than with independent numbers. Neighbours 2 i and 2 i + 1 have opposite signs.
    """
    rng, half = np.random.default_rng(0), N_FRONTS // 2
    positive = np.array([NormalDist().inv_cdf(0.5 + (i + 0.5) / N_FRONTS) for i in range(half)])
    positive /= math.sqrt((positive**2).mean())
    rows = np.array([rng.permutation(positive) * rng.choice([-1.0, 1.0], half) for _ in range(N_STRATA)])
    return np.stack([rows, -rows], axis=2).reshape(N_STRATA, N_FRONTS)


STRATA = _strata()


@in_place
def predict(weights: Floats, phi: Floats, values: Floats) -> tuple[float, float]:
    """Mean of a prediction, and its variance as the draws tell it, from weights (D, L); ``values`` (L,) is scratch."""
    predict_columns(weights, phi, values)
    total = 0.0
    for c in range(1, values.size):
        total += (values[c] - values[0]) ** 2
    return values[0], VARIANCE_FACTOR * total / (values.size - 1)


@in_place
def exact_variances(covs: Floats, phi: Floats, few: Ints, gain: Floats, variances: Floats, reach: Floats) -> None:
    """Variances of the predictions of some arms, from the covariances of their weights; others stay as they are.

    What draws tell is off by a quarter, and at contexts nearby in the same direction: enough to tell which arms are far
    off the front, but not to weigh the others. ``gain`` is scratch, as long as ``phi``.

    Also writes the ``reach`` of an observation (n,): the share of all contexts that it tells about, as a mean over
    metrics. That is the squared correlation of the errors of predictions here and elsewhere, on average over contexts:
    with c(x') = phi' cov phi(x'), the mean of c(x')^2, over v^2. Features are nearly orthonormal over the unit cube, so
    the mean is the sum of squares of cov phi. It is 1 if all that is unknown is a constant.
    """
    for i in range(few.size):
        reach[i] = 0.0
        for m in range(variances.shape[1]):
            multiply_symmetric(covs[few[i], m], phi, gain)
            products, squares = sum_products(phi, gain)
            variance, tells = variance_and_reach(products, squares)
            reach[i] += tells / variances.shape[1]
            variances[few[i], m] = VARIANCE_FACTOR * variance


@in_place
def sum_products(phi: Floats, gain: Floats) -> tuple[float, float]:
    """The sums of phi times ``gain``, and of the squares of ``gain``."""
    products = squares = 0.0
    for j in range(phi.size):
        products += phi[j] * gain[j]
        squares += gain[j] * gain[j]
    return products, squares


@in_place
def variance_and_reach(products: float, squares: float) -> tuple[float, float]:
    """Posterior variance of a prediction, never negative, and the reach of an observation: sums with cov phi."""
    variance = max(products, 0.0)
    return variance, min(squares / max(variance * variance, MIN_DEVIATION), 1.0)


@in_place
def quadratic_form(cov: Floats, phi: Floats, gain: Floats) -> float:
    """The product phi' cov phi, never negative; ``gain`` is scratch of the same length."""
    multiply_symmetric(cov, phi, gain)
    variance = 0.0
    for j in range(phi.size):
        variance += phi[j] * gain[j]
    return max(variance, 0.0)


@in_place
def uncertainty_by_arm(variances: Floats, noise: Floats, uncertainty: Floats) -> float:
    """Write the variance of predictions in units of the noise, v_k / sigma_k^2, as a mean over metrics: (K, M) -> (K,).

    Gives about how many contexts were seen nearby, and this one: the sum over arms of sigma_k^2 / v_k, and 1.
    """
    nearby = 1.0
    for k in range(uncertainty.size):
        total = 0.0
        for m in range(variances.shape[1]):
            total += variances[k, m] / noise[k, m]
        uncertainty[k] = max(total / variances.shape[1], MIN_DEVIATION)
        nearby += 1.0 / uncertainty[k]
    return nearby


@in_place
def count_informed(reach: Floats, costs: Floats, best: int, few: Ints, cheap: Floats, nearby: float, seen: int) -> None:
    """Replace the reach of an observation of each arm by how many contexts to come it informs.

    The future is expected to be as long as the past. So these are as many as were seen nearby, where nearby means as
    far as the arms that are played most can be told from their surroundings. An arm of which little is known is
    uncertain in a way that is the same far beyond, so that an observation tells about more contexts. What it tells
    about these is best learned where the arm costs least: there they count, by FAR_SHARE.
    """
    for i in range(reach.size):
        far = FAR_SHARE * seen * reach[i] if costs[i] - costs[best] <= cheap[few[i]] else 0.0
        reach[i] = max(nearby, far)


@in_place
def write_units(facets: Floats, scales: Floats, units: Floats) -> None:
    """Typical size of a reward on each facet (F,)."""
    for j in range(units.size):
        units[j] = 0.0
        for m in range(facets.shape[1]):
            size = math.hypot(scales[CENTRE, m], scales[SPREAD, m])
            units[j] += abs(facets[j, m]) * size


@compiled
def find_active(facets: Floats, scales: Floats, means: Floats, variances: Floats, active: Bools) -> Ints:
    """Flag arms that no other one beats on every facet by more than ELIMINATION_MARGIN deviations; gives them."""
    arms, rows = active.size, facets.shape[0]
    images, spreads = np.empty((arms, rows)), np.empty((arms, rows))
    for k in range(arms):
        for j in range(rows):
            images[k, j], spreads[k, j] = 0.0, 0.0
            for m in range(variances.shape[1]):
                images[k, j] += facets[j, m] * (scales[CENTRE, m] + scales[SPREAD, m] * means[k, m])
                spreads[k, j] += (facets[j, m] * scales[SPREAD, m]) ** 2 * variances[k, m]
    least = np.inf
    for k in range(arms):
        least = min(least, spreads[k, 0])
    for b in range(arms):
        active[b] = True
        # Few arms are so far ahead on the first facet, and of one that is not the others need not be looked at.
        needed = ELIMINATION_MARGIN * math.sqrt(spreads[b, 0] + least) * (1.0 - ROUNDING)
        for a in range(arms):
            beaten, j = a != b and images[a, 0] - images[b, 0] >= needed, 0
            while beaten and j < rows:
                rise = images[a, j] - images[b, j]
                beaten = rise > 0.0 and rise * rise > ELIMINATION_MARGIN**2 * (spreads[a, j] + spreads[b, j])
                j += 1
            if beaten:
                active[b] = False
                break
    return flagged(active)


@compiled
def flagged(flags: Bools) -> Ints:
    """Where flags are set."""
    found = 0
    for k in range(flags.size):
        found += flags[k]
    few = np.empty(found, dtype=np.int64)
    for k in range(flags.size - 1, -1, -1):
        if flags[k]:
            found -= 1
            few[found] = k
    return few


@compiled
def perturbed_images(
    facets: Floats, scales: Floats, means: Floats, variances: Floats, units: Floats, few: Ints, key: np.uint64
) -> Floats:
    """Images of some arms, their predictions perturbed by whole posterior deviations N_FRONTS times: (n, F, N_FRONTS).

    Perturbations are rows of STRATA that depend on ``key`` and not on the key of the decision, so that the chance of
    every arm is known.
    """
    place = np.int64(key & np.uint64(N_STRATA - 1))
    step = np.int64(mix(key) & np.uint64(N_STRATA - 1)) | np.int64(1)  # odd, so that no row comes twice
    images = np.empty((few.size, units.size, N_FRONTS))
    for i in range(few.size):
        for j in range(units.size):
            for c in range(N_FRONTS):
                images[i, j, c] = 0.0
        for m in range(means.shape[1]):
            mean, deviation = means[few[i], m], math.sqrt(variances[few[i], m])
            place = (place + step) & np.int64(N_STRATA - 1)
            centre, spread, normals = scales[CENTRE, m], scales[SPREAD, m], STRATA[place]
            for j in range(units.size):
                facet, image = facets[j, m], images[i, j]
                for c in range(N_FRONTS):
                    image[c] += facet * (centre + spread * (mean + deviation * normals[c]))
        for j in range(units.size):
            image, unit = images[i, j], units[j]
            for c in range(N_FRONTS):
                image[c] /= unit
    return images


@in_place
def _is_inessential(images: Floats, slack: Floats, units: Floats, i: int, column: int) -> bool:
    """Whether another arm is nowhere below this one by more than the resolution, and above it by more somewhere."""
    for a in range(images.shape[0]):
        if a != i:
            nowhere_below, above = True, False
            for j in range(units.size):
                rise = images[a, j, column] - images[i, j, column]
                nowhere_below &= rise >= -slack[j] / units[j]
                above |= rise > slack[j] / units[j]
            if nowhere_below and above:
                return True
    return False


@compiled
def judge(images: Floats, slack: Floats, units: Floats, judged: Floats) -> None:
    """Write mean and deviation of the margin of each arm into ``judged`` (n, 2)."""
    margins = margins_of(images, slack, units)
    moments = np.empty((margins.shape[0], 2))
    for first in range(0, margins.shape[0], BLOCK):
        add_up(margins, first, moments)
    for i in range(judged.shape[0]):
        judged[i, 0], judged[i, 1] = moments[i, 0], max(moments[i, 1], MIN_DEVIATION)


@in_place
def undo_factor(images: Floats, centres: Floats) -> None:
    """Turn perturbations by VARIANCE_FACTOR times the posterior variance into draws from the posterior itself.

    ``centres`` (n, F) are the images of predictions as they are. Draws that were equal stay so.
    """
    for i in range(images.shape[0]):
        for j in range(images.shape[1]):
            image, centre = images[i, j], centres[i, j]
            for c in range(image.size):
                image[c] = centre + (image[c] - centre) / math.sqrt(VARIANCE_FACTOR)


@compiled
def flag_reported(images: Floats, slack: Floats, units: Floats, shown: Bools) -> None:
    """Flag the arms to be reported, given draws of their images.

    These are the arms that are more probably essential than unacceptable (without a resolution: on the front with a
    chance of a half or more), and the best one if there is none. An arm that is neither in any draw is not reported.
    """
    margins, resolves, best, least, any_shown = margins_of(images, slack, units), False, 0, np.inf, False
    for j in range(slack.size):
        resolves |= slack[j] > 0.0
    for i in range(shown.size):
        columns, unacceptable, total = margins.shape[1], 0, 0.0
        for c in range(columns):
            unacceptable += margins[i, c] > 0.0
            total += margins[i, c]
        essential = columns - unacceptable
        if resolves:
            essential = 0
            for c in range(columns):
                essential += not _is_inessential(images, slack, units, i, c)
        shown[i] = essential > unacceptable or (essential == unacceptable and 2 * essential >= columns)
        any_shown |= shown[i]
        if total < least:
            best, least = i, total
    if not any_shown:
        shown[best] = True


@in_place
def expected_cost(mean: float, deviation: float) -> float:
    """Expected positive part of a normal margin: what to play the arm costs."""
    z = mean / deviation
    below = 0.5 * math.erfc(-z / math.sqrt(2.0))
    return max(deviation * _DENSITY_AT_ZERO * math.exp(-0.5 * z * z) + mean * below, 0.0)


@in_place
def write_costs(judged: Floats, costs: Floats) -> int:
    """Write what to play each arm is expected to cost (n,); gives the one that costs least."""
    best = 0
    for i in range(costs.size):
        costs[i] = expected_cost(judged[i, 0], judged[i, 1])
        best = i if costs[i] < costs[best] else best
    return best


@in_place
def write_centres(facets: Floats, scales: Floats, means: Floats, units: Floats, few: Ints, centres: Floats) -> None:
    """Write the images of some arms (n, F), their predictions as they are."""
    for i in range(few.size):
        for j in range(units.size):
            centres[i, j] = 0.0
            for m in range(means.shape[1]):
                centres[i, j] += facets[j, m] * (scales[CENTRE, m] + scales[SPREAD, m] * means[few[i], m])
            centres[i, j] /= units[j]


@in_place
def find_rival(centres: Floats, slack: Floats, units: Floats, i: int) -> int:
    """The arm on which the margin of arm ``i`` depends, by predictions as they are.

    It beats arm ``i`` most on every facet, or comes closest to it. Of several that do so alike, as where a metric is
    the same for all arms, it is the one that leads most on all facets together.
    """
    rival, most, most_in_all = -1, -np.inf, -np.inf
    for a in range(centres.shape[0]):
        if a != i:
            least, in_all = np.inf, 0.0
            for j in range(centres.shape[1]):
                lead = centres[a, j] - centres[i, j] - slack[j] / units[j]
                least, in_all = min(least, lead), in_all + lead
                if least < most:
                    break
            if least > most or (least == most and in_all > most_in_all) or rival < 0:
                rival, most, most_in_all = a, least, in_all
    return rival


@compiled
def share_errors(judged: Floats, images: Floats, centres: Floats, slack: Floats, units: Floats, errors: Floats) -> None:
    """Write the part of the expected error of the report that each of several arms has in it (n,).

    To misjudge an arm costs the size of its margin, so it has an expected error of s times the normal density at the
    margin. The margin depends on two predictions, those of the arm and of its rival. So what is not known of it is
    divided between them, by the variances of their images.
    """
    spread = np.zeros(errors.size)
    for i in range(errors.size):
        errors[i] = 0.0
        for j in range(images.shape[1]):
            image, centre = images[i, j], centres[i, j]
            for c in range(image.size):
                spread[i] += (image[c] - centre) ** 2
    for i in range(errors.size):
        z, rival = judged[i, 0] / judged[i, 1], find_rival(centres, slack, units, i)
        error = judged[i, 1] * _DENSITY_AT_ZERO * math.exp(-0.5 * z * z)
        own = spread[i] / max(spread[i] + spread[rival], MIN_DEVIATION)
        errors[i] += own * error
        errors[rival] += (1.0 - own) * error


@compiled
def weigh(
    judged: Floats,
    costs: Floats,
    best: int,
    uncertainty: Floats,
    few: Ints,
    informed: Floats,
    errors: Floats,
    weights: Floats,
) -> None:
    """Write how uncertain each arm is into ``weights`` (n,), times the share of its worth that is left after its cost.

    One more observation of arm k lowers a deviation s that is due to it by a share of v / (2 (v + sigma^2)). That
    lowers the expected error of the report by this share of the part that the arm has in it, ``errors`` (n,); and the
    cost of the best play, c, by this share of what arm k contributes to it. It pays off at as many contexts as are
    ``informed`` by it (n,). It costs what the arm costs more than the ``best`` one: if that is all that it is worth, or
    more, the weight is 0.
    """
    arms, rivals = few.size, np.empty(few.size)
    all_rivals = 0.0
    for i in range(arms):
        z = (costs[i] - costs[best]) / judged[i, 1]
        rivals[i] = judged[i, 1] * math.exp(-0.5 * z * z)
        all_rivals += rivals[i]
    for i in range(arms):
        known = 0.5 * uncertainty[few[i]] / (1.0 + uncertainty[few[i]])
        play = costs[best] * rivals[i] / all_rivals
        worth = informed[i] * known * (REPORT_PRICE * errors[i] + play)
        left = 1.0 - (costs[i] - costs[best]) / max(worth, MIN_DEVIATION)
        weights[i] = uncertainty[few[i]] * max(left, 0.0)


@in_place
def draw_by_weight(weights: Floats, otherwise: int, u: float) -> int:
    """Scale weights to add up to 1, and draw by them with a uniform number; ``otherwise`` if all are 0."""
    total = 0.0
    for i in range(weights.size):
        total += weights[i]
    if not 0.0 < total < np.inf:
        weights[:], total = 0.0, 1.0
        weights[otherwise] = 1.0
    drawn, below, last = -1, 0.0, otherwise
    for i in range(weights.size):
        weights[i] /= total
        below += weights[i]
        if weights[i] > 0.0:
            last = i  # rounding may leave the sum below 1
            if drawn < 0 and u < below:
                drawn = i
    return drawn if drawn >= 0 else last
