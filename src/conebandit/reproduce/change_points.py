"""The effect of the change point: what the runs of ``study.py`` say about the paper's claims."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from conebandit import plots
from conebandit.plots.curves import Curve
from conebandit.regret import SERIES, SHARES
from conebandit.reproduce import page
from conebandit.reproduce.files import write_csv
from conebandit.reproduce.study import POLICIES, Cell, Result


def study_sections(result: Result, to: Path) -> list[page.Section]:
    """The effect of the change point: a figure for each series, and what they say."""
    figures = []
    for series in SERIES:
        # Shares are shown as averages; the others are summed.
        label = f"average {series}" if series in SHARES else f"{series}, summed"
        stem = to / f"change-point-{series}"
        plots.save(plots.change_point_figure(_panels(result, series), policies=POLICIES, label=label), stem)
        figures.append(stem.with_suffix(".png"))
    write_csv(to / "change-point.csv", _curve_rows(result))
    return [_more_source(result, figures), _against_random(result)]


def _panels(result: Result, series: str) -> dict[str, dict[tuple[int, str], Curve]]:
    panels: dict[str, dict[tuple[int, str], Curve]] = {}
    for cell, curves in result.curves.items():
        rounds = result.rounds(cell.change_point)
        values = curves[:, SERIES.index(series)] / (rounds if series in SHARES else 1.0)
        panel = panels.setdefault(f"K = {cell.n_arms}, nu = {cell.nu:g}", {})
        panel[cell.change_point, cell.policy] = (rounds, values.mean(axis=0), values.std(axis=0))
    return panels


def _curve_rows(result: Result) -> list[list[str]]:
    rows = [["K", "nu", "t_p", "policy", "series", "rounds_after", "mean", "deviation"]]
    for cell, curves in result.curves.items():
        rounds = result.rounds(cell.change_point)
        for i, series in enumerate(SERIES):
            mean, deviation = curves[:, i].mean(axis=0), curves[:, i].std(axis=0)
            for j in range(9, len(rounds), 10):
                key = [str(cell.n_arms), f"{cell.nu:g}", str(cell.change_point), cell.policy, series]
                rows.append([*key, f"{rounds[j]:g}", f"{mean[j]:.6g}", f"{deviation[j]:.6g}"])
    return rows


def _more_source(result: Result, figures: list[Path]) -> page.Section:
    """The paper's claim on the change point, tested on the play regret of its own policy."""
    setting = result.setting
    first, last = setting.change_points[0], setting.change_points[-1]
    lower = clearly = 0
    panels = [(k, nu) for k in setting.arms for nu in setting.nus]
    rows = [["K", "nu", f"t_p = {first:,}", f"t_p = {last:,}", "difference", "standard error"]]
    for n_arms, nu in panels:
        few, many = (result.per_round(Cell(n_arms, nu, t, "paper"), "front") for t in (first, last))
        error = float(np.sqrt((few.var(ddof=1) + many.var(ddof=1)) / setting.runs))
        change = float(many.mean() - few.mean())
        lower += change < 0
        clearly += change < -2 * error
        rows.append(
            [str(n_arms), f"{nu:g}", f"{few.mean():.4f}", f"{many.mean():.4f}", f"{change:+.4f}", f"{error:.4f}"]
        )
    return page.Section(
        "Effect of the change point",
        "The more samples come from the source before the shift, the smaller the regret after it.",
        f"For the paper's policy the regret of the reported front, per round after the shift, is lower with t_p = "
        f"{last:,} than with t_p = {first:,} in {lower} of {len(panels)} panels, by more than two standard errors in "
        f"{clearly} (table, {setting.runs} runs each). What is played profits less: it depends on eliminations, which "
        "come late (next section). The paper prints neither K nor nu; one standard deviation is shaded.",
        clearly == len(panels),
        figures,
        rows,
    )


def _against_random(result: Result) -> page.Section:
    """The printed constants against chance."""
    setting = result.setting
    rows = [["policy", *SERIES]]
    rows += [[policy, *(f"{result.mean(policy, s):.4f}" for s in SERIES)] for policy in POLICIES]
    ratios = {
        policy: {k: result.mean(policy, "play", k) / result.mean("random arm", "play", k) for k in setting.arms}
        for policy in ("paper", "sound")
    }
    said = {policy: ", ".join(f"{r:.3f} for K = {k}" for k, r in by_k.items()) for policy, by_k in ratios.items()}
    return page.Section(
        "Against a random arm",
        "The policy learns which arms are on the front and plays them; a random arm is the benchmark.",
        f"Play regret as a share of that of a random arm: paper {said['paper']}; sound {said['sound']}. With the "
        "printed constants arms go late or never, and the printed rule, not being sound, also loses arms that belong "
        f"to the front ({result.mean('paper', 'lost'):.2%} on average; sound {result.mean('sound', 'lost'):.2%}). What "
        "both learn shows in the front that they report. Averages over all panels, change points and runs, per round "
        "after the change point:",
        max(ratios["paper"].values()) < 0.5,
        table=rows,
    )
