"""The ``conebandit`` command. Thin: it reads options, calls the library and prints."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from conebandit import __version__
from conebandit.reproduce.table import Entry, gap_table

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__, rich_markup_mode=None)
reproduce = typer.Typer(invoke_without_command=True, help="Reproduce the paper's tables and figures.")
app.add_typer(reproduce, name="reproduce")

Folder = Annotated[Path, typer.Option("--to", help="Folder for figures and data; made if it is missing.")]


def main() -> None:
    """Entry point of the command."""
    app()


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"conebandit {__version__}")
        raise typer.Exit


@app.callback()
def conebandit(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which.")] = False,
) -> None:
    """Contextual bandits with vector rewards, a preference cone and a shifting population."""


@reproduce.callback()
def everything(context: typer.Context, to: Folder = Path("reproduction")) -> None:
    """Make everything that can be reproduced so far."""
    if context.invoked_subcommand is not None:
        return
    console = Console()
    with Progress(console=console) as progress:
        task = progress.add_task("Reproducing the paper", total=2)
        entries = gap_table()
        progress.advance(task)
        written = [*_write_table(entries, to), *_draw_cones(to)]
        progress.advance(task)
    _print_table(console, entries)
    console.print("Written: " + ", ".join(str(p) for p in written), soft_wrap=True)


@reproduce.command()
def table(to: Annotated[Path | None, typer.Option("--to", help="Also write the table as CSV here.")] = None) -> None:
    """The gap table, beside the paper's figures; fails if an entry disagrees."""
    entries = gap_table()
    _print_table(Console(), entries)
    if to is not None:
        _write_table(entries, to)
    if not all(e.agrees for e in entries):
        raise typer.Exit(1)


@reproduce.command()
def cones(to: Folder = Path("reproduction")) -> None:
    """The two panels of the paper's first figure."""
    for path in _draw_cones(to):
        typer.echo(path)


def _print_table(console: Console, entries: list[Entry]) -> None:
    """One row for each arm and cone, and a line that says how many agree."""
    view = Table(title="Scale-independent gap to the Pareto front, computed and as printed in the paper")
    for heading in ("arm", "cone", "front", "paper", "gap", "paper", "agrees"):
        view.add_column(heading, justify="right" if heading in ("gap",) else "left")
    for e in entries:
        view.add_row(
            e.arm,
            e.cone,
            "yes" if e.on_front else "no",
            "yes" if e.printed_on_front else "no",
            f"{e.gap:.4f}",
            e.printed_gap,
            "yes" if e.agrees else "[bold red]NO[/]",
            end_section=e.arm == "A9",
        )
    console.print(view)
    console.print(f"{sum(e.agrees for e in entries)} of {len(entries)} entries agree, fronts included.")


def _write_table(entries: list[Entry], folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "gap-table.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["arm", "cone", "on_front", "printed_on_front", "gap", "printed_gap", "agrees"])
        for e in entries:
            row = [e.arm, e.cone, e.on_front, e.printed_on_front, f"{e.gap:.10f}", e.printed_gap, e.agrees]
            writer.writerow(row)
    return [path]


def _draw_cones(folder: Path) -> list[Path]:
    from conebandit import plots  # noqa: PLC0415  (matplotlib is an extra)
    from conebandit.reproduce import printed  # noqa: PLC0415

    titles = {"C1": "Positive orthant, C1", "C3": "Narrower cone, C3 = cone{(1, .6), (.6, 1)}"}
    panels = {titles[name]: cone for name, cone in printed.CONES.items()}
    figure = plots.cone_figure(printed.ARMS, panels, printed.ARM_NAMES)
    return plots.save(figure, folder / "cones")
