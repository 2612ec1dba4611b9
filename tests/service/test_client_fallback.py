"""A client with a fallback: whatever the service does, the caller gets an arm, in time, and is told whose it is."""

import asyncio
import os
import shutil
import socket
import ssl
import subprocess
import threading
import time
from types import SimpleNamespace

import pytest

import conebandit as cb
from conebandit.service.client import ClientError, patience
from conebandit.service.client.fallback import MAX_SERVED, PREFIX, REFRESHED_AFTER, Fallbacks
from conebandit.service.http.keys import create_key
from conebandit.service.http.server import serving
from conebandit.service.stores.base import open_store
from tests.service import hostile
from tests.service.databases import free_port
from tests.service.driver import PHONE
from tests.service.hostile import HOSTILE, answer, listening, read_request

LATE = 10.0  # seconds after which a deadline was not kept: those who test it are slow, those who break it never end
BIG = {"note": "x" * 4_000_000}  # more than fits into the buffers of a connection


@pytest.fixture
def nowhere():
    """An address where nobody listens."""
    return f"http://127.0.0.1:{free_port()}"


@pytest.mark.parametrize("behave", HOSTILE)
def test_a_hostile_service_costs_no_more_than_the_deadline(behave):
    with listening(behave) as (address, _), cb.Client(address, fallback={"e": "old"}, deadline=0.1) as client:
        began = time.monotonic()
        served = client.decide("e", BIG if behave is hostile.deaf else {}, id="visit-1")
        assert time.monotonic() - began < LATE
    assert served.fallback
    assert served == cb.Assignment("visit-1", "old", 1.0, ("old",), "fallback", None, {"old": 1.0})


@pytest.mark.parametrize("behave", [hostile.dripping, hostile.dripping_body, hostile.continuing, hostile.silent])
def test_without_a_fallback_the_time_out_holds_as_well(behave):
    with listening(behave) as (address, _), cb.Client(address, timeout=0.1) as client:
        began = time.monotonic()
        with pytest.raises(ClientError, match="cannot be reached") as error:
            client.show("e")
        assert time.monotonic() - began < LATE
    assert error.value.status == 0


def test_a_name_server_that_does_not_answer_costs_no_more_than_the_deadline(monkeypatch):
    answered, asked = threading.Event(), []

    def hang(*args, flags=0, **_):
        if flags & socket.AI_NUMERICHOST:
            raise socket.gaierror("a name")
        asked.append(args)
        answered.wait()
        raise socket.gaierror("no such name")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    try:
        with cb.Client("http://service.example", fallback="old", deadline=0.05) as client:
            began = time.monotonic()
            served = [client.decide("e") for _ in range(3)]
            assert time.monotonic() - began < LATE
    finally:
        answered.set()
    assert all(one.fallback for one in served)
    assert len(asked) == 1  # those who wait share a thread


def test_a_handshake_that_does_not_end_costs_no_more_than_the_deadline():
    with listening(hostile.silent) as (address, _):
        secure = address.replace("http:", "https:")
        began = time.monotonic()
        with cb.Client(secure, fallback="old", deadline=0.1) as client:
            assert client.decide("e").fallback

        async def run():
            async with cb.AsyncClient(secure, fallback="old", deadline=0.1) as client:
                return await client.decide("e")

        assert asyncio.run(run()).fallback
        assert time.monotonic() - began < LATE


def test_both_clients_speak_tls(tmp_path, monkeypatch):
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed (apt-get install openssl)")
    key, certificate = tmp_path / "key", tmp_path / "certificate"
    new_certificate = (
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    )
    names_ = ("-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate))
    subprocess.run([*new_certificate, *names_], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    def behave(connection, stop):
        with context.wrap_socket(connection, server_side=True) as secure:
            hostile.deciding(secure, stop)

    async def decide(address):
        async with cb.AsyncClient(address) as client:
            return (await client.decide("e", id="d1"), await client.decide("e", id="d2"))

    with listening(behave) as (plain, connections):
        address = plain.replace("http://127.0.0.1", "https://localhost")
        with cb.Client(address, retries=0) as stranger, pytest.raises(ClientError, match="certificate"):
            stranger.decide("e")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        with cb.Client(address) as client:
            waited = (client.decide("e", id="d1"), client.decide("e", id="d2"))
        assert asyncio.run(decide(address)) == waited
        assert len(connections) == 1 + 1 + 1  # each client has kept its own
    assert waited[0].arm == "a"


def test_where_nobody_listens(nowhere):
    with cb.Client(nowhere, fallback="old") as client:
        served = client.decide_many("e", [{}, {}], ids=["a", "b"])
        assert [(one.id, one.arm, one.fallback) for one in served] == [("a", "old", True), ("b", "old", True)]
        assert client.decide_many("e", []) == []


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 415, 422])
def test_mistakes_of_the_caller_are_raised(status):
    with (
        listening(hostile.saying({"error": "it is your fault."}, status)) as (address, _),
        cb.Client(address, fallback="old", deadline=LATE) as client,
    ):
        for _ in range(2 * patience.MAX_FAILURES):
            with pytest.raises(ClientError, match="your fault") as error:
                client.decide("e")
            assert error.value.status == status


# ---- the breaker ---------------------------------------------------------------------------------------------------


def test_a_dead_service_is_not_asked_each_time(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(patience, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with listening(hostile.faulty) as (address, connections), cb.Client(address, fallback="old") as client:
        heard = []

        def count(*_):
            client._transport.close()
            before = len(connections)
            assert client.decide("e").fallback
            heard.append(len(connections) - before)

        for _ in range(10):
            count()
        assert sum(heard) == patience.MAX_FAILURES
        now[0] += patience.CLOSED_FOR
        for _ in range(10):
            count()
        assert sum(heard) == patience.MAX_FAILURES + 1  # one has tried
        assert client._breaker.allows("another")  # one experiment may be in trouble and not the others


def test_the_service_is_asked_again_when_it_is_back(begun, nowhere):
    port = int(nowhere.rpartition(":")[2])
    with cb.Client(nowhere, fallback="bold", deadline=LATE) as client:
        for i in range(patience.MAX_FAILURES):
            assert client.decide("checkout", PHONE, id=f"out-{i}").fallback
        with serving(begun, port=port):
            end = time.monotonic() + 60
            while (served := client.decide("checkout", PHONE)).fallback:
                assert time.monotonic() < end
                time.sleep(0.05)
            assert not client.decide("checkout", PHONE, id="back").fallback
    assert served.mode == "live"


# ---- the baseline --------------------------------------------------------------------------------------------------


def test_the_baseline_is_known_before_it_is_needed(begun):
    with serving(begun) as address:
        client = cb.Client(address, fallback="baseline", deadline=LATE)
        decided = client.decide("checkout", PHONE, id="d1")
        client._transport.close()
    with client:
        served = client.decide("checkout", PHONE, id="another")
        again = client.decide("checkout", PHONE, id="d1")
    assert not decided.fallback
    assert (served.arm, served.fallback) == ("old", True)
    assert again == decided  # what the service has answered is not replaced


@pytest.mark.parametrize("baseline", [{}, {"baseline": "bold"}])
def test_the_baseline_is_the_declared_one(tmp_path, declaration, baseline):
    with serving(str(tmp_path / "log.db")) as address:
        client = cb.Client(address, fallback={"checkout": "baseline"}, deadline=0.1)
        client.create(declaration | baseline)
        client.show("checkout")
        client._transport.close()
    with client:
        assert client.decide("checkout", PHONE).arm == baseline.get("baseline", "old")


def test_a_baseline_that_was_never_told_is_a_clear_error(nowhere):
    with cb.Client(nowhere, fallback="baseline") as client, pytest.raises(ClientError, match=r"call show\(\)") as error:
        client.decide("e")
    assert error.value.status == 0
    with cb.Client(nowhere, fallback={"e": "old"}) as client, pytest.raises(ClientError, match="names none for 'f'"):
        client.decide("f")


def test_a_key_that_may_not_ask_for_the_baseline_is_found_at_once(begun):
    """And not when the service is down."""
    store = open_store(begun)
    with store.write() as session:
        key = create_key(session, "page", ["decide"])
    store.close()
    with serving(begun) as address:
        with cb.Client(address, key=key, fallback="baseline", deadline=LATE) as client:
            for _ in range(2):
                with pytest.raises(ClientError, match=r"scope 'read'.*name the arm") as error:
                    client.decide("checkout", PHONE)
                assert error.value.status == 403
        with cb.Client(address, key=key, fallback={"checkout": "old"}, deadline=LATE) as client:
            assert not client.decide("checkout", PHONE).fallback


def test_a_baseline_is_asked_for_again_now_and_then():
    now = [0.0]
    fallbacks = Fallbacks("baseline", clock=lambda: now[0])
    assert fallbacks.wants_baseline("e")
    assert not fallbacks.wants_baseline("e")  # somebody is asking
    fallbacks.learn_baseline({"id": "e", "declaration": {"baseline": "old"}, "arms": []})
    now[0] = REFRESHED_AFTER - 1
    assert not fallbacks.wants_baseline("e")
    now[0] = REFRESHED_AFTER
    assert fallbacks.wants_baseline("e")
    fallbacks.baseline_refused("e", ClientError(403, "no."))  # the old one will do
    assert fallbacks.serve("e", ["a"], ClientError(0, ""), given=True)[0].arm == "old"


@pytest.mark.parametrize(("option", "value"), [("fallback", 3), ("fallback", ["old"])])
def test_options_that_are_none(option, value):
    with pytest.raises(TypeError, match=f"{option} must be an arm, 'baseline' or a table"):
        cb.Client("http://127.0.0.1:9", **{option: value})


@pytest.mark.parametrize("option", ["deadline", "timeout"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), "soon"])
def test_times_must_be_positive(option, value):
    with pytest.raises((ValueError, TypeError), match=option):
        cb.Client("http://127.0.0.1:9", **{option: value})


# ---- what the service decided too late -----------------------------------------------------------------------------


class Slow:
    """A service that decides, but answers too late; it remembers what it was asked."""

    def __init__(self):
        self.heard = []

    def __call__(self, connection, stop):
        while (request := read_request(connection)) is not None:
            self.heard.append(request)
            if request[1].endswith("/decisions"):
                stop.wait()
            told = {"recorded": ["m"], "corrected": [], "repeated": [], "late": []}
            many = [{"id": one["id"], **told} for one in request[3].get("outcomes", [request[3]])]
            connection.sendall(answer({"outcomes": many} if "outcomes" in request[3] else many[0]))


def test_the_outcome_of_a_fallback_is_not_credited_to_what_the_service_decided():
    slow = Slow()
    with listening(slow) as (address, _), cb.Client(address, fallback="old", deadline=0.05, retries=0) as client:
        served = client.decide("e", id="visit-1")
        asked = len(slow.heard)
        assert client.decide("e", {"other": 1}, id="visit-1") == served  # one answer for one id
        receipt = client.report("e", "visit-1", {"m": 1.0})
        assert (receipt.fallback, receipt.queued, receipt.recorded) == (True, False, ())
        assert len(slow.heard) == asked == 1
        mixed = client.report_many("e", {"visit-0": {"m": 1.0}, "visit-1": {"m": 2.0}, "visit-2": {"m": 3.0}})
        assert [one.fallback for one in mixed] == [False, True, False]
        assert [one["id"] for one in slow.heard[-1][3]["outcomes"]] == ["visit-0", "visit-2"]


def test_an_id_that_the_client_made_is_not_used_for_a_fallback(nowhere):
    """Any client can tell, in another process too, that the service knows nothing of it."""
    slow = Slow()
    with listening(slow) as (address, _), cb.Client(address, fallback="old", deadline=0.05) as client:
        served = client.decide("e")
        assert served.id.startswith(PREFIX)
        assert served.id not in [request[3]["id"] for request in slow.heard]
    with cb.Client(nowhere) as another:
        assert another.report("e", served.id, {"m": 1.0}).fallback


def test_fallbacks_are_remembered_within_bounds():
    fallbacks = Fallbacks("old")
    ids = [f"visit-{i}" for i in range(MAX_SERVED + 1)]
    fallbacks.serve("e", ids, ClientError(0, ""), given=True)
    assert fallbacks.served("e", ids[0]) is None
    assert fallbacks.served("e", ids[1]) is not None
    assert len(fallbacks._served._held) == MAX_SERVED


# ---- who asks ------------------------------------------------------------------------------------------------------


def test_the_actor_is_sent_with_each_request():
    slow = Slow()
    with listening(slow) as (address, _), cb.Client(address, actor="dr.lee", key="k-1") as client:
        client.report("e", "visit-1", {"m": 1.0})
    assert slow.heard[0][2]["x-actor"] == "dr.lee"
    assert slow.heard[0][2]["x-api-key"] == "k-1"


@pytest.mark.parametrize("actor", ["a\r\nx-api-key: b", " a", 3])
def test_an_actor_that_is_no_header_is_refused(actor):
    with pytest.raises(ValueError, match="actor must be printable"):
        cb.Client("http://127.0.0.1:9", actor=actor)


def test_a_fork_does_not_share_connections():
    """Two processes on one connection would get each other's answers."""
    with (
        listening(hostile.deciding) as (address, connections),
        cb.Client(address) as client,
    ):
        client.decide("e")
        child = os.fork()
        if not child:
            try:
                client.decide("e")
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        client.decide("e")
        assert len(connections) == 2


@pytest.mark.parametrize(
    "actor", ["dr.lee", "Dr. M\N{LATIN SMALL LETTER U WITH DIAERESIS}ller", "\N{CJK UNIFIED IDEOGRAPH-674E}"]
)
def test_the_actor_is_in_the_log_as_it_was_given(begun, actor):
    with serving(begun) as address, cb.Client(address, actor=actor) as client:
        client.decide("checkout", PHONE, id="visit-1")
        event = client.events("checkout", after=21)["events"][0]
    assert event["body"]["by"]["actor"] == actor
