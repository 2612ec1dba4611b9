"""The ``conebandit`` command. Thin: each room brings its own commands, in its file ``commands.py``."""

from __future__ import annotations

from typing import Annotated

import typer

from conebandit import __version__
from conebandit.diagnose import commands as diagnose
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

    Serve a policy over HTTP, compare policies, reproduce the paper, and see how far two samples are apart.
    """


for room in (studies, diagnose, reproduce, service):
    room.add_to(app)
