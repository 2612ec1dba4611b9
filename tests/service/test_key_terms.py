"""What a key may be limited to: experiments, a time, a rate; when it was used; stores of earlier releases."""

import gzip
import json
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from conebandit.cli import app
from conebandit.experiment.errors import InvalidError
from conebandit.service.errors import ConflictError, CorruptionError, SealKeyError, UnavailableError
from conebandit.service.http import access, key_uses, keys
from conebandit.service.http.rates import Bucket, Rate
from conebandit.service.http.server import serving
from conebandit.service.log.entries import By
from conebandit.service.log.verify import verify
from conebandit.service.stores.base import SCHEMA, open_store
from conebandit.service.stores.seals import UNKEYED, Seals
from conebandit.service.stores.session import Session
from tests.service.driver import PHONE, Driver

BEFORE = Path(__file__).parents[1] / "data" / "before"
OLD_KEYS = json.loads((BEFORE / "store_keys.json").read_text())
NEW_TABLES = ("key_terms", "key_uses", "store_log")
DECIDE, REPORT = "/experiments/checkout/decisions", "/experiments/checkout/outcomes"


@pytest.fixture
def begun_store(store, declaration):
    for id_ in ("checkout", "other"):
        Driver(store, id_).create(declaration | {"id": id_})
    return store


def make(store, name, scope="admin", **terms):
    with store.write() as session:
        return {"x-api-key": keys.create_key(session, name, [scope], **terms)}


# ---- experiments ----------------------------------------------------------------------------------------------------


def test_a_key_for_some_experiments_opens_no_others(begun_store, address, declaration):
    some = make(begun_store, "some", experiments=["checkout", "third", "checkout"])
    with serving(address) as url, httpx.Client(base_url=url, timeout=60) as client:
        paths = client.get("/openapi.json").json()["paths"]
        tried = 0
        for path, methods in paths.items():
            for method in methods:
                if "{experiment}" in path:
                    reply = client.request(method, path.format(experiment="other"), headers=some)
                    assert (reply.status_code, reply.json()) == (
                        403, {"error": "this API key is not for experiment 'other'."}
                    ), path  # fmt: skip
                    tried += 1
        assert tried >= 11
        assert client.get("/experiments/nowhere", headers=some).status_code == 403, "nothing is said of what is there"
        assert client.get("/experiments", headers=some).json() == ["checkout"]
        assert client.get("/metrics", headers=some).status_code == 403
        assert client.post("/experiments", json=declaration | {"id": "fourth"}, headers=some).status_code == 403
        assert client.post("/experiments", json=declaration | {"id": "third"}, headers=some).status_code == 201
        for new, status in (("fifth", 403), ("third", 201)):
            copied = client.post("/experiments/checkout/copy", json={"id": new}, headers=some)
            assert copied.status_code == status, copied.text
        assert client.post(DECIDE, json={"context": PHONE}, headers=some).status_code == 200
        assert client.get("/experiments", headers=some).json() == ["checkout", "third"]
        every = make(begun_store, "every")
        time.sleep(access.MAX_KEY_AGE + 0.1)
        assert client.get("/experiments", headers=every).json() == ["checkout", "other", "third"]
        refused = client.get("/metrics", headers=every).text
        assert f'conebandit_refused_requests_total{{reason="experiment",key="some"}} {tried + 4}' in refused


# ---- time -----------------------------------------------------------------------------------------------------------


def test_a_key_that_has_expired_opens_nothing(begun_store, address, monkeypatch):
    soon, later = make(begun_store, "soon", expires="2s"), make(begun_store, "later", expires="90d")
    with serving(address) as url, httpx.Client(base_url=url, timeout=60) as client:
        with begun_store.read() as session:
            expires = datetime.fromisoformat(next(k.expires for k in session.api_keys() if k.name == "soon"))
        while datetime.now(UTC) < expires:
            time.sleep(0.05)
        reply = client.get("/experiments", headers=soon)
        assert reply.status_code == 401
        assert f"has expired on {expires.isoformat()}" in reply.json()["error"]
        assert client.get("/experiments", headers=later).status_code == 200
        assert client.get("/experiments").status_code == 401, "keys that have expired are keys: nothing is opened"


def test_times_at_which_a_key_expires(begun_store):
    def expiry(given):
        make(begun_store, given, expires=given)
        with begun_store.read() as session:
            return datetime.fromisoformat(next(k.expires for k in session.api_keys() if k.name == given))

    now = datetime.now(UTC)
    assert timedelta(days=90) <= expiry("90d") - now + timedelta(seconds=1) < timedelta(days=90, minutes=1)
    assert expiry("2999-01-31") == datetime(2999, 1, 31, tzinfo=UTC)
    assert expiry("2999-01-31T12:00+02:00") == datetime(2999, 1, 31, 10, tzinfo=UTC)
    for wrong in ("soon", "-1d", "0d", "2020-01-01", "90", "9999-12-31T23:59:59-23:59"):
        with pytest.raises(InvalidError, match="expires must be"):
            make(begun_store, "wrong", expires=wrong)
    for terms in ({"rate": "fast"}, {"rate": "0/s"}, {"experiments": ["a,b"]}, {"experiments": ["x"] * 101}):
        with pytest.raises(InvalidError):
            make(begun_store, "wrong", **terms)
    with pytest.raises(ConflictError, match="there is a key '90d' already"):
        make(begun_store, "90d")
    with begun_store.read() as session:
        assert len(session.api_keys()) == 3


# ---- rates ----------------------------------------------------------------------------------------------------------


def test_a_rate_counts_decisions_and_outcomes(begun_store, address):
    limited = make(begun_store, 'the "page"', "admin", rate="5/d")
    free = make(begun_store, "free", "admin")
    batch = {"decisions": [{"id": f"d{i}", "context": PHONE} for i in range(4)]}
    with serving(address) as url, httpx.Client(base_url=url, timeout=60) as client:
        assert client.post(DECIDE, json=batch, headers=limited).status_code == 200
        assert client.post(REPORT, json={"id": "d0", "values": {"revenue": 1}}, headers=limited).status_code == 200
        for path, body in ((DECIDE, batch), (REPORT, {"id": "d1", "values": {"revenue": 1}})):
            refused = client.post(path, json=body, headers=limited)
            assert refused.status_code == 429
            assert 0 < int(refused.headers["retry-after"]) <= 86400 / 5
            assert "5 in 86400 s are allowed" in refused.json()["error"]
            assert client.post(path, content=b"{", headers=limited).status_code == 429, "before the body is read"
        assert client.get("/experiments/checkout", headers=limited).json()["events"] == 6, "looking is free"
        for _ in range(3):
            assert client.post(DECIDE, json=batch, headers=free).status_code == 200
        text = client.get("/metrics", headers=free).text
        assert 'conebandit_refused_requests_total{reason="rate",key="the \\"page\\""} 4' in text


def test_the_schema_knows_actors_and_refusals(begun):
    with serving(begun) as url:
        paths = httpx.get(f"{url}/openapi.json").json()["paths"]
    for path, methods in paths.items():
        for operation in methods.values():
            if path not in ("/healthz", "/readyz"):
                assert "X-Actor" in [parameter["name"] for parameter in operation["parameters"]], path
                assert "429" in operation["responses"], path


def test_a_rate_for_all_is_one_for_each(begun_store, address):
    several = [make(begun_store, name, "decide") for name in "ab"]
    with serving(address, rate=Rate(2, 86400)) as url, httpx.Client(base_url=url, timeout=60) as client:
        for headers in several:
            statuses = [client.post(DECIDE, json={"context": PHONE}, headers=headers).status_code for _ in range(4)]
            assert statuses == [200, 200, 429, 429]


def test_a_rate_without_keys_is_one_for_all(begun, monkeypatch):
    with serving(begun, rate=Rate(2, 86400)) as url, httpx.Client(base_url=url, timeout=60) as client:
        assert [client.post(DECIDE, json={"context": PHONE}).status_code for _ in range(3)] == [200, 200, 429]


def test_a_bucket_never_lets_more_pass_than_the_rate_and_one_batch():
    """Against the sum of all that has passed: in any time t, at most count + t * rate, and one batch more."""
    now = 0.0
    bucket, passed = Bucket(Rate(10, 2), clock=lambda: now), 0
    for step in range(1, 2000):
        now += 0.01 * (step % 13)
        batch = 1 + step % 7
        wait = bucket.wait()
        if wait == 0.0:
            bucket.take(batch)
            passed += batch
        assert passed <= 10 + 5 * now + 7
    assert passed >= 5 * now - 7, "and what may pass does"


# ---- last use -------------------------------------------------------------------------------------------------------


def uses(store):
    with store.read() as session:
        return {row.name: row.used for row in session.api_keys()}


def test_the_last_use_is_kept_without_a_write_for_each_request(begun_store, address, monkeypatch):
    made = {name: make(begun_store, name) for name in ("one", "two", "three")}
    writes = []
    write = key_uses.KeyUses._write
    monkeypatch.setattr(key_uses.KeyUses, "_write", lambda self: (writes.append(time.monotonic()), write(self)))
    begun_at = datetime.now(UTC).replace(microsecond=0)
    with serving(address) as url, httpx.Client(base_url=url, timeout=60) as client:
        for _ in range(20):
            assert client.get("/experiments", headers=made["one"]).status_code == 200
        for _ in range(500):
            if uses(begun_store)["one"]:
                break
            time.sleep(0.01)
        assert datetime.fromisoformat(uses(begun_store)["one"]) >= begun_at
        client.get("/experiments", headers=made["two"])
        assert len(writes) == 1, "once a minute"
        assert uses(begun_store)["two"] == ""
    assert len(writes) == 2, "and at the end"
    assert uses(begun_store)["two"] >= begun_at.isoformat()
    assert uses(begun_store)["three"] == ""


def test_no_request_waits_for_the_last_use(begun_store, address, monkeypatch):
    made, stuck, tried = make(begun_store, "one"), threading.Event(), threading.Event()
    write = key_uses.KeyUses._write

    def slowly(self):
        tried.set()
        assert stuck.wait(30)
        write(self)

    monkeypatch.setattr(key_uses.KeyUses, "_write", slowly)
    with serving(address) as url, httpx.Client(base_url=url, timeout=10) as client:
        for _ in range(5):
            assert client.post(DECIDE, json={"context": PHONE}, headers=made).status_code == 200
        assert tried.wait(10)
        assert uses(begun_store)["one"] == ""
        stuck.set()
    assert uses(begun_store)["one"]


def test_a_use_that_cannot_be_written_is_written_later(begun_store, address, monkeypatch, caplog):
    made = make(begun_store, "one")
    monkeypatch.setattr(key_uses, "PERIOD", 0.0)
    failures = iter([True])
    noted = Session.note_uses

    def failing(self, used):
        if next(failures, False):
            raise UnavailableError("the disk is full.")
        noted(self, used)

    monkeypatch.setattr(Session, "note_uses", failing)
    with serving(address) as url, httpx.Client(base_url=url, timeout=60) as client:
        for _ in range(500):
            assert client.get("/experiments", headers=made).status_code == 200
            if uses(begun_store)["one"]:
                break
            time.sleep(0.01)
    assert uses(begun_store)["one"]
    assert "the disk is full" in caplog.text


def test_an_earlier_use_never_replaces_a_later_one(begun_store):
    make(begun_store, "one")
    with begun_store.write() as session:
        [row] = session.api_keys()
        session.note_uses({row.id: "2026-01-02T00:00:00+00:00", "gone": "2026-01-02T00:00:00+00:00"})
        session.note_uses({row.id: "2026-01-01T00:00:00+00:00"})
        assert session.api_keys() == [row._replace(used="2026-01-02T00:00:00+00:00")]
        assert session.remove_key(row.id)
        assert list(session._run("SELECT id FROM key_uses")) == []


# ---- stores of earlier releases -------------------------------------------------------------------------------------


@pytest.fixture
def old_address(address, tmp_path):
    """A store as 0.4.0 has written it, with three keys."""
    file = tmp_path / "old.db"
    file.write_bytes(gzip.decompress((BEFORE / "store.db.gz").read_bytes()))
    if "://" not in address:
        return str(file)
    with closing(open_store(address)) as store, closing(sqlite3.connect(file)) as old, store.write() as session:
        for table in NEW_TABLES:
            session._run(f"DROP TABLE {table}")
        for table in ("experiments", "events", "api_keys"):
            for row in old.execute(f"SELECT * FROM {table}"):
                session._run(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
    return address


def test_a_store_of_an_earlier_release_opens_with_its_keys(old_address):
    opened, failed = [], []

    def open_it():
        try:
            opened.append(open_store(old_address))
        except Exception as error:
            failed.append(error)

    together = [threading.Thread(target=open_it) for _ in range(6)]
    for thread in together:
        thread.start()
    for thread in together:
        thread.join()
    assert not failed
    store, *others = opened
    for other in others:
        other.close()
    with serving(old_address) as url, httpx.Client(base_url=url, timeout=60) as client:
        for name, scope in {"checkout page": "decide", "board": "read", "office": "admin"}.items():
            headers = {"x-api-key": OLD_KEYS[name]}
            asked = client.post("/experiments/before/decisions", json={"id": name.split()[0]}, headers=headers)
            assert asked.status_code == (403 if scope == "read" else 200)
            looked = client.get("/experiments/before/audit", headers=headers)
            assert looked.status_code == (403 if scope == "decide" else 200)
        events = client.get("/experiments/before/audit", headers={"x-api-key": OLD_KEYS["board"]}).json()["events"]
    assert [e["key"] for e in events] == [None] * 5 + ["checkout page", "office"]
    with store.read() as session:
        assert verify(session, "before").agrees
        assert {row.name: row.limited for row in session.api_keys()} == dict.fromkeys(OLD_KEYS, False)
    store.close()


def test_an_earlier_release_lets_nobody_pass_with_a_limited_key(store):
    """It reads these columns, and takes what has no comma for one scope."""
    make(store, "plain", "decide")
    make(store, "limited", "decide", expires="1d")
    make(store, "restricted", "admin", experiments=["checkout"])
    with store.read() as session:
        rows = list(session._run("SELECT name, scopes FROM api_keys"))
    assert dict(rows) == {"plain": "decide", "limited": "limited", "restricted": "limited"}
    assert not set(keys.SCOPES) & {"limited"}


def test_the_schema_of_an_earlier_release_is_all_there():
    with closing(sqlite3.connect(":memory:")) as old:
        old.deserialize(gzip.decompress((BEFORE / "store.db.gz").read_bytes()))
        names = {name for (name,) in old.execute("SELECT name FROM sqlite_master") if not name.startswith("sqlite_")}
    assert names <= SCHEMA.keys() - set(NEW_TABLES)


# ---- what was done to the store -------------------------------------------------------------------------------------


def test_making_and_revoking_keys_is_logged_and_sealed(store):
    make(store, "one", experiments=["e"], by=By(None, "eve"))
    with store.write() as session:
        [row] = session.api_keys()
        assert not keys.revoke_key(session, "nobody", By(None, "eve"))
        assert keys.revoke_key(session, row.id, By(None, "bob"))
    with store.read() as session:
        made, revoked = session.operations()
    assert (made.kind, made.body["id"], made.body["experiments"], made.body["by"]) == (
        "key_created", row.id, "e", {"actor": "eve"}
    )  # fmt: skip
    assert (revoked.kind, revoked.body["name"], revoked.body["by"]) == ("key_revoked", "one", {"actor": "bob"})
    for change in ("UPDATE store_log SET body = '{}' WHERE seq = 1", "DELETE FROM store_log WHERE seq = 1"):
        with pytest.raises(CorruptionError), store.write() as session:  # and nothing is changed
            _operations_after(session, change)


def test_the_name_of_a_revoked_key_is_not_given_again(store):
    make(store, "one")
    with store.write() as session:
        [row] = session.api_keys()
        keys.revoke_key(session, row.id)
    with pytest.raises(ConflictError, match="there was a key 'one', which is revoked"):
        make(store, "one")
    make(store, "one 2")
    with store.read() as session:
        assert [row.name for row in session.api_keys()] == ["one 2"]
        assert [record.kind for record in session.operations()] == ["key_created", "key_revoked", "key_created"]


def test_the_log_of_the_store_is_sealed_with_its_key(address):
    seals = Seals({"k1": "s" * 32})
    with closing(open_store(address)) as store:
        make(store, "before there was a key")
    with closing(open_store(address, seals=seals)) as store:
        make(store, "with a key")
        with store.read() as session:
            assert [record.check[:3] == "k1." for record in session.operations()] == [False, True]
    with closing(open_store(address, seals=UNKEYED)) as store:
        with pytest.raises(SealKeyError, match="'k1'"):
            make(store, "without it")
        with store.read() as session, pytest.raises(SealKeyError):
            session.operations()


def _operations_after(session, change):
    session._run(change)
    return session.operations()


def test_operations_at_once_are_in_one_order_and_no_name_is_given_twice(address):
    with closing(open_store(address)) as store:
        make(store, "first")
    refused = []

    def work(number):
        with closing(open_store(address)) as store:
            for i in range(5):
                make(store, f"{number}-{i}")
                try:
                    make(store, f"same {i}")
                except ConflictError as error:
                    refused.append(error)

    with ThreadPoolExecutor(4) as together:
        list(together.map(work, range(4)))
    assert len(refused) == 5 * 3
    with closing(open_store(address)) as store, store.read() as session:
        assert [record.seq for record in session.operations()] == list(range(1, 27))
        assert len({row.name for row in session.api_keys()}) == len(session.api_keys()) == 26


def test_the_commands(tmp_path, monkeypatch, begun):
    monkeypatch.setenv("CONEBANDIT_STORE", begun)

    def run(*args):
        return CliRunner().invoke(app, [str(a) for a in args])

    made = run(
        "key", "create", "page", "--scope", "decide", "--experiment", "checkout", "--experiment", "second",
        "--expires", "2999-01-01", "--rate", "100/s", "--actor", "eve",
    ).output.strip()  # fmt: skip
    listed = run("key", "list").output
    for part in (
        "experiments checkout,second",
        "rate 100/s",
        "expires 2999-01-01T00:00:00+00:00",
        "never used",
        "decide",
    ):
        assert part in listed
    file = tmp_path / "log.jsonl"
    run("experiment", "export", "checkout", "--to", file)
    assert run("experiment", "import", file, "--store", tmp_path / "copy.db", "--actor", "bob").exit_code == 0
    assert run("key", "revoke", made.split("_")[1]).exit_code == 0

    def audit(*args):
        found = run("experiment", "audit", *args)
        assert found.exit_code == 0, found.output
        return [json.loads(line) for line in found.output.splitlines()]

    assert [(e["kind"], e["actor"]) for e in audit()] == [
        ("created", None), ("key_created", "eve"), ("key_revoked", "command line")
    ]  # fmt: skip
    assert [e["kind"] for e in audit("--actor", "eve")] == ["key_created"]
    assert audit("--to", "2000-01-01") == []
    [imported] = audit("--store", tmp_path / "copy.db")
    assert (imported["actor"], imported["body"]["experiment"], imported["body"]["events"]) == ("bob", "checkout", 21)
    assert len(audit("checkout")) == 21
    assert [e["kind"] for e in audit("checkout", "--kind", "created")] == ["created"]
    (tmp_path / "e.json").write_text(json.dumps({"id": "e", "arms": ["a"], "metrics": [{"name": "m"}]}))
    assert run("experiment", "create", tmp_path / "e.json", "--actor", "eve").exit_code == 0
    assert [(e["key"], e["actor"]) for e in audit("e")] == [(None, "eve")]
    for wrong in (
        ["experiment", "audit", "checkout", "--from", "yesterday"],
        ["experiment", "audit", "checkout", "--kind", "nothing"],
        ["experiment", "audit", "nowhere"],
        ["experiment", "create", tmp_path / "e.json", "--actor", "x" * 200],
        ["key", "create", "k", "--scope", "read", "--rate", "fast"],
        ["serve", "--rate-limit", "fast"],
    ):
        found = run(*wrong)
        assert found.exit_code == 1, wrong
        assert "Traceback" not in found.output
