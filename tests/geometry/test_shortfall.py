"""By what factor a report must improve to weakly dominate a front: against moocore and independent formulations."""

import json
from pathlib import Path

import numpy as np
import pytest

from conebandit import Cone, gap, log_hausdorff, pareto_mask, shortfall

from .. import oracles
from .test_gap import C3, random_cone

PEERS = Path(__file__).parents[1] / "data" / "peers"
CONES = [Cone.orthant(2), C3, Cone.wedge(120), Cone.from_weights([[0.3, 0.7]])]


def test_for_the_orthant_it_is_the_log_of_moocores_multiplicative_epsilon_indicator():
    cases = json.loads((PEERS / "epsilon_mult.json").read_text())["cases"]
    for case in cases:
        ours = shortfall(case["reported"], case["front"], Cone.orthant(len(case["front"][0])))
        assert ours == pytest.approx(max(0.0, np.log(case["factor"])), abs=1e-12)
    assert sum(case["factor"] > 1 for case in cases) > 20


@pytest.mark.untraced
@pytest.mark.parametrize("kind", ["orthant", "wide", "narrow", "oblique"])
@pytest.mark.parametrize("dim", [1, 2, 3, 4])
def test_it_equals_independent_formulations(kind, dim):
    rng = np.random.default_rng([dim, len(kind)])
    positive = 0
    for _ in range(25):
        cone = random_cone(kind, dim, rng) if dim > 1 else Cone.orthant(1)
        reported, front = (rng.uniform(0.2, 1.5, (int(rng.integers(1, 7)), dim)) for _ in range(2))
        ours = shortfall(reported, front, cone)
        assert ours == pytest.approx(oracles.shortfall_by_linprog(reported, front, cone.facets), abs=1e-7)
        if cone.contains_orthant:
            expected = oracles.closed_form_shortfall(reported, front, cone.facets)
            assert ours == pytest.approx(expected, abs=1e-12)
        positive += 0 < ours < np.inf
    assert positive >= 5  # the cases are not all trivial


def test_an_example_by_hand():
    front = [[1.0, 0.5], [0.8, 0.8], [0.5, 1.0]]
    # To stand in for (0.8, 0.8) an end must grow from 0.5 to 0.8 in one metric.
    assert shortfall([front[0], front[2]], front, Cone.orthant(2)) == pytest.approx(np.log(1.6))
    assert shortfall([front[1]], front, Cone.orthant(2)) == pytest.approx(np.log(1.25))
    # Under one weighting all that counts is the best: 0.8 to 0.75.
    assert shortfall([front[0], front[2]], front, Cone.from_weights([[0.5, 0.5]])) == pytest.approx(np.log(0.8 / 0.75))


def test_a_narrow_cone_asks_for_factors_that_lead_inside_it():
    """Scaled alike, (1, 0.5) never comes to dominate (1, 0.6) under C3: its second facet only falls."""
    reported, front = np.array([[1.0, 0.5]]), np.array([[1.0, 0.6]])
    scaled = reported * np.linspace(1, 100, 1000)[:, None]
    assert not C3.weakly_dominates(scaled, front[0]).any()
    assert shortfall(reported, front, C3) == pytest.approx(np.log(1.2))


def test_a_single_arm_under_one_weighting_falls_short_by_its_gap(rng):
    means = rng.uniform(0.1, 1, (9, 3))
    cone = Cone.from_weights([[0.2, 0.3, 0.5]])
    front = pareto_mask(means, cone)
    ours = [shortfall([arm], means[front], cone) for arm in means]
    np.testing.assert_allclose(ours, gap(means, front, cone), atol=1e-12)


@pytest.mark.parametrize("cone", CONES, ids=["orthant", "narrow", "wide", "weighting"])
def test_masked_batches_equal_single_calls(cone, rng):
    means = rng.uniform(0.1, 2, (40, 6, 2))
    front, reported = pareto_mask(means, cone), rng.random((40, 6)) < 0.4
    reported[:, 0] = True
    batched = shortfall(means, means, cone, in_reported=reported, in_front=front)
    for i in range(40):
        assert batched[i] == shortfall(means[i][reported[i]], means[i][front[i]], cone)
    assert (shortfall(means, means, cone, in_reported=front, in_front=front) == 0).all()


@pytest.mark.parametrize("cone", CONES, ids=["orthant", "narrow", "wide", "weighting"])
def test_it_is_continuous_where_coverage_jumps(cone, rng):
    """A tiny lead that decides which arms are on the front moves it by a tiny amount; of coverage that is not true."""
    jump = 0.0
    for _ in range(200):
        means = rng.uniform(0.1, 1, (5, 2))
        means[4] = means[0]
        means[4, 1] *= rng.uniform(0.2, 1)  # a tie in the first metric
        reported = rng.random(5) < 0.5
        reported[1] = True
        tiny = 1e-7 * rng.normal(size=means.shape)
        values = []
        for moved in (means, means * np.exp(tiny)):
            front = moved[pareto_mask(moved, cone)]
            values.append((shortfall(moved[reported], front, cone), log_hausdorff(moved[reported], front)))
        assert abs(values[0][0] - values[1][0]) < 1e-5
        jump = max(jump, abs(values[0][1] - values[1][1]))
    assert jump > 0.1 or not cone.is_orthant


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1e12, 1e300])
@pytest.mark.parametrize("cone", CONES, ids=["orthant", "narrow", "wide", "weighting"])
def test_scales(scale, cone, rng):
    reported, front = rng.uniform(0.1, 1, (4, 2)), rng.uniform(0.1, 1, (6, 2))
    assert shortfall(reported * scale, front * scale, cone) == pytest.approx(shortfall(reported, front, cone), rel=1e-9)


@pytest.mark.parametrize("cone", CONES, ids=["orthant", "narrow", "wide", "weighting"])
def test_factors_that_overflow_are_finite_on_the_log_scale(cone):
    reported, front = np.array([[1.0, 1.3], [0.8, 0.9]]), np.array([[2.0, 3.0], [3.0, 2.1]])
    known = shortfall(1e-100 * reported, front, cone) + 400 * np.log(10.0)
    assert shortfall(1e-300 * reported, 1e200 * front, cone) == pytest.approx(known, rel=1e-12)


def test_one_metric_of_the_orthant_may_overflow_alone():
    ours = shortfall([[1e-300, 1e300]], [[1e300, 1e300]], Cone.orthant(2))
    assert ours == pytest.approx(600 * np.log(10))


@pytest.mark.parametrize("cone", CONES, ids=["orthant", "narrow", "wide", "weighting"])
def test_duplicates_and_ties_cost_nothing(cone):
    third = np.array([[1 / 3, 0.1 + 0.2], [1 / 3, 0.3]])
    assert shortfall(third[:1], third, cone) == shortfall(third[1:], third, cone) == 0


def test_a_cone_for_which_more_is_not_better_may_leave_no_way():
    assert shortfall([[1.0, 1.0]], [[2.0, 0.5]], Cone.from_facets([[1, 0], [0, -1]])) == np.inf
    assert shortfall([[1.0, 0.5]], [[2.0, 1.0]], Cone.from_facets([[1, 0], [0, -1]])) == pytest.approx(np.log(2))


def test_floor_cuts_both_sets():
    assert shortfall([[0.0, 1.0]], [[1.0, 1.0]], Cone.orthant(2), floor=0.5) == pytest.approx(np.log(2))


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: shortfall([[0.0, 1.0]], [[1, 1]], C3), ValueError, "reported must be positive.*floor"),
        (lambda: shortfall([[1.0, 1.0]], [[-1, 1]], C3), ValueError, "front must be positive"),
        (lambda: shortfall([[1.0, 1.0]], [[1, 1]], np.eye(2)), TypeError, "cone must be a conebandit.Cone"),
        (lambda: shortfall([[1.0] * 3], [[1.0] * 3], C3), ValueError, "reported must have 2 columns"),
        (lambda: shortfall([[1, 1]], np.ones((1, 1, 2)), C3), ValueError, "reported and front must hold the same"),
        (lambda: shortfall([[1, 1]], [[1, 1]], C3, in_reported=[False]), ValueError, "in_reported selects no point"),
        (lambda: shortfall([[1, 1]], [[1, 1]], C3, in_front=[1]), ValueError, "in_front must be a boolean array"),
    ],
)
def test_bad_input_is_refused(call, error, says):
    with pytest.raises(error, match=says):
        call()
