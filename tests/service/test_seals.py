"""Logs that are sealed with a key: who does not have it cannot change them without being found out."""

import io
import json
import random
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conebandit.experiment.errors import InvalidError
from conebandit.service.engine.adopt import adopt
from conebandit.service.engine.writer import Writer
from conebandit.service.errors import CorruptionError, SealKeyError
from conebandit.service.export import export
from conebandit.service.http.server import serving
from conebandit.service.log.anchors import Anchor
from conebandit.service.log.entries import By, read
from conebandit.service.log.events import Sealed
from conebandit.service.log.restore import restore
from conebandit.service.log.snapshots import to_parts
from conebandit.service.log.verify import verify
from conebandit.service.stores.base import open_store
from conebandit.service.stores.records import Head, canonical, from_lines, seal
from conebandit.service.stores.seals import START, UNKEYED, Seals, add_key, key_of, new_key
from tests.service.driver import PHONE, Driver, assert_same
from tests.service.plain_fold import plain_fold
from tests.service.tampering import OTHER_KEY, TAMPERINGS, TRUE_KEY, Target, findings

SECRETS = {"k1": "1" * 43, "k2": "2" * 43, "k3": "3" * 43}


def seals(*ids):
    return Seals({id_: SECRETS[id_] for id_ in ids})


def trial(address, declaration, keys, id_="checkout", *, begin=0, end=12):
    """A store with the log of a trial in which latency stands for toxicity; decisions ``begin`` to ``end``."""
    with closing(open_store(address, seals=keys)) as store:
        run = Driver(store, id_)
        if not begin:
            run.create({**declaration, "id": id_})
        for i in range(begin, end):
            run.now += 1000
            run.ask(f"d{i}", {**PHONE, "age": 30 + i})
            run.tell(f"d{i}", revenue=float(i), latency=float(1 + i % 3))


def checked(address, keys, id_="checkout", **options):
    with closing(open_store(address, create=False, seals=keys)) as store, store.read() as session:
        return verify(session, id_, **options)


def rewrite(address, change, keys=UNKEYED, id_="checkout"):
    """What somebody does who can write to the store: change the records of a log, and seal it all anew."""
    with closing(open_store(address, seals=keys)) as store, store.write() as session:
        before, records = START, []
        for record in change(session.events(id_, limit=10**6)):
            body = json.loads(record.text)
            args = (before, len(records) + 1, record.kind, record.decision, body)
            records.append(seal(*args, seals=keys, experiment=id_))
            before = records[-1].check
        session._run("DELETE FROM events WHERE experiment = ?", (id_,))
        session._insert(id_, records)
        session._run("UPDATE experiments SET head = ?, last_check = ? WHERE id = ?", (*records[-1].head, id_))


def without_toxicity(records):
    """Five toxicities are set to 0."""
    left = 5
    for record in records:
        body = json.loads(record.text)
        if record.kind == "reported" and body["values"].get("latency") and left:
            left -= 1
            body["values"]["latency"] = 0.0
        yield record._replace(text=canonical(body))


def test_five_toxicities_set_to_0_and_sealed_anew_are_found(address, declaration):
    declared = {**declaration, "mode": "off"}  # no decision depends on what is learned, so none can tell
    trial(address, declared, seals("k1"))
    assert checked(address, seals("k1")).agrees
    rewrite(address, without_toxicity)
    report = checked(address, seals("k1"))
    assert not report.agrees
    assert "the log of 'checkout' is not sealed with a key" in report.problems[0]
    rewrite(address, without_toxicity, Seals({"k1": "not the secret".ljust(40, "-")}))
    with pytest.raises(CorruptionError, match=r"event 1 .* does not match its checksum"):
        checked(address, seals("k1"))


def test_without_a_key_they_are_not_but_with_an_anchor(tmp_path, declaration):
    """Whoever can write to the store can compute every checksum; what is kept elsewhere stays."""
    path = str(tmp_path / "log.db")
    trial(path, {**declaration, "mode": "off"}, UNKEYED)
    with closing(open_store(path)) as store:
        events = Driver(store).events
    rewrite(path, without_toxicity)
    assert checked(path, UNKEYED).agrees
    for record in (events[0], events[-1]):
        report = checked(path, UNKEYED, anchors=[Anchor("checkout", record.head, "yesterday")])
        assert report.agrees == (record.seq == 1)
    assert f"event 25 has not the checksum {events[-1].check} that it had (yesterday)" in report.problems[0]


def test_the_head_of_a_log_may_be_moved_back_but_not_behind_an_anchor(address, declaration):
    """Rows that are left behind the end do not count."""
    trial(address, declaration, seals("k1"))
    with closing(open_store(address, seals=seals("k1"))) as store:
        run = Driver(store)
        events = run.events
        with store.write() as session:
            session._run("UPDATE experiments SET head = ?, last_check = ?", events[9].head)
    assert checked(address, seals("k1")).agrees, "nothing but an anchor can tell"
    for anchor, holds in ((events[9].head, True), (events[10].head, False), (Head(10, events[8].check), False)):
        report = checked(address, seals("k1"), anchors=[Anchor("checkout", anchor)])
        assert report.agrees == holds
    report = checked(address, seals("k1"), anchors=[Anchor("checkout", events[-1].head)])
    assert report.problems == ("the log was cut off: it has 10 events, and there was an event 25.",)


def test_a_process_says_that_the_end_of_a_log_is_gone(address, declaration, caplog):
    trial(address, declaration, seals("k1"))
    with closing(open_store(address, seals=seals("k1"))) as store:
        run = Driver(store)
        run.describe()
        assert not caplog.records
        with store.write() as session:
            session._run("UPDATE experiments SET head = ?, last_check = ?", run.events[9].head)
        assert run.describe()["events"] == 10
    assert caplog.messages == ["checkout: the log had 25 events, and has 10: its end is gone."]


def test_a_log_with_keys_is_the_same_log(tmp_path, declaration):
    """Keys change checksums, and nothing else."""
    bodies = []
    for keys in (UNKEYED, seals("k1"), seals("k2", "k1")):
        path = str(tmp_path / f"{len(bodies)}.db")
        trial(path, declaration, keys)
        report = checked(path, keys)
        assert (report.agrees, report.whole, report.key) == (True, True, keys.current)
        assert report.keyed_from == (1 if keys.current else 0)
        with closing(open_store(path, seals=keys)) as store:
            events = Driver(store).events
        assert {key_of(event.check) for event in events} == {keys.current}
        bodies.append([event._replace(check="") for event in events])
    assert bodies[0] == bodies[1] == bodies[2]


def test_a_log_of_another_experiment_is_not_taken_for_this_one(address, declaration):
    """As it is, or sealed anew without a key."""
    for keys in (UNKEYED, seals("k1")):
        ids = [f"{name}-{keys.current}" for name in ("good", "bad")]
        for id_ in ids:
            trial(address, declaration, keys, id_)
        with closing(open_store(address)) as store, store.write() as session:
            [(head, last)] = session._run("SELECT head, last_check FROM experiments WHERE id = ?", (ids[0],))
            session._run("DELETE FROM events WHERE experiment = ?", (ids[1],))
            session._run("UPDATE events SET experiment = ? WHERE experiment = ?", (ids[1], ids[0]))
            session._run("UPDATE experiments SET head = ?, last_check = ? WHERE id = ?", (head, last, ids[1]))
        message = "event 1 .* does not match its checksum" if keys.current else "this is the log of 'good-None'"
        with pytest.raises(CorruptionError, match=message):
            checked(address, keys, ids[1])


def test_keys_are_changed_while_a_log_goes_on(address, declaration):
    trial(address, declaration, seals("k1"), end=5)
    trial(address, declaration, seals("k1", "k2"), begin=5, end=10)
    trial(address, declaration, seals("k2", "k1"), begin=10, end=12)  # a process that seals with the old one still
    with closing(open_store(address)) as store:
        keys = [key_of(event.check) for event in Driver(store).events]
    assert keys == ["k1"] * 11 + ["k2"] * 10 + ["k1"] * 4
    for order in (("k1", "k2"), ("k2", "k1"), ("k1", "k2", "k3")):
        assert checked(address, seals(*order)).agrees
    for missing, left in (("k1", "k2"), ("k2", "k1")):
        with pytest.raises(SealKeyError, match=f"sealed with key '{missing}', which is not here"):
            checked(address, seals(left))


@pytest.mark.parametrize("other", [[], ["k2"]])
def test_without_the_key_nothing_is_read_or_written(address, declaration, tmp_path, monkeypatch, other):
    """Not even from a snapshot at the end of the log, after which nothing has to be read."""
    trial(address, declaration, seals("k1"))
    with closing(open_store(address, seals=seals("k1"))) as store:
        Driver(store).write_snapshot()
        before = Driver(store).events
        content = b"".join(export(store, "checkout", "jsonl")).decode()
    keys = seals(*other)
    if other:
        monkeypatch.setenv("CONEBANDIT_SEAL_KEYS", f"k2:{SECRETS['k2']}")
    refused = pytest.raises(SealKeyError, match="sealed with key 'k1', which is not here")
    with closing(open_store(address, seals=keys)) as store:
        run = Driver(store)
        for name, *args in [("ask", "new"), ("tell", "d1"), ("describe",), ("add_arm", "x"), ("write_snapshot",)]:
            with refused:
                getattr(run, name)(*args)
        for kind in ("csv", "jsonl"):
            with refused:
                b"".join(export(store, "checkout", kind))
        assert run.events == before
    with refused, serving(address):
        pass
    with closing(open_store(str(tmp_path / "copy.db"), seals=keys)) as copy:
        with refused:
            restore(copy, from_lines(io.StringIO(content), keys))
        with copy.read() as session:
            assert session.experiments() == []


def test_another_process_without_the_key_harms_only_its_own_answers(address, declaration):
    """It refuses the log that it cannot read, and goes on with the others."""
    trial(address, declaration, UNKEYED, "open")
    trial(address, declaration, UNKEYED, "closed")
    writer = Writer(open_store(address, seals=UNKEYED))

    def decide(id_, name):
        return writer.submit(id_, lambda turn: turn.decide(id_, [{"id": name, "context": PHONE}]))

    assert decide("closed", "a").result()
    with closing(open_store(address, seals=seals("k1"))) as store:
        assert adopt(store, "closed", "ada", 0).seq == 27
    answers = [decide("closed", "b"), decide("open", "b"), decide("closed", "c")]
    assert answers[1].result()
    for answer in (answers[0], answers[2]):
        with pytest.raises(SealKeyError, match="sealed with key 'k1'"):
            answer.result()
    writer.close()


def test_a_log_without_a_key_is_not_sealed_unless_somebody_says_so(address, declaration):
    """Otherwise the service would vouch for whatever somebody has made of it."""
    trial(address, declaration, UNKEYED)
    with closing(open_store(address)) as store:
        Driver(store).write_snapshot()
    keyed = seals("k1")
    assert "is not sealed with a key" in checked(address, keyed).problems[0]
    with closing(open_store(address, seals=keyed)) as store:
        run = Driver(store)
        with pytest.raises(SealKeyError, match="run conebandit experiment seal checkout"):
            run.ask("new")
        for by in ("", "  "):
            with pytest.raises(InvalidError, match="by must be the name"):
                adopt(store, "checkout", by, run.now)
        head = adopt(store, "checkout", "ada", 7)
        assert key_of(head.check) == "k1"
        assert adopt(store, "checkout", "ada", 8) is None, "once is enough"
        sealed, before = read(run.events[-1]), read(run.events[-2])
        assert (sealed.event, sealed.by) == (Sealed(before.event.at), By(None, "ada"))
        with store.read() as session:
            assert session.snapshots("checkout") == [head.seq]
        run.now += 10**9  # windows close
        run.ask("new")
        report = checked(address, keyed)
        assert (report.agrees, report.whole, report.key, report.keyed_from) == (True, True, "k1", head.seq)
        assert report.snapshots == 1
        assert_same(run.state.policy, plain_fold(run.events))
        with store.write() as session:
            session._run("UPDATE events SET sealed = ? WHERE seq = ?", ("0" * 32, head.seq + 1))
            session._run("UPDATE experiments SET last_check = ?", ("0" * 32,))
        with pytest.raises(CorruptionError, match=f"event {head.seq + 1} .* does not match"):
            checked(address, keyed)
    with closing(open_store(address)) as store, pytest.raises(InvalidError, match="no key to seal with"):
        adopt(store, "checkout", "ada", 0)


def test_a_key_that_was_changed_can_be_sealed_in_at_once(tmp_path, declaration):
    path = str(tmp_path / "log.db")
    trial(path, declaration, seals("k1"))
    with closing(open_store(path, seals=seals("k1", "k2"))) as store:
        assert key_of(adopt(store, "checkout", "ada", 0).check) == "k2"
    assert checked(path, seals("k1", "k2")).key == "k2"


def test_a_record_without_a_key_never_follows_on_one_with_a_key():
    first = seal(START, 1, "a", None, {}, seals=seals("k1"), experiment="e")
    second = seal(START, 2, "a", None, {})
    with pytest.raises(SealKeyError, match="sealed with key 'k1'"):
        seal(first.check, 2, "a", None, {})
    assert not seals("k1").matches(second.check, "e", first.check, "2\na\n\n{}")


@pytest.mark.untraced
@pytest.mark.parametrize("name", TAMPERINGS)
def test_every_change_without_the_key_is_found(name, tmp_path):
    target = Target(tmp_path, random.Random(name))
    code, words = findings(target)
    assert code == 0, words
    TAMPERINGS[name](target)
    code, words = findings(target)
    assert code == 1, words
    assert "trial" in words
    assert "Traceback" not in words


@given(st.lists(st.text(max_size=5), min_size=3, max_size=3), st.lists(st.text(max_size=5), min_size=3, max_size=3))
def test_a_seal_fits_exactly_what_was_sealed(one, other):
    keys = seals("k2", "k1")
    one, other = ([part.replace("\n", "") for part in parts] for parts in (one, other))
    sealed = keys.seal(*one)
    assert keys.matches(sealed, *one)
    assert keys.matches(sealed, *other) == (one == other)
    for damaged in (
        sealed.replace("k1.", "k2."),
        sealed[:-1],
        f"{sealed}0",
        "k1.",
        f"{sealed[:-1]}\N{DIGIT ONE FULL STOP}",
    ):
        assert not keys.matches(damaged, *one)


@pytest.mark.parametrize("keys", [UNKEYED, OTHER_KEY])
def test_a_snapshot_that_was_made_without_the_key_is_not_used(tmp_path, keys):
    """Whoever can write to the store cannot make the service go on from a state of his own."""
    target = Target(tmp_path, random.Random(1))
    with target.open(TRUE_KEY) as store:
        run = Driver(store, "trial")
        state = run.digest()
        with store.write() as session:
            forged = run.state
            forged.arms["new"] = False
            session.drop_snapshots("trial", 0)
            session.save_snapshot("trial", forged.head.seq, to_parts(forged, keys))
        assert Driver(store, "trial").digest() == state
        Driver(store, "trial").write_snapshot()
        with store.read() as session:
            report = verify(session, "trial")
    assert (report.agrees, report.snapshots) == (True, 1)


# ---- keys -----------------------------------------------------------------------------------------------------------


def test_keys_come_from_a_file_that_others_cannot_read(tmp_path):
    file = tmp_path / "seal.keys"
    for id_ in ("first", None, "last"):
        add_key(file, new_key(id_))
    assert file.stat().st_mode & 0o777 == 0o600
    assert Seals.from_file(file).current == "last"
    assert len(file.read_text().splitlines()) == 3
    with pytest.raises(InvalidError, match="line 5"):  # after an empty line
        add_key(file, new_key("first"))
    file.write_text(f"# for the board\n\n{new_key('a')}\n{new_key('b')}")
    add_key(file, new_key("c"))
    assert Seals.from_file(file).current == "c"
    file.chmod(0o640)
    with pytest.raises(InvalidError, match="chmod 600"):
        Seals.from_file(file)
    for missing in (tmp_path / "missing", tmp_path):
        with pytest.raises(InvalidError, match="cannot be read"):
            Seals.from_file(missing)


@pytest.mark.parametrize(
    "text", ["", "# nothing", "k1", "k1:short", f"k 1:{'x' * 40}", f":{'x' * 40}", f"k:{'x' * 65}"]
)
def test_what_is_no_key_is_refused_and_not_repeated(text, monkeypatch):
    monkeypatch.setenv("CONEBANDIT_SEAL_KEYS", text)
    with pytest.raises(InvalidError, match="conebandit seal-key new") as refusal:
        Seals.from_environment()
    assert "xxxx" not in str(refusal.value)
    assert "short" not in str(refusal.value)
