"""What edges ask for: a state to decide from, and that their decisions are put into the log."""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import Body, FastAPI, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import TypeAdapter

from conebandit.service.engine.quick_desk import RawUpload, ready_at
from conebandit.service.http.access import Doorkeeper, guarded
from conebandit.service.http.backend import Backend
from conebandit.service.http.callers import CALLER
from conebandit.service.http.forms import EdgeDecisions, ExperimentId
from conebandit.service.http.metrics import RequestCounts
from conebandit.service.http.quick import ShortWay, ShortWays
from conebandit.service.http.replies import as_quick_json
from conebandit.service.log.entries import By
from conebandit.service.replies import Upload

CONTENT = "application/octet-stream"
EdgeDecisionsBody = Annotated[EdgeDecisions, Body()]
_form: TypeAdapter[EdgeDecisions] = TypeAdapter(EdgeDecisionsBody)


class _QuickForm:
    """Reads what edges send, and leaves for later whether single decisions are of the right types."""

    def validate_json(self, data: bytes, /) -> RawUpload | EdgeDecisions:
        """What was sent; a ``ValidationError`` if it is not as it should be."""
        return RawUpload.read(data) or _form.validate_json(data)


def add_edge_routes(app: FastAPI, door: Doorkeeper, backend: Backend, counts: RequestCounts) -> None:
    """Let others decide. Whoever may ask for decisions may make them, since each is checked."""
    deciding = guarded(door, "decide")

    @deciding.post("/experiments/{experiment}/edge/decisions", response_model=Upload)
    async def take(experiment: ExperimentId, sent: EdgeDecisionsBody) -> Response:
        """Put decisions into the log that an edge has made from a published state; again changes nothing.

        Each of them is taken, was there, or is refused with a reason; one that is refused does not hold up the others.
        """
        return await answer(experiment, sent)

    async def answer(experiment: str, sent: RawUpload | EdgeDecisions) -> Response:
        door.charge(len(sent.decisions))
        by = CALLER.get().by
        upload = await _take_quickly(backend, experiment, sent, by) if isinstance(sent, RawUpload) else None
        if upload is None:
            strict = _form.validate_json(sent.body) if isinstance(sent, RawUpload) else sent
            upload = await _take(backend, experiment, strict, by)
        counts.uploaded(experiment, upload)
        return as_quick_json(upload)

    @deciding.get("/experiments/{experiment}/edge/state", response_class=Response)
    async def edge_state(experiment: ExperimentId, request: Request) -> Response:
        """The state to decide from at an edge, as a file for ``Edge``; 304 if ``If-None-Match`` has its ``ETag``."""
        published = await backend.in_turn(experiment, lambda turn: turn.publish(experiment))
        headers = {"etag": f'"{published.tag}"', "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == headers["etag"]:
            return Response(status_code=304, headers=headers)
        content = await backend.in_thread(lambda: published.content)
        return Response(content, media_type=CONTENT, headers=headers)

    app.include_router(deciding)
    way = ShortWay(cast("APIRoute", deciding.routes[0]), "decide", _QuickForm(), answer)
    app.add_middleware(ShortWays, door=door, ways=[way])


async def _take_quickly(backend: Backend, experiment: str, sent: RawUpload, by: By | None) -> Upload | None:
    """Put decisions into the log; None if there is something to look at, or this process does not know their state."""
    ready = await backend.in_thread(ready_at, backend.edge_desk, experiment, sent, by)
    if ready is None:
        return None
    if backend.store.shared:
        return await backend.in_thread(backend.uploads.add_ready, experiment, sent.edge, ready, by)
    return await backend.in_turn(experiment, lambda turn: turn.take_ready(experiment, ready))


async def _take(backend: Backend, experiment: str, sent: EdgeDecisions, by: By | None) -> Upload:
    """Put what may be put into the log, and say why the rest may not."""
    state = sent.state, sent.check
    batch = await backend.in_thread(backend.edge_desk.check, experiment, state, sent.edge, sent.decisions)
    if backend.store.shared:
        return await backend.in_thread(backend.uploads.add, experiment, sent.edge, batch, by, sent.heard)
    return await backend.in_turn(experiment, lambda turn: turn.take(experiment, batch, by))
