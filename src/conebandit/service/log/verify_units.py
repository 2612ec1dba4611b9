"""What ``verify`` checks of units: that they kept the arms that they should, and that their names lead to the log."""

from __future__ import annotations

from bisect import bisect_left

from conebandit.service.log.bodies import MAX_POSITION
from conebandit.service.log.entries import read_as
from conebandit.service.log.events import Decided
from conebandit.service.log.replay import erased_units
from conebandit.service.log.state import State
from conebandit.service.log.visits import Draw, changes_of_mode, kept
from conebandit.service.stores.personal import DECISION, ERASING, UNIT, Alias
from conebandit.service.stores.session import PAGE, Session


class UnitsOfLog:
    """The draws of all units of a log, as they come: by the log alone, not by the table of names.

    Parameters
    ----------
    session
        Of the store.
    experiment_id
        Whose log.
    """

    def __init__(self, session: Session, experiment_id: str) -> None:
        self._session, self._id = session, experiment_id
        self._mode_changes = changes_of_mode(session, experiment_id)
        self._visits: dict[str, int] = {}  # of each unit, so far
        self._last_draws: dict[str, Draw] = {}  # of each unit, so far
        self._draws: dict[int, Draw] = {}  # the last one of its unit before a decision, by position
        self._names: dict[str, Alias] = {}  # rows that there should be, by alias; those that were not looked up yet
        self._checked = 0  # rows that were looked up
        self._seen_units = False
        self._erased = erased_units(session, experiment_id, MAX_POSITION)  # all that there are by now, as in the rows
        self._problems: list[str] = []

    def see(self, state: State, seq: int, decided: Decided) -> None:
        """The next decision of the log."""
        visit, units = decided.visit, state.experiment.units
        self._seen_units |= units is not None
        if visit is None or units is None:
            return
        if visit.number != self._visits.get(visit.unit, 0) + 1:
            self._problems.append(f"decision at event {seq}: it is said to be number {visit.number} of its unit.")
        self._visits[visit.unit] = visit.number
        if visit.unit in self._last_draws:
            self._draws[seq] = self._last_draws[visit.unit]
        if visit.repeats is None and units.sticky:
            self._last_draws[visit.unit] = Draw(seq, self._as_logged(state, seq, decided))
        if decided.names is not None:
            self._names[decided.id] = Alias(DECISION, decided.names.id, decided.id, visit.unit, seq)
            if visit.number == 1:
                self._names[visit.unit] = Alias(UNIT, decided.names.unit, visit.unit, visit.unit, seq)
        if len(self._names) >= PAGE:
            self._look_up()

    def _as_logged(self, state: State, seq: int, decided: Decided) -> Decided:
        """A decision with the time that it carries, right or wrong."""
        if not state.repairs.concern(seq):
            return decided
        return read_as(Decided, self._session.events(self._id, seq - 1, seq)[0])

    def kept(self, state: State, seq: int, decided: Decided) -> Decided | None:
        """The draw whose arm a decision should repeat; None if there should be a new one."""
        before = bisect_left(self._mode_changes, seq)
        changed = self._mode_changes[before - 1] if before else 0
        draw = kept(state, self._draws.get(seq), changed, decided.at)
        return None if draw is None else draw.decided

    def _look_up(self) -> None:
        """Whether callers find decisions and units by the names that these were made with, and erasures what is theirs.

        Names that are being erased are forgotten already: those of units that the log says are to be erased, no others.
        """
        found = self._session.rows_of_aliases(self._id, list(self._names))
        for alias, row in self._names.items():
            expected = row._replace(kind=ERASING, name=alias) if row.unit in self._erased else row
            if found.get(alias) != expected:
                whose = "its name does" if row.kind == DECISION else "the name of its unit does"
                self._problems.append(f"decision at event {row.seq}: {whose} not lead to it.")
        self._checked += len(self._names)
        self._names = {}

    def problems(self, upto: int, last: int) -> list[str]:
        """What is wrong, in words; of decisions up to a position, of a log that ends at the ``last`` one."""
        self._look_up()
        # Without units nothing looks at these rows, and a store from before there were any may lack their table.
        surplus = self._session.count_aliases(self._id, upto, last) - self._checked if self._seen_units else 0
        if surplus > 0 and not self._problems:
            rows = "1 row" if surplus == 1 else f"{surplus} rows"
            whose = "of decisions or units that the log does not have, or that are erased"
            self._problems.append(f"the table of names has {rows} too many: {whose}.")
        return self._problems
