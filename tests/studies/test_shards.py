"""Shards of a log, learned by several workers: what comes out depends on the files alone."""

import numpy as np
import polars as pl
import pytest

import conebandit as cb
from conebandit.studies import shards
from tests.policies.rows import BOUNDS, CONE, assert_same_state, make, make_rows

NAMES = {"contexts": ["x", "y"], "rewards": ["a", "b"]}
SIZES = (500, 90, 0, 700, 310)


@pytest.fixture
def log():
    return make_rows(sum(SIZES))


@pytest.fixture
def folder(tmp_path, log):
    first = 0
    for i, size in enumerate(SIZES):
        part = log.part(first, first + size)
        columns = {"x": part.contexts[:, 0], "y": part.contexts[:, 1], "arm": part.arms}
        frame = pl.DataFrame({**columns, "a": part.rewards[:, 0], "b": part.rewards[:, 1]})
        frame.write_parquet(tmp_path / f"site-{i}.parquet")
        first += size
    return tmp_path


def by_hand(policy, log, start=0):
    """The plain twin: copies learn the files one after the other, and neighbours are merged."""
    policy = policy.copy().learn(log.part(0, start)) if start else policy.copy()
    ends, found = np.cumsum(SIZES), []
    for end, size in zip(ends, SIZES, strict=True):
        first = max(end - size, start)
        if first < end:
            found.append(policy.copy().learn(log.part(first, end)))
    while len(found) > 1:
        pairs = [found[i : i + 2] for i in range(0, len(found), 2)]
        found = [pair[0].merge(pair[1], since=policy) if len(pair) > 1 else pair[0] for pair in pairs]
    return found[0]


@pytest.mark.parametrize("kind", ["ConeTree-sound", "ConeTree-adaptive", "LinearParetoUCB", "BinnedParetoUCB"])
def test_every_file_is_learned_and_merged(kind, folder, log):
    policy = make(kind).learn(make_rows(200, seed=5))
    before = policy.copy()
    learned = cb.learn_shards(policy, folder, **NAMES, backend="sequential")
    assert_same_state(learned, by_hand(policy, log))
    assert_same_state(policy, before)
    assert learned.n_observations == 200 + sum(SIZES)


def test_the_kernel_learns_the_first_rows_in_one_place(folder, log, monkeypatch):
    monkeypatch.setattr("conebandit.policies.cone_kernel.fit.LAST_FIT", 400)
    monkeypatch.setattr(shards, "START_ROWS", 64)
    learned = cb.learn_shards(make("ConeKernel"), folder, **NAMES, backend="sequential")
    pooled = make("ConeKernel").learn(log)
    start = next(n for n in range(64, 2000, 64) if not make("ConeKernel").learn(log.part(0, n))._needs_a_start)
    assert_same_state(learned, by_hand(make("ConeKernel"), log, start))
    np.testing.assert_allclose(learned._state.covs, pooled._state.covs, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(learned._state.weights[..., 0], pooled._state.weights[..., 0], rtol=1e-6, atol=1e-9)


def test_where_all_rows_are_needed_to_begin_with_there_are_no_shards(folder, log):
    learned = cb.learn_shards(make("ConeKernel"), folder, **NAMES, backend="sequential")
    assert_same_state(learned, make("ConeKernel").learn(log))


@pytest.mark.filterwarnings("ignore")  # Dask warns of busy machines
@pytest.mark.parametrize("backend", ["loky", "dask"])
def test_the_result_does_not_depend_on_who_computes_it(folder, backend):
    if backend == "dask":
        pytest.importorskip("distributed", reason="pip install 'conebandit[dask]'")
    here = cb.learn_shards(make("ConeTree-sound"), folder, **NAMES, backend="sequential")
    for jobs in (1, 2) if backend == "loky" else (2,):
        there = cb.learn_shards(make("ConeTree-sound"), folder, **NAMES, backend=backend, jobs=jobs)
        assert_same_state(there, here)


@pytest.mark.filterwarnings("ignore")  # Ray leaves sockets and files to the garbage collector
@pytest.mark.large_package
def test_the_result_is_the_same_on_ray(folder):
    pytest.importorskip("ray", reason="pip install 'conebandit[ray]'")
    here = cb.learn_shards(make("ConeTree-sound"), folder, **NAMES, backend="sequential")
    assert_same_state(cb.learn_shards(make("ConeTree-sound"), folder, **NAMES, backend="ray", jobs=2), here)


def test_what_cannot_be_is_refused_before_anything_is_learned(folder, monkeypatch):
    monkeypatch.setattr(shards, "_learn", lambda _: pytest.fail("it has begun to learn"))
    with pytest.raises(TypeError, match="a SelfTuning cannot be merged"):
        cb.learn_shards(make("SelfTuning"), folder, **NAMES, backend="sequential")
    with pytest.raises(ValueError, match="backend must be one of"):
        cb.learn_shards(make("ParetoUCB1"), folder, **NAMES, backend="cluster")
    with pytest.raises(ValueError, match=r"site-0.parquet: there is no column 'given'"):
        cb.learn_shards(make("ParetoUCB1"), folder, **NAMES, arm="given", backend="sequential")
    with pytest.raises(ValueError, match="there is no Parquet file at"):
        cb.learn_shards(make("ParetoUCB1"), folder / "gone", **NAMES, backend="sequential")


@pytest.mark.parametrize("policy", [None, "ConeTree", cb.ConeTree])
def test_a_policy_is_needed(folder, policy):
    with pytest.raises(TypeError, match="policy must be one that learns from logs"):
        cb.learn_shards(policy, folder, **NAMES, backend="sequential")


def test_hidden_files_are_not_shards(folder):
    learned = cb.learn_shards(make("LinearParetoUCB"), folder, **NAMES, backend="sequential")
    (folder / ".begun").mkdir()
    for name in (".part.parquet", ".begun/part.parquet"):
        (folder / name).write_bytes(b"half of it")
    assert_same_state(cb.learn_shards(make("LinearParetoUCB"), folder, **NAMES, backend="sequential"), learned)


def test_shards_are_files():
    with pytest.raises(TypeError, match="files must be paths of Parquet files; got DataFrame"):
        cb.learn_shards(make("ParetoUCB1"), pl.DataFrame({"arm": [0]}), backend="sequential")


@pytest.mark.parametrize("files", [[], (), [[]]])
def test_at_least_one_file_is_needed(files):
    with pytest.raises(ValueError, match=r"files must be at least one Parquet file; got (\[\]|\(\))\. Give a file, a"):
        cb.learn_shards(make("ParetoUCB1"), files, backend="sequential")


def test_a_bad_row_is_named_by_its_file(folder):
    frame = pl.read_parquet(folder / "site-3.parquet")
    frame.with_columns(arm=pl.when(pl.int_range(pl.len()) == 17).then(9).otherwise("arm")).write_parquet(
        folder / "site-3.parquet"
    )
    policy = cb.ConeTree(3, CONE, 2, bounds=BOUNDS)
    with pytest.raises(ValueError, match=r"site-3.parquet, row 17: arm must be an integer from 0 to 2; got 9"):
        cb.learn_shards(policy, folder, **NAMES, backend="sequential")
    assert policy.n_observations == 0
