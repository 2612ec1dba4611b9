"""What somebody says about the log afterwards: values on hold, retractions, voids, contexts that were wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from fastapi import FastAPI, Query
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from conebandit.service.engine.turn import Turn
from conebandit.service.http.access import Doorkeeper, guarded
from conebandit.service.http.backend import Backend
from conebandit.service.http.forms import ContextsBody, ExperimentId, RetractionsBody, ReviewsBody, VoidsBody
from conebandit.service.http.replies import as_json
from conebandit.service.log.held import on_hold
from conebandit.service.replies import Amendment, Amendments, HeldValues

MAX_HELD = 1000  # events that are looked at for a page of values on hold

Amend = Callable[[Turn, str, Sequence[dict[str, Any]]], list[Amendment]]


def add_amendment_routes(app: FastAPI, door: Doorkeeper, backend: Backend) -> None:
    """Let the application take back what is not true. Whoever may report may retract; the rest is for an ``admin``."""
    look, reporting, admin = guarded(door, "read"), guarded(door, "report"), guarded(door, "admin")

    async def amend(experiment: str, told: BaseModel, batch: str, how: Amend) -> JSONResponse:
        body = told.model_dump()
        answer = await backend.in_turn(experiment, lambda turn: how(turn, experiment, body.get(batch, [body])))
        return as_json(Amendments(tuple(answer)) if batch in body else answer[0])

    @look.get("/experiments/{experiment}/held", response_model=HeldValues)
    async def held(
        experiment: ExperimentId,
        after: Annotated[int, Query(ge=0, lt=2**53)] = 0,
        limit: Annotated[int, Query(ge=1, le=MAX_HELD)] = 100,
    ) -> JSONResponse:
        """Values that somebody must look at, oldest first; ask again with ``after`` set to ``next`` until it stays."""
        return as_json(await backend.read_long("events", on_hold, backend.store, experiment, after, limit))

    @admin.post("/experiments/{experiment}/held", response_model=Amendment | Amendments)
    async def review(experiment: ExperimentId, told: ReviewsBody) -> JSONResponse:
        """Release or reject values on hold, or several with ``{"reviews": [...]}``. If others are on hold now: 409."""
        return await amend(experiment, told, "reviews", Turn.review)

    @reporting.post("/experiments/{experiment}/retractions", response_model=Amendment | Amendments)
    async def retract(experiment: ExperimentId, told: RetractionsBody) -> JSONResponse:
        """Take values back, or several with ``{"retractions": [...]}``: what is true is not known. No value: 409."""
        return await amend(experiment, told, "retractions", Turn.retract)

    @admin.post("/experiments/{experiment}/voids", response_model=Amendment | Amendments)
    async def void(experiment: ExperimentId, told: VoidsBody) -> JSONResponse:
        """Learn nothing from a decision, or from several with ``{"voids": [...]}``; or again, with ``void`` false."""
        return await amend(experiment, told, "voids", Turn.void)

    @admin.post("/experiments/{experiment}/contexts", response_model=Amendment | Amendments)
    async def correct_context(experiment: ExperimentId, told: ContextsBody) -> JSONResponse:
        """Learn from a decision in another context, or from several with ``{"contexts": [...]}``."""
        return await amend(experiment, told, "contexts", Turn.correct_context)

    for router in (look, reporting, admin):
        app.include_router(router)
