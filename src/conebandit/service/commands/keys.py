"""``conebandit key`` and ``conebandit seal-key``: who may ask, and what logs are sealed with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from conebandit.service.commands.options import (
    COMMAND_LINE,
    STORE,
    Actor,
    SealKeys,
    StoreAddress,
    by_actor,
    open_there,
    plain_refusals,
)

key = typer.Typer(no_args_is_help=True, help="API keys of the service.")
seal_key = typer.Typer(no_args_is_help=True, help="Keys that logs are sealed with (docs/threat-model.md).")


@seal_key.command("new")
def new_seal_key(
    file: Annotated[
        Path | None, typer.Argument(help="Put it at the end of this file, made if missing; printed by default.")
    ] = None,
    id_: Annotated[str | None, typer.Option("--id", help="Its id; a random one by default.")] = None,
) -> None:
    """Make a key. The last one of a file seals; those before it stay, since they check what they have sealed."""
    from conebandit.service.stores.seals import add_key, new_key  # noqa: PLC0415

    with plain_refusals():
        line = new_key(id_)
        if file is None:
            typer.echo(line)
        else:
            add_key(file, line)
            typer.echo(f"{file}: logs are sealed with key {line.partition(':')[0]} from the next start on")


@key.command("create")
def create_key(
    name: Annotated[str, typer.Argument(help="What it is for.")],
    scope: Annotated[list[str], typer.Option("--scope", help="decide, report, read or admin; repeat for several.")],
    experiments: Annotated[
        list[str] | None,
        typer.Option("--experiment", help="Id of one that it is for; repeat for several. All if none."),
    ] = None,
    expires: Annotated[str, typer.Option(help="When: 90d from now, or a date (UTC). Never by default.")] = "",
    rate: Annotated[
        str, typer.Option(help="Decisions and outcomes that it may ask a process for, such as 100/s.")
    ] = "",
    store: StoreAddress = STORE,
    seal_keys: SealKeys = None,
    actor: Actor = COMMAND_LINE,
) -> None:
    """Make an API key and print it; it is shown this once and stored as a hash."""
    from conebandit.service.http import keys  # noqa: PLC0415

    with open_there(store, seal_keys, create=True) as opened, opened.write() as session:
        made = keys.create_key(
            session, name, scope, experiments=experiments or (), expires=expires, rate=rate, by=by_actor(actor)
        )
    typer.echo(made)


@key.command("list")
def list_keys(store: StoreAddress = STORE) -> None:
    """Every API key: id, scopes, when it was made, its terms, when it was last used (to the minute), and its name."""
    with open_there(store) as opened, opened.read() as session:
        for row in session.api_keys():
            terms = [
                f"experiments {row.experiments}" if row.experiments else "",
                f"rate {row.rate}" if row.rate else "",
            ]
            terms += [f"expires {row.expires}" if row.expires else "", f"used {row.used}" if row.used else "never used"]
            typer.echo("  ".join([row.id, row.scopes, row.created, *filter(None, terms), row.name]))


@key.command("revoke")
def revoke_key(
    id_: Annotated[str, typer.Argument(metavar="ID", help="Id of the key; 'key list' has it.")],
    store: StoreAddress = STORE,
    seal_keys: SealKeys = None,
    actor: Actor = COMMAND_LINE,
) -> None:
    """Make an API key worthless, within a second."""
    from conebandit.service.http import keys  # noqa: PLC0415

    with open_there(store, seal_keys) as opened, opened.write() as session:
        found = keys.revoke_key(session, id_, by_actor(actor))
    if not found:
        typer.echo(f"there is no key {id_!r}.", err=True)
        raise typer.Exit(1)
    typer.echo(f"{id_} is revoked")
