"""``conebandit experiment``: what is done with experiments in a store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

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

experiment = typer.Typer(no_args_is_help=True, help="Experiments in a store of the service.")
HELD_AT_ONCE = 500  # events that are read at once


@experiment.command("create")
def create_experiment(
    declaration: Annotated[Path, typer.Argument(help="A .toml or .json file.")],
    store: StoreAddress = STORE,
    past: Annotated[
        Path | None, typer.Option(help="CSV or Parquet file of past rows, which the policy learns from first.")
    ] = None,
    seal_keys: SealKeys = None,
    actor: Actor = COMMAND_LINE,
) -> None:
    """Begin the experiment that a file declares."""
    from conebandit.experiment.declaration import Experiment  # noqa: PLC0415
    from conebandit.service.past import begin, read_past  # noqa: PLC0415

    with plain_refusals():
        declared = Experiment.from_file(declaration)
        rows = None if past is None else read_past(declared, past)
        by = by_actor(actor)
    with open_there(store, seal_keys, create=True) as opened:
        begin(opened, declared, rows, by)
    for warning in declared.warnings:
        typer.echo(f"Warning: {warning}", err=True)
    typer.echo(f"{declared.id}: {len(declared.arms)} arms, {len(declared.metrics)} metrics, mode {declared.mode}")
    if rows is not None:
        typer.echo(f"{declared.id}: learned from {len(rows.rows.arms)} rows of {rows.file}")


@experiment.command("list")
def list_experiments(store: StoreAddress = STORE) -> None:
    """Ids of all experiments and the length of their logs."""
    with open_there(store) as opened, opened.read() as session:
        for id_ in session.experiments():
            head = session.head(id_)
            typer.echo(f"{id_}: {0 if head is None else head.seq} events")


@experiment.command("show")
def show_experiment(id_: ExperimentId, store: StoreAddress = STORE, seal_keys: SealKeys = None) -> None:
    """Declaration, arms, mode and length of the log, as JSON."""
    from conebandit.service.copying import describe  # noqa: PLC0415

    with open_there(store, seal_keys) as opened:
        typer.echo(json.dumps(describe(opened, id_).to_dict(), indent=2))


@experiment.command("copy")
def copy_experiment(
    id_: ExperimentId,
    new: Annotated[str, typer.Argument(metavar="NEW", help="Id of the copy.")],
    changes: Annotated[
        Path | None, typer.Option(help="A .toml or .json file with entries of the declaration that are to be others.")
    ] = None,
    store: StoreAddress = STORE,
    seal_keys: SealKeys = None,
    actor: Actor = COMMAND_LINE,
) -> None:
    """Begin another experiment with the same declaration and the arms that can be served now; no data are copied."""
    from conebandit.experiment import entries  # noqa: PLC0415
    from conebandit.experiment.declaration import Experiment, read_table  # noqa: PLC0415
    from conebandit.service.copying import copied_declaration, describe  # noqa: PLC0415
    from conebandit.service.past import begin  # noqa: PLC0415

    with open_there(store, seal_keys) as opened:
        changed = {} if changes is None else entries.table(read_table(changes), "changes")
        declared = Experiment.from_dict(copied_declaration(describe(opened, id_), new, changed))
        begin(opened, declared, None, by_actor(actor))
    typer.echo(f"{declared.id}: {len(declared.arms)} arms, {len(declared.metrics)} metrics, mode {declared.mode}")


@experiment.command("held")
def list_held(id_: ExperimentId, store: StoreAddress = STORE) -> None:
    """Values that somebody must look at before they count, one line of JSON for each."""
    from conebandit.service.log.held import on_hold  # noqa: PLC0415

    with open_there(store) as opened:
        after, page = -1, on_hold(opened, id_, 0, HELD_AT_ONCE)
        while page.next > after:
            for value in page.held:
                typer.echo(json.dumps(value.to_dict()))
            after = page.next
            page = on_hold(opened, id_, after, HELD_AT_ONCE)


@experiment.command("export")
def export_experiment(
    id_: ExperimentId,
    to: Annotated[Path, typer.Option("--to", help="A file: .jsonl (the log, to be imported), .csv or .parquet.")],
    store: StoreAddress = STORE,
    seal_keys: SealKeys = None,
) -> None:
    """Write a log, or its decisions with their outcomes, to a file."""
    from conebandit.service.export import export  # noqa: PLC0415

    with open_there(store, seal_keys) as opened:
        parts = export(opened, id_, to.suffix.removeprefix("."))
        part = to.with_name(to.name + ".part")
        with part.open("wb") as file:
            file.writelines(parts)
        part.replace(to)
        with opened.read() as session:
            n_waiting = session.n_uploads(id_) if opened.shared else 0
    if n_waiting:
        typer.echo(
            f"Not in it: {n_waiting} uploads of edges. Start the service, which puts them into the log.", err=True
        )
    typer.echo(to)


@experiment.command("import")
def import_experiment(
    log: Annotated[Path, typer.Argument(help="A .jsonl file that was exported.")],
    store: StoreAddress = STORE,
    seal_keys: SealKeys = None,
    actor: Actor = COMMAND_LINE,
) -> None:
    """Read a log that was exported; every event is checked, nothing is overwritten, nobody waits."""
    from conebandit.service.log.restore import restore  # noqa: PLC0415
    from conebandit.service.stores.records import from_lines  # noqa: PLC0415

    with (
        plain_refusals(),
        log.open(encoding="utf-8", newline="\n") as file,
        open_there(store, seal_keys, create=True) as opened,
    ):
        typer.echo(restore(opened, from_lines(file, opened.seals), by_actor(actor)))


@experiment.command("seal")
def seal_experiment(
    ids: Annotated[list[str] | None, typer.Argument(help="Ids; all by default.")] = None,
    store: StoreAddress = STORE,
    seal_keys: SealKeys = None,
    actor: Annotated[str, typer.Option(help="Who vouches for what the logs hold.")] = COMMAND_LINE,
) -> None:
    """Seal logs with the current key that were begun without one, or with an earlier one. Verify them first.

    Unless experiments are named, the log of the store itself, too.
    """
    from conebandit.service.engine.adopt import adopt, adopt_operations  # noqa: PLC0415
    from conebandit.service.engine.clock import plausible_now  # noqa: PLC0415
    from conebandit.service.log.entries import as_actor  # noqa: PLC0415

    with open_there(store, seal_keys) as opened:
        who = as_actor(actor, "--actor")
        with opened.read() as session:
            wanted = ids or session.experiments()
        for id_ in wanted:
            head = adopt(opened, id_, who, plausible_now(opened))
            how = "is sealed with this key already" if head is None else f"sealed at event {head.seq}: {head.check}"
            typer.echo(f"{id_}: {how}")
        sealed = None if ids else adopt_operations(opened, who)
        if sealed is not None:
            typer.echo(f"the log of the store: sealed at event {sealed.seq}: {sealed.check}")


@experiment.command("repair-clock")
def repair_experiment(
    id_: ExperimentId,
    reason: Annotated[str, typer.Option(help="What had happened; it is kept in the log.")],
    store: StoreAddress = STORE,
    seal_keys: SealKeys = None,
    actor: Actor = COMMAND_LINE,
    after: Annotated[
        int | None,
        typer.Option(help="Position of the last event with a right date; by default the last not dated after now."),
    ] = None,
) -> None:
    """Let a log go on from now that a wrong clock has dated ahead. The clock of this machine must be right."""
    from conebandit.service.engine.clock import plausible_now  # noqa: PLC0415
    from conebandit.service.engine.repair import repair_clock  # noqa: PLC0415
    from conebandit.service.log.entries import as_actor  # noqa: PLC0415

    with open_there(store, seal_keys) as opened:
        who = as_actor(actor, "--actor")
        repaired = repair_clock(opened, id_, reason, who, now=plausible_now(opened), after=after)
    typer.echo(f"{id_}: dates after event {repaired.after} are repaired")


@experiment.command("audit")
def audit_experiment(
    id_: Annotated[
        str | None, typer.Argument(metavar="ID", help="Id; without: what was done to the store itself.")
    ] = None,
    actor: Annotated[str | None, typer.Option(help="Only what this actor caused.")] = None,
    key_name: Annotated[str | None, typer.Option("--key", help="Only what came with the API key of this name.")] = None,
    kind: Annotated[list[str] | None, typer.Option(help="Only events of this kind; repeat for several.")] = None,
    since: Annotated[str | None, typer.Option("--from", help="A date or time, ISO 8601; UTC without a zone.")] = None,
    until: Annotated[str | None, typer.Option("--to", help="Only what was before this time.")] = None,
    store: StoreAddress = STORE,
    seal_keys: SealKeys = None,
) -> None:
    """Who did what, and when, as JSON lines: in an experiment, or to API keys and by imports."""
    from conebandit.service.audit import Wanted, milliseconds, whole_audit, whole_store_audit  # noqa: PLC0415

    with plain_refusals():
        times = [None if t is None else milliseconds(t, n) for t, n in ((since, "--from"), (until, "--to"))]
    wanted = Wanted(actor, key_name, kind or (), *times)
    with open_there(store, seal_keys) as opened:
        found = whole_store_audit(opened, wanted) if id_ is None else whole_audit(opened, id_, wanted)
        for event in found:
            typer.echo(json.dumps(event.to_dict()))
