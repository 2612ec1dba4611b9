"""What the commands of all rooms share: the option ``--to``, checks of where they write, tables and plain text."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

Folder = Annotated[Path, typer.Option("--to", help="Folder for figures and data; made if it is missing.")]


@contextmanager
def checking(option: str) -> Iterator[None]:
    """Within, a ``ValueError`` ends the command with its message, as a wrong value of this option."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


@contextmanager
def failing(then: str = "") -> Iterator[None]:
    """Within, a ``RuntimeError`` ends the command with its message, and with what follows from it."""
    try:
        yield
    except RuntimeError as error:
        typer.echo(f"{str(error).rstrip('.')}. {then}".rstrip(), err=True)
        raise typer.Exit(1) from None


def require_writable(*files: Path) -> None:
    """Make the folders of these files; end the command, before any work is done, if one cannot be written."""
    for path in files:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            problem = f"the folder {path.parent} cannot be made: {error.strerror}."
            raise typer.BadParameter(problem, param_hint="--to") from None
        with writing(path):  # a name may be too long to ask for
            if path.is_dir():
                raise typer.BadParameter(f"{path} is a folder, not a file.", param_hint="--to")
            if not os.access(path if path.exists() else path.parent, os.W_OK):
                raise typer.BadParameter(f"{path} may not be written.", param_hint="--to")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """End the command with the reason if a file cannot be written after all."""
    try:
        yield
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be written: {error.strerror}.", param_hint="--to") from None


def write_text(path: Path, text: str) -> None:
    """Write a file; end the command with the reason if that fails after all."""
    with writing(path):
        path.write_text(text, encoding="utf-8")


def say(console: Console, text: str, *, soft_wrap: bool = False) -> None:
    """Print a text as it is: names of columns and files may look like markup or emoji."""
    console.print(Text(text), soft_wrap=soft_wrap)


def print_rows(console: Console, title: str, rows: Sequence[Sequence[str]]) -> None:
    """Print a table whose first row is its head."""
    view = Table(title=title)
    for heading in rows[0]:
        view.add_column(heading, overflow="fold")  # names that differ at their end must not look the same
    for row in rows[1:]:
        view.add_row(*(Text(cell, overflow="fold") for cell in row))
    console.print(view)
