"""Decisions at the edge: the same from state, context and id alone; in the log once each; while the service is away."""

import contextlib
import json
import os
import random
import shutil
import threading
import time
from datetime import UTC, datetime

import numpy as np
import pytest

import conebandit as cb
from conebandit.service.client import journal, requests
from conebandit.service.edge import courier as courier_module
from conebandit.service.engine import edges as engine
from conebandit.service.http.server import serving
from conebandit.service.log.entries import read
from conebandit.service.log.events import Decided, Reported
from conebandit.service.log.verify import verify
from conebandit.service.stores.base import open_store
from tests.service.driver import PHONE
from tests.service.plain_fold import plain_edge_decisions, plain_fold


def contexts(rng, n):
    return [{"age": rng.uniform(0, 120), "device": rng.choice(["phone", "desk"])} for _ in range(n)]


@contextlib.contextmanager
def served(address, declaration):
    """A service with an experiment, and a client."""
    with serving(address) as url, cb.Client(url) as client:
        client.create(declaration)
        yield url, client
        with contextlib.closing(open_store(address)) as store:
            wait_until(lambda: not waiting(store))


def waiting(store):
    """Experiments with uploads that are not in the log yet."""
    with store.read() as session:
        return session.experiments_with_uploads()


def events_of(address, id_="checkout"):
    with contextlib.closing(open_store(address)) as store, store.read() as session:
        return session.events(id_, limit=10**6)


def verified(address, **options):
    with contextlib.closing(open_store(address)) as store, store.read() as session:
        return verify(session, "checkout", **options)


def wait_until(true, seconds=30):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_an_edge_decides_as_the_log_says_whatever_happens_meanwhile(address, declaration, tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "MIN_APART", 0)
    rng = random.Random(3)
    declaration["policy"]["explore"] = 0.1
    told = {}
    with served(address, declaration) as (url, client), cb.Edge(url, "checkout", spool=tmp_path / "spool") as edge:
        for round_ in range(8):
            asked, ids = contexts(rng, 10), [f"d{round_}-{i}" for i in range(10)]
            made = edge.decide_many(asked, ids=ids)
            told |= {one.id: one for one in made}
            for one in made[:5]:
                edge.report(one.id, {"revenue": rng.random(), "latency": rng.uniform(0, 5)})
            assert edge.decide_many(asked, ids=ids) == made
            assert edge.flush() == 0
            if round_ == 2:
                client.report("checkout", "d0-1", {"revenue": 9.0})  # a correction
            if round_ == 3:
                client.set_mode("checkout", "shadow")
            if round_ == 4:
                client.set_mode("checkout", "live")
                client.add_arm("checkout", "fresh")
            if round_ == 5:
                client.retire_arm("checkout", "bold")
            wait_until(lambda: not client.show("checkout")["revising"])
            edge.refresh()
    records = events_of(address)
    decided = [entry.event for entry in map(read, records) if isinstance(entry.event, Decided)]
    assert len(decided) == len(told) == 80
    for event in decided:
        one, logged = told[event.id], event.selection
        assert logged[:4] == (one.mode, one.arm, one.propensity, one.active)
        assert logged.probabilities == one.probabilities
        assert str(logged.version) == one.policy_version
    assert {event.selection.mode for event in decided} == {"live", "shadow"}
    assert len({event.edge.state for event in decided}) >= 6
    report = verified(address)
    assert (report.agrees, report.whole, report.recomputed) == (True, True, 80)
    assert report.state
    plain_fold(records)
    assert plain_edge_decisions(records) == [event.id for event in decided]


def test_numbers_of_numpy_are_plain_ones_in_the_log(address, declaration, tmp_path):
    with served(address, declaration) as (url, client):
        with cb.Edge(url, "checkout", spool=tmp_path / "spool") as edge:
            for kind, id_ in ((float, "plain"), (np.int64, "d1"), (np.float32, "d2"), (np.float64, "d3")):
                one = edge.decide({"age": kind(30), "device": "desk"}, id=id_)
                assert edge.decide({"age": 30, "device": "desk"}, id=id_) == one
                edge.report(id_, {"revenue": kind(3)})
            for wrong in (np.True_, np.bool_(False), True, np.array(30), np.float32("nan")):
                with pytest.raises(ValueError, match="must be a number"):
                    edge.decide({"age": wrong, "device": "desk"})
                with pytest.raises(ValueError, match="must be a number"):
                    edge.report("plain", {"revenue": wrong})
            assert edge.flush() == 0
        asked = client.decide("checkout", {"age": np.int64(30), "device": "desk"}, id="asked")
        client.report("checkout", asked.id, {"revenue": np.int32(3)})
        assert client.front("checkout", {"age": np.int64(30), "device": "desk"})
    events = [entry.event for entry in map(read, events_of(address))]
    contexts_ = [event.context for event in events if isinstance(event, Decided)]
    assert contexts_ == [{"age": 30, "device": "desk"}] * 5
    assert {type(context["age"]) for context in contexts_} == {int, float}
    assert [event.values for event in events if isinstance(event, Reported)] == [{"revenue": 3.0}] * 5


@pytest.mark.parametrize("wrong", ["yesterday", 1e12, 10**12, "2026-11-16T09:30:00", "1960-01-01T00:00:00Z"])
def test_when_an_outcome_was_observed_is_checked_at_once(address, declaration, tmp_path, wrong):
    with served(address, declaration) as (url, _), cb.Edge(url, "checkout", spool=tmp_path / "spool") as edge:
        edge.decide(PHONE, id="d")
        with pytest.raises(ValueError, match="observed_at must be a date and time since 1970 with an offset"):
            edge.report("d", {"revenue": 1.0}, observed_at=wrong)
        assert edge.pending == 1
        edge.report("d", {"revenue": 1.0}, observed_at=datetime.now(UTC))
        assert edge.flush() == 0
        assert not (tmp_path / "spool" / "refused.jsonl").exists()


def test_a_damaged_spool_is_told_and_files_of_others_are_left_alone(address, declaration, tmp_path):
    spool = tmp_path / "spool"
    with served(address, declaration) as (url, _):
        cb.Edge(url, "checkout", spool=spool).close()
        (spool / "readme.spool").write_text("not a segment")
        cb.Edge(url, "checkout", spool=spool).close()
        assert (spool / "readme.spool").read_text() == "not a segment"
        for name in ("name", "experiment"):
            before = (spool / name).read_bytes()
            for damage in (b"\xff\xfe\x00", b"", b"a\x00b"):
                (spool / name).write_bytes(damage)
                with pytest.raises(ValueError, match=f"{name} is damaged: it should say the {name} of this spool"):
                    cb.Edge(url, "checkout", spool=spool)
            (spool / name).write_bytes(before)
        cb.Edge(url, "checkout", spool=spool).close()


def test_what_is_uploaded_again_changes_nothing(address, declaration, tmp_path):
    with served(address, declaration) as (url, _):
        with cb.Edge(url, "checkout", spool=tmp_path / "spool") as edge:
            first = edge.decide_many(contexts(random.Random(1), 20))
            edge.report(first[0].id, {"revenue": 1.0})
            edge.report(first[0].id, {"revenue": 2.0})
        before = events_of(address)
        (tmp_path / "spool" / "uploaded").unlink()
        with cb.Edge(url, "checkout", spool=tmp_path / "spool") as edge:
            assert edge.pending == 22
            assert edge.flush() == 0
    after = [record for record in events_of(address)[len(before) :] if record.kind not in ("published", "revised")]
    assert after == [], "not even the outcome that was corrected is told once more"


def test_the_same_id_gets_the_same_answer_after_a_restart_and_after_the_upload(tmp_path, declaration):
    address = str(tmp_path / "log.db")
    with served(address, declaration) as (url, client):
        with cb.Edge(url, "checkout", spool=tmp_path / "spool") as edge:
            made = edge.decide(PHONE, id="visit")
            name = edge.name
        client.set_mode("checkout", "off")
        with cb.Edge(url, "checkout", spool=tmp_path / "spool") as edge:
            assert edge.name == name
            assert edge.decide(PHONE, id="visit") == made
            assert edge.decide(PHONE, id="other").mode == "off"
            with pytest.raises(cb.ClientError, match="another context") as caught:
                edge.decide(PHONE | {"age": 31}, id="visit")
            assert caught.value.status == 409
    assert verified(address).agrees


def test_an_edge_goes_on_while_the_service_is_away_and_says_how_old_its_state_is(tmp_path, declaration):
    address, spool = str(tmp_path / "log.db"), tmp_path / "spool"
    with served(address, declaration) as (url, _):
        edge = cb.Edge(url, "checkout", spool=spool, refresh=0.05, max_staleness=600, timeout=1)
        assert edge.decide(PHONE, id="there").mode == "live"
    with pytest.raises(cb.ClientError):  # nobody is there any more
        edge.refresh()
    assert edge.decide(PHONE, id="away").mode == "live"
    before = edge.staleness
    time.sleep(0.1)
    assert before + 0.09 <= edge.staleness < 600  # clocks are rounded
    edge._held._confirmed -= 600  # ten minutes later
    late = edge.decide(PHONE, id="late")
    assert (late.arm, late.propensity, late.mode, late.policy_version) == ("old", 1.0, "off", None)
    assert edge.flush() == edge.pending >= 2
    edge.close()
    with pytest.raises(RuntimeError, match="closed"):
        edge.decide(PHONE)
    # One that is made while the service is away has the state of then; here it refuses to decide from it.
    os.utime(spool / "state", (time.time() - 600,) * 2)
    edge = cb.Edge(url, "checkout", spool=spool, max_staleness=600, when_stale="refuse", timeout=5)
    assert edge.decide(PHONE, id="away").mode == "live", "what was answered is answered again"
    with pytest.raises(cb.ClientError, match="s old, and the service does not answer"):
        edge.decide(PHONE)
    with serving(address, port=int(url.rpartition(":")[2])):
        edge.refresh()
        assert edge.staleness < 600
        edge.decide(PHONE, id="back")
        assert edge.flush() == 0
        edge.close()
    decided = {entry.event.id: entry.event for entry in map(read, events_of(address)) if entry.event.kind == "decided"}
    assert {id_: event.edge.stale for id_, event in decided.items()} == {
        "there": False,
        "away": False,
        "late": True,
        "back": False,
    }
    report = verified(address)
    assert (report.agrees, report.recomputed) == (True, 4)


def test_an_edge_without_service_or_state_is_refused(tmp_path):
    for _ in range(2):  # the spool is free again
        with pytest.raises(cb.ClientError) as caught:
            cb.Edge("http://127.0.0.1:9", "checkout", spool=tmp_path / "spool", timeout=1)
        assert caught.value.status == 0


def test_an_edge_stops_when_the_service_says_so_and_goes_on_when_it_may(tmp_path, declaration):
    address = str(tmp_path / "log.db")
    with served(address, declaration) as (url, client):
        with cb.Edge(url, "checkout", spool=tmp_path / "spool") as edge:
            edge.decide(PHONE, id="first")
            client.set_stage("checkout", "paused", "a look")
            edge.decide(PHONE, id="unknowing")
            with pytest.raises(cb.ClientError, match="is paused"):
                edge.refresh()
            with pytest.raises(cb.ClientError, match="is paused"):
                edge.decide(PHONE)
            assert edge.flush() == 0, "what was served is in the log"
        with pytest.raises(cb.ClientError, match="is paused"):
            cb.Edge(url, "checkout", spool=tmp_path / "spool")
        client.set_stage("checkout", "running", "go on")
        with cb.Edge(url, "checkout", spool=tmp_path / "spool") as edge:
            assert edge.decide(PHONE, id="later").mode == "live"
    report = verified(address)
    assert (report.agrees, report.recomputed) == (True, 3)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"unit": {"sticky": True}}, "units keep their arms"),
        ({"rules": [{"at_most": 5}]}, "cap decisions"),
        ({"rules": [{"burn_in": 5}]}, "burn-in"),
        ({"stage": "draft"}, "is a draft"),
    ],
)
def test_what_cannot_be_done_at_an_edge_is_refused_when_it_is_made(tmp_path, declaration, changes, why):
    address = str(tmp_path / "log.db")
    with served(address, declaration | changes) as (url, _):
        with pytest.raises(cb.ClientError, match=why) as caught:
            cb.Edge(url, "checkout", spool=tmp_path / "spool")
        assert caught.value.status == 409
    assert [record.kind for record in events_of(address)] == ["created"]


def test_wrong_options_are_refused(tmp_path):
    for options, why in [
        ({"refresh": 0}, "refresh must be"),
        ({"max_staleness": -1}, "max_staleness must be"),
        ({"when_stale": "wait"}, "when_stale must be"),
        ({"sync": "never"}, "sync must be"),
        ({"remember": -1}, "remember must be"),
        ({"name": "a b"}, "name must be"),
        ({"timeout": 0}, "timeout must be"),
    ]:
        with pytest.raises(ValueError, match=why):
            cb.Edge("http://127.0.0.1:9", "checkout", spool=tmp_path / "spool", **options)


def test_what_is_asked_wrongly_is_not_in_the_spool(tmp_path, declaration):
    address = str(tmp_path / "log.db")
    with served(address, declaration) as (url, _), cb.Edge(url, "checkout", spool=tmp_path / "spool") as edge:
        for ask, why in [
            (lambda: edge.decide({"age": "old", "device": "phone"}), "'age' must be"),
            (lambda: edge.decide({"device": "toaster"}), "'device' must be"),
            (lambda: edge.decide(PHONE, id="a b"), "id must be"),
            (lambda: edge.decide(PHONE, unit="ann"), "declares no units"),
            (lambda: edge.decide_many([PHONE, PHONE], ids=["one"]), "ids must be"),
            (lambda: edge.decide_many([PHONE, {"age": 3}]), "'device' is missing"),
            (lambda: edge.decide("phone"), "context must be a table of named entries; got 'phone'"),
            (lambda: edge.decide([30, "phone"]), "context must be a table"),
            (lambda: edge.decide({30: "phone"}), "context"),
            (lambda: edge.decide_many([PHONE, None]), "context must be a table of named entries; got None"),
            (lambda: edge.decide_many([PHONE, 3], ids=["one", "two"]), "context must be a table"),
            (lambda: edge.decide_many(PHONE), "contexts must be a list of tables"),
            (lambda: edge.report("one", {}), "values must be"),
            (lambda: edge.report("one", None), "values must be a table of one or more metrics; got None"),
            (lambda: edge.report("one", 3.0), "values must be a table"),
            (lambda: edge.report("one", {"profit": 1}), "no metric 'profit'"),
            (lambda: edge.report("one", {"revenue": float("nan")}), "revenue"),
        ]:
            with pytest.raises(ValueError, match=why):
                ask()
        assert edge.pending == 0
        twice = edge.decide_many([PHONE, PHONE], ids=["one", "one"])
        assert twice[0] == twice[1]
        assert edge.pending == 1
        with pytest.raises(cb.ClientError, match="another context"):
            edge.decide_many([PHONE, PHONE | {"age": 31}], ids=["two", "two"])


def test_a_spool_belongs_to_one_process(tmp_path, declaration):
    address = str(tmp_path / "log.db")
    with served(address, declaration) as (url, _), cb.Edge(url, "checkout", spool=tmp_path / "spool") as edge:
        with pytest.raises(BlockingIOError, match="another process"):
            cb.Edge(url, "checkout", spool=tmp_path / "spool")
        edge._process += 1
        with pytest.raises(RuntimeError, match="after a fork"):
            edge.decide(PHONE)
        edge._process = os.getpid()


def test_contexts_may_hold_whatever_those_of_the_service_may(tmp_path, declaration):
    address = str(tmp_path / "log.db")
    declaration["context"] = [{"name": "device", "levels": ["phone"], "unknown": "zeros", "missing": "phone"}]
    strange = [{"device": text} for text in ("\ud800", "\x00", '\u2028 "', "é" * 100)] + [{"device": None}, {}]
    with served(address, declaration) as (url, client):
        with cb.Edge(url, "checkout", spool=tmp_path / "spool") as edge:
            made = edge.decide_many(strange, ids=[f"d{i}" for i in range(len(strange))])
            with pytest.raises(ValueError, match="context is too long"):
                edge.decide({"device": "x" * 200_000})
            assert edge.flush() == 0
            assert not (tmp_path / "spool" / "refused.jsonl").exists()
        again = client.decide_many("checkout", strange, ids=[f"d{i}" for i in range(len(strange))])
        assert [(one.arm, one.propensity) for one in again] == [(one.arm, one.propensity) for one in made]
    assert verified(address).recomputed == len(strange)


def test_what_the_service_refuses_is_put_aside_and_holds_up_nothing(tmp_path, declaration, monkeypatch):
    address = str(tmp_path / "log.db")
    with served(address, declaration) as (url, client), cb.Edge(url, "checkout", spool=tmp_path / "spool") as edge:
        monkeypatch.setattr(edge._upkeep, "_deliver_some", lambda: False)  # the thread is to leave it to us
        client.decide("checkout", PHONE, id="taken")
        edge.decide_many([PHONE] * 3, ids=["a", "taken", "b"])
        edge.report("a", {"revenue": 1.0})
        edge.report("nobody", {"revenue": 1.0})
        edge.report("b", {"revenue": 2.0})
        monkeypatch.undo()
        assert edge.flush() == 0
        refused = [json.loads(line) for line in (tmp_path / "spool" / "refused.jsonl").read_text().splitlines()]
        assert [(one["refused"]["id"], "made elsewhere" in one["reason"]) for one in refused] == [
            ("taken", True),
            ("nobody", False),
        ]
        shown = client.events("checkout")["events"]
    assert [event["body"]["id"] for event in shown if event["kind"] == "reported"] == ["a", "b"]
    assert verified(address).agrees


def test_what_waits_is_uploaded_while_no_state_is_to_be_had(tmp_path, declaration):
    address, spool = str(tmp_path / "log.db"), tmp_path / "spool"
    with served(address, declaration) as (url, client), cb.Edge(url, "checkout", spool=spool, refresh=0.01) as edge:
        edge.decide(PHONE, id="first")
        client.set_stage("checkout", "paused", "a look")
        wait_until(lambda: edge.pending == 0)
        with pytest.raises(cb.ClientError, match="is paused"):
            edge.refresh()
        assert edge.decide(PHONE, id="first").mode == "live", "what was answered is answered again"
    assert verified(address).agrees


def without_uploads(edge):
    """Have the thread of an edge leave what waits alone, until the test wants it."""
    edge._upkeep._deliver_some = lambda: False


def test_a_spool_belongs_to_one_experiment(tmp_path, declaration):
    address, spool = str(tmp_path / "log.db"), tmp_path / "spool"
    with served(address, declaration) as (url, client):
        client.create(declaration | {"id": "other", "seed": 8})
        with pytest.raises(cb.ClientError, match="no experiment"):
            cb.Edge(url, "chekout", spool=spool)  # a slip binds nobody
        with cb.Edge(url, "checkout", spool=spool) as edge:
            without_uploads(edge)
            edge.decide(PHONE, id="waits")
        for _ in range(2):  # also where a spool of an earlier release does not say whose it is
            with pytest.raises(ValueError, match="that of experiment 'checkout'"):
                cb.Edge(url, "other", spool=spool)
            (spool / "experiment").unlink(missing_ok=True)
        with cb.Edge(url, "checkout", spool=spool) as edge:
            assert edge.flush() == 0
    assert not (spool / "refused.jsonl").exists()
    assert verified(address).decisions == 1


def test_a_fork_leaves_the_edge_to_its_parent(tmp_path, declaration):
    address, spool = str(tmp_path / "log.db"), tmp_path / "spool"
    with served(address, declaration) as (url, _), cb.Edge(url, "checkout", spool=spool) as edge:
        edge._process += 1  # as in a child
        edge.close()
        for use in (edge.flush, edge.refresh):
            with pytest.raises(RuntimeError, match="after a fork"):
                use()
        edge._process = os.getpid()
        with pytest.raises(BlockingIOError):
            cb.Edge(url, "checkout", spool=spool)
        edge.decide(PHONE, id="here")
        edge.close()
        with pytest.raises(RuntimeError, match="closed"):
            edge.flush()
    assert verified(address).decisions == 1


def test_whoever_writes_to_a_spool_may_end_before_it_is_closed(tmp_path, declaration):
    with served(str(tmp_path / "log.db"), declaration) as (url, _):
        edge = cb.Edge(url, "checkout", spool=tmp_path / "spool")
        closing = threading.Thread(target=edge.close)
        with edge._lock:  # as somebody who decides does
            closing.start()
            closing.join(0.5)
            os.fstat(edge._spool._descriptor)
        closing.join()
        with pytest.raises(OSError, match="descriptor"):
            os.fstat(edge._spool._descriptor)


def test_a_log_that_was_restored_gives_out_its_own_state(tmp_path, declaration, monkeypatch):
    ask = courier_module.Courier._ask
    address, spool = str(tmp_path / "log.db"), tmp_path / "spool"
    with served(address, declaration):
        pass
    shutil.copy(address, tmp_path / "backup.db")
    with serving(address) as url, cb.Edge(url, "checkout", spool=spool) as edge:
        edge.decide(PHONE, id="before")
        edge.flush()
        without_uploads(edge)
        edge.decide_many([PHONE] * 100, ids=[f"lost-{i}" for i in range(100)])
    restored, asked = str(tmp_path / "backup.db"), []
    monkeypatch.setattr(
        courier_module.Courier, "_ask", lambda self, request: asked.append(request) or ask(self, request)
    )
    with serving(restored) as url, cb.Client(url) as client:
        client.decide("checkout", PHONE, id="elsewhere")  # so the same state is published at another position
        with cb.Edge(url, "checkout", spool=spool) as edge:
            edge.decide(PHONE, id="after")
            assert edge.flush() == 0
    refused = [json.loads(line) for line in (spool / "refused.jsonl").read_text().splitlines()]
    assert [one["refused"]["id"] for one in refused] == [f"lost-{i}" for i in range(100)]
    assert all("no such state" in one["reason"] for one in refused)
    assert [request.method for request in asked].count("POST") == 2, "the state of a batch is wrong for all of it"
    assert verified(restored).decisions == 2
    assert verified(restored).agrees


def test_what_waits_goes_on_waiting_while_another_service_answers(tmp_path, declaration):
    address, spool = str(tmp_path / "log.db"), tmp_path / "spool"
    with served(address, declaration) as (url, _), cb.Edge(url, "checkout", spool=spool) as edge:
        without_uploads(edge)
        edge.decide_many([PHONE] * 3, ids=["a", "b", "c"])
        edge.report("a", {"revenue": 1.0})
    with (
        serving(str(tmp_path / "wrong.db"), port=int(url.rpartition(":")[2])),
        pytest.raises(cb.ClientError, match="no experiment"),
    ):
        cb.Edge(url, "checkout", spool=spool)
    with serving(address) as url, cb.Edge(url, "checkout", spool=spool) as edge:
        assert edge.flush() == 0
    assert not (spool / "refused.jsonl").exists()
    assert [record.kind for record in events_of(address)].count("decided") == 3
    assert [record.kind for record in events_of(address)].count("reported") == 1


def test_a_state_counts_even_if_it_cannot_be_kept(tmp_path, declaration, monkeypatch):
    address, spool = str(tmp_path / "log.db"), tmp_path / "spool"
    with served(address, declaration) as (url, client), cb.Edge(url, "checkout", spool=spool, refresh=1000) as edge:
        client.set_mode("checkout", "off")

        def full(path, _):
            raise OSError(28, f"No space left on device: {path}")

        monkeypatch.setattr(journal, "replace", full)
        edge.refresh()
        assert edge.decide(PHONE).mode == "off"
        assert not (spool / "state").exists(), "the next start must not use the one before"
        monkeypatch.undo()


def test_a_clock_that_was_set_back_does_not_make_a_state_young(tmp_path, declaration):
    address, spool = str(tmp_path / "log.db"), tmp_path / "spool"
    with served(address, declaration) as (url, _), cb.Edge(url, "checkout", spool=spool):
        pass
    later = time.time() + 3600
    os.utime(spool / "state", (later, later))
    edge = cb.Edge(url, "checkout", spool=spool, max_staleness=10, when_stale="refuse")
    with contextlib.closing(edge), pytest.raises(cb.ClientError, match="max_staleness"):
        edge.decide(PHONE)


def test_outcomes_of_a_decision_that_was_refused_are_not_those_of_another(tmp_path, declaration):
    address, spool = str(tmp_path / "log.db"), tmp_path / "spool"
    with served(address, declaration) as (url, client):
        client.decide("checkout", PHONE, id="taken")
        with cb.Edge(url, "checkout", spool=spool) as edge:
            edge.decide(PHONE, id="taken")
            edge.decide(PHONE, id="mine")
            edge.report("taken", {"revenue": 1.0})
            edge.report("mine", {"revenue": 2.0})
        with cb.Edge(url, "checkout", spool=spool) as edge:
            edge.report("taken", {"latency": 3.0})  # also after a restart
    refused = [json.loads(line) for line in (spool / "refused.jsonl").read_text().splitlines()]
    assert [one["reason"] for one in refused][1:] == ["its decision was refused"] * 2
    told = [json.loads(record.text) for record in events_of(address) if record.kind == "reported"]
    assert [(one["id"], one["values"]) for one in told] == [("mine", {"revenue": 2.0})]


def test_an_outcome_that_is_sent_again_does_not_undo_a_correction(address, declaration, tmp_path):
    spool = tmp_path / "spool"
    with served(address, declaration) as (url, client):
        with cb.Edge(url, "checkout", spool=spool) as edge:
            edge.decide(PHONE, id="d")
            edge.report("d", {"revenue": 1.0, "latency": 2.0})
            assert edge.flush() == 0
        client.report("checkout", "d", {"revenue": 5.0})  # a correction
        before = len(events_of(address))
        (spool / "uploaded").unlink()  # as if the edge had not heard the answer, and were started anew
        with cb.Edge(url, "checkout", spool=spool) as edge:
            assert edge.pending == 2
            assert edge.flush() == 0
            assert len(events_of(address)) == before
            edge.report("d", {"revenue": 1.0})  # this is another report: it was right after all
            assert edge.flush() == 0
    told = [json.loads(record.text) for record in events_of(address) if record.kind == "reported"]
    assert [one["values"].get("revenue") for one in told] == [1.0, 5.0, 1.0]
    assert not (spool / "refused.jsonl").exists()
    assert verified(address).agrees


def test_outcomes_of_an_edge_go_to_its_own_decisions_or_to_those_that_it_has_not_made(address, declaration, tmp_path):
    with served(address, declaration) as (url, client):
        client.decide("checkout", PHONE, id="here")
        with (
            cb.Edge(url, "checkout", spool=tmp_path / "a", name="a") as one,
            cb.Edge(url, "checkout", spool=tmp_path / "b", name="b") as two,
        ):
            one.decide(PHONE, id="there")
            assert one.flush() == 0
            two.decide(PHONE, id="mine")
            for id_ in ("there", "mine", "here"):
                two.report(id_, {"revenue": 1.0})
            assert two.flush() == 0
        assert not (tmp_path / "b" / "refused.jsonl").exists()
        for id_, edge, whose in (("there", "b", "edge 'a'"), ("here", "b", "the service"), ("mine", "a", "edge 'b'")):
            outcome = {"id": id_, "values": {"revenue": 2.0}, "edge": edge}
            with pytest.raises(cb.ClientError, match=f"was made by {whose}, and not by edge '{edge}'") as error:
                client._ask(requests.report("checkout", [outcome]))
            assert error.value.status == 409
    told = [json.loads(record.text) for record in events_of(address) if record.kind == "reported"]
    assert sorted(one["id"] for one in told) == ["here", "mine", "there"]


def test_outcomes_are_taken_while_nobody_may_decide(tmp_path, declaration):
    address, spool = str(tmp_path / "log.db"), tmp_path / "spool"
    with served(address, declaration) as (url, client), cb.Edge(url, "checkout", spool=spool, refresh=1000) as edge:
        edge.decide(PHONE, id="first")
        client.set_stage("checkout", "paused", "a look")
        with pytest.raises(cb.ClientError, match="is paused"):
            edge.refresh()
        with pytest.raises(cb.ClientError, match="is paused"):
            edge.decide(PHONE)
        edge.report("first", {"revenue": 1.0})
        with pytest.raises(ValueError, match="no metric 'sales'"):
            edge.report("first", {"sales": 1.0})
        assert edge.flush() == 0
    assert [record.kind for record in events_of(address)].count("reported") == 1
