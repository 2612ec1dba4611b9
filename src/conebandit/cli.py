"""The ``conebandit`` command. Thin: each room brings its own commands, in its file or folder ``commands``."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from conebandit._version import __version__
from conebandit.diagnose import commands as diagnose
from conebandit.evaluation import commands as evaluation
from conebandit.experiment import commands as experiment
from conebandit.reproduce import commands as reproduce
from conebandit.service import commands as service
from conebandit.studies import commands as studies

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)


def main() -> None:
    """Entry point of the command."""
    app()


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"conebandit {__version__}")
        raise typer.Exit


@app.callback()
def conebandit(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Choose actions that are judged by several metrics at once, for a population that shifts.

    Serve a policy over HTTP, compare policies, judge them from a log, reproduce the paper, and see how far two samples
    are apart.
    """


@app.command()
def warm(
    jobs: Annotated[int, typer.Option(help="Number of processes; 0 for one on each core.")] = 0,
) -> None:
    """Compile everything that is compiled on first use, so that no run, decision or server has to wait for it."""
    from conebandit.kernels.compile import kept_in  # noqa: PLC0415
    from conebandit.warm import compile_all  # noqa: PLC0415  (imports everything)

    folder = kept_in()
    if folder is None:
        typer.echo(
            "Nothing was compiled: there is no folder to keep machine code in. Neither the package's own nor the "
            "user's cache can be written; set NUMBA_CACHE_DIR to a folder that can.",
            err=True,
        )
        raise typer.Exit(1)
    start = time.perf_counter()
    kernels = compile_all(n_jobs=jobs or -1)
    if kernels:
        typer.echo(f"Compiled {len(kernels)} kernels in {time.perf_counter() - start:.0f} s; they are in {folder}.")
    else:
        typer.echo(f"Nothing was left to compile: all kernels are in {folder}.")


for room in (studies, evaluation, diagnose, reproduce, experiment, service):
    room.add_to(app)
