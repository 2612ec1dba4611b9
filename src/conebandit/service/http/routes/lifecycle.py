"""Stages, changes of a declaration and safety rules."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.responses import JSONResponse

from conebandit.experiment.policy import make_policy
from conebandit.service.engine.lifecycle import CheckedChange
from conebandit.service.engine.writer import Writer
from conebandit.service.http.access import Doorkeeper, guarded
from conebandit.service.http.backend import Backend
from conebandit.service.http.forms import DeclarationChange, ExperimentId, LiftRequest, StageChange
from conebandit.service.http.replies import as_json
from conebandit.service.log.replay import all_arms, latest_declaration
from conebandit.service.replies import Description, RulesReport


def add_lifecycle_routes(app: FastAPI, door: Doorkeeper, backend: Backend) -> None:
    """Let the application lead experiments through their stages."""
    admin, look = guarded(door, "admin"), guarded(door, "read")

    @admin.post("/experiments/{experiment}/stage", response_model=Description)
    async def change_stage(experiment: ExperimentId, change: StageChange) -> JSONResponse:
        """Begin a draft, pause, go on, or end for good."""
        stage, reason = change.stage, change.reason
        return as_json(await backend.in_turn(experiment, lambda turn: turn.set_stage(experiment, stage, reason)))

    @admin.post("/experiments/{experiment}/change", response_model=Description)
    async def change_declaration(experiment: ExperimentId, change: DeclarationChange) -> JSONResponse:
        """Declare policy, cone, resolution or rules otherwise; the policy learns the whole log anew."""
        checked = await backend.read_long("declaration", _checked, backend.writer, experiment, change.changes)
        return as_json(
            await backend.in_turn(
                experiment, lambda turn: turn.change(experiment, change.changes, change.reason, checked)
            )
        )

    @admin.post("/experiments/{experiment}/lift", response_model=Description)
    async def lift(experiment: ExperimentId, request: LiftRequest) -> JSONResponse:
        """End what a safety rule has stopped."""
        rule, reason, then = request.rule, request.reason, request.then
        return as_json(await backend.in_turn(experiment, lambda turn: turn.lift(experiment, rule, reason, then)))

    @look.get("/experiments/{experiment}/rules", response_model=RulesReport)
    async def rules(experiment: ExperimentId) -> JSONResponse:
        """What each safety rule has seen, how sure it is, and whether it has fired."""
        return as_json(await backend.in_turn(experiment, lambda turn: turn.rules(experiment)))

    app.include_router(admin)
    app.include_router(look)


def _checked(writer: Writer, experiment_id: str, changes: dict[str, Any]) -> CheckedChange:
    """What a change leads to. What is slow is done here, in a thread, so that no decision waits: checks, compiling."""
    with writer.store.read() as session:
        session.existing_head(experiment_id)
        before, arms = latest_declaration(session, experiment_id), all_arms(session, experiment_id)
    checked = CheckedChange.check(before, changes, arms)
    make_policy(checked.after, checked.after.arms)
    writer.kernels.for_decisions(checked.after)
    return checked
