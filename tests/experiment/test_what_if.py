"""Other exchange rates and resolutions on the same estimates, and facets in words."""

import tomllib

import numpy as np
import pytest

import conebandit as cb
from conebandit.experiment import cones
from conebandit.experiment.declaration import Experiment
from conebandit.experiment.errors import InvalidError
from conebandit.experiment.facets import facets_of
from conebandit.experiment.metrics import read_metrics
from conebandit.experiment.outlook import Interval
from conebandit.experiment.policy import make_policy
from conebandit.experiment.standing import standings
from conebandit.experiment.what_if import Rate, compare, present, present_rates, present_resolution, suppose
from conebandit.service.engine.lifecycle import CheckedChange

METRICS = [{"name": "response", "units": "points"}, {"name": "toxicity", "direction": "min", "worst": 1.0}]
DOSES = {"id": "doses", "arms": ["a", "b", "c", "d"], "metrics": METRICS, "policy": "ConeKernel"}


def taught(declaration, n=200):
    """An experiment, and its policy after some rows that do not depend on what it would play."""
    experiment, rng = Experiment.from_dict(declaration), np.random.default_rng(4)
    policy = make_policy(experiment, experiment.arms)
    for t in range(n):
        k = t % 4
        policy.observe([0.5], k, [0.2 * k + rng.normal(0, 0.2), 1.0 - 0.12 * k + rng.normal(0, 0.2)])
    return experiment, policy


@pytest.mark.parametrize("policy", ["ConeKernel", "ParetoUCB1", {"name": "ConeTree", "preset": "adaptive"}])
def test_arms_stand_as_if_it_had_been_declared_so_from_the_start(policy):
    experiment, learned = taught(DOSES | {"policy": policy})
    x = np.array([0.5])
    for rates, resolution in (
        ([Rate("response", "toxicity", None, 0.2)], (0.0, 0.0)),
        ([Rate("response", "toxicity", 0.5, 3.0)], (0.1, 0.05)),
        ([], (0.3, 0.0)),
    ):
        hypothesis = suppose(experiment, rates, resolution)
        found = compare(hypothesis, learned, x)
        assert not found.by_estimates
        assert repr(found.now) == repr(standings(experiment, learned, x)), "nan is nan"
        changed, same = taught({**experiment.declaration, **tomllib.loads(hypothesis.toml())})
        assert repr(found.then) == repr(standings(changed, same, x))
        names = {arm.outlook.arm for arm in found.now if arm.outlook.on_front}
        then = {arm.outlook.arm for arm in found.then if arm.outlook.on_front}
        assert {arm.outlook.arm for arm in found.enter} == then - names
        assert {arm.outlook.arm for arm in found.leave} == names - then


def test_a_policy_that_eliminates_is_compared_by_its_estimates():
    experiment, learned = taught(DOSES | {"policy": {"name": "ConeTree", "preset": "sound"}})
    hypothesis = suppose(experiment, [Rate("response", "toxicity", None, 0.2)], (0.0, 0.0))
    found = compare(hypothesis, learned, np.array([0.5]), retired=["a"])
    assert found.by_estimates
    assert all(np.isnan(arm.outlook.chance) for arm in (*found.now, *found.then))
    values = [[arm.outlook.estimates[m].estimate for m in ("response", "toxicity")] for arm in found.now]
    for arms, cone in ((found.now, experiment.cone), (found.then, hypothesis.cone)):
        expected = cb.pareto_mask(np.array(values), cone.turned(["toxicity"]))
        assert [arm.outlook.on_front for arm in arms][1:] == expected.tolist()[1:]
        assert not arms[0].outlook.on_front, "it is retired"


def test_contradictions_are_named():
    experiment = Experiment.from_dict(DOSES)
    with pytest.raises(InvalidError, match="at least 3 of toxicity; one unit of response is worth at most 2 of tox"):
        suppose(experiment, [Rate("response", "toxicity", 3.0, 2.0)], (0.0, 0.0))
    with pytest.raises(InvalidError, match="contradict each other"):
        suppose(experiment, [Rate("response", "toxicity", 3.0), Rate("toxicity", "response", 1.0)], (0.0, 0.0))
    for bad in (0.0, -1.0, 1e300, float("nan")):
        with pytest.raises(InvalidError, match="an exchange rate must be a number from 1e-12"):
            suppose(experiment, [Rate("response", "toxicity", bad)], (0.0, 0.0))
    with pytest.raises(InvalidError, match="resolution of 'toxicity' must be at least 0; got -1"):
        suppose(experiment, [], (0.0, -1.0))


@pytest.mark.parametrize(
    "cone",
    [
        "orthant",
        {"tradeoffs": ["one unit of response is worth at most 0.3 of toxicity"]},
        {"tradeoffs": ["one unit of toxicity is worth between 0.7 and 3 of response"]},
        {"tradeoffs": ["3 toxicity is worth exactly 7 response"]},
        {"wedge": 120},
        {"weights": [[1, 2], [3, 1]]},
    ],
)
def test_rates_of_two_metrics_make_the_declared_cone_again(cone):
    experiment = Experiment.from_dict(DOSES | {"cone": cone})
    again = suppose(experiment, present_rates(experiment), present_resolution(experiment))
    assert again == present(experiment)
    assert again.is_present
    assert again.declared == cone, "in the words in which it was declared"


def test_a_cone_smaller_than_the_orthant_has_no_rates():
    experiment = Experiment.from_dict(DOSES | {"cone": {"wedge": 60}})
    assert present_rates(experiment) == ()
    assert not suppose(experiment, (), (0.0, 0.0)).is_present


@pytest.mark.parametrize("policy", ["ConeKernel", {"name": "ConeKernel", "resolution": 0.1}])
def test_toml_is_a_change_that_the_service_takes(policy):
    experiment = Experiment.from_dict(DOSES | {"policy": policy})
    hypothesis = suppose(experiment, [Rate("response", "toxicity", 1.0, 2.0)], (0.02, 0.0))
    changes = tomllib.loads(hypothesis.toml())
    changed = CheckedChange.check(experiment.declaration, changes).after
    assert changed.cone == hypothesis.cone
    assert present_resolution(changed) == (0.02, 0.0)
    make_policy(changed, changed.arms)
    only_cone = suppose(experiment, [Rate("response", "toxicity", 1.0)], present_resolution(experiment))
    assert set(tomllib.loads(only_cone.toml())) == {"cone"}


# ---- facets in words ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cone", ["orthant", {"wedge": 60}, {"wedge": 130}, {"weights": [[0, 1]]}, {"rays": [[1, -1], [0, 1]]}]
)
def test_facets_say_what_the_cone_says(cone, rng):
    """A sum is larger for the better arm, and its words have the sign and the size of the difference."""
    metrics = read_metrics(METRICS)
    order = cones.declared(cone, metrics)
    for row, facet in zip(order.facets, facets_of(order, metrics), strict=True):
        for _ in range(20):
            a, b = rng.normal(size=(2, 2))  # values, the second of a cost
            lead = row @ (np.array([a[0], -a[1]]) - np.array([b[0], -b[1]]))
            rise = np.dot(facet.coefficients, a - b)
            np.testing.assert_allclose(lead / facet.scale, rise)
            words = facet.compared(Interval(lead, lead - 1.0, lead + 1.0))
            alone = np.count_nonzero(facet.coefficients) == 1
            change = rise if not alone else (a - b)[np.flatnonzero(facet.coefficients)[0]]
            radius = 1.0 / facet.scale
            size = Interval(abs(change), abs(change) - radius, abs(change) + radius)
            assert words.startswith(f"{facet.words} {'higher' if change > 0 else 'lower'} by {size}")


def test_leads_that_are_not_known_are_not_numbers():
    [facet, _] = facets_of(cb.Cone.orthant(2), read_metrics(METRICS))
    assert facet.compared(Interval(np.nan, np.nan, np.nan)) == "response: not known"
    assert facet.compared(Interval(0.5, -np.inf, np.inf)) == "response higher by 0.5 points"
    assert facet.compared(Interval(0.0, -1.0, 1.0)) == "response the same"
