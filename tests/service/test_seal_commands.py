"""Keys, anchors and verifying with both, as a user has them."""

import json
import signal
import subprocess
import sys
from contextlib import closing

import pytest
from typer.testing import CliRunner

from conebandit.cli import app
from conebandit.service.client import Client, ClientError
from conebandit.service.http.server import serving
from conebandit.service.log.anchors import Anchor, read_anchors
from conebandit.service.stores.base import open_store
from conebandit.service.stores.records import Head
from tests.service.databases import free_port
from tests.service.driver import PHONE


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("CONEBANDIT_STORE", str(tmp_path / "log.db"))
    return lambda *args: CliRunner().invoke(app, [str(a) for a in args])


@pytest.fixture
def declared(tmp_path, declaration):
    path = tmp_path / "e.json"
    path.write_text(json.dumps(declaration))
    return path


def test_a_served_log_is_sealed_and_anchored(run, declared, tmp_path):
    keys, anchors, port = tmp_path / "seal.keys", tmp_path / "anchors.jsonl", free_port()
    assert "sealed with key k1 from the next start on" in run("seal-key", "new", keys, "--id", "k1").output
    with_keys = ("--seal-keys", keys)
    assert run("experiment", "create", declared, *with_keys).exit_code == 0
    options = ["--port", str(port), *map(str, with_keys), "--anchor", str(anchors), "--anchor-every", "1d"]
    with subprocess.Popen([sys.executable, "-m", "conebandit", "serve", *options]) as process:
        with Client(f"http://127.0.0.1:{port}", retries=30) as client:
            made = client.decide("checkout", PHONE)
            client.report("checkout", made.id, {"revenue": 1.0})
        process.send_signal(signal.SIGINT)
        process.wait(30)
    assert [anchor.head.seq for anchor in read_anchors(anchors) if anchor.experiment == "checkout"][-1] == 3
    good = run("verify", *with_keys, "--expect", anchors)
    assert good.exit_code == 0, good.output
    assert "checkout: 3 events sealed with key k1, " in good.output
    assert run("experiment", "show", "checkout", *with_keys).exit_code == 0
    for command in (("verify",), ("experiment", "show", "checkout"), ("serve",)):
        refused = run(*command)
        assert refused.exit_code == 1
        assert "sealed with key 'k1', which is not here: give the file that has it as --seal-keys" in refused.output
    copy = ("--store", tmp_path / "copy.db")
    assert run("experiment", "export", "checkout", "--to", tmp_path / "log.jsonl", *with_keys).exit_code == 0
    assert run("experiment", "import", tmp_path / "log.jsonl", *copy).exit_code == 1
    assert run("experiment", "import", tmp_path / "log.jsonl", *copy, *with_keys).exit_code == 0
    assert run("verify", "checkout", *copy, *with_keys, "--expect", anchors).exit_code == 0
    other_store = run("verify", *copy, *with_keys, "--expect", anchors)
    assert other_store.exit_code == 1
    assert "event 1 has not the checksum" in other_store.output, "another store has another log of its own"


def test_expectations(run, declared, tmp_path):
    run("experiment", "create", declared)
    with closing(open_store(str(tmp_path / "log.db"))) as store, store.read() as session:
        head = session.existing_head("checkout")
    expect = f"1:{head.check}"
    assert run("verify", "--expect", expect).exit_code == 0
    assert "1 events, 2 anchors, " in run("verify", "--expect", expect, "--expect", expect).output
    for wrong in (f"2:{head.check}", f"1:{'0' * 32}"):
        found = run("verify", "--expect", expect, "--expect", wrong)
        assert found.exit_code == 1
        assert "DISAGREES" in found.output
    missing = run("verify", "--expect", "1:abc")
    assert missing.exit_code == 1
    assert "No such file" in missing.output
    anchors = tmp_path / "anchors.jsonl"
    anchors.write_text(Anchor("checkout", head).line() + Anchor("gone", Head(5, "0" * 32)).line())
    assert run("verify", "checkout", "--expect", anchors).exit_code == 0
    gone = run("verify", "--expect", anchors)
    assert gone.exit_code == 1
    assert "gone: the log is missing from the store; there are anchors of it." in gone.output
    declared.write_text(declared.read_text().replace('"checkout"', '"second"'))
    run("experiment", "create", declared)
    assert "for one experiment; got 2" in run("verify", "--expect", expect).output


def test_a_log_that_was_begun_before_there_was_a_key(run, declared, tmp_path, monkeypatch):
    run("experiment", "create", declared)
    assert "no key to seal with" in run("experiment", "seal").output
    monkeypatch.setenv("CONEBANDIT_SEAL_KEYS", run("seal-key", "new", "--id", "k1").output)
    stripped = run("verify")
    assert stripped.exit_code == 1
    assert "DISAGREES" in stripped.output
    assert "is not sealed with a key" in stripped.output
    assert "checkout: sealed at event 2: k1." in run("experiment", "seal", "--actor", "the board").output
    assert "is sealed with this key already" in run("experiment", "seal", "checkout").output
    good = run("verify")
    assert good.exit_code == 0, good.output
    assert "2 events sealed with key k1 (the first 1 were without a key)" in good.output
    both = run("verify", "--seal-keys", tmp_path / "seal.keys")
    assert both.exit_code == 1
    assert "give one of them" in both.output


def test_what_is_wrong_with_keys_is_said(run, tmp_path):
    file = tmp_path / "seal.keys"
    run("seal-key", "new", file, "--id", "k1")
    for args, words in (
        (("seal-key", "new", file, "--id", "k1"), "an id of its own"),
        (("seal-key", "new", "--id", "a b"), "a key is ID:SECRET"),
        (("verify", "--seal-keys", tmp_path / "none"), "cannot be read"),
        (("serve", "--anchor", "ftp://example.org"), "anchors go to stdout"),
        (("serve", "--anchor-every", "now"), "--anchor-every must be a time"),
    ):
        refused = run(*args)
        assert refused.exit_code == 1
        assert words in refused.output
    file.chmod(0o644)
    assert "chmod 600" in run("verify", "--seal-keys", file).output


def test_a_log_without_its_seals_is_not_served_but_others_are(run, declared, tmp_path, monkeypatch, caplog):
    path = str(tmp_path / "log.db")
    run("experiment", "create", declared)
    monkeypatch.setenv("CONEBANDIT_SEAL_KEYS", run("seal-key", "new").output)
    declared.write_text(declared.read_text().replace('"checkout"', '"second"'))
    run("experiment", "create", declared)
    with serving(path) as url, Client(url, retries=0) as client:
        assert client.decide("second", PHONE).arm in ("old", "new", "bold")
        with pytest.raises(ClientError, match="the service is at fault"):
            client.decide("checkout", PHONE)
    assert caplog.text.count("the log of 'checkout' is not sealed with a key") == 1
