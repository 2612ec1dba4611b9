"""Every environment keeps the contract and is what it says it is.

Seeds are fixed; averages are given five standard errors, so that with another seed a right one would fail with
probability below 1e-6 each, and one of the some 50 in this file with probability below 5e-5.
"""

import numpy as np
import pytest

import conebandit as cb
from conebandit.environments import dose_finding, hausdorff_example, noise, paper, piecewise, shift, smooth
from conebandit.environments.base import Environment, World

NEED_DATA = {"actg175", "from_table", "rand_hie"}  # tests/environments/test_table.py
ENVIRONMENTS = {name: getattr(cb.environments, name) for name in cb.environments.__all__ if name not in NEED_DATA}

NOISES = {
    "none": noise.Gaussian(0),
    "gaussian": noise.Gaussian(),
    "correlated": noise.Correlated([[0.5, 0.3], [0.3, 0.4]]),
    "degenerate": noise.Correlated([[1, 1], [1, 1]]),
    "heteroscedastic": noise.Heteroscedastic(),
    "own deviation": noise.Heteroscedastic(lambda mean: 1.0 - mean),
    "bounded": noise.Bounded(0.2),
    "bernoulli": noise.Bernoulli(),
}

every_noise = pytest.mark.parametrize("law", NOISES.values(), ids=NOISES.keys())


# ---- the contract ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", ENVIRONMENTS.values(), ids=ENVIRONMENTS.keys())
def test_every_environment_keeps_the_contract(make):
    env = make()
    assert isinstance(env, Environment)
    cb.check_environment(env)


@pytest.mark.parametrize(
    "env",
    [
        paper(5, printed=True),
        paper(20, nu=-0.5, change_point=0, sigma=0),
        paper(2, cone=cb.Cone.wedge(60)),
        smooth(3, 4, 5, relevant=2),
        smooth(2, 1, 1, schedule=shift.recurring([shift.beta(2, 5), shift.beta(5, 2)], 10)),
        piecewise(3, 3, 1, jumps=7, seed=5),
        dose_finding(2, start=0, stop=1),
    ],
    ids=lambda env: env.name,
)
def test_options_keep_the_contract(env):
    cb.check_environment(env)


@every_noise
def test_every_noise_keeps_the_contract(law):
    cb.check_environment(dose_finding(noise=law))


@pytest.mark.parametrize("make", ENVIRONMENTS.values(), ids=ENVIRONMENTS.keys())
def test_contexts_are_within_bounds_and_means_positive_before_and_after_the_shift(make):
    env = make()
    for start in (0, *env.change_points, 10**6):
        x = env.contexts(np.random.default_rng(start), 500, start)
        assert ((x >= env.bounds[:, 0]) & (x <= env.bounds[:, 1])).all()
        means = env.means(x)
        assert means.shape == (500, env.n_arms, env.n_objectives)
        assert means.min() > 0
        assert means.max() <= 1


@pytest.mark.parametrize("make", ENVIRONMENTS.values(), ids=ENVIRONMENTS.keys())
def test_every_environment_can_be_simulated(make):
    env = make()
    run = cb.simulate(cb.RandomArm(env.n_arms, env.cone, env.context_dim, bounds=env.bounds), env, horizon=50)
    assert run.rewards.shape == (50, env.n_objectives)
    assert run.change_points == env.change_points


def test_a_world_of_your_own():
    schedule = shift.change_point(shift.uniform(bounds=[[5, 6]]), shift.uniform(bounds=[[6, 9]]), at=3)
    env = World("mine", schedule, lambda x: np.stack([x, 10 - x], axis=1), cb.Cone.orthant(1), n_arms=2)
    cb.check_environment(env)
    assert (env.n_objectives, env.context_dim, env.change_points) == (1, 1, (3,))
    np.testing.assert_array_equal(env.bounds, [[5, 9]])
    x = env.contexts(np.random.default_rng(0), 6, 0)[:, 0]
    assert (x < 6).tolist() == [True] * 3 + [False] * 3
    assert isinstance(env.noise, noise.Gaussian)


# ---- the paper's experiment -----------------------------------------------------------------------------------------

X = np.linspace(0, 1, 4001)[:, None]


def plain_means(x: float, k: int, floor: float) -> tuple[float, float]:
    """The repaired form, one number at a time."""
    y, y1, y2 = 1 / k, 0.8 * (1 - x), 1 - 0.8 * x
    first = max(0.0, 1 - 5 * abs(y - y1))
    second = max(0.0, 1 - 5 * (y2 - y)) if y < y2 else max(0.0, 1 - (y - y2) / 4)
    return floor + (1 - floor) * first, floor + (1 - floor) * second


@pytest.mark.parametrize("n_arms", [5, 10, 20])
def test_the_repaired_means_of_the_paper(n_arms):
    for floor in (0.05, 0.2):
        means = paper(n_arms, floor=floor).means(X)
        assert means.min() == pytest.approx(floor, abs=1e-15)
        assert means.max() <= 1 + 1e-15
        for i in range(0, len(X), 97):
            expected = [plain_means(float(X[i, 0]), k, floor) for k in range(1, n_arms + 1)]
            np.testing.assert_allclose(means[i], expected, atol=1e-14)
    steps = np.abs(np.diff(paper(n_arms).means(X), axis=0)).max()
    assert steps <= 0.95 * 5 * 0.8 * X[1, 0] + 1e-12  # no jumps: the steepest slope is 5 * 0.8


def claimed_range(n_arms: int, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Mask (n, K) of arms k = 1..K from floor(low) to ceil(high), where high may be infinite."""
    k = np.arange(1, n_arms + 1)
    return (k >= np.floor(low + 1e-12)[:, None]) & (k <= np.ceil(high - 1e-12)[:, None])


@pytest.mark.parametrize("n_arms", [5, 10, 20])
def test_the_front_of_the_paper_lies_where_it_is_claimed(n_arms):
    """For the repaired means from floor k2(x) to ceil k1(x); for the printed ones, as claimed, for no x."""
    with np.errstate(divide="ignore"):
        k1, k2 = 1 / (0.8 * (1 - X[:, 0])), 1 / (1 - 0.8 * X[:, 0])
    assert np.isinf(k1[-1])
    env = paper(n_arms)
    front = cb.pareto_mask(env.means(X), env.cone)
    inside = claimed_range(n_arms, k2, k1)
    assert (front <= inside).all()
    assert (front < inside).any()  # inside, not equal
    assert 1 < front.sum(axis=1).max() < n_arms
    printed = cb.pareto_mask(paper(n_arms, printed=True).means(X), env.cone)
    assert (printed & ~claimed_range(n_arms, k1, k2)).any(axis=1).all()


def test_the_printed_means_have_no_bound_of_one_and_jump():
    means = paper(20, printed=True).means(X)
    assert means[..., 0].max() == pytest.approx(0.95 * 4.75 + 0.05)  # at x = 0, k = 20
    assert np.unravel_index(means[..., 0].argmax(), means.shape[:2]) == (0, 19)
    assert means.min() == pytest.approx(0.05)
    second = means[:, 1, 1]  # arm k = 2 passes y2 at x = 5/8
    where = int(np.abs(np.diff(second)).argmax())
    assert X[where, 0] == pytest.approx(5 / 8, abs=1e-3)
    assert second[where] == pytest.approx(1, abs=0.01)
    assert second[where + 1] == pytest.approx(0.05, abs=0.01)
    assert np.abs(np.diff(paper(20).means(X)[:, 1, 1])).max() < 0.01


def test_the_contexts_of_the_paper():
    env = paper(nu=3, change_point=5000)
    assert env.change_points == (5000,)
    x = env.contexts(np.random.default_rng(0), 15_000, 0)[:, 0]
    before, after = x[:5000], x[5000:]
    assert before.mean() == pytest.approx(0.8, abs=5 * np.sqrt(2 / 75) / np.sqrt(5000))
    assert after.mean() == pytest.approx(0.5, abs=5 * np.sqrt(1 / 12) / np.sqrt(10_000))
    assert (before < 0.5).mean() == pytest.approx(1 / 16, abs=5 * 0.25 / np.sqrt(5000))


# ---- random functions -----------------------------------------------------------------------------------------------


def test_irrelevant_coordinates_do_not_matter(rng):
    env = smooth(context_dim=4, relevant=2, seed=3)
    x, other = rng.random((2, 200, 4))
    other[:, :2] = x[:, :2]
    np.testing.assert_allclose(env.means(x), env.means(other), rtol=1e-12)
    for m in range(2):
        other = x.copy()
        other[:, m] = rng.random(200)
        assert np.abs(env.means(x) - env.means(other)).max() > 0.1


@pytest.mark.parametrize("seed", range(5))
def test_a_shorter_length_scale_varies_more(seed, rng):
    x = rng.random((2000, 2)) * 0.95
    changes = []
    for scale in (2.0, 1.0, 0.5, 0.25, 0.1):
        env = smooth(length_scale=scale, seed=seed)
        changes.append(np.abs(env.means(x + 0.02) - env.means(x)).mean())
    assert (np.diff(changes) > 0).all()
    assert changes[-1] > 8 * changes[0]


@pytest.mark.parametrize("make", [smooth, piecewise])
def test_random_functions_fill_their_range_and_follow_their_seed(make, rng):
    x = rng.random((500, 2))
    means = make(low=0.4, seed=1).means(x)
    assert 0.4 <= means.min() < 0.5
    assert 0.9 < means.max() <= 1
    np.testing.assert_array_equal(means, make(low=0.4, seed=1).means(x))
    assert np.abs(means - make(low=0.4, seed=2).means(x)).max() > 0.1


@pytest.mark.parametrize("make", [smooth, piecewise])
def test_random_functions_take_other_schedules_and_shifts(make):
    env = make(context_dim=3, nu=1, change_point=7)
    assert env.change_points == (7,)
    x = env.contexts(np.random.default_rng(0), 7, 0)
    assert x.shape == (7, 3)
    env = make(context_dim=1, schedule=shift.stationary(shift.beta(2, 2)))
    assert env.change_points == ()


@pytest.mark.parametrize("jumps", [1, 2, 5])
def test_piecewise_means_are_constant_between_jumps(jumps):
    env = piecewise(context_dim=2, jumps=jumps, seed=2)
    grid = np.linspace(0, 1, 5001)
    for fixed in (0.1, 0.6):
        for axis in (0, 1):
            x = np.full((5001, 2), fixed)
            x[:, axis] = grid
            steps = np.abs(np.diff(env.means(x).reshape(5001, -1), axis=0)).max(axis=1)
            # Rows of one product may differ in the last place, where a processor has wider vectors.
            assert (steps > 1e-12).sum() == jumps
            assert np.abs(np.diff(env.means(x), axis=0)).max() > 0.05
    x = np.random.default_rng(0).random((4000, 2))
    assert len(np.unique(env.means(x).reshape(4000, -1), axis=0)) <= (jumps + 1) ** 2


# ---- dose finding ---------------------------------------------------------------------------------------------------


def test_more_of_the_drug_works_better_and_is_less_safe(rng):
    means = dose_finding(12).means(rng.random((500, 2)))
    assert (np.diff(means[..., 0], axis=1) > 0).all()
    assert (np.diff(means[..., 1], axis=1) < 0).all()
    assert means.min() >= 0.05
    assert means.max() <= 0.95


def test_age_and_kidneys_matter():
    base, older, poorer = dose_finding().means(np.array([[0.3, 0.7], [0.8, 0.7], [0.3, 0.2]]))
    assert (older < base).all()  # less effect, less tolerated
    assert (poorer[:, 0] > base[:, 0]).all()  # felt more
    assert (poorer[:, 1] < base[:, 1]).all()  # tolerated less


def test_all_doses_are_on_the_front_of_the_orthant_but_not_of_a_wide_cone(rng):
    x = rng.random((50, 2))
    env = dose_finding()
    assert cb.pareto_mask(env.means(x), env.cone).all()
    wide = dose_finding(cone=cb.Cone.wedge(150))
    share = cb.pareto_mask(wide.means(x), wide.cone).mean()
    assert 0 < share < 0.7


def test_patients_become_older_and_have_poorer_kidneys():
    env = dose_finding(start=2000, stop=8000)
    assert env.change_points == (8000,)
    windows = [
        env.contexts(np.random.default_rng(i), 1000, start) for i, start in enumerate((0, 1000, 4500, 8000, 20_000))
    ]
    age, kidney = np.array([x.mean(axis=0) for x in windows]).T
    error = 5 * 0.25 / np.sqrt(1000)
    np.testing.assert_allclose(age, [2 / 7, 2 / 7, 0.5, 5 / 7, 5 / 7], atol=error)
    np.testing.assert_allclose(kidney, [5 / 7, 5 / 7, (5 / 7 + 1 / 3) / 2, 1 / 3, 1 / 3], atol=error)


# ---- the Hausdorff example ------------------------------------------------------------------------------------------


def test_contexts_of_the_hausdorff_example_are_known():
    env = hausdorff_example()
    x = env.contexts(np.random.default_rng(0), 10, 0)
    np.testing.assert_allclose(x[:, 0], 1 / np.arange(1, 11))
    np.testing.assert_array_equal(x[4:], env.contexts(np.random.default_rng(7), 6, 4))


def test_fronts_come_close_while_preferences_stay_apart():
    env = hausdorff_example(floor=1e-9)
    x = env.contexts(np.random.default_rng(0), 1000, 0)
    means = env.means(x)
    fronts = cb.pareto_mask(means, env.cone)
    assert fronts[0].tolist() == [False, False, True]  # x = 1: the third arm is (1, 1)
    assert fronts[1:].all()
    limit = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    distances = np.array([cb.hausdorff(m, limit) for m in means[1:]])
    np.testing.assert_allclose(distances, np.sqrt(2) * x[1:, 0] ** 2, rtol=1e-3)
    assert cb.pareto_mask(limit, env.cone).tolist() == [True, True, False]


def test_the_floor_raises_zeros():
    means = hausdorff_example(floor=0.01).means(np.array([[0.5], [0.01]]))
    np.testing.assert_array_equal(means[0], [[1, 0.01], [0.01, 1], [0.25, 0.25]])
    np.testing.assert_array_equal(means[1, 2], [0.01, 0.01])


# ---- noise ----------------------------------------------------------------------------------------------------------

MEANS = np.array([[0.1, 0.9], [0.5, 0.5], [1.0, 0.3]])


def many(law: noise.Noise, count: int = 40_000) -> np.ndarray:
    return law.draw(np.random.default_rng(11), np.tile(MEANS, (count, 1, 1)))


@every_noise
def test_noise_has_mean_zero(law):
    draws = many(law)
    error = np.abs(draws.mean(axis=0) - MEANS)
    assert (error <= 5 * draws.std(axis=0) / np.sqrt(len(draws)) + 1e-12).all()


@every_noise
def test_noise_takes_any_leading_shape_and_leaves_means_alone(law):
    for shape in [(2,), (5, 2), (4, 5, 2), (2, 3, 4, 2)]:
        means = np.random.default_rng(0).random(shape)
        before = means.copy()
        drawn = law.draw(np.random.default_rng(1), means)
        assert drawn.shape == shape
        assert drawn.dtype == np.float64
        np.testing.assert_array_equal(means, before)
        np.testing.assert_array_equal(drawn, law.draw(np.random.default_rng(1), means))


@every_noise
def test_a_longer_draw_begins_like_a_shorter_one(law):
    """The simulator counts on it: a longer run begins like a shorter one."""
    means = np.random.default_rng(0).random((30, 3, 2))
    long, short = (law.draw(np.random.default_rng(1), means[:n]) for n in (30, 10))
    np.testing.assert_allclose(long[:10], short, rtol=1e-12)


@pytest.mark.parametrize(
    ("law", "deviation"),
    [
        (noise.Gaussian(0.7), np.full((3, 2), 0.7)),
        (noise.Gaussian(0), np.zeros((3, 2))),
        (noise.Correlated([[0.5, 0.3], [0.3, 0.4]]), np.tile(np.sqrt([0.5, 0.4]), (3, 1))),
        (noise.Heteroscedastic(), 0.5 * MEANS),
        (noise.Heteroscedastic(lambda mean: 2 - mean), 2 - MEANS),
        (noise.Bounded(0.6), np.full((3, 2), 0.6 / np.sqrt(3))),
        (noise.Bernoulli(), np.sqrt(MEANS * (1 - MEANS))),
    ],
    ids=lambda value: type(value).__name__,
)
def test_noise_has_the_right_deviation(law, deviation):
    """The standard error of a deviation s is s / sqrt(2 n) for a normal law and below 1 / sqrt(n) for the others."""
    np.testing.assert_allclose(many(law).std(axis=0), deviation, rtol=5 / np.sqrt(2 * 40_000), atol=5 / np.sqrt(40_000))


@pytest.mark.parametrize(
    "covariance", [[[0.5, 0.3], [0.3, 0.4]], [[1, -0.9], [-0.9, 1]], [[1, 1], [1, 1]], [[2, 0], [0, 0]]]
)
def test_correlated_noise_has_the_given_covariance(covariance):
    draws = many(noise.Correlated(covariance))
    largest = np.max(covariance)
    for k in range(3):
        measured = np.cov(draws[:, k].T)
        np.testing.assert_allclose(measured, covariance, atol=5 * largest * np.sqrt(2 / 40_000))
    between = np.corrcoef(draws[:, 0, 0], draws[:, 1, 0])[0, 1]
    assert abs(between) < 5 / np.sqrt(40_000)  # arms are independent


@pytest.mark.parametrize("law", [noise.Gaussian(), noise.Heteroscedastic(), noise.Bounded(), noise.Bernoulli()])
def test_other_noise_is_independent_across_objectives(law):
    draws = many(law)
    assert abs(np.corrcoef(draws[:, 1].T)[0, 1]) < 5 / np.sqrt(40_000)


def test_bernoulli_rewards_are_zero_or_one():
    assert set(np.unique(many(noise.Bernoulli()))) == {0.0, 1.0}
    certain = noise.Bernoulli().draw(np.random.default_rng(0), np.tile([0.0, 1.0], (1000, 1)))
    np.testing.assert_array_equal(certain, np.tile([0.0, 1.0], (1000, 1)))


def test_bounded_noise_stays_within_its_width():
    error = np.abs(many(noise.Bounded(0.25)) - MEANS)
    assert 0.2499 < error.max() <= 0.25 + 1e-15


# ---- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: paper(1), ValueError, "n_arms must be an integer, at least 2; got 1"),
        (lambda: paper(floor=0), ValueError, "floor must lie between 0 and 1; got 0"),
        (lambda: paper(floor=1), ValueError, "floor must lie between 0 and 1; got 1"),
        (lambda: paper(nu=-1), ValueError, "nu must be a number, above -1"),
        (lambda: paper(sigma=-1), ValueError, "sigma must be a number, at least 0; got -1"),
        (lambda: dose_finding(1), ValueError, "n_arms must be an integer, at least 2; got 1"),
        (lambda: dose_finding(start=9, stop=3), ValueError, "start and stop must satisfy"),
        (
            lambda: smooth(context_dim=2, relevant=3),
            ValueError,
            "relevant must be an integer, at least 1 and at most 2; got 3",
        ),
        (
            lambda: smooth(context_dim=2, relevant=0),
            ValueError,
            "relevant must be an integer, at least 1 and at most 2; got 0",
        ),
        (lambda: piecewise(jumps=0), ValueError, "jumps must be a positive integer; got 0"),
        (lambda: piecewise(context_dim=0), ValueError, "context_dim must be a positive integer; got 0"),
        (lambda: hausdorff_example(sigma=np.inf), ValueError, "sigma must be a number, at least 0; got inf"),
        (lambda: noise.Gaussian(np.nan), ValueError, "sigma must be a number, at least 0; got nan"),
        (lambda: noise.Correlated([1, 2]), ValueError, r"covariance must be a symmetric \(M, M\) matrix"),
        (lambda: noise.Correlated([[1, 0]]), ValueError, "covariance must be a symmetric"),
        (lambda: noise.Correlated([[1, 0.5], [0.4, 1]]), ValueError, "covariance must be a symmetric"),
        (lambda: noise.Correlated([[1, 2], [2, 1]]), ValueError, "covariance must be positive semi-definite.*-1"),
        (lambda: noise.Correlated("identity"), TypeError, "covariance must be an array of real numbers"),
        (
            lambda: noise.Bernoulli().draw(np.random.default_rng(0), np.array([0.5, 1.1])),
            ValueError,
            "Bernoulli noise needs means between 0 and 1",
        ),
        (
            lambda: noise.Bernoulli().draw(np.random.default_rng(0), np.array([-0.1, 0.1])),
            ValueError,
            "Bernoulli noise needs means between 0 and 1",
        ),
    ],
)
def test_bad_arguments_are_named(call, error, says):
    with pytest.raises(error, match=says):
        call()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: smooth(n_objectives=3, cone=cb.Cone.orthant(2)), "cone"),
        (lambda: paper(cone=cb.Cone.orthant(3)), "cone"),
        (lambda: dose_finding(cone=cb.Cone.orthant(3)), "cone"),
        (lambda: smooth(context_dim=2, schedule=shift.stationary(shift.uniform(3))), "schedule"),
        (lambda: smooth(length_scale=-1), "length_scale"),
        (lambda: smooth(low=-1), "low"),
        (lambda: piecewise(low=2), "low"),
        (lambda: smooth(n_arms=0), "n_arms"),
        (lambda: paper(n_arms=2.5), "n_arms"),
        (lambda: paper(change_point=-1), "change_point"),
        (lambda: hausdorff_example(floor=-1), "floor"),
        (lambda: noise.Bounded(np.nan), "width"),
        (lambda: noise.Bounded(-1), "width"),
        (lambda: noise.Correlated([[np.inf, 0], [0, 1]]), "covariance"),
        (lambda: noise.Bernoulli().draw(np.random.default_rng(0), np.array([np.nan])), "means"),
    ],
)
def test_these_arguments_should_be_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call()
