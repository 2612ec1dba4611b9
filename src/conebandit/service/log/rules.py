"""Safety rules: what they have seen, which have fired, and what that means for the next decision. Part of the fold.

A bound is watched by bets on the values of the decisions (:mod:`conebandit.diagnose.bound_watch`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any, NamedTuple, get_args

from conebandit.diagnose.bound_watch import MAX_LOG, BoundWatch
from conebandit.experiment.arms import read_added_arms, read_arms
from conebandit.experiment.metrics import read_metrics
from conebandit.experiment.rules import BoundRule, BurnInRule, CapRule, Rule, read_rules
from conebandit.service.errors import CorruptionError
from conebandit.service.log.events import Lifted, Stopped
from conebandit.service.replies import RuleStatus

KINDS: dict[str, Callable[..., Rule]] = {kind.__name__: kind for kind in get_args(Rule)}

Watched = tuple[str, str | None]  # the name of a rule, and an arm if each is watched for itself


class _Count(NamedTuple):
    """Decisions that a cap or a burn-in has counted, in a period."""

    period: int
    decisions: int


class Rules:
    """The rules of an experiment, as far as the log has told of them."""

    def __init__(self) -> None:
        self.rules: dict[str, Rule] = {}
        self.stopped: dict[Watched, str] = {}  # and what follows
        self.disabled: set[str] = set()
        self._since: dict[str, int] = {}  # position after which decisions count
        self._watches: dict[Watched, BoundWatch] = {}
        self._fired: set[Watched] = set()
        self._counts: dict[str, _Count] = {}

    # ---- folding ------------------------------------------------------------------------------------------------

    def declare(self, rules: Iterable[Rule], seq: int) -> None:
        """From now on, these are the rules. What a rule that stays has seen stays with it; a cap may become another."""
        before, self.rules = self.rules, {rule.name: rule for rule in rules}
        kept = {name for name, rule in self.rules.items() if name in before and _same(rule, before[name])}
        self._since = {name: self._since[name] if name in kept else seq for name in self.rules}
        self._counts = {name: count for name, count in self._counts.items() if name in kept}
        self._watches = {key: watch for key, watch in self._watches.items() if key[0] in kept}
        self._fired = {key for key in self._fired if key[0] in kept}
        self.stopped = {key: then for key, then in self.stopped.items() if key[0] in kept}
        self.disabled &= kept

    def decide(self, seq: int, arm: str, at: int) -> None:
        """A decision was made."""
        for rule in self.rules.values():
            match rule:
                case BoundRule():
                    if (key := _key(rule, arm)) is not None:
                        if key not in self._watches:
                            self._watches[key] = BoundWatch(rule, self._since[rule.name])
                        self._watches[key].decide(seq)
                case CapRule(arm=None) | BurnInRule():
                    self._count(rule, at)
                case CapRule() if rule.arm == arm:
                    self._count(rule, at)

    def _count(self, rule: CapRule | BurnInRule, at: int) -> None:
        self._counts[rule.name] = _Count(_period(rule, at), self._counted(rule, at) + 1)

    def settle(self, decided: int, arm: str, metric: str, value: float) -> None:
        """A value of the decision at a position is known."""
        for rule in self.rules.values():
            if isinstance(rule, BoundRule) and rule.metric == metric and (key := _key(rule, arm)) in self._watches:
                assert key is not None
                self._watches[key].settle(decided, value)
                if self._watches[key].fired is not None:
                    self._fired.add(key)

    def take(self, event: Stopped | Lifted, seq: int) -> None:
        """A rule has fired, or is lifted, says the log."""
        if event.rule not in self.rules:
            raise CorruptionError(f"event {seq} ({event.kind}): there is no rule {event.rule!a}.")
        if isinstance(event, Lifted):
            self._lift(event, seq)
        else:
            self.stopped[event.rule, event.watched] = event.then

    def _lift(self, event: Lifted, seq: int) -> None:
        self.stopped = {key: then for key, then in self.stopped.items() if key[0] != event.rule}
        self._watches = {key: watch for key, watch in self._watches.items() if key[0] != event.rule}
        self._fired = {key for key in self._fired if key[0] != event.rule}
        self._since[event.rule] = seq
        (self.disabled.add if event.then == "disable" else self.disabled.discard)(event.rule)

    # ---- what follows ---------------------------------------------------------------------------------------------

    def due(self, at: int, arms: dict[str, bool]) -> Stopped | None:
        """The stop that must be the next event, if one is; a retired arm need not be stopped."""
        due = [
            key
            for key in self._fired
            if key not in self.stopped and key[0] not in self.disabled and (key[1] is None or arms.get(key[1], False))
        ]
        if not due:
            return None  # as after most events
        name, arm = min(due, key=lambda key: (list(self.rules).index(key[0]), key[1] or ""))
        watch = self._watches[name, arm]
        assert watch.fired is not None  # it is among those that have
        return Stopped(at, name, arm, watch.rule.then, math.exp(min(watch.fired, MAX_LOG)), watch.seen())

    def left(self, at: int) -> int | None:
        """How many decisions may still be made; None for any number."""
        if "stop" in self.stopped.values():
            return 0
        return min((self._left(rule, at) for rule in self._limits()), default=None)

    def limiting(self, at: int) -> list[str]:
        """Names of the rules that allow the fewest decisions."""
        stopped = [name for (name, _), then in self.stopped.items() if then == "stop"]
        left = self.left(at)
        return stopped or [rule.name for rule in self._limits() if self._left(rule, at) == left]

    def _limits(self) -> list[CapRule]:
        return [rule for rule in self._caps() if rule.arm is None and rule.then == "stop"]

    def only_baseline(self, at: int) -> bool:
        """Whether nothing but the baseline may be served."""
        caps = [rule for rule in self._caps() if rule.arm is None and rule.then == "baseline"]
        return "baseline" in self.stopped.values() or any(self._left(rule, at) == 0 for rule in caps)

    def barred(self, at: int) -> set[str]:
        """Arms that may not be served."""
        suspended = {arm for (_, arm), then in self.stopped.items() if then == "suspend" and arm is not None}
        return suspended | {rule.arm for rule in self._caps() if rule.arm is not None and self._left(rule, at) == 0}

    def burning_in(self, at: int) -> bool:
        """Whether any arm is to be drawn, whatever the policy says."""
        return any(
            isinstance(rule, BurnInRule) and self._counted(rule, at) < rule.decisions for rule in self._enabled()
        )

    def _enabled(self) -> list[Rule]:
        return [rule for name, rule in self.rules.items() if name not in self.disabled]

    def _caps(self) -> list[CapRule]:
        return [rule for rule in self._enabled() if isinstance(rule, CapRule)]

    def _left(self, rule: CapRule, at: int) -> int:
        return max(rule.at_most - self._counted(rule, at), 0)

    def _counted(self, rule: CapRule | BurnInRule, at: int) -> int:
        count = self._counts.get(rule.name)
        return 0 if count is None or count.period != _period(rule, at) else count.decisions

    # ---- for people -------------------------------------------------------------------------------------------------

    def status(self, at: int) -> list[RuleStatus]:
        """What each rule has seen, for each arm that it watches."""
        found = []
        for rule in self.rules.values():
            disabled = "disabled" if rule.name in self.disabled else None
            if isinstance(rule, BoundRule):
                watched = [(arm, watch) for (name, arm), watch in self._watches.items() if name == rule.name]
                found += [self._status_of(rule, arm, watch) for arm, watch in watched]
                if not watched:
                    found.append(RuleStatus(rule.name, str(rule), disabled or "watching"))
            else:
                most = rule.at_most if isinstance(rule, CapRule) else rule.decisions
                reached = "reached" if self._counted(rule, at) >= most else "open"
                found.append(RuleStatus(rule.name, str(rule), disabled or reached, decisions=self._counted(rule, at)))
        return found

    def _status_of(self, rule: Rule, arm: str | None, watch: BoundWatch) -> RuleStatus:
        stopped = (rule.name, arm) in self.stopped
        status = "stopped" if stopped else "disabled" if rule.name in self.disabled else "watching"
        seen, (low, high) = watch.seen(), watch.interval()
        return RuleStatus(
            rule=rule.name,
            says=str(rule),
            status=status,
            arm=arm,
            decisions=int(seen["decisions"]),
            known=int(seen["known"]),
            mean=seen.get("mean"),
            low=low,
            high=high,
            evidence=watch.evidence,
            needed=watch.rule.needed,
        )

    # ---- keeping --------------------------------------------------------------------------------------------------

    def plain(self) -> dict[str, Any]:
        """To be kept, with the rules themselves: the declaration of a state may be an earlier one."""
        return {
            "rules": [[type(rule).__name__, asdict(rule)] for rule in self.rules.values()],
            "since": self._since,
            "stopped": [[*key, then] for key, then in self.stopped.items()],
            "disabled": sorted(self.disabled),
            "counts": {name: list(count) for name, count in self._counts.items()},
            "watches": [[*key, watch.plain()] for key, watch in self._watches.items()],
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Rules:
        """What :meth:`plain` was asked of."""
        self = cls()
        self.rules = {rule.name: rule for rule in map(_read, plain["rules"])}
        self.stopped = {(name, arm): then for name, arm, then in plain["stopped"]}
        self.disabled, self._since = set(plain["disabled"]), dict(plain["since"])
        self._counts = {name: _Count(*count) for name, count in plain["counts"].items()}
        for name, arm, kept in plain["watches"]:
            rule = self.rules[name]
            assert isinstance(rule, BoundRule)  # others are not watched
            self._watches[name, arm] = BoundWatch.from_plain(rule, kept)
        self._fired = {key for key, watch in self._watches.items() if watch.fired is not None}
        return self


def declared_rules(declaration: dict[str, Any]) -> tuple[Rule, ...]:
    """The rules of a declaration; without the rest of it, some of which takes a while."""
    if not declaration.get("rules"):
        return ()
    arms, _ = read_arms(declaration.get("arms"))
    metrics, added = read_metrics(declaration.get("metrics")), read_added_arms(declaration.get("added_arms", []), arms)
    return read_rules(declaration["rules"], arms, metrics, declaration.get("baseline", arms[0]), added)


def _read(plain: tuple[str, dict[str, Any]]) -> Rule:
    """A rule as it was kept."""
    kind, entries = plain
    fields = {name: tuple(value) if isinstance(value, list) else value for name, value in entries.items()}
    return KINDS[kind](**fields)


def _same(rule: Rule, before: Rule) -> bool:
    """Whether a rule may go on with what another one has seen; limits may be raised."""
    if isinstance(rule, CapRule) and isinstance(before, CapRule):
        return (rule.arm, rule.period) == (before.arm, before.period)
    return rule == before or (isinstance(rule, BurnInRule) and isinstance(before, BurnInRule))


def _key(rule: BoundRule, arm: str) -> Watched | None:
    """What a value of an arm is for; None if the rule does not watch it."""
    if not rule.watches(arm):
        return None
    return rule.name, None if rule.arms is None else arm


def _period(rule: CapRule | BurnInRule, at: int) -> int:
    """The number of the period in which a time is."""
    return 0 if isinstance(rule, BurnInRule) or rule.period is None else int(at // (rule.period * 1000))
