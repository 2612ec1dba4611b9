"""How an experiment came to know what it knows: copies of its policy at positions spread over the log.

No past state is kept anywhere, so the log is folded from its first event on, with all corrections that count now, by a
thread beside the writer, when somebody looks. What was erased, or corrected, changes the view of the log: then the fold
begins anew, and copies from before are forgotten. All are forgotten when nobody has looked for a while.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from dataclasses import replace
from typing import Any, NamedTuple

from conebandit.experiment.declaration import Experiment
from conebandit.experiment.errors import RefusalError
from conebandit.experiment.policy import Served
from conebandit.service.engine.readers import FAULT
from conebandit.service.engine.revisions import AT_ONCE, MAX_PAUSE
from conebandit.service.log.entries import Entry
from conebandit.service.log.replay import fold_page, start, view_at
from conebandit.service.log.reports import Reports
from conebandit.service.log.state import State
from conebandit.service.shift import leads_to
from conebandit.service.stores.base import Store
from conebandit.service.stores.records import Head
from conebandit.service.stores.session import Session

MAX_POINTS = 24  # copies of one policy: more than a chart can show apart
MAX_BYTES = 64 << 20  # of all copies together
MAX_COURSES = 4  # experiments that are remembered
IDLE = 600.0  # seconds after which they are forgotten, if nobody asks

log = logging.getLogger("conebandit.service")


class Point(NamedTuple):
    """A policy as it was after the event at a position, with all corrections that count now.

    Attributes
    ----------
    seq, at
        The position, and the time of its event in milliseconds since 1970.
    observations
        Of how many decisions and past rows something was learned.
    policy
        A copy. Hold ``asking`` of its course while you ask it something.
    size
        Of its arrays, in bytes.
    answers
        What was asked of it before, by what was asked: it goes when the point goes.
    """

    seq: int
    at: int
    observations: int
    policy: Served
    size: int
    answers: dict[bytes, Any]


class Past(NamedTuple):
    """What a course has found so far.

    Attributes
    ----------
    experiment
        As declared; its ``arms`` are those that the policies have, in the order of their indices. None before the
        first event was read.
    points
        The copies, earliest first, of policies that have learned something.
    read, events
        How many events were read, and how many there were then.
    problem
        Why no more can be read; empty if it can.
    """

    experiment: Experiment | None
    points: tuple[Point, ...]
    read: int
    events: int
    problem: str

    def share(self, events: int = 0) -> float:
        """How much of the log was read, from 0 to 1, if there are so many events by now."""
        return self.read / max(self.events, events, 1)


class Course:
    """Folds a log bit by bit, and keeps some of the policies on the way.

    One is kept whenever as many observations have come as a power of two says, the stride, which doubles when there
    would be too many: so they stay spread over the observations as the log grows.

    Parameters
    ----------
    store
        Where the log is.
    experiment_id
        Whose.
    max_bytes
        What the copies may take together.

    Attributes
    ----------
    problem
        Why no more can be read; empty if it can.
    asking
        A lock, to be held by whoever asks one of the policies.
    asked
        When somebody asked for this last, by the monotonic clock.
    """

    def __init__(self, store: Store, experiment_id: str, max_bytes: int = MAX_BYTES) -> None:
        self._store, self._id, self._max_bytes = store, experiment_id, max_bytes
        self._state: State | None = None
        self._points: list[Point] = []
        self._stride = 1
        self._events = 0
        self._lock = threading.Lock()  # for what is found; the fold itself is one thread's business, and may take long
        self.problem = ""
        self.asking = threading.Lock()
        self.asked = time.monotonic()

    def past(self) -> Past:
        """What was found so far."""
        with self._lock:
            state = self._state
            if state is None:
                return Past(None, (), 0, 0, self.problem)
            experiment = replace(state.experiment, arms=state.known)
            return Past(experiment, tuple(self._points), state.head.seq, self._events, self.problem)

    def advance(self, limit: int = AT_ONCE) -> bool:
        """Fold some more events; False if there were none. Not to be called by two threads at once."""
        try:
            with self._store.read() as session:
                head = session.existing_head(self._id)
                state = self._state
                if state is None or state.stale or not leads_to(session, self._id, state.head):
                    state = self._begin(session, head)
                self._events = head.seq
                return fold_page(session, state, head, self, limit=limit) or state.stale
        except BaseException:
            self._forget()  # an event may have been folded in part
            raise

    def allow(self, max_bytes: int) -> None:
        """Let the copies take so much from now on."""
        with self._lock:
            self._max_bytes = max_bytes
            self._thin_out()

    def _begin(self, session: Session, head: Head) -> State:
        """Forget everything, and begin with the first event; snapshots would leave out what comes before them."""
        self._forget()
        state = start(session, self._id, view_at(session, self._id, head.seq), before=0)
        with self._lock:
            self._state = state
        return state

    def _forget(self) -> None:
        with self._lock:
            self._points, self._stride, self._state = [], 1, None

    # ---- while the log is folded: what replay.Watch asks for ----------------------------------------------------

    def before(self, state: State, entry: Entry) -> None:
        """Nothing is looked at before an event."""

    def after(self, state: State, entry: Entry, reports: Reports | None) -> None:
        """Keep a copy now and then."""
        if self._is_far_enough(state.observations, self._points):
            size = sum(array.nbytes for array in state.policy.state().values())
            point = Point(entry.seq, state.at, state.observations, state.policy.copy(), size, {})
            with self._lock:
                self._points.append(point)
                self._thin_out()

    def _is_far_enough(self, observations: int, kept: list[Point]) -> bool:
        """Whether a multiple of the stride was passed since the last one that is kept."""
        last = kept[-1].observations if kept else 0
        return observations // self._stride > last // self._stride

    def _thin_out(self) -> None:
        while len(self._points) > MAX_POINTS or sum(point.size for point in self._points) > self._max_bytes:
            self._stride *= 2
            kept: list[Point] = []
            for point in self._points:
                if self._is_far_enough(point.observations, kept):
                    kept.append(point)
            self._points = kept


class Courses:
    """The courses of the experiments that somebody looks at, read by one thread, which ends when nobody does.

    Parameters
    ----------
    store
        Where the logs are.
    idle
        Seconds after which all is forgotten, if nobody asks.
    """

    def __init__(self, store: Store, idle: float = IDLE) -> None:
        self._store, self._idle = store, idle
        self._courses: dict[str, Course] = {}
        self._waiting: deque[str] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def ask(self, experiment_id: str) -> Course:
        """The course of an experiment, as far as it was read; what is new in its log is read from now on."""
        with self._changed:
            course = self._courses.pop(experiment_id, None) or Course(self._store, experiment_id)
            self._courses[experiment_id] = course  # the last one that was asked for comes last
            course.asked = time.monotonic()
            while len(self._courses) > MAX_COURSES or self._is_idle(next(iter(self._courses.values()))):
                del self._courses[next(iter(self._courses))]
            if not self._closed and experiment_id not in self._waiting:
                self._waiting.append(experiment_id)
                self._changed.notify()
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="conebandit-course", daemon=True)
                self._thread.start()
            others, part = list(self._courses.values()), MAX_BYTES // len(self._courses)
        for each in others:
            each.allow(part)
        return course

    def _is_idle(self, course: Course) -> bool:
        return time.monotonic() - course.asked > self._idle

    def close(self) -> None:
        """Read no more, and wait for the end."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while (course := self._next()) is not None:
            began = time.perf_counter()
            more = self._advance(course)
            with self._changed:
                self._waiting.rotate(-1)  # each log its page
                if not more and self._waiting:
                    self._waiting.pop()
            time.sleep(min(time.perf_counter() - began, MAX_PAUSE))  # decisions in this process come first

    def _next(self) -> Course | None:
        """The course that is read next; None, and nothing is kept any more, if nobody asks for long."""
        with self._changed:
            while True:
                while self._waiting and self._waiting[0] not in self._courses:
                    self._waiting.popleft()  # others were asked for since
                if self._waiting and not self._closed:
                    return self._courses[self._waiting[0]]
                if self._closed or not self._changed.wait(self._idle):
                    self._courses.clear()
                    self._thread = None
                    return None

    def _advance(self, course: Course) -> bool:
        try:
            more = course.advance()
            course.problem = ""
        except RefusalError as error:
            course.problem, more = str(error), False
        except Exception:
            log.exception("the course of an experiment could not be read")
            course.problem, more = FAULT, False
        return more
