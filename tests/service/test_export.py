"""What leaves the service is the whole log, or an error; and a table has the outcomes that the policy has learned."""

import sys

import httpx
import pytest

from conebandit.service import tables
from conebandit.service.errors import CorruptionError
from conebandit.service.server import serving
from conebandit.service.store import Session, open_store
from conebandit.service.tables import export
from tests.service.test_engine import Driver

FORMATS = ("jsonl", "csv", "parquet")


@pytest.fixture
def run(store, declaration):
    driver = Driver(store)
    driver.create(declaration)
    for i in range(11):
        driver.ask(f"d{i}")
        driver.tell(f"d{i}", revenue=float(i))
    assert len(driver.events) == 23
    return driver


def damage(store, sql):
    with store.write() as session:
        session._run(sql)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("DELETE FROM events WHERE seq > 15", "events 16 to 23 are missing"),
        ("DELETE FROM events WHERE seq = 23", "events 23 to 23 are missing"),
        ("DELETE FROM events WHERE seq = 7", "event 7 is missing"),
        ("DELETE FROM events", "events 1 to 23 are missing"),
        ("UPDATE events SET sealed = '0' WHERE seq = 23", "event 23 .reported. does not match"),
        ("UPDATE events SET body = replace(body, '3.0', '4.0') WHERE seq = 9", "event 9 .reported. does not match"),
        ("UPDATE experiments SET last_check = '0'", "event 23 is not the one that the log is said to end with"),
        ("UPDATE experiments SET head = 24", "events 24 to 24 are missing"),
    ],
)
def test_a_damaged_log_is_not_exported_as_if_it_were_whole(run, store, sql, message):
    whole = {format_: b"".join(export(store, "checkout", format_)) for format_ in FORMATS}
    assert all(whole.values())
    damage(store, sql)
    for format_ in FORMATS:
        with pytest.raises(CorruptionError, match=message):
            b"".join(export(store, "checkout", format_))


def test_a_decision_whose_reports_cannot_be_read_is_named(run, store, monkeypatch):
    monkeypatch.setattr(tables, "PAGE", 5)  # a report is on a later page than its decision, and not checked yet
    damage(store, "UPDATE events SET body = '{' WHERE seq = 9")
    for format_ in ("csv", "parquet"):
        with pytest.raises(CorruptionError, match="decision 'd3' cannot be read"):
            b"".join(export(store, "checkout", format_))


def test_a_decision_that_the_index_lacks_is_missed(run, store, monkeypatch):
    monkeypatch.setattr(Session, "histories", lambda *_: {})
    for format_ in ("csv", "parquet"):
        with pytest.raises(CorruptionError, match="decision 'd0' cannot be read"):
            b"".join(export(store, "checkout", format_))


@pytest.fixture
def client(tmp_path, declaration):
    """Of a service with a log of more than one page, in ``log.db``."""
    with serving(str(tmp_path / "log.db")) as url, httpx.Client(base_url=url, timeout=60) as client:
        client.post("/experiments", json=declaration)
        batch = {"decisions": [{"context": {"age": 30, "device": "phone"}}] * 600}
        assert client.post("/experiments/checkout/decisions", json=batch).status_code == 200
        yield client


def damage_file(tmp_path, sql):
    store = open_store(str(tmp_path / "log.db"))
    damage(store, sql)
    store.close()


def test_without_polars_parquet_is_refused_before_it_begins(client, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    answer = client.get("/experiments/checkout/export?format=parquet")
    assert answer.status_code == 422
    assert answer.json() == {"error": "format parquet needs polars: pip install 'conebandit[data]'."}
    assert client.get("/experiments/checkout/export?format=csv").status_code == 200


@pytest.mark.parametrize("format_", FORMATS)
def test_what_is_wrong_from_the_start_is_no_200(client, tmp_path, caplog, format_):
    damage_file(tmp_path, "UPDATE events SET body = '{}' WHERE seq = 1")
    answer = client.get(f"/experiments/checkout/export?format={format_}")
    assert answer.status_code == 500
    assert "the service is at fault" in answer.json()["error"]
    assert "event 1 (created) does not match its checksum" in caplog.text


@pytest.mark.parametrize("format_", FORMATS)
def test_what_is_wrong_later_breaks_the_connection_off(client, tmp_path, caplog, monkeypatch, format_):
    """Only Parquet is not sent before the whole log was read."""
    monkeypatch.setattr(tables, "PART", 1000)
    damage_file(tmp_path, "DELETE FROM events WHERE seq = 601")
    with client.stream("GET", f"/experiments/checkout/export?format={format_}") as answer:
        if format_ == "parquet":
            assert answer.status_code == 500
        else:
            assert answer.status_code == 200
            with pytest.raises(httpx.RemoteProtocolError, match="incomplete"):
                answer.read()
    assert "events 601 to 601 are missing" in caplog.text
    assert client.get("/healthz").status_code == 200, "and it goes on"
