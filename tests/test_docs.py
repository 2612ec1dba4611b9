"""The README says what was measured, word for word."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def readme() -> str:
    return " ".join((ROOT / "README.md").read_text().split())


def test_speed_in_the_readme_is_what_was_measured(readme):
    rows = json.loads((ROOT / "benchmarks/results/geometry.json").read_text())["rows"]
    ratios = [r["to_moocore"] for r in rows if r["cone"] == "orthant" and "to_moocore" in r]
    assert len(ratios) == 18
    assert f"takes {min(ratios):.2f} to {max(ratios):.2f} times as long as moocore" in readme
    batch = {(r["task"], r["cone"]): r["milliseconds"] for r in rows if r["input"].startswith("batch")}
    assert (
        f"fronts in {batch['pareto_mask', 'orthant']:.0f} ms, their gaps in {batch['gap', 'orthant']:.0f} ms "
        f"({batch['gap', 'narrow']:.0f} ms under a narrow cone)" in readme
    )
    assert all(r["reached"] for r in rows if r.get("wanted"))


def test_speed_of_the_policy_in_the_readme_is_what_was_measured(readme):
    rows = json.loads((ROOT / "benchmarks/results/speed.json").read_text())["rows"]
    ours = [r for r in rows if r["contender"].startswith("conebandit")]
    steps, loops, full = (
        [r["microseconds"] for r in ours if r["task"] == task]
        for task in ("step by step", "compiled loop", "simulate in full")
    )
    ratios = [r["ratio"] for r in ours if r["task"].startswith("step by step, to")]
    assert len(steps) == len(loops) == len(full) == len(ratios) == 6
    assert (
        f"takes {min(steps):.0f} to {max(steps):.0f} microseconds step by step, {min(loops):.1f} to {max(loops):.1f} "
        f"in the compiled loop and {min(full):.1f} to {max(full):.1f} with environment and regret" in readme
    )
    assert f"{min(1 / r for r in ratios):.0f} to {max(1 / r for r in ratios):.0f} times as fast" in readme


@pytest.mark.parametrize("page", sorted(p.relative_to(ROOT) for p in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]))
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text()
    for target in [part.split(")")[0] for part in text.split("](")[1:]]:
        if not target.startswith(("http", "#")):
            assert (ROOT / page).parent.joinpath(target.split("#")[0]).exists(), f"{page}: {target}"
