"""Uploads on PostgreSQL: acknowledged without the lock of the log, put into it once, in order, by whichever process."""

import contextlib
import json
import time

import pytest
from typer.testing import CliRunner

import conebandit as cb
from conebandit.cli import app
from conebandit.service.archive import archive
from conebandit.service.engine import uploads as uploading
from conebandit.service.engine.batches import TAKEN
from conebandit.service.engine.edge_desk import EdgeDesk
from conebandit.service.engine.ready import Ready
from conebandit.service.engine.turn import Turn
from conebandit.service.engine.uploads import Uploads
from conebandit.service.errors import ConflictError, NotYetError
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


@pytest.fixture
def nobody_folds(monkeypatch):
    """Nothing is put into the log, unless somebody asks for all of it."""
    monkeypatch.setattr(Uploads, "_serve", lambda _: None)


def refusals(folder):
    lines = (folder / "refused.jsonl").read_text().splitlines() if (folder / "refused.jsonl").exists() else []
    return [json.loads(line) for line in lines]


def test_an_edge_learns_that_another_had_its_id_though_both_were_acknowledged(shared, tmp_path, nobody_folds):
    address, edges = shared
    with (
        serving(address) as url,
        cb.Client(url) as client,
        cb.Edge(url, "checkout", spool=tmp_path / "a", name="a", refresh=1000) as one,
        cb.Edge(url, "checkout", spool=tmp_path / "b", name="b", refresh=1000) as two,
    ):
        one.decide(PHONE, id="both")
        two.decide_many([PHONE | {"age": 60}, PHONE], ids=["both", "mine"])
        assert (one.flush(), two.flush()) == (0, 0)
        client.export("checkout", "csv")  # for which all is put into the log
        assert (refusals(tmp_path / "a"), refusals(tmp_path / "b")) == ([], []), "nobody has told them"
        two.report("both", {"revenue": 1.0})  # which must not go to the decision of the other one
        two.report("mine", {"revenue": 2.0})
        assert two.flush() == 0
        two.decide(PHONE, id="next")
        assert two.flush() == 0
        [outcome, decision] = refusals(tmp_path / "b")
        assert "was made by edge 'a'" in outcome["reason"]
        assert (decision["refused"]["id"], decision["reason"]) == ("both", TAKEN)
        assert decision["refused"]["context"] == PHONE | {"age": 60}
        assert decision["refused"]["arm"] in ("old", "new", "bold")
        aside = "SELECT edge FROM edge_uploads WHERE number < 0"
        with edges.store.read() as session:
            assert list(session._run(aside)) == [("b",)], "it is kept until the edge has it"
        two.decide(PHONE, id="after")
        assert two.flush() == 0
        with edges.store.read() as session:
            assert list(session._run(aside)) == []
        assert len(refusals(tmp_path / "b")) == 2, "and told once"
        assert refusals(tmp_path / "a") == []
        client.export("checkout", "csv")
    made = {event.id: event.edge.name for event in edges.events() if isinstance(event, Decided)}
    assert made == {"both": "a", "mine": "b", "next": "b", "after": "b"}
    assert edges.verified().agrees


def test_an_edge_that_did_not_hear_what_is_returned_is_told_again(shared):
    _, edges = shared
    published = edges.run.publish()
    sent = [decided(published, f"d{i}") for i in range(3)]
    upload(edges, published, *sent, edge="a")
    upload(edges, published, *sent, edge="b")
    edges.run.take_uploads()
    for number in range(2):
        told = upload(edges, published, decided(published, f"more{number}"), edge="b").returned
        assert [one.id for one in told] == ["d0", "d1", "d2"]
    assert told[0].decision == {
        name: value
        for name, value in json.loads(json.dumps(sent[0], default=vars)).items()
        if value not in (None, False)
    }
    assert upload(edges, published, decided(published, "e"), edge="a").returned == ()
    desk = EdgeDesk(edges.store, edges.run.ledger.published)
    batch = desk.check("checkout", (published.seq, published.check), "b", [decided(published, "last")])
    uploads = Uploads(edges.store, submit=lambda *_: None)
    assert [one.id for one in uploads.add("checkout", "b", batch, None, ["d0", "d2", "x"]).returned] == ["d1"]
    assert [one.id for one in uploads.add("checkout", "b", batch, None, ["d0"]).returned] == ["d1"], "again, late"
    assert uploads.add("checkout", "a", batch, None, ["d1"]).returned == (), "it is not the one to say so"
    assert uploads.add("checkout", "b", batch, None, ["d1"]).returned == ()


def test_what_is_returned_is_for_the_key_that_it_came_with(shared):
    """Whoever has another key may call himself an edge of this name."""
    _, edges = shared
    published, mine = edges.run.publish(), By("mine", None)
    for edge in ("a", "b"):
        upload(edges, published, decided(published, "d"), edge=edge, by=mine)
    edges.run.take_uploads()
    desk = EdgeDesk(edges.store, edges.run.ledger.published)
    batch = desk.check("checkout", (published.seq, published.check), "b", [decided(published, "e")])
    uploads = Uploads(edges.store, submit=lambda *_: None)
    for by in (By("other", None), By(None, "ann"), None):
        assert uploads.add("checkout", "b", batch, by, ["d"]).returned == ()
    assert [one.id for one in uploads.add("checkout", "b", batch, By("mine", "ann")).returned] == ["d"]
    assert uploads.add("checkout", "b", batch, mine, ["d"]).returned == ()


def test_an_edge_keeps_what_the_service_has_no_room_for(shared, tmp_path, nobody_folds, monkeypatch):
    address, edges = shared
    monkeypatch.setattr(uploading, "MAX_WAITING", 2)
    with (
        serving(address) as url,
        cb.Client(url) as client,
        cb.Edge(url, "checkout", spool=tmp_path / "a", refresh=1000) as edge,
    ):
        made = []
        for i in range(4):
            made.append(edge.decide(PHONE, id=f"d{i}"))
            edge.flush()
        assert edge.pending == 2
        assert len(waiting(edges)) == 2
        with pytest.raises(
            cb.ClientError, match="2 uploads of edges wait to be put into the log of 'checkout'"
        ) as error:
            edge._upkeep._deliver_some()
        assert error.value.status == 503
        client.export("checkout", "csv")
        assert edge.flush() == 0
        client.export("checkout", "csv")
    assert refusals(tmp_path / "a") == []
    kept = {event.id: event.selection.arm for event in edges.events() if isinstance(event, Decided)}
    assert kept == {one.id: one.arm for one in made}


def test_the_quick_way_has_no_more_room_than_the_other(shared, monkeypatch):
    _, edges = shared
    published = edges.run.publish()
    monkeypatch.setattr(uploading, "MAX_WAITING", 1)
    uploads, desk = Uploads(edges.store, submit=lambda *_: None), EdgeDesk(edges.store, edges.run.ledger.published)
    batches = [desk.check("checkout", (published.seq, published.check), "a", [decided(published, id_)]) for id_ in "de"]
    ready = Ready(published.at, published.at, ["r"], "")
    uploads.add("checkout", "a", batches[0], None)
    for add in (
        lambda: uploads.add("checkout", "a", batches[1], None),
        lambda: uploads.add_ready("checkout", "a", ready, None),
    ):
        with pytest.raises(NotYetError, match="1 uploads of edges wait"):
            add()
    assert len(waiting(edges)) == 1


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
