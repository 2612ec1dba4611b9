"""What was done to a store itself: keys made and revoked, logs begun, imported and archived. Sealed, as logs are."""

from __future__ import annotations

import time
from typing import Literal

from conebandit.service.errors import CorruptionError
from conebandit.service.log import bodies
from conebandit.service.log.bodies import Body
from conebandit.service.log.entries import By
from conebandit.service.stores.records import Record
from conebandit.service.stores.session import Session

Operation = Literal["key_created", "key_revoked", "created", "imported", "archived", "sealed"]


def log_operation(session: Session, kind: Operation, body: Body, by: By | None) -> None:
    """Append to the log of the store, with the time and who did it."""
    at = time.time_ns() // 1_000_000
    session.append_operation(kind, {"at": at, **body, **(by.to_body() if by is not None else {})})


def read_operation(record: Record) -> tuple[int, By | None]:
    """When an operation was, and who did it."""
    body = operation_body(record)
    return bodies.time(body, "at"), By.from_body(body)


def operation_body(record: Record) -> Body:
    """What an operation says; a ``CorruptionError`` if it is not a table."""
    if not isinstance(record.body, dict):
        raise CorruptionError(f"event {record.seq} ({ascii(record.kind)[1:-1][:40]}): its body is not a table.")
    return record.body


def key_names(session: Session) -> set[str]:
    """Names of all API keys that the log of the store tells of, be they revoked or not."""
    told = [record for record in session.operations() if record.kind in ("key_created", "key_revoked")]
    return {bodies.text(operation_body(record), "name") for record in told}
