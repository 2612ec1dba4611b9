"""Decisions about units: which visit of a unit it is, whether it repeats an earlier one, and what callers call them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

from conebandit.service.log import bodies
from conebandit.service.log.bodies import Body

MODE_CHANGED = "mode_changed"  # kind of the events that end what units keep

if TYPE_CHECKING:
    from conebandit.service.log.events import Decided
    from conebandit.service.log.state import State
    from conebandit.service.stores.session import Session


class Visit(NamedTuple):
    """Of which unit a decision is.

    Attributes
    ----------
    unit
        The alias of the unit.
    number
        Which decision of the unit it is, counted from 1.
    repeats
        The decision whose arm the unit has kept; None if an arm was drawn, or the baseline served.
    """

    unit: str
    number: int
    repeats: str | None = None

    def to_body(self) -> Body:
        """Its part of the body of a decision."""
        body: Body = {"unit": self.unit, "visit": self.number}
        return body if self.repeats is None else {**body, "repeats": self.repeats}

    @classmethod
    def from_body(cls, body: Body) -> Self:
        """Read it from the body of a decision."""
        repeats = bodies.text(body, "repeats") if "repeats" in body else None
        return cls(bodies.text(body, "unit"), bodies.position(body, "visit"), repeats)


class Names(NamedTuple):
    """What a caller calls a decision and its unit."""

    id: str
    unit: str

    @staticmethod
    def to_body(names: Names | None) -> Body:
        """Its part of the body of a decision."""
        return {"names": None if names is None else names._asdict()}

    @classmethod
    def from_body(cls, body: Body) -> Self | None:
        """Read it from the body of a decision; None if it was erased."""
        if body.get("names") is None:
            return None
        names = bodies.table(body, "names")
        return cls(bodies.text(names, "id"), bodies.text(names, "unit"))


class Draw(NamedTuple):
    """A decision of a unit for which no earlier arm was kept, and its position: its arm may be kept from then on.

    Its time is the one that it carries; which one holds depends on what is known of the clock.
    """

    seq: int
    decided: Decided


def kept(state: State, drawn: Draw | None, mode_changed: int, at: int) -> Draw | None:
    """The draw whose arm a unit keeps in a decision; None if there is to be a new one.

    An arm that was retired is not kept, nor is one that safety rules bar, or that was drawn before the traffic mode was
    changed, or while rules let only the baseline be served.

    Parameters
    ----------
    state
        In which the decision is made.
    drawn
        The last draw of the unit, if there was one.
    mode_changed
        Position of the last change of the mode; 0 if there was none.
    at
        When the decision is made: milliseconds since 1970.
    """
    units = state.experiment.units
    if drawn is None or units is None or state.mode != "live" or drawn.seq < mode_changed:
        return None
    made, rules = drawn.decided.selection, state.rules
    if made.mode != "live" or (rules.rules and (rules.only_baseline(at) or made.arm in rules.barred(at))):
        return None
    arm_is_there = state.arms.get(made.arm, False)
    age = at - state.repairs.latest(drawn.seq, drawn.decided.at)
    return drawn if arm_is_there and units.keeps(age) else None


def changes_of_mode(session: Session, experiment_id: str, after: int = 0) -> list[int]:
    """Positions of the changes of the mode after some position."""
    return [record.seq for record in session.of_kinds(experiment_id, (MODE_CHANGED,), 2**62, after)]
