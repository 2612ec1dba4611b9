"""Takes what is in an outbox to the service, in order."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from conebandit.service.client import requests
from conebandit.service.client.errors import ClientError
from conebandit.service.client.outbox import Entry, Outbox
from conebandit.service.client.patience import Deadline, jittered
from conebandit.service.client.requests import Request
from conebandit.service.client.transport import Transport

MAX_BATCH = 500  # outcomes in a request; the service takes 1000
MAX_BATCH_BYTES = 2**19  # the service takes 1 MiB
FIRST_PAUSE, MAX_PAUSE = 0.5, 30.0  # seconds between visits that came to nothing: doubled from one to the other
STOPPED_AFTER = 0.5  # seconds; without a request under way, it takes none
BUSY = "somebody else is delivering what is in this outbox"

log = logging.getLogger("conebandit.client")


@dataclass(frozen=True)
class Delivery:
    """What a visit to the service came to; ``error``: why not all was delivered."""

    delivered: int = 0
    refused: int = 0
    error: str | None = None

    def __add__(self, other: Delivery) -> Delivery:
        return Delivery(self.delivered + other.delivered, self.refused + other.refused, other.error)


def deliver(outbox: Outbox, transport: Transport, timeout: float) -> Delivery:
    """Deliver all that can be; what cannot be stays. Each request may take ``timeout`` seconds."""
    total = Delivery()
    with outbox.delivering() as alone:
        if not alone:
            return Delivery(error=BUSY)
        while outbox.is_waiting and total.error is None:
            visit = _Visit(outbox, transport, timeout).deliver()
            if visit.delivered or visit.refused or visit.error is None:
                outbox.tidy()
            total += visit
    return total


class _Visit:
    """One way through what waits."""

    def __init__(self, outbox: Outbox, transport: Transport, timeout: float) -> None:
        self._outbox, self._transport, self._timeout = outbox, transport, timeout
        self._delivered = self._refused = 0
        self._errors: dict[str, str] = {}  # by experiment: its later outcomes must wait, too

    def deliver(self) -> Delivery:
        for batch in batches(self._outbox.entries()):
            if batch[0].experiment in self._errors:
                continue
            try:
                self._send(batch)
            except ClientError as error:
                self._errors[batch[0].experiment] = str(error)
                if error.status == 0:  # nobody is there: the other experiments would not get further
                    break
        return Delivery(self._delivered, self._refused, next(iter(self._errors.values()), None))

    def _send(self, batch: list[Entry]) -> None:
        """Deliver a batch, or each of it alone if the service does not take it as a whole."""
        first = batch[0]
        request = requests.report(first.experiment, [entry.outcome for entry in batch])
        try:
            self._transport.ask(replace(request, actor=first.actor), Deadline(self._timeout))
        except ClientError as error:
            if not error.is_final:
                raise
            if len(batch) == 1:
                self._outbox.refuse(first, error.status, str(error))
                self._refused += 1
                log.warning("an outcome of %s was refused: %s (see %s)", first.experiment, error, self._outbox.refused)
                return
        else:
            self._outbox.finish(batch)
            self._delivered += len(batch)
            return
        for entry in batch:
            self._send([entry])


def batches(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Outcomes that can be sent together: of one experiment and actor, and no two of one decision.

    A batch that was sent, but not noted as done before a crash, is sent again. If it had two values of a metric, the
    first one would then be a correction of the second.
    """
    batch: list[Entry] = []
    ids: set[str] = set()
    size = 0
    for entry in entries:
        id_, length = entry.outcome["id"], len(str(entry.outcome))
        full = len(batch) == MAX_BATCH or size + length > MAX_BATCH_BYTES
        if batch and (full or id_ in ids or (entry.experiment, entry.actor) != (batch[0].experiment, batch[0].actor)):
            yield batch
            batch, ids, size = [], set(), 0
        batch.append(entry)
        ids.add(id_)
        size += length
    if batch:
        yield batch


class Courier:
    """Delivers in a thread of its own, which ends when nothing is left."""

    def __init__(self, outbox: Outbox, transport: Transport, timeout: float) -> None:
        self._outbox, self._transport, self._timeout = outbox, transport, timeout
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._more = self._stopped = False
        self._at_once = threading.Event()
        if outbox.is_waiting:  # from an earlier process
            self.wake()

    def wake(self, *, at_once: bool = False) -> None:
        """There is something to deliver; ``at_once``: and the service is there again."""
        with self._lock:
            self._more, self._stopped = True, False
            if at_once:
                self._at_once.set()
            if self._thread is None or not self._thread.is_alive():  # the latter after a fork
                self._thread = threading.Thread(target=self._run, name="conebandit-outbox", daemon=True)
                self._thread.start()

    def service_is_back(self) -> None:
        """Deliver now, if something waits."""
        if self._outbox.is_waiting:
            self.wake(at_once=True)

    def flush(self) -> int:
        """Deliver now, while the caller waits; how many outcomes are left."""
        end = time.monotonic() + self._timeout
        while self._outbox.is_waiting and (left := end - time.monotonic()) > 0:
            made = deliver(self._outbox, self._transport, left)
            if made.error not in (None, BUSY):
                break
            time.sleep(0.01)  # whoever else is delivering
        return sum(1 for _ in self._outbox.entries())

    def deliver_before(self, request: Request[Any]) -> None:
        """Have the outcomes delivered that must be there before a request is sent; raises if they cannot be."""
        if request.about is not None and self._outbox.holds(*request.about):
            self.flush()
            if self._outbox.holds(*request.about):
                raise ClientError(
                    0,
                    f"outcomes of {', '.join(request.about[1])} are still in the outbox {self._outbox.path}, and must "
                    "be delivered first; try again when the service takes them.",
                )

    def stop(self) -> None:
        """Go on later, in another process perhaps: all is on disk. A request that is under way is not waited for."""
        with self._lock:
            self._stopped, thread = True, self._thread
            self._at_once.set()
        if thread is not None:
            thread.join(STOPPED_AFTER)
        self._transport.close()

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while True:
            with self._lock:
                self._more = False
            made = self._visit()
            with self._lock:
                if self._stopped or not (made.error or self._more):
                    self._thread = None
                    return
            pause = FIRST_PAUSE if made.delivered or made.error is None else pause
            if made.error is not None:
                self._at_once.wait(jittered(pause))
                pause = min(2 * pause, MAX_PAUSE)
            self._at_once.clear()

    def _visit(self) -> Delivery:
        try:
            return deliver(self._outbox, self._transport, self._timeout)
        except OSError as error:
            log.warning("the outbox %s cannot be delivered: %s", self._outbox.path, error)
            return Delivery(error=str(error))
