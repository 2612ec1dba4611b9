"""``conebandit erase``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from conebandit.service.commands.options import (
    COMMAND_LINE,
    STORE,
    Actor,
    StoreAddress,
    by_actor,
    open_there,
)

if TYPE_CHECKING:
    from conebandit.service.replies import Erasure


def erase(
    experiment_id: Annotated[
        str | None, typer.Option("--experiment", help="Id of the experiment; with --list: only of this one.")
    ] = None,
    unit: Annotated[
        list[str] | None, typer.Option(help="The unit to forget, as callers call it; repeat for several.")
    ] = None,
    reason: Annotated[str | None, typer.Option(help="Kept in the log: nothing about the unit.")] = None,
    again: Annotated[
        Path | None, typer.Option(help="A list of erasures, to be carried out in a restored backup.")
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="Print all erasures, as JSON lines, to be kept elsewhere.")
    ] = False,
    vacuum: Annotated[bool, typer.Option(help="Then write the tables anew; everybody else waits meanwhile.")] = False,
    store: StoreAddress = STORE,
    actor: Actor = COMMAND_LINE,
) -> None:
    """Forget a unit: remove its data from the store, and have the policy learn anew without them (docs/erasure.md)."""
    from conebandit.service import erasure  # noqa: PLC0415

    if not any((unit, again, list_, vacuum)) or (unit and None in (experiment_id, reason)):
        raise typer.BadParameter("give --experiment, --unit and --reason, or --again, --list or --vacuum.")
    done: list[Erasure] = []
    with open_there(store) as opened:
        if again:
            done = erasure.erase_again(store, again, by_actor(actor))
        if unit:
            done += erasure.erase_units(store, str(experiment_id), unit, str(reason), by_actor(actor))
        if vacuum:
            opened.vacuum()
        lines = erasure.listed(opened, experiment_id) if list_ else map(_what_was_erased, done)
        typer.echo("".join(f"{line}\n" for line in lines), nl=False)
    if None in [one.unit for one in done]:
        raise typer.Exit(1)


def _what_was_erased(done: Erasure) -> str:
    return f"{done.experiment}: {done.decisions} decisions of {done.unit or 'no unit that is known'} erased"
