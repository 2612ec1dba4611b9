"""HTTP/1.1 as bytes: what is sent, and an answer read piece by piece. Knows no sockets, so both clients use it."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from string import digits, hexdigits
from typing import TypeVar

MAX_LINE = 65_536  # bytes of a line in a header; more is no answer of a service
MAX_LINES = 200

T = TypeVar("T")
Reading = Generator[None, bytes, T]  # is sent pieces, b"" at the end of the connection


class WireError(Exception):
    """What came is not HTTP/1.1."""


@dataclass(frozen=True)
class Answer:
    """A status, 0 if there was no answer; its content, or the reason; whether the connection can be used again."""

    status: int
    content: bytes
    reusable: bool = False


def request_bytes(method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
    r"""What is sent for a request.

    Examples
    --------
    >>> request_bytes("POST", "/decisions", {"host": "a"}, b"{}")
    b'POST /decisions HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}'
    """
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    if body is not None:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


class Incoming:
    r"""One answer, on its way.

    Examples
    --------
    >>> incoming = Incoming()
    >>> incoming.feed(b"HTTP/1.1 200 OK\r\ncontent-le")
    >>> incoming.feed(b"ngth: 2\r\n\r\n{}")
    Answer(status=200, content=b'{}', reusable=True)
    """

    def __init__(self) -> None:
        self._reading = _read_answer(_Buffer())
        next(self._reading)

    def feed(self, piece: bytes) -> Answer | None:
        """The answer, if it is complete with this piece. An empty piece is the end of the connection."""
        try:
            self._reading.send(piece)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        return None


class _Buffer:
    """What has come and is not read yet. Reads are generators, which wait for more."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._seen = self.ended = False

    def more(self) -> Reading[None]:
        piece = yield
        if not (piece or self._seen):
            raise ConnectionResetError("the connection was ended before an answer came")
        self._seen, self.ended = True, not piece
        self._held += piece

    def line(self) -> Reading[bytes]:
        searched = 0
        while (end := self._held.find(b"\n", searched)) < 0:
            searched = len(self._held)
            if searched > MAX_LINE:
                raise WireError("a line of the answer is too long")
            self._fail_if_ended()
            yield from self.more()
        line = bytes(self._held[:end]).removesuffix(b"\r")
        del self._held[: end + 1]
        return line

    def exactly(self, size: int) -> Reading[bytes]:
        while len(self._held) < size:
            self._fail_if_ended()
            yield from self.more()
        part = bytes(self._held[:size])
        del self._held[:size]
        return part

    def rest(self) -> Reading[bytes]:
        while not self.ended:
            yield from self.more()
        return bytes(self._held)

    def __len__(self) -> int:
        return len(self._held)

    def _fail_if_ended(self) -> None:
        if self.ended:
            raise WireError("the connection was ended in the middle of an answer")


def _read_answer(buffer: _Buffer) -> Reading[Answer]:
    status, headers = yield from _head(buffer)
    while 100 <= status < 200:  # such as "100 Continue": the answer is still to come
        status, headers = yield from _head(buffer)
    keeps = headers.get("connection", "").lower() != "close"
    if status in (204, 304):
        content = b""
    elif "chunked" in headers.get("transfer-encoding", "").lower():
        content = yield from _chunks(buffer)
    elif "content-length" in headers:
        content = yield from buffer.exactly(_number(headers["content-length"], 10))
    else:
        content, keeps = (yield from buffer.rest()), False
    return Answer(status, content, keeps and not len(buffer))


def _head(buffer: _Buffer) -> Reading[tuple[int, dict[str, str]]]:
    """Status and headers, by name in lower case."""
    version, _, rest = (yield from buffer.line()).partition(b" ")
    if version not in (b"HTTP/1.1", b"HTTP/1.0") or not rest[:3].isdigit():
        raise WireError("the answer is not HTTP/1.1")
    headers = {"connection": "close"} if version == b"HTTP/1.0" else {}
    for _ in range(MAX_LINES):
        line = yield from buffer.line()
        if not line:
            return int(rest[:3]), headers
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    raise WireError("the answer has too many headers")


def _chunks(buffer: _Buffer) -> Reading[bytes]:
    content = bytearray()
    while size := _number((yield from buffer.line()).partition(b";")[0].decode("latin-1").strip(), 16):
        content += yield from buffer.exactly(size)
        yield from buffer.line()
    while (yield from buffer.line()):  # trailers
        pass
    return bytes(content)


def _number(text: str, base: int) -> int:
    if not text or set(text) - set(digits if base == 10 else hexdigits):  # int() would also take signs and such
        raise WireError("the length of the answer is not a number")
    return int(text, base)
