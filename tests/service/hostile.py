"""Servers on loopback that behave badly, each in a thread."""

import json
import socket
import threading
from contextlib import contextmanager, suppress

ARM = {"id": "d", "arm": "a", "propensity": 1, "active": ["a"], "mode": "live", "policy_version": "v"}


def answer(body, status=200, headers=""):
    """The bytes of an answer with a body of JSON."""
    content = json.dumps(body).encode()
    head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(content)}\r\n{headers}\r\n"
    return head.encode() + content


def read_request(connection):
    """One request: method, path, headers in lower case, body; None if the connection has ended."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return None
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        body += connection.recv(65536)
    method, path, _ = first.split(" ")
    return method, path, headers, json.loads(body) if body else None


@contextmanager
def listening(behave):
    """A server whose connections are given to ``behave(connection, stop)``; its address, and a list of them."""
    stop = threading.Event()
    server = socket.create_server(("127.0.0.1", 0))
    threads, connections = [], []

    def serve(connection):
        with connection, suppress(OSError):  # the client has gone
            behave(connection, stop)

    def accept():
        while not stop.is_set():
            try:
                connection, _ = server.accept()
            except OSError:
                return
            connections.append(connection)
            threads.append(threading.Thread(target=serve, args=(connection,)))
            threads[-1].start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield f"http://127.0.0.1:{server.getsockname()[1]}", connections
    finally:
        stop.set()
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        accepting.join()
        for connection in connections:
            with suppress(OSError):  # it has ended
                connection.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()


def dripping(connection, stop):
    """Sends the answer one byte at a time, for ever: the next byte always comes soon."""
    read_request(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\nx-long: ")
    while not stop.wait(0.02):
        connection.sendall(b"x")


def dripping_body(connection, stop):
    """The same, in the body."""
    read_request(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
    while not stop.wait(0.02):
        connection.sendall(b" ")


def continuing(connection, stop):
    """Says "100 Continue" again and again."""
    read_request(connection)
    while not stop.wait(0.01):
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")


def silent(connection, stop):
    """Takes the request and says nothing."""
    read_request(connection)
    stop.wait()


def deaf(connection, stop):
    """Does not even read."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    stop.wait()


def rude(connection, stop):
    """Ends each connection after the request."""
    read_request(connection)


def garbling(connection, stop):
    """Speaks something else."""
    read_request(connection)
    connection.sendall(b"220 mail.example.org ESMTP\r\n" * 100)


def cutting(connection, stop):
    """Ends the connection in the middle of the answer."""
    read_request(connection)
    connection.sendall(answer(ARM)[:-5])


def saying(body, status=200):
    """Answers everything in the same way."""

    def behave(connection, stop):
        while read_request(connection) is not None:
            connection.sendall(answer(body, status))

    return behave


def deciding(connection, stop):
    """Not hostile: decides."""
    while (request := read_request(connection)) is not None:
        connection.sendall(answer({**ARM, "id": request[3]["id"]}))


def faulty(connection, stop):
    """At fault: 500."""
    saying({"error": "the service is at fault; its log says more."}, 500)(connection, stop)


def busy(connection, stop):
    """503, at once."""
    saying({"error": "the store did not take it."}, 503)(connection, stop)


def hurried(connection, stop):
    """429: too many requests."""
    saying({"error": "too many requests."}, 429)(connection, stop)


def portal(connection, stop):
    """A page of somebody else, with status 200."""
    saying("welcome to our wireless network")(connection, stop)


def redirecting(connection, stop):
    """Sends everybody elsewhere, in words that look like the service's."""
    saying({"error": "it is over there."}, 302)(connection, stop)


def mistaken(connection, stop):
    """Answers what somebody else has asked."""
    saying(ARM)(connection, stop)


def confused(connection, stop):
    """Answers with the right id, and nothing else that fits."""
    while (request := read_request(connection)) is not None:
        connection.sendall(answer({**ARM, "id": request[3]["id"], "arm": 5, "probabilities": 7}))


def nesting(connection, stop):
    """JSON that is nested deeper than anybody can read."""
    while read_request(connection) is not None:
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n" + b"[" * 100_000)


HOSTILE = [
    dripping,
    dripping_body,
    continuing,
    silent,
    deaf,
    rude,
    garbling,
    cutting,
    faulty,
    busy,
    hurried,
    portal,
    nesting,
    redirecting,
    mistaken,
    confused,
]
