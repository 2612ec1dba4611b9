"""The commands ``conebandit reproduce`` and ``conebandit theory``. They import what they need when they are called."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from conebandit.reproduce.printed import CONES
from conebandit.reproduce.table import Entry, gap_table, write_table
from conebandit.terminal import Folder, checking, print_rows, require_writable, say

reproduce = typer.Typer(invoke_without_command=True, help="Reproduce the paper's tables and figures.")


def add_to(app: typer.Typer) -> None:
    """Add the commands to ``conebandit``."""
    app.add_typer(reproduce, name="reproduce")
    app.command()(theory)


@reproduce.callback()
def everything(
    context: typer.Context,
    to: Folder = Path("reproduction"),
    quick: Annotated[bool, typer.Option("--quick", help="Few rounds and runs, which show less.")] = False,
    arms: Annotated[list[int] | None, typer.Option(help="K, the number of arms (repeat for more).")] = None,
    nu: Annotated[list[float] | None, typer.Option(help="nu, the strength of the shift (repeat for more).")] = None,
    change_point: Annotated[
        list[int] | None, typer.Option(help="t_p, the number of source rounds (repeat for more, two at least).")
    ] = None,
    horizon: Annotated[int | None, typer.Option(min=1, help="T, the number of rounds.")] = None,
    jobs: Annotated[int, typer.Option(help="Number of processes; 0 for one on each core.")] = 0,
) -> None:
    """Make everything: table, figures, data and a page to look through. Finished runs are reused."""
    if context.invoked_subcommand is not None:
        return
    from conebandit.reproduce.everything import reproduce_all  # noqa: PLC0415  (needs matplotlib, an extra)
    from conebandit.reproduce.study import QUICK, Setting, changed  # noqa: PLC0415

    with checking("--arms, --nu, --change-point, --horizon"):
        usual = QUICK if quick else Setting()
        setting = changed(usual, arms=arms or (), nus=nu or (), change_points=change_point or (), horizon=horizon)
    require_writable(to / "index.html")
    start = time.perf_counter()
    path = reproduce_all(to, quick=quick, setting=setting, n_jobs=jobs or os.cpu_count() or 1, progress=True)
    console = Console()
    _print_table(console, gap_table())
    say(console, f"Done in {time.perf_counter() - start:.0f} s. Look at {path}", soft_wrap=True)


@reproduce.command()
def table(
    to: Annotated[Path | None, typer.Option("--to", help="Folder for the table as CSV.")] = None,
) -> None:
    """The gap table, beside the paper's figures; fails if an entry disagrees."""
    if to is not None:
        require_writable(to / "gap-table.csv")
    entries = gap_table()
    _print_table(Console(), entries)
    if to is not None:
        typer.echo(write_table(entries, to))
    if not all(e.agrees for e in entries):
        raise typer.Exit(1)


@reproduce.command()
def cones(to: Folder = Path("reproduction")) -> None:
    """The two panels of the paper's first figure."""
    from conebandit.reproduce.exhibits import draw_cones  # noqa: PLC0415  (needs matplotlib, an extra)

    require_writable(*(to / f"cone-{name}.{kind}" for name in CONES for kind in ("png", "svg")))
    for path in draw_cones(to):
        typer.echo(path)


def theory(
    to: Folder = Path("theory"),
    longest: Annotated[int, typer.Option(min=1600, help="The longest horizon.")] = 32_000,
    runs: Annotated[int, typer.Option(min=2, help="Runs of each point.")] = 5,
    paper: Annotated[bool, typer.Option("--paper", help="The policy as printed instead of the sound one.")] = False,
) -> None:
    """Measured regret against T, K, nu and rho, beside the bound as printed and the rate from first principles."""
    from conebandit.reproduce.theory import CURVES, Preset, caption, draw, panels  # noqa: PLC0415

    require_writable(to / "theory.png", to / "theory.svg")
    preset: Preset = "paper" if paper else "sound"
    found = panels(longest=longest, runs=runs, preset=preset, progress=True)
    rows = [["against", *CURVES]]
    rows += [
        [panel.name, *(f"{round(slope, 2) + 0.0:.2f} ± {error:.2f}" for slope, error in panel.slopes)]
        for panel in found
    ]
    console = Console()
    print_rows(console, "Slopes on log scales", rows)
    console.print(caption(preset, runs), highlight=False)
    for path in draw(found, caption(preset, runs), to / "theory"):
        say(console, f"Look at {path}", soft_wrap=True)


def _print_table(console: Console, entries: list[Entry]) -> None:
    """One row for each arm and cone, and a line that says how many agree."""
    view = Table(title="Gap to the Pareto front, computed and as printed in the paper")
    for heading in ("arm", "cone", "on front", "paper", "gap", "paper", "agrees"):
        view.add_column(heading)
    for e in entries:
        flags = ["yes" if f else "no" for f in (e.on_front, e.printed_on_front)]
        verdict = "yes" if e.agrees else "[bold red]NO[/]"
        last = e.arm == entries[-1].arm
        view.add_row(e.arm, e.cone, *flags, f"{e.gap:.4f}", e.printed_gap, verdict, end_section=last)
    console.print(view)
    console.print(f"{sum(e.agrees for e in entries)} of {len(entries)} entries agree, fronts included.")
