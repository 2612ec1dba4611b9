"""Studies on a Dask and on a Ray cluster: the same bit for bit, also when a worker is killed."""

import os
import sys

import pytest

import conebandit as cb
from conebandit.studies import clusters
from conebandit.studies.pool import Workers, as_finished
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


@pytest.mark.filterwarnings("ignore")  # Dask warns of busy machines
def test_a_cluster_with_a_single_thread_makes_the_calls_itself():
    distributed = pytest.importorskip("distributed", reason="pip install 'conebandit[dask]'")
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        found = dict(as_finished(lambda _: os.getpid(), range(5), Workers("dask", address=cluster.scheduler_address)))
    assert set(found) == set(range(5))
    assert os.getpid() not in found.values()


@pytest.mark.filterwarnings("ignore")  # Dask warns of busy machines
def test_a_run_that_raises_what_is_no_exception_fails_like_others_on_dask(tmp_path, monkeypatch):
    pytest.importorskip("distributed", reason="pip install 'conebandit[dask]'")
    monkeypatch.setattr(sys, "path", [*sys.path])
    name = f"odd_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(
        "import conebandit as cb\n\n\ndef world(seed):\n"
        "    if seed in (1, 2):\n        raise (KeyboardInterrupt if seed == 1 else BaseException)('odd')\n"
        "    return cb.environments.paper(n_arms=3, change_point=20)\n"
    )
    (tmp_path / "s.toml").write_text(
        f'policies = ["random"]\nenvironments = ["{name}:world"]\nhorizon = 40\nseeds = 6\n'
    )
    with pytest.raises(RuntimeError, match=r"2 of 6 runs have failed.*2 have failed.*: KeyboardInterrupt: odd"):
        cb.run_study(tmp_path / "s.toml", tmp_path / "out", backend="dask", jobs=2)
    assert sorted(cb.load_study(tmp_path / "out").to_frame()["seed"]) == [0, 3, 4, 5]


@pytest.mark.filterwarnings("ignore")  # Dask warns of busy machines
def test_what_a_worker_of_dask_cannot_unpack_is_told():
    pytest.importorskip("distributed", reason="pip install 'conebandit[dask]'")
    with pytest.raises(ModuleNotFoundError, match="No module named 'not_there'"):
        list(as_finished(abs, [OnlyHere()], Workers("dask", jobs=1)))


class OnlyHere:
    """As an object of a class that workers do not have."""

    def __reduce__(self):
        return exec, ("import not_there",)


class Pretended:
    """A cluster of one that makes calls when it is asked for their answer."""

    def __init__(self):
        self.batches = []

    def size(self):
        return 1

    def submit(self, calls):
        self.batches.append(calls)
        return len(self.batches) - 1

    def first_of(self, under_way):
        return under_way[0]

    def answer(self, future):
        return clusters._made(self.batches[future])

    def cancel(self, under_way):
        assert under_way == []


def test_short_calls_go_together_and_long_ones_do_not_wait_for_each_other(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr("pickle.loads", lambda calls: calls)

    def take(number):  # the first hundred take a millisecond, then ten seconds
        now[0] += 0.001 if number < 100 else 10.0
        return number

    cluster = Pretended()
    found = list(clusters.on_cluster([(take, (n,), {}) for n in range(120)], cluster))
    assert sorted(found) == list(range(120))
    sizes = [len(batch) for batch in cluster.batches]
    assert max(sizes) >= 32
    assert sizes[-5:] == [1] * 5  # after the first long one was met
    assert now[0] == pytest.approx(0.1 + 200.0)  # no call was made twice


@POSIX
@pytest.mark.filterwarnings("ignore")  # of workers that are gone
@pytest.mark.parametrize("backend", ["dask", pytest.param("ray", marks=pytest.mark.large_package)])
def test_a_call_that_kills_its_workers_is_given_up_and_all_others_are_made(backend):
    package = {"dask": "distributed"}.get(backend, backend)
    pytest.importorskip(package, reason=f"pip install 'conebandit[{backend}]'")
    calls = as_finished(lambda n: os._exit(9) if n == 3 else n, range(8), Workers(backend, jobs=2), given_up=str)
    assert dict(calls) == {number: "3" if number == 3 else number for number in range(8)}


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
