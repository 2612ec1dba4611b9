"""The service over HTTP (FastAPI): what changes something. Thin: it checks form, and hands the rest to the writer."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal

from fastapi import Body, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Discriminator, Field, StrictFloat, StrictInt, StrictStr, Tag
from pydantic.config import JsonDict
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from conebandit._version import __version__
from conebandit.experiment.declaration import Experiment
from conebandit.experiment.errors import InvalidError, RefusalError
from conebandit.experiment.policy import make_policy
from conebandit.service.engine.turn import MAX_AT_ONCE, Turn
from conebandit.service.engine.writer import Writer
from conebandit.service.errors import UnavailableError
from conebandit.service.http.access import ExperimentId, Shared, guarded
from conebandit.service.http.routes import add_operations, add_reading

MAX_BYTES = 1 << 20  # of a request's body
UNKNOWN = "unknown"
ONE, MANY = "(one)", "(many)"  # forms of a body; never names of its entries
FAULT = "the service is at fault; its log says more."

log = logging.getLogger("conebandit.service")

Number = StrictInt | StrictFloat
Values = dict[str, Number]
ContextValues = dict[str, StrictInt | StrictFloat | StrictStr | None]


DECISION_EXAMPLE: JsonDict = {
    "id": "visit-1",
    "arm": "new",
    "propensity": 0.5,
    "active": ["old", "new"],
    "mode": "live",
    "policy_version": f"ConeTree-{__version__}-17",
}
OUTCOME_EXAMPLE: JsonDict = {"id": "visit-1", "recorded": ["revenue"], "corrected": [], "repeated": [], "late": []}


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid")


class DecisionRequest(_Form):
    """One decision to make."""

    id: StrictStr | None = Field(
        None, description="Yours, unique; the same id always gets the same answer.", examples=["visit-1"]
    )
    context: ContextValues = Field({}, examples=[{"age": 34, "device": "phone"}])


class DecisionRequests(_Form):
    """Several decisions to make; all or none."""

    decisions: list[DecisionRequest] = Field(min_length=1, max_length=MAX_AT_ONCE)


class DecisionReply(BaseModel):
    """An arm to serve."""

    model_config = ConfigDict(json_schema_extra={"examples": [DECISION_EXAMPLE]})
    id: str
    arm: str
    propensity: float
    active: list[str]
    mode: str
    policy_version: str | None


class DecisionReplies(BaseModel):
    """Arms to serve, in the order of the requests."""

    decisions: list[DecisionReply]


class Outcome(_Form):
    """What became of a decision; any metrics, at any time."""

    id: StrictStr = Field(examples=["visit-1"])
    values: Values = Field(min_length=1, examples=[{"revenue": 12.5}])


class Outcomes(_Form):
    """What became of several decisions; all or none."""

    outcomes: list[Outcome] = Field(min_length=1, max_length=MAX_AT_ONCE)


class OutcomeReply(BaseModel):
    """What a report did, metric by metric."""

    model_config = ConfigDict(json_schema_extra={"examples": [OUTCOME_EXAMPLE]})
    id: str
    recorded: list[str]
    corrected: list[str]
    repeated: list[str]
    late: list[str]


class OutcomeReplies(BaseModel):
    """What the reports did, in their order."""

    outcomes: list[OutcomeReply]


def _one_or_many(batch: str) -> Discriminator:
    """Which of two forms a body has: a batch, if it has that entry. So only the errors of that form are reported."""
    return Discriminator(lambda body: MANY if isinstance(body, dict) and batch in body else ONE)


Asked = Annotated[
    Annotated[DecisionRequest, Tag(ONE)] | Annotated[DecisionRequests, Tag(MANY)], _one_or_many("decisions")
]
Told = Annotated[Annotated[Outcome, Tag(ONE)] | Annotated[Outcomes, Tag(MANY)], _one_or_many("outcomes")]


class ArmChange(_Form):
    """An arm to add or to retire: one of the two."""

    add: StrictStr | None = None
    retire: StrictStr | None = None


class ModeChange(_Form):
    """The traffic mode from now on."""

    mode: Literal["live", "shadow", "off"] = Field(examples=["shadow"])


DECLARATION_EXAMPLE = {
    "id": "checkout",
    "arms": ["old", "new"],
    "metrics": [{"name": "revenue"}, {"name": "latency", "direction": "min", "worst": 2000, "window": "1h"}],
    "cone": {"tradeoffs": ["one unit of revenue is worth at most 50 of latency"]},
    "context": [{"name": "age", "low": 18, "high": 98, "out_of_range": "clip"}],
    "seed": 7,
}


def create_app(writer: Writer, hosts: Collection[str] = (), *, reachable: bool = True) -> FastAPI:
    """The service as an ASGI application; it closes the writer when it is shut down.

    Parameters
    ----------
    writer
        Carries out what changes anything.
    hosts
        Names by which it may be called while there are no API keys, beside those of loopback.
    reachable
        Whether other machines can reach it. Then nobody is answered without a key, even if there are none.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from conebandit.service.stores.base import open_store
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     writer = Writer(open_store(str(pathlib.Path(folder) / "log.db")))
    ...     app = create_app(writer)
    ...     writer.close()
    >>> "/experiments/{experiment}/decisions" in app.openapi()["paths"]
    True
    """
    shared = Shared(writer, hosts, reachable=reachable)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(writer.close)

    app = FastAPI(title="conebandit", version=__version__, lifespan=lifespan)
    _errors(app)
    _experiments(app, shared)
    _traffic(app, shared)
    add_reading(app, shared)
    add_operations(app, shared)
    app.add_middleware(_Limits, shared=shared)
    return app


# ---- what changes something -----------------------------------------------------------------------------------------


def _experiments(app: FastAPI, shared: Shared) -> None:
    admin = guarded(shared, "admin")

    @admin.post("/experiments", status_code=201)
    async def create(
        declaration: Annotated[dict[str, Any], Body(examples=[DECLARATION_EXAMPLE])],
    ) -> dict[str, Any]:
        """Begin an experiment. The same declaration again changes nothing; another one of the same id: 409."""
        experiment = await shared.read(_checked, declaration)
        answer: dict[str, Any] = await shared.ask(experiment.id, lambda turn: turn.create(experiment))
        return answer

    @admin.post("/experiments/{experiment}/arms")
    async def change_arms(
        experiment: ExperimentId, change: Annotated[ArmChange, Body(examples=[{"add": "bold"}])]
    ) -> dict[str, Any]:
        """Add or retire an arm. A retired arm is never served again; its data stay."""
        if (change.add is None) == (change.retire is None):
            raise InvalidError("give either 'add' or 'retire', with the name of an arm.")

        def work(turn: Turn) -> Any:
            if change.add is not None:
                return turn.add_arm(experiment, change.add)
            return turn.retire_arm(experiment, change.retire)

        answer: dict[str, Any] = await shared.ask(experiment, work)
        return answer

    @admin.post("/experiments/{experiment}/mode")
    async def change_mode(experiment: ExperimentId, change: ModeChange) -> dict[str, Any]:
        """Serve the policy (live), the baseline while the policy decides for the log (shadow), the baseline (off)."""
        answer: dict[str, Any] = await shared.ask(experiment, lambda turn: turn.set_mode(experiment, change.mode))
        return answer

    app.include_router(admin)


def _checked(declaration: dict[str, Any]) -> Experiment:
    """What is declared; whatever is slow or refused about it is so here, where no decision waits for it."""
    experiment = Experiment.from_dict(declaration)
    make_policy(experiment, len(experiment.arms))
    return experiment


def _traffic(app: FastAPI, shared: Shared) -> None:
    deciding, reporting = guarded(shared, "decide"), guarded(shared, "report")

    @deciding.post("/experiments/{experiment}/decisions", response_model=DecisionReply | DecisionReplies)
    async def decide(experiment: ExperimentId, asked: Annotated[Asked, Body()]) -> Any:
        """Ask for an arm, or for several with ``{"decisions": [...]}``.

        The same id with the same context always gets the same answer; with another context: 409.
        """
        many = asked.decisions if isinstance(asked, DecisionRequests) else [asked]
        requests = [{"id": one.id, "context": one.context} for one in many]
        answer = await shared.ask(experiment, lambda turn: turn.decide(experiment, requests))
        return JSONResponse({"decisions": answer} if isinstance(asked, DecisionRequests) else answer[0])

    @reporting.post("/experiments/{experiment}/outcomes", response_model=OutcomeReply | OutcomeReplies)
    async def report(experiment: ExperimentId, told: Annotated[Told, Body()]) -> Any:
        """Report metrics of a decision, or of several with ``{"outcomes": [...]}``.

        Any subset, at any time. A repeated report changes nothing, another value is a correction, an unknown id: 404.
        """
        many = told.outcomes if isinstance(told, Outcomes) else [told]
        requests = [{"id": one.id, "values": one.values} for one in many]
        answer = await shared.ask(experiment, lambda turn: turn.report(experiment, requests))
        return JSONResponse({"outcomes": answer} if isinstance(told, Outcomes) else answer[0])

    app.include_router(deciding)
    app.include_router(reporting)


# ---- around every request -------------------------------------------------------------------------------------------


def _errors(app: FastAPI) -> None:
    """Every refusal is ``{"error": "..."}``; nothing of our insides is shown."""

    @app.exception_handler(RefusalError)
    async def refused(_: Request, error: RefusalError) -> Response:
        if isinstance(error, UnavailableError):
            log.warning("%s", error)
            text = "the store did not take it; try again with the same ids."
            return JSONResponse({"error": text}, 503, headers={"retry-after": "1"})
        if error.status >= 500:
            log.error("%s", error)
            return JSONResponse({"error": FAULT}, error.status)
        return JSONResponse({"error": str(error)}, error.status)

    @app.exception_handler(RequestValidationError)
    async def malformed(_: Request, error: RequestValidationError) -> Response:
        found = [f"{_place(e['loc'])}: {e['msg']}" for e in error.errors()]
        return JSONResponse({"error": "; ".join(found[:5])}, 422)

    @app.exception_handler(HTTPException)
    async def http_error(_: Request, error: HTTPException) -> Response:
        return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)


def _place(loc: Sequence[int | str]) -> str:
    """Where in a request something is wrong, such as ``body.values.revenue``."""
    form = loc[:1] == ("body",) and loc[1:2] in ((ONE,), (MANY,))
    return ".".join(ascii(p)[1:-1] if isinstance(p, str) else str(p) for p in (*loc[:1], *loc[1 + form :]))


class _Limits:
    """Refuses bodies that are too large, answers what fails unexpectedly, counts requests, and measures them."""

    def __init__(self, app: ASGIApp, shared: Shared) -> None:
        self._app, self._shared = app, shared

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status, received = time.perf_counter(), 0, 0

        async def limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > MAX_BYTES:
                raise HTTPException(413, f"the body has more than {MAX_BYTES} bytes; send smaller batches.")
            return message

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, limited, noted)
        except Exception:
            log.exception("%s %s failed", scope["method"], getattr(scope.get("route"), "path", UNKNOWN))
            if status:
                raise  # too late for another answer
            await JSONResponse({"error": FAULT}, 500)(scope, receive, noted)
        route = getattr(scope.get("route"), "path", UNKNOWN)
        method = scope["method"] if scope["method"] in ("GET", "POST") else "other"
        experiment = scope.get("path_params", {}).get("experiment")
        self._shared.metrics.answered(method, route, status, time.perf_counter() - start, experiment)
