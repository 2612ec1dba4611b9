"""What the commands of the service share: options, and how a store is opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from conebandit.service.log.entries import By
    from conebandit.service.stores.base import Store

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


def complain(line: str) -> None:
    """Say what went wrong."""
    typer.echo(line, err=True)


@contextmanager
def plain_refusals(complain: Callable[[str], None] = complain) -> Iterator[None]:
    """What the service or the machine refuses is said in one line, without a stack trace."""
    from conebandit.experiment.errors import RefusalError  # noqa: PLC0415

    try:
        yield
    except (RefusalError, OSError) as error:
        complain(str(error))
        raise typer.Exit(1) from None


@contextmanager
def open_there(where: str, keys: Path | None = None, *, create: bool = False) -> Iterator[Store]:
    """The store; it must be there, unless it may be made. Refusals are plain."""
    from conebandit.service.stores.base import open_store  # noqa: PLC0415
    from conebandit.service.stores.seals import find_seals  # noqa: PLC0415

    with plain_refusals(), closing(open_store(where, create=create, seals=find_seals(keys))) as store:
        yield store


def by_actor(actor: str) -> By:
    """Who gives a command: there is no API key, and the name of the system's user is nobody's business."""
    from conebandit.service.log.entries import By, as_actor  # noqa: PLC0415

    return By(None, as_actor(actor, "--actor"))
