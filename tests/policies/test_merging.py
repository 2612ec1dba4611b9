"""What policies have learned apart, put together, against one that has learned from all rows."""

import numpy as np
import pytest

import conebandit as cb
from conebandit.kernels import tree
from conebandit.kernels.cone_kernel.state import State
from tests.policies.rows import BOUNDS, CONE, KINDS, assert_same_state, make, make_rows

CANNOT = ("BinnedElimination", "SelfTuning", "ParetoZooming", "ConeTree-sound-stream", "ConeTree-adaptive-stream")
REPLAYED = ("ConeTree-adaptive", "ConeKernel")  # while the kernel has its rows
SUMMED = ("BinnedParetoUCB", "LinearParetoUCB", "NeighbourParetoUCB", "ParetoUCB1", "ScalarisedUCB")
LOG = make_rows(2400)
SITES = [(0, 700), (700, 1500), (1500, 2400)]


def learned(kind, *parts, **options):
    policy = make(kind, **options)
    for first, last in parts:
        policy.learn(LOG.part(first, last))
    return policy


def assert_close(one, other, tolerance=1e-9):
    """All that two policies say, up to rounding."""
    contexts = LOG.contexts[::40]
    for a, b in zip(one.fronts(contexts), other.fronts(contexts), strict=True):
        assert a.arms == b.arms
        np.testing.assert_allclose(a.means, b.means, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(a.radii, b.radii, rtol=tolerance, atol=tolerance)
    decisions = [policy.decide_many(contexts, range(len(contexts))) for policy in (one, other)]
    np.testing.assert_allclose(decisions[0].probabilities, decisions[1].probabilities, atol=tolerance)


# ---- each family -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SUMMED)
def test_sums_of_sites_are_those_of_all_rows(kind):
    """In any order, and with a common past that counts once."""
    pooled = learned(kind, *SITES)
    a, b, c = (learned(kind, site) for site in SITES)
    assert_close(a.copy().merge(b).merge(c), pooled)
    assert_close(c.copy().merge(b.copy().merge(a)), pooled)
    start = learned(kind, SITES[0])
    went_on = [start.copy().learn(LOG.part(*site)) for site in SITES[1:]]
    assert_close(went_on[0].copy().merge(went_on[1], since=start), pooled)
    assert went_on[0].merge(went_on[1], since=start).n_observations == 2400


@pytest.mark.parametrize("kind", REPLAYED)
def test_where_rows_are_kept_they_are_learned_after_those_that_are_there(kind):
    pooled = learned(kind, *SITES)
    a, b, c = (learned(kind, site) for site in SITES)
    assert_same_state(a.copy().merge(b).merge(c), pooled)
    assert_same_state(a.copy().merge(b.copy().merge(c)), pooled)
    start = learned(kind, SITES[0])
    went_on = [start.copy().learn(LOG.part(*site)) for site in SITES[1:]]
    assert_same_state(went_on[0].merge(went_on[1], since=start), pooled)


@pytest.mark.parametrize("kind", CANNOT)
def test_where_order_matters_and_no_rows_are_kept_merging_is_refused(kind):
    a, b = learned(kind, SITES[0]), learned(kind, SITES[1])
    before = a.copy()
    with pytest.raises(
        TypeError, match=f"a {type(a).__name__} .*cannot be merged: .*its method learn takes many files"
    ):
        a.merge(b)
    assert_same_state(a, before)


def test_random_features_are_merged_as_each_policy_weighted_its_rows():
    """The noise that weights a row is what was known of it at its time, so the posterior is close but not equal."""
    pooled = learned("FourierSampling", *SITES)
    a, b, c = (learned("FourierSampling", site) for site in SITES)
    merged, other = a.copy().merge(b).merge(c), c.copy().merge(b.copy().merge(a))
    assert_close(merged, other, tolerance=1e-7)
    state, wanted = merged.state(), pooled.state()
    assert (state["counts"] == wanted["counts"]).all()
    np.testing.assert_allclose(state["moments"][:4], wanted["moments"][:4], rtol=1e-9)  # anchor, number, mean, squares
    means = [np.array([front.means for front in each.fronts(LOG.contexts[::40])]) for each in (merged, pooled)]
    assert np.abs(means[0] - means[1]).max() < 0.05
    start = learned("FourierSampling", SITES[0])
    went_on = [start.copy().learn(LOG.part(*site)) for site in SITES[1:]]
    since = went_on[0].merge(went_on[1], since=start).state()
    np.testing.assert_allclose(since["moments"][:4], wanted["moments"][:4], rtol=1e-9)


# ---- the tree --------------------------------------------------------------------------------------------------------


def bins(policy):
    """The plain twin's view of a tree: its leaves by cell, each with what it has counted."""
    state, found = policy._state, {}
    todo = [(0, (0,) * policy.context_dim)]
    while todo:
        node, cell = todo.pop()
        child, level = int(state.links[node, tree.CHILD]), int(state.links[node, tree.LEVEL])
        if child < 0:
            counts = state.tallies[node, :, tree.COUNT :]
            sums = state.moments[node, :, : policy.n_objectives]
            found[level, cell] = (int(state.links[node, tree.SEEN]), counts, sums, state.tallies[node, :, tree.ACTIVE])
        else:
            for which in range(2**policy.context_dim):
                part = tuple(2 * c + (which >> m & 1) for m, c in enumerate(cell))
                todo.append((child + which, part))
    return found


def counted_plainly(policy, log):
    """Counts and sums of all rows in the leaves of a tree, by looking at each row."""
    x = (log.contexts - policy.box.bounds[:, 0]) / np.ptp(policy.box.bounds, axis=1)
    found = {}
    for (level, cell), leaf in bins(policy).items():
        inside = (np.minimum(np.floor(x * 2**level), 2**level - 1) == cell).all(axis=1)
        counts, sums = np.zeros_like(leaf[1]), np.zeros_like(leaf[2])
        for k, reward in zip(log.arms[inside], log.rewards[inside], strict=True):
            counts[k] += ~np.isnan(reward)
            sums[k] += np.nan_to_num(reward)
        found[level, cell] = (int(inside.sum()), counts, sums)
    return found


@pytest.mark.parametrize("preset", ["paper", "sound"])
@pytest.mark.parametrize("settings", [{}, {"delta": 0.9}, {"beta": 0.4}])
def test_a_merged_tree_has_counted_all_rows(preset, settings):
    """Bins, counts and sums are those of the tree that learned from all rows, whatever the order of merging."""
    log = make_rows(9000, seed=3, scale=0.3)
    make_tree = lambda: cb.ConeTree(3, CONE, 2, preset=preset, bounds=BOUNDS, **settings)  # noqa: E731
    pooled = make_tree().learn(log)
    sites = [make_tree().learn(log.part(*site)) for site in ((0, 5000), (5000, 5600), (5600, 9000))]
    assert len({site.n_leaves for site in sites}) > 1  # they were split otherwise
    one = sites[0].copy().merge(sites[1]).merge(sites[2])
    other = sites[2].copy().merge(sites[0].copy().merge(sites[1]))
    assert bins(one).keys() == bins(other).keys() == bins(pooled).keys()
    plain = counted_plainly(one, log)
    for cell, (seen, counts, sums, active) in bins(one).items():
        assert (plain[cell][0], plain[cell][1].tolist()) == (seen, counts.tolist())
        np.testing.assert_allclose(sums, plain[cell][2], rtol=1e-12, atol=1e-9)
        assert (bins(pooled)[cell][0], bins(pooled)[cell][1].tolist()) == (seen, counts.tolist())
        np.testing.assert_array_equal(sums, bins(pooled)[cell][2])  # even bit for bit, in the order of the sites
        np.testing.assert_allclose(sums, bins(other)[cell][2], rtol=1e-12, atol=1e-9)
        assert active.tolist() == bins(other)[cell][3].tolist()
    assert one.n_observations == pooled.n_observations == 9000


def test_a_merged_tree_is_a_tree(tmp_path):
    """It is saved, explained and gone on with as any other."""
    merged = learned("ConeTree-sound", SITES[0]).merge(learned("ConeTree-sound", SITES[1]))
    merged.save(tmp_path / "policy.npz")
    again = cb.load_policy(tmp_path / "policy.npz")
    assert_same_state(again, merged)
    assert merged.explain(LOG.contexts[0]).path[0].seen == 1500
    assert_same_state(again.learn(LOG.part(1500, 2400)), merged.learn(LOG.part(1500, 2400)))
    cb.check_policy(merged)


def site(n, gap):
    """A tree that has seen two arms n times each; the second one is better by ``gap``."""
    policy = cb.ConeTree(2, cb.Cone.orthant(1), 1, sigma=0.1, holder=1e-6)
    arms = np.arange(2 * n) % 2
    return policy.learn((np.full((2 * n, 1), 0.3), arms, gap * arms[:, None]))


def test_a_merged_tree_eliminates_by_what_all_samples_say():
    """What neither site could tell both together can; and an arm that one of them has lost is judged anew."""
    assert site(100, 0.09).decide([0.3], 0).active == (0, 1)
    assert site(100, 0.09).merge(site(100, 0.09)).decide([0.3], 0).active == (1,)
    assert site(200, 0.09).decide([0.3], 0).active == (1,)
    assert site(200, 0.09).merge(site(200, -0.09)).decide([0.3], 0).active == (0, 1)


# ---- the default policy, after its last fit --------------------------------------------------------------------------


@pytest.fixture
def early_last_fit(monkeypatch):
    monkeypatch.setattr("conebandit.policies.cone_kernel.fit.LAST_FIT", 300)


def test_the_posterior_is_that_of_all_rows(early_last_fit):
    start = learned("ConeKernel", SITES[0])
    pooled = start.copy().learn(LOG.part(700, 2400))
    a, b, c = (start.copy().learn(LOG.part(*site)) for site in ((700, 1000), (1000, 1900), (1900, 2400)))
    for merged in (
        a.copy().merge(b, since=start).merge(c, since=start),
        c.copy().merge(b.copy().merge(a, since=start), since=start),
    ):
        state, wanted = merged._state, pooled._state
        assert merged.n_observations == 2400
        assert (state.counts == wanted.counts).all()
        deviations = np.sqrt(np.einsum("kmii->kmi", wanted.covs))
        errors = (state.weights[..., 0] - wanted.weights[..., 0]) / deviations
        assert np.abs(errors).max() < 1e-9
        np.testing.assert_allclose(state.covs, wanted.covs, rtol=1e-8, atol=1e-12)
        spread = (state.weights[..., 1:] - state.weights[..., :1]) / deviations[..., None]
        assert 0.85 < spread.std() < 1.15  # new draws, from the posterior
        x = LOG.contexts[::100]
        np.testing.assert_allclose(merged.radii(x), pooled.radii(x), rtol=1e-7)


def test_one_with_its_last_fit_learns_the_rows_of_one_without(early_last_fit):
    fitted, small = learned("ConeKernel", SITES[0]), learned("ConeKernel", (700, 800))
    wanted = learned("ConeKernel", SITES[0], (700, 800))
    assert_same_state(fitted.copy().merge(small), wanted)
    assert_same_state(small.copy().merge(fitted), wanted)


def test_models_that_were_fitted_apart_are_refused(early_last_fit):
    a, b = learned("ConeKernel", SITES[0]), learned("ConeKernel", SITES[1])
    before = a.copy()
    with pytest.raises(ValueError, match=r"each its own: they differ in \w+, .* give it as 'since'; learn_shards does"):
        a.merge(b)
    with pytest.raises(ValueError, match=r"since must be a copy .* model differs in"):
        a.merge(b, since=b.copy())
    start = learned("ConeKernel", (0, 100))
    with pytest.raises(ValueError, match="each its own"):
        start.copy().learn(LOG.part(100, 900)).merge(start.copy().learn(LOG.part(900, 1700)), since=start)
    went_on = a.copy().learn(LOG.part(700, 800))
    with pytest.raises(ValueError, match="would count twice: give a copy of it as 'since'"):
        went_on.merge(a.copy().learn(LOG.part(800, 900)))
    with pytest.raises(ValueError, match="it has made its last fit and one of them has not"):
        a.merge(start, since=b)
    assert_same_state(a, before)


# What learning from a row changes, what is told when the policy is made, and what follows from the orders of features.
NOT_BY_FITS = {"size", "weights", "covs", "counts", "data", "chosen", "facets", "slack", "parts"}


@pytest.mark.parametrize("name", [name for name in State._fields if name not in NOT_BY_FITS])
def test_models_that_differ_in_anything_that_fits_choose_are_refused(name, early_last_fit):
    start = learned("ConeKernel", SITES[0])
    went_on, other = start.copy().learn(LOG.part(700, 800)), start.copy()
    other._state = other._state._replace(**{name: getattr(other._state, name) + 1})
    with pytest.raises(ValueError, match=f"model differs in {name}"):
        went_on.merge(start.copy(), since=other)


# ---- what holds for all ----------------------------------------------------------------------------------------------

MERGED = [kind for kind in KINDS if kind not in CANNOT]


@pytest.mark.parametrize("kind", MERGED)
def test_one_that_knows_nothing_adds_nothing(kind):
    policy, fresh = learned(kind, SITES[0]), make(kind)
    assert_close(policy.copy().merge(fresh), policy)
    assert_close(fresh.merge(policy), policy)
    assert_same_state(policy.copy().merge(make(kind)), policy)


@pytest.mark.parametrize("kind", MERGED)
def test_the_other_policy_stays_as_it_is(kind):
    a, b = learned(kind, SITES[0]), learned(kind, SITES[1])
    before = b.copy()
    assert a.merge(b) is a
    a.learn(LOG.part(1500, 1700))
    assert_same_state(b, before)


OTHERS = {
    "n_arms": {"n_arms": 4},
    "context_dim": {"context_dim": 3, "bounds": None},
    "cone": {"cone": cb.Cone.wedge(60)},
    "bounds": {"bounds": [[0.0, 2.0], [-1.0, 1.5]]},
    "explore": {"explore": 0.1},
    "resolution": {"resolution": [0.0, 0.1]},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", OTHERS)
def test_what_differs_is_named(kind, what):
    policy, other = learned(kind, (0, 50)), make(kind, **OTHERS[what])
    before = policy.copy()
    with pytest.raises(ValueError, match=f"other must be made as this policy is, but its {what} is "):
        policy.merge(other)
    with pytest.raises(ValueError, match=f"since must be made as this policy is, but its {what} is "):
        policy.merge(make(kind), since=other)
    assert_same_state(policy, before)


@pytest.mark.parametrize(
    ("kind", "setting"),
    [
        ("ConeTree-sound", {"sigma": 2.0}),
        ("ConeTree-paper", {"delta": 0.1}),
        ("BinnedParetoUCB", {"bins": 3}),
        ("LinearParetoUCB", {"ridge": 1.0}),
        ("ConeKernel", {"n_features": 64}),
        ("ConeKernel", {"arm_features": [1, 2, 3]}),
    ],
)
def test_settings_that_differ_are_named(kind, setting):
    with pytest.raises(ValueError, match=f"its {next(iter(setting))} is "):
        make(kind).merge(make(kind, **setting))


def test_seeds_may_differ_where_they_draw_no_features():
    assert learned("ConeTree-sound", SITES[0]).merge(learned("ConeTree-sound", SITES[1], seed=7)).seed == 0
    with pytest.raises(ValueError, match="other must have this policy's seed, 0, which draws the features; got 7"):
        make("FourierSampling").merge(make("FourierSampling", seed=7))


def test_other_kinds_and_the_same_policy_are_refused():
    policy = make("ConeTree-sound")
    with pytest.raises(ValueError, match="its preset is 'adaptive', not 'sound'"):
        policy.merge(make("ConeTree-adaptive"))
    with pytest.raises(TypeError, match="other must be a ConeTree, as this policy is; got a ParetoUCB1"):
        policy.merge(make("ParetoUCB1"))
    with pytest.raises(ValueError, match="other must be another policy, not this one"):
        policy.merge(policy)


@pytest.mark.parametrize("kind", MERGED)
def test_a_past_that_was_not_common_is_refused(kind):
    a, b = learned(kind, SITES[0]), learned(kind, SITES[1])
    before = a.copy()
    with pytest.raises(ValueError, match="since must be a copy of what both policies were before they went on"):
        a.merge(b, since=learned(kind, (0, 2400)))
    assert_same_state(a, before)
