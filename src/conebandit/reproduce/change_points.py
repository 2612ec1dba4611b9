"""The effect of the change point: what the runs of ``study.py`` say about the paper's claims."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed

from conebandit import plots
from conebandit.plots.curves import Curve
from conebandit.regret import SERIES, SHARES
from conebandit.reproduce import page
from conebandit.reproduce.files import write_csv
from conebandit.reproduce.study import DEFAULT, PAPER, POLICIES, RANDOM, SOUND, Cell, Result
from conebandit.studies.paired import half_width
from conebandit.validate.arrays import FloatArray

ERROR = 0.05  # probability that an interval, or one of several that are to hold all at once, does not hold
SHOWN = ("play", "front")  # what is played and what is reported; figures of other series are folded
EVERY = 4  # of so many points of a curve one is drawn


class Change(NamedTuple):
    """A difference of averages with its interval, which holds together with those of the other panels."""

    before: float
    difference: float
    half: float  # half of the interval's width

    @property
    def verdict(self) -> str:
        """Which way it is decided."""
        if not abs(self.difference) > self.half:  # nor if the interval is nan, for want of runs
            return "open"
        return "lower" if self.difference < 0 else "higher"

    @property
    def interval(self) -> str:
        """The interval in words."""
        return f"{self.difference - self.half:+.4f} to {self.difference + self.half:+.4f}"

    @property
    def share(self) -> str:
        """The difference in percent."""
        return f"{self.difference / self.before:+.0%}" if self.before else "none"


class Panel(NamedTuple):
    """A small picture: where it goes, its curves and what stands at them."""

    stem: Path
    curves: dict[str, Curve]
    title: str
    ylabel: str
    ylim: tuple[float, float]


def study_sections(result: Result, to: Path, *, n_jobs: int = 1) -> list[page.Section]:
    """Three sections: more source samples, the paper's policy against a random arm, the default policy beside it."""
    levels = {series: _level_panels(result, series, to) for series in SERIES}
    effects = {series: _effect_panels(result, series, to) for series in SHOWN}
    drawn = [panel for group in (*levels.values(), *effects.values()) for panel in group]
    Parallel(n_jobs=n_jobs)(delayed(_draw)(panel) for panel in drawn)
    write_csv(to / "change-point.csv", _curve_rows(result))
    write_csv(to / "source-samples.csv", _change_rows(result))
    return [
        _more_source(result, [_svg(panel) for series in SHOWN[::-1] for panel in effects[series]]),
        _against_random(result),
        _beside_default(
            result,
            [_svg(panel) for series in SHOWN for panel in levels[series]],
            [_svg(panel) for series in SERIES if series not in SHOWN for panel in levels[series]],
        ),
    ]


def _level_panels(result: Result, series: str, to: Path) -> list[Panel]:
    """Every policy at the middle change point, with one deviation; a panel for each K and nu."""
    scale = result.rounds if series in SHARES else 1.0  # shares are shown as averages, the others are summed
    shown = []
    for n_arms, nu in result.setting.panels:
        values = {p: result.of(Cell(n_arms, nu, result.setting.middle, p), series) / scale for p in POLICIES}
        shown.append({p: (v.mean(axis=0), v.std(axis=0)) for p, v in values.items()})
    label = f"average {series}" if series in SHARES else f"{series}, summed"
    return _panels(result, shown, to / f"change-point-{series}", label, signed=False)


def _effect_panels(result: Result, series: str, to: Path) -> list[Panel]:
    """What the last change point changes against the first, run by run, with a 95 % interval at each round."""
    shown = []
    for n_arms, nu in result.setting.panels:
        pairs = {p: result.differences(n_arms, nu, p, series) for p in (RANDOM, PAPER)}
        shown.append({p: (d.mean(axis=0), _half_width(d)) for p, d in pairs.items()})
    few, many = result.setting.ends
    label = f"{series}: $t_p$ = {many:,} minus {few:,}"
    return _panels(result, shown, to / f"source-samples-{series}", label, signed=True)


def _panels(
    result: Result, shown: list[dict[str, tuple[FloatArray, FloatArray]]], stem: Path, label: str, *, signed: bool
) -> list[Panel]:
    """Panels for each K and nu; those of one K have the same vertical axis, which ends at 0 if values have no sign."""
    thin = slice(EVERY - 1, None, EVERY)
    ends: dict[int, list[float]] = {n_arms: [0.0] for n_arms in result.setting.arms}
    for (n_arms, _), bands in zip(result.setting.panels, shown, strict=True):
        for middle, half in bands.values():
            ends[n_arms] += [float((middle - half).min()) if signed else 0.0, float((middle + half).max())]
    panels = []
    for (n_arms, nu), bands in zip(result.setting.panels, shown, strict=True):
        low, high = min(ends[n_arms]), max(ends[n_arms])
        margin = 0.04 * (high - low) or 1.0
        name = f"{stem.name}-K{n_arms}-nu{nu:g}".replace(".", "_")
        curves = {p: (result.rounds[thin], middle[thin], half[thin]) for p, (middle, half) in bands.items()}
        ylim = (low - margin if signed else 0.0, high + margin)
        panels.append(Panel(stem.with_name(name), curves, f"K = {n_arms}, nu = {nu:g}", label, ylim))
    return panels


def _draw(panel: Panel) -> None:
    figure = plots.rounds_figure(panel.curves, title=panel.title, ylabel=panel.ylabel, ylim=panel.ylim)
    plots.save(figure, panel.stem)


def _svg(panel: Panel) -> Path:
    return panel.stem.with_suffix(".svg")


def _half_width(differences: FloatArray, *, at_once: int = 1) -> FloatArray:
    """Half the width of a Student interval for the mean of rows; ``at_once`` of them hold together (Bonferroni)."""
    return half_width(differences, 1.0 - ERROR / at_once)


def _change(result: Result, panels: list[tuple[int, float]], policy: str, series: str, *, at_once: int) -> Change:
    """What the last change point changes against the first, per round and run by run; averaged over panels."""
    n = result.setting.rounds_after
    totals = np.mean([result.differences(*panel, policy, series)[:, -1] for panel in panels], axis=0) / n
    first = result.setting.ends[0]
    before = float(np.mean([result.per_round(Cell(*panel, first, policy), series).mean() for panel in panels]))
    return Change(before, float(totals.mean()), float(_half_width(totals, at_once=at_once)))


def _curve_rows(result: Result) -> list[list[str]]:
    rows = [["K", "nu", "t_p", "policy", "runs", "series", "rounds_after", "mean", "deviation"]]
    for cell, curves in result.curves.items():
        key = [str(cell.n_arms), f"{cell.nu:g}", str(cell.change_point), cell.policy, str(len(curves))]
        for i, series in enumerate(SERIES):
            mean, deviation = curves[:, i].mean(axis=0), curves[:, i].std(axis=0)
            for j in range(9, len(mean), 10):
                rows.append([*key, series, f"{result.rounds[j]:g}", f"{mean[j]:.6g}", f"{deviation[j]:.6g}"])
    return rows


def _change_rows(result: Result) -> list[list[str]]:
    few, many = result.setting.ends
    rows = [["K", "nu", "policy", "pairs", "series", f"t_p={few}", f"t_p={many}", "difference", "half_width"]]
    panels = result.setting.panels
    for (n_arms, nu), policy in ((panel, policy) for panel in panels for policy in (RANDOM, PAPER, SOUND)):
        pairs = result.setting.runs_of(Cell(n_arms, nu, few, policy))
        for series in SERIES:
            change = _change(result, [(n_arms, nu)], policy, series, at_once=len(panels))
            values = (change.before, change.before + change.difference, change.difference, change.half)
            rows.append([str(n_arms), f"{nu:g}", policy, str(pairs), series, *(f"{v:.6g}" for v in values)])
    return rows


def _more_source(result: Result, figures: list[Path]) -> page.Section:
    """The paper's claim on the change point, tested on the front that its own policy reports."""
    setting = result.setting
    few, many = setting.ends
    changes = {panel: _change(result, [panel], PAPER, "front", at_once=len(setting.panels)) for panel in setting.panels}
    rows = [["K", "nu", f"t_p = {few:,}", f"t_p = {many:,}", "difference", "interval", "in percent", "decided"]]
    for (n_arms, nu), c in changes.items():
        values = (f"{c.before:.4f}", f"{c.before + c.difference:.4f}", f"{c.difference:+.4f}")
        rows.append([str(n_arms), f"{nu:g}", *values, c.interval, c.share, c.verdict])
    verdicts = [change.verdict for change in changes.values()]
    played = _change(result, setting.panels, PAPER, "play", at_once=1)
    control = _change(result, setting.panels, RANDOM, "front", at_once=1)
    return page.Section(
        "Effect of the change point",
        "The more samples come from the source before the shift, the smaller the regret after it.",
        f"{_conclusion(verdicts)} The paper's policy with t_p = {many:,} against t_p = {few:,}: {setting.pairs} pairs "
        f"of runs with the same seeds for each K and nu, and the {setting.rounds_after:,} rounds after the shift. Per "
        f"round, the regret of the reported front is lower in {verdicts.count('lower')} of {len(verdicts)} panels, "
        f"higher in {verdicts.count('higher')} and open in {verdicts.count('open')}; the intervals hold all at once "
        f"with {1 - ERROR:.0%}. What is played changes by {played.interval} ({played.share}; average over panels): it "
        "depends on eliminations, which come late (next section). For a random arm, which learns nothing, the front "
        f"changes by {control.interval} ({setting.runs} pairs). The paper prints neither K nor nu. Figures: summed "
        f"differences, first of the front, then of what is played, with {1 - ERROR:.0%} intervals at each round.",
        {"lower": True, "higher": False, "open": None}[_overall(verdicts)],
        figures,
        rows,
    )


def _overall(verdicts: list[str]) -> str:
    """The claim holds if it does in every panel, and fails if it does in one."""
    return "higher" if "higher" in verdicts else "open" if "open" in verdicts else "lower"


def _conclusion(verdicts: list[str]) -> str:
    return {
        "lower": "More source samples help: what is reported after the shift is better, beyond chance in every panel.",
        "higher": "More source samples do not always help: in a panel what is reported is worse, beyond chance.",
        "open": "These runs are too few to decide in every panel whether more source samples help.",
    }[_overall(verdicts)]


def _against_random(result: Result) -> page.Section:
    """The printed constants against chance."""
    rows = [["policy", *SERIES]]
    policies = (RANDOM, PAPER, SOUND)
    rows += [[policy, *(f"{result.mean(policy, s):.4f}" for s in SERIES)] for policy in policies]
    ratios = {policy: dict(_shares_of_random(result, policy, None)) for policy in (PAPER, SOUND)}
    return page.Section(
        "Against a random arm",
        "The policy learns which arms are on the front and plays them; a random arm is the benchmark.",
        f"Play regret as a share of that of a random arm: paper {_said(ratios[PAPER])}; sound {_said(ratios[SOUND])}. "
        "With the printed constants arms go late or never, and the printed rule, not being sound, also loses arms that "
        f"belong to the front ({result.mean(PAPER, 'lost'):.2%} on average; sound {result.mean(SOUND, 'lost'):.2%}). "
        "What both learn shows in the front that they report. Averages over all panels, change points and runs, per "
        f"round over the {result.setting.rounds_after:,} rounds after the change point:",
        max(ratios[PAPER].values()) < 0.5,
        table=rows,
    )


def _beside_default(result: Result, figures: list[Path], more: list[Path]) -> page.Section:
    """The policy that we recommend, where the paper tried its own."""
    setting = result.setting
    at = setting.middle
    rows = [["policy", "runs", *SERIES]]
    for policy in POLICIES:
        runs = setting.runs_of(Cell(*setting.panels[0], at, policy))
        rows.append([policy, str(runs), *(f"{result.mean(policy, s, change_point=at):.4f}" for s in SERIES)])
    shares = {policy: _said(dict(_shares_of_random(result, policy, at))) for policy in (PAPER, SOUND, DEFAULT)}
    return page.Section(
        "Beside the default policy",
        "",
        f"default_policy(), which the paper does not have, in the same environments with t_p = {at:,}: "
        f"{setting.default_runs} runs for each K and nu, {setting.runs} of the other policies, with the same contexts "
        "and the same luck. It is told neither the noise nor how smooth the means are. Play regret as a share of that "
        f"of a random arm: default {shares[DEFAULT]}; paper {shares[PAPER]}; sound {shares[SOUND]}. Averages per round "
        f"over the {setting.rounds_after:,} rounds after the change point; figures: sums over these rounds (of shares: "
        "averages), first of what is played, then of what is reported, with one standard deviation.",
        None,
        figures,
        rows,
        more,
    )


def _shares_of_random(result: Result, policy: str, change_point: int | None) -> Iterator[tuple[int, float]]:
    """For each K the play regret of a policy as a share of that of a random arm."""
    for k in result.setting.arms:
        mine, chance = (result.mean(p, "play", n_arms=k, change_point=change_point) for p in (policy, RANDOM))
        yield k, mine / chance


def _said(shares: dict[int, float]) -> str:
    return ", ".join(f"{share:.3f} for K = {k}" for k, share in shares.items())
