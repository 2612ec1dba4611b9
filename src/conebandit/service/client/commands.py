"""The commands of the client: outbox. Each imports what it needs when it is called."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

outbox = typer.Typer(no_args_is_help=True, help="Outcomes that a client could not deliver.")

OutboxPath = Annotated[
    Path, typer.Argument(metavar="PATH", exists=True, dir_okay=False, help="The file that the client was given.")
]


@outbox.command("send")
def send_outbox(
    path: OutboxPath,
    address: Annotated[str, typer.Argument(help="Of the service, such as http://127.0.0.1:8000.")],
    key: Annotated[str | None, typer.Option(envvar="CONEBANDIT_KEY", help="Its API key, scope report.")] = None,
    timeout: Annotated[float, typer.Option(min=0.001, help="Seconds that a request may take.")] = 30.0,
) -> None:
    """Deliver what waits in an outbox. The exit code is 0 if the service took all of it."""
    from conebandit.service.client.courier import deliver  # noqa: PLC0415
    from conebandit.service.client.outbox import Outbox  # noqa: PLC0415
    from conebandit.service.client.transport import Site, Transport  # noqa: PLC0415

    box = Outbox(path)
    try:
        with closing(Transport(Site.at(address, key), retries=5)) as transport:
            made = deliver(box, transport, timeout)
    except (OSError, ValueError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    left = sum(1 for _ in box.entries())
    typer.echo(f"delivered {made.delivered}, refused {made.refused}, waiting {left}")
    if made.error is not None:
        typer.echo(made.error, err=True)
    if made.refused:
        typer.echo(f"what was refused is in {box.refused}", err=True)
    if left or made.refused:
        raise typer.Exit(1)


@outbox.command("show")
def show_outbox(path: OutboxPath) -> None:
    """How many outcomes wait, and what the service has refused, as JSON lines."""
    from conebandit.service.client.outbox import Outbox  # noqa: PLC0415

    box = Outbox(path)
    refusals = box.refusals()
    typer.echo(f"waiting: {sum(1 for _ in box.entries())}")
    typer.echo(f"refused: {len(refusals)}")
    for refusal in refusals:
        typer.echo(json.dumps(refusal))
