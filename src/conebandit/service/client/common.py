"""What both clients share: options, and what they know of the service. Nothing here waits for it."""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from conebandit.service.client.courier import Courier
from conebandit.service.client.errors import ClientError
from conebandit.service.client.fallback import FallbackReceipt, Fallbacks
from conebandit.service.client.outbox import Outbox
from conebandit.service.client.patience import Breaker
from conebandit.service.client.requests import Asked, Context
from conebandit.service.client.transport import Site, Transport
from conebandit.service.replies import Assignment, Receipt
from conebandit.service.stores.records import new_ids
from conebandit.validate.arguments import as_positive

F = TypeVar("F", bound=Callable[..., Any])
Outcome = dict[str, Any]  # with an id and values

log = logging.getLogger("conebandit.client")


def described(method: F, build: Callable[..., Any]) -> F:
    """A method of a client with the name, the words and the arguments of the function that builds its request."""
    signature = inspect.signature(build)
    this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    method.__name__, method.__doc__ = build.__name__, build.__doc__
    method.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[this, *signature.parameters.values()], return_annotation=inspect.Signature.empty
    )
    return method


class QueuedReceipt(Receipt):
    """Says that the values are in the outbox."""

    @property
    def queued(self) -> bool:
        """True."""
        return True


@dataclass
class Wanted:
    """Decisions that a caller asks for; ``given``: under ids of its own. Some may have been answered before."""

    experiment: str
    decisions: list[Asked]
    given: bool
    answers: list[Assignment | None]

    @property
    def open(self) -> list[Asked]:
        """Those without an answer."""
        return [one for one, answer in zip(self.decisions, self.answers, strict=True) if answer is None]

    def with_answers(self, answers: Sequence[Assignment]) -> list[Assignment]:
        """All answers, given those to the open ones."""
        rest = iter(answers)
        return [next(rest) if answer is None else answer for answer in self.answers]


class Common:
    """A client, but for the waiting."""

    def __init__(
        self,
        address: str,
        *,
        key: str | None = None,
        retries: int = 5,
        timeout: float = 30.0,
        fallback: str | Mapping[str, str] | None = None,
        deadline: float = 0.2,
        outbox: str | os.PathLike[str] | None = None,
        actor: str | None = None,
    ) -> None:
        self.address = address
        self._site = Site.at(address, key, actor)
        self._actor = actor
        self._retries = retries
        self._timeout, self._deadline = as_positive(timeout, "timeout"), as_positive(deadline, "deadline")
        self._fallbacks = Fallbacks(fallback)
        self._breaker = Breaker()
        self._outbox = self._courier = None
        if outbox is not None:
            self._outbox = Outbox(outbox)
            # Without an actor, since each entry has that of its client; without retries, since it comes again anyway.
            self._courier = Courier(self._outbox, Transport(Site.at(address, key), retries=0), self._timeout)
        self._begin()

    def _begin(self) -> None:
        raise NotImplementedError

    def _wanted(
        self, experiment: str, contexts: Sequence[Context], ids: Sequence[str] | None, units: Sequence[str] | None
    ) -> Wanted:
        names = new_ids(len(contexts)) if ids is None else list(ids)
        served = [None if ids is None else self._fallbacks.served(experiment, id_) for id_ in names]
        of = [None] * len(contexts) if units is None else units
        asked = [Asked(*one) for one in zip(names, contexts, of, strict=True)]
        return Wanted(experiment, asked, ids is not None, served)

    def _in_place_of_the_service(self, wanted: Wanted, error: ClientError) -> list[Assignment]:
        ids = [asked.id for asked in wanted.open]
        return self._fallbacks.serve(wanted.experiment, ids, error, given=wanted.given)

    def _was_decided(self, wanted: Wanted, decided: Sequence[Assignment]) -> None:
        if wanted.given:
            self._fallbacks.remember(wanted.experiment, decided)
        self._was_answered(wanted.experiment)

    # ---- outcomes ---------------------------------------------------------------------------------------------------

    def _to_be_sent(self, experiment: str, outcomes: Sequence[Outcome]) -> list[Outcome]:
        """Outcomes without those of fallbacks: the service may hold another arm for such an id."""
        return [one for one in outcomes if not self._fallbacks.is_from_here(experiment, one["id"])]

    def _must_be_queued(self, outbox: Outbox, experiment: str, outcomes: Sequence[Outcome]) -> bool:
        """Whether older outcomes of these decisions wait, or the service does not answer anyway."""
        return outbox.holds(experiment, [one["id"] for one in outcomes]) or not self._breaker.allows(experiment)

    def _queue(self, outbox: Outbox, experiment: str, outcomes: Sequence[Outcome]) -> list[Receipt]:
        outbox.add(experiment, outcomes, self._actor)
        if self._courier is not None:
            self._courier.wake()
        return [QueuedReceipt(one["id"], (), (), (), ()) for one in outcomes]

    @staticmethod
    def _all_receipts(
        outcomes: Sequence[Outcome], sent: Sequence[Outcome], receipts: Sequence[Receipt]
    ) -> list[Receipt]:
        """In the order of the outcomes, with one for each that was not sent."""
        rest = iter(receipts)
        ids = {one["id"] for one in sent}
        return [next(rest) if one["id"] in ids else FallbackReceipt(one["id"], (), (), (), ()) for one in outcomes]

    # ---- the service ------------------------------------------------------------------------------------------------

    def _why_not_ask(self, experiment: str) -> ClientError | None:
        if self._breaker.allows(experiment):
            return None
        return ClientError(0, f"{self.address} did not answer lately; it is asked again in a moment")

    def _was_answered(self, experiment: str) -> None:
        if self._breaker.succeeded(experiment):
            log.info("%s answers again for %s", self.address, experiment)
            if self._courier is not None:
                self._courier.service_is_back()

    def _was_not_answered(self, experiment: str, error: ClientError) -> ClientError:
        """The error, if the service is in trouble; if the request is wrong, the caller is to hear of it."""
        if not error.is_trouble:
            self._was_answered(experiment)
            raise error
        if self._breaker.failed(experiment):
            log.warning("%s does not answer for %s: %s", self.address, experiment, error)
        return error
