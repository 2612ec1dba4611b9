"""What leaves the service is the whole log, or an error; and a table has the outcomes that the policy has learned."""

import pytest

from conebandit.service import tables
from conebandit.service.errors import CorruptionError
from conebandit.service.store import Session
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
