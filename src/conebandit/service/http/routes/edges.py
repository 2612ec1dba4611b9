"""What edges ask for: a state to decide from, and that their decisions are put into the log."""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import Body, FastAPI, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import TypeAdapter

from conebandit.service.http.access import Doorkeeper, guarded
from conebandit.service.http.backend import Backend
from conebandit.service.http.callers import CALLER
from conebandit.service.http.forms import EdgeDecisions, ExperimentId
from conebandit.service.http.metrics import RequestCounts
from conebandit.service.http.quick import ShortWay, ShortWays
from conebandit.service.http.replies import as_quick_json
from conebandit.service.replies import Upload

CONTENT = "application/octet-stream"
EdgeDecisionsBody = Annotated[EdgeDecisions, Body()]


def add_edge_routes(app: FastAPI, door: Doorkeeper, backend: Backend, counts: RequestCounts) -> None:
    """Let others decide. Whoever may ask for decisions may make them, since each is checked."""
    deciding = guarded(door, "decide")

    @deciding.post("/experiments/{experiment}/edge/decisions", response_model=Upload)
    async def take(experiment: ExperimentId, sent: EdgeDecisionsBody) -> Response:
        """Put decisions into the log that an edge has made from a published state; again changes nothing.

        Each of them is taken, was there, or is refused with a reason; one that is refused does not hold up the others.
        """
        door.charge(len(sent.decisions))
        state = sent.state, sent.check
        batch = await backend.in_thread(backend.edge_desk.check, experiment, state, sent.edge, sent.decisions)
        by = CALLER.get().by
        if backend.store.shared:
            upload = await backend.in_thread(backend.uploads.add, experiment, sent.edge, batch, by)
        else:
            upload = await backend.in_turn(experiment, lambda turn: turn.take(experiment, batch, by))
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
    way = ShortWay(cast("APIRoute", deciding.routes[0]), "decide", TypeAdapter(EdgeDecisionsBody), take)
    app.add_middleware(ShortWays, door=door, ways=[way])
