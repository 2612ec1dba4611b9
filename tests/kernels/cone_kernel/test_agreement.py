"""What the agreement of metrics says about an arm in doubt: kernels beside their plain twins."""

import itertools
import math

import numpy as np
import pytest

from conebandit.geometry.cone import Cone
from conebandit.kernels.cone_kernel.agreement import add_agreeing, odds_of_facets
from conebandit.kernels.cone_kernel.state import SPREAD

from ...plain_cone_kernel import CONES


def scales_of(spread):
    scales = np.ones((5, len(spread)))
    scales[SPREAD] = spread
    return scales


def plain_odds(agreement, facets, spread):
    """How many times as probable as by predictions alone it is that an arm is beaten."""
    parts = facets * spread
    parts /= np.abs(parts).sum(axis=1, keepdims=True)
    pairs = itertools.combinations(range(len(facets)), 2)
    return math.exp(2 / len(facets) * sum(float(parts[j] @ agreement @ parts[i]) for j, i in pairs))


@pytest.mark.parametrize("cone", CONES)
def test_odds_equal_their_twin(cone):
    rng, facets = np.random.default_rng(1), CONES[cone].facets
    for _ in range(50):
        found = np.tril(rng.normal(size=(facets.shape[1],) * 2), -1)
        spread = np.exp(rng.normal(size=facets.shape[1]))
        expected = plain_odds(found + found.T, facets, spread)
        assert odds_of_facets(found + found.T, facets, scales_of(spread)) == pytest.approx(expected)


def test_with_two_metrics_odds_are_those_of_their_agreement_in_any_unit():
    agreement = np.array([[0.0, -1.2], [-1.2, 0.0]])
    for scale in (1e-6, 1.0, 1e6):
        assert odds_of_facets(agreement, np.eye(2), scales_of([scale, 1.0])) == pytest.approx(math.exp(-1.2))
    costs = Cone.from_facets([[1.0, 0.0], [0.0, -1.0]])  # less of the second metric is better
    assert odds_of_facets(agreement, costs.facets, scales_of([1.0, 1.0])) == pytest.approx(math.exp(1.2))


def test_a_single_metric_or_facet_has_no_odds():
    assert odds_of_facets(np.zeros((1, 1)), np.ones((1, 1)), scales_of([2.0])) == 1.0
    one = Cone.from_weights([[1.0, 2.0]]).facets
    assert odds_of_facets(np.array([[0.0, -3.0], [-3.0, 0.0]]), one, scales_of([1.0, 1.0])) == 1.0


def test_pairs_that_agree_are_counted_by_their_chances_and_odds():
    rng = np.random.default_rng(2)
    images = rng.normal(size=(6, 3, 8))
    images[2, 1] = images[4, 1]  # a tie in all columns is half of either
    agreement = np.array([[0.0, 0.7, -2.0], [0.7, 0.0, 0.0], [-2.0, 0.0, 0.0]])
    found = np.zeros((3, 3))
    add_agreeing(images, agreement, found)
    for m, n in itertools.combinations(range(3), 2):
        expected = 0.0
        for a, b in itertools.combinations(range(6), 2):
            order = np.sign((images[a, m] - images[b, m]) * (images[a, n] - images[b, n]))
            chance = (0.5 * (1 + order)).mean()
            odds = math.exp(agreement[m, n]) * chance
            expected += odds / (odds + 1 - chance)
        assert found[m, n] == found[n, m] == pytest.approx(expected)
    assert not found.diagonal().any()
