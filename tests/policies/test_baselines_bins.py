"""Baselines that bin contexts, one of them into a single bin: contract, compiled loop, saving, and plain twins."""

import math

import numpy as np
import pytest

import conebandit as cb
from conebandit.kernels.rng import uniform
from conebandit.simulate import step_by_step
from conebandit.validate.arguments import as_key, as_seed

BINNED = (cb.BinnedParetoUCB, cb.BinnedElimination, cb.SelfTuning)
KINDS = (cb.ParetoUCB1, *BINNED)
CONES = {
    "scalar": cb.Cone.orthant(1),
    "orthant": cb.Cone.orthant(2),
    "narrow": cb.Cone.from_rays([[1, 0.6], [0.6, 1]]),
    "wide": cb.Cone.wedge(120),
    "three": cb.Cone.orthant(3),
    "five facets": cb.Cone.from_rays([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, -0.5], [1.2, 0.2, -0.3]]),
}

# Constants with which a few hundred rounds are enough to eliminate and to refine cells.
EAGER = {
    cb.ParetoUCB1: {"width": 0.1},
    cb.BinnedParetoUCB: {"width": 0.1, "bins": 3},
    cb.BinnedElimination: {"width": 0.03, "smoothness": 0.3},
    cb.SelfTuning: {"width": 0.02, "smoothness": 0.15},
}


def data(rng, n, n_arms, cone, dim, *, unknown=0.0):
    """Contexts on and off the edges of cells, outcomes of all arms that depend on them, keys."""
    contexts = np.where(rng.random((n, dim)) < 0.2, rng.integers(0, 9, (n, dim)) / 8, rng.random((n, dim)))
    slopes, level = rng.normal(size=(2, dim, n_arms * cone.dim))
    outcomes = (0.5 * contexts @ slopes + 0.8 * level[0]).reshape(n, n_arms, cone.dim)
    outcomes += 0.1 * rng.normal(size=outcomes.shape)
    outcomes[rng.random(outcomes.shape) < unknown] = np.nan
    return contexts, outcomes, rng.integers(0, 2**63, n).astype(np.uint64)


# ---- the contract ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cone", CONES.values(), ids=CONES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_contract_is_kept(kind, cone):
    for n_arms, dim in ((1, 1), (3, 1), (4, 2), (10, 8)):
        cb.check_policy(kind(n_arms, cone, dim, **EAGER[kind] | ({"bins": 2} if kind is cb.BinnedParetoUCB else {})))
        cb.check_policy(kind(n_arms, cone, dim, bounds=[[-5, 20]] * dim))


@pytest.mark.parametrize("cone", CONES.values(), ids=CONES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_compiled_loop_equals_steps(kind, cone, rng):
    for dim in (1, 2, 8):
        policy = kind(5, cone, dim, **EAGER[kind] | ({"bins": 2} if kind is cb.BinnedParetoUCB else {}))
        rounds = data(rng, 400, 5, cone, dim, unknown=0.05)
        steps = policy.copy()
        for fast, plain in zip(policy.run_chunk(*rounds), step_by_step(steps, *rounds), strict=True):
            np.testing.assert_array_equal(fast, plain)
        assert_same_state(policy.state(), steps.state())


def assert_same_state(a, b):
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


@pytest.mark.parametrize("kind", KINDS)
def test_saving_and_loading_is_bit_for_bit(kind, rng, tmp_path):
    cone = cb.Cone.orthant(2, names=["efficacy", "safety"])
    policy = kind(5, cone, 2, seed=3, bounds=[[0, 2], [-1, 1]], **EAGER[kind])
    contexts, outcomes, keys = data(rng, 1000, 5, cone, 2, unknown=0.1)
    policy.run_chunk(contexts, outcomes, keys)
    policy.save(tmp_path / "policy.npz")
    again = cb.load_policy(tmp_path / "policy.npz")
    assert type(again) is kind
    assert again.cone.names == cone.names
    assert again.settings == policy.settings
    assert_same_state(policy.state(), again.state())
    for one, other in zip(*(p.run_chunk(contexts, outcomes, keys) for p in (policy, again)), strict=True):
        np.testing.assert_array_equal(one, other)
    assert_same_state(policy.state(), again.state())


@pytest.mark.parametrize("kind", KINDS)
def test_propensities_are_how_often_arms_are_drawn(kind, rng):
    policy = kind(6, CONES["orthant"], 1, **EAGER[kind])
    policy.run_chunk(*data(rng, 300, 6, CONES["orthant"], 1))
    for x in ([0.1], [0.5], [0.9]):
        decisions = [policy.decide(x, key) for key in range(3000)]
        shares = np.bincount([d.arm for d in decisions], minlength=6) / 3000
        for arm, chance in {(d.arm, d.propensity) for d in decisions}:
            assert abs(shares[arm] - chance) <= 5 * math.sqrt(chance * (1 - chance) / 3000)
        assert sum(chance for _, chance in {(d.arm, d.propensity) for d in decisions}) == pytest.approx(1)


# ---- plain twins ----------------------------------------------------------------------------------------------------


class Statistics:
    """Rewards of each arm and metric, kept as lists."""

    def __init__(self, n_arms, n_metrics):
        self.rewards = [[[] for _ in range(n_metrics)] for _ in range(n_arms)]
        self.pulls = [0] * n_arms

    def add(self, arm, reward):
        self.pulls[arm] += 1
        for values, r in zip(self.rewards[arm], reward, strict=True):
            if not math.isnan(r):
                values.append(r)

    def mean(self, arm, metric):
        values = self.rewards[arm][metric]
        return sum(values) / len(values) if values else None


def undominated(images):
    """Arms, of a dictionary to values on the facets, that no other arm reaches everywhere and exceeds somewhere."""

    def dominates(a, b):
        return all(p >= q for p, q in zip(a, b, strict=True)) and a != b

    return [k for k, value in images.items() if not any(dominates(other, value) for other in images.values())]


class Twin:
    """Decisions from three questions: which arms are active, which of them may be drawn, and what is estimated."""

    def __init__(self, policy):
        self.n_arms, self.cone, self.settings = policy.n_arms, policy.cone, policy.settings
        self.seed, self.t = policy.seed, 0

    def decide(self, x, key):
        active, draws = self.options(x)
        pick = draws[int(uniform(as_seed(self.seed), as_key(int(key))) * len(draws))]
        return pick, 1 / len(draws), active, self.reported(x, active)

    def reported(self, x, active):
        known = {k: v for k in active if None not in (v := self.estimates(x, k))}
        if not known:
            return active
        images = {k: self.facet_values(means, [0] * self.cone.dim, 0) for k, means in known.items()}
        return undominated(images)

    def facet_values(self, means, radii, sign):
        """W m + sign |W| r, or None on facets with something unknown."""
        values = []
        for row in self.cone.facets.tolist():
            used = [(a, m, r) for a, m, r in zip(row, means, radii, strict=True) if a != 0]
            values.append(
                None if any(m is None for _, m, _ in used) else sum(a * m + sign * abs(a) * r for a, m, r in used)
            )
        return values

    def without_beaten(self, statistics, arms, radius):
        """Arms that no other one beats on all facets for sure."""
        low, high = {}, {}
        for k in arms:
            means = [statistics.mean(k, m) for m in range(self.cone.dim)]
            radii = [radius(len(v)) if v else None for v in statistics.rewards[k]]
            low[k], high[k] = self.facet_values(means, radii, -1), self.facet_values(means, radii, 1)

        def beats(a, b):
            return all(p is not None and q is not None and p > q for p, q in zip(low[a], high[b], strict=True))

        return [k for k in arms if not any(beats(other, k) for other in arms)]

    def log_term(self):
        return math.log((self.t + 1) * self.n_arms * self.cone.dim)


class GridTwin(Twin):
    """A grid of ``bins`` parts of each coordinate, or of one cell for a policy that does not look at contexts."""

    def __init__(self, policy):
        super().__init__(policy)
        self.cells = {}

    def cell(self, x):
        bins = self.settings.get("bins", 1)
        where = tuple(min(math.floor(v * bins), bins - 1) for v in x)
        return self.cells.setdefault(where, Statistics(self.n_arms, self.cone.dim))

    def estimates(self, x, k):
        return [self.cell(x).mean(k, m) for m in range(self.cone.dim)]

    def options(self, x):
        everyone, cell = list(range(self.n_arms)), self.cell(x)
        unknown = [k for k in everyone if None in self.estimates(x, k)]
        if unknown:
            return everyone, unknown
        log_term = math.log(sum(cell.pulls) * (self.n_arms * self.cone.dim) ** 0.25)
        bounds = {}
        for k in everyone:
            bonus = [self.settings["width"] * math.sqrt(2 * log_term / len(v)) for v in cell.rewards[k]]
            bounds[k] = self.facet_values(self.estimates(x, k), bonus, 1)
        return everyone, undominated(bounds)

    def observe(self, x, arm, reward):
        self.t += 1
        self.cell(x).add(arm, reward)


class CellsTwin(Twin):
    """Cells by their level and integer corner."""

    def __init__(self, policy):
        super().__init__(policy)
        self.width, self.smoothness = self.settings["width"], self.settings["smoothness"]
        self.cells = {}
        self.make((0, (0,) * policy.context_dim), list(range(self.n_arms)))

    def name(self, x, level):
        return level, tuple(min(math.floor(v * 2**level), 2**level - 1) for v in x)

    def make(self, name, active):
        self.cells[name] = Statistics(self.n_arms, self.cone.dim)
        self.cells[name].active, self.cells[name].is_cut = active, False

    def path(self, x):
        level, path = 0, []
        while (cell := self.cells.get(self.name(x, level))) is not None:
            path.append(cell)
            level += 1
        return path

    def noise(self, n):
        return self.width * math.sqrt(self.log_term() / n)

    def estimates(self, x, k):
        best = []
        for m in range(self.cone.dim):
            radius = {
                (self.smoothness / 2**h + self.noise(len(cell.rewards[k][m])), -h): cell.mean(k, m)
                for h, cell in enumerate(self.path(x))
                if cell.rewards[k][m]
            }
            best.append(radius[min(radius)] if radius else None)
        return best


class EliminationTwin(CellsTwin):
    def options(self, x):
        leaf = self.path(x)[-1]
        pulls = [0] * self.n_arms if leaf.is_cut else leaf.pulls
        least = min(pulls[k] for k in leaf.active)
        return leaf.active, [k for k in leaf.active if pulls[k] == least]

    def observe(self, x, arm, reward):
        path = self.path(x)
        if path[-1].is_cut:
            self.make(self.name(x, len(path)), path[-1].active)
            path = self.path(x)
        leaf = path[-1]
        self.t += 1
        leaf.add(arm, reward)
        leaf.active = self.without_beaten(leaf, leaf.active, self.noise)
        least = min(leaf.pulls[k] for k in leaf.active)
        if least > 0 and self.noise(least) <= self.smoothness / 2 ** (len(path) - 1):
            leaf.is_cut = True


class SelfTuningTwin(CellsTwin):
    def tuned(self, x):
        path = self.path(x)
        level, active = 0, path[0].active
        for h, cell in enumerate(path[1:], start=1):
            n = sum(cell.pulls)
            if n == 0 or self.noise(n) * math.sqrt(self.n_arms) > self.smoothness / 2**h:
                break
            level, active = h, [k for k in active if k in cell.active] or active
        return level, active

    def options(self, x):
        active = self.tuned(x)[1]
        return active, active

    def observe(self, x, arm, reward):
        level, active = self.tuned(x)
        if len(self.path(x)) == level + 1:
            self.make(self.name(x, level + 1), self.path(x)[-1].active)
        self.t += 1
        for cell in self.path(x):
            cell.add(arm, reward)
        cell, side = self.path(x)[level], 2.0**-level
        kept = self.without_beaten(cell, active, lambda n: self.noise(n) + self.smoothness * side)
        cell.active = [k for k in cell.active if k in kept or k not in active]


TWINS = {
    cb.ParetoUCB1: GridTwin,
    cb.BinnedParetoUCB: GridTwin,
    cb.BinnedElimination: EliminationTwin,
    cb.SelfTuning: SelfTuningTwin,
}


@pytest.mark.untraced
@pytest.mark.parametrize(
    ("name", "dim", "n_arms"), [("scalar", 1, 4), ("orthant", 2, 6), ("narrow", 1, 5), ("five facets", 3, 5)]
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_plain_twin_decides_alike(kind, name, dim, n_arms, rng):
    policy = kind(n_arms, CONES[name], dim, seed=7, **EAGER[kind])
    twin = TWINS[kind](policy)
    contexts, outcomes, keys = data(rng, 600, n_arms, CONES[name], dim, unknown=0.15)
    arms, chances, active, reported = policy.run_chunk(contexts, outcomes, keys)
    for i, (x, key) in enumerate(zip(contexts, keys, strict=True)):
        arm, chance, in_running, front = twin.decide(x, key)
        assert np.flatnonzero(active[i]).tolist() == in_running, i
        assert np.flatnonzero(reported[i]).tolist() == front, i
        assert (arm, chance) == (arms[i], chances[i]), i
        twin.observe(x, arm, outcomes[i, arm])
    if kind in BINNED:
        assert len(twin.cells) > 2  # something was refined
    if kind in (cb.BinnedElimination, cb.SelfTuning):
        assert not active.all()  # and something eliminated


@pytest.mark.parametrize("cone", CONES.values(), ids=CONES)
def test_without_a_look_at_the_context_it_is_a_grid_of_one_cell(cone, rng):
    rounds = data(rng, 2000, 5, cone, 2, unknown=0.05)
    alone, cell = (
        cb.ParetoUCB1(5, cone, 2, width=0.2, seed=4),
        cb.BinnedParetoUCB(5, cone, 2, bins=1, width=0.2, seed=4),
    )
    for one, other in zip(alone.run_chunk(*rounds), cell.run_chunk(*rounds), strict=True):
        np.testing.assert_array_equal(one, other)
    here, there = alone.front([0.1, 0.9]), cell.front([0.8, 0.3])
    assert here.arms == there.arms
    np.testing.assert_array_equal(here.means, there.means)
    np.testing.assert_array_equal(here.radii, there.radii)


# ---- what they learn ------------------------------------------------------------------------------------------------


def test_the_best_arms_are_found_where_contexts_say_nothing(rng):
    means = np.array([[0.9, 0.2], [0.2, 0.9], [0.6, 0.6], [0.5, 0.5], [0.1, 0.1]])  # the first three are the front
    policy = cb.ParetoUCB1(5, CONES["orthant"], 1)
    outcomes = means + 0.1 * rng.normal(size=(4000, 5, 2))
    arms, *_ = policy.run_chunk(rng.random((4000, 1)), outcomes, np.arange(4000, dtype=np.uint64))
    assert policy.front([0.5]).arms == (0, 1, 2)
    assert (arms[2000:] > 2).mean() < 0.05


def test_they_learn():
    env = cb.environments.smooth(n_arms=6, context_dim=2, change_point=1000, seed=3)
    random = cb.simulate(cb.RandomArm(6, env.cone, 2), env, 8000).average("play", after=4000)
    for kind in BINNED:
        run = cb.simulate(kind(6, env.cone, 2), env, 8000)
        assert run.average("play", after=4000) < 0.35 * random


@pytest.mark.parametrize("kind", [cb.BinnedElimination, cb.SelfTuning])
def test_cautious_constants_lose_no_arm_of_the_front(kind):
    env = cb.environments.smooth(n_arms=6, context_dim=1, length_scale=0.5, seed=2)
    run = cb.simulate(kind(6, env.cone, 1, width=0.45, smoothness=3.0), env, 20_000)
    assert run.series["lost"].max() == 0


@pytest.mark.parametrize("kind", [cb.BinnedElimination, cb.SelfTuning])
def test_many_coordinates_cost_little_memory(kind, rng):
    cone = CONES["orthant"]
    policy = kind(3, cone, 20, **EAGER[kind])
    policy.run_chunk(*data(rng, 3000, 3, cone, 20))
    assert len(policy.state()["links"]) <= 3001


def test_when_cells_contradict_each_other_the_larger_one_is_believed():
    policy = cb.SelfTuning(2, CONES["orthant"], 1, width=0.05, smoothness=0.5)

    def tell(x, n, first, second):
        for _ in range(n):
            policy.observe([x], 0, [first, first])
            policy.observe([x], 1, [second, second])

    tell(0.25, 100, 0.5, 0.5)  # enough for the left half to be in use, with nothing eliminated in the whole
    assert policy.decide([0.25], 0).active == (0, 1)
    tell(0.25, 500, 2.0, -2.0)
    assert policy.decide([0.25], 0).active == (0,)
    assert policy.decide([0.75], 0).active == (0, 1)
    tell(0.75, 5, -1e6, 1e6)  # in the right half, which is not in use yet, so it is the whole that learns
    assert policy.decide([0.75], 0).active == (1,)
    assert policy.decide([0.25], 0).active == (1,)


# ---- the oracle -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("env", [cb.environments.smooth(n_arms=5, seed=1), cb.environments.dose_finding()])
def test_the_oracle_has_no_regret_and_keeps_the_contract(env):
    oracle = cb.Oracle(env, seed=4)
    cb.check_policy(oracle)
    run = cb.simulate(oracle, env, 6000, seed=2)
    for name in ("play", "front", "coverage", "lost"):
        assert run.series[name].max() == 0
    assert run.series["recall"].min() == run.series["precision"].min() == 1
    np.testing.assert_array_equal(run.propensities, 1 / run.active.sum(axis=1))
    assert len(set(run.arms.tolist())) > 1


def test_the_oracle_decides_alike_step_by_step(rng):
    env = cb.environments.dose_finding()
    oracle = cb.Oracle(env)
    contexts = np.asarray(env.contexts(rng, 200, 0))
    outcomes, keys = env.rewards(rng, env.means(contexts)), np.arange(200, dtype=np.uint64)
    for fast, plain in zip(
        oracle.run_chunk(contexts, outcomes, keys), step_by_step(oracle, contexts, outcomes, keys), strict=True
    ):
        np.testing.assert_array_equal(fast, plain)
    with pytest.raises(ValueError, match=r"context\[0\] must lie in"):
        oracle.run_chunk(contexts - 1e6, outcomes, keys)


# ---- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "options", "says"),
    [
        (cb.BinnedParetoUCB, {"width": 0}, "width must be a positive number"),
        (cb.BinnedParetoUCB, {"bins": 0}, "bins must be a positive integer"),
        (cb.BinnedParetoUCB, {"bins": 10, "context_dim": 8}, "at most 1,048,576 cells; got bins = 10"),
        (cb.BinnedParetoUCB, {"context_dim": 0}, "context_dim must be a positive integer"),
        (cb.BinnedElimination, {"width": -1.0}, "width must be a positive number"),
        (cb.BinnedElimination, {"smoothness": np.inf}, "smoothness must be a positive number"),
        (cb.BinnedElimination, {"context_dim": 63}, "context_dim must be at most 62"),
        (cb.SelfTuning, {"smoothness": "1"}, "smoothness must be a positive number"),
        (cb.SelfTuning, {"context_dim": 63}, "context_dim must be at most 62"),
    ],
)
def test_bad_options_are_refused(kind, options, says):
    with pytest.raises(ValueError, match=says):
        kind(**{"n_arms": 2, "cone": cb.Cone.orthant(2), "context_dim": 1, **options})


def test_the_default_grid_stays_small():
    for dim in range(1, 13):
        assert 1 < cb.BinnedParetoUCB(2, cb.Cone.orthant(2), dim).settings["bins"] ** dim <= 4096
