"""Talking to the service from Python; nothing but the standard library."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from conebandit.service.replies import (
    Assignment,
    Assignments,
    Description,
    EstimatedFront,
    EventPage,
    Explanation,
    Receipt,
    Receipts,
    Reply,
    ShiftReport,
    StateDigest,
)
from conebandit.service.stores.records import new_id

__all__ = ["Assignment", "Client", "ClientError", "Receipt"]

_jitter = random.SystemRandom()
Context = Mapping[str, float | str | None]
R = TypeVar("R", bound=Reply)


class ClientError(Exception):
    """The service refused a request, or could not be reached.

    Attributes
    ----------
    status
        The HTTP status; 0 if there was no answer.

    Examples
    --------
    >>> import conebandit as cb
    >>> client = cb.Client("http://127.0.0.1:9", retries=0)      # where nobody listens
    >>> try:
    ...     client.decide("checkout", {"age": 34})
    ... except cb.ClientError as error:
    ...     print(error.status)
    0
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Client:
    """A client of ``conebandit serve``.

    When the connection breaks or the service is busy a request is sent again. That is safe: every decision has an id,
    made here if you give none, and the same id never leads to a second decision. It may be used from several threads.

    Parameters
    ----------
    address
        Such as ``http://127.0.0.1:8000``.
    key
        An API key, if the service wants one.
    retries
        How often to try again. A connection that the service has ended while it was idle does not count.
    timeout
        Seconds to wait for an answer, all tries together.

    Attributes
    ----------
    address
        As it was given.

    Examples
    --------
    >>> import pathlib, tempfile, conebandit as cb
    >>> from conebandit.service.http.server import serving
    >>> with tempfile.TemporaryDirectory() as folder, serving(str(pathlib.Path(folder) / "log.db")) as address:
    ...     client = cb.Client(address)
    ...     _ = client.create({"id": "e", "arms": ["old", "new"], "metrics": [{"name": "clicks"}, {"name": "sales"}]})
    ...     assignment = client.decide("e", id="visit-1")
    ...     again = client.decide("e", id="visit-1")
    ...     receipt = client.report("e", "visit-1", {"clicks": 1})
    ...     client.close()
    >>> assignment == again, assignment.propensity, receipt.recorded
    (True, 0.5, ('clicks',))
    """

    def __init__(self, address: str, *, key: str | None = None, retries: int = 5, timeout: float = 30.0) -> None:
        self.address = address
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"address must look like http://127.0.0.1:8000; got {address!r}.")
        self._secure = parts.scheme == "https"
        self._host, self._port, self._prefix = parts.hostname, parts.port, parts.path.rstrip("/")
        self._headers = {"content-type": "application/json", **({"x-api-key": key} if key else {})}
        self._retries, self._timeout = retries, timeout
        self._local = threading.local()

    # ---- traffic ------------------------------------------------------------------------------------------------

    def decide(self, experiment: str, context: Context | None = None, *, id: str | None = None) -> Assignment:  # noqa: A002
        """Ask for an arm."""
        body = {"id": new_id() if id is None else id, "context": dict(context or {})}
        return self._ask(Assignment, "POST", f"/experiments/{quote(experiment)}/decisions", body)

    def decide_many(
        self, experiment: str, contexts: Sequence[Context], *, ids: Sequence[str] | None = None
    ) -> list[Assignment]:
        """Ask for several arms at once; all or none. For no context there is nothing to ask."""
        if not len(contexts):
            return []
        names = [new_id() for _ in contexts] if ids is None else ids
        body = {"decisions": [{"id": i, "context": dict(c)} for i, c in zip(names, contexts, strict=True)]}
        return list(self._ask(Assignments, "POST", f"/experiments/{quote(experiment)}/decisions", body).decisions)

    def report(self, experiment: str, id: str, values: Mapping[str, float]) -> Receipt:  # noqa: A002
        """Report metrics of a decision: any of them, at any time, again, or corrected."""
        body = {"id": id, "values": dict(values)}
        return self._ask(Receipt, "POST", f"/experiments/{quote(experiment)}/outcomes", body)

    def report_many(self, experiment: str, outcomes: Mapping[str, Mapping[str, float]]) -> list[Receipt]:
        """Report metrics of several decisions, by id; all or none. Without outcomes nothing is sent."""
        if not outcomes:
            return []
        body = {"outcomes": [{"id": id_, "values": dict(values)} for id_, values in outcomes.items()]}
        return list(self._ask(Receipts, "POST", f"/experiments/{quote(experiment)}/outcomes", body).outcomes)

    # ---- experiments --------------------------------------------------------------------------------------------

    def create(self, declaration: Mapping[str, Any]) -> dict[str, Any]:
        """Begin an experiment."""
        return self._ask(Description, "POST", "/experiments", dict(declaration)).to_dict()

    def experiments(self) -> list[str]:
        """Ids of all experiments."""
        return list(self._call("GET", "/experiments"))

    def show(self, experiment: str) -> dict[str, Any]:
        """Declaration, arms, mode and number of events."""
        return self._ask(Description, "GET", f"/experiments/{quote(experiment)}").to_dict()

    def add_arm(self, experiment: str, arm: str) -> dict[str, Any]:
        """Add an arm to a running experiment."""
        return self._ask(Description, "POST", f"/experiments/{quote(experiment)}/arms", {"add": arm}).to_dict()

    def retire_arm(self, experiment: str, arm: str) -> dict[str, Any]:
        """Never serve an arm again."""
        return self._ask(Description, "POST", f"/experiments/{quote(experiment)}/arms", {"retire": arm}).to_dict()

    def set_mode(self, experiment: str, mode: Literal["live", "shadow", "off"]) -> dict[str, Any]:
        """Change the traffic mode."""
        return self._ask(Description, "POST", f"/experiments/{quote(experiment)}/mode", {"mode": mode}).to_dict()

    # ---- looking ------------------------------------------------------------------------------------------------

    def front(self, experiment: str, context: Context | None = None) -> dict[str, Any]:
        """The arms on the front in a context."""
        return self._look(EstimatedFront, experiment, "front", context=json.dumps(dict(context or {})))

    def explain(self, experiment: str, context: Context | None = None) -> dict[str, Any]:
        """Why these arms, in this context."""
        return self._look(Explanation, experiment, "explain", context=json.dumps(dict(context or {})))

    def events(self, experiment: str, after: int = 0, limit: int = 100) -> dict[str, Any]:
        """A page of the log."""
        return self._look(EventPage, experiment, "events", after=after, limit=limit)

    def export(self, experiment: str, format: Literal["jsonl", "csv", "parquet"] = "csv") -> bytes:  # noqa: A002
        """The log (``jsonl``), or a table of decisions with their outcomes, as the bytes of a file."""
        return self._call_bytes("GET", f"/experiments/{quote(experiment)}/export?{urlencode({'format': format})}")

    def shift(self, experiment: str) -> dict[str, Any]:
        """Whether the law of the contexts has changed."""
        return self._look(ShiftReport, experiment, "shift")

    def state(self, experiment: str) -> dict[str, Any]:
        """Where the log ends, and a checksum of the state."""
        return self._look(StateDigest, experiment, "state")

    def close(self) -> None:
        """Close the connection of this thread."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _look(self, reply: type[Reply], experiment: str, what: str, **query: Any) -> dict[str, Any]:
        return self._ask(reply, "GET", f"/experiments/{quote(experiment)}/{what}?{urlencode(query)}").to_dict()

    def _ask(self, reply: type[R], method: str, path: str, body: Any = None) -> R:
        return reply.from_dict(self._call(method, path, body))

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        return json.loads(self._call_bytes(method, path, body))

    def _call_bytes(self, method: str, path: str, body: Any = None) -> bytes:
        payload = None if body is None else json.dumps(body, allow_nan=False)
        deadline = time.monotonic() + self._timeout
        for attempt in range(self._retries + 1):
            try:
                status, content = self._send(method, path, payload, deadline)
            except (OSError, http.client.HTTPException) as error:
                self.close()
                status, content = 0, (str(error) or type(error).__name__).encode()
            pause = min(0.05 * 2**attempt, 2.0) * _jitter.uniform(0.5, 1.0)  # not all clients at once
            last = attempt == self._retries or time.monotonic() + pause >= deadline
            if status not in (0, 502, 503, 504) or last:
                break
            time.sleep(pause)
        if status // 100 != 2:
            raise ClientError(status, _message(status, content.decode("utf-8", "replace")))
        return content

    def _send(self, method: str, path: str, payload: str | None, deadline: float) -> tuple[int, bytes]:
        reused = getattr(self._local, "connection", None) is not None
        try:
            return self._exchange(method, path, payload, deadline)
        except ConnectionError:
            self.close()
            if not reused:
                raise
        # The service ends connections that are idle for some seconds.
        return self._exchange(method, path, payload, deadline)

    def _exchange(self, method: str, path: str, payload: str | None, deadline: float) -> tuple[int, bytes]:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
            connection = self._local.connection = kind(self._host, self._port)
        _wait_until(connection, deadline)
        connection.request(method, self._prefix + path, payload, self._headers)
        _wait_until(connection, deadline)
        answer = connection.getresponse()
        return answer.status, answer.read()


def _wait_until(connection: http.client.HTTPConnection, deadline: float) -> None:
    """Have the next step on a connection, be it open or not, end by then."""
    connection.timeout = max(deadline - time.monotonic(), 0.001)
    if connection.sock is not None:
        connection.sock.settimeout(connection.timeout)


def _message(status: int, text: str) -> str:
    if status == 0:
        return f"the service cannot be reached: {text}"
    try:
        return str(json.loads(text)["error"])
    except (ValueError, KeyError, TypeError):
        return f"the service answered {status}"
