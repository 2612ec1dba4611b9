"""``conebandit serve``."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from conebandit._garbage import starting
from conebandit.service.commands.options import (
    STORE,
    SealKeys,
    StoreAddress,
    complain,
    plain_refusals,
)
from conebandit.service.http.logs import LogFormat, set_up_logs


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
    session_key: Annotated[
        Path | None,
        typer.Option(
            envvar="CONEBANDIT_SESSION_KEY_FILE",
            help="File with the secret that signs sessions of the dashboard, for several processes to share; "
            "the variable CONEBANDIT_SESSION_KEY may hold it instead.",
        ),
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
        with starting():
            from conebandit.service.dashboard.sessions import find_session_key  # noqa: PLC0415
            from conebandit.service.http import rates, server  # noqa: PLC0415  (needs FastAPI, an extra)
    except ModuleNotFoundError as error:
        typer.echo(f"The service needs {error.name}: pip install 'conebandit[service]'.", err=True)
        raise typer.Exit(1) from None
    set_up_logs(log_format)
    log, as_json = logging.getLogger("conebandit.service"), log_format is LogFormat.json
    with plain_refusals(log.error if as_json else complain):
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
            session_key=find_session_key(session_key),
            log_requests=access_log,
        )
