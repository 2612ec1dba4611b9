"""How the service is doing, for whoever operates it."""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.responses import PlainTextResponse, Response

from conebandit.service.http.access import Doorkeeper, guarded
from conebandit.service.http.backend import Backend
from conebandit.service.http.metrics import FORMAT, RequestCounts, metrics_text


def add_operation_routes(app: FastAPI, door: Doorkeeper, backend: Backend, counts: RequestCounts) -> None:
    """Let the application answer load balancers, which need no key, and Prometheus."""
    look = guarded(door, "read")

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Whether the store can be read."""
        await backend.experiments()
        return {"status": "ok"}

    @app.get("/readyz")
    async def readyz() -> dict[str, str]:
        """Whether the store can be written to: 503 if it cannot, as when the disk is full."""
        await backend.try_writing()
        return {"status": "ok"}

    @look.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Counters, and histograms of latencies, in the text format of Prometheus."""
        return Response(metrics_text(backend.writer, counts), headers={"content-type": FORMAT})

    app.include_router(look)
