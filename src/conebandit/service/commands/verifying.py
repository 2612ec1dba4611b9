"""``conebandit verify``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
    from conebandit.service.log.verify_store import StoreVerification
    from conebandit.service.replies import StateDigest
    from conebandit.service.stores.base import Store

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

    Unless experiments are named, also read the log of the store, and compare API keys and their terms with it.

    The exit code is 0 if all agrees, 1 if something does not, and 3 if nothing is wrong in the part that was checked.
    """
    from conebandit.service.log.anchors import STORE_LOG  # noqa: PLC0415

    good = whole = True
    api_keys: dict[str, Collection[str]] = {}
    with open_there(store, seal_keys) as opened:
        with opened.read() as session:
            ids = experiments or session.experiments()
        anchors = _anchors(expect or (), ids)
        if not ids:
            typer.echo("there are no experiments in this store.")
        for id_ in ids:
            served = None if server is None else _served_state(server, api_key, id_)
            report = _verify_one(opened, id_, served, every_decision, anchors.get(id_, ()))
            if report is None:
                good = False
                continue
            good, whole = good and report.agrees, whole and report.whole
            api_keys[id_] = report.api_keys
        if not experiments:
            good = _none_missing(anchors.keys() - set(ids)) and good
            good = _verify_store(opened, api_keys, anchors.get(STORE_LOG, ())) and good
    if not (good and whole):
        raise typer.Exit(PARTLY_VERIFIED if good else 1)


def _none_missing(anchored: Collection[str]) -> bool:
    """Say which experiments have anchors, and no log any more; whether there are none."""
    from conebandit.service.log.anchors import STORE_LOG  # noqa: PLC0415

    missing = sorted(set(anchored) - {STORE_LOG})
    for id_ in missing:
        typer.echo(f"{id_}: the log is missing from the store; there are anchors of it.", err=True)
    return not missing


def _verify_one(
    store: Store, id_: str, served: StateDigest | None, every: bool, anchors: Collection[Anchor]
) -> Verification | None:
    """Verify an experiment and say what was found; None if its log cannot be read: the others are looked at still."""
    from conebandit.service.errors import CorruptionError, SealKeyError  # noqa: PLC0415
    from conebandit.service.log.verify import verify as verify_one  # noqa: PLC0415

    try:
        with store.read() as session:
            report = verify_one(session, id_, served, every=every, anchors=anchors)
    except (CorruptionError, SealKeyError) as error:
        typer.echo(f"{id_}: {error}", err=True)
        return None
    compared = f"{report.recomputed} of {report.decisions} decisions and {report.snapshots} snapshots compared"
    typer.echo(f"{id_}: {report.events} events{_sealing(report)}, {compared}, state {report.state}, {_verdict(report)}")
    if report.unchecked:
        typer.echo(f"  {report.unchecked} decisions of edges were taken on trust: nobody could make them again.")
    for problem in report.problems:
        typer.echo(f"  {problem}", err=True)
    return report


def _verify_store(store: Store, api_keys: Mapping[str, Collection[str]], anchors: Collection[Anchor]) -> bool:
    """Compare keys and experiments with the log of the store; whether they agree."""
    from conebandit.service.errors import CorruptionError, SealKeyError  # noqa: PLC0415
    from conebandit.service.log.verify_store import verify_store  # noqa: PLC0415

    try:
        with store.read() as session:
            report = verify_store(session, api_keys, anchors)
    except (CorruptionError, SealKeyError) as error:
        typer.echo(f"the log of the store: {error}", err=True)
        return False
    verdict = "DISAGREES" if report.problems else "agrees"
    typer.echo(f"the log of the store: {report.operations} events{_sealing(report)}, {report.keys} keys, {verdict}")
    for problem in report.problems:
        typer.echo(f"  {problem}", err=True)
    return not report.problems


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


def _sealing(report: Verification | StoreVerification) -> str:
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
