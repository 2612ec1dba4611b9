"""API keys where others can reach the service."""

import httpx
import pytest

from conebandit.service import keys, shared
from conebandit.service.server import serving
from conebandit.service.store import open_store


@pytest.mark.parametrize(("host", "status"), [("0.0.0.0", 401), ("127.0.0.1", 200)])
def test_whoever_revokes_the_last_key_opens_nothing_to_the_network(tmp_path, monkeypatch, host, status):
    monkeypatch.setattr(shared, "KEYS_FOR", -1.0)  # read them for every request
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
        headers = {"x-api-key": key}
        assert client.post("/experiments/e/outcomes", content=b"{", headers=headers).status_code == 403
        assert client.post("/experiments/e/decisions", content=b"{", headers=headers).status_code == 422
