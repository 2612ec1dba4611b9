"""Replies over HTTP: JSON with exactly what the engine said."""

from __future__ import annotations

from fastapi.responses import JSONResponse

from conebandit.service.replies import Reply


def as_json(reply: Reply, status: int = 200) -> JSONResponse:
    """A reply as it is; given to FastAPI itself, its numbers would be converted once more."""
    return JSONResponse(reply.to_dict(), status)
