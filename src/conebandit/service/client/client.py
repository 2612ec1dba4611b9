"""The client whose methods wait."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, Self

from conebandit.service.client import requests
from conebandit.service.client.common import Common, Outcome, Wanted, described
from conebandit.service.client.errors import ClientError
from conebandit.service.client.patience import Deadline
from conebandit.service.client.requests import Context, R, Request, Time, Times, Values
from conebandit.service.client.transport import Transport
from conebandit.service.replies import Assignment, Receipt

P = ParamSpec("P")


def _waiting(build: Callable[P, Request[R]]) -> Callable[Concatenate[Client, P], R]:
    """A method that sends the request which a function builds."""

    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._ask(build(*args, **kwargs))

    return described(method, build)


class Client(Common):
    """A client of ``conebandit serve``.

    When the connection breaks or the service is busy a request is sent again. That is safe: every decision has an id,
    made here if you give none, and the same id never leads to a second decision. It may be used from several threads.

    With ``fallback``, ``decide`` answers by itself when the service does not within ``deadline``, and says so. With
    ``outbox``, ``report`` keeps on disk what the service does not take within ``deadline``, and it is delivered later.
    What the service refuses (status 4xx) is still raised: it is a mistake in the request.

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
    fallback
        The arm that ``decide`` answers when the service does not: one for all experiments, or a table of arms by
        experiment. ``"baseline"`` stands for the baseline that the experiment declares. The client asks for it after
        its first decision; call ``show`` when you start, and it is known before. Without a fallback ``decide`` raises.
    deadline
        Seconds within which ``decide`` returns if there is a fallback, and ``report`` if there is an outbox (but for
        the time that the disk takes).
    outbox
        A file for outcomes that could not be delivered; threads and processes on one machine may share it. Without one
        ``report`` raises.
    actor
        Who asks, for the log of the service: a person or a program.

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

    Where nobody listens:

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     outbox = pathlib.Path(folder) / "outcomes.jsonl"
    ...     with cb.Client("http://127.0.0.1:9", fallback={"e": "old"}, outbox=outbox) as client:
    ...         assignment = client.decide("e", id="visit-2")
    ...         receipt = client.report("e", "visit-1", {"clicks": 2})
    >>> assignment.arm, assignment.fallback, receipt.queued
    ('old', True, True)
    """

    def _begin(self) -> None:
        self._transport = Transport(self._site, self._retries)

    # ---- traffic ----------------------------------------------------------------------------------------------------

    def decide(
        self,
        experiment: str,
        context: Context | None = None,
        *,
        id: str | None = None,  # noqa: A002
        unit: str | None = None,
    ) -> Assignment:
        """Ask for an arm; for a unit, if the experiment declares units."""
        units = None if unit is None else [unit]
        return self.decide_many(experiment, [context or {}], ids=None if id is None else [id], units=units)[0]

    def decide_many(
        self,
        experiment: str,
        contexts: Sequence[Context],
        *,
        ids: Sequence[str] | None = None,
        units: Sequence[str] | None = None,
    ) -> list[Assignment]:
        """Ask for several arms at once; all or none. For no context there is nothing to ask."""
        wanted = self._wanted(experiment, contexts, ids, units)
        return wanted.with_answers(self._decide(wanted) if wanted.open else [])

    def report(self, experiment: str, id: str, values: Values, *, observed_at: Time | None = None) -> Receipt:  # noqa: A002
        """Report metrics of a decision: any of them, at any time, again, or corrected.

        ``observed_at`` is when they were measured: a time with a zone, or ISO 8601 with an offset.
        """
        return self.report_many(experiment, {id: values}, observed_at=observed_at)[0]

    def report_many(
        self, experiment: str, outcomes: Mapping[str, Values], *, observed_at: Times = None
    ) -> list[Receipt]:
        """Report metrics of several decisions, by id; all or none. Without outcomes nothing is sent.

        ``observed_at`` is when they were measured, one time for all or a table by id.
        """
        tables = requests.as_outcomes(outcomes, observed_at)
        sent = self._to_be_sent(experiment, tables)
        return self._all_receipts(tables, sent, self._report(experiment, sent) if sent else [])

    def flush(self) -> int:
        """Deliver what is in the outbox now, within ``timeout``; how many outcomes are left in it."""
        return 0 if self._courier is None else self._courier.flush()

    # ---- experiments, and looking -----------------------------------------------------------------------------------

    def show(self, experiment: str) -> dict[str, Any]:
        """Declaration, arms, mode and number of events."""
        description = self._ask(requests.show(experiment))
        self._fallbacks.learn_baseline(description)
        return description

    create = _waiting(requests.create)
    copy = _waiting(requests.copy)
    experiments = _waiting(requests.experiments)
    add_arm = _waiting(requests.add_arm)
    retire_arm = _waiting(requests.retire_arm)
    set_mode = _waiting(requests.set_mode)
    retract = _waiting(requests.retract)
    void = _waiting(requests.void)
    void_many = _waiting(requests.void_many)
    unvoid = _waiting(requests.unvoid)
    correct_context = _waiting(requests.correct_context)
    held = _waiting(requests.held)
    release = _waiting(requests.release)
    reject = _waiting(requests.reject)
    erase = _waiting(requests.erase)
    set_stage = _waiting(requests.set_stage)
    change = _waiting(requests.change)
    lift = _waiting(requests.lift)
    rules = _waiting(requests.rules)
    front = _waiting(requests.front)
    explain = _waiting(requests.explain)
    events = _waiting(requests.events)
    audit = _waiting(requests.audit)
    export = _waiting(requests.export)
    shift = _waiting(requests.shift)
    state = _waiting(requests.state)

    def close(self) -> None:
        """Close the connections. What is in the outbox stays there, for the next client."""
        if self._courier is not None:
            self._courier.stop()
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, request: Request[R]) -> R:
        if self._courier is not None:
            self._courier.deliver_before(request)
        return self._transport.ask(request, Deadline(self._timeout))

    def _decide(self, wanted: Wanted) -> list[Assignment]:
        request = requests.decide(wanted.experiment, wanted.open)
        if not self._fallbacks.wanted:
            return self._ask(request)
        error = self._why_not_ask(wanted.experiment)
        if error is None:
            deadline = Deadline(self._deadline)
            try:
                decided = self._transport.ask(request, deadline)
            except ClientError as failure:
                error = self._was_not_answered(wanted.experiment, failure)
            else:
                self._was_decided(wanted, decided)
                self._learn_baseline(wanted.experiment, deadline)
                return decided
        return self._in_place_of_the_service(wanted, error)

    def _learn_baseline(self, experiment: str, deadline: Deadline) -> None:
        if self._fallbacks.wants_baseline(experiment):
            try:
                description = self._transport.ask(requests.show(experiment), deadline)
                self._fallbacks.learn_baseline(description)
            except ClientError as error:
                self._fallbacks.baseline_refused(experiment, error)

    def _report(self, experiment: str, outcomes: Sequence[Outcome]) -> list[Receipt]:
        request = requests.report(experiment, outcomes)
        if self._outbox is None:
            return self._ask(request)
        if not self._must_be_queued(self._outbox, experiment, outcomes):
            try:
                receipts = self._transport.ask(request, Deadline(self._deadline))
            except ClientError as error:
                self._was_not_answered(experiment, error)
            else:
                self._was_answered(experiment)
                return receipts
        return self._queue(self._outbox, experiment, outcomes)
