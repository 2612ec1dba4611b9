"""``conebandit report``."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from conebandit.service.commands.options import STORE, SealKeys, StoreAddress, open_there, plain_refusals

if TYPE_CHECKING:
    from conebandit.service.stores.base import Store


def report(
    experiment: Annotated[str, typer.Argument(help="Id, or a .jsonl file with a log that was exported or archived.")],
    store: StoreAddress = STORE,
    to: Annotated[
        Path | None,
        typer.Option("--to", help="A file .html or, where Chromium is installed, .pdf; by default ID.html."),
    ] = None,
    pdf: Annotated[bool, typer.Option("--pdf", help="Make ID.pdf, if --to is not given.")] = False,
    seal_keys: SealKeys = None,
) -> None:
    """Write a report on an experiment, to print or to send: what was asked, done and learned, and by which rules."""
    from conebandit.experiment.errors import InvalidError  # noqa: PLC0415
    from conebandit.service.report.make import facts_now  # noqa: PLC0415
    from conebandit.service.report.page import report_page  # noqa: PLC0415
    from conebandit.service.report.pdf import check_chromium, to_pdf  # noqa: PLC0415

    with plain_refusals():
        if to is not None and to.suffix not in (".html", ".pdf"):
            raise InvalidError(f"--to must be a file .html or .pdf; got {str(to)!r}.")
        as_pdf = pdf if to is None else to.suffix == ".pdf"
        if as_pdf:
            check_chromium()  # before the log is read, which may take long
        with _opened(experiment, store, seal_keys) as (there, id_):
            html = report_page(facts_now(there, id_), int(time.time() * 1000))
        file = to or Path(f"{id_}.{'pdf' if as_pdf else 'html'}")
        part = file.with_name(file.name + ".part")
        part.write_bytes(to_pdf(html) if as_pdf else html.encode())
        part.replace(file)
    typer.echo(file)


@contextmanager
def _opened(experiment: str, store: str, seal_keys: Path | None) -> Iterator[tuple[Store, str]]:
    """Where the log is, and the id of its experiment: a store, or a file that is read into one for the time being."""
    from conebandit.service.report.make import exported  # noqa: PLC0415
    from conebandit.service.stores.seals import find_seals  # noqa: PLC0415

    if experiment.endswith(".jsonl"):
        with exported(Path(experiment), find_seals(seal_keys)) as found:
            yield found
    else:
        with open_there(store, seal_keys) as opened:
            yield opened, experiment
