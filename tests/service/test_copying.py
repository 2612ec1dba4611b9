"""Copies of experiments: the declaration, the arms as they are now, and nothing of the log."""

import json

import httpx
import pytest
from typer.testing import CliRunner

from conebandit.cli import app
from conebandit.service.client import Client, ClientError
from conebandit.service.http.server import serving
from tests.service.driver import PHONE

PLAIN = {"id": "e", "arms": ["a", "b"], "metrics": [{"name": "m"}], "policy": {"name": "ParetoUCB1"}}


@pytest.fixture
def client(address, declaration):
    with serving(address) as url, Client(url, retries=0) as client:
        client.create(declaration)
        yield client


def test_a_copy_has_the_declaration_and_none_of_the_data(client, declaration):
    client.decide("checkout", PHONE, id="d")
    client.report("checkout", "d", {"revenue": 1.0})
    client.set_mode("checkout", "off")
    for _ in range(2):  # again is a no-op
        copy = client.copy("checkout", "second")
        assert copy["declaration"] == declaration | {"id": "second"}
        assert (copy["events"], copy["mode"]) == (1, "live")
    client.decide("second", PHONE, id="d")
    assert client.show("checkout")["events"] == 4


def test_a_copy_has_the_arms_that_are_served_now(client):
    client.add_arm("checkout", "fresh")
    client.retire_arm("checkout", "bold")
    copy = client.copy("checkout", "second")
    assert copy["declaration"]["arms"] == ["old", "new", "fresh"]
    assert copy["arms"] == [{"name": name, "active": True} for name in ("old", "new", "fresh")]
    back = client.copy("checkout", "third", {"arms": ["old", "bold"]})
    assert [arm["name"] for arm in back["arms"]] == ["old", "bold"]


@pytest.mark.parametrize(
    "arms", [[{"name": "low", "dose": 1.0}, {"name": "high", "dose": 2.0}], [{"name": "low"}, {"name": "high"}]]
)
def test_arms_keep_what_describes_them(client, arms):
    client.create(PLAIN | {"arms": arms, "policy": "ConeKernel" if "dose" in arms[0] else "ParetoUCB1"})
    expected = arms if "dose" in arms[0] else ["low", "high"]
    assert client.copy("e", "f")["declaration"]["arms"] == expected


def test_changes_replace_entries_and_null_takes_them_away(client, declaration):
    copy = client.copy("checkout", "second", {"mode": "shadow", "seed": None, "baseline": "new"})
    expected = {name: value for name, value in declaration.items() if name != "seed"}
    assert copy["declaration"] == expected | {"id": "second", "mode": "shadow", "baseline": "new"}
    assert copy["mode"] == "shadow"


@pytest.mark.parametrize(
    ("source", "id_", "changes", "status"),
    [
        ("checkout", "checkout", {}, 422),
        ("checkout", "second", {"id": "third"}, 422),
        ("checkout", "second", {"arms": []}, 422),
        ("checkout", "second", {"metrics": None}, 422),
        ("checkout", "second", {"unheard": 1}, 422),
        ("checkout", "no spaces", {}, 422),
        ("nowhere", "second", {}, 404),
        ("checkout", "e", {}, 409),
    ],
)
def test_what_cannot_be_copied_leaves_nothing(client, source, id_, changes, status):
    client.create(PLAIN)
    with pytest.raises(ClientError) as refused:
        client.copy(source, id_, changes)
    assert refused.value.status == status, refused.value
    assert client.experiments() == ["checkout", "e"]


def test_the_command(begun, tmp_path, monkeypatch):
    monkeypatch.setenv("CONEBANDIT_STORE", begun)
    (tmp_path / "changes.toml").write_text('mode = "shadow"\n')

    def run(*args):
        return CliRunner().invoke(app, ["experiment", *map(str, args)])

    made = run("copy", "checkout", "second", "--changes", tmp_path / "changes.toml", "--actor", "eve")
    assert (made.exit_code, made.output) == (0, "second: 3 arms, 2 metrics, mode shadow\n")
    shown = json.loads(run("show", "second").output)
    assert (shown["mode"], shown["events"]) == ("shadow", 1)
    assert [json.loads(line)["actor"] for line in run("audit", "second").output.splitlines()] == ["eve"]
    (tmp_path / "list.json").write_text("[1]")
    for wrong in (("nowhere", "x"), ("checkout", "second"), ("checkout", "x", "--changes", tmp_path / "list.json"),
                  ("checkout", "x", "--changes", tmp_path / "none.toml")):  # fmt: skip
        refused = run("copy", *wrong)
        assert refused.exit_code == 1, wrong
        assert "Traceback" not in refused.output
    assert run("list").output == "checkout: 21 events\nsecond: 1 events\n"


def test_a_body_of_a_wrong_form(address):
    with serving(address) as url:
        for body in ({}, {"id": 1}, {"id": "x", "changes": []}, {"id": "x", "other": 1}):
            assert httpx.post(f"{url}/experiments/e/copy", json=body).status_code == 422
