"""Addresses of names, looked up in threads that may be left behind: the system has no time-out that we could set."""

from __future__ import annotations

import os
import socket
import threading
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

Addresses = list[Any]  # as socket.getaddrinfo gives them

_lock = threading.Lock()
_asked: dict[tuple[int, str, int], Future[Addresses]] = {}  # by process, name and port


def look_up(host: str, port: int) -> Future[Addresses]:
    """The addresses of a name, when they are known. Callers who ask meanwhile share one thread.

    Examples
    --------
    >>> look_up("127.0.0.1", 80).result()[0][4]
    ('127.0.0.1', 80)
    """
    wanted = (os.getpid(), host, port)  # the threads of a parent do not answer here
    with suppress(OSError):  # no name, but an address: nobody has to be asked
        found: Future[Addresses] = Future()
        found.set_result(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST))
        return found
    with _lock:
        if wanted not in _asked:
            _asked[wanted] = Future()
            threading.Thread(target=_answer, args=(wanted, _asked[wanted]), daemon=True).start()
        return _asked[wanted]


def _answer(wanted: tuple[int, str, int], asked: Future[Addresses]) -> None:
    try:
        asked.set_result(socket.getaddrinfo(*wanted[1:], type=socket.SOCK_STREAM))
    except (OSError, UnicodeError) as error:  # the latter for what can be no name
        asked.set_exception(OSError(f"{wanted[1]}: {error}"))
    finally:
        with _lock:
            del _asked[wanted]
