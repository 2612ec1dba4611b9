"""The client whose methods are awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Concatenate, ParamSpec, Self

from conebandit.service.client import requests
from conebandit.service.client.async_transport import AsyncTransport
from conebandit.service.client.common import Common, Outcome, Wanted, described
from conebandit.service.client.errors import ClientError
from conebandit.service.client.patience import Deadline
from conebandit.service.client.requests import Context, R, Request, Time, Times, Values
from conebandit.service.replies import Assignment, Receipt

P = ParamSpec("P")
WRITERS = 4  # threads that wait for the disk, for outcomes in the outbox


def _awaited(build: Callable[P, Request[R]]) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, R]]:
    """A method that sends the request which a function builds."""

    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self._ask(build(*args, **kwargs))

    return described(method, build)


class AsyncClient(Common):
    """A client of ``conebandit serve`` for asyncio: that of :class:`Client`, with methods that are awaited.

    It speaks HTTP over asyncio's streams, so hundreds of requests wait without a thread each, and a request that is
    cancelled ends there and then: its connection is closed, and no other request sees its answer. Whether the service
    has carried it out is not known, as after a broken connection; to send it again with the same id is safe. Only what
    waits for the disk, for the outbox, is done in threads.

    Parameters
    ----------
    address
        Such as ``http://127.0.0.1:8000``.
    key, retries, timeout, fallback, deadline, outbox, actor
        Those of :class:`Client`.

    Attributes
    ----------
    address
        As it was given.

    Examples
    --------
    >>> import asyncio, pathlib, tempfile, conebandit as cb
    >>> from conebandit.service.http.server import serving
    >>> async def visit(address):
    ...     metrics = [{"name": "clicks"}, {"name": "sales"}]
    ...     async with cb.AsyncClient(address) as client:
    ...         await client.create({"id": "e", "arms": ["old", "new"], "metrics": metrics})
    ...         decisions = await asyncio.gather(*(client.decide("e", id=f"visit-{i}") for i in range(20)))
    ...         await client.report("e", "visit-1", {"clicks": 1})
    ...         return len(decisions)
    >>> with tempfile.TemporaryDirectory() as folder, serving(str(pathlib.Path(folder) / "log.db")) as address:
    ...     asyncio.run(visit(address))
    20
    """

    def _begin(self) -> None:
        self._transport = AsyncTransport(self._site, self._retries)
        self._writers = None if self._outbox is None else ThreadPoolExecutor(WRITERS, "conebandit-outbox")

    # ---- traffic ----------------------------------------------------------------------------------------------------

    async def decide(
        self,
        experiment: str,
        context: Context | None = None,
        *,
        id: str | None = None,  # noqa: A002
        unit: str | None = None,
    ) -> Assignment:
        """Ask for an arm; for a unit, if the experiment declares units."""
        units = None if unit is None else [unit]
        return (await self.decide_many(experiment, [context or {}], ids=None if id is None else [id], units=units))[0]

    async def decide_many(
        self,
        experiment: str,
        contexts: Sequence[Context],
        *,
        ids: Sequence[str] | None = None,
        units: Sequence[str] | None = None,
    ) -> list[Assignment]:
        """Ask for several arms at once; all or none. For no context there is nothing to ask."""
        wanted = self._wanted(experiment, contexts, ids, units)
        return wanted.with_answers(await self._decide(wanted) if wanted.open else [])

    async def report(self, experiment: str, id: str, values: Values, *, observed_at: Time | None = None) -> Receipt:  # noqa: A002
        """Report metrics of a decision: any of them, at any time, again, or corrected.

        ``observed_at`` is when they were measured: a time with a zone, or ISO 8601 with an offset.
        """
        return (await self.report_many(experiment, {id: values}, observed_at=observed_at))[0]

    async def report_many(
        self, experiment: str, outcomes: Mapping[str, Values], *, observed_at: Times = None
    ) -> list[Receipt]:
        """Report metrics of several decisions, by id; all or none. Without outcomes nothing is sent.

        ``observed_at`` is when they were measured, one time for all or a table by id.
        """
        tables = requests.as_outcomes(outcomes, observed_at)
        sent = self._to_be_sent(experiment, tables)
        return self._all_receipts(tables, sent, await self._report(experiment, sent) if sent else [])

    async def flush(self) -> int:
        """Deliver what is in the outbox now, within ``timeout``; how many outcomes are left in it."""
        return 0 if self._courier is None else await self._in_thread(self._courier.flush)

    # ---- experiments, and looking -----------------------------------------------------------------------------------

    async def show(self, experiment: str) -> dict[str, Any]:
        """Declaration, arms, mode and number of events."""
        description = await self._ask(requests.show(experiment))
        self._fallbacks.learn_baseline(description)
        return description

    create = _awaited(requests.create)
    copy = _awaited(requests.copy)
    experiments = _awaited(requests.experiments)
    add_arm = _awaited(requests.add_arm)
    retire_arm = _awaited(requests.retire_arm)
    set_mode = _awaited(requests.set_mode)
    retract = _awaited(requests.retract)
    void = _awaited(requests.void)
    void_many = _awaited(requests.void_many)
    unvoid = _awaited(requests.unvoid)
    correct_context = _awaited(requests.correct_context)
    held = _awaited(requests.held)
    release = _awaited(requests.release)
    reject = _awaited(requests.reject)
    erase = _awaited(requests.erase)
    set_stage = _awaited(requests.set_stage)
    change = _awaited(requests.change)
    lift = _awaited(requests.lift)
    rules = _awaited(requests.rules)
    front = _awaited(requests.front)
    explain = _awaited(requests.explain)
    events = _awaited(requests.events)
    audit = _awaited(requests.audit)
    export = _awaited(requests.export)
    shift = _awaited(requests.shift)
    state = _awaited(requests.state)

    async def close(self) -> None:
        """Close the connections. What is in the outbox stays there, for the next client."""
        if self._courier is not None:
            await self._in_thread(self._courier.stop)
        self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _ask(self, request: Request[R]) -> R:
        if self._courier is not None and request.about is not None:
            await self._in_thread(self._courier.deliver_before, request)
        return await self._transport.ask(request, Deadline(self._timeout))

    async def _decide(self, wanted: Wanted) -> list[Assignment]:
        request = requests.decide(wanted.experiment, wanted.open)
        if not self._fallbacks.wanted:
            return await self._ask(request)
        error = self._why_not_ask(wanted.experiment)
        if error is None:
            deadline = Deadline(self._deadline)
            try:
                decided = await self._transport.ask(request, deadline)
            except ClientError as failure:
                error = self._was_not_answered(wanted.experiment, failure)
            else:
                self._was_decided(wanted, decided)
                await self._learn_baseline(wanted.experiment, deadline)
                return decided
        return self._in_place_of_the_service(wanted, error)

    async def _learn_baseline(self, experiment: str, deadline: Deadline) -> None:
        if self._fallbacks.wants_baseline(experiment):
            try:
                description = await self._transport.ask(requests.show(experiment), deadline)
                self._fallbacks.learn_baseline(description)
            except ClientError as error:
                self._fallbacks.baseline_refused(experiment, error)

    async def _report(self, experiment: str, outcomes: Sequence[Outcome]) -> list[Receipt]:
        request = requests.report(experiment, outcomes)
        if self._outbox is None:
            return await self._ask(request)
        if not self._must_be_queued(self._outbox, experiment, outcomes):
            try:
                receipts = await self._transport.ask(request, Deadline(self._deadline))
            except ClientError as error:
                self._was_not_answered(experiment, error)
            else:
                self._was_answered(experiment)
                return receipts
        return await self._in_thread(self._queue, self._outbox, experiment, outcomes)

    async def _in_thread(self, call: Callable[..., R], *args: Any) -> R:
        """In a thread of ours: asyncio's own may all be busy with what the program does in them."""
        return await asyncio.get_running_loop().run_in_executor(self._writers, call, *args)
