"""Arguments that make no sense are refused by name, before anything else goes wrong with them."""

import re

import numpy as np
import pytest

import conebandit as cb
from conebandit.environments import shift
from conebandit.environments.base import World
from conebandit.environments.noise import Bounded, Gaussian

ORTHANT = cb.Cone.orthant(2)
TWO = np.array([[0.1], [0.9]])
STILL = shift.stationary(shift.uniform())


def means(x):
    return np.ones((len(x), 2, 2))


def tree(**options):
    return cb.ConeTree(3, ORTHANT, 1, **options)


def paper():
    return cb.environments.paper(n_arms=3)


@pytest.mark.parametrize(
    ("attempt", "error", "says"),
    [
        (lambda: cb.smoothness_from_log(TWO, [0, 1], np.ones((2, 2))), ValueError, "arms must name an arm more than"),
        (lambda: cb.smoothness_from_log(TWO, [0, 0], np.full((2, 2), np.nan)), ValueError, "rewards must have a row"),
        (lambda: cb.margin_from_log(TWO, [0, 1], np.ones((2, 2)), ORTHANT, level=-1), ValueError, "level .* got -1"),
        (lambda: tree(delta="a"), ValueError, "delta .* got 'a'"),
        (lambda: tree(delta=None), ValueError, "delta .* got None"),
        (lambda: tree(delta=1e-320), ValueError, "delta .*at least 1e-300"),
        (lambda: tree(beta="a"), ValueError, "beta .* got 'a'"),
        (lambda: tree(sigma=1e200), ValueError, r"sigma must be at most 1e\+150; got 1e\+200"),
        (lambda: tree(holder="a"), ValueError, "holder .* got 'a'"),
        (lambda: cb.ShiftMonitor(1, alpha="a"), ValueError, "alpha .* got 'a'"),
        (lambda: Gaussian("a"), ValueError, "sigma .* got 'a'"),
        (lambda: Bounded("a"), ValueError, "width .* got 'a'"),
        (lambda: shift.power_law("a"), ValueError, "nu must be a number, above -1; got 'a'"),
        (lambda: shift.power_law(-2), ValueError, "nu must be a number, above -1; got -2"),
        (lambda: shift.beta("a", 1), ValueError, "a must be a positive number; got 'a'"),
        (lambda: World("w", shift.uniform(), means, ORTHANT, 2), TypeError, r"schedule .* stationary\(law\)"),
        (lambda: World("w", STILL, means, None, 2), TypeError, "cone must be .* got None"),
        (lambda: cb.Oracle(None), TypeError, "environment must have n_arms, .* got None"),
        (lambda: cb.simulate(None, paper(), 10), TypeError, "policy must have n_arms; got None"),
        (lambda: cb.simulate(cb.Oracle(paper()), None, 10), TypeError, "environment must have n_arms; got None"),
        (lambda: cb.simulate_many(cb.Oracle(paper()), paper(), 10, 3), TypeError, "seeds must be .* got 3"),
        (lambda: cb.Cone.wedge(179.9999999), ValueError, "degrees must be a number from 1e-06 to 180 - 1e-06, or 180"),
        (lambda: cb.Cone.wedge(1e-9), ValueError, "degrees must be a number from 1e-06"),
        (
            lambda: cb.hausdorff([[1, 2]], [[1, 2, 3]]),
            ValueError,
            r"b must have 2 columns, as many as a; got shape \(1, 3\)",
        ),
    ],
)
def test_arguments_are_refused_by_name(attempt, error, says):
    with pytest.raises(error, match=says):
        attempt()


@pytest.mark.parametrize(
    ("attempt", "name"),
    [
        (ORTHANT.orthant, "dim"),
        (cb.Cone.wedge, "degrees"),
        (lambda v: cb.gap([[1.0, 2.0]], [[2.0, 3.0]], ORTHANT, floor=v), "floor"),
        (Gaussian, "sigma"),
        (Bounded, "width"),
        (shift.uniform, "context_dim"),
        (shift.power_law, "nu"),
        (shift.exponential, "rate"),
        (lambda v: shift.beta(1, v), "b"),
        (lambda v: shift.truncated_normal(v, 1), "mean"),
        (lambda v: shift.recurring([shift.uniform()], v), "period"),
        (STILL.mixture, "until"),
        (lambda v: cb.environments.paper(change_point=v), "change_point"),
        (lambda v: cb.environments.smooth(n_arms=v), "n_arms"),
        (lambda v: cb.environments.smooth(n_objectives=v), "n_objectives"),
        (lambda v: cb.environments.smooth(context_dim=v), "context_dim"),
        (lambda v: cb.environments.smooth(relevant=v), "relevant"),
        (lambda v: cb.environments.smooth(length_scale=v), "length_scale"),
        (lambda v: cb.environments.smooth(seed=v), "seed"),
        (lambda v: cb.environments.piecewise(jumps=v), "jumps"),
        (lambda v: cb.environments.dose_finding(start=v), "start"),
        (lambda v: World("w", STILL, means, ORTHANT, v), "n_arms"),
    ],
)
@pytest.mark.parametrize("value", [True, np.True_, "1", np.array(1), np.nan, np.inf])
def test_what_is_no_number_is_refused_by_name(attempt, name, value):
    with pytest.raises(ValueError, match=rf"^{name} must be a.* got {re.escape(repr(value))}\.$"):
        attempt(value)
