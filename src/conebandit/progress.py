"""How long computations say where they are: one kind of argument, one bar."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from multiprocessing import parent_process

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

Step = Callable[[str], None]  # called after each step, with a few words on it

# What every long function takes as ``progress``: whether to show a bar, or a function to call after each step.
Progress = bool | Step


@contextmanager
def steps(progress: Progress, description: str, total: int) -> Iterator[Step]:
    """What to call after each of ``total`` steps; ``description`` stands beside the bar until the first is done.

    If ``progress`` is True there is a bar, in a terminal only, with the time that it took and the time left; if False
    there is none; a function is called itself.

    Examples
    --------
    >>> seen = []
    >>> with steps(seen.append, "working", total=2) as step:
    ...     step("half")
    ...     step("done")
    >>> seen
    ['half', 'done']
    """
    if callable(progress):
        yield progress
        return
    times = (TimeElapsedColumn(), TextColumn("left:"), TimeRemainingColumn())
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), *times)
    console = Console()
    shown = bool(progress) and console.is_terminal  # files and pipes get results alone
    with RichProgress(*columns, console=console, transient=True, disable=not shown) as bar:
        task = bar.add_task(description, total=total)
        yield lambda words: bar.update(task, advance=1, description=words)


@cache
def tell_once(line: str) -> None:
    """Say on the terminal what takes so long: once, and not into files or pipes, nor from each of many workers.

    Examples
    --------
    >>> tell_once("sorting ...")
    """
    if sys.stderr.isatty() and parent_process() is None:
        print(line, file=sys.stderr, flush=True)
