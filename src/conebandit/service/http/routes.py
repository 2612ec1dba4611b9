"""The service over HTTP: what only looks."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Query
from fastapi.responses import PlainTextResponse, Response, StreamingResponse

from conebandit.experiment.errors import InvalidError
from conebandit.service.errors import NotFoundError
from conebandit.service.export import FORMATS, export
from conebandit.service.http.access import ExperimentId, Shared, guarded
from conebandit.service.http.metrics import FORMAT
from conebandit.service.stores.base import Head, Store
from conebandit.service.stores.records import START, Event

MAX_EVENTS = 1000  # of a page

ContextQuery = Annotated[str, Query(description="A JSON object", examples=['{"age": 34, "device": "phone"}'])]


def add_reading(app: FastAPI, shared: Shared) -> None:
    """Let the application answer what is asked of experiments."""
    look = guarded(shared, "read")

    @look.get("/experiments")
    async def list_experiments() -> list[str]:
        """Ids of all experiments."""
        found: list[str] = await shared.read(_list, shared.store)
        return found

    @look.get("/experiments/{experiment}")
    async def show(experiment: ExperimentId) -> dict[str, Any]:
        """Declaration, arms, mode and number of events."""
        answer: dict[str, Any] = await shared.ask(experiment, lambda turn: turn.describe(experiment))
        return answer

    @look.get("/experiments/{experiment}/front")
    async def front(experiment: ExperimentId, context: ContextQuery = "{}") -> dict[str, Any]:
        """The arms held for undominated in a context, with estimates in the units of the metrics."""
        x = _context(context)
        answer: dict[str, Any] = await shared.ask(experiment, lambda turn: turn.front(experiment, x))
        return answer

    @look.get("/experiments/{experiment}/explain")
    async def explain(experiment: ExperimentId, context: ContextQuery = "{}") -> dict[str, Any]:
        """Why these arms, in this context."""
        x = _context(context)
        answer: dict[str, Any] = await shared.ask(experiment, lambda turn: turn.explain(experiment, x))
        return answer

    @look.get("/experiments/{experiment}/state")
    async def state(experiment: ExperimentId) -> dict[str, Any]:
        """Where the log ends and a checksum of the state; the same from every process."""
        answer: dict[str, Any] = await shared.ask(experiment, lambda turn: turn.digest(experiment))
        return answer

    @look.get("/experiments/{experiment}/events")
    async def events(
        experiment: ExperimentId,
        after: Annotated[int, Query(ge=0, lt=2**53)] = 0,
        limit: Annotated[int, Query(ge=1, le=MAX_EVENTS)] = 100,
    ) -> dict[str, Any]:
        """A page of the log; ask again with ``after`` set to ``next``."""
        answer: dict[str, Any] = await shared.read_long("events", _events, shared.store, experiment, after, limit)
        return answer

    @look.get("/experiments/{experiment}/export", response_class=StreamingResponse)
    async def export_all(
        experiment: ExperimentId, kind: Annotated[Literal["jsonl", "csv", "parquet"], Query(alias="format")] = "jsonl"
    ) -> StreamingResponse:
        """The log (JSON lines), or a table of decisions with their outcomes (CSV, Parquet)."""
        parts = await shared.read_long("export", export, shared.store, experiment, kind)
        name = f'attachment; filename="{experiment}.{kind}"'
        return StreamingResponse(_sent(shared, parts), media_type=FORMATS[kind], headers={"content-disposition": name})

    @look.get("/experiments/{experiment}/shift")
    async def shift(experiment: ExperimentId) -> dict[str, Any]:
        """Whether the law of the contexts has changed since the beginning."""
        answer: dict[str, Any] = await shared.read_long("shift", shared.shift.report, experiment)
        return answer

    app.include_router(look)


def add_operations(app: FastAPI, shared: Shared) -> None:
    """Let the application say how it is."""

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Whether the store can be read."""
        await shared.read(_list, shared.store)
        return {"status": "ok"}

    look = guarded(shared, "read")

    @look.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Counters, and histograms of latencies, in the text format of Prometheus."""
        return Response(_metrics(shared), headers={"content-type": FORMAT})

    app.include_router(look)


def _list(store: Store) -> list[str]:
    with store.read() as session:
        return session.experiments()


def _events(store: Store, experiment: str, after: int, limit: int) -> dict[str, Any]:
    with store.read() as session:
        head = session.head(experiment)
        if head is None:
            raise NotFoundError(f"there is no experiment {experiment!a}.")
        page: list[Event] = []
        if after < head.seq:
            before = session.events(experiment, after - 1, after)
            start = Head(after, before[0].check if before else START)
            page = next(session.checked(experiment, start, head, limit))
    rows = [{"seq": e.seq, "kind": e.kind, "check": e.check, "body": e.body} for e in page]
    return {"events": rows, "next": page[-1].seq if page else after}


async def _sent(shared: Shared, parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    """The parts of an export. While one is on its way to a caller who reads slowly, no thread waits."""
    while (part := await shared.read_long("export", next, parts, None)) is not None:
        yield part


def _context(text: str) -> dict[str, Any]:
    try:
        context = json.loads(text)
    except (ValueError, RecursionError):
        context = None
    if not isinstance(context, dict):
        raise InvalidError(f'context must be a JSON object such as {{"age": 34}}; got {text[:80]!a}.')
    return context


def _metrics(shared: Shared) -> str:
    writer = shared.writer
    return shared.metrics.text(
        {
            ("conebandit_events_total", "counter"): writer.events_written,
            ("conebandit_commits_total", "counter"): writer.turns,
            ("conebandit_waiting_requests", "gauge"): writer.waiting,
            ("conebandit_running_revisions", "gauge"): writer.revising,
        }
    )
