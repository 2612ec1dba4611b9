"""The commands of the service, as a user calls them."""

import json
import re
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager

import pytest
from typer.testing import CliRunner

from conebandit.cli import app
from conebandit.service.client import Client
from conebandit.service.http import server
from conebandit.service.http.server import serving
from conebandit.service.log.replay import MAX_LEFT
from conebandit.service.log.state import State
from conebandit.service.stores.sqlite import SqliteStore
from tests.service.databases import free_port

TOML = """
id = "checkout"
arms = ["old", "new"]
cone = { tradeoffs = ["one unit of revenue is worth at most 50 of latency"] }
policy = "ParetoUCB1"

[[metrics]]
name = "revenue"

[[metrics]]
name = "latency"
direction = "min"
worst = 2000
window = "36h"
default = 2000

[[context]]
name = "age"
low = 18
high = 98
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("CONEBANDIT_STORE", str(tmp_path / "log.db"))
    return lambda *args: CliRunner().invoke(app, [str(a) for a in args])


def test_a_cost_without_a_direction_is_said_to_whoever_creates_the_experiment(run, tmp_path):
    (tmp_path / "e.toml").write_text(
        'id = "e"\narms = ["a", "b"]\nmetrics = [{ name = "sales" }, { name = "latency" }]'
    )
    created = run("experiment", "create", tmp_path / "e.toml")
    assert created.exit_code == 0
    assert "Warning: metrics: more 'latency' counts as better" in created.output
    (warning,) = json.loads(run("experiment", "show", "e").output)["warnings"]
    assert warning in created.output


def test_experiments(run, tmp_path):
    (tmp_path / "e.toml").write_text(TOML)
    assert run("experiment", "create", tmp_path / "e.toml").output == "checkout: 2 arms, 2 metrics, mode live\n"
    assert run("experiment", "create", tmp_path / "e.toml").exit_code == 0, "again is a no-op"
    assert run("experiment", "list").output == "checkout: 1 events\n"
    assert json.loads(run("experiment", "show", "checkout").output)["declaration"]["arms"] == ["old", "new"]
    for suffix in ("jsonl", "csv", "parquet"):
        assert run("experiment", "export", "checkout", "--to", tmp_path / f"a.{suffix}").exit_code == 0
    assert "agrees" in run("verify").output
    other = ("--store", tmp_path / "other.db")
    assert run("experiment", "import", tmp_path / "a.jsonl", *other).output == "checkout\n"
    assert "agrees" in run("verify", "checkout", *other).output


def test_showing_a_long_log_keeps_nobody_waiting(run, tmp_path, monkeypatch):
    """It is folded, but not in a transaction that writes."""
    (tmp_path / "e.toml").write_text(TOML)
    run("experiment", "create", tmp_path / "e.toml")
    with serving(str(tmp_path / "log.db")) as url, Client(url) as client:
        for _ in range(3):
            client.decide_many("checkout", [{"age": 40}] * 100)
    writing, folded, write, fold = [], [], SqliteStore.write, State.fold

    @contextmanager
    def noticing(self):
        with write(self) as session:
            writing.append(session)
            yield session
            writing.pop()

    def counting(self, *arguments):
        folded.append(bool(writing))
        fold(self, *arguments)

    with sqlite3.connect(tmp_path / "log.db") as raw:
        raw.execute("DELETE FROM snapshot_heads")
    raw.close()
    monkeypatch.setattr(SqliteStore, "write", noticing)
    monkeypatch.setattr(State, "fold", counting)
    assert json.loads(run("experiment", "show", "checkout").output)["events"] == 301
    assert folded.count(False) >= 301 - MAX_LEFT
    assert folded.count(True) <= MAX_LEFT


def test_verify_asks_a_running_service(run, tmp_path):
    (tmp_path / "e.toml").write_text(TOML)
    run("experiment", "create", tmp_path / "e.toml")
    run("key", "create", "k", "--scope", "read", "--store", tmp_path / "other.db")
    with serving(str(tmp_path / "log.db")) as url:
        with Client(url) as client:
            client.decide("checkout", {"age": 40})
        good = run("verify", "--server", url)
        wrong = run("verify", "--server", url, "--store", tmp_path / "other.db", "checkout")
    assert "2 events, 1 of 1 decisions and 0 snapshots compared" in good.output
    assert good.output.endswith("agrees\n")
    assert wrong.exit_code == 1
    assert "no experiment 'checkout'" in wrong.output
    assert "cannot be reached" in run("verify", "--server", url).output


def test_what_is_refused_is_said_without_a_stack_trace(run, tmp_path):
    (tmp_path / "e.toml").write_text(TOML)
    (tmp_path / "bad.toml").write_text(TOML.replace('"max"', "").replace("worst = 2000", ""))
    (tmp_path / "none.toml").write_text("arms = [")
    (tmp_path / "e.json").write_text("{")
    run("experiment", "create", tmp_path / "e.toml")
    run("experiment", "export", "checkout", "--to", tmp_path / "a.jsonl")
    (tmp_path / "date.toml").write_text(TOML.replace('"ParetoUCB1"', '{ name = "ParetoUCB1", width = 2026-01-01 }'))
    (tmp_path / "nan.toml").write_text(TOML.replace('"ParetoUCB1"', '{ name = "LinearParetoUCB", width = nan }'))
    cut = (tmp_path / "a.jsonl").read_bytes()[:-5]
    (tmp_path / "cut.jsonl").write_bytes(cut)
    for args, message in [
        (("experiment", "create", tmp_path / "bad.toml"), "needs 'worst'"),
        (("experiment", "create", tmp_path / "none.toml"), "is not TOML"),
        (("experiment", "create", tmp_path / "e.json"), "is not JSON"),
        (("experiment", "create", tmp_path / "gone.toml"), "cannot be read"),
        (("experiment", "create", tmp_path / "date.toml"), "must consist of texts, numbers"),
        (("experiment", "create", tmp_path / "nan.toml"), "policy.width must be"),
        (("experiment", "import", tmp_path / "gone.jsonl"), "No such file"),
        (("experiment", "export", "checkout", "--to", tmp_path / "gone" / "a.csv"), "No such file"),
        (("experiment", "show", "nothing"), "no experiment 'nothing'"),
        (("experiment", "export", "nothing", "--to", tmp_path / "x.csv"), "no experiment 'nothing'"),
        (("experiment", "export", "checkout", "--to", tmp_path / "x.xls"), "format must be one of"),
        (("experiment", "import", tmp_path / "a.jsonl"), "never overwrites"),
        (("experiment", "import", tmp_path / "cut.jsonl", "--store", tmp_path / "other.db"), "line 3"),
        (("verify", "nothing"), "no experiment 'nothing'"),
        (("key", "create", "k", "--scope", "all"), "one or more of decide, report, read, admin"),
        (("key", "revoke", "1234"), "no key '1234'"),
        (("serve", "--host", "0.0.0.0"), "without API keys"),
    ]:
        result = run(*args)
        assert result.exit_code == 1, args
        assert message in result.output, (args, result.output)
        assert "Traceback" not in result.output


@pytest.mark.parametrize(
    "command",
    ["verify", "experiment list", "experiment show e", "experiment export e --to e.csv", "key list", "key revoke 1234"],
)
def test_a_command_that_looks_makes_no_store(run, tmp_path, command):
    result = run(*command.split())
    assert (result.exit_code, result.output) == (1, f"there is no store at {tmp_path / 'log.db'}.\n")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "log.db").touch()
    assert "no table of experiments" in run(*command.split()).output


def test_verifying_nothing_is_said(run):
    run("key", "create", "k", "--scope", "read")
    said = "there are no experiments in this store.\nthe log of the store: 1 events, 1 keys, agrees\n"
    assert run("verify").output == said


@pytest.mark.parametrize("scheme", ["postgresql+psycopg", "sqlite", "mysql"])
@pytest.mark.parametrize("command", ["serve", "experiment list"])
def test_other_kinds_of_store_are_refused(run, tmp_path, monkeypatch, scheme, command):
    monkeypatch.chdir(tmp_path)
    result = run(*command.split(), "--store", f"{scheme}://me:secret@db/experiments")
    assert (result.exit_code, "Traceback" in result.output, "secret" in result.output) == (1, False, False)
    assert f"a path (SQLite) or an address postgresql://...; got one with {scheme}://" in result.output
    assert list(tmp_path.iterdir()) == []


def test_keys(run):
    made = run("key", "create", "checkout page", "--scope", "decide", "--scope", "report").output.strip()
    listed = run("key", "list").output
    assert made.split("_")[1] in listed
    assert "decide,report" in listed
    assert made.split("_", 2)[2] not in listed
    assert run("key", "revoke", made.split("_")[1]).exit_code == 0
    assert run("key", "list").output == ""


def test_the_library_needs_nothing_of_the_service():
    code = (
        "import sys; import conebandit, conebandit.cli; "
        "sys.exit(any(m in sys.modules for m in ('fastapi', 'uvicorn', 'psycopg', 'pydantic')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_serving_without_the_extra_says_what_to_install():
    code = "import sys; sys.modules['uvicorn'] = None; from conebandit.cli import app; app(['serve'])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr.strip() == "The service needs uvicorn: pip install 'conebandit[service]'."


def test_postgresql_without_the_extra_says_what_to_install():
    code = "import sys; sys.modules['psycopg'] = None; from conebandit.cli import app; app(sys.argv[1:])"
    arguments = ["experiment", "list", "--store", "postgresql://me@db/experiments"]
    result = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr.strip() == "PostgreSQL needs psycopg: pip install 'conebandit[postgres]'."


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("me:secret@127.0.0.1:{closed}/postgres", "Connection refused"),
        ("me:secret@127.0.0.1:{open}/postgres", 'role "me" does not exist'),
        ("postgres:secret@127.0.0.1:{open}/nothing", 'database "nothing" does not exist'),
        ("secret:secret@127.0.0.1:{open}/postgres", 'role "***" does not exist'),
        ("postgres:sec@ret@127.0.0.1:{open}/postgres", "write @ as %40"),
        ("postgres:sec/ret@127.0.0.1:{open}/postgres", "write @ as %40"),
        ("postgres:sec%zzret@127.0.0.1:{open}/postgres", "write @ as %40"),
    ],
)
def test_why_the_database_does_not_answer_is_said_at_the_start(run, postgres, address, reason, monkeypatch):
    monkeypatch.setattr(server, "PATIENCE", 0.0)
    address = address.format(open=postgres.port, closed=free_port())
    for command in ("serve", "key list"):
        result = run(*command.split(), "--store", f"postgresql://{address}")
        assert (result.exit_code, "Traceback" in result.output, result.output.count("\n")) == (1, False, 1)
        assert reason in result.output
        assert not re.search("sec|ret", result.output.replace("secure", ""))


def test_a_database_without_tables_is_no_store(run, postgres):
    address = postgres.fresh_database("without_tables")
    assert "no table of experiments" in run("verify", "--store", address).output
    assert run("key", "create", "k", "--scope", "read", "--store", address).exit_code == 0
    assert "no experiments" in run("verify", "--store", address).output


def test_verify_names_every_log_that_is_damaged(run, tmp_path):
    """One that is damaged must not hide what is wrong with the next, or that the others agree."""
    for name in ("first", "good", "second"):
        (tmp_path / "e.toml").write_text(TOML.replace("checkout", name))
        run("experiment", "create", tmp_path / "e.toml")
    with closing(sqlite3.connect(tmp_path / "log.db")) as database, database:
        assert database.execute("UPDATE events SET body = body || ' ' WHERE experiment <> 'good'").rowcount == 2
    found = run("verify")
    assert found.exit_code == 1
    assert "good: 1 events" in found.output
    assert all(f"{name}: event 1 (created) does not match" in found.output for name in ("first", "second"))
