"""Safety rules: what they have seen, which have fired, and what that means for the next decision. Part of the fold.

A bound is watched by bets (:mod:`conebandit.diagnose.betting`) on the values of the decisions, in the order in which
they were decided. Most values come later, some sooner than others, and often the bad ones first. A value that is not
known counts as harmless until it is. So at any time the money is at most what it will be when all is known, and no
delay, whatever it depends on, makes a rule fire more often than its error says. But many decisions that wait for
their values would hide what is known of the earlier ones. So the bets are also settled for the decisions up to a few
earlier ones (:class:`_Prefix`), of which fewer wait; the largest amount counts, which is still at most what it will
be.

Harmless values cost money, so that harm which begins after many of them would be found late. So a part of the money is
not at stake at first, but bit by bit, every 32 decisions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any, NamedTuple, get_args

from conebandit.diagnose.betting import LOSSES, SHARES, confidence_sequence, log_evidence, log_gains, log_sum
from conebandit.experiment.arms import read_added_arms, read_arms
from conebandit.experiment.metrics import read_metrics
from conebandit.experiment.rules import BoundRule, BurnInRule, CapRule, Rule, read_rules
from conebandit.service.errors import CorruptionError
from conebandit.service.log.events import Lifted, Stopped
from conebandit.service.replies import RuleStatus

MAX_PREFIXES = 4
FIRST_STAKE = 0.8  # of the money is at stake from the first decision on
RESTART = 32  # decisions after which some of the rest is, each time
MAX_BETS = 6  # that are kept, of those that began at different times
NOTHING = (0.0,) * len(SHARES)
MAX_LOG = 690.0  # e to this power is still a number

KINDS: dict[str, Callable[..., Rule]] = {kind.__name__: kind for kind in get_args(Rule)}

Watched = tuple[str, str | None]  # the name of a rule, and an arm if each is watched for itself


class _Bets:
    """Bets that begin after some position; ``number`` says how many have begun before them."""

    __slots__ = ("gains", "number", "since", "waiting")

    def __init__(self, number: int, since: int, waiting: int = 0, gains: Iterable[float] = NOTHING) -> None:
        self.number, self.since, self.waiting, self.gains = number, since, waiting, list(gains)

    def settle(self, gains: list[float]) -> None:
        """One of the values that they have waited for is known."""
        self.waiting -= 1
        self.gains = [gain + more for gain, more in zip(self.gains, gains, strict=True)]

    @property
    def grown(self) -> list[float]:
        """What each share has made of 1, as a logarithm; what is not known counts as harmless."""
        return [gain + self.waiting * loss for gain, loss in zip(self.gains, LOSSES, strict=True)]

    @property
    def evidence(self) -> float:
        """The money that there is, as a logarithm."""
        part = FIRST_STAKE if self.number == 0 else (1.0 - FIRST_STAKE) / (self.number * (self.number + 1))
        return math.log(part) + log_evidence(self.grown)

    def plain(self) -> list[Any]:
        """To be kept."""
        return [self.number, self.since, self.waiting, list(self.gains)]


class _Prefix:
    """The money after all decisions up to one of them: some is at stake since the first, some since later ones."""

    __slots__ = ("bets", "decisions", "upto")

    def __init__(self, upto: int, decisions: int, bets: Iterable[list[Any]]) -> None:
        self.upto, self.decisions, self.bets = upto, decisions, [_Bets(*each) for each in bets]

    @property
    def waiting(self) -> int:
        """How many values are not known."""
        return self.bets[0].waiting

    @property
    def evidence(self) -> float:
        """All the money, as a logarithm, with what is not at stake yet."""
        left = (1.0 - FIRST_STAKE) / (self.bets[-1].number + 1)
        return log_sum([*(bets.evidence for bets in self.bets), math.log(left)])

    def reaches(self, needed: float) -> bool:
        """Whether there is as much money as that, as a logarithm; told quickly where no share has grown so much."""
        return any(max(bets.grown) >= needed for bets in self.bets) and self.evidence >= needed

    def decide(self, seq: int) -> None:
        """One more decision, at a position; now and then, more money is put at stake before it."""
        if self.decisions and self.decisions % RESTART == 0:
            if len(self.bets) == MAX_BETS:  # give those up that have the least; that only makes the rule slower
                self.bets.remove(min(self.bets[1:], key=lambda bets: bets.evidence))
            self.bets.append(_Bets(self.decisions // RESTART, self.upto))
        self.upto, self.decisions = seq, self.decisions + 1
        for bets in self.bets:
            bets.waiting += 1

    def settle(self, decided: int, gains: list[float]) -> None:
        """The value of the decision at a position is known."""
        for bets in self.bets:
            if decided > bets.since:
                bets.settle(gains)

    def plain(self) -> list[Any]:
        """To be kept, or copied."""
        return [self.upto, self.decisions, [bets.plain() for bets in self.bets]]


class _Watch:
    """The bets of one rule, on one arm or on all of them.

    Parameters
    ----------
    rule
        It says what is harmful.
    since
        Position after which decisions count.
    """

    def __init__(self, rule: BoundRule, since: int) -> None:
        self.rule, self.since = rule, since
        self.fired: float | None = None  # how much evidence there was, as a logarithm, when there was enough first
        self.harm = 0.0  # sum over all known values
        self._all = _Prefix(since, 0, [[0, since]])
        self._earlier: list[_Prefix] = []  # which still wait

    def decide(self, seq: int) -> None:
        """A decision was made; its value is not known."""
        now = self._all
        latest = self._earlier[-1].decisions if self._earlier else 0
        far_enough = (now.decisions - latest) * MAX_PREFIXES >= now.waiting
        if now.waiting and far_enough and len(self._earlier) < MAX_PREFIXES:
            self._earlier.append(_Prefix(*now.plain()))
        now.decide(seq)

    def settle(self, decided: int, value: float) -> None:
        """The value of the decision at a position is known."""
        if decided <= self.since:
            return
        harm = self.rule.harm(value)
        self.harm += harm
        gains = log_gains(harm, self.rule.harm(self.rule.bound))
        for prefix in (*self._earlier, self._all):
            if prefix.upto >= decided:
                prefix.settle(decided, gains)
                if self.fired is None and prefix.reaches(math.log(self.rule.needed)):
                    self.fired = prefix.evidence
        self._earlier = [prefix for prefix in self._earlier if prefix.waiting]

    def seen(self) -> dict[str, float]:
        """What there is to tell: numbers of decisions and of known values, and the mean of those."""
        known = self._all.decisions - self._all.waiting
        seen: dict[str, float] = {"decisions": self._all.decisions, "known": known}
        return {**seen, "mean": self._value(self.harm / known)} if known else seen

    def interval(self) -> tuple[float, float]:
        """Where the mean is, at any time with the error of the rule: an unknown value may be the best or the worst."""
        n, waiting = self._all.decisions, self._all.waiting
        error = 1.0 / self.rule.needed
        harms = (0.0, 1.0)
        least, _ = confidence_sequence(harms, harms, error, (n - self.harm, self.harm))
        _, most = confidence_sequence(harms, harms, error, (n - self.harm - waiting, self.harm + waiting))
        low, high = sorted((self._value(least), self._value(most)))
        return low, high

    def _value(self, harm: float) -> float:
        low, high = self.rule.range
        return low + harm * (high - low) if self.rule.side == "above" else high - harm * (high - low)

    @property
    def evidence(self) -> float:
        """The e-value as it is now."""
        return math.exp(min(self._all.evidence, MAX_LOG))

    def plain(self) -> list[Any]:
        """To be kept."""
        prefixes = [prefix.plain() for prefix in (*self._earlier, self._all)]
        return [self.since, self.fired, self.harm, prefixes]

    @classmethod
    def from_plain(cls, rule: BoundRule, plain: list[Any]) -> _Watch:
        """What :meth:`plain` was asked of."""
        since, fired, harm, prefixes = plain
        self = cls(rule, since)
        self.fired, self.harm = fired, harm
        *self._earlier, self._all = [_Prefix(*prefix) for prefix in prefixes]
        return self


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
        self._watches: dict[Watched, _Watch] = {}
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
                            self._watches[key] = _Watch(rule, self._since[rule.name])
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

    def _status_of(self, rule: Rule, arm: str | None, watch: _Watch) -> RuleStatus:
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
            self._watches[name, arm] = _Watch.from_plain(rule, kept)
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
