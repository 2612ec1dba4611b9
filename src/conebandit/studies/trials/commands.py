"""The commands ``conebandit trial``. They import what they need when they are called."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from conebandit.studies.study_commands import (
    Address,
    BackendName,
    Jobs,
    To,
    as_workers,
    caution,
    folder_for,
    running,
)
from conebandit.terminal import checking, require_writable, say

trial = typer.Typer(no_args_is_help=True, help="Simulate dose-finding trials, and report what designs would do.")

File = Annotated[Path, typer.Argument(metavar="TRIAL", help="What is simulated: a TOML file.")]
Reference = Annotated[str | None, typer.Option(help="The design to compare with; by default the first.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands to ``conebandit``."""
    app.add_typer(trial, name="trial")


@trial.command()
def simulate(
    file: File,
    trials: Annotated[
        int | None, typer.Option(min=1, help="Trials for each scenario, size and design; instead of the file's.")
    ] = None,
    to: To = None,
    backend: BackendName = "loky",
    address: Address = None,
    jobs: Jobs = 0,
    reference: Reference = None,
) -> None:
    """Simulate trials, or what is left of them, and write the report; finished trials are kept at once."""
    from conebandit.studies.study import execute  # noqa: PLC0415
    from conebandit.studies.trials.declaration import TRIAL  # noqa: PLC0415

    folder, workers = folder_for(file, to), as_workers(backend, address, jobs)
    instead = {} if trials is None else {"trials": trials}
    with running(folder), checking("TRIAL"):
        execute(file, folder, workers, progress=True, caution=caution, kind=TRIAL, instead=instead)
    _write(folder, folder / "report", reference)


@trial.command()
def check(file: File, to: To = None) -> None:
    """Say what would be simulated, whether all of it can be made, how much is done, and how long the rest will take."""
    from conebandit.studies.declaration import given_study, read_by  # noqa: PLC0415
    from conebandit.studies.estimate import estimate  # noqa: PLC0415
    from conebandit.studies.trials.declaration import TRIAL  # noqa: PLC0415

    with checking("TRIAL"):
        plan = read_by(TRIAL.read, file, *given_study(file))
        plan.try_all()
        lines = estimate(plan, folder_for(file, to), TRIAL)
    for line in lines:
        say(Console(), line, soft_wrap=True)


@trial.command()
def report(
    folder: Annotated[Path, typer.Argument(help="The folder of simulated trials.")],
    to: Annotated[Path | None, typer.Option("--to", help="Folder for the report; by default 'report' in it.")] = None,
    reference: Reference = None,
) -> None:
    """Write the page with operating characteristics; tables also as Markdown, CSV and LaTeX."""
    _write(folder, folder / "report" if to is None else to, reference)


def _write(folder: Path, target: Path, reference: str | None) -> None:
    from conebandit.studies.trials.report import write_report  # noqa: PLC0415
    from conebandit.studies.trials.results import TrialResults  # noqa: PLC0415

    with checking("FOLDER"):
        results = TrialResults(folder)
        require_writable(target / "index.html")
        found = write_report(results, target, reference=reference)
    names = ", ".join(path.name for path in found.tables)
    say(Console(), f"Look at {found.page}; tables are in {names}.", soft_wrap=True)
