"""Tables in files, CSV and Parquet: the one place where they are read."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any

PARQUET = (".parquet", ".pq")
SEPARATORS = {";": "semicolons", "\t": "tabs"}  # of files that are not comma-separated, though they are called CSV


def read_columns(path: str | os.PathLike[str]) -> dict[str, list[Any]]:
    r"""Columns of a file by name: of CSV the texts of the cells, of Parquet the values, None where there is none.

    Raises
    ------
    ValueError
        If the file cannot be read as a table, with what to do about it.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "visits.csv")
    >>> _ = path.write_text("page, age\nold, 31\nnew,\n")
    >>> read_columns(path)
    {'page': ['old', 'new'], 'age': ['31', '']}
    """
    file = Path(path)
    if not file.is_file():
        raise ValueError(f"{file} is not a file.")
    if is_parquet(file):
        return _read_parquet(file)
    if file.suffix.lower() == ".jsonl":
        raise ValueError(f"{file.name} holds the events of a log; export its decisions, with --format csv or parquet.")
    return _read_csv(file)


def is_parquet(path: str | os.PathLike[str]) -> bool:
    """Whether the name of a file says that it is a Parquet file, which has types, and not CSV, which has texts."""
    return Path(path).suffix.lower() in PARQUET


def _read_csv(path: Path) -> dict[str, list[Any]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [[cell.strip() for cell in row] for row in csv.reader(file) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path.name} is not a CSV file in UTF-8: {error}.") from None
    except OSError as error:
        raise ValueError(f"{path.name} cannot be read: {error.strerror}.") from None
    if len(rows) < 2:
        raise ValueError(f"{path.name} is empty: a header and at least one row are needed.")
    header = rows[0]
    for sign, called in SEPARATORS.items():
        if len(header) == 1 and sign in header[0]:
            raise ValueError(f"{path.name} has {called} between its entries: save it with commas.")
    if len(set(header)) != len(header):
        raise ValueError(f"{path.name} has a column name twice in its header: {', '.join(header)}.")
    if all(map(is_number, header)):
        raise ValueError(f"{path.name} seems to have no header: its first row is {', '.join(header)}.")
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(header):
            raise ValueError(f"{path.name}, row {number}: {len(row)} entries, but the header has {len(header)}.")
    return {name: [row[j] for row in rows[1:]] for j, name in enumerate(header)}


def is_number(text: str) -> bool:
    """Whether a text is a number.

    Examples
    --------
    >>> is_number("1e3"), is_number("many")
    (True, False)
    """
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read_parquet(path: Path) -> dict[str, list[Any]]:
    try:
        import polars  # noqa: PLC0415  (an extra)
    except ModuleNotFoundError:
        raise ValueError("Parquet files need polars: pip install 'conebandit[data]', or save as CSV.") from None
    try:
        frame = polars.read_parquet(path)
    except (OSError, polars.exceptions.PolarsError, polars.exceptions.PanicException) as error:
        raise ValueError(f"{path.name} cannot be read as a Parquet file: {error}.") from None
    if not frame.height:
        raise ValueError(f"{path.name} is empty: at least one row is needed.")
    return {column.name: column.to_list() for column in frame}
