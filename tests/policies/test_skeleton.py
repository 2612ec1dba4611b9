"""What all policies share: how they show themselves, clones, and the layout of their arrays."""

import inspect
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import joblib
import numpy as np
import pytest

import conebandit as cb
from conebandit.policies.layout import Array, Counter, Index, Layout, page_by_page
from conebandit.policies.registry import OURS

ORTHANT = cb.Cone.orthant(2)
WORLD = cb.environments.smooth(3, 2)
KINDS = {
    **{f"ConeTree-{preset}": {"policy": cb.ConeTree, "preset": preset} for preset in ("paper", "sound", "adaptive")},
    **{
        f"ConeTree-{preset}-stream": {"policy": cb.ConeTree, "preset": preset, "history": "stream"}
        for preset in ("paper", "sound", "adaptive")
    },
    **{name: {"policy": policy} for name, policy in OURS.items() if name != "ConeTree"},
    "RandomArm": {"policy": cb.RandomArm},
}


def make(kind, **options):
    given = {**KINDS[kind], **options}
    return given.pop("policy")(3, ORTHANT, 2, **given)


def learn(policy, n=60):
    rng = np.random.default_rng(0)
    for t in range(n):
        x = policy.box.bounds[:, 0] + rng.random(2) * np.ptp(policy.box.bounds, axis=1)
        policy.observe(x, policy.decide(x, t).arm, rng.random(2))


@pytest.mark.parametrize("kind", KINDS)
def test_a_clone_has_the_settings_and_has_learned_nothing(kind):
    policy = make(kind, seed=5, bounds=[[0, 2], [-1, 1]])
    fresh = make(kind, seed=5, bounds=[[0, 2], [-1, 1]])
    learn(policy)
    clone = policy.clone()
    assert type(clone) is type(policy)
    assert clone.cone == policy.cone
    assert clone.settings == policy.settings == fresh.settings
    assert clone.bounds.tolist() == [[0, 2], [-1, 1]]
    if kind != "RandomArm":
        assert policy.n_observations == 60
        assert clone.n_observations == 0
        for one, other in zip(clone.state().values(), fresh.state().values(), strict=True):
            np.testing.assert_array_equal(one, other)
    for t in range(20):
        assert clone.decide([1.0, 0.0], t)[:2] == fresh.decide([1.0, 0.0], t)[:2]


def test_decisions_write_into_arrays_of_their_own(monkeypatch):
    """Threads may decide at once, and a kernel may work with whatever it fills."""
    kernels, calls = cb.ParetoUCB1._kernels, []

    def choose(*arguments):
        calls.append(arguments)
        return kernels.choose(*arguments)

    monkeypatch.setattr(cb.ParetoUCB1, "_kernels", SimpleNamespace(choose=choose))
    policy = make("ParetoUCB1")
    for key in range(2):
        policy.decide([0.5, 0.5], key)
    filled = [call[4:] for call in calls]  # after state, seed, context and key
    assert len(filled[0]) >= 2
    assert not any(np.shares_memory(one, other) for one in filled[0] for other in filled[1])


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc, which Linux has")
def test_a_fresh_policy_takes_little_memory_however_large_its_tables():
    def resident():
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    before = resident()
    policy = cb.NeighbourParetoUCB(2000, ORTHANT, 2)
    assert resident() - before < policy._state.rings.nbytes / 10


def test_an_oracle_is_cloned_for_the_same_environment():
    clone = cb.Oracle(WORLD, seed=4).clone()
    assert clone.environment is WORLD
    assert clone.seed == 4
    assert repr(clone) == "Oracle(n_arms=3, context_dim=2)"


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        ("ConeKernel", "ConeKernel(n_arms=3, context_dim=2, n_observations=60)"),
        ("ConeTree-paper", "ConeTree(n_arms=3, context_dim=2, preset='paper', n_observations=60)"),
        ("SelfTuning", "SelfTuning(n_arms=3, context_dim=2, n_observations=60)"),
        ("RandomArm", "RandomArm(n_arms=3, context_dim=2)"),
    ],
)
def test_policies_can_be_read(kind, shown):
    policy = make(kind)
    learn(policy)
    assert repr(policy) == shown


@pytest.mark.parametrize("kind", KINDS)
def test_policies_go_to_other_processes(kind, tmp_path):
    policy = make(kind)
    learn(policy)
    joblib.dump(policy, tmp_path / "policy")
    again = joblib.load(tmp_path / "policy")
    assert repr(again) == repr(policy)
    assert [again.decide([0.5, 0.5], t)[:2] for t in range(9)] == [policy.decide([0.5, 0.5], t)[:2] for t in range(9)]


@pytest.mark.parametrize("key", [2**63, 2**64 - 1, -1, "id", b"id", np.uint64(2**63 + 5)])
def test_any_key_gives_the_same_arm_in_steps_and_in_a_chunk(key):
    from conebandit.validate.arguments import as_key  # noqa: PLC0415

    for kind in ("ConeTree-sound", "ParetoUCB1"):
        policy = make(kind)
        arms = policy.copy().run_chunk(np.full((1, 2), 0.5), np.ones((1, 3, 2)), np.array([as_key(key)]))[0]
        assert policy.decide([0.5, 0.5], key).arm == arms[0]


def test_signatures_are_explicit():
    parameters = inspect.signature(cb.SelfTuning).parameters
    assert list(parameters)[:3] == ["n_arms", "cone", "context_dim"]
    assert {name: p.default for name, p in parameters.items() if p.kind is p.KEYWORD_ONLY} == {
        "seed": 0, "bounds": None, "explore": 0.0, "resolution": 0.0, "width": 0.03, "smoothness": 0.3,
    }  # fmt: skip
    with pytest.raises(TypeError, match="unexpected keyword argument 'widht'"):
        cb.SelfTuning(3, ORTHANT, 2, widht=1.0)  # type: ignore[call-arg]


# ---- layouts --------------------------------------------------------------------------------------------------------


class State(NamedTuple):
    size: Any
    links: Any
    data: Any
    model: Any
    table: Any
    derived: Any


LAYOUT = Layout(
    State,
    {"observations": Counter(step=1), "nodes": Counter(1, step=2), "flag": Counter()},
    {
        "links": Array(("nodes", 2), np.int64, fill=(-1, 7), indices={0: Index("nodes", none=True, block=2)}),
        "data": Array(("observations", "arms")),
        "model": Array(("terms", "terms"), fill=1.0),
        "table": Array(("arms",), np.int64, indices=Index("arms"), fixed=True),
        "derived": Array((2,), saved=False),
    },
    learned={"terms": 1},
)
SIZES = {"arms": 3}
GIVEN = {"table": np.arange(3), "derived": np.array([0.5, 1.5])}


def test_a_fresh_state_is_what_the_layout_says():
    state = LAYOUT.fresh(SIZES, GIVEN)
    assert state.size.tolist() == [0, 1, 0]
    assert state.links.tolist() == [[-1, 7]]
    assert state.data.shape == (0, 3)
    assert state.model.tolist() == [[1.0]]
    assert state.table.tolist() == [0, 1, 2]
    assert state.derived.tolist() == [0.5, 1.5]


def test_growing_keeps_what_is_in_use_and_says_how_far_it_goes():
    state, limits = LAYOUT.grown(LAYOUT.fresh(SIZES, GIVEN), SIZES, 5)
    assert state.data.shape == (5, 3)
    assert state.links.shape == (3, 2)
    assert state.links[0].tolist() == [-1, 7]
    assert limits == [(0, 4), (1, 1)], "up to 4 observations and 1 node, there is room for one more step"
    state.size[:] = 4, 1, 0
    assert LAYOUT.grown(state, SIZES, 1) == (state, limits)
    longer, _ = LAYOUT.grown(state, SIZES, 2)
    assert longer.data.shape == (7, 3)
    assert longer.links is state.links
    assert LAYOUT.saved(longer)["data"].shape == (4, 3)
    assert list(LAYOUT.saved(longer)) == ["size", "links", "data", "model", "table"]


def saved(**changes):
    whole = {
        "size": np.array([2, 3, 9]),
        "links": np.array([[1, 0], [-1, 0], [-1, 0]]),
        "data": np.zeros((2, 3)),
        "model": np.zeros((4, 4)),
        "table": np.arange(3),
    }
    return whole | changes


def test_what_was_saved_is_restored():
    state = LAYOUT.restored(LAYOUT.fresh(SIZES, GIVEN), SIZES, saved())
    assert state.model.shape == (4, 4)
    assert state.derived.tolist() == [0.5, 1.5]
    for name, array in saved().items():
        np.testing.assert_array_equal(getattr(state, name), array)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"size": np.array([2, 0, 9])}, "'size' counts 0 nodes where there are at least 1"),
        ({"size": np.array([2, 3])}, "'size' is int64"),
        ({"size": np.array([3, 3, 0])}, "'data' is float64 \\(2, 3\\) where float64 \\(3, 3\\) is needed"),
        ({"data": np.zeros((2, 3), dtype=np.float32)}, "'data' is float32"),
        ({"links": np.array([[2, 0], [-1, 0], [-1, 0]])}, "'links' holds numbers that are not from -1 to 1"),
        ({"links": np.array([[-2, 0], [-1, 0], [-1, 0]])}, "'links' holds numbers"),
        ({"model": np.zeros((4, 3))}, "'model' is float64"),
        ({"model": np.zeros((0, 0))}, "'model' has 0 terms"),
        ({"table": np.array([0, 1, 1])}, "'table' does not fit the options"),
    ],
)
def test_what_cannot_have_been_saved_is_refused(changes, says):
    with pytest.raises(ValueError, match=f"array {says}"):
        LAYOUT.restored(LAYOUT.fresh(SIZES, GIVEN), SIZES, saved(**changes))


def test_a_layout_names_the_fields_of_its_state():
    with pytest.raises(TypeError, match="State must have the fields size, data; got"):
        Layout(State, {"observations": Counter()}, {"data": Array(("observations",))})


def test_arrays_begin_with_a_line_of_a_cache_however_a_policy_came_about(tmp_path):
    policy = cb.ConeKernel(3, cb.Cone.orthant(2), 2, n_features=16)
    rng = np.random.default_rng(0)
    for t in range(40):
        policy.observe(rng.random(2), t % 3, rng.random(2))
    policy.save(tmp_path / "policy")
    for one in (policy, policy.copy(), cb.load_policy(tmp_path / "policy")):
        assert one._state.covs.ctypes.data % 64 == 0
        assert one._state.weights.ctypes.data % 64 == 0
    odd = {
        name: np.frombuffer(b"x" * 8 + array.tobytes(), array.dtype, offset=8) for name, array in policy.state().items()
    }
    given = {name: array.reshape(policy.state()[name].shape) for name, array in odd.items()}
    again = policy.clone()._with(given)
    assert again._state.covs.ctypes.data % 64 == 0
    np.testing.assert_array_equal(again._state.covs, policy._state.covs)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here; run it on Linux")
def test_large_arrays_are_not_shared_with_a_process_that_was_forked():
    array = page_by_page((512, 1024))
    assert not array.any()
    child = os.fork()
    if child == 0:
        array[0, 0] = 1.0
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert array[0, 0] == 0.0
