"""Answers as bytes: however they are cut into pieces, they are what the standard library reads in them."""

import http.client
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conebandit.service.client import wire
from conebandit.service.client.wire import Incoming, WireError

BODIES = st.binary(max_size=60)


def chunked(parts, extension="", trailer=""):
    text = b"".join(b"%x%s\r\n%s\r\n" % (len(part), extension.encode(), part) for part in parts if part)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + text + b"0\r\n" + trailer.encode() + b"\r\n"


ANSWERS = st.one_of(
    BODIES.map(lambda body: b"HTTP/1.1 404 Not Found\r\nContent-Length:%d\r\nX: y\r\n\r\n%s" % (len(body), body)),
    BODIES.map(lambda body: b"HTTP/1.1 200\r\nconnection: close\r\n\r\n" + body),
    BODIES.map(lambda body: b"HTTP/1.0 503 Busy\r\n\r\n" + body),
    BODIES.map(
        lambda body: b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\ncontent-length: %d\n\n%s" % (len(body), body)
    ),
    st.just(b"HTTP/1.1 204 No Content\r\n\r\n"),
    st.lists(BODIES, max_size=4).map(chunked),
    st.lists(BODIES, max_size=4).map(lambda parts: chunked(parts, ";name=value", "X-Trailer: t\r\n")),
)


class Twin:
    """Read by the standard library."""

    def __init__(self, text):
        self._text = text

    def makefile(self, *_):
        return io.BytesIO(self._text)

    def read(self):
        answer = http.client.HTTPResponse(self)
        answer.begin()
        return answer.status, answer.read(), not answer.will_close


def fed(pieces):
    """The answer, after these pieces or at the end of the connection."""
    incoming = Incoming()
    for piece in pieces:
        answer = incoming.feed(piece)
        if answer is not None:
            return answer
    return incoming.feed(b"")


@given(ANSWERS, st.lists(st.integers(0, 200), max_size=6))
def test_an_answer_is_what_the_standard_library_reads(text, cuts):
    ends = sorted({min(cut, len(text)) for cut in cuts} | {len(text)} - {0})
    pieces = [text[a:b] for a, b in zip([0, *ends], ends, strict=False) if text[a:b]]
    answer = fed(pieces)
    assert (answer.status, answer.content, answer.reusable) == Twin(text).read()
    assert answer == fed([text[i : i + 1] for i in range(len(text))])


@given(ANSWERS, st.data())
def test_an_answer_that_was_cut_off_is_none(text, data):
    kept = data.draw(st.integers(0, len(text) - 1))
    if b"close\r\n\r\n" in text[:kept] or (b"HTTP/1.0" in text[:kept] and b"\r\n\r\n" in text[:kept]):
        return  # such a body ends with the connection: nobody can tell
    with pytest.raises((WireError, ConnectionResetError)):
        fed([text[:kept]] if kept else [])


@pytest.mark.parametrize(
    "text",
    [
        b"220 mail.example.org ESMTP\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1_0\r\n\r\n0123456789",
        b"HTTP/1.1 200 OK\r\ncontent-length: ten\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0x2\r\nab\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * (wire.MAX_LINES + 1),
        b"HTTP/1.1 200 OK\r\n" + b"x" * (wire.MAX_LINE + 2),
    ],
)
def test_what_is_not_http_is_refused(text):
    with pytest.raises(WireError):
        fed([text])


def test_what_comes_after_an_answer_is_not_taken_for_the_next_one():
    answer = Incoming().feed(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\n")
    assert answer is not None
    assert not answer.reusable
