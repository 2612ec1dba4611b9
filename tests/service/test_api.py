"""The service over HTTP: what it answers, and how it refuses."""

import contextlib
import csv
import io
import json
import logging
import re
import threading
import time
from pathlib import Path

import httpx
import polars
import pytest

from conebandit.experiment.errors import InvalidError
from conebandit.service.engine import turn as engine
from conebandit.service.http import access, backend, keys, limits, metrics
from conebandit.service.http.routes import experiments
from conebandit.service.http.server import serve, serving
from conebandit.service.stores import session as session_module
from conebandit.service.stores.base import open_store
from conebandit.service.stores.session import NOBODY
from conebandit.service.stores.sqlite import SqliteStore

DESK = {"age": 50, "device": "desk"}
QUERY = {"context": json.dumps(DESK)}


@pytest.fixture
def client(address, declaration):
    with serving(address) as url, httpx.Client(base_url=url, timeout=60) as client:
        assert client.post("/experiments", json=declaration).status_code == 201
        yield client


@pytest.fixture
def sqlite_address(tmp_path):
    return str(tmp_path / "x.db")


@pytest.fixture
def sqlite_client(sqlite_address, declaration):
    with serving(sqlite_address) as url, httpx.Client(base_url=url, timeout=60) as client:
        client.post("/experiments", json=declaration)
        client.post("/experiments/checkout/decisions", json={"id": "known", "context": DESK})
        yield client


def test_from_declaration_to_export(client, declaration):
    assert client.get("/experiments").json() == ["checkout"]
    assert client.post("/experiments", json=declaration).status_code == 201, "again is a no-op"
    one = client.post("/experiments/checkout/decisions", json={"id": "one", "context": DESK}).json()
    assert one["id"] == "one"
    assert 0 < one["propensity"] <= 1
    assert one["arm"] in one["active"]
    assert one["policy_version"].startswith("LinearParetoUCB-")
    batch = {"decisions": [{"id": f"b{i}", "context": DESK} for i in range(5)]}
    assert len(client.post("/experiments/checkout/decisions", json=batch).json()["decisions"]) == 5
    told = client.post("/experiments/checkout/outcomes", json={"id": "one", "values": {"revenue": 2}}).json()
    assert told == {
        "id": "one", "recorded": ["revenue"], "corrected": [], "repeated": [], "late": [],
        "held": [], "clipped": [], "void": False,
    }  # fmt: skip
    batch = {"outcomes": [{"id": f"b{i}", "values": {"revenue": i, "latency": 1.5}} for i in range(5)]}
    assert len(client.post("/experiments/checkout/outcomes", json=batch).json()["outcomes"]) == 5

    front = client.get("/experiments/checkout/front", params=QUERY).json()
    assert {row["arm"] for row in front["arms"]} <= {"old", "new", "bold"}
    assert client.get("/experiments/checkout/explain", params=QUERY).json()["observations"] == 6
    page = client.get("/experiments/checkout/events", params={"after": 2, "limit": 3}).json()
    assert [e["seq"] for e in page["events"]] == [3, 4, 5]
    assert page["next"] == 5
    assert client.get("/experiments/checkout").json()["events"] == 13
    assert client.get("/experiments/checkout/shift").json()["contexts"] == 6

    rows = list(csv.DictReader(io.StringIO(client.get("/experiments/checkout/export?format=csv").text)))
    assert [r["id"] for r in rows] == ["one", *(f"b{i}" for i in range(5))]
    assert rows[3]["metric.revenue"] == "2.0"
    assert rows[0]["metric.latency"] == ""
    assert rows[0]["context.device"] == "desk"
    table = polars.read_parquet(io.BytesIO(client.get("/experiments/checkout/export?format=parquet").content))
    assert table["metric.revenue"].to_list() == [2.0, 0.0, 1.0, 2.0, 3.0, 4.0]
    lines = client.get("/experiments/checkout/export").text.splitlines()
    assert json.loads(lines[-1])["events"] == 13

    added = client.post("/experiments/checkout/arms", json={"add": "fourth"}).json()
    assert {"name": "fourth", "active": True} in added["arms"]
    assert client.post("/experiments/checkout/mode", json={"mode": "off"}).json()["mode"] == "off"
    assert client.post("/experiments/checkout/decisions", json={"context": DESK}).json()["arm"] == "old"
    assert client.get("/healthz").json() == {"status": "ok"}
    text = client.get("/metrics").text
    assert "conebandit_events_total 17" in text
    assert 'route="/experiments/{experiment}/decisions",status="200"} 3' in text


SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="[^"\\\\\n]*",?)*)\})? (\S+)')


def parsed(text):
    """The text format of Prometheus, read plainly: types by metric, values by name and labels."""
    types, values = {}, {}
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types, "one block for each metric"
            types[name] = current = kind, name
        else:
            name, labels, value = SAMPLE.fullmatch(line).groups()
            kind, of = current
            assert name in ({f"{of}_bucket", f"{of}_sum", f"{of}_count"} if kind == "histogram" else {of}), line
            key = name, tuple(tuple(label.split("=", 1)) for label in labels.split(",")) if labels else ()
            assert key not in values, line
            values[key] = float(value)
    return {name: kind for name, (kind, _) in types.items()}, values


def test_metrics_are_what_prometheus_reads(client):
    for i in range(4):
        client.post("/experiments/checkout/decisions", json={"id": str(i), "context": DESK})
    client.post("/experiments/checkout/outcomes", json={"id": "0", "values": {"revenue": 2}})
    client.post("/experiments/nothing/decisions", json={"context": DESK})
    client.post("/experiments/checkout/decisions", json={"context": {"age": "old"}})
    reply = client.get("/metrics")
    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    types, values = parsed(reply.text)
    for name, times in [("conebandit_decision_seconds", 4), ("conebandit_outcome_seconds", 1)]:
        assert types[name] == "histogram"
        buckets = [(dict(labels), n) for (of, labels), n in values.items() if of == f"{name}_bucket"]
        assert {labels["experiment"] for labels, _ in buckets} == {'"checkout"'}, "no rows for what is no experiment"
        most = [float(labels["le"].strip('"')) for labels, _ in buckets]
        counts = [n for _, n in buckets]
        assert most == sorted(most)
        assert most[-1] == float("inf")
        assert counts == sorted(counts)
        whole = (("experiment", '"checkout"'),)
        assert values[f"{name}_count", whole] == counts[-1] == times
        assert 0 < values[f"{name}_sum", whole] < 10 * times
    assert types["conebandit_requests_total"] == types["conebandit_events_total"] == "counter"
    assert values["conebandit_events_total", ()] == 6
    assert types["conebandit_running_revisions"] == "gauge"


def test_the_schema_tells_of_keys_and_refusals(sqlite_client):
    schema = sqlite_client.get("/openapi.json").json()
    assert set(schema["components"]["securitySchemes"]) == {"key", "bearer"}
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            if path in ("/healthz", "/readyz"):
                assert "security" not in operation
            else:
                assert operation["security"] == [{"key": []}, {"bearer": []}]
                for status in ("401", "403", "422", "503"):
                    form = operation["responses"][status]["content"]["application/json"]["schema"]
                    assert form["required"] == ["error"]


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/x-www-form-urlencoded"])
def test_a_body_that_is_not_said_to_be_json(sqlite_client, content_type):
    headers = {} if content_type is None else {"content-type": content_type}
    content = json.dumps({"id": "one", "context": DESK})
    reply = sqlite_client.post("/experiments/checkout/decisions", content=content, headers=headers)
    assert reply.status_code == 415
    assert reply.json() == {"error": "the body must come with the header 'Content-Type: application/json'."}


def test_readiness_is_that_the_store_can_be_written_to(sqlite_client, sqlite_address, monkeypatch):
    monkeypatch.setattr(backend, "MAX_READY_AGE", 600.0)
    assert sqlite_client.get("/readyz").json() == {"status": "ok"}
    commits = sqlite_client.get("/metrics").text
    assert sqlite_client.get("/readyz").status_code == 200
    assert _value(sqlite_client.get("/metrics").text, "commits") == _value(commits, "commits"), "not each time"
    write = SqliteStore.write

    @contextlib.contextmanager
    def write_on_a_full_disk(store):
        with write(store) as session:
            session._run("PRAGMA max_page_count = 1")  # as large as it is, and not larger
            yield session

    monkeypatch.setattr(SqliteStore, "write", write_on_a_full_disk)
    monkeypatch.setattr(session_module, "TRIED", 1 << 20)
    monkeypatch.setattr(backend, "MAX_READY_AGE", 0.0)
    assert sqlite_client.get("/healthz").status_code == 200
    assert sqlite_client.get("/readyz").status_code == 503
    monkeypatch.undo()
    assert sqlite_client.get("/experiments").json() == ["checkout"], "and nothing of it is left"
    with contextlib.closing(open_store(sqlite_address)) as store, store.read() as session:
        assert session.snapshot_heads(NOBODY) == {}


def _value(text, name):
    return float(re.search(rf"^conebandit_{name}_total (\S+)$", text, re.M)[1])


def test_every_metric_is_in_the_manual():
    manual = (Path(__file__).parents[2] / "docs" / "service.md").read_text(encoding="utf-8")
    assert [metric.name for metric in metrics.METRICS if f"`{metric.name}`" not in manual] == []


def test_the_monitor_sees_a_change_of_the_population(sqlite_client):
    for ages in (range(20, 60), range(58, 98)):
        for _ in range(3):
            batch = {"decisions": [{"context": {"age": ages[i * 7 % 40], "device": "desk"}} for i in range(300)]}
            assert sqlite_client.post("/experiments/checkout/decisions", json=batch).status_code == 200
        report = sqlite_client.get("/experiments/checkout/shift").json()
    assert report["contexts"] == 1801
    assert report["alarm"]["coordinate"] == "age"
    assert abs(report["alarm"]["change_point"] - 901) < 50


D, R, E = "/experiments/checkout/decisions", "/experiments/checkout/outcomes", "/experiments"
METRIC = [{"name": "m"}]
TEN = [{"name": f"m{i}"} for i in range(10)]
NARROW = {f"m{i}": [0.08, 0.12] for i in range(10)}
STAR = [f"one unit of m{i} is worth at most {i} of m0" for i in range(1, 10)]
LEVELS = [{"name": "city", "levels": [f"c{i}" for i in range(50)]}]
CONTEXT = {"age": 50, "device": "desk"}


def declared(**changes):
    return {"id": "other", "arms": ["a", "b"], "metrics": METRIC, **changes}


BAD = [
    # method, path, body, status, part of the message
    ("POST", E, declared(id="no spaces"), 422, "id must be 1 to 64 letters"),
    ("POST", E, declared(id=None), 422, "id must be"),
    ("POST", E, {"id": "other"}, 422, "arms must be a list"),
    ("POST", E, declared(arms=[]), 422, "arms must be a list of 1 to 200 names"),
    ("POST", E, declared(arms=["a", "a"]), 422, "'a' is there twice"),
    ("POST", E, declared(arms=["old", "old "]), 422, "does not end with a space; got 'old '"),
    ("POST", E, declared(arms=["old", " old"]), 422, "begins with a letter or digit"),
    ("POST", E, declared(metrics=[{"name": "m", "window": -10**400}]), 422, "metrics[0].window must be a time above 0"),
    ("POST", E, declared(arms=["a", "\n"]), 422, "a name has 1 to 64 letters"),
    ("POST", E, declared(arms=[f"a{i}" for i in range(201)]), 422, "1 to 200 names"),
    ("POST", E, declared(arms=["a", "\u212b"]), 422, r"write the name '\u212b' as '\xc5'"),
    ("POST", E, declared(arms=["a", "\u202egnp"]), 422, "a name has 1 to 64 letters"),
    ("POST", E, declared(metrics=[]), 422, "metrics must be a list of 1 to 16"),
    ("POST", E, declared(metrics=[{"name": f"m{i}"} for i in range(17)]), 422, "1 to 16 tables"),
    ("POST", E, declared(metrics=[{"name": "m", "direction": "min"}]), 422, "needs 'worst'"),
    ("POST", E, declared(metrics=[{"name": "m", "worst": 3}]), 422, "'max' has none"),
    ("POST", E, declared(metrics=[{"name": "m", "direction": "up"}]), 422, "one of max, min"),
    ("POST", E, declared(metrics=[{"name": "m", "default": 3}]), 422, "needs a 'window'"),
    ("POST", E, declared(metrics=[{"name": "m", "window": "soon"}]), 422, "like '36h' or '7d'"),
    ("POST", E, declared(metrics=[{"name": "m", "window": -1}]), 422, "a time above 0"),
    ("POST", E, declared(metrics=[{"name": "m", "wieght": 1}]), 422, "'wieght' that is not known"),
    ("POST", E, declared(cone="icecream"), 422, "cone must be"),
    ("POST", E, declared(cone={"wedge": 90}), 422, "names must be 2 different names"),
    ("POST", E, declared(cone={"facets": [[0]]}), 422, "cone.facets"),
    ("POST", E, declared(cone={"rays": [[1, 2]]}), 422, "cone.rays"),
    ("POST", E, declared(cone={"rays": "all"}), 422, "must be a list"),
    ("POST", E, declared(cone={"tradeoffs": ["whatever"]}), 422, "cone.tradeoffs"),
    ("POST", E, declared(cone={"weight_ranges": {"x": [0, 1]}}), 422, "a range is needed for each of m"),
    ("POST", E, declared(cone={"weights": [["a"]]}), 422, "must be a number"),
    ("POST", E, declared(context=[{"name": "x"}]), 422, "context[0].low must be a number"),
    ("POST", E, declared(context=[{"name": "x", "low": 2, "high": 1}]), 422, "low must be below high"),
    ("POST", E, declared(context=[{"name": "x", "low": 0, "high": 1, "missing": 2}]), 422, "'refuse' or a number in"),
    ("POST", E, declared(context=[{"name": "x", "levels": []}]), 422, "1 to 100 names"),
    ("POST", E, declared(context=[{"name": "x", "levels": ["a"], "missing": "b"}]), 422, "must be one of a"),
    ("POST", E, declared(policy={"name": "Oracle"}), 422, "policy.name must be one of"),
    ("POST", E, declared(policy={"preset": "lucky"}), 422, "policy: preset must be"),
    ("POST", E, declared(policy={"bounds": [[0, 2]]}), 422, "policy.bounds cannot be given"),
    ("POST", E, declared(policy={"n_arms": 3}), 422, "policy: "),
    ("POST", E, declared(policy={"name": "ConeTree", "\ud800": 1}), 422, r"argument '\ud800'"),
    ("POST", E, declared(policy={"name": "ScalarisedUCB", "bins": 2**40}), 422, "policy: bins must be at most 4096"),
    ("POST", E, declared(policy={"name": "ParetoUCB1", "width": 10**400}), 422, "policy.width must be between"),
    ("POST", E, declared(policy={"name": "ConeKernel", "n_features": 10**9}), 422, "policy: n_features must be at"),
    ("POST", E, declared(cone={"rays": [[1] * 30] * 60}), 422, "cone.rays: a row needs 1 entries"),
    ("POST", E, declared(arms=[str(i) for i in range(200)], context=LEVELS, metrics=TEN), 422, "too large together"),
    ("POST", E, declared(metrics=TEN, cone={"rays": [[1] * 10] * 15}), 422, "cone.rays gives 15 rows for 10 metrics"),
    ("POST", E, declared(metrics=TEN, cone={"weight_ranges": NARROW}), 422, "cone.weight_ranges gives 20 rows for 10"),
    ("POST", E, declared(metrics=TEN, cone={"tradeoffs": STAR}), 422, "cone.tradeoffs gives 19 rows for 10 metrics"),
    ("POST", E, declared(cone={"tradeoffs": ["9" * 5000]}), 422, "cone.tradeoffs: a statement is a text of at most"),
    ("POST", E, declared(seed="dice"), 422, "seed must be an integer"),
    ("POST", E, declared(mode="on"), 422, "one of live, shadow, off"),
    ("POST", E, declared(baseline="c"), 422, "baseline must be one of a, b"),
    ("POST", E, declared(id="checkout"), 409, "another declaration"),
    ("POST", E, [1, 2], 422, "valid dictionary"),
    ("POST", E, b"{", 422, "JSON"),
    ("POST", D, b"\xff\xfe", 422, "JSON decode error"),
    ("POST", D, b"[" * 100_000, 400, "parsing the body"),
    ("POST", D, b'{"context": {"age": ' + b"9" * 5000 + b"}}", 400, "parsing the body"),
    ("POST", D, b'{"context": {"age": NaN, "device": "desk"}}', 422, "must be a number"),
    ("POST", D, b'{"context": {"age": 1e999, "device": "desk"}}', 422, "must be a number"),
    ("POST", D, {"context": {"age": "old", "device": "desk"}}, 422, "'age' must be a number"),
    ("POST", D, {"context": {"age": 5, "device": "tv"}}, 422, "one of phone, desk"),
    ("POST", D, {"context": {"age": 5, "device": "\ud800"}}, 422, "one of phone, desk"),
    ("POST", D, {"context": {"age": 5}}, 422, "'device' is missing"),
    ("POST", D, {"context": {**CONTEXT, "mood": 1}}, 422, "'mood' that is not known; it may have age, device"),
    ("POST", D, {"context": {"age": True, "device": "desk"}}, 422, "age"),
    ("POST", D, {"context": CONTEXT, "id": ""}, 422, "1 to 128 printable"),
    ("POST", D, {"context": CONTEXT, "id": "a b"}, 422, "1 to 128 printable"),
    ("POST", D, {"context": CONTEXT, "id": "x" * 129}, 422, "1 to 128 printable"),
    ("POST", D, {"context": CONTEXT, "id": 7}, 422, "valid string"),
    ("POST", D, {"context": CONTEXT, "arm": "old"}, 422, "Extra inputs are not permitted"),
    ("POST", D, {"context": {"device": "phone"}, "id": "known"}, 409, "another context"),
    ("POST", D, {"decisions": []}, 422, "at least 1 item"),
    ("POST", D, {"decisions": [{"context": CONTEXT}] * 1001}, 422, "at most 1000 items"),
    ("POST", D, b"x" * (limits.MAX_BYTES + 1), 413, "smaller batches"),
    ("POST", "/experiments/nothing/decisions", {"context": {}}, 404, "no experiment 'nothing'"),
    ("POST", "/experiments/%00/decisions", {"context": {}}, 422, "pattern"),
    ("POST", R, {"id": "nobody", "values": {"revenue": 1}}, 404, "no decision 'nobody'"),
    ("POST", R, {"id": "known", "values": {}}, 422, "at least 1 item"),
    ("POST", R, {"id": "known"}, 422, "Field required"),
    ("POST", R, {"id": "known", "values": {"speed": 1}}, 422, "no metric 'speed'"),
    ("POST", R, {"id": "known", "values": {"revenue": None}}, 422, "revenue"),
    ("POST", R, {"id": "known", "values": {"revenue": "1"}}, 422, "revenue"),
    ("POST", R, {"id": "known", "values": {"revenue": 1e300}}, 422, "at most 1e+15 in size"),
    ("POST", R, b'{"id": "known", "values": {"revenue": -Infinity}}', 422, "must be a number"),
    ("POST", "/experiments/checkout/arms", {}, 422, "either 'add' or 'retire'"),
    ("POST", "/experiments/checkout/arms", {"add": "a", "retire": "b"}, 422, "either 'add' or 'retire'"),
    ("POST", "/experiments/checkout/arms", {"add": "\x00"}, 422, "arm: a name has 1 to 64"),
    ("POST", "/experiments/checkout/arms", {"retire": "nobody"}, 404, "no arm 'nobody'"),
    ("POST", "/experiments/checkout/arms", {"retire": "old"}, 409, "baseline"),
    ("POST", "/experiments/checkout/mode", {"mode": "on"}, 422, "'live', 'shadow' or 'off'"),
    ("GET", "/experiments/nothing", None, 404, "no experiment"),
    ("GET", "/experiments/nothing/export", None, 404, "no experiment"),
    ("GET", "/experiments/nothing/events", None, 404, "no experiment"),
    ("GET", "/experiments/nothing/shift", None, 404, "no experiment"),
    ("GET", "/experiments/checkout/front?context=[]", None, 422, "must be a JSON object"),
    ("GET", "/experiments/checkout/front", None, 422, "'device' is missing"),
    ("GET", "/experiments/checkout/events?limit=0", None, 422, "greater than or equal to 1"),
    ("GET", "/experiments/checkout/events?after=x", None, 422, "valid integer"),
    ("GET", "/experiments/checkout/export?format=xls", None, 422, "'jsonl', 'csv' or 'parquet'"),
    ("GET", "/nowhere", None, 404, "Not Found"),
    ("DELETE", "/experiments/checkout", None, 405, "Method Not Allowed"),
]  # fmt: skip


def test_bad_requests_are_refused_in_words(sqlite_client):
    assert len(BAD) >= 40
    before = sqlite_client.get("/experiments/checkout/state").json()
    for method, path, body, status, message in BAD:
        content = body if body is None or isinstance(body, bytes) else json.dumps(body)
        reply = sqlite_client.request(method, path, content=content, headers={"content-type": "application/json"})
        assert reply.status_code == status, (method, path, str(body)[:200], reply.text)
        assert message in reply.json()["error"], (method, path, str(body)[:200], reply.text)
        assert len(reply.text) < 2000
    assert sqlite_client.get("/experiments/checkout/state").json() == before
    assert sqlite_client.get("/experiments").json() == ["checkout"]


def test_a_malformed_request_is_measured_against_the_form_that_it_has(sqlite_client):
    number = "{0}.int: Input should be a valid integer; {0}.float: Input should be a valid number"
    for path, body, error in [
        (R, {"id": "x", "values": {"m": None}}, number.format("body.values.m")),
        (R, {"outcomes": [{"id": "x", "values": {"m": None}}]}, number.format("body.outcomes.0.values.m")),
        (R, {"outcomes": 1}, "body.outcomes: Input should be a valid list"),
        (R, {"id": "x"}, "body.values: Field required"),
        (D, {"id": 5}, "body.id: Input should be a valid string"),
        (D, {"decisions": [{}, {"id": 5}]}, "body.decisions.1.id: Input should be a valid string"),
        (D, {"one": 1}, "body.one: Extra inputs are not permitted"),
        (D, [], "body: Input should be a valid dictionary or object to extract fields from"),
    ]:
        reply = sqlite_client.post(path, json=body)
        assert (reply.status_code, reply.json()["error"]) == (422, error)


def test_a_declaration_that_takes_long_keeps_no_decision_waiting(sqlite_client, monkeypatch):
    begun, go_on, replies = threading.Event(), threading.Event(), []

    def slow(*_):
        begun.set()
        assert go_on.wait(30)
        raise InvalidError("policy: too slow.")

    def create():
        replies.append(httpx.post(sqlite_client.base_url.join(E), json=declared(), timeout=60))

    monkeypatch.setattr(experiments, "make_policy", slow)
    thread = threading.Thread(target=create)
    thread.start()
    try:
        assert begun.wait(30)
        assert sqlite_client.post(D, json={"context": CONTEXT}).status_code == 200
    finally:
        go_on.set()
        thread.join()
    assert (replies[0].status_code, replies[0].json()) == (422, {"error": "policy: too slow."})


def test_keys_and_scopes(sqlite_client, sqlite_address, monkeypatch):
    monkeypatch.setattr(access, "MAX_KEY_AGE", 0.0)
    store = open_store(sqlite_address)
    with store.write() as session:
        made = {scope: keys.create_key(session, scope, [scope]) for scope in keys.SCOPES}
        kept = session.api_keys()
    assert not any(made[row.name].split("_", 2)[2] in repr(row) for row in kept), "only a hash is stored"
    requests = {
        "decide": ("POST", D, {"context": CONTEXT}, 200),
        "report": ("POST", R, {"id": "known", "values": {"revenue": 1}}, 200),
        "read": ("GET", "/experiments/checkout/front", None, 422),
        "admin": ("POST", "/experiments/checkout/mode", {"mode": "live"}, 200),
    }
    for needed, (method, path, body, passed) in requests.items():
        for has, key in made.items():
            status = sqlite_client.request(method, path, json=body, headers={"X-API-Key": key}).status_code
            assert status == (passed if has in (needed, "admin") else 403), (needed, has)
        bearer = {"Authorization": f"Bearer {made[needed]}"}
        assert sqlite_client.request(method, path, json=body, headers=bearer).status_code == passed
        for wrong in ("", "x", made[needed][:-1], made[needed] + "0", made["read"][:15] + made["admin"][15:], "cb__"):
            reply = sqlite_client.request(method, path, json=body, headers={"X-API-Key": wrong})
            assert reply.status_code == 401, wrong
    assert sqlite_client.get("/experiments").status_code == 401
    assert sqlite_client.get("/metrics").status_code == 401
    assert sqlite_client.get("/healthz").status_code == sqlite_client.get("/readyz").status_code == 200
    with store.write() as session:
        assert session.remove_key(made["decide"].split("_")[1])
    time.sleep(0.01)
    reply = sqlite_client.post(D, json={"context": CONTEXT}, headers={"X-API-Key": made["decide"]})
    assert reply.status_code == 401, "revoked"
    store.close()


def test_the_comparison_of_keys_takes_constant_time(monkeypatch):
    compared = []
    monkeypatch.setattr(keys.hmac, "compare_digest", lambda a, b: compared.append((len(a), len(b))) or a == b)
    row = keys.KeyRow("1234", "n", "read", keys._digest("secret"), "")
    for given in ("cb_1234_secret", "cb_1234_wrong", "cb_9999_secret", "", "nonsense"):
        keys.find_key([row], given)
    assert compared == [(64, 64)] * 5


def test_it_does_not_listen_to_others_without_keys(tmp_path):
    with pytest.raises(Exception, match="without API keys"):
        serve(str(tmp_path / "log.db"), host="0.0.0.0", port=0)


def test_without_keys_pages_of_others_may_not_ask(sqlite_client, sqlite_address, monkeypatch):
    host = sqlite_client.base_url.netloc.decode()
    for headers, status in [
        ({"host": host}, 200),
        ({"host": "localhost:1"}, 200),
        ({"host": "[::1]"}, 200),
        ({"host": "evil.example"}, 403),
        ({"host": "127.0.0.1.evil.example"}, 403),
        ({"host": "["}, 403),
        ({"host": host, "origin": f"http://{host}"}, 200),
        ({"host": host, "origin": "http://evil.example"}, 403),
        ({"host": host, "origin": "null"}, 403),
    ]:
        assert sqlite_client.get("/experiments", headers=headers).status_code == status, headers
        assert sqlite_client.post(D, json={"context": CONTEXT}, headers=headers).status_code == status, headers
    monkeypatch.setattr(access, "MAX_KEY_AGE", 0.0)
    store = open_store(sqlite_address)
    with store.write() as session:
        key = keys.create_key(session, "k", ["admin"])
    store.close()
    headers = {"host": "conebandit.example", "x-api-key": key}
    assert sqlite_client.get("/experiments", headers=headers).status_code == 200, "a key is enough, behind any name"


def test_a_body_that_comes_in_pieces_is_limited_too(sqlite_client):
    def pieces(count):
        for _ in range(count):
            yield b" " * 65536

    headers = {"content-type": "application/json"}
    reply = sqlite_client.post(D, content=pieces(4 + limits.MAX_BYTES // 65536), headers=headers)
    assert reply.status_code == 413
    assert sqlite_client.post(D, json={"context": CONTEXT}).status_code == 200, "and it goes on"


def test_a_table_holds_no_formulas(sqlite_client, sqlite_address):
    level = {"name": "device", "levels": ["phone"], "unknown": "zeros"}
    declared = {"id": "open", "arms": ["a"], "metrics": METRIC, "context": [level], "policy": {"name": "ParetoUCB1"}}
    sqlite_client.post("/experiments", json=declared)
    empty = sqlite_client.get("/experiments/open/export?format=csv").text
    assert empty.startswith("id,at,mode,arm,propensity,active,choice,choice_propensity,policy_version,context.device")
    parquet = sqlite_client.get("/experiments/open/export?format=parquet").content
    assert polars.read_parquet(io.BytesIO(parquet)).is_empty()
    evil = ["=cmd()", "+1", "-1", "@x", "\tx", "\ud800", "plain"]
    for i, text in enumerate(evil):
        body = {"id": f"={i}", "context": {"device": text}}
        headers = {"content-type": "application/json"}
        reply = sqlite_client.post("/experiments/open/decisions", content=json.dumps(body), headers=headers)
        assert reply.status_code == 200
    rows = list(csv.DictReader(io.StringIO(sqlite_client.get("/experiments/open/export?format=csv").text)))
    assert [r["id"] for r in rows] == [f"'={i}" for i in range(7)]
    assert [r["context.device"] for r in rows] == ["'=cmd()", "'+1", "'-1", "'@x", "'\tx", "\\ud800", "plain"]
    table = polars.read_parquet(io.BytesIO(sqlite_client.get("/experiments/open/export?format=parquet").content))
    assert table["context.device"].to_list() == [*evil[:5], "\\ud800", "plain"]


def test_errors_show_nothing_of_the_inside(sqlite_client, monkeypatch, caplog):
    def broken(*_):
        raise RuntimeError("SELECT secret FROM inside")

    with caplog.at_level(logging.CRITICAL):
        monkeypatch.setattr(engine.Turn, "describe", broken)
        reply = sqlite_client.get("/experiments/checkout")
        assert reply.status_code == 500
        monkeypatch.setattr(backend, "_experiments", broken)
        other = sqlite_client.get("/experiments")
        assert other.status_code == 500
    for text in (reply.text, other.text):
        assert "SELECT" not in text
        assert "Traceback" not in text
    assert sqlite_client.post(D, json={"context": CONTEXT}).status_code == 200, "and it goes on"


def test_the_schema_has_examples(sqlite_client):
    schema = sqlite_client.get("/openapi.json").json()
    assert len(schema["paths"]) == 28
    declared = json.dumps(schema["paths"]["/experiments"]["post"])
    assert "tradeoffs" in declared
    assert "`explore`, from 0 (the default) to 1" in declared
    for what, one, many in [("decisions", "DecisionRequest", "DecisionRequests"), ("outcomes", "Outcome", "Outcomes")]:
        operation = schema["paths"][f"/experiments/{{experiment}}/{what}"]["post"]
        forms = operation["requestBody"]["content"]["application/json"]["schema"]["oneOf"]
        assert [form["$ref"].rpartition("/")[2] for form in forms] == [one, many]
    for form in ("DecisionRequest", "Assignment", "Outcome", "Receipt", "ModeChange"):
        assert "examples" in json.dumps(schema["components"]["schemas"][form]), form


def test_changed_events_are_not_shown(begun):
    with serving(begun) as url, httpx.Client(base_url=f"{url}/experiments/checkout", timeout=10) as client:

        def page(after, limit=5):
            return client.get("/events", params={"after": after, "limit": limit})

        for after in (0, 1, 16, 20):
            seqs = [event["seq"] for event in page(after).json()["events"]]
            assert seqs == list(range(after + 1, min(after + 5, 21) + 1))
        assert [page(after).json() for after in (21, 50)] == [{"events": [], "next": n} for n in (21, 50)]
        with contextlib.closing(open_store(begun)) as store, store.write() as session:
            session._run("UPDATE events SET body = replace(body, 'phone', 'desk') WHERE seq = 8")
            session._run("DELETE FROM events WHERE seq IN (15, 21)")
        statuses = {after: page(after).status_code for after in (0, 2, 3, 7, 8, 9, 10, 14, 15, 16, 20)}
        bad = {3, 7, 10, 14, 15, 20}  # the changed one is on the page, or one is missing from it or before it
        assert statuses == {after: 500 if after in bad else 200 for after in statuses}


def test_half_a_surrogate_pair_can_be_looked_at(sqlite_client):
    """JSON may hold one, so a context may; the log has it, and UTF-8 has no way to write it but as an escape."""
    strange = {"id": "s", "arms": ["a", "b"], "metrics": [{"name": "m"}]}
    strange["context"] = [{"name": "word", "levels": ["x", "y"], "unknown": "zeros"}]
    assert sqlite_client.post("/experiments", json=strange).status_code == 201
    body = '{"id": "d", "context": {"word": "\\ud800"}}'
    made = sqlite_client.post("/experiments/s/decisions", content=body, headers={"content-type": "application/json"})
    assert made.status_code == 200
    page = sqlite_client.get("/experiments/s/events")
    assert page.status_code == 200
    assert page.json()["events"][1]["body"]["context"] == {"word": "\ud800"}


def test_rules_and_stages(client, declaration):
    declaration["metrics"][1]["range"] = [0, 12]
    bound = {"name": "slow", "metric": "latency", "above": 4, "error": 0.05, "per": "experiment", "then": "stop"}
    declared = {**declaration, "id": "trial", "stage": "draft"}
    at = "/experiments/trial"
    assert client.post("/experiments", json=declared).json()["stage"] == "draft"
    refused = client.post(f"{at}/decisions", json={"context": DESK})
    assert (refused.status_code, "is a draft" in refused.json()["error"]) == (409, True)
    changed = client.post(f"{at}/change", json={"changes": {"rules": [bound]}, "reason": "the board asked for it"})
    assert changed.json()["declaration"]["rules"] == [bound]
    assert client.post(f"{at}/stage", json={"stage": "running", "reason": "go"}).json()["stage"] == "running"
    for i in range(30):
        if client.post(f"{at}/decisions", json={"id": f"d{i}", "context": DESK}).status_code == 409:
            break
        client.post(f"{at}/outcomes", json={"id": f"d{i}", "values": {"latency": 12}})
    assert client.get(at).json()["stopped"] == ["slow"]
    assert 'conebandit_stopped_rules{experiment="trial"} 1' in client.get("/metrics").text
    [told] = client.get(f"{at}/rules").json()["rules"]
    assert (told["status"], told["decisions"], told["mean"]) == ("stopped", i, 12)
    lift = {"rule": "slow", "reason": "a wrong sensor", "then": "restart"}
    assert client.post(f"{at}/lift", json=lift).json()["stopped"] == []
    assert client.post(f"{at}/lift", json={**lift, "rule": "none such"}).status_code == 404
    assert client.post(f"{at}/change", json={"changes": {"seed": 1}, "reason": "why not"}).status_code == 409
    assert client.post(f"{at}/change", json={"changes": {"policy": "None"}, "reason": "why not"}).status_code == 422
    assert (
        client.post("/experiments/other/change", json={"changes": {"policy": "None"}, "reason": "x"}).status_code == 404
    )
    assert client.post(f"{at}/stage", json={"stage": "ended", "reason": "done"}).json()["stage"] == "ended"
    assert client.post(f"{at}/decisions", json={"context": DESK}).status_code == 409
