"""Many calls of one function on several workers: of this machine, of a Dask cluster or of a Ray cluster.

Results come as they are finished, in any order. A worker may die (killed for want of memory, a machine that is gone):
its calls are made again elsewhere, but for one that kills whatever it runs on. Processes and threads of this machine
are joblib's; clusters are asked by their own interfaces, since joblib hides how calls on them end.

Sums of floating-point numbers depend on how many threads a linear-algebra library (BLAS) divides them among. Workers
have one thread for it, those of Dask and Ray by their own defaults, so all give the same results bit for bit.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args

from joblib import Parallel, cpu_count, delayed, parallel_config
from joblib.externals.loky.process_executor import BrokenProcessPool

from conebandit.studies.clusters import Call, Calls, DaskCluster, RayCluster, RayLost, on_cluster
from conebandit.validate.arguments import is_integer

Backend = Literal["loky", "threads", "dask", "ray", "sequential"]
BACKENDS: tuple[Backend, ...] = get_args(Backend)
MAX_LOSSES = 20  # times that workers may die without any call being finished in between
PATIENCE = 3  # times that they may die before it is found out which call does it, and others wait
MAX_TRIES = 3  # times that they may die of one call that is alone

Given = TypeVar("Given")
Result = TypeVar("Result")
Run = Callable[[Calls], Iterable[Any]]  # calls -> their results


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
    def in_this_process(self) -> bool:
        """Whether calls are made in this very process, where Ctrl-C may strike one."""
        return self.backend in ("sequential", "threads")

    @property
    def number(self) -> int:
        """How many processes or threads there are on this machine."""
        if self.backend == "sequential":
            return 1
        return self.jobs if self.jobs > 0 else int(cpu_count())


def as_finished(
    function: Callable[[Given], Result],
    given: Sequence[Given],
    workers: Workers,
    *,
    given_up: Callable[[Given], Result] | None = None,
    left_out: Callable[[Given], bool] = lambda _: False,
) -> Generator[tuple[int, Result], None, None]:
    """Call a function with each of these; its results as they come, each with the number of what was given.

    What the function raises is raised here, and ends it. When a worker dies, one of the calls under way may have killed
    it: these come after all others, in two halves, and so on until the one that does it is alone; or before, where
    workers have died several times without a result, since most calls may be of that kind. If it has died there
    ``MAX_TRIES`` times, its result is what ``given_up`` says of it; without that function, a ``RuntimeError`` ends it.

    A call for which ``left_out`` is true when it would be handed to a worker is not made, and has no result.

    Examples
    --------
    >>> sorted(as_finished(abs, [3, -4], Workers("sequential")))
    [(0, 3), (1, 4)]
    """
    waiting, losses = _Waiting(len(given)), 0
    with ExitStack() as opened:
        run, lost = opened.enter_context(_OPEN[workers.backend](workers))
        while group := waiting.next(losses):
            left, begun = dict.fromkeys(group), set[int]()
            wanted = (n for n in tuple(left) if not left_out(given[n]))  # asked when it is its turn
            calls = (_beginning(delayed(_numbered)(function, n, given[n]), begun, n) for n in wanted)
            try:
                for number, result in run(calls):
                    if number in left:  # where a worker was lost, a call may have been answered twice
                        del left[number]
                        losses = 0
                        yield number, result
            except lost as error:
                losses += 1
                culprit = waiting.after_a_loss(list(left), begun)
                if losses > MAX_LOSSES or (culprit is not None and given_up is None):
                    raise RuntimeError(_WORDS.format(times=losses)) from error
                if culprit is not None and given_up is not None:
                    losses = 0
                    yield culprit, given_up(given[culprit])


class _Waiting:
    """Groups of calls that are still to be made, by number; those of a group are under way together."""

    def __init__(self, calls: int) -> None:
        self._groups = deque([list(range(calls))])
        self._suspected = deque[list[int]]()  # one of each may have killed a worker; those at the end are the smallest
        self._tries = Counter[int]()

    def next(self, losses: int) -> list[int]:
        """Calls to make now; none if there are none. ``losses``: since when there was no result."""
        first, then = self._groups, self._suspected
        if then and losses >= PATIENCE:
            return then.pop()
        return first.popleft() if first else then.popleft() if then else []

    def after_a_loss(self, left: list[int], begun: set[int]) -> int | None:
        """Put back what was left when a worker died; the call that has killed it, if that is certain by now."""
        suspects, rest = [n for n in left if n in begun], [n for n in left if n not in begun]
        if rest:
            self._groups.appendleft(rest)
        if len(suspects) == 1:
            self._tries.update(suspects)
            if self._tries[suspects[0]] >= MAX_TRIES:
                return suspects[0]
        half = (len(suspects) + 1) // 2
        self._suspected.extend(part for part in (suspects[half:], suspects[:half]) if part)
        return None


_WORDS = (
    "workers have died {times} times without finishing a run: there is too little memory for so many, or what they run "
    "kills them. Try fewer jobs, or the backend sequential to see what happens; finished runs are kept."
)


def _beginning(call: Call, begun: set[int], number: int) -> Call:
    """A call, noted as one that workers have been handed."""
    begun.add(number)
    return call


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
            client = opened.enter_context(Client(where, timeout=30))
        except OSError as error:
            raise ValueError(f"there is no Dask scheduler at {workers.address}: {error}.") from None
        yield (lambda calls: on_cluster(calls, DaskCluster(client))), (KilledWorker,)


@contextmanager
def _ray(workers: Workers) -> Iterator[Opened]:
    try:
        import ray  # noqa: PLC0415  (an extra)
    except ModuleNotFoundError:
        raise ValueError("backend ray needs the package ray: pip install 'conebandit[ray]'.") from None
    where = {"address": workers.address} if workers.address else {"num_cpus": workers.number}
    started = not ray.is_initialized()
    if started:
        try:
            ray.init(**where, include_dashboard=None if workers.address else False, log_to_driver=False)
        except (ConnectionError, ValueError) as error:
            raise ValueError(f"there is no Ray cluster at {workers.address}: {error}.") from None
    try:
        yield (lambda calls: on_cluster(calls, RayCluster(ray))), (RayLost,)
    finally:
        if started:
            ray.shutdown()


_OPEN = {"sequential": _sequential, "threads": _threads, "loky": _loky, "dask": _dask, "ray": _ray}
