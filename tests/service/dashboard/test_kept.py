"""Answers are kept while they are asked for, and made once."""

import threading

import pytest

from conebandit.service.dashboard.kept import Kept


def test_those_that_were_asked_for_last_are_kept():
    kept, made = Kept(2), []
    for key in "abacab":
        assert kept.get(key, lambda key=key: made.append(key) or key.upper()) == key.upper()
    assert made == ["a", "b", "c", "b"]
    assert len(kept._making) <= 2


def test_none_is_an_answer_too():
    kept, made = Kept(2), []
    for _ in range(3):
        assert kept.get("a", lambda: made.append(1)) is None
    assert made == [1]


def test_what_several_ask_for_at_once_is_made_once():
    kept, made, begun, answers = Kept(2), [], threading.Barrier(8), []

    def ask():
        begun.wait(30)
        answers.append(kept.get("a", lambda: made.append(1) or len(made)))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (made, answers) == ([1], [1] * 8)


def test_an_error_is_not_kept():
    kept = Kept(2)
    with pytest.raises(ZeroDivisionError):
        kept.get("a", lambda: 1 // 0)
    assert not kept._making
    assert kept.get("a", lambda: 2) == 2
