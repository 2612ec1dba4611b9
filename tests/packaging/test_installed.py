"""What a user does first with an installed conebandit; ``.ci/packages`` runs it in clean environments."""

import os
import socket
import subprocess
import sys
import sysconfig
import time
from importlib.metadata import version
from pathlib import Path

import pytest

import conebandit as cb
from conebandit.service.client import ClientError

DECLARATION = {
    "id": "checkout",
    "arms": ["old", "new"],
    "metrics": [{"name": "revenue"}, {"name": "latency", "direction": "min", "worst": 10.0}],
    "context": [{"name": "age", "low": 18, "high": 98}],
    "policy": {"name": "LinearParetoUCB"},
}


def command(*arguments: str) -> list[str]:
    """The installed command, as a shell would find it."""
    suffix = ".exe" if sys.platform == "win32" else ""
    return [str(Path(sysconfig.get_path("scripts")) / f"conebandit{suffix}"), *arguments]


def said(*arguments: str) -> str:
    done = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_package_is_the_one_that_is_meant():
    """``CONEBANDIT_INSTALLED`` names the environment whose copy is to be tested, not the one beside these tests."""
    if "CONEBANDIT_INSTALLED" in os.environ:
        assert Path(cb.__file__).is_relative_to(os.environ["CONEBANDIT_INSTALLED"])
    assert version("conebandit") == cb.__version__


def test_the_command_says_its_version():
    assert said("--version").split() == ["conebandit", cb.__version__]


@pytest.mark.parametrize("name", ["bench", "experiment", "key", "reproduce", "serve", "shift", "theory"])
def test_every_command_explains_itself(name):
    assert f"conebandit {name}" in said(name, "--help")


def test_the_table_of_the_paper(tmp_path):
    assert "0." in said("reproduce", "table", "--to", str(tmp_path))


def test_a_decision():
    policy = cb.ConeTree(n_arms=3, cone=cb.Cone.orthant(2), context_dim=1)
    decision = policy.decide([0.5], key=1)
    assert decision.arm == policy.decide([0.5], key=1).arm
    assert decision.propensity == pytest.approx(1 / 3)
    policy.observe([0.5], decision.arm, [1.0, 0.0])
    assert decision.arm in policy.front([0.5]).arms


def when_ready(address: str, process: subprocess.Popen[bytes]) -> cb.Client:
    """A client of the service, once it answers."""
    end = time.monotonic() + 300  # nothing is compiled yet
    while process.poll() is None and time.monotonic() < end:
        client = cb.Client(address, timeout=60)
        try:
            client.experiments()
            return client
        except ClientError:
            client.close()
            time.sleep(0.1)
    raise TimeoutError(f"the service does not answer; its exit code is {process.poll()}.")


def test_a_served_decision(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    serve = command("serve", "--store", str(tmp_path / "log.db"), "--port", str(port))
    with subprocess.Popen(serve, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            with when_ready(f"http://127.0.0.1:{port}", process) as client:
                client.create(DECLARATION)
                first = client.decide("checkout", {"age": 40}, id="visitor-1")
                assert first.arm in DECLARATION["arms"]
                assert client.decide("checkout", {"age": 40}, id="visitor-1") == first
                assert client.report("checkout", "visitor-1", {"revenue": 3.0}).recorded == ("revenue",)
        finally:
            process.terminate()
