"""The command ``conebandit cone``. It imports what it needs when it is called."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from conebandit.geometry.cone import Cone
    from conebandit.geometry.questions import Question


def add_to(app: typer.Typer) -> None:
    """Add the command to ``conebandit``."""
    app.command()(cone)


def cone(
    declaration: Annotated[Path, typer.Argument(help="A .toml or .json file with metrics and a cone.")],
    outcomes: Annotated[
        Path | None,
        typer.Option(
            help="CSV file, a row for each arm and a column for each metric: its front, and what to ask next."
        ),
    ] = None,
) -> None:
    """What a declared cone says, in words; which arms it leaves, and which question would settle most."""
    from conebandit.experiment.cones import declared  # noqa: PLC0415
    from conebandit.experiment.metrics import read_metrics, warnings_about  # noqa: PLC0415
    from conebandit.geometry.pareto import pareto_mask  # noqa: PLC0415

    try:
        table = _read_declaration(declaration)
        metrics, given = read_metrics(table.get("metrics")), table.get("cone", "orthant")
        order = declared(given, metrics).turned([m.name for m in metrics if m.direction == "min"])
        for warning in warnings_about(table["metrics"]):
            typer.echo(f"Warning: {warning}", err=True)
        typer.echo(order.describe())
        if outcomes is None:
            return
        arms, measured = _read_outcomes(outcomes, [m.name for m in metrics])
        worst = [math.inf if m.worst is None else m.worst for m in metrics]  # more of a cost counts the same
        points = [[min(pair) for pair in zip(row, worst, strict=True)] for row in measured]
        front = [arm for arm, good in zip(arms, pareto_mask(points, order), strict=True) if good]
        typer.echo(f"Front: {', '.join(front)}.")
        question = order.ask(points)
    except ValueError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    typer.echo("Nothing is left to ask." if question is None else _in_words(question, arms, order))
    if question is not None and (given == "orthant" or "comparisons" in given):
        typer.echo(f"Add the answer to cone.comparisons, like this if it is the first: {_as_toml(question, order)}")


def _in_words(question: Question, arms: list[str], order: Cone) -> str:
    first, second = (arms[i] for i in question.positions)
    left = " or ".join(f"{n}" for n in question.left)
    return f"{question} ({first} or {second}.) Open pairs of arms: {question.open_pairs} now, {left} after the answer."


def _as_toml(question: Question, order: Cone) -> str:
    """The entry of a declaration that says that the first outcome is better."""
    sides = (
        ", ".join(f"{json.dumps(n, ensure_ascii=False)} = {x!r}" for n, x in zip(order.names or (), side, strict=True))
        for side in (question.first, question.second)
    )
    return "{{ better = {{ {} }}, worse = {{ {} }} }}".format(*sides)


def _read_declaration(path: Path) -> dict[str, Any]:
    from conebandit.experiment import entries  # noqa: PLC0415
    from conebandit.experiment.declaration import read_table  # noqa: PLC0415

    return entries.table(read_table(path), str(path))


def _read_outcomes(path: Path, metrics: list[str]) -> tuple[list[str], list[list[float]]]:
    """Names of the arms as they are written, their numbers where there is none, and their outcomes."""
    from conebandit.experiment.frames import Frame  # noqa: PLC0415

    frame = Frame(path)
    missing = [name for name in metrics if name not in frame.names]
    if missing:
        raise ValueError(f"{path} must have a row for each arm and a column for each metric; it lacks {missing}.")
    points = [list(row) for row in zip(*map(frame.numbers, metrics), strict=True)]
    for i, row in enumerate(points, start=1):
        if not all(isinstance(value, int | float) for value in row):
            raise ValueError(f"{path}, row {i}: every metric needs a number; got {row}.")
    arms = frame.texts("arm") if "arm" in frame.names else [""] * len(frame)
    return [arm or str(i) for i, arm in enumerate(arms)], points
