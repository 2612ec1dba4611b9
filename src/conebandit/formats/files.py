"""Tables in files, CSV and Parquet: the one place where they are read."""

from __future__ import annotations

import csv
import glob
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

PARQUET = (".parquet", ".pq")
MAX_VALUES = 2**21  # that are read at once from a file larger than memory: 16 MB
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
    frame = _collected(path, _scan(path))
    if not frame.height:
        raise ValueError(f"{path.name} is empty: at least one row is needed.")
    return {column.name: column.to_list() for column in frame}


def are_parquet(given: Any) -> bool:
    """Whether this names Parquet files: one, a folder, a pattern with ``*``, or a list of any of these."""
    if isinstance(given, list | tuple):
        return bool(given) and all(map(are_parquet, given))
    if not isinstance(given, str | os.PathLike):
        return False
    path = Path(given)
    return path.is_dir() or (is_parquet(path) and (path.is_file() or glob.has_magic(str(path))))


def find_parquet(given: Any) -> list[Path]:
    """Parquet files: one, those that match a pattern with ``*``, all in a folder and below, or a list of any of these.

    Those of a pattern or folder are sorted by their paths: ``part-10`` is before ``part-9``. Hidden files of a folder
    are left out: some programs keep there what they have not finished.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name in ("b.parquet", "a.parquet", "notes.txt"):
    ...     (folder / name).touch()
    >>> [path.name for path in find_parquet(folder)], [path.name for path in find_parquet(folder / "b*")]
    (['a.parquet', 'b.parquet'], ['b.parquet'])
    """
    if isinstance(given, list | tuple):
        if not given:
            raise ValueError(
                f"files must be at least one Parquet file; got {given!r}. Give a file, a folder, a pattern such as "
                "'log/*.parquet', or a list of these."
            )
        files = [file for each in given for file in find_parquet(each)]
        twice = [str(file) for file, number in Counter(file.resolve() for file in files).items() if number > 1]
        if twice:
            raise ValueError(f"{twice[0]} is there twice: its rows would count twice.")
        return files
    if not isinstance(given, str | os.PathLike):
        raise TypeError(f"files must be paths of Parquet files; got {type(given).__name__}.")
    return _parquet_at(Path(given))


def _is_hidden(name: str) -> bool:
    return name.startswith(".")


def _parquet_at(path: Path) -> list[Path]:
    """One file, or those of a folder or pattern, by their paths; a ``ValueError`` if there is none."""
    if path.is_dir():
        files = (file for file in path.rglob("*") if is_parquet(file) and file.is_file())
        found = sorted(file for file in files if not any(map(_is_hidden, file.relative_to(path).parts)))
    elif path.is_file():
        found = [path]
    else:
        found = sorted(file for file in map(Path, glob.glob(_pattern(path), recursive=True)) if file.is_file())
    if not found:
        raise ValueError(
            f"there is no Parquet file at {path}; give a file, a folder, or a pattern such as 'log/*.parquet'."
        )
    for file in found:
        if not is_parquet(file):
            raise ValueError(
                f"{file} must be a Parquet file, named .parquet or .pq: other tables are not read in parts."
            )
    return found


def _pattern(path: Path) -> str:
    """A pattern in which folders that are there, as they are written, stand for themselves: names may have brackets."""
    known = next((folder for folder in path.parents if folder.is_dir()), None)
    return str(path) if known is None else os.path.join(glob.escape(str(known)), path.relative_to(known))


def parquet_schema(path: Path) -> Any:
    """The columns of a Parquet file as a frame of polars without rows."""
    return _collected(path, _scan(path).head(0))


def parquet_rows(path: Path) -> int:
    """Number of rows in a Parquet file."""
    return int(_collected(path, _scan(path).select(_polars().len())).item())


def parquet_parts(
    path: Path, columns: Sequence[str], first: int = 0, *, values: int = MAX_VALUES
) -> Iterator[tuple[int, Any]]:
    """Some columns of a file that may be larger than memory, from row ``first`` on.

    It comes as frames of polars of so many ``values``, each with the number of its first row. In memory at once are
    these, and as much as the file has in a row group.
    """
    scan, rows = _scan(path), max(values // max(len(columns), 1), 1)
    for start in range(first, parquet_rows(path), rows):
        yield start, _collected(path, scan.select(columns).slice(start, rows))


def _polars() -> Any:
    try:
        import polars  # noqa: PLC0415  (an extra)
    except ModuleNotFoundError:
        raise ValueError("Parquet files need polars: pip install 'conebandit[data]', or save as CSV.") from None
    return polars


def _scan(path: Path) -> Any:
    return _polars().scan_parquet(path, glob=False)  # a name may have brackets


def _collected(path: Path, frame: Any) -> Any:
    errors = _polars().exceptions
    try:
        return frame.collect()
    except (OSError, errors.PolarsError, errors.PanicException) as error:
        raise ValueError(f"{path.name} cannot be read as a Parquet file: {error}.") from None
