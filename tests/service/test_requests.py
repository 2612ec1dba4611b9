"""What callers in an event loop ask is handed over together, and so are the answers."""

import asyncio
from concurrent.futures import Future

import pytest

from conebandit.service.engine.requests import Gathering, Request, hand_over, reply_to_all


def gather(count, answer_all):
    """Ask from ``count`` tasks; gives what they got, and the requests as they were handed over."""
    handed_over = []

    def submit(requests):
        handed_over.append(requests)
        answer_all(requests)

    async def main():
        gathering = Gathering(submit)
        asked = [gathering.ask(f"e{i}", lambda turn: turn) for i in range(count)]
        return await asyncio.gather(*asked, return_exceptions=True)

    return asyncio.run(main()), handed_over


def test_what_is_asked_in_one_round_of_the_loop_is_handed_over_at_once():
    answers, handed_over = gather(5, lambda requests: reply_to_all([(r, r.experiment) for r in requests]))
    assert answers == ["e0", "e1", "e2", "e3", "e4"]
    assert [len(requests) for requests in handed_over] == [5]


def test_answers_of_a_turn_wake_the_loop_once():
    calls = []

    async def main():
        loop = asyncio.get_running_loop()
        gathering = Gathering(lambda requests: reply_to_all([(r, None) for r in requests]))
        wake = loop.call_soon_threadsafe
        loop.call_soon_threadsafe = lambda *call: calls.append(call) or wake(*call)
        await asyncio.gather(*(gathering.ask("e", lambda turn: turn) for _ in range(4)))

    asyncio.run(main())
    assert len(calls) == 1


def test_each_gets_an_answer_or_a_refusal_of_its_own():
    def answer_all(requests):
        reply_to_all([(r, ValueError("no") if r.experiment == "e1" else 1) for r in requests])

    answers, _ = gather(3, answer_all)
    assert answers[0] == answers[2] == 1
    with pytest.raises(ValueError, match="no"):
        raise answers[1]


def test_nobody_is_answered_who_has_given_up():
    begun = []

    async def main():
        gathered = []
        gathering = Gathering(gathered.extend)
        tasks = [asyncio.create_task(gathering.ask(f"e{i}", lambda turn: turn)) for i in range(2)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        await asyncio.sleep(0.01)
        begun.extend(request.begin() for request in gathered)
        reply_to_all([(request, request.experiment) for request in gathered])
        return await asyncio.gather(*tasks, return_exceptions=True)

    first, second = asyncio.run(main())
    assert begun == [False, True]
    assert isinstance(first, asyncio.CancelledError)
    assert second == "e1"


def test_a_thread_that_has_cancelled_is_left_alone_and_no_answer_comes_twice():
    cancelled, waiting = Future(), Future()
    cancelled.cancel()
    assert [Request("e", lambda turn: turn, answer).begin() for answer in (cancelled, waiting)] == [False, True]
    hand_over([(cancelled, 1), (waiting, 2)])
    hand_over([(waiting, 3)])
    assert waiting.result() == 2
