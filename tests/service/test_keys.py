"""API keys where others can reach the service."""

import contextlib
import threading
import time

import httpx
import pytest

from conebandit.service.http import access, keys
from conebandit.service.http.server import serving
from conebandit.service.stores.base import open_store


@pytest.mark.parametrize(("host", "status"), [("0.0.0.0", 401), ("127.0.0.1", 200)])
def test_whoever_revokes_the_last_key_opens_nothing_to_the_network(tmp_path, monkeypatch, host, status):
    monkeypatch.setattr(access, "MAX_KEY_AGE", -1.0)  # read them for every request
    address = str(tmp_path / "log.db")
    store = open_store(address)
    with store.write() as session:
        key = keys.create_key(session, "only", ["admin"])
    with serving(address, host=host) as url, httpx.Client(base_url=url.replace(host, "localhost")) as client:
        assert client.get("/experiments").status_code == 401
        assert client.get("/experiments", headers={"x-api-key": key}).status_code == 200
        with store.write() as session:
            session.remove_key(key.split("_")[1])
        for headers in ({}, {"x-api-key": key}, {"host": "127.0.0.1"}):
            assert client.get("/experiments", headers=headers).status_code == status
        with store.write() as session:
            key = keys.create_key(session, "another", ["admin"])
        assert client.get("/experiments").status_code == 401
        assert client.get("/experiments", headers={"x-api-key": key}).status_code == 200, "it need not be started again"
    store.close()


def test_a_stranger_learns_nothing_about_the_form_of_requests(tmp_path):
    """The key is checked before the body is read."""
    address = str(tmp_path / "log.db")
    store = open_store(address)
    with store.write() as session:
        key = keys.create_key(session, "one", ["decide"])
    store.close()
    with serving(address) as url, httpx.Client(base_url=url) as client:
        for path in ("/experiments", "/experiments/e/decisions", "/experiments/e/outcomes", "/experiments/e/arms"):
            assert client.post(path, content=b"{").status_code == 401
        headers = {"x-api-key": key, "content-type": "application/json"}
        assert client.post("/experiments/e/outcomes", content=b"{", headers=headers).status_code == 403
        assert client.post("/experiments/e/decisions", content=b"{", headers=headers).status_code == 422


def test_keys_are_read_by_one_and_the_others_go_on(begun, monkeypatch):
    with serving(begun) as url, httpx.Client(base_url=url, timeout=10) as client:
        assert client.get("/experiments").status_code == 200
        opened, reading, reads = threading.Event(), threading.Event(), []
        read = access.RememberedKeys._read

        def slowly(self):
            reads.append(time.monotonic())
            reading.set()
            assert opened.wait(30)
            return read(self)

        monkeypatch.setattr(access.RememberedKeys, "_read", slowly)
        monkeypatch.setattr(access, "MAX_KEY_AGE", 0.0)
        first = threading.Thread(target=lambda: httpx.get(f"{url}/experiments", timeout=30))
        first.start()
        assert reading.wait(10)
        assert [client.get("/experiments").status_code for _ in range(3)] == [200] * 3
        assert len(reads) == 1
        opened.set()
        first.join()


def test_the_scheme_of_a_key_may_be_in_any_case(begun):
    with contextlib.closing(open_store(begun)) as store, store.write() as session:
        key = keys.create_key(session, "reader", ["read"])
    with serving(begun) as url:
        given = {f"{scheme} {key}": 200 for scheme in ("Bearer", "bearer", "BEARER")} | {f"Basic {key}": 401}
        found = {v: httpx.get(f"{url}/experiments", headers={"authorization": v}).status_code for v in given}
        assert found == given
