"""Uploads on PostgreSQL: acknowledged without the lock of the log, put into it once, in order, by whichever process."""

import contextlib
import time

import pytest
from typer.testing import CliRunner

import conebandit as cb
from conebandit.cli import app
from conebandit.service.archive import archive
from conebandit.service.engine import uploads as uploading
from conebandit.service.engine.edge_desk import EdgeDesk
from conebandit.service.engine.turn import Turn
from conebandit.service.engine.uploads import Uploads
from conebandit.service.errors import ConflictError
from conebandit.service.http.server import serving
from conebandit.service.log.entries import By
from conebandit.service.log.events import Decided
from conebandit.service.stores.base import open_store
from tests.service.driver import PHONE
from tests.service.test_edge_log import Edges, decided


@pytest.fixture
def shared(postgres, declaration):
    address = postgres.fresh_database(f"uploads{time.monotonic_ns()}")
    with contextlib.closing(open_store(address)) as store:
        yield address, Edges(store, declaration)


def upload(edges, published, *sent, edge="web-1", by=None):
    """As the route does it: nobody puts it into the log yet."""
    desk = EdgeDesk(edges.store, edges.run.ledger.published)
    batch = desk.check("checkout", (published.seq, published.check), edge, sent)
    return Uploads(edges.store, submit=lambda *_: pytest.fail("nobody was to be asked")).add(
        "checkout", edge, batch, by
    )


def waiting(edges):
    with edges.store.read() as session:
        return session.uploads("checkout", 100)


def test_uploads_need_no_lock_and_are_taken_in_the_order_of_each_edge(shared):
    _, edges = shared
    published = edges.run.publish()
    with edges.store.write() as session:
        session.existing_head("checkout", lock=True)  # somebody holds the log
        for i in range(6):
            answer = upload(edges, published, decided(published, f"d{i}"), edge=f"web-{i % 2}", by=By("page", f"a{i}"))
            assert (answer.taken, answer.repeated, answer.refused) == (1, 0, ())
    assert upload(edges, published, decided(published, "d0"), edge="web-0").taken == 1, "nobody has looked yet"
    assert len(waiting(edges)) == 7
    assert edges.run.take_uploads() == 4
    assert edges.run.take_uploads() == 3
    assert edges.run.take_uploads() == 0
    made = [event for event in edges.events() if isinstance(event, Decided)]
    assert [event.id for event in made] == ["d0", "d1", "d2", "d3", "d4", "d5"]
    assert upload(edges, published, decided(published, "d0"), edge="web-0").repeated == 1
    assert waiting(edges) == []
    assert edges.verified().agrees


def test_a_service_takes_what_another_has_left_and_outcomes_find_their_decisions(shared):
    address, edges = shared
    published = edges.run.publish()
    upload(edges, published, *(decided(published, f"d{i}") for i in range(10)))
    edges.run.tell("d3", revenue=1.0)  # it is put into the log for that
    assert waiting(edges) == []
    upload(edges, published, *(decided(published, f"e{i}") for i in range(10)))
    with serving(address) as url, cb.Client(url) as client:
        assert client.report("checkout", "e3", {"revenue": 1.0}).recorded == ("revenue",)
        end = time.monotonic() + 30
        while waiting(edges) and time.monotonic() < end:
            time.sleep(0.05)
    report = edges.verified()
    assert (report.agrees, report.recomputed) == (True, 20)


def test_an_export_has_what_edges_have_uploaded_or_says_how_much_it_has_not(shared, tmp_path, monkeypatch):
    address, edges = shared
    published = edges.run.publish()
    for i in range(6):
        upload(edges, published, decided(published, f"d{i}"))
    told = CliRunner().invoke(
        app, ["experiment", "export", "checkout", "--to", str(tmp_path / "a.csv"), "--store", address]
    )
    assert "Not in it: 6 uploads of edges" in told.output
    assert (tmp_path / "a.csv").read_text().count("\n") == 1
    monkeypatch.setattr(Uploads, "_serve", lambda _: None)  # nobody but the export takes them
    with serving(address) as url, cb.Client(url) as client:
        assert client.export("checkout", "csv").count(b"\n") == 7
        with pytest.raises(cb.ClientError, match="no experiment"):
            client.export("nothing", "csv")
    told = CliRunner().invoke(
        app, ["experiment", "export", "checkout", "--to", str(tmp_path / "a.csv"), "--store", address]
    )
    assert "Not in it" not in told.output
    assert (tmp_path / "a.csv").read_text().count("\n") == 7


def test_what_another_process_takes_is_left_to_it(shared, monkeypatch):
    _, edges = shared
    published = edges.run.publish()
    for i in range(6):
        upload(edges, published, decided(published, f"d{i}"))
    now, taken = [0.0], []
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    here = Uploads(edges.store, submit=lambda *_: Done(taken.append(edges.run.take_uploads()) or taken[-1]))
    here._take("checkout")
    now[0] += 10.0
    assert edges.run.take_uploads() == 4, "the other one is at it"
    here._take("checkout")
    now[0] += uploading.MAX_WAIT / 2
    here._take("checkout")  # more has come, say
    assert (taken, list(here._left)) == ([], ["checkout"])
    now[0] += uploading.MAX_WAIT
    here._take("checkout")
    assert (taken, here._left) == ([2], {}), "nobody has taken them for a while"
    upload(edges, published, decided(published, "more"))
    here._take("checkout")
    assert taken == [2, 1], "from now on this is the one"
    here._mine.clear()
    here._take("checkout")
    assert (taken, here._left) == ([2, 1], {}), "nothing waits"


class Done:
    """What was asked for has been done."""

    def __init__(self, answer):
        self.result = lambda: answer


def test_what_somebody_else_has_decided_meanwhile_is_put_aside(shared, caplog, tmp_path):
    _, edges = shared
    published = edges.run.publish()
    upload(edges, published, decided(published, "mine"), decided(published, "other"))
    edges.run.ask("mine", PHONE)
    with edges.run.transaction() as transaction:
        assert Turn(transaction).take_uploads("checkout") == 1
        assert transaction.put_aside == {"checkout": 1}
    assert "ids that were taken" in caplog.text
    assert waiting(edges) == []
    with edges.store.read() as session:
        [(number, content)] = list(session._run("SELECT number, content FROM edge_uploads"))
    assert number < 0
    assert '"mine"' in content
    assert '"other"' not in content
    assert [event.id for event in edges.events() if isinstance(event, Decided)] == ["mine", "other"]
    refused = upload(edges, published, decided(published, "mine")).refused
    assert [one.id for one in refused] == ["mine"]
    upload(edges, published, decided(published, "late"))
    edges.run.set_stage("ended", "enough")
    with pytest.raises(ConflictError, match="uploads of edges wait"):
        archive(edges.store, "checkout", tmp_path / "archive.jsonl")
    edges.run.take_uploads()
    archive(edges.store, "checkout", tmp_path / "archive.jsonl")


def test_an_erasure_finds_what_edges_have_uploaded(postgres, declaration):
    address = postgres.fresh_database(f"uploads{time.monotonic_ns()}")
    with contextlib.closing(open_store(address)) as store:
        edges = Edges(store, declaration | {"unit": {}})
        run, published = edges.run, edges.run.publish()
        sent = [
            decided(published, f"d{i}", unit=unit, alias=f"d_{i:016x}") for i, unit in enumerate(["ann", "bob", "ann"])
        ]
        upload(edges, published, *sent)
        for id_, unit in (("d1", "bob"), ("d2", "ann")):  # so the others of these ids are put aside
            run.decide([{"id": id_, "unit": unit, "context": PHONE | {"age": 50}}])
        assert run.erase("ann", "asked")["decisions"] == 2  # one of them came with the upload
        with store.read() as session:
            [(number, content)] = list(session._run("SELECT number, content FROM edge_uploads"))
            told = "".join(f"{record.text} {record.personal}" for record in session.events("checkout"))
        assert number < 0
        assert '"bob"' in content
        assert '"ann"' not in content + told
        run.erase("bob", "asked")
        with store.read() as session:
            assert list(session._run("SELECT number FROM edge_uploads")) == []
        assert edges.verified().agrees
