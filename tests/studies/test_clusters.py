"""Studies on a Dask and on a Ray cluster: the same bit for bit, also when a worker is killed."""

import sys

import pytest

import conebandit as cb
from tests.studies.killing import POSIX, lose_a_worker, noted, write_study

SEEDS = 24


@pytest.fixture(autouse=True)
def _paths_are_put_back(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])


@POSIX
@pytest.mark.filterwarnings("ignore")  # Dask tells of the worker that is gone
def test_a_dask_cluster_that_loses_a_worker_gives_the_same(tmp_path):
    pytest.importorskip("distributed", reason="pip install 'conebandit[dask]'")
    found = lose_a_worker(tmp_path, "dask", seeds=SEEDS)
    assert (found.kills, found.runs, found.lost, found.again, found.agrees) == (1, SEEDS, 0, 0, True)


@pytest.mark.filterwarnings("ignore")  # Dask warns of busy machines
def test_a_dask_scheduler_at_an_address_is_used(tmp_path):
    distributed = pytest.importorskip("distributed", reason="pip install 'conebandit[dask]'")
    file = write_study(tmp_path, 3)
    with distributed.LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address=None) as cluster:
        study = cb.run_study(file, file.with_suffix(""), backend="dask", address=cluster.scheduler_address)
    assert study.n_missing == 0
    assert sorted(noted(file)) == [0, 1, 2]
    with pytest.raises(ValueError, match=r"there is no Dask scheduler at tcp://127\.0\.0\.1:1"):
        cb.run_study(file, tmp_path / "other", backend="dask", address="tcp://127.0.0.1:1")


@POSIX
@pytest.mark.filterwarnings("ignore")  # Ray leaves sockets and files to the garbage collector
@pytest.mark.large_package
def test_a_ray_cluster_that_loses_a_worker_gives_the_same(tmp_path):
    pytest.importorskip("ray", reason="pip install 'conebandit[ray]'")
    found = lose_a_worker(tmp_path, "ray", seeds=SEEDS)
    assert (found.kills, found.runs, found.lost, found.again, found.agrees) == (1, SEEDS, 0, 0, True)


@pytest.mark.parametrize(("backend", "package"), [("dask", "distributed"), ("ray", "ray")])
def test_a_backend_that_is_not_installed_says_how_to_get_it(tmp_path, monkeypatch, backend, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ValueError, match=rf"backend {backend} needs .*: pip install 'conebandit\[{backend}\]'"):
        cb.run_study(write_study(tmp_path, 2), tmp_path / "out", backend=backend)
