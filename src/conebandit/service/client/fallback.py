"""What a client serves when the service does not answer in time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from conebandit.service.client.errors import ClientError
from conebandit.service.replies import FALLBACK, Assignment, Receipt
from conebandit.service.stores.records import new_id

BASELINE = "baseline"
REFRESHED_AFTER = 300.0  # seconds; a baseline changes seldom, if ever, and asking costs some decision a request
ASKED_AGAIN_AFTER = 10.0  # seconds, if it was not told
MAX_SERVED = 100_000  # fallbacks that are remembered, about 20 MB: some hours of outage, then the oldest are forgotten
MAX_DECIDED = 10_000  # answers of the service that are remembered, about 6 MB: those that may be asked for again soon
PREFIX = "conebandit-fallback-"  # of ids that a client makes for fallbacks: the service never hears of them

T = TypeVar("T")


class FallbackReceipt(Receipt):
    """Says that nobody keeps the values, since the client itself had answered the decision."""

    @property
    def fallback(self) -> bool:
        """True."""
        return True


class Fallbacks:
    """Which arm to serve in whose place, and which decisions were answered that way.

    A decision that the client has answered stays so: the service may have made it as well, with another arm, and the
    answer came too late. So the same id gets the same arm again, and outcomes are not passed on. And what the service
    has answered is remembered for a while: asked for again when the service does not answer, it is not replaced.

    Examples
    --------
    >>> fallbacks = Fallbacks({"checkout": "old"})
    >>> [served] = fallbacks.serve("checkout", ["visit-1"], ClientError(503, "busy"), given=True)
    >>> served.arm, served.fallback, served == fallbacks.served("checkout", "visit-1")
    ('old', True, True)
    >>> try:
    ...     fallbacks.serve("search", ["visit-2"], ClientError(503, "busy"), given=True)
    ... except ClientError as error:
    ...     print(error)
    busy (and there is no arm to fall back on: fallback names none for 'search')
    """

    def __init__(self, fallback: str | Mapping[str, str] | None, *, clock: Callable[[], float] | None = None) -> None:
        if not (fallback is None or isinstance(fallback, str | Mapping)):
            raise TypeError(f"fallback must be an arm, 'baseline' or a table of arms by experiment; got {fallback!r}.")
        self._fallback = fallback
        self._clock = time.monotonic if clock is None else clock
        self._baselines: dict[str, str] = {}  # by experiment
        self._ask_at: dict[str, float] = {}  # when to ask for them
        self._served: _Recent[str] = _Recent(MAX_SERVED)
        self._decided: _Recent[Assignment] = _Recent(MAX_DECIDED)

    @property
    def wanted(self) -> bool:
        """Whether there are to be any."""
        return self._fallback is not None

    def wants_baseline(self, experiment: str) -> bool:
        """Whether the caller is to ask for the baseline: before it is needed, and again now and then."""
        now = self._clock()
        if self._named(experiment) != BASELINE or now < self._ask_at.get(experiment, now):
            return False
        self._ask_at[experiment] = now + ASKED_AGAIN_AFTER
        return True

    def learn_baseline(self, description: Mapping[str, Any]) -> None:
        """Remember the baseline of an experiment, from its description."""
        if self.wanted:
            experiment = description["id"]
            self._baselines[experiment] = description["declaration"].get("baseline") or description["arms"][0]["name"]
            self._ask_at[experiment] = self._clock() + REFRESHED_AFTER

    def baseline_refused(self, experiment: str, error: ClientError) -> None:
        """The service did not tell the baseline. That does no harm yet, unless it never will: then it is said now."""
        if experiment not in self._baselines and not error.is_trouble:
            self._ask_at.pop(experiment, None)
            raise ClientError(
                error.status,
                f"fallback='baseline' must be able to ask for it, which takes a key with scope 'read', but: {error} "
                f"Use such a key, or name the arm: fallback={{{experiment!r}: ...}}.",
            ) from error

    def remember(self, experiment: str, decided: Iterable[Assignment]) -> None:
        """What the service has answered, to ids that the caller gave."""
        for assignment in decided:
            self._decided.put((experiment, assignment.id), assignment)

    def serve(self, experiment: str, ids: Sequence[str], error: ClientError, *, given: bool) -> list[Assignment]:
        """Answer decisions for the service; ``given``: under ids of the caller's. Raises if there is no arm."""
        arm = self._arm(experiment, error)
        if given:
            return [self._serve(experiment, id_, arm) for id_ in ids]
        return [_answer(PREFIX + new_id(), arm) for _ in ids]

    def served(self, experiment: str, id_: str) -> Assignment | None:
        """What was answered for the service under this id, if anything was."""
        arm = self._served.get((experiment, id_))
        return None if arm is None else _answer(id_, arm)

    def is_from_here(self, experiment: str, id_: str) -> bool:
        """Whether an id is that of a decision that a client has answered: this one, or any under an id it made."""
        return id_.startswith(PREFIX) or self._served.get((experiment, id_)) is not None

    def _serve(self, experiment: str, id_: str, arm: str) -> Assignment:
        decided = self._decided.get((experiment, id_))
        if decided is not None:
            return decided
        self._served.put((experiment, id_), arm)
        return _answer(id_, arm)

    def _arm(self, experiment: str, error: ClientError) -> str:
        arm = self._named(experiment)
        why = f"fallback names none for {experiment!r}"
        if arm == BASELINE:
            arm = self._baselines.get(experiment)
            why = (
                f"the service never told the baseline of {experiment!r}; call show() before the first decision, or "
                f"name the arm: fallback={{{experiment!r}: ...}}"
            )
        if arm is None:
            raise ClientError(error.status, f"{error} (and there is no arm to fall back on: {why})") from error
        return arm

    def _named(self, experiment: str) -> str | None:
        if self._fallback is None or isinstance(self._fallback, str):
            return self._fallback
        return self._fallback.get(experiment)


class _Recent(Generic[T]):
    """What was put in last, by experiment and id."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._held: dict[tuple[str, str], T] = {}  # the oldest first

    def get(self, key: tuple[str, str]) -> T | None:
        return self._held.get(key)

    def put(self, key: tuple[str, str], value: T) -> None:
        with self._lock:
            self._held[key] = value
            if len(self._held) > self._limit:
                del self._held[next(iter(self._held))]


def _answer(id_: str, arm: str) -> Assignment:
    """As in mode ``off``: the policy was not asked, and the arm was served with certainty."""
    return Assignment(id_, arm, 1.0, (arm,), FALLBACK, None, {arm: 1.0})
