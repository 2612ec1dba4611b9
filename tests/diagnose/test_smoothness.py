"""Exponents of smoothness and margin where they are known."""

import numpy as np
import pytest

import conebandit as cb
from conebandit import plots
from conebandit.environments import shift
from conebandit.environments.base import World
from conebandit.environments.noise import Gaussian


def world(curve, *, cone=None, dim=1, sigma=0.05):
    """Two arms with two metrics: (1, 1), and what ``curve`` makes of the first coordinate."""

    def means(x):
        y = np.ones((len(x), 2, 2))
        y[:, 1] = curve(x[:, 0])[:, None]
        return y

    schedule = shift.change_point(shift.power_law(2, dim), shift.uniform(dim), at=100)
    return World("test", schedule, means, cone or cb.Cone.orthant(2), 2, Gaussian(sigma))


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize(("power", "constant"), [(1.0, 0.5), (0.5, 0.5)])
def test_smoothness_of_a_power(power, constant, dim):
    law = cb.smoothness(world(lambda x: 1 + constant * x**power, dim=dim))  # steepest at 0: constant * r^power
    assert law.exponent == pytest.approx(power, abs=0.05)
    assert law.constant == pytest.approx(constant, rel=0.1)
    assert law.low <= law.exponent <= law.high + 1e-9


def test_jumps_are_not_smooth():
    assert cb.smoothness(cb.environments.piecewise(context_dim=1)).exponent < 0.1


@pytest.mark.parametrize(("power", "wanted"), [(1, 1.0), (2, 0.5)])
def test_margin_where_it_is_known(power, wanted):
    # The second arm is worse by a gap of |x - 1/2|^power: P(gap <= eps) = 2 eps^(1 / power).
    law = cb.margin(world(lambda x: np.exp(-(np.abs(x - 0.5) ** power))))
    assert law.exponent == pytest.approx(wanted, abs=0.06)
    assert law.constant == pytest.approx(2, rel=0.25)


def test_margin_needs_a_gap():
    with pytest.raises(ValueError, match="every arm is on the front"):
        cb.margin(world(np.ones_like))


def logged(environment, n=40_000):
    run = cb.simulate(cb.RandomArm(2, environment.cone, environment.context_dim), environment, n)
    return run.contexts, run.arms, run.rewards


@pytest.mark.parametrize("sigma", [0.02, 0.3])
def test_smoothness_from_a_log_sees_through_noise(sigma):
    law = cb.smoothness_from_log(*logged(world(lambda x: 1 + x, sigma=sigma)))
    assert law.exponent == pytest.approx(1, abs=0.15)
    assert 0.3 < law.constant < 1.5  # one of two arms has slope 1, the other 0: about sqrt(1/2) in the mean square


def test_a_rough_log_is_rougher_than_a_smooth_one():
    rough = cb.smoothness_from_log(*logged(world(lambda x: 1 + 0.5 * np.sign(np.sin(20 * x)))))
    assert rough.exponent < 0.7


def test_margin_from_a_log():
    environment = world(lambda x: np.exp(-np.abs(x - 0.5)), sigma=0.02)
    law = cb.margin_from_log(*logged(environment), environment.cone, level=7)
    assert law.exponent == pytest.approx(1, abs=0.25)


def test_missing_metrics_are_left_out():
    contexts, arms, rewards = logged(world(lambda x: 1 + x), 5000)
    some = rewards.copy()
    some[::2, 1] = np.nan
    found = cb.smoothness_from_log(contexts, arms, some)
    np.testing.assert_array_equal(found.value, cb.smoothness_from_log(contexts[1::2], arms[1::2], rewards[1::2]).value)


def test_wrong_logs():
    with pytest.raises(ValueError, match=r"must have shapes \(n, d\), \(n,\) and \(n, M\)"):
        cb.smoothness_from_log([[0.1], [0.2]], [0], [[1.0], [1.0]])
    with pytest.raises(ValueError, match="indices of arms"):
        cb.smoothness_from_log([[0.1], [0.2]], [0.5, 1], [[1.0], [1.0]])
    with pytest.raises(ValueError, match="leaves no cell"):
        cb.margin_from_log([[0.1], [0.2]], [0, 1], [[1.0], [-1.0]], cb.Cone.orthant(1))


def test_the_picture_shows_the_points():
    law = cb.margin(cb.environments.paper(n_arms=5))
    curve = plots.PowerCurve(law.scale, law.value, law.constant, law.exponent)
    figure = plots.power_law_figure({"paper": curve}, xlabel="gap", ylabel="share")
    points, line = figure.axes[0].lines
    np.testing.assert_array_equal(points.get_xydata(), np.column_stack([law.scale, law.value]))
    assert (line.get_ydata() >= 0.999999 * law.value).all()
