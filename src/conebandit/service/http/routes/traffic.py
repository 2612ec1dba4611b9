"""Decisions and outcomes."""

from __future__ import annotations

from typing import Annotated, Any, cast

from fastapi import FastAPI
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import Field, TypeAdapter

from conebandit.service.engine.requests import Decide
from conebandit.service.engine.traffic import assignment
from conebandit.service.http.access import Doorkeeper, guarded
from conebandit.service.http.backend import Backend
from conebandit.service.http.forms import (
    DecisionsBody,
    DecisionTable,
    DecisionTables,
    ExperimentId,
    Outcomes,
    OutcomesBody,
)
from conebandit.service.http.metrics import DECISIONS, OUTCOMES
from conebandit.service.http.quick import ShortWay, ShortWays
from conebandit.service.http.replies import as_quick_json
from conebandit.service.replies import Assignment, Assignments, Receipt, Receipts


def add_traffic_routes(app: FastAPI, door: Doorkeeper, backend: Backend) -> None:
    """Let the application decide and take reports; ``/metrics`` shows how long that takes."""
    deciding, reporting = guarded(door, "decide"), guarded(door, "report")

    @deciding.post(DECISIONS, response_model=Assignment | Assignments)
    async def decide(experiment: ExperimentId, asked: DecisionsBody) -> Response:
        """Ask for an arm, or for several with ``{"decisions": [...]}``.

        The same id with the same context always gets the same answer; with another context: 409.
        """
        return await decide_tables(experiment, asked.model_dump())

    async def decide_tables(experiment: str, asked: dict[str, Any]) -> Response:
        requests = asked.get("decisions")
        door.charge(1 if requests is None else len(requests))
        made = await backend.in_turn(experiment, Decide(experiment, [asked] if requests is None else requests))
        tables = list(map(assignment, made))
        return as_quick_json(tables[0] if requests is None else {"decisions": tables})

    @reporting.post(OUTCOMES, response_model=Receipt | Receipts)
    async def report(experiment: ExperimentId, told: OutcomesBody) -> Response:
        """Report metrics of a decision, or of several with ``{"outcomes": [...]}``.

        Any subset, at any time. A repeated report changes nothing, another value is a correction, an unknown id: 404.
        """
        many = told.outcomes if isinstance(told, Outcomes) else [told]
        requests = list(map(vars, many))
        door.charge(len(requests))
        answer = await backend.in_turn(experiment, lambda turn: turn.report(experiment, requests))
        return as_quick_json(Receipts(tuple(answer)) if isinstance(told, Outcomes) else answer[0])

    app.include_router(deciding)
    app.include_router(reporting)
    # In this order, and only one of them if it fits: each entry of a batch would be looked at twice.
    tables: TypeAdapter[Any] = TypeAdapter(Annotated[DecisionTables | DecisionTable, Field(union_mode="left_to_right")])
    ways = [
        ShortWay(cast("APIRoute", deciding.routes[0]), "decide", tables, decide_tables),
        ShortWay(cast("APIRoute", reporting.routes[0]), "report", TypeAdapter(OutcomesBody), report),
    ]
    app.add_middleware(ShortWays, door=door, ways=ways)
