"""Backup and restore as docs/service.md says, while decisions come in."""

import sqlite3

import pytest
from typer.testing import CliRunner

import conebandit as cb
from conebandit.cli import app
from conebandit.service.http.server import serving
from conebandit.service.log.verify import verify
from conebandit.service.stores.base import open_store

PHONE = {"age": 30, "device": "phone"}


def backup_by_sqlite(path, copy):
    source, target = sqlite3.connect(path), sqlite3.connect(copy)
    source.backup(target)  # what .backup of the command sqlite3 does
    source.close()
    target.close()


def backup_by_vacuum(path, copy):
    source = sqlite3.connect(path)
    source.execute("VACUUM INTO ?", (copy,))
    source.close()


def work(client, first, last):
    made = client.decide_many("checkout", [PHONE] * (last - first), ids=[f"d{i}" for i in range(first, last)])
    client.report_many("checkout", {m.id: {"revenue": float(m.id[1:])} for m in made})
    return made


def assert_restored(address, before):
    """What was acknowledged before the backup is there, and the rest can be sent again."""
    store = open_store(address)
    with store.read() as session:
        report = verify(session, "checkout")
    store.close()
    assert (report.agrees, report.decisions, report.recomputed) == (True, 50, 50)
    with serving(address) as url, cb.Client(url) as client:
        assert [client.decide("checkout", PHONE, id=m.id) for m in before[:3]] == before[:3]
        work(client, 50, 60)
        assert client.show("checkout")["events"] == 121


@pytest.mark.parametrize("backup", [backup_by_sqlite, backup_by_vacuum])
def test_sqlite(tmp_path, declaration, backup):
    path, copy = str(tmp_path / "log.db"), str(tmp_path / "copy.db")
    with serving(path) as url, cb.Client(url) as client:
        client.create(declaration)
        before = work(client, 0, 50)
        backup(path, copy)
        work(client, 50, 80)
    assert_restored(copy, before)


def test_postgres(postgres, declaration):
    address, file = postgres.fresh_database("original"), postgres.folder / "backup.dump"
    with serving(address) as url, cb.Client(url) as client:
        client.create(declaration)
        before = work(client, 0, 50)
        postgres.run("pg_dump", *postgres.connection, "-Fc", "-f", file, "original")
        work(client, 50, 80)
    restored = postgres.fresh_database("restored")
    postgres.run("pg_restore", *postgres.connection, "-d", "restored", file)
    assert_restored(restored, before)


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_a_log_that_lacks_its_end_is_no_backup(tmp_path, declaration, suffix):
    path, file = str(tmp_path / "log.db"), tmp_path / f"log.{suffix}"
    with serving(path) as url, cb.Client(url) as client:
        client.create(declaration)
        work(client, 0, 11)
    damaged = sqlite3.connect(path)
    with damaged:
        damaged.execute("DELETE FROM events WHERE seq > 15")
    damaged.close()
    result = CliRunner().invoke(app, ["experiment", "export", "checkout", "--to", str(file), "--store", path])
    assert result.exit_code == 1
    assert ("events 16 to 23 are missing" if suffix == "jsonl" else "event 23, the last one") in result.output
    assert not file.exists()
