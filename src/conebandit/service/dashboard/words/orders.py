"""What an admin may order on the dashboard, and what each order will do, in words, before it is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

from conebandit.experiment import entries
from conebandit.experiment.declaration import MODES, Stage, as_arm_name, as_mode, as_stage
from conebandit.pages.wording import shown
from conebandit.service.dashboard.words.telling import LEFT_OUT, THEN
from conebandit.service.engine.lifecycle import NEXT_STAGES
from conebandit.service.engine.turn import Turn
from conebandit.service.errors import ConflictError, NotFoundError
from conebandit.service.log import events
from conebandit.service.log.bodies import MAX_POSITION
from conebandit.service.stores.base import Store
from conebandit.service.stores.records import Head

MAX_NAMED = 10  # arms that a sentence lists; more are counted
KINDS = tuple(
    kind.kind
    for kind in (
        *(events.Created, events.ModeChanged, events.StageChanged, events.ArmAdded, events.ArmRetired, events.Changed),
        *(events.Stopped, events.Lifted),
    )
)
REVIVED = {"restart": "begin the rule anew", "disable": "turn the rule off"}


@dataclass(frozen=True)
class Stop:
    """A rule that has fired: the arms that it is about (none: all of them), and what follows."""

    rule: str
    says: str
    arms: tuple[str, ...]
    then: str


@dataclass(frozen=True)
class Situation:
    """In what an order is given.

    Attributes
    ----------
    id, mode, stage
        Of the experiment.
    arms
        By name, whether they can be served.
    baseline
        The arm that modes ``shadow`` and ``off`` serve.
    stops
        Rules that have fired.
    rules
        Names of all rules, and whether they are on.
    sticky
        Whether units keep their arms.
    revising
        Whether corrections or changes do not count yet.
    barred
        Arms that safety rules leave out.
    """

    id: str
    mode: str
    stage: Stage
    arms: dict[str, bool]
    baseline: str
    stops: tuple[Stop, ...]
    rules: dict[str, bool]
    sticky: bool
    revising: bool
    barred: frozenset[str] = frozenset()

    @property
    def next_stages(self) -> tuple[Stage, ...]:
        """What its stage can become."""
        return NEXT_STAGES[self.stage]

    def status(self, arm: str) -> str:
        """How it is with an arm, in words."""
        if not self.arms[arm]:
            return "retired"
        if arm in self.barred:
            return LEFT_OUT
        return "the baseline" if arm == self.baseline else "can be served"

    @property
    def can_retire(self) -> list[str]:
        """Arms that can be retired."""
        return [arm for arm, active in self.arms.items() if active and arm != self.baseline]


def situation(turn: Turn, experiment_id: str) -> Situation:
    """How things are, within a turn; nothing of it takes long."""
    state = turn.transaction.state(experiment_id)
    experiment, stopped = state.experiment, list(state.rules.stopped.items())
    stops = []
    for rule in dict.fromkeys(name for (name, _), _ in stopped):
        arms = tuple(arm for (name, arm), _ in stopped if name == rule and arm is not None)
        then = next(then for (name, _), then in stopped if name == rule)
        stops.append(Stop(rule, str(state.rules.rules[rule]), arms, then))
    return Situation(
        experiment_id,
        state.mode,
        state.stage,
        dict(state.arms),
        experiment.baseline,
        tuple(stops),
        {rule: rule not in state.rules.disabled for rule in state.rules.rules},
        sticky=experiment.units is not None and experiment.units.sticky > 0,
        revising=state.corrected_from is not None,
        barred=frozenset(state.rules.barred(turn.transaction.time(state))),
    )


def last_order(store: Store, experiment_id: str) -> str:
    """The last event that has changed what an order would do, as a page carries it: its position and checksum."""
    with store.read() as session:
        head = session.existing_head(experiment_id)
        return _as_text(session.of_kinds(experiment_id, KINDS, head.seq)[-1].head)


def _is_last_order(turn: Turn, experiment_id: str, seen: str) -> bool:
    """Whether the event that a page has carried is still the last one; within a turn, so that none can come between."""
    transaction, position = turn.transaction, seen.partition(" ")[0]
    if not (position.isascii() and position.isdigit()) or len(position) > len(str(MAX_POSITION)):
        return False
    upto = transaction.state(experiment_id).head.seq
    transaction.write(experiment_id)  # what others have ordered in this very turn
    since = transaction.session.of_kinds(experiment_id, KINDS, upto, int(position) - 1)
    return [_as_text(record.head) for record in since] == [seen]


def _as_text(head: Head) -> str:
    return f"{head.seq} {head.check}"


class Order(NamedTuple):
    """What is to be done.

    Attributes
    ----------
    what
        One of :data:`WORDS`.
    value
        The mode, the stage, the name of an arm or of a rule.
    then
        What becomes of a rule that is lifted.

    Examples
    --------
    >>> now = Situation("e", "live", "running", {"old": True, "new": True}, "old", (), {}, False, False)
    >>> order = Order.read({"what": "retire", "value": "new"})
    >>> order.title, order.consequences(now)[0]
    ('Retire arm new', 'Nobody is served arm new any more, from the next decision on; old is left.')
    """

    what: str
    value: str
    then: str = ""

    @classmethod
    def read(cls, form: Mapping[str, str]) -> Self:
        """From the fields of a form; an ``InvalidError`` if it cannot be."""
        what = entries.one_of(form.get("what"), tuple(WORDS), "what")
        value = form.get("value", "")
        if what == "lift":
            return cls(what, value, entries.one_of(form.get("then"), tuple(REVIVED), "then"))
        check: Callable[[str], str] = as_mode if what == "mode" else as_stage if what == "stage" else as_arm_name
        return cls(what, check(value))

    @property
    def title(self) -> str:
        """What it is, in a few words."""
        value = shown(self.value)
        return {
            "mode": f"Change the mode to {value}",
            "stage": {"running": "Let it run", "paused": "Pause", "ended": "End for good"}.get(self.value, value),
            "add": f"Add arm {value}",
            "retire": f"Retire arm {value}",
            "lift": f"Lift rule {value} and {REVIVED.get(self.then, '')}",
        }[self.what]

    @property
    def takes_reason(self) -> bool:
        """Whether the log keeps a reason."""
        return self.what in ("stage", "lift")

    @property
    def is_final(self) -> bool:
        """Whether it can never be undone."""
        return self.what == "retire" or (self.what, self.value) == ("stage", "ended")

    def holds(self, now: Situation) -> bool:
        """Whether it is so already."""
        return {
            "mode": now.mode == self.value,
            "stage": now.stage == self.value,
            "add": now.arms.get(self.value, False),
            "retire": now.arms.get(self.value) is False,
            "lift": self.value not in [stop.rule for stop in now.stops]
            and now.rules.get(self.value) is (self.then == "restart"),
        }[self.what]

    def consequences(self, now: Situation) -> list[str]:
        """What will happen, and to whom."""
        return WORDS[self.what](self, now)

    def carry_out(self, turn: Turn, experiment_id: str, reason: str | None, seen: str) -> bool:
        """Do it, unless things have changed since somebody has read what would happen; False if it is so already.

        ``seen`` is what :func:`last_order` said then.
        """
        if self.holds(situation(turn, experiment_id)):
            return False
        if not _is_last_order(turn, experiment_id, seen):
            raise ConflictError(
                "the experiment has changed since this page was shown, so that something else might happen than what "
                "it said. Go back to Control and look again."
            )
        if self.what == "mode":
            turn.set_mode(experiment_id, self.value)
        elif self.what == "stage":
            turn.set_stage(experiment_id, self.value, reason)
        elif self.what == "add":
            turn.add_arm(experiment_id, self.value)
        elif self.what == "retire":
            turn.retire_arm(experiment_id, self.value)
        else:
            turn.lift(experiment_id, self.value, reason, self.then)
        return True


# ---- in words -------------------------------------------------------------------------------------------------------


def _mode(order: Order, now: Situation) -> list[str]:
    baseline = shown(now.baseline)
    words = {
        "live": f"The policy decides who gets which arm: one of {_named(now)}.",
        "shadow": f"Everybody is served the baseline, {baseline}. What the policy would have done is logged.",
        "off": f"Everybody is served the baseline, {baseline}. The policy is not asked.",
    }[order.value]
    said = [_from_when(now), words, "Outcomes are taken and learned from as before."]
    if now.sticky and "live" in (order.value, now.mode):
        said.append("Units do not keep the arms that they had: in mode live there is a new draw for each.")
    return said


def _stage(order: Order, now: Situation) -> list[str]:
    refused = "Whoever asks for a new decision is refused, and needs an answer of their own."
    if order.value == "running":
        first = "The experiment begins." if now.stage == "draft" else "The experiment goes on."
        said = [f"{first} Decisions are made from now on, in mode {now.mode}, with {_named(now)}."]
        if now.stage == "draft":
            said.append("Of its declaration, only policy, cone, rules, and resolution and units of metrics can change.")
        return said
    if order.value == "paused":
        return [refused, "Who asks again for a decision that was made gets the same answer; outcomes are taken."]
    if order.value == "ended":
        return [
            refused,
            "Outcomes are refused, too, also those of decisions that still wait for them.",
            "Nothing of the experiment can be changed any more, and it never goes on. This cannot be undone.",
            "Its log stays: it can be read, exported and archived, and units can be erased.",
        ]
    raise ConflictError("an experiment that has begun is never a draft again.")


def _add(order: Order, now: Situation) -> list[str]:
    arm = shown(order.value)
    return [
        f"Arm {arm} joins {_named(now)}.",
        "The policy learns the whole log anew with it, beside the decisions; from then on people may be served it.",
        "An arm can be retired later, but a name is never free again.",
    ]


def _retire(order: Order, now: Situation) -> list[str]:
    arm, left = shown(order.value), [name for name in now.arms if now.arms[name] and name != order.value]
    verb = "is" if len(left) == 1 else "are"
    said = [
        f"Nobody is served arm {arm} any more, from the next decision on; {_listed(left)} {verb} left.",
        "It never comes back, and its name is never free again. This cannot be undone.",
        "Its decisions stay in the log, and their outcomes are taken.",
    ]
    if now.sticky:
        said.append("Units that have kept it get another arm at their next visit, and keep that one.")
    return said


def _lift(order: Order, now: Situation) -> list[str]:
    stop = next((stop for stop in now.stops if stop.rule == order.value), None)
    if stop is None:
        raise NotFoundError(f"rule {order.value[:60]!a} has stopped nothing.")
    about = f" ({_listed(stop.arms)})" if stop.arms else ""
    said = [f"What the rule has stopped goes on. Until now: {THEN.get(stop.then, shown(stop.then))}{about}."]
    if order.then == "restart":
        return [*said, "The rule begins anew: only decisions from now on count for it, and it may err once more."]
    return [*said, "The rule is off: it protects nobody any more, until somebody restarts it."]


def _from_when(now: Situation) -> str:
    return "From the next decision on:" if now.stage == "running" else "When the experiment runs:"


def _named(now: Situation) -> str:
    """The arms that can be served, and those that cannot be at present."""
    served = [arm for arm, active in now.arms.items() if active]
    barred = [arm for arm in served if arm in now.barred]
    return _listed(served) + (f" (but for {_listed(barred)}, {LEFT_OUT})" if barred else "")


def _listed(names: list[str] | tuple[str, ...]) -> str:
    some = ", ".join(shown(name) for name in names[:MAX_NAMED])
    return f"{some} and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else some


WORDS: dict[str, Callable[[Order, Situation], list[str]]] = {
    "mode": _mode,
    "stage": _stage,
    "add": _add,
    "retire": _retire,
    "lift": _lift,
}
MODES_IN_WORDS = dict(
    zip(
        MODES,
        ("the policy decides", "the baseline is served, and the policy decides for the log", "the baseline is served"),
        strict=True,
    )
)
