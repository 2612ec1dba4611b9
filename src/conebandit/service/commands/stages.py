"""``conebandit experiment stage``, ``change``, ``lift``, ``rules`` and ``archive``: the life of an experiment."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from conebandit.service.commands.experiments import experiment
from conebandit.service.commands.options import (
    COMMAND_LINE,
    STORE,
    Actor,
    ExperimentId,
    SealKeys,
    StoreAddress,
    by_actor,
    open_there,
    plain_refusals,
)

if TYPE_CHECKING:
    from conebandit.service.engine.turn import Turn
    from conebandit.service.replies import Reply

Reason = Annotated[str, typer.Option(help="Why; it is kept in the log.")]


def _in_turn(
    where: str, seal_keys: Path | None, id_: str, work: Callable[[Turn], Reply], actor: str = COMMAND_LINE
) -> dict[str, Any]:
    """Do something to an experiment in a store. What takes long, a service that runs on it does, or the next start."""
    from conebandit.service.engine.clock import plausible_now  # noqa: PLC0415
    from conebandit.service.engine.ledger import Ledger  # noqa: PLC0415
    from conebandit.service.engine.turn import Turn  # noqa: PLC0415
    from conebandit.service.engine.writer import MAX_REPLAYED  # noqa: PLC0415
    from conebandit.service.log.replay import read_to_head  # noqa: PLC0415

    ledger = Ledger(MAX_REPLAYED)
    with open_there(where, seal_keys) as store:
        state = read_to_head(store.read, id_)
        if state is not None:
            ledger.put(state)
        with ledger.transaction(store, plausible_now(store)) as transaction:
            return work(Turn(transaction, by_actor(actor))).to_dict()


@experiment.command("stage")
def change_stage(
    id_: ExperimentId,
    stage: Annotated[str, typer.Argument(metavar="STAGE", help="running, paused or ended.")],
    reason: Reason,
    store: StoreAddress = STORE,
    seal_keys: SealKeys = None,
    actor: Actor = COMMAND_LINE,
) -> None:
    """Begin a draft, pause, go on, or end for good."""
    described = _in_turn(store, seal_keys, id_, lambda turn: turn.set_stage(id_, stage, reason), actor)
    typer.echo(f"{id_}: {described['stage']}")


@experiment.command("change")
def change_experiment(
    id_: ExperimentId,
    changes: Annotated[Path, typer.Argument(help="A .toml or .json file with the entries that are replaced.")],
    reason: Reason,
    store: StoreAddress = STORE,
    seal_keys: SealKeys = None,
    actor: Actor = COMMAND_LINE,
) -> None:
    """Declare policy, cone, resolution or rules otherwise; the policy learns the whole log anew."""
    from conebandit.experiment.declaration import read_table  # noqa: PLC0415

    with plain_refusals():
        given = read_table(changes)
    described = _in_turn(store, seal_keys, id_, lambda turn: turn.change(id_, given, reason), actor)
    typer.echo(f"{id_}: changed{', and being folded anew' if described['revising'] else ''}")


@experiment.command("lift")
def lift_rule(
    id_: ExperimentId,
    rule: Annotated[str, typer.Argument(metavar="RULE", help="Name of the rule.")],
    reason: Reason,
    then: Annotated[str, typer.Option(help="restart: it begins anew; disable: it is off.")] = "restart",
    store: StoreAddress = STORE,
    seal_keys: SealKeys = None,
    actor: Actor = COMMAND_LINE,
) -> None:
    """End what a safety rule has stopped."""
    described = _in_turn(store, seal_keys, id_, lambda turn: turn.lift(id_, rule, reason, then), actor)
    typer.echo(f"{id_}: stopped by {', '.join(described['stopped']) or 'no rule'}")


@experiment.command("rules")
def show_rules(id_: ExperimentId, store: StoreAddress = STORE, seal_keys: SealKeys = None) -> None:
    """What each safety rule has seen, as JSON."""
    typer.echo(json.dumps(_in_turn(store, seal_keys, id_, lambda turn: turn.rules(id_)), indent=2))


@experiment.command("archive")
def archive_experiment(
    id_: ExperimentId,
    to: Annotated[Path, typer.Argument(metavar="FILE", help="A .jsonl file that is not there yet.")],
    store: StoreAddress = STORE,
    seal_keys: SealKeys = None,
    actor: Actor = COMMAND_LINE,
) -> None:
    """Write an experiment that has ended to a file, check that it can be imported, and remove it from the store."""
    from conebandit.service.archive import archive  # noqa: PLC0415

    with open_there(store, seal_keys) as opened:
        head = archive(opened, id_, to, by_actor(actor))
    typer.echo(f"{to}: {head.seq} events, {head.check}")
