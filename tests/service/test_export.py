"""What leaves the service is the whole log, or an error; and a table has the outcomes that the policy has learned."""

import io
import json
import math
import random
import sys
from unittest.mock import Mock, patch

import httpx
import polars
import pytest

from conebandit.experiment.declaration import Experiment
from conebandit.service import export as tables
from conebandit.service.errors import CorruptionError
from conebandit.service.export import export
from conebandit.service.http.server import serving
from conebandit.service.stores.base import open_store
from conebandit.service.stores.records import Record
from conebandit.service.stores.session import Session
from tests.service.driver import HOUR, Driver
from tests.service.plain_fold import plain_fold

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
        ("DELETE FROM events WHERE seq > 15", "events 16 to 23 are missing|event 23, the last one"),
        ("DELETE FROM events WHERE seq = 23", "events 23 to 23 are missing|event 23, the last one"),
        ("UPDATE events SET body = '{' WHERE seq = 23", "event 23 .reported. (does not match|is not JSON)"),
        ("DELETE FROM events WHERE seq = 7", "event 7 is missing"),
        ("DELETE FROM events", "events 1 to 23 are missing"),
        ("UPDATE events SET sealed = '0' WHERE seq = 23", "event 23 .reported. does not match"),
        ("UPDATE events SET body = replace(body, '3.0', '4.0') WHERE seq = 9", "event 9 .reported. does not match"),
        ("UPDATE experiments SET last_check = '0'", "event 23 is not the one that the log is said to end with"),
        ("UPDATE experiments SET head = 24", "events 24 to 24 are missing|event 24, the last one"),
    ],
)
def test_a_damaged_log_is_not_exported_as_if_it_were_whole(run, store, sql, message):
    whole = {format_: b"".join(export(store, "checkout", format_)) for format_ in FORMATS}
    assert all(whole.values())
    damage(store, sql)
    for format_ in FORMATS:
        with pytest.raises(CorruptionError, match=message):
            b"".join(export(store, "checkout", format_))


def test_a_report_that_cannot_be_read_is_named(run, store, monkeypatch):
    monkeypatch.setattr(tables, "PAGE", 5)  # a report is on a later page than its decision, and not checked yet
    damage(store, "UPDATE events SET body = '{' WHERE seq = 9")
    for format_ in ("csv", "parquet"):
        with pytest.raises(CorruptionError, match=r"event 9 .*checksum"):
            b"".join(export(store, "checkout", format_))


def test_a_decision_that_the_index_lacks_is_missed(run, store, monkeypatch):
    monkeypatch.setattr(Session, "histories", lambda *_: {})
    for format_ in ("csv", "parquet"):
        with pytest.raises(CorruptionError, match="decision 'd0' is not in the index"):
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
    damage_file(tmp_path, "DELETE FROM events WHERE seq = 600")
    with client.stream("GET", f"/experiments/checkout/export?format={format_}") as answer:
        if format_ == "parquet":
            assert answer.status_code == 500
        else:
            assert answer.status_code == 200
            with pytest.raises(httpx.RemoteProtocolError, match="incomplete"):
                answer.read()
    assert "event 600 is missing" in caplog.text
    assert client.get("/healthz").status_code == 200, "and it goes on"


def table(store, format_="csv"):
    """Rows by id."""
    content = b"".join(export(store, "checkout", format_))
    read = polars.read_csv if format_ == "csv" else polars.read_parquet
    return {row["id"]: row for row in read(io.BytesIO(content)).iter_rows(named=True)}


def outcome(row, metric="latency"):
    return row[f"metric.{metric}"], row[f"status.{metric}"]


@pytest.mark.parametrize("format_", ["csv", "parquet"])
def test_a_table_has_the_outcomes_that_count(store, declaration, format_):
    declaration["metrics"].append({"name": "rating", "window": "1h"})
    run = Driver(store)
    run.create(declaration)
    for id_ in ("told", "told and corrected", "late", "late and corrected", "silent"):
        run.ask(id_.replace(" ", "-"))
    run.now += HOUR
    run.tell("told", latency=3.0, rating=1.0)  # the last millisecond of the window
    run.tell("told-and-corrected", latency=4.0)
    assert outcome(table(store, format_)["silent"]) == (None, "open")
    run.now += 1
    run.tell("told", revenue=7.0)
    assert outcome(table(store, format_)["late"]) == (10.0, "default"), "its window has closed by now"
    run.tell("late", latency=5.0, rating=2.0)
    run.tell("late-and-corrected", latency=6.0)
    run.tell("late-and-corrected", latency=7.0)
    run.tell("told-and-corrected", latency=8.0)
    run.ask("new")
    rows = table(store, format_)
    assert {id_: outcome(row) for id_, row in rows.items()} == {
        "told": (3.0, "reported"),
        "told-and-corrected": (8.0, "reported"),
        "late": (10.0, "late"),
        "late-and-corrected": (10.0, "late"),
        "silent": (10.0, "default"),
        "new": (None, "open"),
    }
    ratings = {id_: outcome(row, "rating") for id_, row in rows.items()}
    assert (ratings["told"], ratings["late"]) == ((1.0, "reported"), (None, "late"))
    assert (ratings["silent"], ratings["new"]) == ((None, "missing"), (None, "open"))
    assert outcome(rows["told"], "revenue") == (7.0, "reported")
    assert outcome(rows["silent"], "revenue") == (None, "open"), "there is no window"


@pytest.mark.parametrize("format_", ["csv", "parquet"])
def test_a_table_has_the_probabilities_that_the_policy_gave(run, store, format_):
    run.set_mode("shadow")
    run.ask("in-shadow")
    run.set_mode("off")
    run.ask("without")
    rows = table(store, format_)
    for event in run.events:
        if event.kind == "decided" and event.decision != "without":
            assert json.loads(rows[event.decision]["choice_probabilities"]) == event.body["choice"]["probabilities"]
    assert not rows["without"]["choice_probabilities"]


def learned(events):
    """What the plain fold teaches the policy, each metric by itself, in no order."""
    found = []
    observe = Mock(side_effect=lambda x, arm, reward: found.extend(taught(x, arm, reward)))
    with patch("tests.service.plain_fold.make_policy", return_value=Mock(observe=observe)):
        plain_fold(events)
    return sorted(found)


def taught(x, arm, reward):
    return [(tuple(x), arm, i, value) for i, value in enumerate(reward) if not math.isnan(value)]


@pytest.mark.parametrize("seed", range(4))
def test_a_table_has_what_the_policy_has_learned(tmp_path, declaration, seed):
    """Of a random log, in all modes, with corrections that the policy knows and one that it does not know yet."""
    store, rng, ids = open_store(str(tmp_path / "log.db")), random.Random(seed), []
    run = Driver(store)
    run.create(declaration)
    for step in range(150):
        run.now += rng.choice([0, 0, 1, 60_000, HOUR // 2])
        if rng.random() < 0.4 or not ids:
            run.ask_at_random(rng, ids, step)
        elif rng.random() < 0.9:
            run.tell_at_random(rng, ids)
        else:
            run.set_mode(rng.choice(["live", "shadow", "off"]))
    run.ledger.max_replayed = 0  # the policy is not to know of this correction yet
    run.ask("corrected")
    run.tell("corrected", revenue=1.0)
    run.tell("corrected", revenue=2.0)
    events, rows = run.events, table(store)
    store.close()
    as_if_all_counted = Record(0, "revised", None, f'{{"at":{run.now},"upto":1000000}}', "")
    experiment = Experiment.from_dict(declaration)
    shown = []
    for row in rows.values():
        x = experiment.encode({"age": row["context.age"], "device": row["context.device"]})
        values = [row[f"metric.{metric.name}"] for metric in experiment.metrics]
        reward = [math.nan if v is None else m.reward(v) for m, v in zip(experiment.metrics, values, strict=True)]
        shown += taught(x, experiment.arms.index(row["arm"]), reward)
    all_learned = learned([*events, as_if_all_counted])
    assert sorted(shown) == all_learned
    assert all_learned != learned(events), "one correction is not known to the policy yet"
    assert {row["status.latency"] for row in rows.values()} == {"reported", "late", "default", "open"}
