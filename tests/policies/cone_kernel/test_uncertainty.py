"""What ConeKernel tells people: chances of being on the front, who beats whom, and radii."""

import numpy as np
import pytest
from scipy.stats import norm

import conebandit as cb
from conebandit.kernels.cone_kernel.constants import N_CHANCE_DRAWS
from conebandit.policies.cone_kernel.explanation import who_beats
from conebandit.policies.cone_kernel.uncertainty import deviations_covering, front_chances

from ...plain_cone_kernel import CONES, plain_essential, trained

CONTEXTS = np.random.default_rng(1).random((4, 2))
ERROR = 5 * 0.5 / np.sqrt(N_CHANCE_DRAWS)  # five standard errors, at the least


def plain_chances(means, deviations, cone, resolution, draws=20_000):
    """Chances by independent draws, arm against arm."""
    normals = np.random.default_rng(7).standard_normal((draws, *means.shape))
    images = np.einsum("ckm,fm->kfc", means + deviations * normals, cone.facets)
    return plain_essential(images, np.abs(cone.facets) @ np.broadcast_to(resolution, cone.dim)).mean(axis=1)


@pytest.mark.parametrize(("cone", "resolution"), [("orthant", 0.0), ("narrow", 0.0), ("scalar", 0.0), ("orthant", 0.3)])
@pytest.mark.parametrize(("n_arms", "scale"), [(1, 1.0), (2, 1e100), (6, 1e-100), (70, 1.0)])
def test_chances_are_the_share_of_draws_in_which_an_arm_is_on_the_front(cone, resolution, n_arms, scale):
    rng, cone = np.random.default_rng(n_arms), CONES[cone]
    means, deviations = rng.normal(size=(n_arms, cone.dim)), rng.random((n_arms, cone.dim))
    told = front_chances(scale * means, scale * deviations, cone, np.full(cone.dim, scale * resolution), [3])
    wanted = plain_chances(means, deviations, cone, resolution, draws=2000 if n_arms > 10 else 20_000)
    np.testing.assert_allclose(told, wanted, atol=2 * ERROR)  # the twin errs too; false alarm below 1e-6


def test_two_arms_by_formula():
    """Arm 0 is off the front if arm 1 is better in both metrics."""
    means, deviations = np.array([[0.0, 0.0], [1.0, 0.5]]), np.array([[1.0, 0.5], [0.5, 1.0]])
    behind = norm.cdf(means[1] - means[0], scale=np.hypot(*deviations))
    told = front_chances(means, deviations, CONES["orthant"], np.zeros(2), [0])
    np.testing.assert_allclose(told, 1 - np.array([behind.prod(), (1 - behind).prod()]), atol=ERROR)


def test_certain_means_have_the_chances_of_their_front():
    """Ties and duplicates: arms that are equal are both on the front, one that is equal in part is dominated."""
    means = np.array([[1.0, 1.0], [1.0, 1.0], [1.0, 0.5], [0.0, 2.0]])
    told = front_chances(means, np.zeros_like(means), CONES["orthant"], np.zeros(2), [0])
    assert told.tolist() == [1.0, 1.0, 0.0, 1.0]


@pytest.mark.parametrize("options", [{}, {"resolution": 0.2}])
def test_fronts_have_chances_for_all_arms(options):
    policy = trained(n_arms=5, cone="narrow", **options)
    fronts = policy.fronts(CONTEXTS)
    for x, front in zip(CONTEXTS, fronts, strict=True):
        one = policy.front(x)
        assert one.arms == front.arms
        np.testing.assert_array_equal(one.chances, front.chances)
        np.testing.assert_array_equal(policy.front(x).chances, one.chances)  # the same again
        assert one.chances.shape == (5,)
        assert ((one.chances >= 0) & (one.chances <= 1)).all()
        batch = policy._ask(x[None], np.zeros(1, dtype="u8"), explore=0.0, estimates=1)
        assert tuple(np.flatnonzero(batch.reported[0]).tolist()) == one.arms, "what the simulator counts"
        slack = policy.resolution
        wanted = plain_chances(batch.means[0], batch.radii[0] / 2, policy.cone, slack)
        np.testing.assert_allclose(one.chances, wanted, atol=2 * ERROR)
    assert not np.array_equal(fronts[0].chances, fronts[1].chances)


def test_other_policies_have_none():
    policy = cb.ParetoUCB1(2, CONES["orthant"], 1)
    assert policy.front([0.5]).chances is None
    assert [front.chances for front in policy.fronts([[0.5], [0.6]])] == [None, None]
    assert cb.Front((0,), np.zeros((1, 2)), np.zeros((1, 2))).chances is None


def test_one_bad_outcome_does_not_make_its_arm_the_report():
    policy = cb.ConeKernel(3, CONES["orthant"], 1)
    policy.observe([0.5], 1, [-1.0, -1.0])
    front, told = policy.front([0.5]), policy.explain([0.5])
    assert front.arms == (0, 1, 2)
    assert np.isnan(front.chances).all(), "nothing is known yet"
    assert told.active == (0, 1, 2)
    assert (told.beaten, told.eliminated) == ((), ())
    assert np.isinf(policy.radii([[0.5]])).all()


@pytest.mark.parametrize("unseen", [[np.nan, np.nan], [-1.0, np.nan]])
@pytest.mark.parametrize("seed", range(3))
def test_arms_without_data_have_a_chance(unseen, seed):
    """One arm has bad outcomes in all metrics, the others none, or in one metric only: reported or not, they count."""
    rng = np.random.default_rng(seed)
    policy = cb.ConeKernel(3, CONES["orthant"], 1, seed=seed)
    for x in rng.random((40, 1)):
        policy.observe(x, 1, -1.0 + 0.1 * rng.standard_normal(2))
        policy.observe(x, 0, unseen)
        policy.observe(x, 2, unseen)
    for x in ([0.1], [0.5], [0.9]):
        assert (policy.front(x).chances[[0, 2]] > 0.25).all()


def plain_beaten(arm, means, deviations, facets):
    """The arm whose least lead, in deviations, is largest; its leads; their deviations."""
    found = []
    for other in range(len(means)):
        if other != arm:
            leads = [float(row @ (means[other] - means[arm])) for row in facets]
            spreads = [float(np.sqrt(row**2 @ (deviations[other] ** 2 + deviations[arm] ** 2))) for row in facets]
            found.append((min(a / b for a, b in zip(leads, spreads, strict=True)), other, leads, spreads))
    return max(found)[1:]


@pytest.mark.parametrize("cone", ["orthant", "narrow", "half-plane"])
def test_explain_says_for_every_arm_off_the_front_what_beats_it(cone):
    n_arms, seen = 8, 0
    policy = trained(n=120, n_arms=n_arms, cone=cone)
    for x in CONTEXTS:
        told, front = policy.explain(x), policy.front(x)
        assert {b.arm for b in told.beaten} == set(range(n_arms)) - set(front.arms)
        assert {b.arm for b in told.eliminated} == set(range(n_arms)) - set(told.active)
        batch = policy._ask(x[None], np.zeros(1, dtype="u8"), explore=0.0, estimates=1)
        for beaten in told.beaten:
            by, leads, deviations = plain_beaten(beaten.arm, batch.means[0], batch.radii[0] / 2, policy.cone.facets)
            assert beaten.by == by
            assert beaten.chance == 1 - front.chances[beaten.arm]
            np.testing.assert_allclose(beaten.leads, leads)
            np.testing.assert_allclose(beaten.deviations, deviations)
            np.testing.assert_allclose(beaten.margins, np.divide(leads, deviations))
        seen += len(told.beaten) > len(told.eliminated)
    assert seen, "some are off the front and still in the running"


def test_certain_leads_are_infinitely_many_deviations():
    means = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 2.0]])
    beaten = who_beats(0, means, np.zeros((3, 2)), np.eye(2), 1.0)
    assert (beaten.by, beaten.leads.tolist(), beaten.margins.tolist()) == (2, [1.0, 2.0], [np.inf, np.inf])
    assert who_beats(1, means[:2], np.zeros((2, 2)), np.eye(2), 0.5).margins.tolist() == [-np.inf, 0.0]


def test_radii_are_so_many_deviations():
    policy = trained(n_arms=5, cone="narrow")
    batch = policy._ask(CONTEXTS, np.zeros(len(CONTEXTS), dtype="u8"), explore=0.0, estimates=len(CONTEXTS))
    deviations = batch.radii / 2
    for level in (0.5, 0.95, 1 - 1e-9):
        np.testing.assert_allclose(policy.radii(CONTEXTS, level=level), norm.ppf(0.5 + level / 2) * deviations)
        many = policy.radii(CONTEXTS, level=level, simultaneous=True) / deviations
        np.testing.assert_allclose((2 * norm.cdf(many) - 1) ** 10, level)  # 5 arms, 2 metrics
    assert policy.radii(np.empty((0, 2))).shape == (0, 5, 2)


def test_simultaneous_radii_cover_all_at_once():
    """Of 20,000 times twelve normal numbers; five standard errors."""
    largest = np.abs(np.random.default_rng(0).standard_normal((20_000, 12))).max(axis=1)
    for level in (0.5, 0.9, 0.99):
        share = np.mean(largest <= deviations_covering(level, 12))
        assert abs(share - level) < 5 * np.sqrt(level * (1 - level) / 20_000)


@pytest.mark.parametrize("level", [0.0, 1.0, -1, np.nan, "much"])
def test_bad_levels_are_refused(level):
    with pytest.raises((ValueError, TypeError), match="level must"):
        trained(n=10).radii(CONTEXTS, level=level)
