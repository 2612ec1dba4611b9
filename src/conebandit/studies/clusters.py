"""Calls on a Dask or a Ray cluster: handed over, and answered as they end.

Not by joblib, which hides how calls on clusters end.
"""

from __future__ import annotations

import itertools
import math
import pickle
import time
from collections.abc import Iterable, Iterator
from typing import Any

SHORT_SECONDS = 0.1  # calls that take less are handed over several at once
LOOK_SECONDS = 1.0  # how often the size of a cluster is asked for: it may grow

Call = Any  # made by joblib's ``delayed``
Calls = Iterable[Call]
Answer = tuple[list[Any], float]  # results of some calls, the first ones, and how many seconds they took


class DaskCluster:
    """By joblib nobody hears that a call has killed its workers, and a cluster with one thread gets no work."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def size(self) -> int:
        """How many calls it can make at once, at this moment."""
        return sum(self._client.nthreads().values())

    def submit(self, calls: list[Call]) -> Any:
        """Have some calls made."""
        import cloudpickle  # noqa: PLC0415  (comes with Dask)

        return self._client.submit(_made, cloudpickle.dumps(calls), pure=False)

    def first_of(self, under_way: list[Any]) -> Any:
        """One that has ended, once there is one."""
        from distributed import wait  # noqa: PLC0415  (an extra)

        return next(iter(wait(under_way, return_when="FIRST_COMPLETED").done))

    def answer(self, future: Any) -> Answer:
        """What one that has ended gives; raises what the calls raise, and if their worker has died."""
        answer: Answer = future.result()
        return answer

    def cancel(self, under_way: list[Any]) -> None:
        """Give up on what is under way."""
        if self._client.status == "running":  # otherwise they have ended with it
            self._client.cancel(under_way)


class RayLost(Exception):  # noqa: N818  (it is caught here)
    """A worker of Ray has died."""


class RayCluster:
    """Joblib would have the results of many calls at once, and lose them all when this process is killed."""

    def __init__(self, ray: Any) -> None:
        self._ray, self._run = ray, ray.remote(_made).options(num_cpus=1, max_retries=0)

    def size(self) -> int:
        """How many calls it can make at once, at this moment."""
        return int(self._ray.cluster_resources().get("CPU", 1))

    def submit(self, calls: list[Call]) -> Any:
        """Have some calls made."""
        return self._run.remote(self._ray.cloudpickle.dumps(calls))

    def first_of(self, under_way: list[Any]) -> Any:
        """One that has ended, once there is one."""
        return self._ray.wait(under_way, num_returns=1)[0][0]

    def answer(self, future: Any) -> Answer:
        """What one that has ended gives; raises what the calls raise, and if their worker has died."""
        try:
            answer: Answer = self._ray.get(future)
        except self._ray.exceptions.RayTaskError as error:  # what the call itself has raised
            raise error.cause from None
        except self._ray.exceptions.RayError as error:
            raise RayLost from error
        return answer

    def cancel(self, under_way: list[Any]) -> None:
        """Give up on what is under way."""
        for future in under_way:
            self._ray.cancel(future)


def _made(calls: bytes) -> Answer:
    """Unpacks calls, since what a worker of Dask cannot unpack it never answers; makes them, until that takes long."""
    start, results, seconds = time.monotonic(), [], 0.0
    for function, given, options in pickle.loads(calls):
        results.append(function(*given, **options))
        seconds = time.monotonic() - start
        if seconds > 2 * SHORT_SECONDS:
            break
    return results, seconds


def on_cluster(calls: Calls, cluster: DaskCluster | RayCluster) -> Iterator[Any]:
    """Results of calls on a cluster as they come; short ones are handed over several at once.

    Twice as many are under way as the cluster is large now, so that no worker has to wait for this process.
    """
    looked, most, at_once = -math.inf, 0, 1
    under_way: dict[Any, list[Call]] = {}
    waiting = iter(calls)
    try:
        while True:
            if time.monotonic() - looked > LOOK_SECONDS:
                looked, most = time.monotonic(), 2 * max(cluster.size(), 1)
            while len(under_way) < most and (some := list(itertools.islice(waiting, at_once))):
                under_way[cluster.submit(some)] = some
            if not under_way:
                return
            finished = cluster.first_of(list(under_way))
            some = under_way.pop(finished)
            results, seconds = cluster.answer(finished)
            if len(results) < len(some):
                waiting, at_once = itertools.chain(some[len(results) :], waiting), len(results)
            elif seconds < SHORT_SECONDS and len(results) == at_once:
                at_once *= 2
            yield from results
    finally:
        cluster.cancel(list(under_way))
