"""Erasing from the command line: one unit, or all of a list after a backup was restored."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from conebandit.experiment.errors import InvalidError
from conebandit.service.engine.turn import Turn
from conebandit.service.engine.writer import Writer
from conebandit.service.errors import NotFoundError, UnavailableError
from conebandit.service.log.entries import By, read_as
from conebandit.service.log.events import Erased
from conebandit.service.replies import Erasure
from conebandit.service.stores.base import Store, open_store
from conebandit.service.stores.records import canonical

MAX_WAIT = 3600.0  # seconds for a log to be folded anew
PAUSE = 0.02  # seconds between looks


def erase_units(
    where: str, experiment_id: str, units: Sequence[str], reason: str, by: By | None = None
) -> list[Erasure]:
    """Forget units in the store at an address, beside the service if one is running; their data are gone afterwards.

    Examples
    --------
    >>> import tempfile, conebandit as cb
    >>> from conebandit.service.http.server import serving
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with serving(f"{folder}/log.db") as address, cb.Client(address) as client:
    ...         _ = client.create({"id": "e", "arms": ["a", "b"], "metrics": [{"name": "m"}], "unit": {}})
    ...         _ = client.decide("e", unit="patient 7")
    ...     [erasure] = erase_units(f"{folder}/log.db", "e", ["patient 7"], "consent withdrawn")
    >>> erasure.decisions
    1
    """
    with _writer(where, by) as ask:
        return [ask(experiment_id, Turn.erase, experiment_id, unit, reason) for unit in units]


def erase_again(where: str, path: Path, by: By | None = None) -> list[Erasure]:
    """Carry out what a list says that :func:`listed` has made; what is done already, or is not known, is left out."""
    done = []
    with _writer(where, by) as ask:
        for experiment_id, alias, reason in _read(path):
            with suppress(NotFoundError):  # the experiment began after the backup was made
                erasure = ask(experiment_id, Turn.erase_alias, experiment_id, alias, reason)
                done += [erasure] if erasure.unit is not None else []
    return done


def listed(store: Store, experiment_id: str | None = None) -> Iterator[str]:
    """All erasures in the logs of a store, as lines of JSON: aliases, dates and reasons, nothing about the units."""
    with store.read() as session:
        for id_ in session.experiments() if experiment_id is None else [experiment_id]:
            session.existing_head(id_)
            for record in session.of_kinds(id_, (Erased.kind,), 2**62):
                event = read_as(Erased, record)
                reply = Erasure(id_, event.unit, event.decisions, event.at, event.reason)
                yield canonical(reply.to_dict())


def _read(path: Path) -> Iterator[tuple[str, str, str]]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            erasure = Erasure.from_dict(json.loads(line))
        except ValueError as error:
            raise InvalidError(f"{path}, line {number}: this is no erasure: {error}") from None
        yield erasure.experiment, str(erasure.unit), erasure.reason


@contextmanager
def _writer(where: str, by: By | None) -> Iterator[Callable[..., Any]]:
    """Turns on a store; at the end all logs that they changed have been folded anew, beside a service that runs."""
    writer, asked = Writer(open_store(where, create=False)), dict[str, None]()

    def ask(experiment_id: str, work: Callable[..., Any], *given: Any) -> Any:
        answer = writer.submit(experiment_id, lambda turn: work(turn, *given), by).result()
        asked[experiment_id] = None
        return answer

    try:
        yield ask
        end = time.monotonic() + MAX_WAIT
        for experiment_id in list(asked):
            while ask(experiment_id, Turn.describe, experiment_id).revising:
                if time.monotonic() > end:
                    raise UnavailableError(f"{experiment_id}: the log is still being folded anew; look again later.")
                time.sleep(PAUSE)
    finally:
        writer.close(snapshots=False)
