"""The commands ``conebandit bench``, ``study`` and ``trial``. They import what they need when they are called."""

from __future__ import annotations

import os
import time
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from conebandit.studies import study_commands
from conebandit.studies.trials import commands as trial_commands
from conebandit.terminal import Folder, checking, failing, require_writable, say


def add_to(app: typer.Typer) -> None:
    """Add the commands to ``conebandit``."""
    app.command()(bench)
    study_commands.add_to(app)
    trial_commands.add_to(app)


def bench(
    to: Folder = Path("bench"),
    quick: Annotated[bool, typer.Option("--quick", help="One seed and 22,000 rounds.")] = False,
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds.")] = 10,
    horizon: Annotated[int, typer.Option(min=1, help="Rounds of a run.")] = 50_000,
    jobs: Annotated[int, typer.Option(help="Number of processes; 0 for one on each core.")] = 0,
    policy: Annotated[
        list[str] | None, typer.Option(help="Only this policy, by name or import path (repeat for more).")
    ] = None,
    task: Annotated[
        list[str] | None, typer.Option(help="Only this environment, by name or import path (repeat for more).")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep what is in the folder, except where a policy runs a task again.")
    ] = False,
) -> None:
    """Compare policies over the suite of environments; prints and writes a leaderboard (JSON and Markdown)."""
    from conebandit.studies import bench as runs  # noqa: PLC0415  (compiles many kernels)
    from conebandit.studies import leaderboard, suite  # noqa: PLC0415
    from conebandit.studies.plan import make_environment, make_policy  # noqa: PLC0415
    from conebandit.studies.standings import standings  # noqa: PLC0415

    here = (os.getcwd(),)
    with checking("--policy"):
        contenders = runs.find_contenders(policy, here) if policy else runs.CONTENDERS
    with checking("--task"):
        tasks = suite.find_tasks(task, here) if task else suite.SUITE
        worlds = [make_environment(each.name, partial(each.make, 0)) for each in tasks]
    with checking("--policy"):
        for world, contender in product(worlds, contenders):
            make_policy(contender.name, partial(contender.make, world, 0))
    if quick:
        seeds, horizon = 1, runs.QUICK_HORIZON
    page, data = to / "leaderboard.md", to / "leaderboard.json"
    with checking("--horizon"):
        runs.check_horizon(tasks, horizon)
    with checking("--keep"):
        earlier = leaderboard.Earlier.read(data, horizon=horizon, seeds=seeds) if keep else None
    require_writable(page, data)
    start = time.perf_counter()
    with failing(f"Nothing was written to {to}."):
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
