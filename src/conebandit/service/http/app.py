"""The service as an ASGI application: here it is put together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.concurrency import run_in_threadpool

from conebandit._version import __version__
from conebandit.service.dashboard.app import add_dashboard
from conebandit.service.engine.writer import Writer
from conebandit.service.http.access import KEY_SCHEMES, Doorkeeper
from conebandit.service.http.backend import Backend
from conebandit.service.http.errors import add_error_handlers
from conebandit.service.http.limits import RequestMiddleware
from conebandit.service.http.metrics import RequestCounts
from conebandit.service.http.rates import Rate
from conebandit.service.http.reference import add_reference
from conebandit.service.http.routes.amendments import add_amendment_routes
from conebandit.service.http.routes.edges import add_edge_routes
from conebandit.service.http.routes.experiments import add_experiment_routes
from conebandit.service.http.routes.lifecycle import add_lifecycle_routes
from conebandit.service.http.routes.operations import add_operation_routes
from conebandit.service.http.routes.queries import add_query_routes
from conebandit.service.http.routes.traffic import add_traffic_routes


class _Service(FastAPI):
    """With the ways to send a key in its OpenAPI schema, and with routes that are made once."""

    def openapi(self) -> dict[str, Any]:
        """The schema; made once."""
        schema = super().openapi()
        schema["components"]["securitySchemes"] = KEY_SCHEMES
        return schema

    def include_router(self, router: APIRouter) -> None:  # type: ignore[override]  # ours need no prefix, or the like
        """Take routes as they are; FastAPI would make each of them once more when the first request comes."""
        self.router.routes.extend(router.routes)


def create_app(
    writer: Writer,
    hosts: Collection[str] = (),
    *,
    reachable: bool = True,
    rate: Rate | None = None,
    session_key: bytes | None = None,
) -> FastAPI:
    """The service as an ASGI application; it closes the writer when it is shut down.

    Parameters
    ----------
    writer
        Carries out what changes anything.
    hosts
        Names by which it may be called while there are no API keys, beside those of loopback.
    reachable
        Whether other machines can reach it. Then nobody is answered without a key, even if there are none.
    rate
        How many decisions and outcomes each key may ask for, unless it has a rate of its own; None: any number.
    session_key
        What sessions of the dashboard are signed with; None: a random one, which no other process knows.

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

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        try:
            for part in (backend.uploads, pages.tallies, pages.courses):  # they use the store, which the writer closes
                await run_in_threadpool(part.close)
            await door.close()
        finally:
            await run_in_threadpool(writer.close)

    app = _Service(title="conebandit", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    backend, counts = Backend(writer), RequestCounts()
    door = Doorkeeper(writer.store, hosts, reachable=reachable, rate=rate, refusals=counts.refusals)
    add_traffic_routes(app, door, backend)  # first: routes are tried one after the other
    add_experiment_routes(app, door, backend)
    add_lifecycle_routes(app, door, backend)
    add_amendment_routes(app, door, backend)
    add_query_routes(app, door, backend)
    add_edge_routes(app, door, backend, counts)
    add_operation_routes(app, door, backend, counts)
    pages = add_dashboard(app, door, backend, session_key)
    add_reference(app)
    add_error_handlers(app)
    app.add_middleware(RequestMiddleware, counts=counts)
    return app
