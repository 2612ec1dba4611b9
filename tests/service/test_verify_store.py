"""``verify`` reads the log of the store, and compares API keys and experiments with it."""

import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from typer.testing import CliRunner

from conebandit.cli import app
from conebandit.experiment.declaration import Experiment
from conebandit.service.archive import archive
from conebandit.service.engine.adopt import adopt_operations
from conebandit.service.engine.anchors import Anchors
from conebandit.service.engine.ledger import Ledger
from conebandit.service.engine.turn import Turn
from conebandit.service.errors import CorruptionError, SealKeyError
from conebandit.service.export import export
from conebandit.service.http import keys
from conebandit.service.log.anchors import STORE_LOG, Anchor
from conebandit.service.log.entries import By
from conebandit.service.log.restore import restore
from conebandit.service.log.verify import verify
from conebandit.service.log.verify_store import verify_store
from conebandit.service.stores.base import open_store
from conebandit.service.stores.records import Head, from_lines, seal
from conebandit.service.stores.seals import START, Seals
from tests.service.driver import PHONE, Driver
from tests.service.test_key_terms import old_address  # noqa: F401  (a fixture)

SEALS = Seals({"k1": "s" * 32})
ADA = By("office", "ada")


@pytest.fixture
def sealed(address, declaration):
    """A store that is sealed with a key, with an experiment that has an event, and three API keys."""
    with closing(open_store(address, seals=SEALS)) as store:
        with store.write() as session:
            keys.create_key(session, "office", ["admin"])
            keys.create_key(session, "page", ["decide", "report"], experiments=["checkout"], rate="100/s")
            keys.create_key(session, "board", ["read"], expires="90d")
        with Ledger().transaction(store, 1_000_000) as transaction:
            turn = Turn(transaction, ADA)
            turn.create(Experiment.from_dict(declaration))
            turn.decide("checkout", [{"id": "d1", "context": PHONE}])
        yield store


def found(store, anchors=()):
    with store.read() as session:
        named = {id_: verify(session, id_).api_keys for id_ in session.experiments()}
        return list(verify_store(session, named, anchors).problems)


def change(store, *statements):
    with store.write() as session:
        for statement in statements:
            assert session._run(statement).rowcount > 0, statement


def test_a_store_that_was_left_as_it_is_agrees(sealed):
    with sealed.read() as session:
        report = verify_store(session, {"checkout": verify(session, "checkout").api_keys})
    assert (report.operations, report.keys, report.problems) == (4, 3, ())
    assert (report.key, report.keyed_from) == ("k1", 1)


def test_the_log_of_the_store_tells_which_experiments_were_begun_and_by_whom(sealed):
    with sealed.read() as session:
        last = session.operations()[-1]
    assert (last.kind, last.body["experiment"], last.body["by"]) == (
        "created", "checkout", {"actor": "ada", "key": "office"}
    )  # fmt: skip


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("INSERT INTO api_keys VALUES ('aa', 'mine', 'admin', 'd', '2026')", r"does not say that key aa \('mine'\)"),
        ("UPDATE api_keys SET name = 'nobody' WHERE name = 'office'", "name: 'nobody' in the store and 'office' in"),
        ("UPDATE api_keys SET digest = 'd' WHERE name = 'office'", "changed after it was made, digest. Revoke it"),
        ("UPDATE key_terms SET scopes = 'admin' WHERE rate = ''", "scopes: 'admin' in the store and 'read' in its log"),
        ("UPDATE key_terms SET experiments = '' WHERE rate <> ''", "experiments: '' in the store and 'checkout' in"),
        ("UPDATE key_terms SET expires = '2999-01-01' WHERE rate = ''", "expires: '2999-01-01' in the store and"),
        ("UPDATE key_terms SET rate = '9999/s' WHERE rate <> ''", "rate: '9999/s' in the store and '100/s' in its"),
        ("DELETE FROM key_terms WHERE rate <> ''", "scopes: 'limited' in the store"),
        ("DELETE FROM api_keys WHERE name = 'board'", r"\('board'\) is gone from the store, and nobody has revoked it"),
        ("DELETE FROM experiments", "experiment 'checkout' is not in the store, and nobody has archived it"),
        ("DELETE FROM store_log", "does not say that key .* was made: somebody has put it there, or a release"),
    ],
)
def test_what_somebody_changed_is_found(sealed, statement, words):
    change(sealed, statement)
    assert re.search(words, found(sealed)[0])


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE store_log SET body = '{}' WHERE seq = 2",
        "DELETE FROM store_log WHERE seq = 1",
        "UPDATE store_log SET kind = 'key_revoked' WHERE seq = 3",
    ],
)
def test_a_log_of_the_store_that_was_changed_is_found(sealed, statement):
    change(sealed, statement)
    with pytest.raises(CorruptionError):
        found(sealed)


@pytest.mark.parametrize("text", ["[]", "5", "not JSON", '{"at":0}'])
def test_an_operation_that_says_nothing_is_found(address, text):
    """As somebody may write it where there is no key, with a checksum that fits."""
    with closing(open_store(address)) as store:
        with store.write() as session:
            check = session.seals.seal("", START, f"1\nkey_created\n\n{text}")
            sql = "INSERT INTO store_log (seq, kind, body, sealed) VALUES (1, 'key_created', ?, ?)"
            session._run(sql, (text, check))
        with pytest.raises(CorruptionError):
            found(store)
        with store.write() as session, pytest.raises(CorruptionError):
            keys.create_key(session, "another", ["read"])


def test_a_damaged_log_of_the_store_keeps_nobody_from_anchoring_the_others(sealed):
    sent = []
    change(sealed, "UPDATE store_log SET body = '{}' WHERE seq = 2")
    anchors = Anchors(sealed, sent.append, 3600.0)
    Driver(sealed).ask("d2")
    anchors.close()
    assert [anchor.experiment for lines in sent for anchor in map(Anchor.parse, lines.splitlines())] == [
        "checkout", STORE_LOG, "checkout"
    ]  # fmt: skip


def test_a_log_that_was_removed_with_all_keys_is_found_where_events_name_one(sealed):
    change(sealed, "DELETE FROM store_log", "DELETE FROM api_keys", "DELETE FROM key_terms")
    [problem] = found(sealed)
    assert problem.startswith("events of 'checkout' came with a key 'office', and the log of the store does not know")


def test_a_log_that_was_cut_off_is_found_by_its_anchors(sealed):
    with sealed.read() as session:
        anchor = Anchor(STORE_LOG, session.operations_head())
    assert found(sealed, [anchor]) == []
    change(sealed, "DELETE FROM store_log WHERE seq = 4")
    assert found(sealed) == [], "nothing shows it"
    assert found(sealed, [anchor]) == ["the log was cut off: it has 3 events, and there was an event 4."]
    assert found(sealed, [Anchor(STORE_LOG, Head(1, "0" * 32))])


def test_a_log_without_its_seals_is_found(sealed):
    with sealed.read() as session:
        records, before = session.operations(), "0" * 32
    with sealed.write() as session:
        for record in records:  # as somebody would who has not the key
            bare = seal(before, record.seq, record.kind, None, record.body)
            session._run("UPDATE store_log SET sealed = ? WHERE seq = ?", (bare.check, bare.seq))
            before = bare.check
    [problem] = found(sealed)
    assert problem.startswith("the log of the store is not sealed with a key, and there is one here")
    assert adopt_operations(sealed, "the board").seq == 5
    assert adopt_operations(sealed, "the board") is None
    assert found(sealed) == []
    with sealed.read() as session:
        assert verify_store(session).keyed_from == 5
        assert session.operations()[-1].body["by"] == {"actor": "the board"}


def test_a_revoked_key_that_is_put_back_is_found(sealed):
    with sealed.write() as session:
        row = next(row for row in session.api_keys() if row.name == "office")
        assert keys.revoke_key(session, row.id)
    assert found(sealed) == []
    with sealed.write() as session:
        session.add_key(row)
    assert found(sealed) == [f"key {row.id} ('office') was revoked, and is in the store again: revoke it."]


def test_archived_and_imported_experiments(sealed, tmp_path):
    """What was archived need not be there; what was imported may name keys of the store that it comes from."""
    log = b"".join(export(sealed, "checkout", "jsonl")).decode()
    with closing(open_store(str(tmp_path / "other.db"), seals=SEALS)) as other:
        restore(other, from_lines(iter(log.splitlines(keepends=True)), SEALS))
        assert found(other) == []
        change(other, "DELETE FROM experiments")
        assert found(other) == ["experiment 'checkout' is not in the store, and nobody has archived it."]
    Driver(sealed).set_stage("ended", "done")
    archive(sealed, "checkout", tmp_path / "checkout.jsonl", ADA)
    assert found(sealed) == []


def test_keys_of_an_earlier_release_are_said_to_be_unknown_until_they_are_revoked(old_address):  # noqa: F811
    with closing(open_store(old_address)) as store:
        assert [problem[:41] for problem in found(store)] == ["the log of the store does not say that key"[:41]] * 3
        with store.write() as session:
            for row in session.api_keys():
                assert keys.revoke_key(session, row.id)
        assert found(store) == []


def test_the_first_two_operations_at_once(address, monkeypatch):
    """There is nothing to lock yet: the second one follows on the first."""
    with closing(open_store(address)) as store, store.write() as session:
        heads = iter([session.operations_head()])
        session.append_operation("created", {"experiment": "a"})
        true_head = session.operations_head
        monkeypatch.setattr(session, "operations_head", lambda: next(heads, None) or true_head())
        session.append_operation("created", {"experiment": "b"})
        assert [(record.seq, record.body["experiment"]) for record in session.operations()] == [(1, "a"), (2, "b")]


def test_experiments_that_are_begun_at_once_are_all_told_of(address, declaration):
    open_store(address).close()

    def work(number):
        with closing(open_store(address)) as store:
            for i in range(4):
                id_ = f"e{number}-{i}"
                Driver(store, id_).create({**declaration, "id": id_})
                with store.write() as session:
                    keys.create_key(session, id_, ["read"])

    with ThreadPoolExecutor(4) as together:
        list(together.map(work, range(4)))
    with closing(open_store(address)) as store, store.read() as session:
        told = {record.body["experiment"] for record in session.operations() if record.kind == "created"}
        assert told == set(session.experiments())
        assert len(told) == 16
        report = verify_store(session)
    assert (report.operations, report.keys, report.problems) == (32, 16, ())


def test_an_experiment_cannot_be_begun_without_the_key_of_the_log_of_the_store(sealed, address, declaration):
    with closing(open_store(address)) as store:
        run = Driver(store, "other")
        with pytest.raises(SealKeyError, match="'k1'"):
            run.create({**declaration, "id": "other"})
        with store.read() as session:
            assert session.experiments() == ["checkout"]


def test_the_command(tmp_path, monkeypatch, begun):
    monkeypatch.setenv("CONEBANDIT_STORE", begun)

    def run(*args):
        return CliRunner().invoke(app, [str(a) for a in args])

    run("key", "create", "page", "--scope", "decide")
    good = run("verify")
    assert good.exit_code == 0, good.output
    assert good.output.splitlines()[-1] == "the log of the store: 2 events, 1 keys, agrees"
    assert "the log of the store" not in run("verify", "checkout").output
    with closing(open_store(begun)) as store:
        change(store, "UPDATE api_keys SET scopes = 'admin'")
    wide = run("verify")
    assert wide.exit_code == 1
    assert "the log of the store: 2 events, 1 keys, DISAGREES" in wide.output
    assert "scopes: 'admin' in the store and 'decide' in its log. Revoke it." in wide.output
    with closing(open_store(begun)) as store:
        change(store, "UPDATE store_log SET body = '{}' WHERE seq = 1")
    damaged = run("verify")
    assert damaged.exit_code == 1
    assert "the log of the store: event 1 (created) does not match its checksum" in damaged.output
    monkeypatch.setenv("CONEBANDIT_STORE", str(tmp_path / "second.db"))
    run("key", "create", "page", "--scope", "decide")
    monkeypatch.setenv("CONEBANDIT_SEAL_KEYS", run("seal-key", "new", "--id", "k1").output)
    assert run("verify").exit_code == 1
    assert "the log of the store: sealed at event 2: k1." in run("experiment", "seal").output
    assert run("verify").exit_code == 0
