"""Takes what is in the spool of an edge to the service, and comes back with its latest state."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from conebandit.service.client import journal, requests
from conebandit.service.client.errors import ClientError
from conebandit.service.client.patience import Deadline
from conebandit.service.client.requests import Request
from conebandit.service.client.transport import Transport
from conebandit.service.edge.lines import DECISION
from conebandit.service.edge.spool import SpoolBatch
from conebandit.service.replies import ReturnedDecision

MAX_HEARD = 1000  # ids in an upload
MAX_TOLD = 10  # refusals of a batch that are logged
log = logging.getLogger("conebandit.edge")


class Courier:
    """Delivers the lines of a spool in their order, each at least once; the service takes none twice.

    Parameters
    ----------
    transport, experiment
        Where to.
    name
        Of the edge.
    refused
        A file for what the service refuses for good.
    timeout
        Seconds for a request.
    """

    def __init__(self, transport: Transport, experiment: str, name: str, refused: Path, timeout: float) -> None:
        self._transport, self._experiment, self._name = transport, experiment, name
        self._refused, self._timeout, self._exists = refused, timeout, False
        self._heard: list[str] = []  # what was returned, and the service does not know yet that we have it
        self.close = transport.close
        entries = [entry for line in journal.lines(refused) if (entry := journal.unsealed(line)) is not None]
        self._not_in_log = {entry["refused"]["id"] for entry in entries if "arm" in entry["refused"]}

    def latest_state(self, known: str | None) -> bytes | None:
        """The latest published state; None if it is the one with this tag."""
        try:
            content: bytes = self._ask(requests.edge_state(self._experiment, known))
            return content
        except ClientError as error:
            if error.status == 304:
                return None
            raise

    def deliver(self, batch: SpoolBatch) -> None:
        """Have the service take a batch; raises if it could not be asked, or not now."""
        send = self._send_decisions if batch.kind == DECISION else self._send_outcomes
        self._exists = False
        self._deliver(send, batch, batch.texts)

    def _deliver(self, send: Callable[[SpoolBatch, list[bytes]], None], batch: SpoolBatch, texts: list[bytes]) -> None:
        try:
            send(batch, texts)
        except ClientError as error:
            if not error.is_final or (error.status == 404 and self._is_gone()):
                raise
            if len(texts) == 1 or (error.status == 409 and batch.kind == DECISION):  # its log has no such state
                self._put_aside([(text, str(error)) for text in texts])
            else:  # one of them is to blame; the others shall not suffer
                half = len(texts) // 2
                self._deliver(send, batch, texts[:half])
                self._deliver(send, batch, texts[half:])

    def _is_gone(self) -> bool:
        """Whether the service has no such experiment: then it may be the wrong one, and what waits must go on waiting.

        A decision that is not found is another matter. It is asked once for a batch.
        """
        if not self._exists:
            try:
                self.latest_state(None)
            except ClientError as error:
                if error.status == 404:
                    return True
                if not error.is_final:
                    raise
            self._exists = True
        return False

    def _send_decisions(self, batch: SpoolBatch, texts: list[bytes]) -> None:
        mark = batch.place.mark
        if mark is None:  # every segment begins with one, so it was damaged
            self._put_aside([(text, "nobody knows from which state it was made") for text in texts])
            return
        table: dict[str, Any] = {"edge": self._name, "state": mark.state, "check": mark.check}
        heard = self._heard[:MAX_HEARD]
        if heard:
            table["heard"] = heard
        head = json.dumps(table)[:-1].encode()
        content = b'%b,"decisions":[%b]}' % (head, b",".join(texts))
        upload = self._ask(requests.upload(self._experiment, content))
        if upload.refused:
            reasons = {one.id: one.reason for one in upload.refused}
            named = [(text, reasons.get(json.loads(text)["id"])) for text in texts]
            self._put_aside([(text, reason) for text, reason in named if reason is not None])
        del self._heard[: len(heard)]
        self._take_back(upload.returned)

    def _take_back(self, returned: Sequence[ReturnedDecision]) -> None:
        """Keep what was acknowledged before and is not in the log after all; then the service need not."""
        new = [one for one in returned if one.id not in self._not_in_log]
        self._put_aside([(json.dumps(one.decision).encode(), one.reason) for one in new])
        self._heard += [one.id for one in returned if one.id not in self._heard]

    def _send_outcomes(self, _: SpoolBatch, texts: list[bytes]) -> None:
        outcomes = [(text, json.loads(text)) for text in texts]
        told = [outcome for _, outcome in outcomes if outcome["id"] not in self._not_in_log]
        if told:
            self._ask(requests.report(self._experiment, told))
        # What the log calls so is the decision of somebody else.
        others = [text for text, outcome in outcomes if outcome["id"] in self._not_in_log]
        self._put_aside([(text, "its decision was refused") for text in others])

    def _put_aside(self, refused: list[tuple[bytes, str]]) -> None:
        """Keep what will not be in the log, and why."""
        found: list[dict[str, Any]] = [{"refused": json.loads(text), "reason": reason} for text, reason in refused]
        for entry in found[:MAX_TOLD]:
            log.error("the service refuses %r of %d: %s", entry["refused"]["id"], len(found), entry["reason"])
        if found:
            journal.synchronise(journal.append(self._refused, found))
        self._not_in_log |= {entry["refused"]["id"] for entry in found if "arm" in entry["refused"]}

    def _ask(self, request: Request[Any]) -> Any:
        return self._transport.ask(request, Deadline(self._timeout))
