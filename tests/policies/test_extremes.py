"""Numbers at the edge of what doubles hold, and files that were tampered with: refused, or treated like all others."""

import json
from functools import partial

import numpy as np
import pytest

import conebandit as cb
from conebandit.validate.arguments import MAX_REWARD
from conebandit.validate.storage import PolicyFileError

ORTHANT = cb.Cone.orthant(2)
KINDS = {
    **{
        kind.__name__: kind
        for kind in (
            cb.ConeKernel,
            cb.ConeTree,
            cb.BinnedElimination,
            cb.BinnedParetoUCB,
            cb.FourierSampling,
            cb.LinearParetoUCB,
            cb.NeighbourParetoUCB,
            cb.ParetoUCB1,
            cb.ParetoZooming,
            cb.ScalarisedUCB,
            cb.SelfTuning,
        )
    },
    **{
        name: partial(cb.ConeTree, **settings)
        for name, settings in {
            "AdaptiveTree": {"preset": "adaptive"},
            "StreamedTree": {"history": "stream"},
            "StreamedAdaptiveTree": {"preset": "adaptive", "history": "stream"},
        }.items()
    },
}


def learn(policy, rng, n, reward):
    for i in range(n):
        x = rng.random(policy.context_dim)
        arm = policy.decide(x, i).arm
        policy.observe(x, arm, reward(i, arm))


@pytest.mark.parametrize("kind", KINDS)
def test_a_reward_whose_square_overflows_is_refused_and_leaves_no_trace(kind, rng):
    policy = KINDS[kind](3, ORTHANT, 1)
    learn(policy, rng, 50, lambda _, arm: arm + rng.normal(size=2))
    before = policy.state()
    for bad in (1e155, -1e308):
        with pytest.raises(ValueError, match=r"reward must be at most 1e\+150 in size; got .* in other units"):
            policy.observe([0.5], 1, [1.0, bad])
    for name, array in policy.state().items():
        np.testing.assert_array_equal(array, before[name])


def test_policies_that_do_not_learn_refuse_it_too():
    env = cb.environments.paper(n_arms=3)
    for policy in (cb.Oracle(env), cb.RandomArm(3, env.cone, 1)):
        with pytest.raises(ValueError, match="reward must be at most"):
            policy.observe([0.5], 1, [1.0, 1e200])


@pytest.mark.parametrize("kind", KINDS)
def test_the_largest_reward_spoils_no_estimate(kind, rng):
    policy = KINDS[kind](3, ORTHANT, 1)
    learn(policy, rng, 300, lambda i, arm: (MAX_REWARD if i == 100 else arm) + 0.1 * rng.normal(size=2))
    assert np.isfinite(policy.front([0.5]).means).all()
    assert not np.isnan(policy.front([0.5]).radii).any()


@pytest.mark.parametrize("offset", [1e12, 1e14])
def test_the_kernel_learns_on_top_of_a_huge_offset(offset, rng):
    policy = cb.ConeKernel(3, ORTHANT, 1)
    learn(policy, rng, 400, lambda _, arm: offset + arm + 0.1 * rng.normal(size=2))
    front = policy.front([0.5])
    assert front.arms == (2,)
    assert (np.abs(front.means - offset - 2.0) < 0.1).all()
    assert (front.radii < 0.1).all()


@pytest.mark.parametrize("kind", KINDS)
def test_bounds_whose_span_overflows_are_refused(kind):
    with pytest.raises(ValueError, match=r"bounds must have a finite difference .* in other units"):
        KINDS[kind](3, ORTHANT, 1, bounds=[[-1e308, 1e308]])


# ---- files that are whole but hold nonsense -------------------------------------------------------------------------

# Arrays of indices and of sizes; those that are not named here are counts.
INDICES = {
    "ConeKernel": ("size", "orders", "parts", "lengths", "chosen"),
    "ConeTree": ("size", "links", "chain"),
    "AdaptiveTree": ("size", "links", "chain", "terms"),
    "StreamedTree": ("size", "links"),
    "StreamedAdaptiveTree": ("size", "links", "terms"),
    "BinnedElimination": ("size", "links"),
    "BinnedParetoUCB": ("size", "rows", "bins"),
    "NeighbourParetoUCB": ("side", "anchors", "ring"),
    "ParetoZooming": ("size", "links"),
    "ScalarisedUCB": ("side",),
    "SelfTuning": ("size", "links"),
}


@pytest.mark.parametrize("kind", INDICES)
def test_indices_that_lead_nowhere_are_refused(kind, rng, tmp_path):
    policy, path = KINDS[kind](3, ORTHANT, 1), tmp_path / "policy.npz"
    learn(policy, rng, 300, lambda _, arm: arm + 0.1 * rng.normal(size=2))
    policy.save(path)
    whole = dict(np.load(path))
    for name in INDICES[kind]:
        for wrong in (10**8, -5):
            np.savez(path, **whole | {name: np.full_like(whole[name], wrong)})
            with pytest.raises(PolicyFileError, match="damaged: array"):
                cb.load_policy(path)
    np.savez(path, **whole)
    assert cb.load_policy(path).n_observations == 300


ROWS = {
    "ConeKernel": ("weights", "covs", "prior", "data"),
    "ConeTree": ("moments", "data"),
    "StreamedTree": ("moments", "links"),
    "StreamedAdaptiveTree": ("sums", "contexts", "covariances"),
}


def test_rows_that_are_missing_are_refused(rng, tmp_path):
    path = tmp_path / "policy.npz"
    for kind, names in ROWS.items():
        policy = KINDS[kind](3, ORTHANT, 1)
        learn(policy, rng, 300, lambda _, arm: arm + 0.1 * rng.normal(size=2))
        policy.save(path)
        whole = dict(np.load(path))
        for name in names:
            np.savez(path, **whole | {name: whole[name][:-1]})
            with pytest.raises(PolicyFileError, match="damaged: array"):
                cb.load_policy(path)


@pytest.mark.parametrize("change", [{"options": None}, {"kind": ["a"]}, {"options": [1]}])
def test_headers_of_the_wrong_type_are_refused(change, tmp_path):
    path = tmp_path / "policy.npz"
    cb.ConeKernel(3, ORTHANT, 1).save(path)
    whole = dict(np.load(path))
    header = json.dumps(json.loads(bytes(whole["header"])) | change).encode()
    np.savez(path, **whole | {"header": np.frombuffer(header, dtype=np.uint8)})
    with pytest.raises(PolicyFileError, match="header"):
        cb.load_policy(path)
