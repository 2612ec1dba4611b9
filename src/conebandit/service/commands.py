"""The commands of the service, such as serve, verify and experiment. Each imports what it needs when it is called."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from conebandit.service.client.commands import outbox
from conebandit.service.http.logs import LogFormat, set_up_logs

if TYPE_CHECKING:
    from conebandit.service.log.anchors import Anchor
    from conebandit.service.log.events import By
    from conebandit.service.log.verify import Verification
    from conebandit.service.replies import Erasure, StateDigest
    from conebandit.service.stores.base import Store

experiment = typer.Typer(no_args_is_help=True, help="Experiments in a store of the service.")
key = typer.Typer(no_args_is_help=True, help="API keys of the service.")
seal_key = typer.Typer(no_args_is_help=True, help="Keys that logs are sealed with (docs/threat-model.md).")

ExperimentId = Annotated[str, typer.Argument(metavar="ID", help="Id of the experiment.")]
StoreAddress = Annotated[
    str,
    typer.Option("--store", envvar="CONEBANDIT_STORE", help="A path (SQLite) or an address postgresql://..."),
]
SealKeys = Annotated[
    Path | None,
    typer.Option(
        "--seal-keys",
        envvar="CONEBANDIT_SEAL_KEYS_FILE",
        help="File with the keys that logs are sealed with; the variable CONEBANDIT_SEAL_KEYS may hold them instead.",
    ),
]
COMMAND_LINE = "command line"
Actor = Annotated[str, typer.Option("--actor", help="Who does it, for the log.")]
STORE = "conebandit.db"
HELD_AT_ONCE = 500  # events that are read at once
PARTLY_VERIFIED = 3  # exit code; 2 is for wrong options


def add_to(app: typer.Typer) -> None:
    """Let the ``conebandit`` command have these."""
    from conebandit.service import stage_commands  # noqa: F401, PLC0415  (more commands on experiments, which use this file)

    app.command()(serve)
    app.command()(verify)
    app.command()(erase)
    app.add_typer(experiment, name="experiment")
    app.add_typer(key, name="key")
    app.add_typer(seal_key, name="seal-key")
    app.add_typer(outbox, name="outbox")


def _complain(line: str) -> None:
    typer.echo(line, err=True)


@contextmanager
def _plain_refusals(complain: Callable[[str], None] = _complain) -> Iterator[None]:
    """What the service or the machine refuses is said in one line, without a stack trace."""
    from conebandit.experiment.errors import RefusalError  # noqa: PLC0415

    try:
        yield
    except (RefusalError, OSError) as error:
        complain(str(error))
        raise typer.Exit(1) from None


@contextmanager
def _store(where: str, keys: Path | None = None, *, create: bool = False) -> Iterator[Store]:
    """The store; it must be there, unless it may be made. Refusals are plain."""
    from conebandit.service.stores.base import open_store  # noqa: PLC0415
    from conebandit.service.stores.seals import find_seals  # noqa: PLC0415

    with _plain_refusals(), closing(open_store(where, create=create, seals=find_seals(keys))) as store:
        yield store


def _by(actor: str) -> By:
    """Who gives a command: there is no API key, and the name of the system's user is nobody's business."""
    from conebandit.service.log.events import By, as_actor  # noqa: PLC0415

    return By(None, as_actor(actor, "--actor"))


def serve(
    store: StoreAddress = STORE,
    host: Annotated[str, typer.Option(help="Where to listen; beyond this machine only with API keys.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on.")] = 8000,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Another name by which it may be called without API keys; repeat for more.")
    ] = None,
    seal_keys: SealKeys = None,
    anchor: Annotated[
        str | None, typer.Option(help="Where to send the ends of the logs: stdout, a file, or http(s)://...")
    ] = None,
    anchor_every: Annotated[str, typer.Option(help="How often, such as 10m.")] = "1h",
    rate_limit: Annotated[
        str | None,
        typer.Option(help="Decisions and outcomes that each API key may ask this process for, such as 1000/s."),
    ] = None,
    access_log: Annotated[bool, typer.Option("--access-log", help="Log a line for each request.")] = False,
    log_format: Annotated[
        LogFormat, typer.Option(help="What is logged to stderr: lines of text, or a JSON object on each line.")
    ] = LogFormat.text,
) -> None:
    """Serve decisions over HTTP (docs/service.md)."""
    from conebandit.experiment.entries import seconds  # noqa: PLC0415
    from conebandit.service.stores.seals import find_seals  # noqa: PLC0415

    try:
        from conebandit.service.http import rates, server  # noqa: PLC0415  (needs FastAPI, an extra)
    except ModuleNotFoundError as error:
        typer.echo(f"The service needs {error.name}: pip install 'conebandit[service]'.", err=True)
        raise typer.Exit(1) from None
    set_up_logs(log_format)
    log, as_json = logging.getLogger("conebandit.service"), log_format is LogFormat.json
    with _plain_refusals(log.error if as_json else _complain):
        server.serve(
            store,
            host,
            port,
            allow_host or (),
            say=log.info if as_json else typer.echo,
            seals=find_seals(seal_keys),
            anchor=anchor,
            anchor_every=seconds(anchor_every, "--anchor-every"),
            rate=None if rate_limit is None else rates.Rate.parse(rate_limit, "--rate-limit"),
            log_requests=access_log,
        )


def verify(
    experiments: Annotated[list[str] | None, typer.Argument(help="Ids; all by default.")] = None,
    store: StoreAddress = STORE,
    server: Annotated[
        str | None, typer.Option(help="Also compare with the state of the service at this address.")
    ] = None,
    api_key: Annotated[
        str | None, typer.Option("--key", envvar="CONEBANDIT_KEY", help="Its API key, scope read.")
    ] = None,
    every_decision: Annotated[
        bool, typer.Option(help="Make every decision again, even if the log must be read many times for it.")
    ] = False,
    seal_keys: SealKeys = None,
    expect: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SEQ:CHECK|FILE",
            help="What the log must hold: a checksum at a position, or a file of anchors; repeat for more.",
        ),
    ] = None,
) -> None:
    """Rebuild each experiment from its first event, and compare with decisions, snapshots and a running service.

    The exit code is 0 if all agrees, 1 if something does not, and 3 if nothing is wrong in the part that was checked.
    """
    from conebandit.service.errors import CorruptionError, SealKeyError  # noqa: PLC0415
    from conebandit.service.log.verify import verify as verify_one  # noqa: PLC0415

    good = whole = True
    with _store(store, seal_keys) as opened:
        with opened.read() as session:
            ids = experiments or session.experiments()
        anchors = _anchors(expect or (), ids)
        missing = [] if experiments else sorted(anchors.keys() - set(ids))
        if not ids:
            typer.echo("there are no experiments in this store.")
        for id_ in missing:
            typer.echo(f"{id_}: the log is missing from the store; there are anchors of it.", err=True)
            good = False
        for id_ in ids:
            served = None if server is None else _served_state(server, api_key, id_)
            try:
                with opened.read() as session:
                    report = verify_one(session, id_, served, every=every_decision, anchors=anchors.get(id_, ()))
            except (CorruptionError, SealKeyError) as error:  # the others are to be looked at all the same
                typer.echo(f"{id_}: {error}", err=True)
                good = False
                continue
            good, whole = good and report.agrees, whole and report.whole
            compared = f"{report.recomputed} of {report.decisions} decisions and {report.snapshots} snapshots compared"
            events = f"{report.events} events{_sealing(report)}"
            typer.echo(f"{id_}: {events}, {compared}, state {report.state}, {_verdict(report)}")
            for problem in report.problems:
                typer.echo(f"  {problem}", err=True)
    if not (good and whole):
        raise typer.Exit(PARTLY_VERIFIED if good else 1)


def _anchors(expect: Sequence[str], ids: Sequence[str]) -> dict[str, list[Anchor]]:
    """What the options say that logs must hold, by experiment."""
    from conebandit.service.log.anchors import Anchor, position_and_check, read_anchors  # noqa: PLC0415

    found: dict[str, list[Anchor]] = {}
    for given in expect:
        head = position_and_check(given)
        if head is not None and len(ids) != 1:
            raise typer.BadParameter(f"{given} is for one experiment; got {len(ids)}. Name one, or give a file.")
        for anchor in read_anchors(Path(given)) if head is None else [Anchor(ids[0], head)]:
            found.setdefault(anchor.experiment, []).append(anchor)
    return found


def _sealing(report: Verification) -> str:
    """With which key a log is sealed, and how many anchors it was compared with."""
    words = "" if report.key is None else f" sealed with key {report.key}"
    words += f" (the first {report.keyed_from - 1} were without a key)" if report.keyed_from > 1 else ""
    return words + (f", {report.anchors} anchors" if report.anchors else "")


def _verdict(report: Verification) -> str:
    """What a verification came to, and how much it covers."""
    if not report.agrees:
        return "DISAGREES"
    rest = f"; {report.erased} decisions cannot be made again: they rest on data that were erased"
    if report.whole:
        return f"agrees{rest if report.erased else ''}"
    revised = report.decisions - report.recomputed - report.other_version - report.erased
    unchecked = [f"{report.other_version} by another release"] if report.other_version else []
    unchecked += [f"{revised} in states that were revised later (see --every-decision)"] if revised else []
    unchecked += [f"{report.erased} that rest on data that were erased"] if report.erased else []
    return f"nothing wrong in the part that was checked; decisions that were not: {', '.join(unchecked)}"


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
    with _store(store) as opened:
        if again:
            done = erasure.erase_again(store, again, _by(actor))
        if unit:
            done += erasure.erase_units(store, str(experiment_id), unit, str(reason), _by(actor))
        if vacuum:
            opened.vacuum()
        lines = erasure.listed(opened, experiment_id) if list_ else map(_what_was_erased, done)
        typer.echo("".join(f"{line}\n" for line in lines), nl=False)
    if None in [one.unit for one in done]:
        raise typer.Exit(1)


def _what_was_erased(done: Erasure) -> str:
    return f"{done.experiment}: {done.decisions} decisions of {done.unit or 'no unit that is known'} erased"


def _served_state(server: str, api_key: str | None, id_: str) -> StateDigest:
    """What a running service says of its state."""
    from conebandit.service.client import Client, ClientError  # noqa: PLC0415
    from conebandit.service.replies import StateDigest  # noqa: PLC0415

    try:
        with Client(server, key=api_key) as client:
            return StateDigest.from_dict(client.state(id_))
    except (ClientError, ValueError) as error:
        typer.echo(f"{id_}: {error}", err=True)
        raise typer.Exit(1) from None


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

    with _plain_refusals():
        declared = Experiment.from_file(declaration)
        rows = None if past is None else read_past(declared, past)
        by = _by(actor)
    with _store(store, seal_keys, create=True) as opened:
        begin(opened, declared, rows, by)
    for warning in declared.warnings:
        typer.echo(f"Warning: {warning}", err=True)
    typer.echo(f"{declared.id}: {len(declared.arms)} arms, {len(declared.metrics)} metrics, mode {declared.mode}")
    if rows is not None:
        typer.echo(f"{declared.id}: learned from {len(rows.rows.arms)} rows of {rows.file}")


@experiment.command("list")
def list_experiments(store: StoreAddress = STORE) -> None:
    """Ids of all experiments and the length of their logs."""
    with _store(store) as opened, opened.read() as session:
        for id_ in session.experiments():
            head = session.head(id_)
            typer.echo(f"{id_}: {0 if head is None else head.seq} events")


@experiment.command("show")
def show_experiment(id_: ExperimentId, store: StoreAddress = STORE, seal_keys: SealKeys = None) -> None:
    """Declaration, arms, mode and length of the log, as JSON."""
    from conebandit.service.copying import describe  # noqa: PLC0415

    with _store(store, seal_keys) as opened:
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

    with _store(store, seal_keys) as opened:
        changed = {} if changes is None else entries.table(read_table(changes), "changes")
        declared = Experiment.from_dict(copied_declaration(describe(opened, id_), new, changed))
        begin(opened, declared, None, _by(actor))
    typer.echo(f"{declared.id}: {len(declared.arms)} arms, {len(declared.metrics)} metrics, mode {declared.mode}")


@experiment.command("held")
def list_held(id_: ExperimentId, store: StoreAddress = STORE) -> None:
    """Values that somebody must look at before they count, one line of JSON for each."""
    from conebandit.service.log.held import on_hold  # noqa: PLC0415

    with _store(store) as opened:
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

    with _store(store, seal_keys) as opened:
        parts = export(opened, id_, to.suffix.removeprefix("."))
        part = to.with_name(to.name + ".part")
        with part.open("wb") as file:
            file.writelines(parts)
        part.replace(to)
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
        _plain_refusals(),
        log.open(encoding="utf-8", newline="\n") as file,
        _store(store, seal_keys, create=True) as opened,
    ):
        typer.echo(restore(opened, from_lines(file, opened.seals), _by(actor)))


@experiment.command("seal")
def seal_experiment(
    ids: Annotated[list[str] | None, typer.Argument(help="Ids; all by default.")] = None,
    store: StoreAddress = STORE,
    seal_keys: SealKeys = None,
    actor: Annotated[str, typer.Option(help="Who vouches for what the logs hold.")] = COMMAND_LINE,
) -> None:
    """Seal logs with the current key that were begun without one, or with an earlier one. Verify them first."""
    from conebandit.service.engine.adopt import adopt  # noqa: PLC0415
    from conebandit.service.engine.clock import plausible_now  # noqa: PLC0415
    from conebandit.service.log.events import as_actor  # noqa: PLC0415

    with _store(store, seal_keys) as opened:
        who = as_actor(actor, "--actor")
        with opened.read() as session:
            wanted = ids or session.experiments()
        for id_ in wanted:
            head = adopt(opened, id_, who, plausible_now(opened))
            how = "is sealed with this key already" if head is None else f"sealed at event {head.seq}: {head.check}"
            typer.echo(f"{id_}: {how}")


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
    from conebandit.service.log.events import as_actor  # noqa: PLC0415

    with _store(store, seal_keys) as opened:
        who = as_actor(actor, "--actor")
        repaired = repair_clock(opened, id_, reason, who, now=plausible_now(opened), after=after)
    typer.echo(f"{id_}: dates after event {repaired.after} are repaired")


@seal_key.command("new")
def new_seal_key(
    file: Annotated[
        Path | None, typer.Argument(help="Put it at the end of this file, made if missing; printed by default.")
    ] = None,
    id_: Annotated[str | None, typer.Option("--id", help="Its id; a random one by default.")] = None,
) -> None:
    """Make a key. The last one of a file seals; those before it stay, since they check what they have sealed."""
    from conebandit.service.stores.seals import add_key, new_key  # noqa: PLC0415

    with _plain_refusals():
        line = new_key(id_)
        if file is None:
            typer.echo(line)
        else:
            add_key(file, line)
            typer.echo(f"{file}: logs are sealed with key {line.partition(':')[0]} from the next start on")


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

    with _plain_refusals():
        times = [None if t is None else milliseconds(t, n) for t, n in ((since, "--from"), (until, "--to"))]
    wanted = Wanted(actor, key_name, kind or (), *times)
    with _store(store, seal_keys) as opened:
        found = whole_store_audit(opened, wanted) if id_ is None else whole_audit(opened, id_, wanted)
        for event in found:
            typer.echo(json.dumps(event.to_dict()))


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

    with _store(store, seal_keys, create=True) as opened, opened.write() as session:
        made = keys.create_key(
            session, name, scope, experiments=experiments or (), expires=expires, rate=rate, by=_by(actor)
        )
    typer.echo(made)


@key.command("list")
def list_keys(store: StoreAddress = STORE) -> None:
    """Every API key: id, scopes, when it was made, its terms, when it was last used (to the minute), and its name."""
    with _store(store) as opened, opened.read() as session:
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

    with _store(store, seal_keys) as opened, opened.write() as session:
        found = keys.revoke_key(session, id_, _by(actor))
    if not found:
        typer.echo(f"there is no key {id_!r}.", err=True)
        raise typer.Exit(1)
    typer.echo(f"{id_} is revoked")
