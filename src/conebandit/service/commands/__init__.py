"""The commands of the service. Each imports what it needs when it is called."""

from __future__ import annotations

import typer

from conebandit.service.client.commands import outbox
from conebandit.service.commands import stages  # noqa: F401  (more commands on experiments)
from conebandit.service.commands.erasing import erase
from conebandit.service.commands.experiments import experiment
from conebandit.service.commands.keys import key, seal_key
from conebandit.service.commands.reporting import report
from conebandit.service.commands.serving import serve
from conebandit.service.commands.verifying import verify
from conebandit.service.demo.commands import demo


def add_to(app: typer.Typer) -> None:
    """Let the ``conebandit`` command have these."""
    app.command()(serve)
    app.command()(demo)
    app.command()(verify)
    app.command()(report)
    app.command()(erase)
    app.add_typer(experiment, name="experiment")
    app.add_typer(key, name="key")
    app.add_typer(seal_key, name="seal-key")
    app.add_typer(outbox, name="outbox")
