"""What only looks at experiments and their logs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, FastAPI, Query
from fastapi.responses import JSONResponse, StreamingResponse

from conebandit.experiment.errors import InvalidError
from conebandit.service.audit import audit
from conebandit.service.export import FORMATS, export
from conebandit.service.http.access import Doorkeeper, guarded
from conebandit.service.http.backend import Backend
from conebandit.service.http.callers import CALLER
from conebandit.service.http.forms import AuditQuery, ContextQuery, ExperimentId
from conebandit.service.http.keys import may_use
from conebandit.service.http.replies import as_json
from conebandit.service.log.entries import shown_body
from conebandit.service.replies import (
    AuditPage,
    Description,
    EstimatedFront,
    EventPage,
    Explanation,
    LoggedEvent,
    ShiftReport,
    StateDigest,
)
from conebandit.service.stores.base import Store
from conebandit.service.stores.records import Head, Record
from conebandit.service.stores.seals import START

MAX_EVENTS = 1000  # of a page


def add_query_routes(app: FastAPI, door: Doorkeeper, backend: Backend) -> None:
    """Let the application answer what changes nothing."""
    look = guarded(door, "read")
    _add_experiments(look, backend)
    _add_log(look, backend)
    app.include_router(look)


def _add_experiments(look: APIRouter, backend: Backend) -> None:
    """Which experiments there are, what they are, and what they have learned."""

    @look.get("/experiments")
    async def list_experiments() -> list[str]:
        """Ids of all experiments that the key is for."""
        key = CALLER.get().key
        return [id_ for id_ in await backend.experiments() if may_use(key, id_)]

    @look.get("/experiments/{experiment}", response_model=Description)
    async def show(experiment: ExperimentId) -> JSONResponse:
        """Declaration, arms, mode and number of events."""
        return as_json(await backend.in_turn(experiment, lambda turn: turn.describe(experiment)))

    @look.get("/experiments/{experiment}/front", response_model=EstimatedFront)
    async def front(experiment: ExperimentId, context: ContextQuery = "{}") -> JSONResponse:
        """The arms on the front in a context, with estimates in the units of the metrics."""
        x = _context(context)
        return as_json(await backend.in_turn(experiment, lambda turn: turn.front(experiment, x)))

    @look.get("/experiments/{experiment}/explain", response_model=Explanation)
    async def explain(experiment: ExperimentId, context: ContextQuery = "{}") -> JSONResponse:
        """Why these arms, in this context."""
        x = _context(context)
        return as_json(await backend.in_turn(experiment, lambda turn: turn.explain(experiment, x)))

    @look.get("/experiments/{experiment}/state", response_model=StateDigest)
    async def state(experiment: ExperimentId) -> JSONResponse:
        """Where the log ends and a checksum of the state; the same from every process."""
        return as_json(await backend.in_turn(experiment, lambda turn: turn.digest(experiment)))


def _add_log(look: APIRouter, backend: Backend) -> None:
    """What the log says. It may be long, so it is read beside the writer, a few readers at a time."""

    @look.get("/experiments/{experiment}/events", response_model=EventPage)
    async def events(
        experiment: ExperimentId,
        after: Annotated[int, Query(ge=0, lt=2**53)] = 0,
        limit: Annotated[int, Query(ge=1, le=MAX_EVENTS)] = 100,
    ) -> JSONResponse:
        """A page of the log; ask again with ``after`` set to ``next``."""
        return as_json(await backend.read_long("events", _events, backend.store, experiment, after, limit))

    @look.get("/experiments/{experiment}/audit", response_model=AuditPage)
    async def audit_events(experiment: ExperimentId, wanted: AuditQuery) -> JSONResponse:
        """Who did what, and when: a page of the events by actor, key, kind and time, oldest first.

        While there is ``more``, ask again with ``after`` set to ``next``: a page may be empty in between.
        """
        asked = wanted.as_wanted()
        page = await backend.read_long("events", audit, backend.store, experiment, asked, wanted.after, wanted.limit)
        return as_json(page)

    @look.get("/experiments/{experiment}/export", response_class=StreamingResponse)
    async def export_all(
        experiment: ExperimentId, kind: Annotated[Literal["jsonl", "csv", "parquet"], Query(alias="format")] = "jsonl"
    ) -> StreamingResponse:
        """The log (JSON lines), or a table of decisions with their outcomes (CSV, Parquet)."""
        return await send_export(backend, experiment, kind)

    @look.get("/experiments/{experiment}/shift", response_model=ShiftReport)
    async def shift(experiment: ExperimentId) -> JSONResponse:
        """Whether the law of the contexts has changed since the beginning."""
        return as_json(await backend.read_long("shift", backend.shift.report, experiment))


def _events(store: Store, experiment: str, after: int, limit: int) -> EventPage:
    with store.read() as session:
        head = session.existing_head(experiment)
        page: list[Record] = []
        if after < head.seq:
            before = session.events(experiment, after - 1, after)
            start = Head(after, before[0].check if before else START)
            page = session.without_erased(experiment, next(session.checked(experiment, start, head, limit)))
    shown = tuple(LoggedEvent(record.seq, record.kind, record.check, shown_body(record)) for record in page)
    return EventPage(shown, next=page[-1].seq if page else after)


async def send_export(
    backend: Backend, experiment: str, kind: str, headers: Mapping[str, str] | None = None
) -> StreamingResponse:
    """An experiment as a file, which is made while it is sent; with all that edges have uploaded until now."""
    await backend.settle_uploads(experiment)
    parts = await backend.read_long("export", export, backend.store, experiment, kind)
    name = {"content-disposition": f'attachment; filename="{experiment}.{kind}"'}
    return StreamingResponse(_send(backend, parts), media_type=FORMATS[kind], headers={**(headers or {}), **name})


async def _send(backend: Backend, parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    """The parts of an export. While one is on its way to a caller who reads slowly, no thread waits."""
    while (part := await backend.read_long("export", next, parts, None)) is not None:
        yield part


def _context(text: str) -> dict[str, Any]:
    """The context in a query, which is a JSON object."""
    try:
        context = json.loads(text)
    except (ValueError, RecursionError):
        context = None
    if not isinstance(context, dict):
        raise InvalidError(f'context must be a JSON object such as {{"age": 34}}; got {text[:80]!a}.')
    return context
