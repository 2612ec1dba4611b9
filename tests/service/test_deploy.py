"""What is in deploy/ fits the service: options, metrics, times and addresses; and nginx takes its configuration."""

import os
import re
import shlex
import shutil
import ssl
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
import typer.main
import yaml  # type: ignore[import-untyped]

from conebandit.cli import app
from conebandit.service.dashboard import sessions
from conebandit.service.http import app as service_app
from conebandit.service.http import connections
from conebandit.service.http.keys import create_key
from conebandit.service.http.limits import MAX_BYTES
from conebandit.service.http.metrics import METRICS
from conebandit.service.http.server import GRACE, serving
from conebandit.service.stores.base import open_store
from tests.service.databases import free_port

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
OPERATORS = (ROOT / "docs" / "operators.md").read_text()


def options_of(*words):
    """The options of a command of ours, and of the words after it those that look like options."""
    command = typer.main.get_command(app)
    for word in words:
        command = getattr(command, "commands", {}).get(word, command)
    known = {option for parameter in command.params for option in parameter.opts}
    return known, {word.partition("=")[0] for word in words if word.startswith("--")}


def compose():
    return yaml.safe_load((DEPLOY / "compose.yml").read_text())


def alerts():
    [group] = yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def unit():
    lines = (DEPLOY / "conebandit.service").read_text().splitlines()
    return [tuple(line.split("=", 1)) for line in lines if re.match(r"\w+=", line)]


# ---- the image and compose ------------------------------------------------------------------------------------------


def test_the_image():
    stages = (DEPLOY / "Dockerfile").read_text().split("\nFROM ")[1:]
    assert len(stages) == 2
    build, last = stages
    assert "RUN conebandit warm" in build
    assert re.search(r"^USER 10001", last, re.M)
    assert "HEALTHCHECK" in last
    [command] = re.findall(r"^CMD \[(.*)\]$", last, re.M)
    known, used = options_of(*shlex.split(command.replace(",", " ")))
    assert used <= known
    assert "--log-format" in used
    for name in re.findall(r"(?m)^COPY (?!--from)(?:--chmod=\d+ )?(.*) \S+$", "\n".join(stages)):
        assert all((ROOT / path).exists() for path in name.split()), name
    processor = r"NUMBA_CPU_NAME=generic NUMBA_CPU_FEATURES=\"\""
    assert all(re.search(processor, stage) for stage in stages), "compiled for what it runs on"


def test_the_start_copies_machine_code_and_runs_the_command(tmp_path):
    (tmp_path / "image" / "kernels_1").mkdir(parents=True)
    (tmp_path / "image" / "kernels_1" / "a.nbi").write_text("code")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "conebandit").write_text(f'#!/bin/sh\nexec {sys.executable} -m conebandit "$@"\n')
    (tmp_path / "bin" / "conebandit").chmod(0o755)
    script = (DEPLOY / "start.sh").read_text().replace("/opt/kernels", str(tmp_path / "image"))
    environment = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        ["sh", "-c", script, "start", "--version"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("conebandit ")
    assert (tmp_path / "cache" / "kernels_1" / "a.nbi").read_text() == "code"
    assert os.access(DEPLOY / "start.sh", os.X_OK)


def test_compose():
    services = compose()["services"]
    for name in ("api-1", "api-2"):
        api = services[name]
        assert api["read_only"]
        assert api["cap_drop"] == ["ALL"]
        assert "ports" not in api, "only nginx may reach it: it believes what X-Forwarded-For says"
        assert (DEPLOY / api["build"]["context"] / api["build"]["dockerfile"]).exists()
        assert int(api["stop_grace_period"].removesuffix("s")) > GRACE
        assert api["ulimits"]["nofile"] >= 2 * connections.MAX_CONNECTIONS
        assert set(api["networks"]) == {"inside"}
        assert sessions.VARIABLE in api["environment"], "who is sent from one process to the other stays signed in"
    assert compose()["networks"]["inside"]["internal"]
    known, used = options_of("key", "create", "first admin", "--scope", "admin")
    assert used <= known
    assert 'key create "first admin" --scope admin' in (DEPLOY / "compose.yml").read_text()


# ---- systemd --------------------------------------------------------------------------------------------------------


def test_the_unit():
    settings = dict(unit())
    program, *words = shlex.split(settings["ExecStart"])
    known, used = options_of(*words)
    assert used <= known
    assert int(settings["TimeoutStopSec"]) > GRACE
    assert int(settings["LimitNOFILE"]) >= 2 * connections.MAX_CONNECTIONS
    assert settings["ProtectSystem"] == "strict"
    assert settings["NoNewPrivileges"] == settings["DynamicUser"] == "yes"
    assert settings["MemoryDenyWriteExecute"] == "no", "kernels are compiled"
    assert "time-sync.target" in settings["After"]
    assert program.endswith("/conebandit")


@pytest.mark.system_package
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_takes_the_unit(tmp_path):
    text = (DEPLOY / "conebandit.service").read_text().replace("/opt/conebandit/bin/conebandit", sys.executable)
    (tmp_path / "conebandit.service").write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", tmp_path / "conebandit.service"], capture_output=True, text=True, check=False
    )
    assert "conebandit.service" not in done.stderr, done.stderr


# ---- alerts ---------------------------------------------------------------------------------------------------------


def test_alerts_are_about_metrics_that_there_are():
    kinds = {metric.name: metric.kind for metric in METRICS}
    for name, rule in alerts().items():
        for found in re.findall(r"conebandit_\w+", rule["expr"]):
            base = re.sub("_(bucket|count|sum)$", "", found)
            assert found in kinds or kinds.get(base) == "histogram", f"{name}: {found}"
            is_counter = kinds.get(found) == "counter" or kinds.get(base) == "histogram"
            after = rule["expr"][rule["expr"].index(found) :]
            assert not is_counter or re.match(r"\w+(\{[^}]*\})?\[", after), f"{name}: the rate of {found}"
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["summary"]


def test_what_each_alert_means_is_said():
    said = set(re.findall(r"(?m)^\| `(Conebandit\w+)`", OPERATORS))
    assert said == set(alerts())


def test_commands_for_operators_exist():
    blocks = "\n".join(re.findall(r"```bash\n(.*?)```", OPERATORS, re.S))
    commands = re.findall(r"(?m)(?:^| )conebandit ((?:key|verify|experiment|warm|serve)\b[^\n#&|>]*)", blocks)
    assert len(commands) >= 2
    for command in commands:
        known, used = options_of(*shlex.split(command))
        assert used <= known, command


# ---- nginx ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def nginx(tmp_path):
    """Starts nginx with our configuration, but other addresses, in front of a service; the address."""
    program = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/bin")
    if program is None or shutil.which("openssl") is None:
        pytest.skip("nginx is not installed (apt-get install nginx-light)")
    subject = ("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1")
    files = ("-keyout", f"{tmp_path}/experiments.key", "-out", f"{tmp_path}/experiments.crt")
    new_certificate = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2")
    subprocess.run([*new_certificate, *subject, *files], check=True, capture_output=True)
    started = []

    def start(upstream):
        plain, secure = free_port(), free_port()
        text = (DEPLOY / "nginx.conf").read_text()
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        temporary = "".join(f"{kind}_temp_path {tmp_path}/{kind};" for kind in kinds)
        for old, new in {
            "api-1:8000": upstream,
            "api-2:8000": f"127.0.0.1:{free_port()}",  # nobody is there
            "listen 80;": f"listen 127.0.0.1:{plain};",
            "listen 443": f"listen 127.0.0.1:{secure}",
            "/etc/nginx/tls": str(tmp_path),
            "/run/nginx.pid": f"{tmp_path}/pid",
            "access_log /dev/stdout": f"{temporary} access_log {tmp_path}/access",
        }.items():
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "nginx.conf").write_text(text)
        options = ["-p", str(tmp_path), "-e", str(tmp_path / "errors"), "-c", str(tmp_path / "nginx.conf")]
        subprocess.run([program, "-t", *options], check=True, capture_output=True)
        started.append(subprocess.Popen([program, *options, "-g", "daemon off;"], stderr=subprocess.DEVNULL))
        return f"https://127.0.0.1:{secure}", f"http://127.0.0.1:{plain}"

    yield start
    for process in started:
        process.terminate()
        process.wait(timeout=10)


@pytest.mark.system_package
def test_nginx_in_front(nginx, tmp_path, declaration, monkeypatch):
    seen = []

    class Noting:
        def __init__(self, app, **_):
            self._app = app

        async def __call__(self, scope, receive, send):
            if scope["type"] == "http":
                seen.append((scope["client"], dict(scope["headers"]).get(b"x-forwarded-for")))
            await self._app(scope, receive, send)

    monkeypatch.setattr(service_app, "RequestMiddleware", Noting)
    with serving(str(tmp_path / "log.db")) as address:
        secure, plain = nginx(address.removeprefix("http://"))
        trusted = ssl.create_default_context(cafile=str(tmp_path / "experiments.crt"))
        with httpx.Client(base_url=secure, verify=trusted, headers={"X-Forwarded-For": "6.6.6.6"}) as client:
            for _ in range(100):
                try:
                    assert client.get("/healthz").status_code == 200
                    break
                except httpx.ConnectError:
                    time.sleep(0.1)
            assert client.post("/experiments", json=declaration).status_code == 201
            body = {"id": "one", "context": {"device": "phone"}}
            for _ in range(4):  # half of them go first to where nobody is
                assert client.post("/experiments/checkout/decisions", json=body).status_code == 200
            assert client.get("/experiments/checkout/export").status_code == 200
            assert client.get("/metrics").status_code == 404
            assert client.post("/experiments", content=bytes(MAX_BYTES + 1)).status_code == 413
        assert httpx.get(plain + "/x").headers["location"].startswith("https://")
    assert {forwarded for _, forwarded in seen} == {b"127.0.0.1"}, "not what the caller says"
    assert '"path":"/experiments/checkout/decisions","status":200' in (tmp_path / "access").read_text()


@pytest.mark.system_package
def test_the_dashboard_behind_nginx(nginx, tmp_path, begun):
    store = open_store(begun)
    with store.write() as session:
        key = create_key(session, "board", ["read"])
    store.close()
    with serving(begun) as address:
        secure, _ = nginx(address.removeprefix("http://"))
        trusted = ssl.create_default_context(cafile=str(tmp_path / "experiments.crt"))
        retries = httpx.HTTPTransport(verify=trusted, retries=10)
        with httpx.Client(base_url=secure, transport=retries, headers={"origin": secure}) as client:
            reply = client.post("/dashboard/sign-in", data={"key": key})
            assert reply.status_code == 303, "the origin is the address that was called, port and all"
            assert "secure" in reply.headers["set-cookie"].lower()
            assert reply.headers["location"] == "/dashboard"
            assert client.get("/dashboard/experiments/checkout/log").status_code == 200
            exported = client.get("/dashboard/experiments/checkout/log/export?format=csv")
            assert exported.text.count("\n") == 21
            foreign = client.post("/dashboard/sign-in", data={"key": key}, headers={"origin": "https://evil.example"})
            assert foreign.status_code == 403
