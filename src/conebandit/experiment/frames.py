"""Tables of any library: pandas, polars, Arrow and whatever else narwhals knows, a dict of columns, or a file."""

from __future__ import annotations

import math
import os
import unicodedata
from collections.abc import Container, Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from conebandit.experiment import entries
from conebandit.experiment.errors import InvalidError
from conebandit.formats.files import is_parquet, read_columns

if TYPE_CHECKING:  # what needs narwhals imports it: it takes long, and the service has no tables
    import narwhals.stable.v1 as nw

Kind = Literal["number", "text", "boolean", "date", "nothing", "mixed"]

MISSING = {"", "na", "n/a", "#n/a", "nan", "null", "none", "?", "-"}  # stands for "not known" in CSV files, in any case
BOOLEANS = {"true": True, "false": False}  # in CSV files, in any case

_KINDS: dict[type, Kind] = {bool: "boolean", int: "number", float: "number", str: "text"}


class Frame:
    """A table, read column by column as plain Python values; None stands for what is missing: null, nan, NaT.

    Parameters
    ----------
    given
        A data frame or table of a library that narwhals knows; or a mapping from names to columns of equal length
        (lists, NumPy arrays, Series); or a NumPy array with named fields; or a list of rows, each a mapping; or the
        path of a CSV or Parquet file. A column of a CSV file holds numbers, or true and false, or else texts.
    origin, first
        If it is a part of something larger: how a message about a row begins, and the number of its first row.

    Examples
    --------
    >>> frame = Frame({"age": np.array([31.0, np.nan]), "device": ["phone", None]})
    >>> len(frame), frame.column("age"), frame.column("device")
    (2, [31.0, None], ['phone', None])
    """

    def __init__(self, given: Any, *, origin: str = "", first: int = 0) -> None:
        self._origin, self._first = origin, first
        self._native: nw.DataFrame[Any] | None = None
        self._columns: dict[str, list[Any]] = {}
        self._texts: dict[str, list[str]] = {}  # what is written in the cells of a CSV file
        if isinstance(given, str | os.PathLike):
            given = self._from_file(given)
        elif isinstance(given, np.ndarray):
            given = _from_array(given)
        if isinstance(given, Mapping):
            self._columns = {name: _plain_column(column, name) for name, column in given.items()}
            self._length = _common_length(self._columns)
        elif isinstance(given, list | tuple) and all(isinstance(row, Mapping) for row in given):
            names = dict.fromkeys(name for row in given for name in row)
            self._columns = {name: [_plain(row.get(name)) for row in given] for name in names}
            self._length = len(given)
        else:
            self._native = _eager(given)
            self._length = len(self._native)
        self.names = tuple(self._columns if self._native is None else self._native.columns)
        if not all(isinstance(name, str) for name in self.names):
            raise InvalidError(f"the columns of a table must have texts as names; got {entries.short(self.names)}.")

    def __len__(self) -> int:
        return self._length

    def row_name(self, row: int) -> str:
        """What a row, by its number here, is called in messages."""
        return f"{self._origin}row {self._first + row}"

    def column(self, name: Any) -> list[Any]:
        """The values of a column; an ``InvalidError`` if there is none of this name."""
        if not isinstance(name, str) or name not in self.names:
            raise InvalidError(f"the table has no column {entries.short(name)}; it has {', '.join(self.names)}.")
        if name not in self._columns:
            assert self._native is not None
            self._columns[name] = _plain_series(self._native[name])
        return self._columns[name]

    def numbers(self, name: Any) -> list[Any]:
        """A column that should hold numbers. What is none is left as it is; the other cells of a CSV file are read."""
        values = self.column(name)
        if name not in self._texts or kind_of(values) != "text":
            return values
        return [text if (number := _number(text)) is None else _plain(number) for text in self._texts[name]]

    def levels(self, name: Any, known: Container[Any] | None = None) -> list[Any]:
        """A column of names. In a CSV file the known ones mean themselves, even ``01`` or ``none``.

        If nothing is known of the names, a number may be written in any way, ``2`` or ``2.0``, but in one way only:
        where two cells write it differently, such as ``01`` and ``1``, all names are as they are written.
        """
        values = [as_level(value) for value in self.column(name)]
        if name not in self._texts:
            return values
        written = [as_level(text) for text in self._texts[name]]
        if known is None:
            numbers = kind_of(self.column(name)) == "number"
            names = {text: value for text, value in zip(written, values, strict=True) if numbers and value is not None}
            known = names if len(names) > len(set(names.values())) else ()
        return [text if text in known else value for text, value in zip(written, values, strict=True)]

    def texts(self, name: Any) -> list[str]:
        """A column of names of any kind, such as ids, as they are written; empty where one is missing."""
        values = self.column(name)
        return self._texts.get(name) or ["" if value is None else str(as_level(value)) for value in values]

    def take(self, rows: Sequence[int]) -> Frame:
        """Some of the rows."""
        taken = Frame({name: [self.column(name)[row] for row in rows] for name in self.names})
        taken._texts = {name: [texts[row] for row in rows] for name, texts in self._texts.items()}
        return taken

    def _from_file(self, path: str | os.PathLike[str]) -> dict[str, list[Any]]:
        try:
            columns = read_columns(path)
        except ValueError as error:
            raise InvalidError(str(error)) from None
        if is_parquet(path):
            return columns
        self._texts = columns
        return {name: _typed(texts) for name, texts in columns.items()}

    def like(self, columns: Mapping[str, Sequence[Any]], texts: Sequence[str] = ()) -> Any:
        """New columns as a table of the same library: ``texts`` are those that hold text, the others hold numbers.

        None stands for what is missing. The index of a pandas frame is kept. A dict is given for a dict, for rows and
        for arrays.
        """
        if self._native is None:
            return {name: list(column) for name, column in columns.items()}
        import narwhals.stable.v1 as nw  # noqa: PLC0415

        of, made = self._native.implementation, []
        for name, column in columns.items():
            made.append(nw.new_series(name, list(column), nw.String if name in texts else nw.Float64, backend=of))
        return self._native.with_columns(*made).select(*columns).to_native()


def kind_of(values: Sequence[Any]) -> Kind:
    """What a column holds, apart from missing values.

    Examples
    --------
    >>> kind_of([1, 2.5, None]), kind_of(["a", 1]), kind_of([None])
    ('number', 'mixed', 'nothing')
    """
    kinds = {_kind_of_type(found) for found in set(map(type, values)) - {type(None)}}
    if not kinds:
        return "nothing"
    return kinds.pop() if len(kinds) == 1 else "mixed"


def as_level(value: Any) -> Any:
    """A value as the text that names an arm or a level, in the usual form; numbers and booleans have one, too.

    Examples
    --------
    >>> as_level(2.0), as_level(True), as_level("phone"), as_level(2.5)
    ('2', 'true', 'phone', '2.5')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return str(int(value))
    if isinstance(value, float) and math.isfinite(value):
        return str(value)
    return unicodedata.normalize("NFKC", value) if isinstance(value, str) else value


def _kind_of_type(found: type) -> Kind:
    if found in _KINDS:
        return _KINDS[found]
    return "date" if issubclass(found, date | time | timedelta) else "mixed"


def _typed(texts: Sequence[str]) -> list[Any]:
    """The cells of a column as numbers, as booleans, or as they are; None where nothing is known."""
    numbers = [_number(text) for text in texts]
    if None not in numbers:
        return numbers
    words = {text.lower() for text in texts}
    if words - MISSING <= set(BOOLEANS):
        return [BOOLEANS.get(text.lower()) for text in texts]
    return [None if text.lower() in MISSING - {"none"} else text for text in texts]  # an arm or a level may be "none"


def _number(text: str) -> float | None:
    """The number in a cell, nan if it is missing, None if it is a word. Python's ``1_0`` is a word."""
    if text.lower() in MISSING:
        return math.nan
    if "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def _eager(given: Any) -> nw.DataFrame[Any]:
    import narwhals.stable.v1 as nw  # noqa: PLC0415

    try:
        frame: nw.DataFrame[Any] = nw.from_native(given, eager_only=True)
        _ = frame.columns, frame.schema  # some libraries refuse names that are there twice only now
    except TypeError:
        advice = " Call its method 'collect' first." if hasattr(given, "collect") else ""
        raise InvalidError(
            "a table must be a data frame (pandas, polars, Arrow), a dict of columns or the path of a file; got "
            f"{type(given).__name__}." + advice
        ) from None
    except (ValueError, nw.exceptions.NarwhalsError) as error:
        raise InvalidError(f"the table cannot be read: {error}") from None
    return frame


def _common_length(columns: Mapping[str, Sequence[Any]]) -> int:
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidError(f"the columns of a table must have the same length; got {entries.short(lengths)}.")
    return max(lengths.values(), default=0)


def _from_array(given: Any) -> dict[str, Any]:
    if given.dtype.names is None:
        raise InvalidError(
            f"an array has no names for its columns; got shape {given.shape}. Give a dict of columns, as in "
            "{'age': x[:, 0]}."
        )
    return {name: given[name] for name in given.dtype.names}


def _plain_series(series: nw.Series[Any]) -> list[Any]:
    import narwhals.stable.v1 as nw  # noqa: PLC0415

    missing = series.is_null().to_list()
    values = [None if absent else _plain(value) for value, absent in zip(series.to_list(), missing, strict=True)]
    if isinstance(series.dtype, nw.Categorical | nw.Enum):
        return [as_level(value) for value in values]
    return values


def _plain_column(column: Any, name: Any) -> list[Any]:
    if isinstance(column, str | bytes | Mapping) or not hasattr(column, "__len__"):
        raise InvalidError(f"column {entries.short(name)} must be a list or an array; got {entries.short(column)}.")
    if isinstance(column, np.ndarray):
        if column.ndim != 1:
            raise InvalidError(f"column {entries.short(name)} must have one dimension; got shape {column.shape}.")
        return [_plain(value) for value in (column if column.dtype.kind in "mM" else column.tolist())]
    if isinstance(column, list | tuple):
        return [_plain(value) for value in column]
    import narwhals.stable.v1 as nw  # noqa: PLC0415

    try:
        return _plain_series(nw.from_native(column, series_only=True))
    except TypeError:
        raise InvalidError(
            f"column {entries.short(name)} must be a list or an array; got {type(column).__name__}."
        ) from None


def _plain(value: Any) -> Any:
    """A value of Python, None for nan and the like, such as NA and NaT of pandas."""
    if type(value) in (int, str, bool) or type(value).__name__ in ("NoneType", "NAType", "NaTType"):
        return value if type(value) in (int, str, bool) else None
    if isinstance(value, np.datetime64 | np.timedelta64):
        value = value.astype(f"{type(value).__name__}[us]").item()  # one in nanoseconds would become an integer
    elif isinstance(value, Decimal | np.longdouble):
        value = float(value)
    elif isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return None if math.isnan(value) else float(value)
    return str(value) if isinstance(value, str) else value
