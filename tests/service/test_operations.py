"""Upgrading, and several processes behind nginx, as docs/service.md says."""

import json
import re
import shutil
import subprocess
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

import conebandit as cb
from conebandit.service.client import ClientError
from conebandit.service.commands.verifying import PARTLY_VERIFIED
from conebandit.service.http import keys
from conebandit.service.stores.base import open_store
from tests.service.databases import free_port
from tests.service.load import Process, command, wait_for_revisions

DOCS = Path(__file__).parents[2] / "docs" / "service.md"
PHONE = {"age": 30, "device": "phone"}


def work(client, first, last):
    made = client.decide_many("checkout", [PHONE] * (last - first), ids=[f"d{i}" for i in range(first, last)])
    client.report_many("checkout", {m.id: {"revenue": float(len(m.arm)), "latency": 2.0} for m in made})
    return made


# ---- upgrade --------------------------------------------------------------------------------------------------------


@contextmanager
def served(address, version):
    process = Process(address, version)
    process.wait_until_ready()
    with cb.Client(process.url) as client:
        yield client
    process.stop()


def verified(address, version):
    """What ``conebandit verify`` says, and the versions of the snapshots that are there."""
    arguments = command("verify", "--store", address, version=version)
    finished = subprocess.run(arguments, capture_output=True, text=True, check=False)
    said, of_the_store = finished.stdout.splitlines()
    assert re.fullmatch(r"the log of the store: \d+ events, \d+ keys, agrees", of_the_store)
    recomputed, decisions, snapshots = map(int, re.findall(r"(\d+) of (\d+) decisions and (\d+) snapshots", said)[0])
    store = open_store(address)
    with store.read() as session:
        headers = [next(session.snapshot("checkout", seq)) for seq in session.snapshots("checkout")]
    store.close()
    partly = "nothing wrong in the part that was checked; decisions that were not: 200 by another release"
    assert said.endswith("agrees" if recomputed == decisions else partly)
    assert finished.returncode == (0 if recomputed == decisions else PARTLY_VERIFIED)
    return (recomputed, decisions, snapshots), {json.loads(header)["library"] for header in headers}


def test_upgrade(tmp_path, declaration):
    address = str(tmp_path / "log.db")
    with served(address, "1.0") as client:
        client.create(declaration)
        before = work(client, 0, 200)
        state = client.state("checkout")["state"]
    assert verified(address, "2.0") == ((0, 200, 0), {"1.0"}), "what another version has made is not compared"
    with served(address, "2.0") as client:
        assert client.state("checkout")["state"] == state, "folded anew, without the snapshot"
        assert client.decide("checkout", PHONE, id="d7") == before[7]
    assert verified(address, "2.0") == ((0, 200, 1), {"2.0"}), "its own took the place of the other, at the same event"
    with served(address, "2.0") as client:
        assert {m.policy_version.split("-")[1] for m in work(client, 200, 250)} == {"2.0"}
        client.report("checkout", "d0", {"revenue": 50.0})
        wait_for_revisions(client)
        client.decide("checkout", PHONE)
    (recomputed, decisions, snapshots), versions = verified(address, "2.0")
    assert (recomputed, decisions, snapshots > 0, versions) == (51, 251, True, {"2.0"})


# ---- nginx ----------------------------------------------------------------------------------------------------------


def documented(folder, ports, listen):
    """The configuration in the docs, with our ports and a certificate of our own."""
    [server] = re.findall(r"```nginx\n(.*?)```", DOCS.read_text(), re.S)
    for documented_port, port in zip(("8001", "8002"), ports, strict=True):
        assert documented_port in server
        server = server.replace(documented_port, str(port))
    for old, new in {
        "listen 443": f"listen 127.0.0.1:{listen}",
        "/etc/nginx/experiments": f"{folder}/experiments",
    }.items():
        assert old in server
        server = server.replace(old, new)
    subject = ("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1")
    files = ("-keyout", f"{folder}/experiments.key", "-out", f"{folder}/experiments.crt")
    new_certificate = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2")
    subprocess.run([*new_certificate, *subject, *files], check=True, capture_output=True)
    temporary = "".join(
        f"{what}_temp_path {folder}/{what};" for what in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    return f"pid {folder}/pid; events {{}} http {{ access_log off; {temporary} {server} }}"


@pytest.fixture
def nginx(tmp_path):
    """Starts nginx, not as a daemon, in a folder of its own; the address."""
    program = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/bin")
    if program is None or shutil.which("openssl") is None:
        pytest.skip("nginx is not installed (apt-get install nginx-light)")
    started = []

    def start(ports):
        listen = free_port()
        (tmp_path / "nginx.conf").write_text(documented(tmp_path, ports, listen))
        options = ("-p", tmp_path, "-e", tmp_path / "errors", "-c", tmp_path / "nginx.conf", "-g", "daemon off;")
        started.append(subprocess.Popen([program, *map(str, options)]))
        return f"https://127.0.0.1:{listen}"

    yield start
    for process in started:
        process.terminate()
        process.wait(timeout=10)


@pytest.mark.system_package
def test_two_processes_behind_nginx(postgres, declaration, nginx, tmp_path, monkeypatch):
    address = postgres.fresh_database("nginx")
    store = open_store(address)
    with store.write() as session:
        key = keys.create_key(session, "all", ["admin"])
    store.close()
    servers = [Process(address), Process(address)]
    for server in servers:
        server.wait_until_ready()
    url = nginx([server.port for server in servers])
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "experiments.crt"))
    with cb.Client(url, key=key, retries=20) as client, cb.Client(url, retries=0) as stranger:
        client.create(declaration)
        made = work(client, 0, 50)
        singles = [client.decide("checkout", PHONE, id=f"s{i}") for i in range(40)]
        with pytest.raises(ClientError, match="valid API key"):
            stranger.show("checkout")
        with pytest.raises(ClientError) as refused:
            client.report_many("checkout", {f"d{i}": {"revenue": 1.0} for i in range(30_000)})
        assert refused.value.status == 413
        answered = [requests(server, key) for server in servers]
        assert min(answered) >= 10, "both have a share"
        servers[0].kill()
        assert [client.decide("checkout", PHONE, id=f"s{i}") for i in range(40)] == singles
        assert [client.decide("checkout", PHONE, id=m.id) for m in made[:5]] == made[:5]
        servers[0].start()
        servers[0].wait_until_ready()
        direct = [cb.Client(server.url, key=key) for server in servers]
        states = [one.state("checkout") for one in direct]
        for one in direct:
            one.close()
    assert states[0] == states[1]
    for server in servers:
        server.stop()
    verified(address, cb.__version__)


def requests(server, key):
    """How many decisions a process has answered."""
    asked = urllib.request.Request(f"{server.url}/metrics", headers={"x-api-key": key})
    with urllib.request.urlopen(asked, timeout=10) as answer:
        text = answer.read().decode()
    return int(re.findall(r'decision_seconds_count{experiment="checkout"} (\d+)', text)[0])
