"""How far metrics put arms into the same order, as the default policy learns it."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

import conebandit as cb
from conebandit.kernels.cone_kernel.agreement import odds_of_facets
from conebandit.kernels.cone_kernel.constants import BUDGET, LOG_DEVIATION
from conebandit.policies.cone_kernel.agreement import estimated_agreement, learn_agreement, mallows


@pytest.mark.parametrize("agreement", [-40.0, -3.0, -0.5, -1e-3, -1e-4, -1e-7, 0.0, 1e-7, 0.4, 2.0, 40.0])
@pytest.mark.parametrize("arms", [1, 2, 4, 6])
def test_the_model_is_the_sum_over_all_permutations(arms, agreement):
    counts = np.array(
        [sum(order[i] < order[j] for i, j in itertools.combinations(range(arms), 2))
         for order in itertools.permutations(range(arms))]
    )  # fmt: skip
    found, log_total = mallows(arms, agreement), logsumexp(agreement * counts)
    weights = np.exp(agreement * counts - log_total)
    assert found.log_total == pytest.approx(log_total, abs=1e-6)
    assert found.expected == pytest.approx(counts @ weights, abs=1e-6)
    assert found.variance == pytest.approx((counts - counts @ weights) ** 2 @ weights, abs=1e-3 * arms**2)


def plain_estimate(arms, agreeing):
    """By sums over a fine grid, in place of Laplace's approximation."""
    grid = np.linspace(-8, 8, 4001) * LOG_DEVIATION
    logs = np.array([a * agreeing - mallows(arms, a).log_total for a in grid]) + norm.logpdf(grid, scale=LOG_DEVIATION)
    slab, spike = logsumexp(logs) + math.log(grid[1] - grid[0]), -mallows(arms, 0.0).log_total
    mean = np.exp(logs - logsumexp(logs)) @ grid
    return mean / (1 + math.exp(spike - slab))


@pytest.mark.parametrize("arms", [2, 3, 5, 10, 30])
def test_the_estimate_is_the_posterior_mean(arms):
    pairs, before = arms * (arms - 1) / 2, -np.inf
    for share in (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0):
        found = estimated_agreement(arms, share * pairs)
        assert found == pytest.approx(plain_estimate(arms, share * pairs), rel=0.15, abs=0.02)
        assert found == pytest.approx(-estimated_agreement(arms, (1 - share) * pairs), abs=1e-9)
        assert before < found
        before = found


@pytest.mark.parametrize("arms", [1, 300])
def test_few_and_very_many_arms(arms):
    pairs = arms * (arms - 1) / 2
    found = [estimated_agreement(arms, share * pairs) for share in (0.0, 0.5, 1.0)]
    assert found[1] == pytest.approx(0, abs=1e-9)
    assert np.isfinite(found).all()
    assert found[2] == pytest.approx(-found[0])
    assert found[2] > 3 or arms == 1


def drawn(rng, arms, agreement):
    """How many pairs agree in a permutation drawn from Mallows' model, by repeated insertion."""
    return float(sum(rng.choice(i, p=(w := np.exp(agreement * np.arange(i))) / w.sum()) for i in range(1, arms + 1)))


def test_what_permutations_were_drawn_with_is_found_and_chance_is_hardly_taken_for_agreement():
    """40 arms, -0.3: within its own error. Ten arms in random order: at most 0.2 on average. Of 200 draws each."""
    rng = np.random.default_rng(0)
    found = np.array([estimated_agreement(40, drawn(rng, 40, -0.3)) for _ in range(200)])
    assert abs(found.mean() + 0.3) < 4 * found.std() / math.sqrt(200) + 0.02  # the prior draws it to 0
    by_chance = [estimated_agreement(10, drawn(rng, 10, 0.0)) for _ in range(200)]
    assert np.abs(by_chance).mean() < 0.1


def taught(trade, n=900, arms=6, metrics=2, **options):
    """A policy that has seen arms of which more of one metric is less of the others, if they ``trade``."""
    rng = np.random.default_rng(8)
    first = np.linspace(0.2, 0.8, arms)
    means = np.stack([first, *[1 - first if trade else rng.permutation(first) for _ in range(metrics - 1)]], axis=1)
    policy = cb.ConeKernel(arms, cb.Cone.orthant(metrics), 1, **options)
    for t in range(n):
        policy.observe([rng.random()], t % arms, means[t % arms] + 0.1 * rng.standard_normal(metrics))
    return policy


def test_metrics_that_are_traded_disagree_and_others_hardly():
    assert taught(trade=True)._state.agreement[0, 1] < -1.0
    assert abs(taught(trade=False, arms=12)._state.agreement[0, 1]) < 0.3


def test_it_is_learned_for_each_pair_of_metrics():
    found = taught(trade=True, metrics=3)._state.agreement
    np.testing.assert_array_equal(found, found.T)
    assert not found.diagonal().any()
    assert found[0, 1] < -1.0 < 1.0 < found[1, 2]  # both are what the first one is not


def test_with_one_metric_or_one_arm_there_is_nothing_to_learn():
    assert not taught(trade=True, metrics=1)._state.agreement.any()


def test_chances_count_the_odds():
    policy = taught(trade=True)
    chances = policy.front([0.5]).chances
    odds = odds_of_facets(policy._state.agreement, policy._state.facets, policy._state.scales)
    policy._state.agreement[:] = 0.0
    plain = policy.front([0.5]).chances
    assert odds < 0.4
    np.testing.assert_allclose(chances, plain / (plain + odds * (1 - plain)))


@pytest.mark.parametrize("arms", [10, 100, 300])
def test_to_learn_it_takes_little_of_a_fit(arms):
    """Pairs count by the square of the number of arms; all arms are played in turn until the first model is there."""
    policy = cb.ConeKernel(arms, cb.Cone.orthant(2), 1)
    state = policy._state._replace(size=np.array([2 * arms, 0, 1, 0, 2 * arms]), data=np.zeros((2 * arms, 3)))
    assert sum(learn_agreement(state, seed=0)) <= 0.15 * BUDGET * len(state.data)
