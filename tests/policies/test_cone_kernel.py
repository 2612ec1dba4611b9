"""ConeKernel: contract, a plain posterior, exact chances, state, what it learns, bad and extreme input."""

import itertools
import math

import numpy as np
import pytest

import conebandit as cb
from conebandit.kernels import spectral, spectral_choice, spectral_fit
from conebandit.kernels.spectral_choice import AMPLITUDE, CENTRE, NOISE, SPREAD
from conebandit.policies.kernel_sums import Sums
from conebandit.simulate import step_by_step

CONES = {
    "orthant": cb.Cone.orthant(2),
    "narrow": cb.Cone.from_rays([[1, 0.6], [0.6, 1]]),
    "half-plane": cb.Cone.from_weights([[1, 2]]),
    "scalar": cb.Cone.orthant(1),
    "three": cb.Cone.orthant(3),
}


def rounds(n_arms, metrics, dim, n, seed=3):
    """Contexts, outcomes of all arms (some not known) and keys."""
    rng = np.random.default_rng(seed)
    x = rng.random((n, dim))
    slopes = rng.normal(size=(n_arms, metrics, dim))
    outcomes = 0.5 + np.einsum("kmd,nd->nkm", slopes, x) + 0.3 * rng.standard_normal((n, n_arms, metrics))
    outcomes[rng.random(outcomes.shape) < 0.1] = np.nan
    return x, outcomes, np.arange(n, dtype=np.uint64)


def trained(n=400, *, n_arms=3, cone="orthant", dim=2, seed=3, **options):
    policy = cb.ConeKernel(n_arms, CONES[cone], dim, **options)
    policy.run_chunk(*rounds(n_arms, CONES[cone].dim, dim, n, seed))
    return policy


@pytest.mark.parametrize(
    ("n_arms", "cone", "dim"),
    [(3, "orthant", 1), (4, "narrow", 2), (2, "half-plane", 3), (1, "scalar", 2), (3, "three", 8), (2, "orthant", 30)],
)
def test_contract(n_arms, cone, dim):
    cb.check_policy(cb.ConeKernel(n_arms, CONES[cone], dim))


@pytest.mark.parametrize(("n_arms", "cone", "dim"), [(3, "orthant", 1), (4, "narrow", 2), (3, "three", 4)])
def test_compiled_loop_decides_as_step_by_step(n_arms, cone, dim):
    data = rounds(n_arms, CONES[cone].dim, dim, 300)
    one, other = (cb.ConeKernel(n_arms, CONES[cone], dim, seed=5) for _ in range(2))
    for a, b in zip(one.run_chunk(*data), step_by_step(other, *data), strict=True):
        np.testing.assert_array_equal(a, b)
    for name, array in one.state().items():
        np.testing.assert_array_equal(array, other.state()[name], err_msg=name)


def plain_features(orders, contexts):
    """Products of cosines, written out."""
    u = (contexts + spectral.PAD) / (1 + 2 * spectral.PAD)
    return np.array(
        [[math.prod(math.sqrt(2) * math.cos(math.pi * j * v) for j, v in zip(row, x, strict=True) if j)
          for row in orders.tolist()] for x in u.tolist()]
    )  # fmt: skip


@pytest.mark.parametrize(("cone", "dim"), [("orthant", 1), ("narrow", 2), ("three", 4)])
def test_posterior_is_that_of_all_samples(cone, dim):
    policy = trained(cone=cone, dim=dim)  # the last fit was some way back, so updates are tested as well
    s = policy.state()
    phi, metrics = plain_features(s["orders"], s["data"][:, :dim]), CONES[cone].dim
    assert s["size"][spectral.NEXT_FIT] > 400
    for k, m in itertools.product(range(3), range(metrics)):
        y = (s["data"][:, dim + m] - s["scales"][CENTRE, m]) / s["scales"][SPREAD, m]
        seen = (s["chosen"] == k) & ~np.isnan(y)
        assert s["counts"][k, m] == seen.sum()
        precision = phi[seen].T @ phi[seen] / s["scales"][NOISE, m]
        precision += np.diag(1 / (s["scales"][AMPLITUDE, m] * s["prior"]))
        cov = np.linalg.inv(precision)
        np.testing.assert_allclose(s["covs"][k, m], cov, rtol=1e-6, atol=1e-9)
        mean = cov @ (phi[seen].T @ y[seen]) / s["scales"][NOISE, m]
        np.testing.assert_allclose(s["weights"][k, m, :, 0], mean, rtol=1e-6, atol=1e-8)


def test_sums_do_not_depend_on_what_was_kept():
    """Products of features over all samples, in pieces and with features that come and go, equal those in one go."""
    policy = trained(n=300, n_arms=2, dim=2)  # with metrics that are not known
    assert 0 < policy._sums.seen < 300, "part of the sums is kept"
    pieces, whole = policy._sums.of(policy._state), Sums().of(policy._state)
    for one, other in zip(pieces, whole, strict=True):
        np.testing.assert_array_equal(one, other)
    fewer, other_features = policy._state, Sums()
    other_features.of(fewer._replace(parts=fewer.parts[:-3], weights=fewer.weights[:, :, :-3]))
    assert other_features.seen == 300
    for one, other in zip(other_features.of(policy._state), whole, strict=True):
        np.testing.assert_array_equal(one, other)
    s = policy.state()
    phi, known = plain_features(s["orders"], s["data"][:, :2]), ~np.isnan(s["data"][:, 2:])
    y = (s["data"][:, 2:] - s["scales"][CENTRE]) / s["scales"][SPREAD]
    gram, cross, squares = whole
    np.testing.assert_allclose(squares, np.nansum(y**2, axis=0))
    for k, m in itertools.product(range(2), range(2)):
        seen = (s["chosen"] == k) & known[:, m]
        np.testing.assert_allclose(np.tril(gram[k, 0] + gram[k, 1 + m]), np.tril(phi[seen].T @ phi[seen]), atol=1e-9)
        np.testing.assert_allclose(cross[k, m], phi[seen].T @ y[seen, m], atol=1e-9)


def test_sums_begin_to_tell_metrics_apart_when_one_is_missing():
    x, outcomes, keys = rounds(2, 2, 2, 400)
    outcomes[:200] = np.nan_to_num(outcomes[:200], nan=0.3)
    policy = cb.ConeKernel(2, CONES["orthant"], 2)
    policy.run_chunk(x[:200], outcomes[:200], keys[:200])
    assert policy._sums.of(policy._state)[0].shape[1] == 1, "all metrics of all samples are known"
    policy.run_chunk(x[200:], outcomes[200:], keys[200:])
    gram, cross, squares = policy._sums.of(policy._state)
    assert gram.shape[1] == 3
    for one, other in zip((gram, cross, squares), Sums().of(policy._state), strict=True):
        np.testing.assert_array_equal(one, other)


def test_residuals_are_those_of_the_samples():
    policy = trained(n=300)
    s = policy.state()
    phi, y = plain_features(s["orders"], s["data"][:, :2]), s["data"][:, 2:]
    errors = (y - s["scales"][CENTRE]) / s["scales"][SPREAD]
    errors = errors - np.einsum("nj,nmj->nm", phi, s["weights"][s["chosen"], :, :, 0])
    got = spectral_fit.residuals(*Sums().of(policy._state), np.ascontiguousarray(s["weights"][..., 0]))
    np.testing.assert_allclose(got, np.nansum(errors**2, axis=0), rtol=1e-9)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 8, 13, 21])
def test_linear_algebra_equals_numpy(size):
    rng = np.random.default_rng(size)
    phi, prior = rng.normal(size=(20, size)), rng.uniform(0.1, 2.0, size)
    cross, noise = rng.normal(size=size), 0.3
    precision = phi.T @ phi / noise + np.diag(1 / prior)
    half = np.tril(phi[:8].T @ phi[:8]), np.tril(phi[8:].T @ phi[8:])
    inverse = spectral_fit.factor(*half, prior, noise)
    np.testing.assert_allclose(inverse[:size, :size], np.linalg.inv(np.linalg.cholesky(precision)).T, atol=1e-10)
    mean, variances = np.empty((2, size))
    spectral_fit.posterior_mean(inverse, cross, noise, mean, variances)
    cov = np.linalg.inv(precision)
    np.testing.assert_allclose(mean, cov @ cross / noise, atol=1e-10)
    np.testing.assert_allclose(variances, np.diag(cov), atol=1e-10)
    normals, got, weights = rng.normal(size=(size, 4)), np.empty((size, size)), np.empty((size, 4))
    spectral_fit.posterior(inverse, mean, normals, got, weights)
    np.testing.assert_allclose(got, cov, atol=1e-10)
    np.testing.assert_allclose(weights, mean[:, None] + inverse[:size, :size] @ normals, atol=1e-10)


def test_draws_follow_the_posterior():
    # Standardised by the root of the covariance, 15 x 3 x 2 draws of D weights are standard normal up to the steps
    # since the last fit; the mean square of n of them is within 1 +- 5 sqrt(2 / n) but for one run in a million.
    s = trained(n=600).state()
    squares = []
    for k, m in itertools.product(range(3), range(2)):
        root = np.linalg.cholesky(s["covs"][k, m])
        squares.append(np.linalg.solve(root, s["weights"][k, m, :, 1:] - s["weights"][k, m, :, :1]) ** 2)
    n = np.size(squares)
    assert abs(np.mean(squares) - 1) < 5 * math.sqrt(2 / n)


def test_chances_are_those_of_the_draw():
    policy, x, keys = trained(n=150, n_arms=5, cone="narrow"), [0.3, 0.8], 4000
    decisions = [policy.decide(x, key) for key in range(keys)]
    chances = {d.arm: d.propensity for d in decisions}
    assert len(chances) > 1, "a context at which something is left to be drawn"
    for arm, chance in chances.items():
        share = np.mean([d.arm == arm for d in decisions])
        assert abs(share - chance) < 5 * math.sqrt(chance * (1 - chance) / keys) + 1e-12
    assert sum(chances.values()) == pytest.approx(1.0, abs=0.02)


def test_save_and_load_go_on_alike(tmp_path):
    policy = trained(dim=3)
    policy.save(tmp_path / "kernel.npz")
    again = cb.load_policy(tmp_path / "kernel.npz")
    more = rounds(3, 2, 3, 500, seed=9)
    for a, b in zip(policy.run_chunk(*more), again.run_chunk(*more), strict=True):
        np.testing.assert_array_equal(a, b)
    for name, array in policy.state().items():
        np.testing.assert_array_equal(array, again.state()[name], err_msg=name)


@pytest.mark.parametrize("scale", [2.0**40, 2.0**-40])
def test_scale_of_the_rewards_does_not_matter(scale):
    x, outcomes, keys = rounds(4, 2, 2, 500)
    small, large = (cb.ConeKernel(4, CONES["narrow"], 2) for _ in range(2))
    for a, b in zip(small.run_chunk(x, outcomes, keys), large.run_chunk(x, scale * outcomes, keys), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_extreme_and_constant_rewards(scale):
    x, outcomes, keys = rounds(3, 2, 2, 200)
    for values in (scale * outcomes, np.full_like(outcomes, scale), np.full_like(outcomes, np.nan)):
        policy = cb.ConeKernel(3, CONES["orthant"], 2)
        _, chances, _, reported = policy.run_chunk(x, values, keys)
        assert ((chances > 0) & (chances <= 1 + 1e-12)).all()
        assert reported.any(axis=1).all()


def test_a_coordinate_that_does_not_matter_is_found_out():
    for seed in range(5):
        env = cb.environments.smooth(n_arms=4, context_dim=4, relevant=1, change_point=500, seed=200 + seed)
        run = cb.simulate(cb.ConeKernel(4, env.cone, 4), env, 4000, seed=seed)
        told = run.policy.explain([0.5] * 4)
        assert told.relevance[0] == 1.0
        assert told.relevance[1:].max() < 0.1, told.relevance
        np.testing.assert_allclose(told.noise, 0.3, rtol=0.1)


def test_learns_sooner_than_bins_and_chance():
    env = cb.environments.smooth(n_arms=6, context_dim=2, change_point=1000, seed=77)
    make = {"kernel": cb.ConeKernel, "bins": cb.BinnedParetoUCB, "random": cb.RandomArm}
    score = {}
    for name, policy in make.items():
        runs = [cb.simulate(policy(6, env.cone, 2), env, 5000, seed=seed) for seed in range(3)]
        score[name] = np.mean([r.average("play", after=1000) + 0.1 * r.average("coverage", after=1000) for r in runs])
    assert score["kernel"] < 0.7 * score["bins"] < 0.7 * score["random"]


def test_arms_that_merely_tie_are_not_reported():
    """Two metrics at a floor: arm 1 equals arm 0 in one and is clearly worse in the other."""
    means, wrong = np.array([[0.1, 0.9], [0.1, 0.5], [0.8, 0.1]]), []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        policy = cb.ConeKernel(3, cb.Cone.orthant(2), 1, seed=seed)
        contexts = rng.random((6000, 1))
        outcomes = means + 0.1 * rng.standard_normal((6000, 3, 2))
        reported = policy.run_chunk(contexts, outcomes, np.arange(6000, dtype=np.uint64))[3]
        wrong.append(reported[2000:, 1].mean())
        assert reported[2000:, [0, 2]].mean() > 0.98
    assert np.mean(wrong) < 0.3, "the front of the estimates has the tied arm half of the time"


def test_arms_that_merely_tie_are_played_less():
    """Most arms of the paper's experiment are at its floor: on half of the perturbed fronts, with nothing to offer."""
    play, ties = [], []
    for seed in range(7):
        env = cb.environments.paper(10, 3.0, 1000, sigma=1.0)
        run = cb.simulate(cb.ConeKernel(10, env.cone, 1, seed=seed), env, 12_000, seed=500 + seed)
        play.append(run.average("play", after=6000))
        ties.append(run.policy.state()["levels"][spectral.PLAY_TIE])
    assert np.mean(np.array(ties) > 0) > 0.5, ties
    assert np.median(play) < 0.015, "about 0.03 if ties are played"


def test_ties_are_not_acted_on_where_there_are_none():
    for seed in range(3):
        env = cb.environments.smooth(n_arms=6, context_dim=2, change_point=1000, seed=300 + seed)
        policy = cb.simulate(cb.ConeKernel(6, env.cone, 2), env, 6000, seed=seed).policy
        assert policy.state()["levels"][spectral.PLAY_TIE] == 0


def plain_report(y, sd, tie):
    """The rule of the docstring, pair by pair."""
    kept = []
    for b in range(len(y)):
        leads = [(y[a] - y[b]) / np.sqrt(sd[a] ** 2 + sd[b] ** 2) for a in range(len(y)) if a != b]
        kept.append(not any(t.min() > -tie and (t.max() > 2 or t.min() > 0) for t in leads))
    return np.array(kept)


@pytest.mark.parametrize("tie", [-0.1, 0.0, 0.7, 1.5])
def test_report_equals_its_twin(tie):
    rng = np.random.default_rng(1)
    for _ in range(200):
        y, sd = rng.normal(size=(6, 2)), rng.uniform(0.05, 0.8, (6, 2))
        reported, apart = np.empty(6, dtype=np.bool_), np.empty((6, 6, 2))
        spectral_choice.tell_apart(sd**2, np.arange(6), apart)
        spectral_choice.undominated(y[:, :, None], apart, tie, reported)
        expected = plain_report(y, sd, tie)
        assert expected.any()
        np.testing.assert_array_equal(reported, expected)


def test_explain_says_what_beats_an_arm():
    means = np.array([[0.9, 0.9], [0.1, 0.1]])
    rng = np.random.default_rng(0)
    policy = cb.ConeKernel(2, cb.Cone.orthant(2), 1)
    policy.run_chunk(rng.random((500, 1)), means + 0.05 * rng.standard_normal((500, 2, 2)), np.arange(500, dtype="u8"))
    told = policy.explain([0.5])
    assert told.active == (0,)
    assert (told.eliminated[0].arm, told.eliminated[0].by) == (1, 0)
    assert (told.eliminated[0].margins > spectral_choice.OUT).all()


def test_bad_input_changes_nothing():
    policy = trained()
    before = policy.state()
    for bad in (
        lambda: policy.observe([0.5, 1.5], 0, [1.0, 1.0]),
        lambda: policy.observe([0.5, 0.5], 3, [1.0, 1.0]),
        lambda: policy.observe([0.5, 0.5], 0, [np.inf, 1.0]),
        lambda: policy.decide([0.5, np.nan], 0),
    ):
        with pytest.raises(ValueError, match="must"):
            bad()
    for name, array in policy.state().items():
        np.testing.assert_array_equal(array, before[name])
    with pytest.raises(ValueError, match="n_features must be a positive integer"):
        cb.ConeKernel(3, CONES["orthant"], 2, n_features=0)
    with pytest.raises(ValueError, match="n_features must be at most 1024"):
        cb.ConeKernel(3, CONES["orthant"], 2, n_features=1025)


def test_default_policy_by_size():
    assert isinstance(cb.default_policy(10, CONES["orthant"], 8), cb.ConeKernel)
    large = cb.default_policy(600, CONES["orthant"], 2, seed=3)
    assert isinstance(large, cb.ConeTree)
    assert large.preset == "adaptive"
    with pytest.raises(ValueError, match="n_arms must be"):
        cb.default_policy(0, CONES["orthant"], 2)


def plain_worth(means, y, front, *, unit, size, unsureness, nearby):
    """The rule of ``worthwhile``, arm by arm; ``y`` (K, F, draws) are images, ``means`` (K, M) predictions."""
    worth, chances = [], []
    for k in range(len(means)):
        others = [a for a in range(len(means)) if a != k]
        gaps = np.max([np.min((y[a] - y[k]) / unit[:, None], axis=0) for a in others], axis=0)
        misjudged = min(np.mean(gaps <= 0), np.mean(gaps > 0))
        far = [np.abs((means[a] - means[k]) / size).max() for a in others if front[a]]
        saved = spectral_choice.PRICE * nearby * unsureness[k] * misjudged * min(far, default=0.0)
        worth.append(front[k] or np.maximum(gaps, 0).mean() < saved)
        chances.append(np.mean(gaps <= 0))
    return np.array(worth), np.array(chances)


@pytest.mark.parametrize("cone", ["orthant", "narrow", "half-plane", "scalar", "three"])
def test_worthwhile_arms_equal_their_twin(cone):
    rng, facets = np.random.default_rng(4), CONES[cone].facets
    metrics, found = facets.shape[1], []
    for _ in range(200):
        scales = rng.uniform(0.2, 2.0, (4, metrics))
        values = rng.normal(size=(5, metrics, 1)) + rng.uniform(0.1, 2) * rng.normal(size=(5, metrics, 9))
        rewards = scales[CENTRE][:, None] + scales[SPREAD][:, None] * values
        front, unsureness, nearby = rng.random(5) < 0.4, rng.uniform(0, 1, 5), rng.uniform(1, 1000)
        y, worth, chances = np.empty((5, len(facets), 9)), np.empty(5, dtype=np.bool_), np.empty(5)
        spectral_choice.see(facets, scales, values, y)
        np.testing.assert_allclose(y, np.einsum("fm,kmc->kfc", facets, rewards), atol=1e-12)
        spectral_choice.worthwhile(facets, scales, values, y, front, unsureness, nearby, worth, chances)
        size = np.hypot(scales[CENTRE], scales[SPREAD])
        given = {"unit": np.abs(facets) @ size, "size": size, "unsureness": unsureness, "nearby": nearby}
        expected, on = plain_worth(rewards[:, :, 0], y[:, :, 1:], front, **given)
        np.testing.assert_array_equal(worth, expected)
        np.testing.assert_allclose(chances, on)
        shown = np.empty(5, dtype=np.bool_)
        spectral_choice.report(front, on, shown)
        likely = on >= np.where(front, spectral_choice.UNSURE, spectral_choice.SURE)
        np.testing.assert_array_equal(shown, likely if likely.any() else front)
        found += (worth & ~front).tolist()
    assert any(found), "some arm is worthwhile without being on the front"


@pytest.mark.parametrize("tie", [0.0, 0.8])
def test_pick_equals_its_twin(tie):
    rng = np.random.default_rng(5)
    for _ in range(200):
        y, sd = rng.normal(size=(5, 2, 1)) + rng.normal(size=(5, 2, 9)), rng.uniform(0.1, 1.0, (5, 2))
        front, unsureness, apart = rng.random(5) < 0.5, rng.uniform(0, 1, 5), np.empty((5, 5, 2))
        front[rng.integers(5)] = True
        worth = front | (rng.random(5) < 0.5)
        spectral_choice.tell_apart(sd**2, np.arange(5), apart)
        chances, fronts = np.zeros(5), []
        for c in range(1, 9):
            kept = worth & plain_report(y[:, :, c], sd, tie)
            kept = kept if kept.any() else front
            if c % 2 == 0:
                kept = np.arange(5) == np.argmax(np.where(kept, unsureness, -1.0))
            fronts.append(np.flatnonzero(kept))
            chances[kept] += 1 / (8 * kept.sum())
        for u in rng.random(5):
            arm, chance = spectral_choice.pick(y, apart, tie, unsureness, front, worth, u)
            those = fronts[int(8 * u)]
            assert arm == those[int((8 * u - int(8 * u)) * len(those))]
            assert chance == pytest.approx(chances[arm])


def plain_leads(y, variances):
    """Lead over each arm of the closest one that is clearly better on some facet, pair by pair."""
    leads = []
    for b in range(len(y)):
        rises = [(y[a] - y[b]) / np.sqrt(variances[a] + variances[b]) for a in range(len(y)) if a != b]
        leads.append(max([t.min() for t in rises if t.max() > spectral_choice.CLEARLY], default=-np.inf))
    return np.abs(leads)


@pytest.mark.parametrize(("cone", "dim"), [("orthant", 1), ("narrow", 2), ("three", 2)])
def test_counts_of_leads_equal_their_twin(cone, dim):
    policy, rng = trained(n=400, n_arms=5, cone=cone, dim=dim), np.random.default_rng(8)
    s, facets = policy._state, CONES[cone].facets
    near, expected, far, decided = spectral_fit.tie_counts(s, policy._highest, 200)
    phi = plain_features(s.orders, s.data[200:400, :dim])
    seen, drawn = [], []
    for row in phi:
        values = np.einsum("j,kmjc->kmc", row, s.weights) * s.scales[SPREAD][:, None]
        images = np.einsum("fm,kmc->kfc", facets, values)  # the centre is the same for all arms
        variances = ((images[:, :, 1:] - images[:, :, :1]) ** 2).mean(axis=2)
        seen.append(plain_leads(images[:, :, 0], variances))
        unsure = ((values[:, :, 1:] - values[:, :, :1]) ** 2).mean(axis=2)
        prior = s.scales[AMPLITUDE] * s.scales[SPREAD] ** 2 * (s.prior @ row**2)
        for _ in range(10):
            estimates = rng.standard_normal(unsure.shape) * np.sqrt(np.maximum(prior - unsure, 0.0))
            drawn.append(plain_leads(estimates @ facets.T, variances))
    seen, drawn = np.array(seen), np.array(drawn)
    assert [near, far, decided] == [
        (seen < 1).sum(),
        ((seen > 2) & (seen < 4)).sum(),
        ((seen > 2) & (seen < np.inf)).sum(),
    ]
    without_ties = (drawn < 1).sum() / 10
    # A count of that mean, from independent draws, is farther off than this in one run of a million.
    assert abs(expected - without_ties) < 5.2 * math.sqrt(without_ties)
