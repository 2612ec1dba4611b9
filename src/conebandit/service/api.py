"""The service over HTTP (FastAPI). Thin: it checks form and keys, and hands the rest to the writer."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from fastapi import Body, Depends, FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, StrictFloat, StrictInt, StrictStr
from pydantic.config import JsonDict
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from conebandit._version import __version__
from conebandit.service import keys
from conebandit.service.engine import MOST_AT_ONCE, Turn
from conebandit.service.errors import InvalidError, NotFoundError, ServiceError, UnavailableError
from conebandit.service.experiment import ID, Experiment
from conebandit.service.shift import ShiftWatch
from conebandit.service.store import KeyRow, Store
from conebandit.service.tables import FORMATS, export
from conebandit.service.writer import Writer

MOST_BYTES = 1 << 20  # of a request's body
MOST_EVENTS = 1000  # of a page
KEYS_FOR = 1.0  # seconds for which keys are remembered; a revoked one works no longer than that
LOOPBACK = ("127.0.0.1", "::1", "localhost")
UNKNOWN = "unknown"
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

    decisions: list[DecisionRequest] = Field(min_length=1, max_length=MOST_AT_ONCE)


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

    outcomes: list[Outcome] = Field(min_length=1, max_length=MOST_AT_ONCE)


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

ExperimentId = Annotated[str, Path(pattern=f"^{ID.pattern}$", examples=["checkout"])]
ContextQuery = Annotated[str, Query(description="A JSON object", examples=['{"age": 34, "device": "phone"}'])]


class _App:
    """What the handlers share."""

    def __init__(self, writer: Writer, hosts: Collection[str]) -> None:
        self.writer = writer
        self.hosts = {*LOOPBACK, *(host.lower() for host in hosts)}
        self.store: Store = writer.store
        self.shift = ShiftWatch(writer.store)
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._keys: list[KeyRow] = []
        self._keys_read = -KEYS_FOR

    async def ask(self, experiment: str, work: Callable[[Turn], Any]) -> Any:
        """Have the writer do something, and wait for its commit."""
        return await asyncio.wrap_future(self.writer.submit(experiment, work))

    async def read(self, work: Callable[..., Any], *args: Any) -> Any:
        """Do something that reads the store, beside the writer."""
        return await run_in_threadpool(work, *args)

    async def check(self, request: Request, scope: str) -> None:
        """Let the request pass if its key has the scope, or if there are no keys at all."""
        if time.monotonic() - self._keys_read > KEYS_FOR:
            self._keys = await self.read(self._read_keys)
            self._keys_read = time.monotonic()
        if not self._keys:
            self._refuse_other_pages(request)
            return
        given = request.headers.get("x-api-key") or request.headers.get("authorization", "").removeprefix("Bearer ")
        found = keys.find_key(self._keys, given)
        if found is None:
            raise HTTPException(401, "a valid API key is needed, as header 'X-API-Key' or 'Authorization: Bearer ...'.")
        if not keys.may(found, scope):
            raise HTTPException(403, f"this API key has not the scope {scope!r}.")

    def _refuse_other_pages(self, request: Request) -> None:
        """Without keys, whoever reaches us may do everything; pages of others, in a browser on this machine, may not.

        Such a page is given away by its origin or, if it let its own name point here (DNS rebinding), by our name.
        """
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if _hostname(host) not in self.hosts:
            names = ", ".join(sorted(self.hosts))
            raise HTTPException(
                403,
                f"without API keys only requests to {names} are answered; see --allow-host. Got {ascii(host)[:80]}.",
            )
        if origin is not None and origin.partition("://")[2] != host:
            raise HTTPException(403, "without API keys no page of another origin may ask.")

    def _read_keys(self) -> list[KeyRow]:
        with self.store.read() as session:
            return session.api_keys()


def _hostname(host: str) -> str | None:
    """The name in a ``Host`` header, without the port."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def create_app(writer: Writer, hosts: Collection[str] = ()) -> FastAPI:
    """The service as an ASGI application; it closes the writer when it is shut down.

    Parameters
    ----------
    writer
        Carries out what changes anything.
    hosts
        Names by which it may be called while there are no API keys, beside those of loopback.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from conebandit.service.store import open_store
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     writer = Writer(open_store(str(pathlib.Path(folder) / "log.db")))
    ...     app = create_app(writer)
    ...     writer.close()
    >>> "/experiments/{experiment}/decisions" in app.openapi()["paths"]
    True
    """
    shared = _App(writer, hosts)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(writer.close)

    app = FastAPI(title="conebandit", version=__version__, lifespan=lifespan)
    _errors(app)
    _experiments(app, shared)
    _traffic(app, shared)
    _looking(app, shared)
    _operations(app, shared)
    app.add_middleware(_Limits, shared=shared)
    return app


def _needs(shared: _App, scope: str) -> Any:
    async def check(request: Request) -> None:
        await shared.check(request, scope)

    return Depends(check)


# ---- what changes something -----------------------------------------------------------------------------------------


def _experiments(app: FastAPI, shared: _App) -> None:
    @app.post("/experiments", status_code=201, dependencies=[_needs(shared, "admin")])
    async def create(
        declaration: Annotated[dict[str, Any], Body(examples=[DECLARATION_EXAMPLE])],
    ) -> dict[str, Any]:
        """Begin an experiment. The same declaration again changes nothing; another one of the same id: 409."""
        experiment = await shared.read(Experiment.from_dict, declaration)
        answer: dict[str, Any] = await shared.ask(experiment.id, lambda turn: turn.create(experiment))
        return answer

    @app.post("/experiments/{experiment}/arms", dependencies=[_needs(shared, "admin")])
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

    @app.post("/experiments/{experiment}/mode", dependencies=[_needs(shared, "admin")])
    async def change_mode(experiment: ExperimentId, change: ModeChange) -> dict[str, Any]:
        """Serve the policy (live), the baseline while the policy decides for the log (shadow), the baseline (off)."""
        answer: dict[str, Any] = await shared.ask(experiment, lambda turn: turn.set_mode(experiment, change.mode))
        return answer


def _traffic(app: FastAPI, shared: _App) -> None:
    @app.post(
        "/experiments/{experiment}/decisions",
        response_model=DecisionReply | DecisionReplies,
        dependencies=[_needs(shared, "decide")],
    )
    async def decide(experiment: ExperimentId, asked: DecisionRequest | DecisionRequests) -> Any:
        """Ask for an arm, or for several with ``{"decisions": [...]}``.

        The same id with the same context always gets the same answer; with another context: 409.
        """
        many = asked.decisions if isinstance(asked, DecisionRequests) else [asked]
        requests = [{"id": one.id, "context": one.context} for one in many]
        answer = await shared.ask(experiment, lambda turn: turn.decide(experiment, requests))
        return JSONResponse({"decisions": answer} if isinstance(asked, DecisionRequests) else answer[0])

    @app.post(
        "/experiments/{experiment}/outcomes",
        response_model=OutcomeReply | OutcomeReplies,
        dependencies=[_needs(shared, "report")],
    )
    async def report(experiment: ExperimentId, told: Outcome | Outcomes) -> Any:
        """Report metrics of a decision, or of several with ``{"outcomes": [...]}``.

        Any subset, at any time. A repeated report changes nothing, another value is a correction, an unknown id: 404.
        """
        many = told.outcomes if isinstance(told, Outcomes) else [told]
        requests = [{"id": one.id, "values": one.values} for one in many]
        answer = await shared.ask(experiment, lambda turn: turn.report(experiment, requests))
        return JSONResponse({"outcomes": answer} if isinstance(told, Outcomes) else answer[0])


# ---- what only looks ------------------------------------------------------------------------------------------------


def _looking(app: FastAPI, shared: _App) -> None:
    look: dict[str, Any] = {"dependencies": [_needs(shared, "read")]}

    @app.get("/experiments", **look)
    async def list_experiments() -> list[str]:
        """Ids of all experiments."""
        found: list[str] = await shared.read(_list, shared.store)
        return found

    @app.get("/experiments/{experiment}", **look)
    async def show(experiment: ExperimentId) -> dict[str, Any]:
        """Declaration, arms, mode and number of events."""
        answer: dict[str, Any] = await shared.ask(experiment, lambda turn: turn.describe(experiment))
        return answer

    @app.get("/experiments/{experiment}/front", **look)
    async def front(experiment: ExperimentId, context: ContextQuery = "{}") -> dict[str, Any]:
        """The arms held for undominated in a context, with estimates in the units of the metrics."""
        x = _context(context)
        answer: dict[str, Any] = await shared.ask(experiment, lambda turn: turn.front(experiment, x))
        return answer

    @app.get("/experiments/{experiment}/explain", **look)
    async def explain(experiment: ExperimentId, context: ContextQuery = "{}") -> dict[str, Any]:
        """Why these arms, in this context."""
        x = _context(context)
        answer: dict[str, Any] = await shared.ask(experiment, lambda turn: turn.explain(experiment, x))
        return answer

    @app.get("/experiments/{experiment}/state", **look)
    async def state(experiment: ExperimentId) -> dict[str, Any]:
        """Where the log ends and a checksum of the state; the same from every process."""
        answer: dict[str, Any] = await shared.ask(experiment, lambda turn: turn.digest(experiment))
        return answer

    @app.get("/experiments/{experiment}/events", **look)
    async def events(
        experiment: ExperimentId,
        after: Annotated[int, Query(ge=0, lt=2**53)] = 0,
        limit: Annotated[int, Query(ge=1, le=MOST_EVENTS)] = 100,
    ) -> dict[str, Any]:
        """A page of the log; ask again with ``after`` set to ``next``."""
        answer: dict[str, Any] = await shared.read(_events, shared.store, experiment, after, limit)
        return answer

    @app.get("/experiments/{experiment}/export", response_class=StreamingResponse, **look)
    async def export_all(
        experiment: ExperimentId, kind: Annotated[Literal["jsonl", "csv", "parquet"], Query(alias="format")] = "jsonl"
    ) -> StreamingResponse:
        """The log (JSON lines), or a table of decisions with their outcomes (CSV, Parquet)."""
        parts = await shared.read(export, shared.store, experiment, kind)
        name = f'attachment; filename="{experiment}.{kind}"'
        return StreamingResponse(parts, media_type=FORMATS[kind], headers={"content-disposition": name})

    @app.get("/experiments/{experiment}/shift", **look)
    async def shift(experiment: ExperimentId) -> dict[str, Any]:
        """Whether the law of the contexts has changed since the beginning."""
        answer: dict[str, Any] = await shared.read(shared.shift.report, experiment)
        return answer


def _operations(app: FastAPI, shared: _App) -> None:
    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Whether the store can be read."""
        await shared.read(_list, shared.store)
        return {"status": "ok"}

    @app.get("/metrics", response_class=PlainTextResponse, dependencies=[_needs(shared, "read")])
    async def metrics() -> str:
        """Counters in the text format of Prometheus."""
        return _prometheus(shared)


def _list(store: Store) -> list[str]:
    with store.read() as session:
        return session.experiments()


def _events(store: Store, experiment: str, after: int, limit: int) -> dict[str, Any]:
    with store.read() as session:
        if session.head(experiment) is None:
            raise NotFoundError(f"there is no experiment {experiment!a}.")
        page = session.events(experiment, after, limit=limit)
    rows = [{"seq": e.seq, "kind": e.kind, "check": e.check, "body": e.body} for e in page]
    return {"events": rows, "next": page[-1].seq if page else after}


def _context(text: str) -> dict[str, Any]:
    try:
        context = json.loads(text)
    except (ValueError, RecursionError):
        context = None
    if not isinstance(context, dict):
        raise InvalidError(f'context must be a JSON object such as {{"age": 34}}; got {text[:80]!a}.')
    return context


def _prometheus(shared: _App) -> str:
    lines = [
        "# TYPE conebandit_events_total counter",
        f"conebandit_events_total {shared.writer.events_written}",
        "# TYPE conebandit_commits_total counter",
        f"conebandit_commits_total {shared.writer.turns}",
        "# TYPE conebandit_waiting_requests gauge",
        f"conebandit_waiting_requests {shared.writer.waiting}",
        "# TYPE conebandit_requests_total counter",
    ]
    for (method, route, status), count in sorted(shared.requests.items()):
        lines.append(f'conebandit_requests_total{{method="{method}",route="{route}",status="{status}"}} {count}')
    lines.append("# TYPE conebandit_request_seconds_total counter")
    for (method, route), seconds in sorted(shared.seconds.items()):
        lines.append(f'conebandit_request_seconds_total{{method="{method}",route="{route}"}} {seconds:.6f}')
    return "\n".join(lines) + "\n"


# ---- around every request -------------------------------------------------------------------------------------------


def _errors(app: FastAPI) -> None:
    """Every refusal is ``{"error": "..."}``; nothing of our insides is shown."""

    @app.exception_handler(ServiceError)
    async def refused(_: Request, error: ServiceError) -> Response:
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
        found = [f"{'.'.join(ascii(p)[1:-1] if isinstance(p, str) else str(p) for p in e['loc'])}: {e['msg']}"
                 for e in error.errors()]  # fmt: skip
        return JSONResponse({"error": "; ".join(found[:5])}, 422)

    @app.exception_handler(HTTPException)
    async def http_error(_: Request, error: HTTPException) -> Response:
        return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)


class _Limits:
    """Refuses bodies that are too large, answers what fails unexpectedly, counts requests, and measures them."""

    def __init__(self, app: ASGIApp, shared: _App) -> None:
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
            if received > MOST_BYTES:
                raise HTTPException(413, f"the body has more than {MOST_BYTES} bytes; send smaller batches.")
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
        self._shared.requests[method, route, status] += 1
        self._shared.seconds[method, route] += time.perf_counter() - start
