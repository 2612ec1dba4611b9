"""An experiment as a table, one row for each decision, for analysis and off-policy evaluation elsewhere."""

from __future__ import annotations

import csv
import io
import itertools
import tempfile
import time
from collections.abc import Iterable, Iterator
from typing import Any

from conebandit.experiment.columns import Column, Numeric
from conebandit.experiment.declaration import Experiment
from conebandit.experiment.errors import InvalidError
from conebandit.experiment.metrics import Metric
from conebandit.service.errors import CorruptionError, UnavailableError
from conebandit.service.log import replay
from conebandit.service.log.entries import NOBODY, Entry, read, read_as
from conebandit.service.log.events import ERASED, Decided, Erased, Event
from conebandit.service.log.repairs import Repairs
from conebandit.service.log.replay import erased_units
from conebandit.service.log.reports import Reports, Slot, last_arrival
from conebandit.service.log.selection import Choice
from conebandit.service.log.times import as_text
from conebandit.service.stores.base import Store
from conebandit.service.stores.records import BEGINNING, Head, Record, canonical, to_lines
from conebandit.service.stores.session import PAGE, Session

FORMATS = {"jsonl": "application/x-ndjson", "csv": "text/csv", "parquet": "application/vnd.apache.parquet"}

# Columns that an erasure leaves as they are: what the service did, and when.
NOT_PERSONAL = {
    *("at", "mode", "arm", "propensity", "active", "decided_by", "actor"),
    *("choice", "choice_propensity", "choice_probabilities", "policy_version"),
}
MAX_PAUSE = 0.01  # seconds
PART = 1 << 16  # characters of text, or bytes of a file, that are sent at once
ROWS = 5000  # of a table, that are kept as objects of Python at once


def export(store: Store, experiment_id: str, format_: str) -> Iterator[bytes]:
    """The log as it is (``jsonl``, which can be imported), or its decisions with their outcomes (``csv``, ``parquet``).

    Everything up to the event that is the last one now. The store is read page by page, so that nobody waits. The first
    part is made before this returns, so that a service can still say what is wrong; a table for Parquet is one part.

    Raises
    ------
    CorruptionError
        Here or on the way, if the log is not what was written. What came until then is not the whole.
    """
    with store.read() as session:
        head = session.existing_head(experiment_id)
    if format_ == "jsonl":
        parts = _together(to_lines(_log(store, experiment_id, head)))
    elif format_ == "csv":
        parts = _together(_csv(store, experiment_id, head))
    elif format_ == "parquet":
        parts = _parquet(store, experiment_id, head)
    else:
        raise InvalidError(f"format must be one of {', '.join(FORMATS)}; got {format_!a}.")
    return itertools.chain([next(parts)], parts)


def pages(
    store: Store, experiment_id: str, upto: Head, after: Head = BEGINNING, limit: int = PAGE
) -> Iterator[list[Record]]:
    """All events between two heads, in order, a page at a time; a ``CorruptionError`` if one is not what was written.

    After each page there is a pause of as long as the caller took for it: decisions in this process come first.
    """
    while True:
        with store.read() as session:
            page = next(session.checked(experiment_id, after, upto, limit), None)
        if page is None:
            return
        start = time.perf_counter()
        yield page
        time.sleep(min(time.perf_counter() - start, MAX_PAUSE))
        after = page[-1].head


def _log(store: Store, experiment_id: str, head: Head) -> Iterator[Record]:
    """All events up to a head, with their personal parts as they were then: it must lead to the state of then."""
    yield from itertools.chain.from_iterable(pages(store, experiment_id, head))
    with store.read() as session:
        if session.of_kinds(experiment_id, (Erased.kind,), 2**62, head.seq):
            raise UnavailableError("somebody was erased while the log was exported; export it again.")


def declared(store: Store, experiment_id: str, head: Head) -> Experiment:
    """What an experiment is declared to be at a head; a ``CorruptionError`` if that is not what was written."""
    with store.read() as session:
        next(session.checked(experiment_id, BEGINNING, head, limit=1), None)
        return replay.declared_at(session, experiment_id, head.seq)


def _columns(experiment: Experiment) -> dict[str, type]:
    """Names of the columns and what is in them; a value may be missing."""
    kinds = {c.name: float if isinstance(c, Numeric) else str for c in experiment.columns}
    units = {} if experiment.units is None else {"unit": str, "repeats": str}
    return {
        "id": str,
        **units,  # alias of the unit, and id of the decision whose arm it has kept
        "at": str,
        "mode": str,
        "arm": str,
        "propensity": float,
        "active": str,
        "choice": str,  # what the policy would do; differs from arm in mode shadow
        "choice_propensity": float,
        "policy_version": str,
        **{f"context.{name}": kind for name, kind in kinds.items()},
        **{f"metric.{metric.name}": float for metric in experiment.metrics},
        **{f"status.{metric.name}": str for metric in experiment.metrics},  # see _outcome
        "choice_probabilities": str,  # name to probability, as JSON: arms come and go
        "void": str,  # why, if nothing is learned from the decision
        "corrected_context": str,  # as JSON, if it is learned in another context
        **{f"held.{metric.name}": float for metric in experiment.metrics},  # on hold
        **{f"observed_at.{metric.name}": str for metric in experiment.metrics},
        "decided_by": str,  # the name of the key that asked for the decision
        "actor": str,  # for whom
    }


def _rows(store: Store, experiment: Experiment, head: Head) -> Iterator[dict[str, Any]]:
    end = _end(store, experiment.id, head)
    with store.read() as session:
        repairs = Repairs.find(session, experiment.id, head.seq)
    for page in pages(store, experiment.id, head, limit=PAGE // 5):
        made = [record.decision or "" for record in page if record.kind == Decided.kind]
        with store.read() as session:
            histories = session.histories(experiment.id, made, head.seq)
            names = _names(session, experiment, page)
            erased = erased_units(session, experiment.id, 2**62) if names is not None else frozenset()
        for id_ in made:
            if id_ not in histories:
                raise CorruptionError(f"{experiment.id}: decision {id_!a} is not in the index of decisions.")
            history = list(map(repairs.read, histories[id_]))
            row = _row(experiment, history, end)
            yield row if names is None else _row_of_unit(experiment, row, history[0].event, names, erased)


def _names(session: Session, experiment: Experiment, page: list[Record]) -> dict[str, str] | None:
    """What callers call the decisions that those on a page repeat, by alias; None if there are no units."""
    if experiment.units is None:
        return None
    made = [read_as(Decided, record) for record in page if record.kind == Decided.kind]
    return session.names(experiment.id, list({decided.repeats for decided in made if decided.repeats is not None}))


def _row_of_unit(
    experiment: Experiment, row: dict[str, Any], decided: Event, names: dict[str, str], erased: frozenset[str]
) -> dict[str, Any]:
    """The row of a decision about a unit, which may be erased: then nothing personal is in it."""
    assert isinstance(decided, Decided)  # or there would be no row
    if decided.names is not None and decided.unit not in erased:
        repeats = None if decided.repeats is None else names.get(decided.repeats, ERASED)
        return {**row, "id": decided.names.id, "unit": decided.unit, "repeats": repeats}
    kinds = _columns(experiment)
    hidden = {name: ERASED if kind is str else None for name, kind in kinds.items() if name not in NOT_PERSONAL}
    return {**row, **hidden, "unit": decided.unit, "repeats": None if decided.repeats is None else ERASED}


def _end(store: Store, experiment_id: str, head: Head) -> int:
    """The time of the last event, by which windows have closed or have not."""
    with store.read() as session:
        found = session.events(experiment_id, head.seq - 1, head.seq)
    if not found:
        raise CorruptionError(f"{experiment_id}: event {head.seq}, the last one of the log, is missing.")
    return read(found[0]).event.at


def _row(experiment: Experiment, history: list[Entry], end: int) -> dict[str, Any]:
    reports, by = Reports(experiment, history), history[0].by or NOBODY
    decided = reports.decided
    selection = decided.selection
    choice, choice_propensity, choice_probabilities = _choice_cells(selection.choice)
    outcomes = {metric.name: _outcome(metric, reports, end) for metric in experiment.metrics}
    slots = {metric.name: reports.slots.get(metric.name, Slot()) for metric in experiment.metrics}
    return {
        "id": decided.id,
        "at": as_text(decided.at),
        "mode": selection.mode,
        "arm": selection.arm,
        "propensity": selection.propensity,
        "active": "|".join(selection.active),
        "choice": choice,
        "choice_propensity": choice_propensity,
        "policy_version": None if selection.version is None else str(selection.version),
        **{f"context.{c.name}": _cell(c, decided.context.get(c.name)) for c in experiment.columns},
        **{f"metric.{name}": value for name, (value, _) in outcomes.items()},
        **{f"status.{name}": status for name, (_, status) in outcomes.items()},
        "choice_probabilities": choice_probabilities,
        "void": reports.void,
        "corrected_context": None if reports.context == decided.context else canonical(reports.context),
        **{f"held.{name}": slot.held for name, slot in slots.items()},
        **{
            f"observed_at.{name}": None if slot.observed_at is None else as_text(slot.observed_at)
            for name, slot in slots.items()
        },
        "decided_by": by.key,
        "actor": by.actor,
    }


def _choice_cells(choice: Choice | None) -> tuple[str | None, float | None, str | None]:
    """What the policy would do: arm, propensity, and all probabilities as JSON, which older logs lack."""
    if choice is None:
        return None, None, None
    chances = choice.probabilities
    return choice.arm, choice.propensity, None if chances is None else canonical(chances)


def _outcome(metric: Metric, reports: Reports, end: int) -> tuple[float | None, str]:
    """The value that counts, and why; as the policy has it once all corrections in the log are known to it.

    Parameters
    ----------
    metric
        Which one.
    reports
        All that the log has on the decision.
    end
        The time of its last event.
    """
    slot = reports.slots.get(metric.name)
    over = metric.window is not None and last_arrival(metric, reports.decided.at) < end
    if reports.void is not None:
        return None, "void"
    if slot is None:
        return (None, "open") if not over else (metric.default, "missing" if metric.default is None else "default")
    if not slot.place:
        return metric.default if over else None, "late"
    if slot.value is not None:
        counted = metric.counted(slot.value)
        return counted, "reported" if counted == slot.value else "clipped"
    if slot.held is not None:
        return None, "held"
    return None, "retracted" if slot.retracted else "rejected"


def _cell(column: Column, value: Any) -> float | str | None:
    """As it was given, but one type for a column."""
    if isinstance(value, bool):
        return str(value).lower()  # the level that it stands for
    return float(value) if isinstance(column, Numeric) and value is not None else value


def _together(lines: Iterable[str]) -> Iterator[bytes]:
    """Many lines at once; at least one part. Lone surrogates, which JSON may hold, are written as escapes."""
    text = io.StringIO()
    for line in lines:
        text.write(line)
        if text.tell() >= PART:
            yield text.getvalue().encode("utf-8", "backslashreplace")
            text.seek(0)
            text.truncate()
    yield text.getvalue().encode("utf-8", "backslashreplace")


def _csv(store: Store, experiment_id: str, head: Head) -> Iterator[str]:
    experiment = declared(store, experiment_id, head)
    line = io.StringIO()
    writer = csv.DictWriter(line, list(_columns(experiment)))
    writer.writeheader()
    for row in _rows(store, experiment, head):
        writer.writerow({name: _harmless(value) for name, value in row.items()})
        yield line.getvalue()
        line.seek(0)
        line.truncate()
    yield line.getvalue()


def _harmless(value: Any) -> Any:
    """Text that a spreadsheet would run as a formula gets an apostrophe, which it takes for "this is text".

    Ids and unknown levels come from callers, who need not be those who open the table.
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def _parquet(store: Store, experiment_id: str, head: Head) -> Iterator[bytes]:
    """Made of many small tables, so that most of it is kept as columns and not as objects of Python."""
    try:
        import polars  # noqa: PLC0415  (an extra)
    except ImportError:
        raise InvalidError("format parquet needs polars: pip install 'conebandit[data]'.") from None
    experiment = declared(store, experiment_id, head)
    schema = {name: polars.Float64 if kind is float else polars.String for name, kind in _columns(experiment).items()}
    tables, rows = [polars.DataFrame(schema=schema)], _rows(store, experiment, head)
    while some := list(itertools.islice(rows, ROWS)):
        tables.append(polars.DataFrame([_valid(row) for row in some], schema=schema))
    with tempfile.TemporaryFile() as file:
        polars.concat(tables).write_parquet(file)
        file.seek(0)
        while part := file.read(PART):
            yield part


def _valid(row: dict[str, Any]) -> dict[str, Any]:
    """Lone surrogates, which JSON may hold, are no text for Parquet."""
    return {k: v.encode("utf-8", "backslashreplace").decode() if isinstance(v, str) else v for k, v in row.items()}
