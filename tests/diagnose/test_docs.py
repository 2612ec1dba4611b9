"""docs/shift.md says what was measured, word for word."""

import json
from pathlib import Path

import pytest

from conebandit.diagnose.report import shift_report
from conebandit.diagnose.tables import read_pair

ROOT = Path(__file__).parents[2]


@pytest.fixture
def page() -> str:
    return " ".join((ROOT / "docs/shift.md").read_text().replace("\n> ", "\n").split())


@pytest.fixture
def rows() -> list[dict]:
    return json.loads((ROOT / "benchmarks/results/shift.json").read_text())["rows"]


def test_the_report_on_two_sites_is_quoted_as_it_is(page):
    before, after = (ROOT / "docs/data" / f"randhie-site-{site}.csv" for site in (2, 6))
    report = shift_report(read_pair(before, after, ["age", "income", "education"]))
    for sentence in report.sentences():
        assert sentence in page


def test_false_alarms(page, rows):
    shares = {row["d"]: row["false_alarms"] for row in rows if row["part"].startswith("false alarms")}
    assert list(shares) == [1, 2, 5]
    assert ", ".join(f"{share:.2%} (d = {d})" for d, share in shares.items()) in page


def test_delays(page, rows):
    delays = {(r["nu"], r["d"], r["detector"]): r["delay"] for r in rows if r["part"].startswith("delays")}
    detectors = ["ShiftMonitor", "ADWIN", "Page-Hinkley", "Page-Hinkley, told the shift"]
    assert len(delays) == 24
    for nu in (1, 3):
        for d in (1, 2, 5):
            ours, *theirs = (delays[nu, d, detector] for detector in detectors)
            assert f"| {nu} | {d} | **{ours:.1f}** | {' | '.join(f'{x:.1f}' for x in theirs)} |" in page


def test_cost(page, rows):
    one, many = (
        [r["microseconds"] for r in rows if r["detector"].endswith(way)] for way in ("one by one", "many at a time")
    )
    assert (
        f"A context costs {min(one):.1f} to {max(one):.1f} microseconds one by one and {min(many):.1f} to "
        f"{max(many):.1f} many at a time." in page
    )


def test_every_bar_is_reached(rows):
    assert all(row["reached"] for row in rows if row.get("wanted"))
