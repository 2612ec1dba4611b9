"""A bare endpoint to compare the service with: it checks a body like ours and commits one row.

``python benchmarks/bare_endpoint.py --store ADDRESS --port PORT [--threads]``: that is as little as one can do and keep
the promise that what was answered is on the disk. Without ``--store`` it keeps nothing: as little as one can do at all.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import threading
from collections.abc import Callable
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel


class Asked(BaseModel):
    """The body of a request."""

    id: str | None = None
    context: dict[str, float]


def connect(address: str) -> Any:
    """A connection to SQLite or PostgreSQL that commits to the disk."""
    if address.startswith("postgresql"):
        import psycopg  # noqa: PLC0415

        return psycopg.connect(address)
    connection = sqlite3.connect(address, timeout=30, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def answer_only(asked: Asked) -> dict[str, Any]:
    """What an endpoint answers that keeps nothing."""
    return {"id": asked.id, "arm": "a"}


def committing(address: str) -> Callable[[Asked], dict[str, Any]]:
    """What an endpoint does that commits one row."""
    local = threading.local()

    def connection() -> Any:
        if not hasattr(local, "connection"):
            local.connection = connect(address)
        return local.connection

    connection().execute("CREATE TABLE IF NOT EXISTS bare (body TEXT)")
    connection().commit()
    insert = "INSERT INTO bare VALUES (%s)" if address.startswith("postgresql") else "INSERT INTO bare VALUES (?)"

    def commit(asked: Asked) -> dict[str, Any]:
        connection().execute(insert, (json.dumps(asked.context),))
        connection().commit()
        return answer_only(asked)

    return commit


def serve(address: str | None, port: int, threaded: bool) -> None:
    """Serve until stopped; with threads, requests are answered side by side."""
    answer = answer_only if address is None else committing(address)

    async def answer_at_once(asked: Asked) -> dict[str, Any]:
        return answer(asked)

    app = FastAPI()
    app.post("/rows")(answer if threaded else answer_at_once)
    app.get("/healthz")(lambda: {"status": "ok"})
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", access_log=False)


def main() -> None:
    parser = argparse.ArgumentParser(description="Check a body like that of the service and commit one row.")
    parser.add_argument("--store", help="where to commit")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--threads", action="store_true")
    given = parser.parse_args()
    serve(given.store, given.port, given.threads)


if __name__ == "__main__":
    main()
