"""Baselines that model means or weigh metrics at random: contract, plain twins, state, learning."""

import math

import numpy as np
import pytest

import conebandit as cb
from conebandit.environments.noise import Gaussian
from conebandit.kernels.rng import GOLDEN, hash_vector, mix, normal, uniform
from conebandit.simulate import step_by_step

POLICIES = {
    "ParetoZooming": {"width": 0.15, "smoothness": 0.4},
    "NeighbourParetoUCB": {"width": 0.15, "smoothness": 0.4},
    "LinearParetoUCB": {"width": 0.3, "ridge": 0.5},
    "FourierSampling": {"n_features": 20, "length_scale": 0.4, "temperature": 0.7},
    "ScalarisedUCB": {"width": 0.15, "bins": 9},
}
CONES = {
    "orthant": cb.Cone.orthant(2),
    "narrow": cb.Cone.from_rays([[1, 0.6], [0.6, 1]]),
    "wide": cb.Cone.wedge(130),
    "half-plane": cb.Cone.from_weights([[1, 2]]),
    "scalar": cb.Cone.orthant(1),
    "three": cb.Cone.from_rays(np.eye(3) + 0.3),
}
# Arms, cone, dimension.
SHAPES = [(3, "orthant", 1), (4, "narrow", 2), (5, "wide", 2), (2, "half-plane", 1), (3, "scalar", 2), (4, "three", 8)]


def made(name, n_arms, cone, dim, **options):
    return getattr(cb, name)(n_arms, CONES[cone], dim, **{**POLICIES[name], **options})


def rounds(n_arms, cone, dim, n, seed=3):
    """Contexts, some of them on boundaries of cells, and outcomes of all arms, some of them not known."""
    rng = np.random.default_rng(seed)
    x, m = rng.random((n, dim)), CONES[cone].dim
    x[::20] = rng.integers(0, 5, x[::20].shape) / 4
    slopes = rng.normal(size=(n_arms, m, dim))
    outcomes = 0.5 + np.einsum("kmd,nd->nkm", slopes, x) / dim + 0.2 * rng.standard_normal((n, n_arms, m))
    outcomes[rng.random(outcomes.shape) < 0.1] = np.nan
    return x, outcomes, np.arange(n, dtype=np.uint64)


# ---- plain twins: lists and dictionaries, everything computed from the samples ---------------------------------------


class Plain:
    """Decides from the estimates of a subclass; shares only the random numbers with the package."""

    def __init__(self, policy):
        self.w, self.settings, self.n_arms = policy.cone.facets, policy.settings, policy.n_arms
        self.dim, self.m, self.seed = policy.context_dim, policy.n_objectives, np.uint64(policy.seed)
        self.samples = []

    def spread(self):
        return self.settings["width"] * math.sqrt(math.log(2 + len(self.samples)))

    def known(self, k, m, samples=None):
        """Contexts and rewards of an arm where a metric is known."""
        return [(x, r[m]) for x, arm, r in (self.samples if samples is None else samples) if arm == k and r[m] == r[m]]

    def decide(self, x, key):
        """Arm, chance and reported arms."""
        means, radii = np.full((2, self.n_arms, self.m), np.nan)
        for k in range(self.n_arms):
            for m in range(self.m):
                means[k, m], radii[k, m] = self.estimate(x, k, m)
        unknown = [k for k in range(self.n_arms) if np.isinf(radii[k]).any()]
        others = [k for k in range(self.n_arms) if k not in unknown]
        reported = undominated({k: self.w @ means[k] for k in others}) or unknown
        u = uniform(self.seed, np.uint64(key))
        if unknown:
            return unknown[int(u * len(unknown))], 1 / len(unknown), reported
        return *self.play(self.uppers(x, means, radii), u), reported

    def uppers(self, x, means, radii):
        return {k: self.w @ means[k] + np.abs(self.w) @ radii[k] for k in range(self.n_arms)}

    def play(self, uppers, u):
        best = undominated(uppers)
        return best[int(u * len(best))], 1 / len(best)

    def observe(self, x, arm, reward):
        self.samples.append((x, arm, reward))


def undominated(points):
    return [k for k, p in points.items() if not any((q >= p).all() and (q > p).any() for q in points.values())]


class PlainZooming(Plain):
    def __init__(self, policy):
        super().__init__(policy)
        self.cells = {(k, 0, (0,) * self.dim): [] for k in range(self.n_arms)}  # samples counted in each active cell

    def around(self, x, k):
        """Active cells of an arm around a context, the largest first."""
        path = [(k, h, tuple(min(int(v * 2**h), 2**h - 1) for v in x)) for h in range(20)]
        return [cell for cell in path if cell in self.cells]

    def bound(self, cell, m):
        """Mean and radius of a metric in a cell."""
        rewards = [r for _, r in self.known(cell[0], m, self.cells[cell])]
        if not rewards:
            return math.nan, math.inf
        return sum(rewards) / len(rewards), self.spread() / math.sqrt(len(rewards)) + self.settings[
            "smoothness"
        ] / 2 ** cell[1]

    def estimate(self, x, k, m):
        return min((self.bound(cell, m) for cell in self.around(x, k)), key=lambda bound: bound[1])

    def uppers(self, x, means, radii):
        return {
            k: np.min([[self.upper(row, cell) for row in self.w] for cell in self.around(x, k)], axis=0)
            for k in range(self.n_arms)
        }

    def upper(self, row, cell):
        bounds = [self.bound(cell, m) for m in range(self.m) if row[m] != 0]
        weights = [w for w in row if w != 0]
        if any(math.isinf(radius) for _, radius in bounds):
            return math.inf
        return sum(w * mean + abs(w) * radius for w, (mean, radius) in zip(weights, bounds, strict=True))

    def observe(self, x, arm, reward):
        super().observe(x, arm, reward)
        cell = self.around(x, arm)[-1]
        self.cells[cell].append((x, arm, reward))
        least = min(len(self.known(arm, m, self.cells[cell])) for m in range(self.m))
        level = cell[1]
        if least > 0 and self.spread() / math.sqrt(least) <= self.settings["smoothness"] / 2**level:
            side = 2 ** (level + 1)
            self.cells[arm, level + 1, tuple(min(int(v * side), side - 1) for v in x)] = []


class PlainNeighbours(Plain):
    RADII = (1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128)

    def __init__(self, policy):
        super().__init__(policy)
        self.side = max(g for g in range(1, 513) if g**self.dim <= 512)

    def estimate(self, x, k, m):
        anchor = [(min(math.floor(v * self.side), self.side - 1) + 0.5) / self.side for v in x]
        samples = [(max(abs(v - a) for v, a in zip(z, anchor, strict=True)), r) for z, r in self.known(k, m)]
        best = math.nan, math.inf
        for radius in self.RADII:
            near = [r for distance, r in samples if distance <= radius / 128]
            if near:
                uncertainty = self.spread() / math.sqrt(len(near)) + self.settings["smoothness"] * radius / 128
                best = min(best, (sum(near) / len(near), uncertainty), key=lambda b: b[1])
        return best


class PlainLinear(Plain):
    def estimate(self, x, k, m):
        samples = self.known(k, m)
        if not samples:
            return math.nan, math.inf
        z = np.array([[1.0, *context] for context, _ in samples])
        gram = self.settings["ridge"] * np.eye(self.dim + 1) + z.T @ z
        here = np.array([1.0, *x])
        mean = here @ np.linalg.solve(gram, z.T @ [r for _, r in samples])
        return mean, self.settings["width"] * math.sqrt(here @ np.linalg.solve(gram, here))


class PlainFourier(Plain):
    def __init__(self, policy):
        super().__init__(policy)
        state = policy.state()
        self.frequencies, self.phases = state["frequencies"], state["phases"]
        self.noises = []  # for each sample and metric, the share of the variance that was taken for noise
        self.errors = np.zeros(self.m)

    def features(self, x):
        cosines = np.cos(self.frequencies @ x + self.phases)
        return np.append(1.0, math.sqrt(2 / len(cosines)) * cosines)

    def moments(self, m):
        """Mean, variance and number of the rewards of all arms."""
        rewards = [r[m] for _, _, r in self.samples if r[m] == r[m]]
        if not rewards:
            return 0.0, 1.0, 0
        variance = float(np.var(rewards))
        return float(np.mean(rewards)), variance if variance > 1e-30 else 1.0, len(rewards)

    def noise(self, m):
        _, variance, n = self.moments(m)
        return min(max((1 + self.errors[m] / variance) / max(n, 1), 1e-4), 1.0)

    def posterior(self, x, k, m):
        """Mean and variance of a prediction, standardised, by the normal equations."""
        centre, variance, _ = self.moments(m)
        precision, moment = np.eye(len(self.phases) + 1), np.zeros(len(self.phases) + 1)
        for (z, arm, r), noise in zip(self.samples, self.noises, strict=True):
            if arm == k and r[m] == r[m]:
                phi = self.features(z)
                precision += np.outer(phi, phi) / noise[m]
                moment += phi * (r[m] - centre) / math.sqrt(variance) / noise[m]
        here = self.features(x)
        return here @ np.linalg.solve(precision, moment), here @ np.linalg.solve(precision, here)

    def estimate(self, x, k, m):
        if not self.known(k, m):
            return math.nan, math.inf
        (centre, variance, _), (mean, uncertainty) = self.moments(m), self.posterior(x, k, m)
        return centre + math.sqrt(variance) * mean, 2.0 * math.sqrt(variance * uncertainty)

    def uppers(self, x, means, radii):
        """Sixteen perturbed fronts."""
        hashed = hash_vector(np.array(x).view(np.uint64)) ^ mix(self.seed + np.uint64(len(self.samples)))
        bits, fronts = mix(np.uint64(hashed)), []
        for front in range(16):
            steps = range(1 + front * means.size, 1 + (front + 1) * means.size)
            randoms = [np.uint64((bits + step * int(GOLDEN)) % 2**64) for step in steps]
            noise = np.reshape([normal(np.uint64(mix(random))) for random in randoms], means.shape)
            values = (means + self.settings["temperature"] * radii / 2.0 * noise) @ self.w.T
            fronts.append(undominated(dict(enumerate(values))))
        return fronts

    def play(self, fronts, u):
        front = fronts[int(16 * u)]
        arm = front[int((16 * u) % 1 * len(front))]
        return arm, sum((arm in front) / len(front) for front in fronts) / 16

    def observe(self, x, arm, reward):
        noises = [self.noise(m) for m in range(self.m)]
        for m in range(self.m):
            if reward[m] == reward[m]:
                (centre, variance, n), (mean, uncertainty) = self.moments(m), self.posterior(x, arm, m)
                error = reward[m] - centre - math.sqrt(variance) * mean if n else 0.0
                self.errors[m] += error**2 * noises[m] / (noises[m] + uncertainty)
        super().observe(x, arm, reward)
        self.noises.append(noises)


class PlainScalarised(Plain):
    def __init__(self, policy):
        super().__init__(policy)
        self.weights = policy.state()["weights"]
        self.side = max(g for g in range(1, 10) if g**self.dim <= self.settings["bins"])

    def bin(self, x):
        return [min(math.floor(v * self.side), self.side - 1) for v in x]

    def estimate(self, x, k, m):
        here = self.bin(x)
        rewards = [r for z, r in self.known(k, m) if self.bin(z) == here]
        if not rewards:
            return math.nan, math.inf
        return sum(rewards) / len(rewards), self.spread() / math.sqrt(len(rewards))

    def play(self, uppers, u):
        values = np.array(list(uppers.values()))
        span = np.ptp(values, axis=0)
        short = (values.max(axis=0) - values) / np.where(span > 0, span, 1.0)
        winners = [int(np.argmin((w * short).max(axis=1) + 0.05 * short.sum(axis=1))) for w in self.weights]
        arm = winners[int(u * len(winners))]
        return arm, winners.count(arm) / len(winners)


TWINS = {
    "ParetoZooming": PlainZooming,
    "NeighbourParetoUCB": PlainNeighbours,
    "LinearParetoUCB": PlainLinear,
    "FourierSampling": PlainFourier,
    "ScalarisedUCB": PlainScalarised,
}


@pytest.mark.untraced
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", POLICIES)
def test_every_decision_and_report_equals_the_plain_twin(name, shape):
    policy = made(name, *shape, seed=11)
    twin = TWINS[name](policy)
    for x, outcomes, key in zip(*(array.tolist() for array in rounds(*shape, n=120)), strict=True):
        decision = policy.decide(x, key)
        arm, chance, reported = twin.decide(x, key)
        assert (decision.arm, decision.active) == (arm, tuple(range(policy.n_arms)))
        assert decision.propensity == pytest.approx(chance)
        front = policy.front(x)
        assert list(front.arms) == reported
        bounds = np.array([[twin.estimate(x, k, m) for m in range(policy.n_objectives)] for k in front.arms])
        np.testing.assert_allclose(front.means, bounds[..., 0], rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(front.radii, bounds[..., 1], rtol=1e-8)
        policy.observe(x, arm, outcomes[arm])
        twin.observe(x, arm, outcomes[arm])


def test_the_runs_against_the_twin_of_zooming_reach_small_cells():
    policy = made("ParetoZooming", 3, "orthant", 1)
    policy.run_chunk(*rounds(3, "orthant", 1, n=120))
    nodes = int(policy.state()["size"][1])
    assert nodes >= policy.n_arms + 4  # in one dimension every node is a cell


def test_recursive_regression_stays_exact_over_many_observations(rng):
    policy = cb.LinearParetoUCB(1, cb.Cone.orthant(1), 5, width=1.0, ridge=0.01)
    x, rewards = rng.random((20_000, 5)) * [1, 1, 1, 1e-3, 1], rng.random((20_000, 1, 1))
    policy.run_chunk(x, rewards, np.arange(20_000, dtype=np.uint64))
    z = np.column_stack([np.ones(len(x)), x])
    gram = 0.01 * np.eye(6) + z.T @ z
    here = np.full(5, 0.7)
    front, z0 = policy.front(here), np.append(1.0, here)
    np.testing.assert_allclose(front.means[0], z0 @ np.linalg.solve(gram, z.T @ rewards[:, 0]), rtol=1e-6)
    np.testing.assert_allclose(front.radii[0, 0], np.sqrt(z0 @ np.linalg.solve(gram, z0)), rtol=1e-6)


def test_fourier_features_have_the_gaussian_kernel():
    """Of 20 seeds, each with 256 features: the mean product of two contexts' features is within four deviations."""
    x, y, scale = np.array([0.2, 0.7]), np.array([0.5, 0.4]), 0.4
    products = []
    for seed in range(20):
        policy = cb.FourierSampling(1, cb.Cone.orthant(1), 2, n_features=256, length_scale=scale, seed=seed)
        twin = PlainFourier(policy)
        products.append(twin.features(x)[1:] @ twin.features(y)[1:])
    kernel = math.exp(-((x - y) ** 2).sum() / (2 * scale**2))
    assert abs(np.mean(products) - kernel) < 4 * np.std(products) / math.sqrt(20)


def test_fourier_posteriors_stay_exact_over_many_observations_and_far_from_zero(rng):
    policy = cb.FourierSampling(1, cb.Cone.orthant(1), 2, n_features=16)
    x, rewards, offset = rng.random((20_000, 2)) * [1, 1e-3], rng.random(20_000), 1e6
    here, twin = np.array([0.7, 0.4e-3]), PlainFourier(policy)
    noises = []
    for context, reward in zip(x, rewards, strict=True):
        state = policy.state()["moments"][:, 0]
        noises.append(1.0 if state[3] == 0 else (1 + state[4] / (state[3] / state[1])) / state[1])
        policy.observe(context, 0, [offset + reward])
    phi = np.array([twin.features(z) for z in x])
    root = phi / np.sqrt(np.clip(noises, 1e-4, 1.0))[:, None]
    centre, spread = rewards.mean(), rewards.std()
    target = (rewards - centre) / np.sqrt(np.clip(noises, 1e-4, 1.0))
    precision = np.eye(17) + root.T @ root
    front, z0 = policy.front(here), twin.features(here)
    mean = centre + z0 @ np.linalg.solve(precision, root.T @ target)
    np.testing.assert_allclose(front.means[0, 0] - offset, mean, rtol=1e-7)
    np.testing.assert_allclose(front.radii[0, 0], 2 * spread * np.sqrt(z0 @ np.linalg.solve(precision, z0)), rtol=1e-6)


def test_fourier_sampling_learns_how_large_the_noise_is(rng):
    env = cb.environments.smooth(n_arms=3, context_dim=1, length_scale=1.0, noise=Gaussian(0.2), seed=1001)
    policy = cb.simulate(cb.FourierSampling(3, env.cone, 1), env, 3000).policy
    _, n, _, _, errors = policy.state()["moments"]
    np.testing.assert_allclose(np.sqrt(errors / n), 0.2, rtol=0.1)


# ---- what every policy promises --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [*SHAPES, (1, "orthant", 2), (2, "narrow", 40)], ids=str)
@pytest.mark.parametrize("name", POLICIES)
def test_contract(name, shape):
    cb.check_policy(made(name, *shape))
    cb.check_policy(made(name, *shape, bounds=np.tile([-3.0, 5.0], (shape[2], 1))))


@pytest.mark.parametrize("shape", [(3, "orthant", 1), (4, "narrow", 2), (4, "three", 8)], ids=str)
@pytest.mark.parametrize("name", POLICIES)
def test_the_compiled_loop_is_step_by_step_and_survives_saving(name, shape, tmp_path):
    x, outcomes, keys = rounds(*shape, n=600)
    steps, loop = made(name, *shape), made(name, *shape)
    slow = step_by_step(steps, x, outcomes, keys)
    half = loop.run_chunk(x[:300], outcomes[:300], keys[:300])
    loop.save(tmp_path / "policy.npz")
    again = cb.load_policy(tmp_path / "policy.npz")
    rest = again.run_chunk(x[300:], outcomes[300:], keys[300:])
    for all_at_once, first, second in zip(slow, half, rest, strict=True):
        np.testing.assert_array_equal(all_at_once, np.concatenate([first, second]))
    assert type(again).__name__ == name
    assert again.settings == loop.settings
    for field, array in again.state().items():
        np.testing.assert_array_equal(array, steps.state()[field])


@pytest.mark.parametrize("name", POLICIES)
def test_chances_of_all_arms_add_up_to_one(name):
    policy = made(name, 6, "orthant", 2)
    x, outcomes, keys = rounds(6, "orthant", 2, n=400)
    policy.run_chunk(x, outcomes, keys)
    most = 0
    for point in x[:20]:
        chances = dict(policy.decide(point, key)[:2] for key in range(1500))
        assert sum(chances.values()) == pytest.approx(1.0)
        most = max(most, len(chances))
    assert most > 1


@pytest.mark.parametrize("name", POLICIES)
def test_an_arm_with_an_unknown_metric_comes_first_and_is_not_reported(name):
    policy = made(name, 3, "orthant", 2)
    assert policy.front([0.5, 0.5]).arms == (0, 1, 2)
    policy.observe([0.5, 0.5], 0, [0.1, 0.1])
    policy.observe([0.5, 0.5], 1, [9.0, 9.0])
    policy.observe([0.5, 0.5], 2, [9.0, np.nan])
    assert policy.decide([0.5, 0.5], key=1)[:2] == (2, 1.0)
    assert policy.front([0.5, 0.5]).arms == (1,)


@pytest.mark.parametrize("name", POLICIES)
def test_it_learns(name):
    env = cb.environments.smooth(n_arms=6, context_dim=1, length_scale=1.0, change_point=500, seed=1001)
    policy = getattr(cb, name)(env.n_arms, env.cone, env.context_dim)
    chance = cb.simulate(cb.RandomArm(env.n_arms, env.cone, env.context_dim), env, 4000)
    run = cb.simulate(policy, env, 4000)
    assert run.average("play", after=2000) < 0.25 * chance.average("play", after=2000)
    errors = [r.average("shortfall", after=2000) + r.average("front", after=2000) for r in (run, chance)]
    assert errors[0] < 0.7 * errors[1]


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("ParetoZooming", "width", 0.0),
        ("ParetoZooming", "smoothness", -1.0),
        ("NeighbourParetoUCB", "width", np.nan),
        ("NeighbourParetoUCB", "smoothness", np.inf),
        ("LinearParetoUCB", "ridge", 0),
        ("ScalarisedUCB", "bins", 2.5),
        ("FourierSampling", "n_features", 257),
        ("FourierSampling", "length_scale", 0.0),
        ("FourierSampling", "temperature", -0.1),
    ],
)
def test_bad_constants_are_refused_by_name(name, option, value):
    with pytest.raises(ValueError, match=f"^{option} must be"):
        made(name, 2, "orthant", 1, **{option: value})


def test_zooming_refuses_more_coordinates_than_it_makes_room_for():
    with pytest.raises(ValueError, match="context_dim must be at most 64; got 65"):
        made("ParetoZooming", 2, "orthant", 65)


@pytest.mark.parametrize("cone", ["scalar", "orthant", "three"])
def test_weights_are_spread_over_the_simplex(cone):
    weights = made("ScalarisedUCB", 2, cone, 1).state()["weights"]
    assert (weights >= 0).all()
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    n_facets = len(CONES[cone].facets)
    # The mean of uniform weights is 1 / F; a random sample of 32 would miss it by about 0.05.
    np.testing.assert_allclose(weights.mean(axis=0), 1.0 / n_facets, atol=0.04)
    for j in range(n_facets if n_facets > 1 else 0):
        assert weights[:, j].min() < 0.1
        assert weights[:, j].max() > 0.65


def test_scalarised_bins_fit_and_are_limited():
    orthant = cb.Cone.orthant(2)
    for dim in (1, 2, 3, 7, 100):
        for bins in (1, 2, 8, 15, 16, 26, 27, 4096):
            side = int(cb.ScalarisedUCB(2, orthant, dim, bins=bins).state()["side"][0])
            assert side**dim <= bins < (side + 1) ** dim, (dim, bins)
    with pytest.raises(ValueError, match="bins must be at most 4096; got 1099511627776"):
        cb.ScalarisedUCB(2, orthant, 1, bins=2**40)
