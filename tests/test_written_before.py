"""Policies and logs that earlier code has written are read, and lead to what they led to then."""

import gzip
import io
import json
from pathlib import Path

import numpy as np
import pytest

import conebandit as cb
from conebandit.kernels.cone_kernel.prior import NUS
from conebandit.service.log.restore import restore
from conebandit.service.log.verify import verify
from conebandit.service.stores.base import open_store
from conebandit.service.stores.records import from_lines

FOLDER = Path(__file__).parent / "data" / "before"
DECISIONS = json.loads((FOLDER / "decisions.json").read_text())
STATES = json.loads((FOLDER / "states.json").read_text())


ANOTHER_MODEL = {"kernel"}  # its algorithm has changed since: files are learned anew from the samples in them
OTHER_ARRAYS = {"kernel-0.8", "kernel-0.11"}  # each metric has a kernel of its own since 0.9, smoothness since 0.12
ANOTHER_CHOICE = {"kernel-0.8"}  # what is known is the same, but since 0.10 arms are played by another rule


@pytest.mark.parametrize("name", sorted(set(DECISIONS) - ANOTHER_MODEL))
def test_saved_policies_decide_as_they_did(name):
    policy = cb.load_policy(FOLDER / f"{name}.npz")
    assert policy.n_observations == DECISIONS[name]["n_observations"]
    for asked in DECISIONS[name]["decisions"]:
        decision = policy.decide(asked["context"], asked["key"])
        if name not in ANOTHER_CHOICE:
            assert (decision.arm, decision.propensity) == (asked["arm"], asked["propensity"])
        assert list(decision.active) == asked["active"]
        assert list(policy.front(asked["context"]).arms) == asked["front"]


@pytest.mark.parametrize("name", sorted(ANOTHER_MODEL))
def test_policies_of_another_model_are_learned_anew(name):
    policy = cb.load_policy(FOLDER / f"{name}.npz")
    assert policy.n_observations == DECISIONS[name]["n_observations"]
    with np.load(FOLDER / f"{name}.npz") as before:
        fresh, dim = policy.clone(), policy.context_dim
        rows = before["data"].copy()
        assert len(rows) == policy.n_observations
        low, high = policy.box.bounds.T
        for row, arm in zip(rows, before["chosen"].tolist(), strict=True):
            fresh.observe(low + row[:dim] * (high - low), arm, row[dim:])
    for key, array in policy.state().items():
        np.testing.assert_allclose(array, fresh.state()[key], rtol=1e-9, atol=1e-12, err_msg=key)


@pytest.mark.parametrize("name", sorted(OTHER_ARRAYS))
def test_policies_with_other_arrays_go_on_learning_and_are_saved(name, tmp_path):
    policy, rng = cb.load_policy(FOLDER / f"{name}.npz"), np.random.default_rng(0)
    low, high = policy.box.bounds.T
    assert np.isfinite(policy.front(policy.box.bounds.mean(axis=1)).radii).all(), "what it has learned counts"
    for t in range(60):  # beyond the next fit
        policy.observe(rng.uniform(low, high), t % policy.n_arms, rng.random(policy.n_objectives))
    policy.save(tmp_path / "again.npz")
    again = cb.load_policy(tmp_path / "again.npz")
    assert again.n_observations == DECISIONS[name]["n_observations"] + 60
    for key, array in policy.state().items():
        np.testing.assert_array_equal(again.state()[key], array, err_msg=key)


@pytest.mark.parametrize("name", sorted(OTHER_ARRAYS))
def test_kernels_of_before_are_as_smooth_as_they_were(name):
    assert (NUS[cb.load_policy(FOLDER / f"{name}.npz").state()["smoothness"]] == 2.5).all()


@pytest.mark.parametrize("name", sorted(set(DECISIONS) - ANOTHER_MODEL - OTHER_ARRAYS))
def test_saving_them_again_changes_nothing(name, tmp_path):
    cb.load_policy(FOLDER / f"{name}.npz").save(tmp_path / "again.npz")
    with np.load(FOLDER / f"{name}.npz") as before, np.load(tmp_path / "again.npz") as after:
        assert list(before) == list(after)
        for key in before:
            np.testing.assert_array_equal(before[key], after[key], err_msg=key)
            assert before[key].dtype == after[key].dtype


@pytest.mark.parametrize("id_", STATES)
def test_logs_fold_and_verify_as_they_did(id_, tmp_path, monkeypatch):
    for part in ("choosing", "verify"):  # decisions of other versions are not made again
        monkeypatch.setattr(f"conebandit.service.log.{part}.__version__", "0.1.0")
    lines = gzip.decompress((FOLDER / f"{id_}.jsonl.gz").read_bytes()).decode()
    store = open_store(str(tmp_path / "log.db"))
    assert restore(store, from_lines(io.StringIO(lines, newline="\n"))) == id_
    with store.read() as session:
        found = verify(session, id_, every=True)
    store.close()
    assert found.problems == ()
    assert {key: getattr(found, key) for key in STATES[id_]} == STATES[id_]
