"""The command ``conebandit evaluate``. It imports what it needs when it is called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from conebandit.terminal import checking, print_rows, require_writable, say, write_text, writing


def add_to(app: typer.Typer) -> None:
    """Add the command to ``conebandit``."""
    app.command()(evaluate)


def evaluate(
    log: Annotated[Path, typer.Argument(help="CSV or Parquet file with a row for each decision, such as the export.")],
    experiment: Annotated[
        Path, typer.Option(help="TOML or JSON file: the declaration, which says what the columns mean.")
    ],
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="A policy to judge: an arm, 'uniform', 'logged', or the file of a saved policy. Once for each; by "
            "default every arm, 'uniform' and 'logged'.",
        ),
    ] = None,
    estimator: Annotated[
        str, typer.Option(help="auto, ips, snips, dr, stabilised or replay (for uniformly random logs).")
    ] = "auto",
    level: Annotated[float, typer.Option(help="Probability with which all intervals hold at once.")] = 0.95,
    to: Annotated[
        Path | None, typer.Option("--to", help="File for the result as JSON; a picture is written beside it.")
    ] = None,
) -> None:
    """What policies are worth, from a log: every metric, with intervals, and the front of policies."""
    from conebandit.evaluation.evaluate import evaluate as judge  # noqa: PLC0415
    from conebandit.evaluation.log import Log  # noqa: PLC0415
    from conebandit.experiment.declaration import Experiment  # noqa: PLC0415

    with checking("--experiment"):
        declared = Experiment.from_file(experiment)
    with checking("LOG"):
        rows = Log.from_table(log, declared)
    if to is not None:
        if to.suffix.lower() in (".png", ".svg"):
            raise typer.BadParameter(f"{to} is for JSON; the picture is written beside it.", param_hint="--to")
        require_writable(to)
    names = policy or [*rows.arm_names, "uniform", "logged"]
    with checking("--policy"):
        if len(set(names)) < len(names):
            raise ValueError(f"policies must be different from each other; got {', '.join(names)}.")
        policies = {name: _policy(name) for name in names}
    try:
        found = judge(rows, policies, estimator=estimator, level=level)  # type: ignore[arg-type]
    except ValueError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    console = Console()
    print_rows(console, f"Policies, judged from {log.name}", found.rows())
    for sentence in found.sentences():
        say(console, f"- {sentence}")
    if to is not None:
        write_text(to, json.dumps(found.to_dict(), indent=1) + "\n")
        say(console, f"Written to {to}", soft_wrap=True)
        if len(found.metrics) > 1:
            from conebandit.plots import save  # noqa: PLC0415

            stem = to.with_suffix("") if to.suffix.lower() == ".json" else to
            with writing(stem):
                say(console, f"Look at {save(found.figure(), stem)[0]}", soft_wrap=True)


def _policy(name: str) -> Any:
    """A word, an arm, or a saved policy if there is a file of this name."""
    from conebandit.policies.load import load_policy  # noqa: PLC0415

    return load_policy(name) if Path(name).is_file() else name
