"""The command line, as a user calls it."""

import csv
import io
import subprocess
import sys

import pytest
from rich.console import Console
from typer.testing import CliRunner

import conebandit
from conebandit.cli import app
from conebandit.reproduce import printed, table
from conebandit.terminal import print_rows


@pytest.fixture
def run():
    return lambda *args: CliRunner().invoke(app, [str(a) for a in args])


def test_version(run):
    result = run("--version")
    assert result.exit_code == 0
    assert result.output.strip() == f"conebandit {conebandit.__version__}"


def test_help_says_what_the_command_is_for(run):
    words = " ".join(run("--help").output.split())
    assert "Choose actions that are judged by several metrics at once" in words
    assert "Thin" not in words


def test_the_command_is_installed():
    result = subprocess.run(
        [sys.executable, "-m", "conebandit", "--version"], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == f"conebandit {conebandit.__version__}"


def test_reproduce_table_agrees_with_the_paper(run, tmp_path):
    result = run("reproduce", "table", "--to", tmp_path)
    assert result.exit_code == 0
    assert "20 of 20 entries agree" in result.output
    assert "agrees" in result.output
    assert "NO" not in result.output
    with (tmp_path / "gap-table.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 20
    assert [f"{float(r['gap']):.4f}" for r in rows] == [g for c in ("C1", "C3") for g in printed.GAPS[c]]


def test_reproduce_table_says_so_when_it_does_not_agree(run, monkeypatch):
    monkeypatch.setitem(printed.GAPS, "C1", ("0.9999", *printed.GAPS["C1"][1:]))
    result = run("reproduce", "table")
    assert result.exit_code == 1
    assert "NO" in result.output
    assert "19 of 20 entries agree" in result.output


def test_a_wrong_front_disagrees_too(monkeypatch):
    monkeypatch.setitem(printed.FRONTS, "C3", {"A0"})
    assert not any(e.agrees for e in table.gap_table() if e.cone == "C3" and e.on_front)


def test_reproduce_cones_makes_the_same_files_every_time(run, tmp_path):
    assert run("reproduce", "cones", "--to", tmp_path / "a").exit_code == 0
    assert run("reproduce", "cones", "--to", tmp_path / "b").exit_code == 0
    assert (tmp_path / "a" / "cone-C1.png").read_bytes().startswith(b"\x89PNG")
    for name in ("cone-C1.png", "cone-C1.svg", "cone-C3.png", "cone-C3.svg"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@pytest.mark.parametrize("command", [("reproduce",), ("reproduce", "table"), ("reproduce", "cones"), ("theory",)])
def test_a_file_where_a_folder_is_needed_is_refused(run, tmp_path, command):
    (tmp_path / "taken").write_text("a file")
    result = run(*command, "--to", tmp_path / "taken")
    assert result.exit_code == 2, result.output
    assert "Invalid value for --to" in result.output


def test_a_narrow_terminal_hides_no_end_of_a_name():
    shown = io.StringIO()
    console = Console(width=40, file=shown)
    labels = ["LinearParetoUCB(width=0.1)", "LinearParetoUCB(width=0.5)"]
    print_rows(console, "Policies", [["policy", "series", "difference"], *([each, "play", "0.25"] for each in labels)])
    cells = [line.split("│")[1].strip() for line in shown.getvalue().splitlines() if line.count("│") == 4]
    assert "".join(cells) == "".join(labels)
