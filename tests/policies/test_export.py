"""Exported policies give the probabilities of ``decide``, read by this library or without it."""

import importlib.util
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import conebandit as cb
from conebandit.policies.export import grow, lookup

EXAMPLES = Path(__file__).parents[2] / "examples"
BOUNDS = [[-3.0, 7.1], [0.1, 0.7]]


def reader():
    spec = importlib.util.spec_from_file_location("read_policy", EXAMPLES / "read_policy.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def learned(preset, explore=0.0, n=6000):
    """A tree that has learned that the first arm is good where the first coordinate is large, the second elsewhere."""
    options = {"sigma": 0.05} if preset == "sound" else {}
    policy = cb.ConeTree(3, cb.Cone.orthant(2), 2, preset=preset, bounds=BOUNDS, explore=explore, **options)
    rng = np.random.default_rng(0)
    x = rng.uniform(*np.array(BOUNDS).T, (n, 2))
    good = (x[:, 0] > 2.0).astype(float)
    means = np.stack([np.stack([good, good], 1), np.stack([1 - good, 1 - good], 1), np.full((n, 2), 0.4)], 1)
    policy.run_chunk(x, means + rng.normal(0, 0.05, means.shape), np.arange(n, dtype=np.uint64))
    return policy


def contexts(n=400):
    """Contexts all over the box, some of them on edges and cuts."""
    low, high = np.array(BOUNDS).T
    x = np.random.default_rng(1).uniform(low, high, (n, 2))
    x[:40] = low + (high - low) * np.random.default_rng(2).integers(0, 17, (40, 2)) / 16.0
    return np.clip(x, low, high)


@pytest.mark.parametrize("explore", [0.0, 0.2])
@pytest.mark.parametrize("preset", ["paper", "sound"])
def test_live_trees_are_exact(preset, explore):
    policy = learned(preset, explore)
    exported = json.loads(json.dumps(policy.export()))
    assert exported["exact"]
    assert exported["agreement"] == 1.0
    assert preset == "paper" or policy.n_leaves > 1
    read = reader().probabilities
    for x in contexts():
        assert read(exported, x.tolist()) == policy.decide(x, key=1).probabilities.tolist()


@pytest.mark.system_package
def test_another_language_reads_the_same(tmp_path):
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node: install Node.js")
    policy, x = learned("sound"), contexts()
    (tmp_path / "policy.json").write_text(json.dumps(policy.export()))
    (tmp_path / "contexts.json").write_text(json.dumps(x.tolist()))
    script = f"""
        const {{ probabilities }} = require({json.dumps(str(EXAMPLES / "read_policy.js"))});
        const policy = require("./policy.json");
        console.log(JSON.stringify(require("./contexts.json").map((x) => probabilities(policy, x))));
    """
    done = subprocess.run([node, "-e", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    np.testing.assert_array_equal(json.loads(done.stdout), policy.decide_many(x, range(len(x))).probabilities)
    shown = subprocess.run([node, EXAMPLES / "read_policy.js"], capture_output=True, text=True, check=True)
    own = json.loads((EXAMPLES / "policy.json").read_text())
    assert json.loads(shown.stdout) == reader().probabilities(own, [0.3])
    command = [node, EXAMPLES / "read_policy.js", EXAMPLES / "policy.json", "7"]
    assert subprocess.run(command, capture_output=True, check=False).returncode != 0


def test_readers_are_short():
    for name in ("read_policy.py", "read_policy.js"):
        lines = (EXAMPLES / name).read_text().splitlines()
        assert len([line for line in lines if line.strip() and not line.startswith("//")]) <= 30


def test_other_policies_are_distilled_and_say_how_close_they_are():
    policy = learned("adaptive")
    exported = policy.export(max_leaves=8)
    assert not exported["exact"]
    fresh = np.random.default_rng(5).uniform(*np.array(BOUNDS).T, (2000, 2))
    read = np.array([reader().probabilities(exported, x) for x in fresh.tolist()])
    np.testing.assert_allclose(read.sum(axis=1), 1.0)
    overlap = np.minimum(read, policy.decide_many(fresh, range(2000)).probabilities).sum(axis=1).mean()
    # Both are averages of about 2000 numbers in [0, 1]: they differ by less than 0.1 with probability above 1 - 1e-8.
    assert abs(overlap - exported["agreement"]) < 0.1
    assert exported["agreement"] > 0.8
    assert policy.export(max_leaves=1)["agreement"] < exported["agreement"]
    assert "probabilities" in policy.export(max_leaves=1)["tree"]


def plain_best_cut(points, chances):
    """All cuts, one by one."""
    best = (0.0, None)
    for j in range(points.shape[1]):
        for value in np.unique(points[:, j])[1:]:
            low = points[:, j] < value
            parts = (chances[low], chances[~low])
            left = sum(((part - part.mean(axis=0)) ** 2).sum() for part in parts)
            gain = ((chances - chances.mean(axis=0)) ** 2).sum() - left
            if gain > best[0] + 1e-9:
                best = (gain, (j, value))
    return best[1]


def test_the_first_cut_is_the_best_one():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        points = rng.integers(0, 6, (30, 2)) / 5.0  # with ties
        chances = rng.dirichlet([1, 1, 1], 30) + 2.0 * (points[:, :1] > 0.5)
        tree = grow(points, chances, 2)
        assert (tree["coordinate"], tree["below"]) == plain_best_cut(points, chances)
        low = points[:, tree["coordinate"]] < tree["below"]
        np.testing.assert_allclose(lookup(tree, points[low][0]), chances[low].mean(axis=0))


def test_nothing_to_cut():
    points = np.full((200, 1), 0.5)
    chances = np.random.default_rng(0).dirichlet([1, 1], 200)
    assert set(grow(points, chances, 10)) == {"probabilities"}
    assert set(grow(np.random.default_rng(0).random((50, 2)), np.full((50, 2), 0.5), 10)) == {"probabilities"}


def test_refusals():
    policy = cb.ParetoUCB1(2, cb.Cone.orthant(1), 1)
    with pytest.raises(ValueError, match="contexts must be at least 100"):
        policy.export([[0.5]])
    with pytest.raises(ValueError, match="max_leaves must be"):
        policy.export(max_leaves=0)
    with pytest.raises(ValueError, match=r"context\[0\] must lie in"):
        policy.export(np.full((200, 1), 2.0))
