"""The life of an experiment: its stages, changes of its declaration, and rules that are lifted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

from conebandit.experiment import entries
from conebandit.experiment.arms import read_arms
from conebandit.experiment.declaration import Experiment, Stage, as_stage
from conebandit.experiment.errors import InvalidError
from conebandit.experiment.policy import make_policy, with_policy
from conebandit.service.engine.experiments import Experiments
from conebandit.service.engine.repair import MAX_REASON
from conebandit.service.errors import ConflictError, NotFoundError
from conebandit.service.log.events import Changed, Lifted, StageChanged
from conebandit.service.log.replay import past_rows
from conebandit.service.log.state import State
from conebandit.service.replies import Description, RulesReport

NEXT_STAGES: dict[Stage, tuple[Stage, ...]] = {
    "draft": ("running", "ended"),
    "running": ("paused", "ended"),
    "paused": ("running", "ended"),
    "ended": (),
}
# What a change may be about when there have been decisions: these alone follow from the log whatever they are.
CHANGEABLE = ("policy", "cone", "metrics", "rules")
CHANGEABLE_OF_METRICS = ("resolution", "units")
NEVER_CHANGED = ("id", "stage", "mode")  # the last two have requests of their own


class LifeCycle(Experiments):
    """What an ``admin`` decides on the way."""

    def set_stage(self, experiment_id: str, stage: Any, reason: Any) -> Description:
        """Begin, pause, go on or end; the stage that it has is a no-op."""
        wanted, why = as_stage(stage), _reason(reason)
        state = self.transaction.state(experiment_id)
        if state.stage != wanted:
            if wanted not in NEXT_STAGES[state.stage]:
                allowed = " or ".join(NEXT_STAGES[state.stage]) or "nothing else"
                raise ConflictError(f"a {state.stage} experiment can become {allowed}; got {wanted}.")
            self.append(state, StageChanged(self.transaction.time(state), wanted, why))
        return self.describe(experiment_id)

    def change(
        self, experiment_id: str, changes: Mapping[str, Any], reason: Any, checked: CheckedChange | None = None
    ) -> Description:
        """Declare some entries otherwise; what is declared so already is a no-op.

        ``checked`` is what :meth:`CheckedChange.check` has made of the same changes before everything was locked.
        """
        why = _reason(reason)
        state = self.transaction.state(experiment_id)
        self.refuse_if_ended(state)
        declaration = self.transaction.declared(experiment_id)
        if checked is None or checked.before != declaration:  # somebody else has changed it meanwhile
            checked = CheckedChange.check(declaration, changes, state.arms)
        after = checked.after
        if after.declaration == declaration:
            return self.describe(experiment_id)
        free = state.stage == "draft" and past_rows(self.transaction.session, experiment_id) is None
        _check_entries(declaration, after, free=free)
        _check_stopped_rules(state, after)
        make_policy(after, after.arms if free else [arm for arm, active in state.arms.items() if active])
        self.append(state, Changed(self.transaction.time(state), after.declaration, why))
        if free:  # nothing was decided or learned: it takes no time, and nobody decides by the old declaration
            self.transaction.revise_now(experiment_id)
        self.transaction.revise_if_short(experiment_id)
        return self.describe(experiment_id)

    def lift(self, experiment_id: str, rule: Any, reason: Any, then: Any) -> Description:
        """End what a rule has stopped: it begins anew, or is off. One that has stopped nothing can be turned off."""
        why = _reason(reason)
        what = entries.one_of(then, ("restart", "disable"), "then")
        state = self.transaction.state(experiment_id)
        self.refuse_if_ended(state)
        if not isinstance(rule, str) or rule not in state.rules.rules:
            known = ", ".join(state.rules.rules) or "none"
            raise NotFoundError(
                f"there is no rule {entries.short(rule)} in experiment {experiment_id!r}; it has {known}."
            )
        stopped = any(name == rule for name, _ in state.rules.stopped)
        if stopped or (what == "disable") != (rule in state.rules.disabled):
            self.append(state, Lifted(self.transaction.time(state), rule, what, why))
        return self.describe(experiment_id)

    def rules(self, experiment_id: str) -> RulesReport:
        """What the safety rules have seen."""
        state = self.transaction.state(experiment_id)
        return RulesReport(tuple(state.rules.status(self.transaction.time(state))))


class CheckedChange(NamedTuple):
    """A declaration and what it is to become. The slow checks are made with it, before everything is locked."""

    before: dict[str, Any]
    after: Experiment

    @classmethod
    def check(cls, before: dict[str, Any], changes: Any, arms: Iterable[str] = ()) -> Self:
        """Replace some entries, and leave out those that are null; an ``InvalidError`` if that declares nothing.

        Rules may name any of the ``arms`` that there are; the new declaration says which of those were added later.
        """
        table = entries.plain(entries.table(changes, "the change"))
        if not table:
            raise InvalidError("the change must have one or more entries of a declaration.")
        entries_after = {name: value for name, value in {**before, **table}.items() if value is not None}
        entries_after.pop("added_arms", None)
        added = _added_arms_named(entries_after, arms)
        if added:
            entries_after["added_arms"] = added
        return cls(before, with_policy(Experiment.from_dict(entries_after)))


def _added_arms_named(declaration: Mapping[str, Any], arms: Iterable[str]) -> list[str]:
    """The arms that rules name and that are not declared; an ``InvalidError`` if there is no such arm."""
    declared, _ = read_arms(declaration.get("arms"))
    added = [arm for arm in arms if arm not in declared]
    named, rules = set(), declaration.get("rules")
    for i, rule in enumerate(rules if isinstance(rules, list) else []):
        if isinstance(rule, dict) and rule.get("arm") is not None:
            named.add(entries.one_of(rule["arm"], (*declared, *added), f"rules[{i}].arm"))
    return [arm for arm in added if arm in named]


def _check_entries(before: Mapping[str, Any], after: Experiment, *, free: bool) -> None:
    """Refuse changes that the log cannot be read with; a draft that has learned nothing is ``free`` to become any."""
    names = [name for name in {**before, **after.declaration} if before.get(name) != after.declaration.get(name)]
    for name in names:
        if name == "added_arms":
            continue  # it follows from the rules
        if name in NEVER_CHANGED or not (free or name in CHANGEABLE):
            raise ConflictError(
                f"{name!r} cannot be changed: what was decided and learned would mean something else. A change may be "
                f"about {', '.join(CHANGEABLE)}; arms, mode and stage have requests of their own."
            )
    if "metrics" in names and not free:
        _check_metrics(before["metrics"], after.declaration["metrics"])


def _check_stopped_rules(state: State, after: Experiment) -> None:
    """A change must not lift a rule in passing."""
    rules = {rule.name: rule for rule in after.rules}
    for name, _ in state.rules.stopped:
        if rules.get(name) != state.rules.rules[name]:
            raise ConflictError(f"rule {name!r} has stopped something, and cannot be changed: lift it first.")


def _check_metrics(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> None:
    fixed = [
        [{name: value for name, value in metric.items() if name not in CHANGEABLE_OF_METRICS} for metric in metrics]
        for metrics in (before, after)
    ]
    if fixed[0] != fixed[1]:
        raise ConflictError(
            f"of metrics, only {' and '.join(CHANGEABLE_OF_METRICS)} can be changed: values in the log were measured, "
            "and counted, by the others. Give all metrics, in the same order."
        )


def _reason(given: Any) -> str:
    return entries.text(given, "reason", most=MAX_REASON)
