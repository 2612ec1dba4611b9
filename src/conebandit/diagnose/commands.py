"""The command ``conebandit shift``. It imports what it needs when it is called."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from conebandit.terminal import print_rows, require_writable, say, writing


def add_to(app: typer.Typer) -> None:
    """Add the command to ``conebandit``."""
    app.command()(shift)


def shift(
    source: Annotated[Path, typer.Argument(help="CSV or Parquet file: the sample that was learned from.")],
    target: Annotated[Path, typer.Argument(help="CSV or Parquet file: the sample on which it is to be used.")],
    columns: Annotated[
        str | None, typer.Option(help="Columns to compare, with commas between; all by default.")
    ] = None,
    outcomes: Annotated[
        str | None,
        typer.Option(
            help="Columns to leave out, with commas between: the arm, and what is known only after the choice."
        ),
    ] = None,
    experiment: Annotated[
        Path | None, typer.Option(help="A declaration (.toml or .json): only its context is compared, no outcomes.")
    ] = None,
    to: Annotated[Path, typer.Option("--to", help="The page to write.")] = Path("shift.html"),
) -> None:
    """How far two samples are apart: which columns moved, dissimilarity, overlap, what a target row is worth."""
    from conebandit.diagnose.page import write_page  # noqa: PLC0415
    from conebandit.diagnose.report import shift_report  # noqa: PLC0415
    from conebandit.diagnose.tables import TableError, read_pair  # noqa: PLC0415
    from conebandit.experiment.declaration import Experiment  # noqa: PLC0415
    from conebandit.experiment.errors import InvalidError  # noqa: PLC0415

    try:
        declared = None if experiment is None else Experiment.from_file(experiment)
        names = None if columns is None else _names(columns)
        pair = read_pair(source, target, names, outcomes=_names(outcomes or ""), experiment=declared)
    except (TableError, InvalidError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    require_writable(to)
    report = shift_report(pair)
    console = Console()
    print_rows(console, "Columns, those that moved most first", report.rows())
    print_rows(console, "Dissimilarity over the radius h, all columns together", report.curve_rows())
    for sentence in report.sentences():
        say(console, f"- {sentence}")
    with writing(to):
        say(console, f"Look at {write_page(report, to, (source.name, target.name))}", soft_wrap=True)


def _names(given: str) -> list[str]:
    """Names with commas between."""
    return [name.strip() for name in given.split(",") if name.strip()]
