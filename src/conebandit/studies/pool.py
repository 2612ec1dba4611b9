"""Many calls of one function on several workers: of this machine, of a Dask cluster or of a Ray cluster.

All go through joblib. Results come as they are finished, in any order. A worker may die (killed for want of memory, a
machine that is gone): its calls are made again elsewhere.

Sums of floating-point numbers depend on how many threads a linear-algebra library (BLAS) divides them among. Workers
have one thread for it, those of Dask and Ray by their own defaults, so all give the same results bit for bit.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args

from joblib import Parallel, cpu_count, delayed, parallel_config
from joblib.externals.loky.process_executor import BrokenProcessPool

from conebandit.validate.arguments import is_integer

Backend = Literal["loky", "threads", "dask", "ray", "sequential"]
BACKENDS: tuple[Backend, ...] = get_args(Backend)
MAX_LOSSES = 5  # times that workers may die without any call being finished in between
WAVE_SECONDS = 20.0  # where results come in waves, about this often

Given = TypeVar("Given")
Result = TypeVar("Result")
Calls = Iterable[Any]
Run = Callable[[Calls], Iterable[Any]]  # calls made by ``delayed`` -> their results


@dataclass(frozen=True)
class Workers:
    """Where calls are made.

    Attributes
    ----------
    backend
        "loky", processes of this machine; "threads", threads of this process, which start at once and are as fast
        where calls spend their time in kernels; "dask" or "ray", a cluster; "sequential", this very process, where a
        debugger sees everything. In this process BLAS may have several threads.
    jobs
        Number of processes or threads on this machine; 0, or -1 as joblib has it, for one on each core. The backend
        "sequential" has one, so that nobody believes otherwise.
    address
        Of a Dask scheduler or of a Ray cluster; without one, a cluster is started on this machine.

    Examples
    --------
    >>> Workers("dask", jobs=4).number
    4
    """

    backend: Backend = "loky"
    jobs: int = 0
    address: str | None = None

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise ValueError(f"backend must be one of {', '.join(BACKENDS)}; got {self.backend!r}.")
        if not is_integer(self.jobs) or self.jobs < -1:
            raise ValueError(f"jobs must be a number of processes, or 0 for one on each core; got {self.jobs!r}.")
        if self.backend == "sequential" and self.jobs not in (0, 1):
            raise ValueError(
                f"backend sequential makes one run after the other: jobs must be 1, or left out; got {self.jobs}."
            )
        if self.address is not None and self.backend not in ("dask", "ray"):
            raise ValueError(f"address is for clusters: backend must be dask or ray; got {self.backend}.")
        if self.address is not None and self.jobs > 0:
            raise ValueError(f"jobs is for this machine; a cluster at an address is used as it is; got {self.jobs}.")

    @property
    def number(self) -> int:
        """How many processes or threads there are on this machine."""
        if self.backend == "sequential":
            return 1
        return self.jobs if self.jobs > 0 else int(cpu_count())


def as_finished(
    function: Callable[[Given], Result], given: Sequence[Given], workers: Workers
) -> Generator[tuple[int, Result], None, None]:
    """Call a function with each of these; its results as they come, each with the number of what was given.

    What the function raises is raised here, and ends it.

    Examples
    --------
    >>> sorted(as_finished(abs, [3, -4], Workers("sequential")))
    [(0, 3), (1, 4)]
    """
    left = set(range(len(given)))
    losses = 0
    with ExitStack() as opened:
        run, lost = opened.enter_context(_OPEN[workers.backend](workers))
        while left:
            try:
                for number, result in run(delayed(_numbered)(function, n, given[n]) for n in sorted(left)):
                    if number in left:  # where a worker was lost, a call may have been answered twice
                        left.remove(number)
                        losses = 0
                        yield number, result
            except lost as error:
                losses += 1
                if losses > MAX_LOSSES:
                    raise RuntimeError(
                        f"workers have died {losses} times without finishing a run: there is too little memory for so "
                        "many, or what they run kills them. Try fewer jobs, or the backend sequential to see what "
                        "happens; finished runs are kept."
                    ) from error


def _numbered(function: Callable[[Given], Result], number: int, given: Given) -> tuple[int, Result]:
    return number, function(given)


Opened = tuple[Run, tuple[type[Exception], ...]]  # how calls are made, and what is raised when a worker has died


@contextmanager
def _sequential(_: Workers) -> Iterator[Opened]:
    with parallel_config("sequential", n_jobs=1):
        yield Parallel(return_as="generator_unordered"), ()


@contextmanager
def _threads(workers: Workers) -> Iterator[Opened]:
    with parallel_config("threading", n_jobs=workers.number):
        yield Parallel(return_as="generator_unordered"), ()


@contextmanager
def _loky(workers: Workers) -> Iterator[Opened]:
    # With one process joblib would make the calls in this one. So there are two, and only one has something to do.
    ahead = "2 * n_jobs" if workers.number > 1 else 1
    with parallel_config("loky", n_jobs=max(workers.number, 2), inner_max_num_threads=1):
        yield Parallel(return_as="generator_unordered", pre_dispatch=ahead), (BrokenProcessPool,)


@contextmanager
def _dask(workers: Workers) -> Iterator[Opened]:
    try:
        from distributed import Client, KilledWorker, LocalCluster  # noqa: PLC0415  (an extra)
    except ModuleNotFoundError:
        raise ValueError("backend dask needs the package distributed: pip install 'conebandit[dask]'.") from None
    with ExitStack() as opened:
        where: Any = workers.address
        if where is None:
            where = opened.enter_context(
                LocalCluster(n_workers=workers.number, threads_per_worker=1, dashboard_address=None)
            )
        try:
            opened.enter_context(Client(where, timeout=30))
        except OSError as error:
            raise ValueError(f"there is no Dask scheduler at {workers.address}: {error}.") from None
        opened.enter_context(parallel_config("dask", n_jobs=-1))
        yield Parallel(return_as="generator_unordered"), (KilledWorker,)


@contextmanager
def _ray(workers: Workers) -> Iterator[Opened]:
    try:
        import ray  # noqa: PLC0415  (an extra)
        from ray.util.joblib import register_ray  # noqa: PLC0415
    except ModuleNotFoundError:
        raise ValueError("backend ray needs the package ray: pip install 'conebandit[ray]'.") from None
    where = {"address": workers.address} if workers.address else {"num_cpus": workers.number}
    started = not ray.is_initialized()
    if started:
        try:
            ray.init(**where, include_dashboard=None if workers.address else False, log_to_driver=False)
        except (ConnectionError, ValueError) as error:
            raise ValueError(f"there is no Ray cluster at {workers.address}: {error}.") from None
    register_ray()
    try:
        with parallel_config("ray", n_jobs=-1):
            size = max(int(ray.cluster_resources().get("CPU", 1)), 1)
            yield (lambda calls: _in_waves(calls, size)), (ray.exceptions.RayError,)
    finally:
        if started:
            ray.shutdown()


def _in_waves(calls: Calls, size: int) -> Iterator[Any]:
    """Results wave by wave, for a backend that hands over those of all calls at once; the first waves are small."""
    rest = iter(calls)
    with Parallel() as pool:
        while wave := list(itertools.islice(rest, size)):
            start = time.monotonic()
            yield from pool(wave)
            if time.monotonic() - start < WAVE_SECONDS / 2:
                size *= 2


_OPEN = {"sequential": _sequential, "threads": _threads, "loky": _loky, "dask": _dask, "ray": _ray}
