"""Studies on a Dask and on a Ray cluster: the same bit for bit, also when a worker is killed."""

import os
import signal
import sys
import threading
import time

import pytest

import conebandit as cb
from tests.studies.killing import finished, noted, results, write_study

SEEDS = 24


@pytest.fixture
def files(tmp_path, monkeypatch):
    """The same study twice, one to be disturbed and one to be left in peace."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield write_study(tmp_path / "disturbed", SEEDS), write_study(tmp_path / "calm", SEEDS)
    sys.modules.pop("noting", None)


def as_undisturbed(disturbed, calm):
    """Whether two studies have found the same, bit for bit, with no run lost or made again once it was finished."""
    sys.modules.pop("noting", None)
    cb.run_study(calm, calm.with_suffix(""), backend="sequential")
    mine, theirs = (results(file.with_suffix("")) for file in (disturbed, calm))
    assert mine.height == SEEDS
    return mine.equals(theirs, null_equal=True)


def kill_once(file, pid_of_a_worker):
    """Kill a worker when the first runs are finished; the thread that does it, and the numbers of those killed."""
    killed = []

    def watch():
        end = time.monotonic() + 120
        while len(finished(file.with_suffix(""))) < 3 and time.monotonic() < end:
            time.sleep(0.02)
        pid = pid_of_a_worker()
        os.kill(pid, signal.SIGKILL)
        killed.append(pid)

    thread = threading.Thread(target=watch)
    thread.start()
    return thread, killed


@pytest.mark.filterwarnings("ignore")  # Dask tells of the worker that is gone
def test_a_dask_cluster_that_loses_a_worker_gives_the_same(files):
    distributed = pytest.importorskip("distributed", reason="pip install 'conebandit[dask]'")
    disturbed, calm = files
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        pids = list(client.run(os.getpid).values())
        thread, killed = kill_once(disturbed, lambda: pids[0])
        cb.run_study(disturbed, disturbed.with_suffix(""), backend="dask", address=cluster.scheduler_address)
        thread.join()
    assert killed == pids[:1]
    assert len(noted(disturbed)) >= SEEDS
    assert as_undisturbed(disturbed, calm)


@pytest.mark.filterwarnings("ignore")  # Ray leaves sockets and files to the garbage collector
@pytest.mark.large_package
def test_a_ray_cluster_that_loses_a_worker_gives_the_same(files, tmp_path):
    ray = pytest.importorskip("ray", reason="pip install 'conebandit[ray]'")
    disturbed, calm = files
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        thread, killed = kill_once(disturbed, lambda: int(disturbed.with_name("pids").read_text().split()[0]))
        module = disturbed.with_name("noting.py")
        note = 'Path(__file__).with_name("pids").write_text(f"{os.getpid()}")'
        module.write_text(module.read_text().replace("time.sleep", f"{note}; time.sleep"))
        cb.run_study(disturbed, disturbed.with_suffix(""), backend="ray")
        thread.join()
    finally:
        ray.shutdown()
    assert len(killed) == 1
    assert as_undisturbed(disturbed, calm)


@pytest.mark.parametrize(("backend", "package"), [("dask", "distributed"), ("ray", "ray")])
def test_a_backend_that_is_not_installed_says_how_to_get_it(files, monkeypatch, backend, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ValueError, match=rf"backend {backend} needs .*: pip install 'conebandit\[{backend}\]'"):
        cb.run_study(files[0], files[0].with_suffix(""), backend=backend)
