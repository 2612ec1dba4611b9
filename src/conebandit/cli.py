"""The ``conebandit`` command. Thin: it reads options, calls the library and prints."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Protocol, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from conebandit import __version__
from conebandit.reproduce.table import Entry, gap_table
from conebandit.service import commands as service

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)
reproduce = typer.Typer(invoke_without_command=True, help="Reproduce the paper's tables and figures.")
app.add_typer(reproduce, name="reproduce")

Folder = Annotated[Path, typer.Option("--to", help="Folder for figures and data; made if it is missing.")]


class _HasName(Protocol):
    @property
    def name(self) -> str: ...


Named = TypeVar("Named", bound=_HasName)


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
    """Choose actions that are judged by several metrics at once, for a population that shifts.

    Serve a policy over HTTP, compare policies, reproduce the paper, and see how far two samples are apart.
    """


@app.command()
def bench(
    to: Folder = Path("bench"),
    quick: Annotated[bool, typer.Option("--quick", help="One seed and 22,000 rounds: about a minute.")] = False,
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds.")] = 10,
    horizon: Annotated[int, typer.Option(min=1, help="Rounds of a run.")] = 50_000,
    jobs: Annotated[int, typer.Option(help="Number of processes; 0 for one on each core.")] = 0,
    policy: Annotated[list[str] | None, typer.Option(help="Only this policy (repeat for more).")] = None,
    task: Annotated[list[str] | None, typer.Option(help="Only this environment (repeat for more).")] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep what is in the folder, except where a policy runs a task again.")
    ] = False,
) -> None:
    """Compare policies over the suite of environments; prints and writes a leaderboard (JSON and Markdown)."""
    from conebandit.studies import bench as runs  # noqa: PLC0415  (compiles many kernels)
    from conebandit.studies import leaderboard, suite  # noqa: PLC0415

    contenders = _named(policy, runs.known_contenders(), "--policy") if policy else runs.CONTENDERS
    tasks = _named(task, (*suite.SUITE, *suite.EXTRA), "--task") if task else suite.SUITE
    if quick:
        seeds, horizon = 1, runs.QUICK_HORIZON
    page, data = to / "leaderboard.md", to / "leaderboard.json"
    with _checking("--horizon"):
        runs.check_horizon(tasks, horizon)
    with _checking("--keep"):
        earlier = leaderboard.Earlier.read(data, horizon=horizon, seeds=seeds) if keep else None
    _make_room(page, data)
    start = time.perf_counter()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns) as progress:
        bar = progress.add_task("runs", total=len(contenders) * len(tasks) * seeds)
        rows = runs.run_suite(
            tasks=tasks,
            contenders=contenders,
            horizon=horizon,
            seeds=range(seeds),
            n_jobs=jobs or -1,
            done=lambda: progress.advance(bar),
        )
    about = leaderboard.describe(horizon, time.perf_counter() - start, quick=quick, seeds=seeds)
    if earlier is not None:
        rows, about = earlier.joined(rows, about)
    data.write_text(leaderboard.to_json(rows, about))
    page.write_text(leaderboard.to_markdown(rows, about))
    console = Console()
    for table in leaderboard.rich_tables(rows, console.width):
        console.print(table)
    for line in leaderboard.caution(leaderboard.standings(rows)):
        console.print(line)
    _say(console, f"Written: {data} and {page}, after {about['seconds']} s.", soft_wrap=True)


def _named(names: list[str] | None, things: Sequence[Named], option: str) -> Sequence[Named]:
    """The things with these names, each once, or all; an unknown name ends the command with those that are known."""
    known = {thing.name: thing for thing in things}
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise typer.BadParameter(f"there is no {unknown[0]!r}; choose from {', '.join(known)}.", param_hint=option)
    return [known[name] for name in dict.fromkeys(names or known)]


@contextmanager
def _checking(option: str) -> Iterator[None]:
    """A ValueError within ends the command with its message, as a wrong value of this option."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def _make_room(*files: Path) -> None:
    """Make the folders of these files; ends the command, before any work is done, if one cannot be written."""
    for path in files:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            problem = f"the folder {path.parent} cannot be made: {error.strerror}."
            raise typer.BadParameter(problem, param_hint="--to") from None
        if path.is_dir():
            raise typer.BadParameter(f"{path} is a folder, not a file.", param_hint="--to")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise typer.BadParameter(f"{path} may not be written.", param_hint="--to")


@reproduce.callback()
def everything(
    context: typer.Context,
    to: Folder = Path("reproduction"),
    quick: Annotated[bool, typer.Option("--quick", help="A small version, in seconds.")] = False,
    jobs: Annotated[int, typer.Option(help="Number of processes; 0 for one on each core.")] = 0,
) -> None:
    """Make everything: table, figures, data and a page to look through. Finished runs are reused."""
    if context.invoked_subcommand is not None:
        return
    from conebandit.reproduce.everything import n_steps, reproduce_all  # noqa: PLC0415  (needs matplotlib, an extra)

    _make_room(to / "index.html")

    console = Console()
    start = time.perf_counter()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("compiling kernels", total=n_steps(quick))
        path = reproduce_all(
            to,
            quick=quick,
            n_jobs=jobs or os.cpu_count() or 1,
            step=lambda what: progress.update(task, advance=1, description=what),
        )
    _print_table(console, gap_table())
    _say(console, f"Done in {time.perf_counter() - start:.0f} s. Look at {path}", soft_wrap=True)


@reproduce.command()
def table(
    to: Annotated[Path | None, typer.Option("--to", help="Folder for the table as CSV.")] = None,
) -> None:
    """The gap table, beside the paper's figures; fails if an entry disagrees."""
    if to is not None:
        _make_room(to / "gap-table.csv")
    entries = gap_table()
    _print_table(Console(), entries)
    if to is not None:
        from conebandit.reproduce.everything import write_table  # noqa: PLC0415

        typer.echo(write_table(entries, to))
    if not all(e.agrees for e in entries):
        raise typer.Exit(1)


@reproduce.command()
def cones(to: Folder = Path("reproduction")) -> None:
    """The two panels of the paper's first figure."""
    from conebandit.reproduce.everything import draw_cones  # noqa: PLC0415

    _make_room(to / "cones.png", to / "cones.svg")
    for path in draw_cones(to):
        typer.echo(path)


@app.command()
def shift(
    source: Annotated[Path, typer.Argument(help="CSV or Parquet file: where was learned.")],
    target: Annotated[Path, typer.Argument(help="CSV or Parquet file: where it is to be used.")],
    columns: Annotated[
        str | None, typer.Option(help="Columns to compare, with commas between; all by default.")
    ] = None,
    to: Annotated[Path, typer.Option("--to", help="The page to write.")] = Path("shift.html"),
) -> None:
    """How far two samples are apart: which columns moved, dissimilarity, overlap, what a target row is worth."""
    from conebandit.diagnose.report import shift_report, write_page  # noqa: PLC0415
    from conebandit.diagnose.tables import TableError, read_pair  # noqa: PLC0415

    try:
        names = None if columns is None else [name.strip() for name in columns.split(",") if name.strip()]
        pair = read_pair(source, target, names)
    except TableError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    _make_room(to)
    report = shift_report(pair)
    console = Console()
    _print_rows(console, "Columns, those that moved most first", report.rows())
    _print_rows(console, "Dissimilarity over the radius h, all columns together", report.curve_rows())
    for sentence in report.sentences():
        _say(console, f"- {sentence}")
    _say(console, f"Look at {write_page(report, to, (source.name, target.name))}", soft_wrap=True)


@app.command()
def theory(
    to: Folder = Path("theory"),
    longest: Annotated[int, typer.Option(min=1600, help="The longest horizon.")] = 32_000,
    runs: Annotated[int, typer.Option(min=2, help="Runs of each point.")] = 5,
    paper: Annotated[bool, typer.Option("--paper", help="The policy as printed instead of the sound one.")] = False,
) -> None:
    """Measured regret against T, K, nu and rho, beside the bound as printed and the rate from first principles."""
    from conebandit import plots  # noqa: PLC0415  (needs matplotlib, an extra)
    from conebandit.reproduce.theory import POINTS, Preset, caption, panels  # noqa: PLC0415

    _make_room(to / "theory.png", to / "theory.svg")
    preset: Preset = "paper" if paper else "sound"
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("compiling kernels", total=POINTS)
        found = panels(
            longest=longest,
            runs=runs,
            preset=preset,
            step=lambda what: progress.update(task, advance=1, description=what),
        )
    rows = [["against", "measured", "Theorem 1 as printed", "first principles"]]
    rows += [
        [panel.name, *(f"{round(slope, 2) + 0.0:.2f} ± {error:.2f}" for slope, error in panel.slopes)]
        for panel in found
    ]
    _print_rows(console, "Slopes on log scales", rows)
    console.print(caption(preset, runs), highlight=False)
    for path in plots.save(plots.theory_figure(found, caption(preset, runs)), to / "theory"):
        _say(console, f"Look at {path}", soft_wrap=True)


service.add_to(app)


def _say(console: Console, text: str, *, soft_wrap: bool = False) -> None:
    """Print a text as it is: names of columns and files may look like markup or emoji."""
    console.print(Text(text), soft_wrap=soft_wrap)


def _print_rows(console: Console, title: str, rows: list[list[str]]) -> None:
    view = Table(title=title)
    for heading in rows[0]:
        view.add_column(heading)
    for row in rows[1:]:
        view.add_row(*map(Text, row))
    console.print(view)


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
