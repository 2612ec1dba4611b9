"""The door of a log: callers have names for decisions and units, and the log of an experiment with units has others.

What callers call a decision, or a unit, may be personal, so the log has random aliases; a table beside it translates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from conebandit.service.engine.transaction import Transaction
from conebandit.service.log.choosing import choose, choose_many, keep
from conebandit.service.log.edges import AtEdge
from conebandit.service.log.entries import By, read_as, seal_bodies, seal_decisions
from conebandit.service.log.events import Decided
from conebandit.service.log.reports import Reports
from conebandit.service.log.selection import Selection
from conebandit.service.log.state import State
from conebandit.service.log.visits import Draw, Names, Visit, changes_of_mode, kept
from conebandit.service.stores.personal import DECISION, UNIT, Alias
from conebandit.service.stores.records import new_id

MAX_AT_ONCE = 1000  # decisions in one question: databases take only so many values


class Asked(NamedTuple):
    """What a decision is asked for with: a context, as given and encoded, the name of a unit, if any, and by whom."""

    context: dict[str, Any]
    x: tuple[float, ...]
    unit: str | None
    by: By | None = None


class Uploaded(NamedTuple):
    """A decision that was made at an edge.

    Attributes
    ----------
    id, alias
        What callers call it, and what the log does: the same, if there are no units.
    context, x, unit
        What it was asked for with.
    selection, edge
        What was served, and how that came about.
    """

    id: str
    alias: str
    context: dict[str, Any]
    x: tuple[float, ...]
    unit: str | None
    selection: Selection
    edge: AtEdge

    def to_table(self) -> dict[str, Any]:
        """As it was sent."""
        made = self.selection._replace(version=None).to_body()
        del made["version"]
        names = {"id": self.id} if self.unit is None else {"id": self.id, "unit": self.unit, "alias": self.alias}
        table = {**names, "at": self.edge.at, **made, "context": self.context}
        return {**table, "stale": True} if self.edge.stale else table

    def arrived(self, since: int, at: int) -> Self:
        """With a time at which it can have been made: not before its state was published, and not after now."""
        if since <= self.edge.at <= at:
            return self  # as nearly always
        return self._replace(edge=self.edge._replace(at=max(since, min(self.edge.at, at))))


class _Unit(NamedTuple):
    """A unit before its next decision."""

    alias: str
    visits: int
    drawn: Draw | None


class Door:
    """The decisions of an experiment by the names that callers have for them.

    Parameters
    ----------
    transaction
        Where decisions are looked up.
    state
        Of the experiment.
    """

    def __init__(self, transaction: Transaction, state: State) -> None:
        self._transaction, self._session, self._state = transaction, transaction.session, state
        self._id, self._has_units = state.experiment.id, state.experiment.units is not None

    def decided(self, ids: Sequence[str]) -> dict[str, Decided]:
        """Those of some decisions that have been made."""
        decided: dict[str, Decided] = {}
        for first in range(0, len(ids), MAX_AT_ONCE):
            aliases = self._aliases(ids[first : first + MAX_AT_ONCE])
            found = self._transaction.decided(self._id, list(aliases.values()))
            decided |= {id_: found[alias] for id_, alias in aliases.items() if alias in found}
        return decided

    def reports(self, ids: Sequence[str]) -> dict[str, Reports]:
        """The reports on some decisions; left out: decisions that were never made."""
        aliases = self._aliases(ids)
        found = self._transaction.reports(self._state, list(aliases.values()))
        return {id_: found[alias] for id_, alias in aliases.items() if alias in found}

    def _aliases(self, ids: Sequence[str]) -> dict[str, str]:
        return self._session.aliases(self._id, DECISION, ids) if self._has_units else {id_: id_ for id_ in ids}

    def decide(self, asked: Mapping[str, Asked], at: int) -> dict[str, Decided]:
        """Make new decisions, one after the other, by id."""
        if not asked:
            return {}
        if self._has_units:
            return self._decide_for_units(asked, at)
        if self._state.rules.rules:
            return self._decide_by_rules(asked, at)
        given, ids = list(asked.values()), list(asked)
        selections = self._selections([one.x for one in given], ids, at)
        made = [
            Decided(at, id_, one.context, one.x, selection)
            for id_, one, selection in zip(ids, given, selections, strict=True)
        ]
        self._append(made, [one.by for one in given])
        return dict(zip(ids, made, strict=True))

    def _selections(self, xs: Sequence[Sequence[float]], ids: Sequence[str], at: int) -> Sequence[Selection]:
        if len(ids) == 1:
            return [choose(self._state, np.array(xs[0]), ids[0], at)]
        return choose_many(self._state, xs, ids, at)

    def _decide_by_rules(self, asked: Mapping[str, Asked], at: int) -> dict[str, Decided]:
        """Each after the one before it: rules count them."""
        made: dict[str, Decided] = {}
        for id_, one in asked.items():
            made[id_] = Decided(at, id_, one.context, one.x, choose(self._state, np.array(one.x), id_, at))
            self._transaction.append(self._state, made[id_], by=one.by)
        return made

    def _decide_for_units(self, asked: Mapping[str, Asked], at: int) -> dict[str, Decided]:
        made: dict[str, Decided] = {}
        rows: list[Alias] = []
        units = self._units(list({one.unit: None for one in asked.values() if one.unit is not None}))
        mode_changed = self._last_change_of_mode(units)
        for id_, one in asked.items():
            name = one.unit or ""
            unit, seq = units[name], self._state.head.seq + 1
            made[id_] = self._decide_for(unit, Names(id_, name), one, at, mode_changed)
            self._transaction.append(self._state, made[id_], by=one.by)
            if not unit.visits:
                rows.append(Alias(UNIT, name, unit.alias, unit.alias, seq))
            rows.append(Alias(DECISION, id_, made[id_].id, unit.alias, seq))
            units[name] = _Unit(unit.alias, unit.visits + 1, unit.drawn if made[id_].repeats else Draw(seq, made[id_]))
        self._session.add_aliases(self._id, rows)
        return made

    def _decide_for(self, unit: _Unit, names: Names, asked: Asked, at: int, mode_changed: int) -> Decided:
        alias, drawn = f"d_{new_id()}", kept(self._state, unit.drawn, mode_changed, at)
        selection = choose(self._state, np.array(asked.x), alias, at) if drawn is None else keep(drawn.decided)
        visit = Visit(unit.alias, unit.visits + 1, None if drawn is None else drawn.decided.id)
        return Decided(at, alias, asked.context, asked.x, selection, visit, names)

    def erased(self, uploaded: Mapping[str, Uploaded]) -> list[str]:
        """Ids of decisions that the log has, about units that were erased since: it knows their aliases alone."""
        if not self._has_units:
            return []
        made = self._transaction.decided(self._id, [one.alias for one in uploaded.values()])
        return [id_ for id_, one in uploaded.items() if one.alias in made and made[one.alias].erased]

    def clashes(self, uploaded: Mapping[str, Uploaded]) -> list[str]:
        """Ids of decisions that the log cannot call as their edge does, since it calls others so."""
        if not self._has_units:
            return []
        taken = set(self._session.rows_of_aliases(self._id, [one.alias for one in uploaded.values()]))
        clashing = []
        for id_, one in uploaded.items():
            if one.alias in taken:
                clashing.append(id_)
            taken.add(one.alias)
        return clashing

    def enter(self, uploaded: Mapping[str, Uploaded], at: int, by: By | None) -> None:
        """Put decisions into the log that were made at an edge, by id; their units keep no arms."""
        if self._has_units or self._state.rules.rules:
            self._enter_one_by_one(uploaded, at, by)
            return
        made = [Decided(at, id_, one.context, one.x, one.selection, edge=one.edge) for id_, one in uploaded.items()]
        self._append(made, [by] * len(made))

    def has_any(self, ids: Sequence[str]) -> bool:
        """Whether one of some decisions has been made; not with units."""
        self._transaction.write(self._id, ids)
        return self._session.has_any_decision(self._id, ids)

    def enter_bodies(self, ids: Sequence[str], bodies: Sequence[str]) -> None:
        """What :meth:`enter` does with decisions whose bodies are written already."""
        sealed = seal_bodies(self._state.head, ids, bodies, self._session.seals, self._id)
        self._transaction.append_sealed(self._state, sealed, read_as(Decided, sealed[0]))

    def _append(self, made: Sequence[Decided], by: Sequence[By | None]) -> None:
        sealed = seal_decisions(self._state.head, made, by, self._session.seals, self._id)
        self._transaction.append_sealed(self._state, sealed, made[0])

    def _enter_one_by_one(self, uploaded: Mapping[str, Uploaded], at: int, by: By | None) -> None:
        names = {one.unit: None for one in uploaded.values() if one.unit is not None}
        units = self._units(list(names)) if names else {}
        rows: list[Alias] = []
        for id_, one in uploaded.items():
            seq, visit, called = self._state.head.seq + 1, None, None
            if one.unit is not None:
                unit = units[one.unit]
                visit, called = Visit(unit.alias, unit.visits + 1), Names(id_, one.unit)
                if not unit.visits:
                    rows.append(Alias(UNIT, one.unit, unit.alias, unit.alias, seq))
                rows.append(Alias(DECISION, id_, one.alias, unit.alias, seq))
                units[one.unit] = unit._replace(visits=unit.visits + 1)
            made = Decided(at, one.alias, one.context, one.x, one.selection, visit, called, one.edge)
            self._transaction.append(self._state, made, by=by)
        self._session.add_aliases(self._id, rows)

    def _units(self, names: list[str]) -> dict[str, _Unit]:
        """Units by name; new ones get an alias."""
        self._transaction.write(self._id)
        aliases = self._session.aliases(self._id, UNIT, names)
        latest = self._session.latest_of_units(self._id, list(aliases.values()))
        known = self._draws(list(latest.values()))
        kept_from = [visit.repeats for _, made in known.values() if (visit := made.visit) and visit.repeats]
        known |= self._draws(kept_from)
        return {name: _unit(aliases.get(name), latest, known) for name in names}

    def _draws(self, ids: Sequence[str]) -> dict[str, Draw]:
        found = self._session.of_decisions(self._id, Decided.kind, ids)
        return {id_: Draw(record.seq, read_as(Decided, record)) for id_, record in found.items()}

    def _last_change_of_mode(self, units: Mapping[str, _Unit]) -> int:
        drawn = [unit.drawn.seq for unit in units.values() if unit.drawn is not None]
        return max(changes_of_mode(self._session, self._id, after=min(drawn)), default=0) if drawn else 0


def _unit(alias: str | None, latest: Mapping[str, str], known: Mapping[str, Draw]) -> _Unit:
    """A unit before its next decision: its last one is among the latest, and that and what it repeats are known."""
    if alias is None:
        return _Unit(f"u_{new_id()}", 0, None)
    last = known[latest[alias]]
    visit = last.decided.visit
    assert visit is not None  # decisions about units have one
    return _Unit(alias, visit.number, last if visit.repeats is None else known[visit.repeats])
