"""How often arms nearly tie, beside what is expected if there are no ties."""

from __future__ import annotations

import math

import numpy as np

from conebandit.kernels.compile import compiled, in_place
from conebandit.kernels.cone_kernel.choice import approximately_normal, variances_of_draws, write_images
from conebandit.kernels.cone_kernel.constants import CLEAR_LEAD, DECIDED_LEAD, FAR_LEAD, NEAR_LEAD
from conebandit.kernels.cone_kernel.features import highest_order, predict, write_features
from conebandit.kernels.cone_kernel.state import AMPLITUDE, OBSERVATIONS, State
from conebandit.kernels.rng import GOLDEN, mix
from conebandit.kernels.types import Floats


@compiled
def count_leads(state: State, first: int) -> Floats:
    """How arms compare with one that is clearly better elsewhere, at the contexts of samples ``first`` and later.

    A lead is that of the closest such arm, in posterior deviations, on the facet that decides. Gives how many leads are
    near zero; how many of them are so if means are drawn from the prior, where there are no ties, and are as well known
    as now; and how many are far, and decided, see the table of constants.
    """
    arms, objectives, features, columns = state.weights.shape
    dim, facets = state.orders.shape[1], state.facets.shape[0]
    cosines, phi = np.empty(1 + dim * highest_order(dim)), np.empty(features)
    values, variances = np.empty((arms, objectives, columns)), np.empty((arms, objectives))
    images, image_variances = np.empty((arms, facets, columns)), np.empty((arms, facets))
    leads, drawn, drawn_images = np.empty(arms), np.empty((arms, objectives, 1)), np.empty((arms, facets, 1))
    near = expected = far = decided = 0
    for t in range(first, state.size[OBSERVATIONS]):
        write_features(state.parts, state.data[t, :dim], cosines, phi)
        predict(state.weights, phi, values)
        write_images(state.facets, state.scales, values, images)
        variances_of_draws(images, image_variances)
        _closest_leads(images, image_variances, leads)
        for b in range(arms):
            near += abs(leads[b]) < NEAR_LEAD
            far += DECIDED_LEAD < abs(leads[b]) < FAR_LEAD
            decided += DECIDED_LEAD < abs(leads[b]) < np.inf
        variances_of_draws(values, variances)
        _draw_estimates(state, phi, variances, mix(np.uint64(t)), drawn)
        write_images(state.facets, state.scales, drawn, drawn_images)
        _closest_leads(drawn_images, image_variances, leads)
        for b in range(arms):
            expected += abs(leads[b]) < NEAR_LEAD
    return np.array([near, expected, far, decided], dtype=np.float64)


@in_place
def _draw_estimates(state: State, phi: Floats, variances: Floats, key: np.uint64, drawn: Floats) -> None:
    """Estimates (K, M, 1) of means drawn from the prior, if what is not known of them has these ``variances``."""
    prior = 0.0
    for i in range(phi.size):
        prior += state.prior[i] * phi[i] * phi[i]
    count = np.uint64(0)
    for k in range(drawn.shape[0]):
        for m in range(drawn.shape[1]):
            count += np.uint64(1)
            known = max(state.scales[AMPLITUDE, m] * prior - variances[k, m], 0.0)
            drawn[k, m, 0] = math.sqrt(known) * approximately_normal(mix(key + count * GOLDEN))


@in_place
def _closest_leads(images: Floats, variances: Floats, leads: Floats) -> None:
    """Lead over each arm of the closest one that is clearly better on some facet; minus infinity if there is none."""
    for b in range(leads.size):
        leads[b] = -np.inf
        for a in range(leads.size):
            if a != b:
                least, most = _lead(images, variances, a, b)
                if most > CLEAR_LEAD:
                    leads[b] = max(leads[b], least)


@in_place
def _lead(images: Floats, variances: Floats, a: int, b: int) -> tuple[float, float]:
    """By how many posterior deviations ``a`` is above ``b`` on the facet where it is least, and where it is most."""
    least, most = np.inf, -np.inf
    for j in range(images.shape[1]):
        deviation = math.sqrt(variances[a, j] + variances[b, j])
        rise = images[a, j, 0] - images[b, j, 0]
        if deviation > 0.0:
            lead = rise / deviation
        else:
            lead = np.inf if rise > 0.0 else (-np.inf if rise < 0.0 else 0.0)
        least, most = min(least, lead), max(most, lead)
    return least, most
