"""The command ``conebandit bench``. It imports what it needs when it is called."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Protocol, TypeVar

import typer
from rich.console import Console

from conebandit.terminal import Folder, checking, require_writable, say


class _HasName(Protocol):
    @property
    def name(self) -> str: ...


Named = TypeVar("Named", bound=_HasName)


def add_to(app: typer.Typer) -> None:
    """Add the command to ``conebandit``."""
    app.command()(bench)


def bench(
    to: Folder = Path("bench"),
    quick: Annotated[bool, typer.Option("--quick", help="One seed and 22,000 rounds.")] = False,
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds.")] = 10,
    horizon: Annotated[int, typer.Option(min=1, help="Rounds of a run.")] = 50_000,
    jobs: Annotated[int, typer.Option(help="Number of processes; 0 for one on each core.")] = 0,
    policy: Annotated[list[str] | None, typer.Option(help="Only this policy (repeat for more).")] = None,
    task: Annotated[list[str] | None, typer.Option(help="Only this environment (repeat for more).")] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep what is in the folder, except where a policy runs a task again.")
    ] = False,
) -> None:
    """Compare policies over the suite of environments; prints and writes a leaderboard (JSON and Markdown)."""
    from conebandit.studies import bench as runs  # noqa: PLC0415  (compiles many kernels)
    from conebandit.studies import leaderboard, suite  # noqa: PLC0415
    from conebandit.studies.standings import standings  # noqa: PLC0415

    contenders = _named(policy, runs.known_contenders(), "--policy") if policy else runs.CONTENDERS
    tasks = _named(task, (*suite.SUITE, *suite.EXTRA), "--task") if task else suite.SUITE
    if quick:
        seeds, horizon = 1, runs.QUICK_HORIZON
    page, data = to / "leaderboard.md", to / "leaderboard.json"
    with checking("--horizon"):
        runs.check_horizon(tasks, horizon)
    with checking("--keep"):
        earlier = leaderboard.Earlier.read(data, horizon=horizon, seeds=seeds) if keep else None
    require_writable(page, data)
    start = time.perf_counter()
    rows = runs.run_suite(
        tasks=tasks, contenders=contenders, horizon=horizon, seeds=range(seeds), n_jobs=jobs or -1, progress=True
    )
    about = leaderboard.describe(horizon, time.perf_counter() - start, quick=quick, seeds=seeds)
    if earlier is not None:
        rows, about = earlier.joined(rows, about)
    data.write_text(leaderboard.to_json(rows, about))
    page.write_text(leaderboard.to_markdown(rows, about))
    console = Console()
    for table in leaderboard.rich_tables(rows, console.width):
        console.print(table)
    for line in leaderboard.caution(standings(rows)):
        console.print(line)
    say(console, f"Written: {data} and {page}, after {about['seconds']} s.", soft_wrap=True)


def _named(names: list[str] | None, things: Sequence[Named], option: str) -> Sequence[Named]:
    """The things with these names, each once, or all; an unknown name ends the command with those that are known."""
    known = {thing.name: thing for thing in things}
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise typer.BadParameter(f"there is no {unknown[0]!r}; choose from {', '.join(known)}.", param_hint=option)
    return [known[name] for name in dict.fromkeys(names or known)]
