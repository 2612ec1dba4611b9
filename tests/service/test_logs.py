"""What the service logs: one line for each event, as text or as JSON."""

import json
import logging
import signal
import subprocess
import sys
import time
import urllib.request
import warnings

import pytest

from conebandit.service.http import access_log
from conebandit.service.http.logs import JsonLines, LogFormat, TextLines, fields, set_up_logs
from tests.service.databases import free_port


@pytest.fixture
def own_logging():
    """What is set up in the test is undone after it."""
    logging.captureWarnings(False)  # a test that has called the command may have left it on
    root, ours = logging.getLogger(), logging.getLogger("conebandit")
    handlers, level, our_level = root.handlers[:], root.level, ours.level
    yield
    root.handlers[:], root.level, ours.level = handlers, level, our_level
    root.setLevel(level)
    ours.setLevel(our_level)
    logging.captureWarnings(False)


def record(message, *args, **extra):
    made = logging.makeLogRecord({"name": "conebandit.access", "levelno": 20, "levelname": "INFO", "created": 1.5})
    made.msg, made.args = message, args
    made.__dict__.update(extra)
    return made


def test_an_object_on_a_line():
    told = fields(method="GET", path="/experiments/a\nb", status=200, seconds=0.25, key=None, message="mine")
    line = JsonLines().format(record("%s\nanswered", "it", **told))
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "1970-01-01T00:00:01.500Z",
        "level": "info",
        "logger": "conebandit.access",
        "message": "it\nanswered",
        "method": "GET",
        "path": "/experiments/a\nb",
        "status": 200,
        "seconds": 0.25,
        "key": None,
    }


def test_whatever_a_field_is():
    line = json.loads(JsonLines().format(record("m", **fields(ratio=float("nan"), what={1}, name="\u202eü"))))
    assert (line["ratio"], line["what"], line["name"]) == ("nan", "{1}", "\u202eü")


def test_exceptions():
    try:
        raise ValueError("no")
    except ValueError:
        failed = record("failed", exc_info=sys.exc_info())
    assert "ValueError: no" in json.loads(JsonLines().format(failed))["exception"]
    assert TextLines().format(failed).splitlines()[-1] == "ValueError: no"


def test_text_cannot_be_made_to_look_like_another_line():
    line = TextLines().format(record("a", **fields(path='/x\n1970 INFO conebandit: "forged"', method="GET", none="")))
    assert line == (
        '1970-01-01T00:00:01.500Z INFO conebandit.access: a path="/x\\n1970 INFO conebandit: \\"forged\\"" method=GET '
        'none=""'
    )


@pytest.mark.usefixtures("own_logging")
@pytest.mark.parametrize("log_format", LogFormat)
def test_what_is_heard(log_format, capsys):
    set_up_logs(log_format)
    logging.getLogger("conebandit.service").info("ours")
    logging.getLogger("uvicorn.error").info("theirs")
    logging.getLogger("uvicorn.error").warning("their warning")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("of Python", stacklevel=1)
    lines = capsys.readouterr().err.splitlines()
    assert [word in line for word, line in zip(("ours", "their warning", "of Python"), lines, strict=False)] == [
        True
    ] * 3
    if log_format is LogFormat.json:
        assert all(json.loads(line)["time"] for line in lines)


@pytest.mark.usefixtures("own_logging")
def test_requests_are_logged_if_asked_for(monkeypatch, capsys):
    monkeypatch.setattr(access_log, "log", logging.getLogger("conebandit.test_access"))
    set_up_logs(LogFormat.text)
    for id_, on in {"6": False, "7": True, "8": False}.items():
        access_log.turn(on=on)
        access_log.log_request({"method": "GET", "headers": []}, "/healthz", 200, 0.0123, id_)
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith(": request method=GET route=/healthz status=200 ms=12.3 request=7")


@pytest.mark.parametrize("log_format", LogFormat)
def test_a_service_logs_only_such_lines(log_format, tmp_path):
    port = free_port()
    command = [sys.executable, "-m", "conebandit", "serve", "--store", str(tmp_path / "log.db"), "--port", str(port)]
    service = subprocess.Popen([*command, "--log-format", log_format], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for _ in range(2400):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz").close()
            break
        except OSError:
            time.sleep(0.1)
    again = subprocess.run([*command, "--log-format", log_format], capture_output=True, text=True, check=False)
    service.send_signal(signal.SIGTERM)
    out, err = service.communicate()
    assert again.returncode == 1
    if log_format is LogFormat.json:
        assert out == b""
        assert any("Serving on" in json.loads(line)["message"] for line in err.splitlines())
        assert "in use" in json.loads(again.stderr.splitlines()[-1])["message"]
    else:
        assert b"Serving on" in out
        assert "in use" in again.stderr
