"""The ``conebandit`` command. Thin: it reads options, calls the library and prints."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from conebandit import __version__
from conebandit.reproduce.table import Entry, gap_table

if TYPE_CHECKING:
    from conebandit.service.store import Store

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__, rich_markup_mode=None)
reproduce = typer.Typer(invoke_without_command=True, help="Reproduce the paper's tables and figures.")
app.add_typer(reproduce, name="reproduce")
experiment = typer.Typer(no_args_is_help=True, help="Experiments in a store of the service.")
app.add_typer(experiment, name="experiment")
key = typer.Typer(no_args_is_help=True, help="API keys of the service.")
app.add_typer(key, name="key")

Folder = Annotated[Path, typer.Option("--to", help="Folder for figures and data; made if it is missing.")]

StoreAddress = Annotated[
    str,
    typer.Option("--store", envvar="CONEBANDIT_STORE", help="A path (SQLite) or an address postgresql://..."),
]
STORE = "conebandit.db"


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
    """Contextual bandits with vector rewards, a preference cone and a shifting population."""


@app.command()
def bench(
    to: Folder = Path("bench"),
    quick: Annotated[bool, typer.Option("--quick", help="One seed and 22,000 rounds: about a minute.")] = False,
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds.")] = 10,
    horizon: Annotated[int, typer.Option(min=1, help="Rounds of a run.")] = 50_000,
    jobs: Annotated[int, typer.Option(help="Number of processes; 0 for one on each core.")] = 0,
    policy: Annotated[list[str] | None, typer.Option(help="Only this policy (repeat for more).")] = None,
    task: Annotated[list[str] | None, typer.Option(help="Only this environment (repeat for more).")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep runs of other policies that are in the folder.")] = False,
) -> None:
    """Compare policies over the suite of environments; prints and writes a leaderboard (JSON and Markdown)."""
    from conebandit.experiments import bench as runs  # noqa: PLC0415  (compiles many kernels)
    from conebandit.experiments import leaderboard, suite  # noqa: PLC0415

    contenders = _named(policy, runs.CONTENDERS, "--policy")
    tasks = _named(task, (*suite.SUITE, *suite.EXTRA), "--task") if task else suite.SUITE
    if quick:
        seeds, horizon = 1, runs.QUICK_HORIZON
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
    if keep:
        rows, about = leaderboard.join(to / "leaderboard.json", rows, about)
    to.mkdir(parents=True, exist_ok=True)
    (to / "leaderboard.json").write_text(leaderboard.to_json(rows, about))
    (to / "leaderboard.md").write_text(leaderboard.to_markdown(rows, about))
    console = Console()
    for table in leaderboard.rich_tables(rows):
        console.print(table)
    console.print(f"Written: {to / 'leaderboard.json'} and {to / 'leaderboard.md'}, after {about['seconds']} s.")


def _named(names: list[str] | None, things: Sequence[Named], option: str) -> Sequence[Named]:
    """The things with these names, or all; an unknown name ends the command with a list of the known ones."""
    known = {thing.name: thing for thing in things}
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise typer.BadParameter(f"there is no {unknown[0]!r}; choose from {', '.join(known)}.", param_hint=option)
    return [known[name] for name in names or known]


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
    console.print(f"Done in {time.perf_counter() - start:.0f} s. Look at {path}", soft_wrap=True)


@reproduce.command()
def table(to: Annotated[Path | None, typer.Option("--to", help="Also write the table as CSV here.")] = None) -> None:
    """The gap table, beside the paper's figures; fails if an entry disagrees."""
    entries = gap_table()
    _print_table(Console(), entries)
    if to is not None:
        from conebandit.reproduce.everything import write_table  # noqa: PLC0415

        to.mkdir(parents=True, exist_ok=True)
        typer.echo(write_table(entries, to))
    if not all(e.agrees for e in entries):
        raise typer.Exit(1)


@reproduce.command()
def cones(to: Folder = Path("reproduction")) -> None:
    """The two panels of the paper's first figure."""
    from conebandit.reproduce.everything import draw_cones  # noqa: PLC0415

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
        report = shift_report(read_pair(source, target, names))
    except TableError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    console = Console()
    _print_rows(console, "Columns, those that moved most first", report.rows())
    _print_rows(console, "Dissimilarity over the radius h, all columns together", report.curve_rows())
    for sentence in report.sentences():
        console.print(f"- {sentence}", highlight=False, markup=False)
    console.print(f"Look at {write_page(report, to, (source.name, target.name))}", soft_wrap=True)


@app.command()
def theory(
    to: Folder = Path("theory"),
    longest: Annotated[int, typer.Option(min=1600, help="The longest horizon.")] = 32_000,
    runs: Annotated[int, typer.Option(min=2, help="Runs of each point.")] = 5,
    paper: Annotated[bool, typer.Option("--paper", help="The policy as printed instead of the sound one.")] = False,
) -> None:
    """Measured regret against T, K, nu and rho, beside the bound as printed and the rate from first principles."""
    from conebandit import plots  # noqa: PLC0415  (needs matplotlib, an extra)
    from conebandit.diagnose.theory import POINTS, Preset, caption, panels  # noqa: PLC0415

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
        console.print(f"Look at {path}", soft_wrap=True)


# ---- the service ----------------------------------------------------------------------------------------------------


@contextmanager
def _store(where: str) -> Iterator[Store]:
    """The store; what it or the service refuses is printed without a stack trace."""
    from conebandit.service.errors import ServiceError  # noqa: PLC0415
    from conebandit.service.store import open_store  # noqa: PLC0415

    try:
        store = open_store(where)
        try:
            yield store
        finally:
            store.close()
    except ServiceError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None


@app.command()
def serve(
    store: StoreAddress = STORE,
    host: Annotated[str, typer.Option(help="Where to listen; beyond this machine only with API keys.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on.")] = 8000,
) -> None:
    """Serve decisions over HTTP (docs/service.md)."""
    from conebandit.service.errors import ServiceError  # noqa: PLC0415

    try:
        from conebandit.service import server  # noqa: PLC0415  (needs FastAPI, an extra)
    except ModuleNotFoundError as error:
        typer.echo(f"The service needs {error.name}: pip install 'conebandit[service]'.", err=True)
        raise typer.Exit(1) from None
    typer.echo(f"Serving on http://{host}:{port} (its pages: /docs); stop with Ctrl-C.")
    try:
        server.serve(store, host, port)
    except (ServiceError, OSError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None


@app.command()
def verify(
    experiments: Annotated[list[str] | None, typer.Argument(help="Ids; all by default.")] = None,
    store: StoreAddress = STORE,
    server: Annotated[
        str | None, typer.Option(help="Also compare with the state of the service at this address.")
    ] = None,
    api_key: Annotated[
        str | None, typer.Option("--key", envvar="CONEBANDIT_KEY", help="Its API key, scope read.")
    ] = None,
) -> None:
    """Rebuild each experiment from its first event, and compare with decisions, snapshots and a running service."""
    from conebandit.service.client import Client, ClientError  # noqa: PLC0415
    from conebandit.service.verify import verify as verify_one  # noqa: PLC0415

    good = True
    with _store(store) as opened:
        with opened.read() as session:
            ids = experiments or session.experiments()
        for id_ in ids:
            try:
                served = None if server is None else Client(server, key=api_key).state(id_)
            except (ClientError, ValueError) as error:
                typer.echo(f"{id_}: {error}", err=True)
                raise typer.Exit(1) from None
            with opened.read() as session:
                report = verify_one(session, id_, served)
            good &= report.agrees
            compared = f"{report.recomputed} of {report.decisions} decisions and {report.snapshots} snapshots compared"
            verdict = "agrees" if report.agrees else "DISAGREES"
            typer.echo(f"{id_}: {report.events} events, {compared}, state {report.state}, {verdict}")
            for problem in report.problems:
                typer.echo(f"  {problem}", err=True)
    if not good:
        raise typer.Exit(1)


@experiment.command("create")
def create_experiment(
    declaration: Annotated[Path, typer.Argument(help="A .toml or .json file.")], store: StoreAddress = STORE
) -> None:
    """Begin the experiment that a file declares."""
    from conebandit.service.engine import Engine, Turn  # noqa: PLC0415
    from conebandit.service.experiment import Experiment  # noqa: PLC0415

    with _store(store) as opened:
        declared = Experiment.from_file(declaration)
        with opened.write() as session:
            turn = Turn(Engine(), session, time.time_ns() // 1_000_000)
            turn.create(declared)
            turn.finish()
    typer.echo(f"{declared.id}: {len(declared.arms)} arms, {len(declared.metrics)} metrics, mode {declared.mode}")


@experiment.command("list")
def list_experiments(store: StoreAddress = STORE) -> None:
    """Ids of all experiments and the length of their logs."""
    with _store(store) as opened, opened.read() as session:
        for id_ in session.experiments():
            head = session.head(id_)
            typer.echo(f"{id_}: {0 if head is None else head.seq} events")


@experiment.command("show")
def show_experiment(id_: Annotated[str, typer.Argument(metavar="ID")], store: StoreAddress = STORE) -> None:
    """Declaration, arms, mode and length of the log, as JSON."""
    from conebandit.service.engine import Engine, Turn  # noqa: PLC0415

    with _store(store) as opened, opened.write() as session:
        typer.echo(json.dumps(Turn(Engine(), session, 0).describe(id_), indent=2))


@experiment.command("export")
def export_experiment(
    id_: Annotated[str, typer.Argument(metavar="ID")],
    to: Annotated[Path, typer.Option("--to", help="A file: .jsonl (the log, to be imported), .csv or .parquet.")],
    store: StoreAddress = STORE,
) -> None:
    """Write a log, or its decisions with their outcomes, to a file."""
    from conebandit.service.tables import export  # noqa: PLC0415

    with _store(store) as opened:
        parts = export(opened, id_, to.suffix.removeprefix("."))
        part = to.with_name(to.name + ".part")
        with part.open("wb") as file:
            file.writelines(parts)
        part.replace(to)
    typer.echo(to)


@experiment.command("import")
def import_experiment(
    log: Annotated[Path, typer.Argument(help="A .jsonl file that was exported.")], store: StoreAddress = STORE
) -> None:
    """Read a log that was exported; every event is checked, and nothing is overwritten."""
    from conebandit.service.engine import restore  # noqa: PLC0415
    from conebandit.service.events import from_lines  # noqa: PLC0415

    with (
        _store(store) as opened,
        log.open(encoding="utf-8", newline="\n") as file,
        opened.write() as session,
    ):
        typer.echo(restore(session, from_lines(file)))


@key.command("create")
def create_key(
    name: Annotated[str, typer.Argument(help="What it is for.")],
    scope: Annotated[list[str], typer.Option("--scope", help="decide, report, read or admin; repeat for several.")],
    store: StoreAddress = STORE,
) -> None:
    """Make an API key and print it; it is shown this once and stored as a hash."""
    from conebandit.service import keys  # noqa: PLC0415

    with _store(store) as opened, opened.write() as session:
        made = keys.create_key(session, name, scope)
    typer.echo(made)


@key.command("list")
def list_keys(store: StoreAddress = STORE) -> None:
    """Id, name, scopes and date of every API key."""
    with _store(store) as opened, opened.read() as session:
        for row in session.api_keys():
            typer.echo(f"{row.id}  {row.scopes}  {row.created}  {row.name}")


@key.command("revoke")
def revoke_key(id_: Annotated[str, typer.Argument(metavar="ID")], store: StoreAddress = STORE) -> None:
    """Make an API key worthless, within a second."""
    with _store(store) as opened, opened.write() as session:
        found = session.remove_key(id_)
    if not found:
        typer.echo(f"there is no key {id_!r}.", err=True)
        raise typer.Exit(1)
    typer.echo(f"{id_} is revoked")


def _print_rows(console: Console, title: str, rows: list[list[str]]) -> None:
    view = Table(title=title)
    for heading in rows[0]:
        view.add_column(heading)
    for row in rows[1:]:
        view.add_row(*row)
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
