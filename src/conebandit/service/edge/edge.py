"""Deciding in the process of the caller."""

from __future__ import annotations

import json
import os
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Self

from conebandit.experiment import entries
from conebandit.experiment.declaration import coordinates_of_many
from conebandit.experiment.errors import InvalidError
from conebandit.service.client import journal
from conebandit.service.client.errors import ClientError
from conebandit.service.client.requests import Context, Time, Values, as_outcomes
from conebandit.service.client.transport import Site, Transport
from conebandit.service.edge.courier import Courier
from conebandit.service.edge.held import HeldState
from conebandit.service.edge.lines import (
    DECISION,
    OUTCOME,
    Asked,
    StateMark,
    assignment,
    decision_texts,
    keys_of,
    line,
    read_decision,
)
from conebandit.service.edge.spool import Spool, Sync
from conebandit.service.edge.upkeep import Upkeep
from conebandit.service.engine.edge_desk import EDGE_NAME
from conebandit.service.engine.traffic import decision_id, same_context
from conebandit.service.log.published import PublishedState
from conebandit.service.log.times import as_time
from conebandit.service.replies import Assignment
from conebandit.validate.arguments import as_integer, as_positive

MAX_TEXT = 100_000  # bytes of a decision
MAX_WAITING = 16 << 30  # bytes in the spool that the service has not got


class Edge:
    """Decides for one experiment in this process, from the latest state that the service has published.

    A decision is a function of that state, the context and the id, and takes microseconds. It is written to a spool
    before it is answered, and a thread uploads the spool into the log of the service; while the service is away,
    decisions go on. The same id gets the same answer, also after a restart. It may be used from several threads, and
    by one process: make it after a fork, with a spool for each.

    What the service learns is known here after the next refresh only, and so is an arm that was suspended, a mode that
    was changed or an experiment that was paused: see ``max_staleness``. An experiment whose units keep their arms, or
    whose rules cap decisions, cannot be decided at edges.

    Parameters
    ----------
    address, key
        Of the service, as for :class:`Client`; the key needs the scopes ``decide`` and, to report, ``report``.
    experiment
        Its id.
    spool
        A folder for what was decided and reported and is not uploaded yet; it holds contexts and names of units.
    name
        By which the log knows this edge; one is drawn, and kept in the spool, if none is given.
    refresh
        Seconds after which the service is asked for a newer state.
    max_staleness
        Seconds after which a state that could not be refreshed is too old to decide from; None: it never is.
    when_stale
        What is done then: serve the ``"baseline"``, or ``"refuse"`` to decide.
    sync
        Whether a decision that was answered is with the operating system (``"os"``), and so outlives the end of this
        process, or on the disk (``"disk"``), and so outlives a loss of power.
    remember
        How many decisions are kept, at least, after they were uploaded, to give the same answer for the same id.
    timeout
        Seconds for a request to the service; no decision waits for one.

    Raises
    ------
    ClientError
        If the service refuses, or does not answer and there is no state in the spool to go on from.

    Examples
    --------
    >>> import pathlib, tempfile, conebandit as cb
    >>> from conebandit.service.http.server import serving
    >>> with tempfile.TemporaryDirectory() as folder, serving(str(pathlib.Path(folder) / "log.db")) as address:
    ...     with cb.Client(address) as client:
    ...         _ = client.create({"id": "e", "arms": ["old", "new"], "metrics": [{"name": "clicks"}]})
    ...         with cb.Edge(address, "e", spool=pathlib.Path(folder) / "spool") as edge:
    ...             assignment = edge.decide({}, id="visit-1")
    ...             edge.report("visit-1", {"clicks": 1})
    ...             left = edge.flush()
    ...         events = [event["kind"] for event in client.events("e")["events"]]
    >>> assignment.propensity, left, events
    (0.5, 0, ['created', 'published', 'decided', 'reported'])
    """

    def __init__(
        self,
        address: str,
        experiment: str,
        *,
        spool: str | os.PathLike[str],
        key: str | None = None,
        name: str | None = None,
        refresh: float = 10.0,
        max_staleness: float | None = None,
        when_stale: Literal["baseline", "refuse"] = "baseline",
        sync: Sync = "os",
        remember: int = 100_000,
        timeout: float = 10.0,
    ) -> None:
        if when_stale not in ("baseline", "refuse"):
            raise ValueError(f"when_stale must be 'baseline' or 'refuse'; got {when_stale!r}.")
        if sync not in ("os", "disk"):
            raise ValueError(f"sync must be 'os' or 'disk'; got {sync!r}.")
        self._when_stale: Literal["baseline", "refuse"] = when_stale
        self._max_staleness = None if max_staleness is None else as_positive(max_staleness, "max_staleness")
        transport, wait = Transport(Site.at(address, key), retries=0), as_positive(timeout, "timeout")
        every, kept = as_positive(refresh, "refresh"), as_integer(remember, "remember", least=0)
        folder, self._process, self._lock = Path(spool), os.getpid(), threading.Lock()
        self._prefix, self._made = secrets.token_hex(10), 0  # of ids that are made here
        self._spool = Spool(folder, sync, kept, MAX_WAITING)
        try:
            known = _kept(folder / "experiment", experiment, "experiment")
            self.name, self._held = _name(folder, name), HeldState(folder / "state", experiment)
            courier = Courier(transport, experiment, self.name, folder / "refused.jsonl", wait)
            self._upkeep = Upkeep(courier, self._spool, self._held, self._lock, every)
            self._upkeep.begin()
            if known is None:  # not before: a wrong name is not to be kept
                journal.replace(folder / "experiment", experiment.encode())
        except BaseException:
            transport.close()
            self._spool.close()
            raise

    # ---- traffic ------------------------------------------------------------------------------------------------

    def decide(self, context: Context | None = None, *, id: str | None = None, unit: str | None = None) -> Assignment:  # noqa: A002
        """An arm for a context; for a unit, if the experiment declares units."""
        return self.decide_many([{} if context is None else context], ids=None if id is None else [id], units=[unit])[0]

    def decide_many(
        self,
        contexts: Sequence[Context],
        *,
        ids: Sequence[str] | None = None,
        units: Sequence[str | None] | None = None,
    ) -> list[Assignment]:
        """Arms for several contexts, from one state; all or none. Much quicker than one after the other."""
        if units is not None and len(units) != len(contexts):
            raise ValueError(f"units must be as many as contexts, {len(contexts)}; got {len(units)}.")
        if ids is not None and len(ids) != len(contexts):
            raise ValueError(f"ids must be as many as contexts, {len(contexts)}; got {len(ids)}.")
        _check_contexts(contexts)
        with self._lock:
            self._check_process()
            of = [None] * len(contexts) if units is None else units
            if ids is None:
                return self._decide_anew(self._new_ids(len(contexts)), contexts, of)
            return self._decide([decision_id(id_, generate=False) for id_ in ids], contexts, of)

    def report(self, id: str, values: Values, *, observed_at: Time | None = None) -> None:  # noqa: A002
        """Report metrics of a decision of this edge, as :meth:`Client.report`; it is delivered later.

        Metrics, values and the form of ``observed_at`` are checked at once. That it lies between the decision and now
        the service finds out, whose clock counts: what it refuses is in ``refused.jsonl`` of the spool.
        """
        [outcome] = as_outcomes({decision_id(id, generate=False): values}, observed_at)
        as_time(outcome.get("observed_at"), "observed_at")
        with self._lock:
            self._check_process()
            experiment = self._held.declared  # outcomes come in while nobody may decide, too
            assert experiment is not None  # no edge begins without a state
            if not outcome["values"]:
                raise InvalidError("values must be a table of one or more metrics.")
            for name, value in outcome["values"].items():
                experiment.check_value(name, value)
            outcome["report"] = secrets.token_hex(8)  # by which it is known when it is sent again
            if self._spool.holds(outcome["id"]):  # then it is not about what somebody else has decided under this id
                outcome["edge"] = self.name
            self._spool.append(None, [line(OUTCOME, json.dumps(outcome, allow_nan=False).encode())])

    def _decide(self, ids: Sequence[str], contexts: Sequence[Context], units: Sequence[str | None]) -> list[Assignment]:
        answers: dict[str, Assignment] = {}
        new: dict[str, tuple[Context, str | None]] = {}
        for id_, context, unit in zip(ids, contexts, units, strict=True):
            found = None if id_ in new else self._spool.find(id_)
            if found is not None:
                answers[id_], before, whose = read_decision(found[0], found[1].version)
            else:
                before, whose = new.setdefault(id_, (context, unit))
            if not same_context(before, context) or whose != unit:
                raise ClientError(409, f"decision {id_!r} was asked for with another context or unit before.")
        if new:
            made = self._decide_anew(list(new), *zip(*new.values(), strict=True))
            answers |= {one.id: one for one in made}
        return [answers[id_] for id_ in ids]

    def _decide_anew(
        self, ids: Sequence[str], contexts: Sequence[Context], units: Sequence[str | None]
    ) -> list[Assignment]:
        """Decisions that were never asked for; they are in the spool before anybody is told."""
        if not ids:
            return []
        published, mark = self._state()
        experiment, at, stale = published.state.experiment, time.time_ns() // 1_000_000, self._is_stale()
        xs = coordinates_of_many(experiment, contexts)
        asked = Asked(ids, contexts, units, keys_of(ids, units, experiment.units))
        made = [published.baseline] * len(ids) if stale else published.decide(xs, asked.keys)
        texts = decision_texts(asked, at, made, stale=stale)
        longest = max(map(len, texts))  # they are ASCII
        if longest > MAX_TEXT:
            raise InvalidError(f"context is too long: a decision may have {MAX_TEXT} bytes; got {longest}.")
        self._spool.append(mark, [line(DECISION, text.encode()) for text in texts], ids)
        return [assignment(id_, selection, mark.version) for id_, selection in zip(ids, made, strict=True)]

    def _new_ids(self, n: int) -> list[str]:
        first, self._made = self._made, self._made + n
        return [f"{self._prefix}{number:x}" for number in range(first, first + n)]

    def _state(self) -> tuple[PublishedState, StateMark]:
        published, mark = self._held.published, self._held.mark
        if published is None or mark is None:
            raise ClientError(409, self._held.refusal or "there is no state to decide from.")
        return published, mark

    def _is_stale(self) -> bool:
        """Whether the state is too old; raises if that is how it was wanted."""
        if self._max_staleness is None or self._held.staleness <= self._max_staleness:
            return False
        if self._when_stale == "refuse":
            raise ClientError(
                503,
                f"the state is {self._held.staleness:.0f} s old, and the service does not answer; max_staleness is "
                f"{self._max_staleness:g} s.",
            )
        return True

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise RuntimeError("an Edge belongs to the process that made it: make another one after a fork.")
        if self._upkeep.ending.is_set():
            raise RuntimeError("this Edge is closed.")

    # ---- the service --------------------------------------------------------------------------------------------

    @property
    def staleness(self) -> float:
        """Seconds since the service last said that the state is the latest."""
        return self._held.staleness

    @property
    def pending(self) -> int:
        """How many decisions and outcomes wait to be uploaded."""
        return self._spool.pending

    def refresh(self) -> None:
        """Get the latest state now."""
        self._check_process()
        self._upkeep.refresh()

    def flush(self) -> int:
        """Upload what waits now, as far as the service takes it; how many decisions and outcomes are left."""
        self._check_process()
        return self._upkeep.flush()

    def close(self) -> None:
        """Upload what waits, if the service takes it, and end; the rest stays in the spool for the next one."""
        if self._process == os.getpid() and not self._upkeep.ending.is_set():  # a fork leaves it to its parent
            self._upkeep.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _check_contexts(contexts: Sequence[Context]) -> None:
    """Refuse what is no table; its entries are looked at later."""
    if isinstance(contexts, str | Mapping) or not isinstance(contexts, Sequence):
        raise InvalidError(f"contexts must be a list of tables; got {entries.short(contexts)}.")
    if not all(type(context) is dict for context in contexts):  # as nearly always
        for context in contexts:
            entries.table(context, "context")


def _name(folder: Path, given: str | None) -> str:
    """The name of an edge, which its spool keeps."""
    if given is not None and (not isinstance(given, str) or not EDGE_NAME.fullmatch(given)):
        raise ValueError(f"name must be 1 to 64 letters, digits, dots, - or _; got {given!r}.")
    known = _kept(folder / "name", given, "name")
    name = known or given or f"edge-{secrets.token_hex(4)}"
    if known is None:
        journal.replace(folder / "name", name.encode())
    return name


def _kept(path: Path, given: str | None, what: str) -> str | None:
    """What a file of a spool says, if there is one: then nothing else may be given."""
    if not path.exists():
        return None
    try:
        known = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        known = ""
    if not known or not known.isprintable():
        raise ValueError(f"{path} is damaged: it should say the {what} of this spool. Write that into it again.")
    if given not in (None, known):
        raise ValueError(f"the spool {path.parent} is that of {what} {known!r}; got {what}={given!r}.")
    return known
