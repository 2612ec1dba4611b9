"""What the preset ``sound`` promises (docs/sound.md), measured beside the rule as printed in the paper.

All worlds here have noise that is sub-Gaussian with parameter at most 1 and means with Hoelder constant at most 1, the
constants that the preset ``paper`` takes for granted. So where it loses arms, that is the rule, not the constants.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from rich.console import Console
from rich.table import Table

import conebandit as cb
from conebandit.environments import shift
from conebandit.environments.base import World
from conebandit.environments.noise import Bounded, Correlated, Gaussian, Noise
from conebandit.kernels.tree import ACTIVE, CHILD, LEVEL, PARENT

pytestmark = pytest.mark.untraced

DELTA = 0.05
ARMS = 6
ROUNDS = 4096  # a whole chunk of the simulator
RUNS = 50  # in each case, each in a world of its own
TITLE = "Runs in which some leaf lost an arm that is Pareto optimal in it"

C3 = cb.Cone.from_rays([[1, 0.6], [0.6, 1]])
WIDE = cb.Cone.wedge(120)
NARROW_THREE = cb.Cone.from_rays(np.eye(3) + 0.3)
WIDE_THREE = cb.Cone.from_facets([[3, 1, 0], [0, 3, 1], [1, 0, 3]])


@dataclass(frozen=True)
class Gappy:
    """Normal noise; each metric is missing now and then, whatever its value."""

    sigma: float
    share: float = 0.2

    def draw(self, rng, means):
        rewards = means + self.sigma * rng.standard_normal(means.shape)
        rewards[rng.random(means.shape) < self.share] = np.nan
        return rewards


@dataclass(frozen=True)
class Case:
    cone: cb.Cone
    dim: int
    noise: Noise
    sigma: float  # for which the noise is sub-Gaussian
    shifts: bool  # contexts crowd in a corner first, as in the paper


CASES = {
    "orthant, d = 1": Case(cb.Cone.orthant(2), 1, Gaussian(0.1), 0.1, True),
    "orthant, d = 2": Case(cb.Cone.orthant(2), 2, Gaussian(0.3), 0.3, False),
    "narrow (C3), d = 1": Case(C3, 1, Gaussian(0.3), 0.3, False),
    "narrow (C3), d = 2": Case(C3, 2, Correlated([[0.04, -0.03], [-0.03, 0.04]]), 0.2, True),
    "wide (120), d = 1": Case(WIDE, 1, Bounded(0.3), 0.3 / 3**0.5, True),
    "wide (120), d = 2": Case(WIDE, 2, Gappy(0.1), 0.1, False),
    "narrow, M = 3, d = 2": Case(NARROW_THREE, 2, Gaussian(0.1), 0.1, True),
    "wide, M = 3, d = 3": Case(WIDE_THREE, 3, Gaussian(0.2), 0.2, False),
}


# ---- worlds ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Waves:
    """Means that differ by at most |x - y| (sup norm): constants plus sines."""

    offsets: np.ndarray  # (K, M)
    heights: np.ndarray  # (waves, K, M)
    frequencies: np.ndarray  # (d, waves)
    phases: np.ndarray  # (waves,)

    def __call__(self, contexts):
        waves = np.sin(contexts @ self.frequencies + self.phases)
        return self.offsets + np.tensordot(waves, self.heights, 1)

    @property
    def holder(self) -> float:
        """No less than the sum over coordinates of |partial derivatives|, for any arm and metric."""
        slopes = np.abs(self.frequencies).sum(axis=0)
        return float(np.tensordot(slopes, np.abs(self.heights), 1).max())


def waves(cone: cb.Cone, dim: int, rng: np.random.Generator, chosen: bool) -> Waves:
    """Arms at random; and, if ``chosen``, some of them far behind and some on the edge of the front.

    Arm 1 is like (.5, .5) beside (.49, 5), and arm 2 the same on another facet: behind arm 0 along an edge of the cone,
    and a little more. Waves carry it to the front here and there. Arm 3 is clearly worse than arm 0.
    """
    edges = cone.rays / np.abs(cone.rays).max(axis=1, keepdims=True)
    inward = edges.sum(axis=0) / np.abs(edges.sum(axis=0)).max()
    offsets = rng.uniform(0.0, 6.0, (ARMS, cone.dim))
    if chosen:
        for arm, edge in zip((1, 2), rng.permutation(edges), strict=False):
            offsets[arm] = offsets[0] - rng.uniform(3.0, 6.0) * edge - rng.uniform(0.0, 0.3) * inward
        offsets[3] = offsets[0] - rng.uniform(2.0, 5.0) * inward
    frequencies, heights = rng.normal(0.0, 3.0, (dim, 2)), rng.normal(0.0, 1.0, (2, ARMS, cone.dim))
    slopes = np.abs(frequencies).sum(axis=0)
    heights /= np.tensordot(slopes, np.abs(heights), 1)  # the bound on the slope becomes one, for all arms and metrics
    offsets += 1.0 - (offsets - np.abs(heights).sum(axis=0)).min()  # the simulator's regrets need positive means
    order = rng.permutation(ARMS)
    return Waves(offsets[order], heights[:, order], frequencies, rng.uniform(0.0, 2.0 * np.pi, 2))


def world(name: str, seed: int, chosen: bool) -> World:
    case = CASES[name]
    rng = np.random.default_rng([seed, *name.encode()])
    even = shift.uniform(case.dim)
    schedule = shift.change_point(shift.power_law(3.0, case.dim), even, at=2000)
    means = waves(case.cone, case.dim, rng, chosen)
    return World(name, schedule if case.shifts else shift.stationary(even), means, case.cone, ARMS, case.noise)


# ---- measuring ------------------------------------------------------------------------------------------------------


def leaves(policy: cb.ConeTree) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lower corners (L, d), sides (L,) and active arms (L, K) of all leaves."""
    state, dim = policy.state(), policy.context_dim
    links = state["links"]
    sides = 0.5 ** links[:, LEVEL]
    corners = np.zeros((len(links), dim))
    for node in range(1, len(links)):  # parents come first
        parent = links[node, PARENT]
        which = node - links[parent, CHILD]
        corners[node] = corners[parent] + sides[node] * (which >> np.arange(dim) & 1)
    are = links[:, CHILD] < 0
    return corners[are], sides[are], state["tallies"][are][..., ACTIVE] == 1


def front_somewhere(env: World, corners: np.ndarray, sides: np.ndarray) -> np.ndarray:
    """Arms that are Pareto optimal at some point of each box, (L, K), by a grid that includes the box's corners."""
    dim = corners.shape[1]
    ticks = np.linspace(0.0, 1.0, {1: 257, 2: 21, 3: 9}[dim])
    grid = np.stack(np.meshgrid(*[ticks] * dim), axis=-1).reshape(-1, dim)
    points = corners[:, None] + sides[:, None, None] * grid
    front = cb.pareto_mask(env.means(points.reshape(-1, dim)), env.cone)
    return front.reshape(len(corners), len(grid), -1).any(axis=1)


@dataclass(frozen=True)
class Outcome:
    """Pairs (leaf, arm): how many are eliminated, and how many of those should not have been.

    An arm that goes in a bin goes in all bins inside it, so the leaves at the end show every elimination of the run.
    """

    eliminated: int
    lost: int


def outcome(name: str, seed: int, *, chosen: bool = True, **options) -> Outcome:
    env = world(name, seed, chosen)
    assert env.mean_function.holder <= 1.0 + 1e-12
    policy = cb.ConeTree(ARMS, env.cone, env.context_dim, seed=seed, delta=DELTA, **options)
    learned = cb.simulate(policy, env, ROUNDS, seed=seed).policy
    corners, sides, active = leaves(learned)
    assert (sides**env.context_dim).sum() == pytest.approx(1.0)  # the leaves fill the cube
    return Outcome(int((~active).sum()), int((~active & front_somewhere(env, corners, sides)).sum()))


def sound(name: str, *, sigma: float = 1.0, holder: float = 1.0) -> dict:
    """Options of the preset ``sound``, with its constants times these factors."""
    return {"preset": "sound", "sigma": sigma * CASES[name].sigma, "holder": holder}


@pytest.fixture(scope="module")
def outcomes() -> dict[tuple[str, str], list[Outcome]]:
    """400 runs of each preset, in the same worlds with the same luck."""
    presets = {"sound": sound, "paper": lambda name: {"preset": "paper"}}
    return {
        (preset, name): [outcome(name, seed, **options(name)) for seed in range(RUNS)]
        for preset, options in presets.items()
        for name in CASES
    }


def share(runs: list[Outcome], what: str) -> float:
    return float(np.mean([getattr(run, what) > 0 for run in runs]))


def show(outcomes: dict[tuple[str, str], list[Outcome]]) -> None:
    table = Table("preset", "case", "runs", "eliminated something", "lost a Pareto arm", title=TITLE)
    for preset in ("sound", "paper"):
        rows = {name: runs for (p, name), runs in outcomes.items() if p == preset}
        rows["all"] = [run for runs in rows.values() for run in runs]
        for name, runs in rows.items():
            counts = (sum(getattr(run, what) > 0 for run in runs) for what in ("eliminated", "lost"))
            table.add_row(preset, name, str(len(runs)), *map(str, counts), end_section=name == "all")
    Console(width=100).print("\n", table)


# ---- the promise ----------------------------------------------------------------------------------------------------


def test_sound_loses_a_pareto_arm_in_at_most_delta_of_400_runs_and_the_printed_rule_in_many(outcomes):
    show(outcomes)
    by_preset = {p: [run for (q, _), runs in outcomes.items() if q == p for run in runs] for p in ("sound", "paper")}
    assert [len(runs) for runs in by_preset.values()] == [400, 400]
    assert share(by_preset["sound"], "lost") <= DELTA
    assert share(by_preset["paper"], "lost") > 8 * DELTA


@pytest.mark.parametrize("name", CASES)
def test_sound_had_the_chance_to_lose(outcomes, name):
    """In every case it eliminates in most runs."""
    assert share(outcomes["sound", name], "eliminated") > 0.5


def test_it_is_the_same_where_nobody_chose_the_arms():
    """Arms at random, so without near ties that are hard on the printed rule."""
    lost = {}
    for preset in ("sound", "paper"):
        options = {name: sound(name) if preset == "sound" else {"preset": "paper"} for name in CASES}
        runs = [outcome(name, seed, chosen=False, **options[name]) for name in CASES for seed in range(20)]
        lost[preset] = share(runs, "lost")
        print(f"\narms at random, {preset}: {lost[preset]:.1%} of {len(runs)} runs lost a Pareto arm", end="")
    assert lost["sound"] <= DELTA
    assert lost["paper"] > 4 * DELTA


# ---- would a mistake be seen? ---------------------------------------------------------------------------------------


def test_with_constants_too_small_arms_are_lost():
    """The measurement sees losses where there are some."""
    runs = [outcome(name, seed, **sound(name, sigma=1 / 20, holder=1 / 20)) for name in CASES for seed in range(10)]
    assert share(runs, "lost") > 4 * DELTA


def two_arms(cone: cb.Cone, facet: np.ndarray, lead: float) -> np.ndarray:
    """Means (2, M) in which arm 0 leads on all facets but the given one, where arm 1 is ahead by a hair."""
    on_facet = cone.rays[np.abs(cone.rays @ facet) < 1e-12].sum(axis=0)
    means = np.array([lead * on_facet - 1e-4 * np.sign(facet), np.zeros(cone.dim)])
    assert cb.pareto_mask(means, cone).all()
    return means


@pytest.mark.parametrize("name", CASES)
def test_noise_alone(name):
    """Constant means and a single bin, so that only noise can mislead; it does if its sigma is put at a tenth."""
    case = CASES[name]
    none = np.zeros((1, 2, case.cone.dim)), np.zeros((case.dim, 1)), np.zeros(1)  # waves
    lost = {1.0: 0, 0.1: 0}
    for seed in range(25):
        facet = case.cone.facets[seed % len(case.cone.facets)]
        flat = Waves(20.0 + two_arms(case.cone, facet, 5.0), *none)
        env = World(name, shift.stationary(shift.uniform(case.dim)), flat, case.cone, 2, case.noise)
        for factor in lost:
            constants = {"sigma": factor * case.sigma, "holder": 1e-9}
            policy = cb.ConeTree(2, case.cone, case.dim, preset="sound", seed=seed, delta=DELTA, **constants)
            learned = cb.simulate(policy, env, ROUNDS, seed=seed).policy
            assert learned.n_leaves == 1
            lost[factor] += 1 not in learned.explain(np.zeros(case.dim)).active
    assert lost[1.0] <= 25 * DELTA
    assert lost[0.1] > 4 * 25 * DELTA, lost


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_bias_alone(case):
    """No noise, all contexts in one corner, and means that go the worst way: there the lead of arm 0 misleads most.

    Arm 1 is on the front at the opposite corner by a hair, because of one facet. It stays, whichever the facet; and
    would not with radii that are too small by 5 %.
    """
    here, there = np.ones(case.dim), np.zeros(case.dim)
    for facet in case.cone.facets:
        at_here = two_arms(case.cone, facet, 100.0) + np.array([np.sign(facet), -np.sign(facet)])
        for holder, stays in ((1.0, True), (0.95, False)):
            policy = cb.ConeTree(2, case.cone, case.dim, preset="sound", sigma=1e-3, holder=holder, delta=DELTA)
            for t in range(500):
                policy.observe(here, t % 2, at_here[t % 2])
            assert (1 in policy.explain(there).active) == stays
