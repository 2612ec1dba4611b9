"""``conebandit demo``."""

from __future__ import annotations

from typing import Annotated

import typer


def demo(
    seconds: Annotated[float, typer.Option(min=5, max=3600, help="How long the trial takes.")] = 60.0,
    stay: Annotated[
        float, typer.Option(min=0, max=86_400, help="Seconds for which one can look on afterwards.")
    ] = 300.0,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 for any that is free.")] = 0,
    browser: Annotated[bool, typer.Option("--open/--no-open", help="Open the dashboard in a browser.")] = True,
    seed: Annotated[int, typer.Option(min=0, help="Of the patients.")] = 0,
) -> None:
    """Watch a simulated trial on the dashboard: doses fall away, the population changes, the front moves.

    The service runs on this machine only, with a database that is gone afterwards.
    """
    try:
        from conebandit.service.demo.show import show  # noqa: PLC0415  (needs FastAPI, an extra)
    except ModuleNotFoundError as error:
        typer.echo(f"The demonstration needs {error.name}: pip install 'conebandit[service]'.", err=True)
        raise typer.Exit(1) from None
    show(seconds, stay, port, browser=browser, seed=seed)
