"""Counts of leads beside a plain twin."""

import math

import numpy as np
import pytest

from conebandit.kernels.cone_kernel.state import AMPLITUDE, SPREAD
from conebandit.kernels.cone_kernel.ties import count_leads

from ...plain_cone_kernel import CONES, plain_features, plain_leads, trained


@pytest.mark.parametrize(("cone", "dim"), [("orthant", 1), ("narrow", 2), ("three", 2)])
def test_counts_of_leads_equal_their_twin(cone, dim):
    policy, rng = trained(n=400, n_arms=5, cone=cone, dim=dim), np.random.default_rng(8)
    s, facets = policy._state, CONES[cone].facets
    near, expected, far, decided = count_leads(s, 200)
    phi = plain_features(s.orders, s.data[200:400, :dim])
    seen, drawn = [], []
    for row in phi:
        values = np.einsum("j,kmjc->kmc", row, s.weights) * s.scales[SPREAD][:, None]
        images = np.einsum("fm,kmc->kfc", facets, values)  # the centre is the same for all arms
        variances = ((images[:, :, 1:] - images[:, :, :1]) ** 2).mean(axis=2)
        seen.append(plain_leads(images[:, :, 0], variances))
        unsure = ((values[:, :, 1:] - values[:, :, :1]) ** 2).mean(axis=2)
        prior = s.scales[AMPLITUDE] * s.scales[SPREAD] ** 2 * (s.prior @ row**2)
        for _ in range(10):
            estimates = rng.standard_normal(unsure.shape) * np.sqrt(np.maximum(prior - unsure, 0.0))
            drawn.append(plain_leads(estimates @ facets.T, variances))
    seen, drawn = np.array(seen), np.array(drawn)
    assert [near, far, decided] == [
        (seen < 1).sum(),
        ((seen > 2) & (seen < 4)).sum(),
        ((seen > 2) & (seen < np.inf)).sum(),
    ]
    without_ties = (drawn < 1).sum() / 10
    # A count of that mean, from independent draws, is farther off than this in one run of a million.
    assert abs(expected - without_ties) < 5.2 * math.sqrt(without_ties)
