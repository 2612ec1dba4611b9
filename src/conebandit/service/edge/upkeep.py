"""What an edge does beside deciding: it uploads its spool, and gets the latest state."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial

from conebandit.service.client.errors import ClientError
from conebandit.service.edge.courier import Courier
from conebandit.service.edge.held import HeldState, steady
from conebandit.service.edge.spool import Spool
from conebandit.service.errors import CorruptionError
from conebandit.service.log.published import OtherReleaseError, PublishedState

SOON = 0.2  # seconds after which decisions are uploaded, while the service answers
MAX_PAUSE = 30.0  # seconds between tries while it does not
ASKED_TO_WAIT, MIN_WAIT, MAX_WAIT = (429, 503), 1.0, 5.0  # answers that ask for patience, and seconds that they mean
log = logging.getLogger("conebandit.edge")


class Upkeep:
    """A thread that keeps spool and service together; what it does can also be asked for.

    Parameters
    ----------
    courier, spool, held
        Who goes to the service, with what, and what comes back.
    deciding
        Held by whoever decides: then the spool and the state are not changed by others.
    every
        Seconds after which the service is asked for a newer state.
    """

    def __init__(self, courier: Courier, spool: Spool, held: HeldState, deciding: threading.Lock, every: float) -> None:
        self._courier, self._spool, self._held, self._deciding, self._every = courier, spool, held, deciding, every
        self._delivering, self._refreshing = threading.Lock(), threading.Lock()
        self.ending, self._away, self._closed = threading.Event(), False, False
        self._thread = threading.Thread(target=self._serve, name="conebandit-edge", daemon=True)

    def begin(self) -> None:
        """Get a state, and go on in a thread; raises if there is none to decide from."""
        try:
            self.refresh()
        except ClientError as error:
            if self._held.published is None:
                self.flush()  # nobody may come again to do it
                raise
            log.warning("the service does not answer, and a state of %.0f s ago is used: %s", self.staleness, error)
        self._thread.start()

    @property
    def staleness(self) -> float:
        """Seconds since the service last said that the state is the latest."""
        return self._held.staleness

    def refresh(self) -> None:
        """Get the latest state now."""
        with self._refreshing:
            asked = steady()
            try:
                content = self._courier.latest_state(self._held.tag)
                fresh = None if content is None else PublishedState.read(content)
            except ClientError as error:
                if error.is_final:
                    with self._deciding:
                        self._held.refuse(str(error))
                raise
            except (CorruptionError, OtherReleaseError) as error:
                raise ClientError(502, str(error)) from error
            if fresh is None or content is None:
                self._held.confirm(asked)
                return
            fresh.prepare()
            with self._deciding:
                self._held.take(fresh, content, asked)

    def flush(self) -> int:
        """Upload what waits, as far as the service takes it; how many decisions and outcomes are left."""
        try:
            while self._deliver_some():
                pass
        except ClientError as error:
            log.warning("the service does not take what waits: %s", error)
        return self._spool.pending

    def _deliver_some(self) -> bool:
        with self._delivering:
            batch = None if self._closed else self._spool.next_batch()
            if batch is None:
                return False
            self._courier.deliver(batch)
            with self._deciding:
                self._spool.acknowledge(batch)
            return True

    def _serve(self) -> None:
        pause, due = SOON, steady() + self._every
        while not self.ending.wait(min(pause, max(due - steady(), 0.0))):
            failure = None
            if steady() >= due:
                due = steady() + self._every
                failure = self._failure(self.refresh)
            not_taken = self._failure(partial(self._deliver_until, due))  # whether or not there is a new state
            pause = SOON if not_taken is None else _longer(pause, not_taken)
            self._note(failure or not_taken)

    def _deliver_until(self, due: float) -> None:
        while steady() < due and not self.ending.is_set() and self._deliver_some():
            pass

    @staticmethod
    def _failure(work: Callable[[], None]) -> Exception | None:
        """Why something could not be done; None if it was."""
        try:
            work()
        except ClientError as error:
            return error
        except Exception as error:  # the thread must not end
            log.exception("something failed that must not; it is tried again")
            return error
        return None

    def _note(self, error: Exception | None) -> None:
        """Say once that the service does not answer, and once that it does again."""
        if error is not None and not self._away:
            log.warning("the service does not answer as it should: %s", error)
        elif error is None and self._away:
            log.info("the service answers again")
        self._away = error is not None

    def close(self) -> None:
        """End the thread, and try once more to upload what waits; the rest stays in the spool."""
        self.ending.set()
        if self._thread.ident is not None:
            self._thread.join()
        self.flush()
        self._courier.close()
        with self._delivering, self._deciding:  # whoever has begun to write may end
            self._closed = True
            self._spool.close()


def _longer(pause: float, failure: Exception) -> float:
    """How long to wait after a failure; not as long where the service itself has asked to wait a moment.

    Examples
    --------
    >>> _longer(20.0, ClientError(0, "nobody answers")), _longer(0.2, ClientError(503, "try again"))
    (30.0, 1.0)
    """
    if isinstance(failure, ClientError) and failure.status in ASKED_TO_WAIT:
        return min(max(2 * pause, MIN_WAIT), MAX_WAIT)
    return min(2 * pause, MAX_PAUSE)
