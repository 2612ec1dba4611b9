"""Repairing a log that a wrong clock has dated: somebody says why, and it is in the log."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from conebandit.experiment import entries
from conebandit.experiment.errors import InvalidError
from conebandit.service.engine.ledger import Ledger
from conebandit.service.errors import ConflictError
from conebandit.service.log.entries import By, read
from conebandit.service.log.events import ClockRepaired
from conebandit.service.log.repairs import Repairs
from conebandit.service.log.replay import read_to_head
from conebandit.service.stores.base import Store
from conebandit.service.stores.session import Session

MAX_REASON = 500  # characters
MAX_REPLAYED = 250  # events that are folded anew at once; a longer log is when it is served


def repair_clock(
    store: Store, experiment_id: str, reason: str, by: str, *, now: int, after: int | None = None
) -> ClockRepaired:
    """Append an event after which times go on from now, and which says which ones before it are wrong.

    Parameters
    ----------
    store
        Where the log is.
    experiment_id
        Whose log.
    reason
        What had happened.
    by
        Who says so.
    now
        Milliseconds since 1970, by a clock that is right.
    after
        Position of the last event with a right date; by default the last one that is not dated after now.
    """
    entries.text(reason, "reason", most=MAX_REASON)
    known, ledger = read_to_head(store.read, experiment_id), Ledger(MAX_REPLAYED)
    if known is not None:
        ledger.put(known)
    with ledger.transaction(store, now) as transaction:
        state = transaction.state(experiment_id)
        last = state.head.seq
        time = _times(transaction.session, experiment_id, last)
        if after is None and state.at <= now:
            raise ConflictError(
                f"the log of {experiment_id!r} is not ahead of the clock. If it was, and its dates are wrong, say "
                "which event was the last with a right one (--after)."
            )
        after = bisect_right(range(1, last), now, key=time) if after is None else after
        if not 0 <= after < last or (after and time(after) > now):
            raise InvalidError(
                f"after must be the position of an event that is not dated after now, and not of the last one, {last}; "
                f"got {after}."
            )
        event = ClockRepaired(now, after, reason)
        transaction.append(state, event, by=By(None, by))
    return event


def _times(session: Session, experiment_id: str, last: int) -> Callable[[int], int]:
    """When the event at a position happened, at the earliest; that never decreases."""
    repairs = Repairs.find(session, experiment_id, last)

    def time(seq: int) -> int:
        return repairs.earliest(seq, read(session.events(experiment_id, seq - 1, seq)[0]).event.at)

    return time
