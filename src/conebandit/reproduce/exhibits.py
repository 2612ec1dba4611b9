"""The gap table, the two figures and the example of the paper that need no simulation: one section of the page each."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from conebandit import environments, plots
from conebandit.geometry.gap import hausdorff, log_hausdorff
from conebandit.geometry.pareto import pareto_mask
from conebandit.reproduce import page, printed
from conebandit.reproduce.files import write_csv
from conebandit.reproduce.table import gap_table, write_table


def table_section(to: Path) -> page.Section:
    """The gap table."""
    entries = gap_table()
    rows = [["arm", "cone", "on front", "paper", "gap", "paper", "agrees"]]
    for e in entries:
        flags = ["yes" if f else "no" for f in (e.on_front, e.printed_on_front)]
        rows.append([e.arm, e.cone, *flags, f"{e.gap:.4f}", e.printed_gap, "yes" if e.agrees else "NO"])
    write_table(entries, to)
    good = sum(e.agrees for e in entries)
    return page.Section(
        "Gap table",
        "Scale-independent gaps of ten arms under the orthant C1 and the narrow cone C3, to four decimals.",
        f"{good} of {len(entries)} entries agree, fronts included. They follow from Definition 5 with factors that are "
        "free per coordinate and joint over the front; Proposition 1 of the paper gives other numbers.",
        good == len(entries),
        table=rows,
    )


def cone_section(to: Path) -> page.Section:
    """The two panels of Figure 1."""
    drawn = draw_cones(to)
    fronts = {
        name: {printed.ARM_NAMES[k] for k in np.flatnonzero(pareto_mask(printed.ARMS, cone))}
        for name, cone in printed.CONES.items()
    }
    return page.Section(
        "Pareto sets under two cones (Figure 1)",
        "Four of ten arms are undominated under the orthant, seven under the narrow cone.",
        "The same arms. A0 lies on the edge of what A9 dominates under C3: it is dominated, and its gap is 0.",
        fronts == printed.FRONTS,
        [path for path in drawn if path.suffix == ".svg"],
    )


def draw_cones(to: Path) -> list[Path]:
    """Draw the panels of Figure 1; the paths written."""
    titles = {"C1": "Positive orthant, C1", "C3": "Narrower cone, C3 = cone{(1, .6), (.6, 1)}"}
    paths = []
    for name, cone in printed.CONES.items():
        figure = plots.cone_figure(printed.ARMS, {titles[name]: cone}, printed.ARM_NAMES)
        paths += plots.save(figure, to / f"cone-{name}")
    return paths


def schematic_section(to: Path) -> page.Section:
    """Figure 2, with real numbers."""
    cone = printed.CONES["C3"]
    figures = {
        "gap": plots.gap_figure(printed.ARMS, cone, 7, printed.ARM_NAMES),
        "metric": plots.distances_figure(printed.ARMS, cone, printed.ARM_NAMES),
    }
    drawn = [plots.save(figure, to / name) for name, figure in figures.items()]
    return page.Section(
        "Gap and metric (Figure 2)",
        "The gap lifts to a metric d_p between Pareto sets (Definition 8).",
        "First the gap of A7 under C3: the smallest box of factors in which the arm can leave what the front strongly "
        "dominates (grey). Then a reported front that misses an arm is at dominance distance (d_p) zero from the "
        "true one, so d_p is not a metric. The log-Hausdorff form, which the appendix really proves to be one, sees "
        "the missing arm.",
        False,
        [svg for _, svg in drawn],
    )


def hausdorff_section(to: Path) -> page.Section:
    """Example 2."""
    rounds = np.unique(np.geomspace(2, 1000, 60).round())
    world = environments.hausdorff_example(floor=1e-9)
    limit = np.array([[1.0, 1e-9], [1e-9, 1.0], [1e-9, 1e-9]])
    means = world.means(1.0 / rounds[:, None])
    curves = {
        "Hausdorff": np.array([float(hausdorff(m, limit)) for m in means]),
        "log-Hausdorff": np.array([float(log_hausdorff(m, limit)) for m in means]),
    }
    plots.save(plots.hausdorff_figure(rounds, curves), to / "hausdorff-example")
    rows = [["t", *curves], *([f"{t:g}", *(f"{c[i]:.6g}" for c in curves.values())] for i, t in enumerate(rounds))]
    write_csv(to / "hausdorff-example.csv", rows)
    all_on_front = bool(pareto_mask(means, world.cone).all())
    limit_front = int(pareto_mask(limit, world.cone).sum())
    return page.Section(
        "Hausdorff example (Example 2)",
        "Fronts can converge in the Hausdorff distance while preferences do not: the third arm (x^2, x^2) is on the "
        "front for every x > 0, and its limit (0, 0) is not.",
        f"At t = 1000 the Hausdorff distance to the limit is {curves['Hausdorff'][-1]:.1e}; all three arms are on the "
        f"front at every t, but only {limit_front} of the limit set. The log-Hausdorff distance is "
        f"{curves['log-Hausdorff'][-1]:.1f} there: on a log scale nothing that tends to zero converges.",
        all_on_front and limit_front == 2 and curves["Hausdorff"][-1] < 1e-4,
        [to / "hausdorff-example.svg"],
    )
