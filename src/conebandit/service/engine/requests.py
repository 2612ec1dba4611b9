"""Requests that wait for the writer, and how those who ask get their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NamedTuple

from conebandit.service.engine.turn import Turn
from conebandit.service.log.entries import By
from conebandit.service.log.events import Decided

Work = Callable[[Turn], Any]
Answer = Future[Any] | asyncio.Future[Any]
Answers = Sequence[tuple[Answer, Any]]  # an exception is the answer to what was refused


def hand_over(answers: Answers) -> None:
    """Give answers to those who wait for them, in whatever thread; not to those who have given up, or have one."""
    for waiting, answer in answers:
        if waiting.done():
            continue
        if isinstance(answer, Exception):
            waiting.set_exception(answer)
        else:
            waiting.set_result(answer)


@dataclass(frozen=True)
class Decide:
    """Work that makes decisions. If there is more of it for an experiment, the writer does it together."""

    experiment: str
    requests: Sequence[Mapping[str, Any]]

    def __call__(self, turn: Turn) -> list[Decided]:
        """The decisions, in the order of the requests."""
        return turn.make_decisions(self.experiment, self.requests)


class Request(NamedTuple):
    """Something to do on an experiment.

    Attributes
    ----------
    experiment, work
        What to do, and on which one.
    answer
        Where the answer goes.
    by
        Who asks.
    alone
        Whether it needs a transaction of its own.
    reply
        How answers are handed over; called once for all that a turn has.
    """

    experiment: str
    work: Work
    answer: Answer
    by: By | None = None
    alone: bool = False
    reply: Callable[[Answers], None] = hand_over

    def begin(self) -> bool:
        """Whether the answer is still wanted."""
        if isinstance(self.answer, Future):
            return self.answer.set_running_or_notify_cancel()
        return not self.answer.cancelled()


def reply_to_all(answers: Sequence[tuple[Request, Any]]) -> None:
    """Hand over the answers of a turn."""
    ways: dict[Callable[[Answers], None], list[tuple[Answer, Any]]] = {}
    for request, answer in answers:
        ways.setdefault(request.reply, []).append((request.answer, answer))
    for reply, some in ways.items():
        reply(some)


class Gathering:
    """Asks the writer for callers in an event loop.

    What is asked in one round of the loop is handed over together, and so are the answers of a turn: threads that take
    turns for every single request cost more than the requests.

    Parameters
    ----------
    submit
        Takes requests; :meth:`Writer.submit_all`.
    """

    def __init__(self, submit: Callable[[list[Request]], None]) -> None:
        self._submit = submit
        self._gathered: list[Request] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reply: Callable[[Answers], None] = hand_over

    async def ask(self, experiment: str, work: Work, by: By | None = None) -> Any:
        """Have the writer do something, and wait for its commit."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # the first time; in tests an application may see several
            self._loop, self._reply = loop, _reply_in(loop)
        answer: asyncio.Future[Any] = loop.create_future()
        if not self._gathered:
            loop.call_soon(self._hand_over)
        self._gathered.append(Request(experiment, work, answer, by, reply=self._reply))
        return await answer

    def _hand_over(self) -> None:
        gathered, self._gathered = self._gathered, []
        self._submit(gathered)


def _reply_in(loop: asyncio.AbstractEventLoop) -> Callable[[Answers], None]:
    def reply(answers: Answers) -> None:
        loop.call_soon_threadsafe(hand_over, answers)

    return reply
