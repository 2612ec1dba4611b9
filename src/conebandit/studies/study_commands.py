"""The commands ``conebandit study``. They import what they need when they are called."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from conebandit.terminal import checking, failing, print_rows, require_writable, say

if TYPE_CHECKING:
    from conebandit.studies.pool import Workers

study = typer.Typer(no_args_is_help=True, help="Run many policies in many environments, and report on them.")

File = Annotated[Path, typer.Argument(metavar="STUDY", help="The study: a TOML file.")]
BackendName = Annotated[
    str,
    typer.Option(
        "--backend", help="Where runs are made: loky or threads (this machine), dask, ray, or sequential (to debug)."
    ),
]
Address = Annotated[str | None, typer.Option(help="Of a Dask scheduler or a Ray cluster; started if not given.")]
Jobs = Annotated[int, typer.Option(min=0, help="Number of processes or threads; 0 for one on each core.")]
To = Annotated[Path | None, typer.Option("--to", help="Folder of results; by default named as the file, beside it.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands to ``conebandit``."""
    app.add_typer(study, name="study")


@study.command()
def run(
    file: File,
    to: To = None,
    backend: BackendName = "loky",
    address: Address = None,
    jobs: Jobs = 0,
) -> None:
    """Run a study, or what is left of it; finished runs are kept at once, and never made again."""
    from conebandit.studies.study import execute  # noqa: PLC0415

    console, folder = Console(), folder_for(file, to)
    workers = as_workers(backend, address, jobs)
    with running(folder), checking("STUDY"):
        found = execute(file, folder, workers, progress=True, caution=caution)
    say(console, f"All {found} runs are in {folder}. See: conebandit study report {folder}", soft_wrap=True)


@study.command()
def check(file: File, to: To = None) -> None:
    """Say what a study would run, whether all of it can be made, how much is done, and how long the rest will take."""
    from conebandit.studies.declaration import read_plan  # noqa: PLC0415
    from conebandit.studies.estimate import estimate  # noqa: PLC0415

    console = Console()
    with checking("STUDY"):
        plan = read_plan(file)
        plan.try_all()
        lines = estimate(plan, folder_for(file, to))
    for line in lines:
        say(console, line, soft_wrap=True)


def folder_for(file: Path, to: Path | None) -> Path:
    """Where results go: by default a folder named as the file, beside it."""
    return file.with_suffix("") if to is None else to


def as_workers(backend: str, address: str | None, jobs: int) -> Workers:
    """Where runs are made, from the options of a command."""
    from conebandit.studies.pool import Workers  # noqa: PLC0415

    with checking("--backend"):
        return Workers(backend, jobs, address)  # type: ignore[arg-type]  # it checks the name


@contextmanager
def running(folder: Path) -> Iterator[None]:
    """Within, runs are made: an interruption, or runs that fail, end the command with a sentence."""
    try:
        with failing():
            yield
    except KeyboardInterrupt:
        typer.echo(f"Stopped. Finished runs are kept in {folder}; the same command goes on with the others.", err=True)
        raise typer.Exit(130) from None


def caution(text: str) -> None:
    """Say what may make results differ from earlier ones."""
    typer.echo(f"Caution: {text}", err=True)


Results = Annotated[Path, typer.Argument(help="The folder of a study.")]
Series = Annotated[
    list[str] | None, typer.Option(help="A series to show (repeat for more); by default those with curves.")
]


@study.command()
def report(
    folder: Results,
    to: Annotated[Path | None, typer.Option("--to", help="Folder for the report; by default 'report' in it.")] = None,
    reference: Annotated[str | None, typer.Option(help="The policy to compare with; by default the first.")] = None,
    series: Series = None,
) -> None:
    """Write a page with curves, averages and paired differences; tables also as Markdown, CSV and LaTeX."""
    from conebandit.studies.report import write_report  # noqa: PLC0415  (needs matplotlib, an extra)
    from conebandit.studies.results import Results as Loaded  # noqa: PLC0415

    target = folder / "report" if to is None else to
    with checking("FOLDER"):
        results = Loaded(folder)
        require_writable(target / "index.html")
        found = write_report(results, target, reference=reference, series=series or ())
    say(
        Console(),
        f"Look at {found.page}; tables are in {', '.join(path.name for path in found.tables)}.",
        soft_wrap=True,
    )


@study.command()
def compare(
    first: Annotated[Path, typer.Argument(help="The folder of a study.")],
    second: Annotated[Path, typer.Argument(help="The folder of another one, from which the first is subtracted.")],
    series: Series = None,
    to: Annotated[Path | None, typer.Option("--to", help="Folder for the table as Markdown, CSV and LaTeX.")] = None,
) -> None:
    """What two studies have in common: the second minus the first, seed by seed, with intervals."""
    from conebandit.studies.comparison import compare as compared  # noqa: PLC0415
    from conebandit.studies.results import Results as Loaded  # noqa: PLC0415
    from conebandit.studies.tables import difference_rows, write_tables  # noqa: PLC0415

    console = Console()
    with checking("SECOND"):
        one, other = Loaded(first), Loaded(second)
        found = compared(one, other, series or one.plan.recipe.curves or ("play",))
    rows = difference_rows(found.differences, "second minus first")
    print_rows(console, "Paired differences", rows)
    for line in found.words:
        say(console, line, soft_wrap=True)
    if to is not None:
        require_writable(to / "comparison.md")
        for path in write_tables(to / "comparison", rows, found.differences):
            say(console, f"Written: {path}", soft_wrap=True)
