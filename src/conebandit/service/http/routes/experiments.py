"""Experiments, their arms and their mode: what an ``admin`` may change."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.responses import JSONResponse

from conebandit.experiment.declaration import Experiment
from conebandit.experiment.errors import InvalidError
from conebandit.experiment.policy import make_policy, with_policy
from conebandit.service.copying import copied_declaration
from conebandit.service.engine.rehearsal import Kernels
from conebandit.service.engine.turn import Turn
from conebandit.service.http.access import Doorkeeper, guarded
from conebandit.service.http.backend import Backend
from conebandit.service.http.forms import (
    ArmChangeBody,
    CopyRequest,
    DeclarationBody,
    ErasureRequest,
    ExperimentId,
    ModeChange,
)
from conebandit.service.http.replies import as_json
from conebandit.service.replies import Description, Erasure


def add_experiment_routes(app: FastAPI, door: Doorkeeper, backend: Backend) -> None:
    """Let the application begin experiments and change them."""
    admin = guarded(door, "admin")

    @admin.post("/experiments", status_code=201, response_model=Description)
    async def create(declaration: DeclarationBody) -> JSONResponse:
        """Begin an experiment. The same declaration again changes nothing; another one of the same id: 409."""
        door.check_experiment(str(declaration.get("id", "")))  # before anything is compiled for it
        experiment = await backend.read_long("declaration", _checked, declaration, backend.writer.kernels)
        return as_json(await backend.in_turn(experiment.id, lambda turn: turn.create(experiment)), 201)

    @admin.post("/experiments/{experiment}/copy", status_code=201, response_model=Description)
    async def copy(experiment: ExperimentId, wanted: CopyRequest) -> JSONResponse:
        """Begin another experiment with the declaration of this one; nothing of its data is copied.

        Its arms are those that can be served now. The same again changes nothing; another declaration of the id: 409.
        """
        door.check_experiment(wanted.id)
        source = await backend.in_turn(experiment, lambda turn: turn.describe(experiment))
        return await create(copied_declaration(source, wanted.id, wanted.changes))

    @admin.post("/experiments/{experiment}/arms", response_model=Description)
    async def change_arms(experiment: ExperimentId, change: ArmChangeBody) -> JSONResponse:
        """Add or retire an arm. A retired arm is never served again; its data stay."""
        if (change.add is None) == (change.retire is None):
            raise InvalidError("give either 'add' or 'retire', with the name of an arm.")

        def work(turn: Turn) -> Description:
            if change.add is not None:
                return turn.add_arm(experiment, change.add)
            return turn.retire_arm(experiment, change.retire)

        return as_json(await backend.in_turn(experiment, work))

    @admin.post("/experiments/{experiment}/mode", response_model=Description)
    async def change_mode(experiment: ExperimentId, change: ModeChange) -> JSONResponse:
        """Serve the policy (live), the baseline while the policy decides for the log (shadow), the baseline (off)."""
        return as_json(await backend.in_turn(experiment, lambda turn: turn.set_mode(experiment, change.mode)))

    @admin.post("/experiments/{experiment}/erasures", response_model=Erasure)
    async def erase(experiment: ExperimentId, asked: ErasureRequest) -> JSONResponse:
        """Forget a unit: its contexts, outcomes and names are removed, and the policy learns anew without them.

        That is done when the experiment is not ``revising`` any more. For a unit that is not known it does nothing.
        """
        return as_json(await backend.in_turn(experiment, lambda turn: turn.erase(experiment, asked.unit, asked.reason)))

    app.include_router(admin)


def _checked(declaration: dict[str, Any], kernels: Kernels) -> Experiment:
    """What is declared. What is slow is done here, in a thread, so that no decision waits: checks, and compiling."""
    experiment = Experiment.from_dict(declaration)
    named = with_policy(experiment)
    make_policy(named, experiment.arms)
    kernels.for_decisions(named)
    return experiment
