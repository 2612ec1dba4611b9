"""``conebandit verify``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from conebandit.service.commands.options import (
    STORE,
    SealKeys,
    StoreAddress,
    open_there,
)

if TYPE_CHECKING:
    from conebandit.service.log.anchors import Anchor
    from conebandit.service.log.verify import Verification
    from conebandit.service.replies import StateDigest

PARTLY_VERIFIED = 3  # exit code; 2 is for wrong options


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
    with open_there(store, seal_keys) as opened:
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
