"""The safety rules of a declaration: bounds on metrics, caps on decisions, and a burn-in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from conebandit.experiment import entries
from conebandit.experiment.errors import InvalidError
from conebandit.experiment.metrics import Metric

MAX_RULES = 16
MAX_COUNT = 10**9  # decisions
MIN_ERROR, MAX_ERROR = 1e-9, 0.5

BoundAction = Literal["stop", "baseline", "suspend"]
CapAction = Literal["stop", "baseline"]
Watched = Literal["arm", "experiment"]

_BOUND = ("name", "metric", "above", "below", "error", "arm", "per", "then")
_CAP = ("name", "at_most", "arm", "per", "then")
_BURN_IN = ("name", "burn_in")


@dataclass(frozen=True)
class BoundRule:
    """Something happens when the mean of a metric is above a bound, or below it, with a small error probability.

    Attributes
    ----------
    name
        Of the rule.
    metric, side, bound
        The mean of which metric must not be ``"above"``, or ``"below"``, what.
    range
        Of the metric.
    error
        The probability with which the rule ever fires although the mean is on the right side of the bound.
    arms
        Each of these arms is watched for itself, each with its share of the error; None: all arms together.
    others
        Whether arms that are added later are watched, too, each with a share as large.
    spared
        An arm that is not watched: the baseline, where it could not be suspended.
    then
        What happens: no more decisions (``"stop"``), only the baseline (``"baseline"``), or never this arm
        (``"suspend"``), until somebody lifts it.

    Examples
    --------
    >>> from conebandit.experiment.declaration import Experiment
    >>> experiment = Experiment.from_dict({
    ...     "id": "doses", "arms": ["none", "low", "high"],
    ...     "metrics": [{"name": "toxicity", "direction": "min", "range": [0, 1]}],
    ...     "rules": [{"metric": "toxicity", "above": 0.3, "error": 0.05, "then": "suspend"}],
    ... })
    >>> experiment.rules[0].arms, experiment.rules[0].needed
    (('low', 'high'), 40.0)
    """

    name: str
    metric: str
    side: Literal["above", "below"]
    bound: float
    range: tuple[float, float]
    error: float
    arms: tuple[str, ...] | None
    others: bool
    spared: str | None
    then: BoundAction

    def watches(self, arm: str) -> bool:
        """Whether values of an arm count."""
        return self.arms is None or arm in self.arms or (self.others and arm != self.spared)

    @property
    def needed(self) -> float:
        """How much evidence is needed: the factor by which money must have grown."""
        return max(len(self.arms or ()), 1) / self.error

    def harm(self, value: float) -> float:
        """A value as a number from 0, the most harmless one, to 1."""
        low, high = self.range
        harm = (value - low) / (high - low) if self.side == "above" else (high - value) / (high - low)
        return min(max(harm, 0.0), 1.0)  # a default may lie outside

    def __str__(self) -> str:
        watched = "all arms together" if self.arms is None else ", ".join(self.arms)
        if self.arms is not None and self.others:
            watched = "each arm"
        ends = {"stop": "no more decisions", "baseline": "only the baseline", "suspend": "not this arm"}
        return f"if {self.metric} is {self.side} {self.bound:g} ({watched}, error {self.error:g}): {ends[self.then]}"


@dataclass(frozen=True)
class CapRule:
    """At most so many decisions, in all or in each period.

    Attributes
    ----------
    name
        Of the rule.
    at_most
        How many.
    arm
        Only those that serve this arm; None: all.
    period
        In how many seconds, counted from 1970 on, so that a day is one of UTC; None: ever.
    then
        What happens to more decisions, unless it is about one arm, in whose place others are served.

    Examples
    --------
    >>> print(CapRule("few", at_most=20, arm="high", period=86400.0, then="stop"))
    at most 20 of high in 86400 s
    """

    name: str
    at_most: int
    arm: str | None
    period: float | None
    then: CapAction

    def __str__(self) -> str:
        within = "" if self.period is None else f" in {self.period:g} s"
        if self.arm is not None:
            return f"at most {self.at_most} of {self.arm}{within}"
        rest = "refused" if self.then == "stop" else "the baseline"
        return f"at most {self.at_most} decisions{within}, then {rest}"


@dataclass(frozen=True)
class BurnInRule:
    """The first decisions are drawn from all arms that may be served, each with the same chance.

    Attributes
    ----------
    name
        Of the rule.
    decisions
        How many there are.

    Examples
    --------
    >>> print(BurnInRule("first", 30))
    the first 30 decisions: any arm
    """

    name: str
    decisions: int

    def __str__(self) -> str:
        return f"the first {self.decisions} decisions: any arm"


Rule = BoundRule | CapRule | BurnInRule


class _Arms(NamedTuple):
    """What rules can be about."""

    declared: tuple[str, ...]
    added: tuple[str, ...]  # later; rules for each arm watch them, too, but do not divide their error among them
    baseline: str

    def named(self, given: Any, where: str) -> str:
        arm: str = entries.one_of(given, (*self.declared, *self.added), where)
        return arm

    def check_not_baseline(self, arm: str, where: str) -> None:
        if arm == self.baseline:
            raise InvalidError(
                f"{where}: {arm!r} is the baseline, which is served when nothing else may be; stop or cap all "
                "decisions, or declare another 'baseline'."
            )


def read_rules(
    given: Any, arms: Sequence[str], metrics: Sequence[Metric], baseline: str, added: Sequence[str] = ()
) -> tuple[Rule, ...]:
    """Rules with different names; they may name the arms that are declared, and those that were ``added`` later.

    Examples
    --------
    >>> toxicity = Metric("toxicity", "min", worst=1.0, range=(0.0, 1.0))
    >>> declared = [{"metric": "toxicity", "above": 0.3, "error": 0.05, "then": "suspend"}, {"at_most": 500}]
    >>> for rule in read_rules(declared, ["none", "low", "high"], [toxicity], "none"):
    ...     print(f"{rule.name}: {rule}")
    toxicity above 0.3: if toxicity is above 0.3 (each arm, error 0.05): not this arm
    at most: at most 500 decisions, then refused
    """
    if not isinstance(given, list) or len(given) > MAX_RULES:
        raise InvalidError(f"rules must be a list of at most {MAX_RULES} tables; got {entries.short(given)}.")
    rules: list[Rule] = []
    there = _Arms(tuple(arms), tuple(added), baseline)
    for i, entry in enumerate(given):
        where = f"rules[{i}]"
        table = {name: value for name, value in entries.table(entry, where).items() if value is not None}
        if "metric" in table:
            rules.append(_bound(table, where, there, {m.name: m for m in metrics}))
        elif "at_most" in table:
            rules.append(_cap(table, where, there))
        elif "burn_in" in table:
            entries.only(table, _BURN_IN, where)
            name = _name(table, "burn-in", where)
            rules.append(BurnInRule(name, _count(table["burn_in"], f"{where}.burn_in")))
        else:
            raise InvalidError(
                f"{where} must have 'metric' (a bound), 'at_most' (a cap) or 'burn_in'; got {entries.short(table)}."
            )
    names = [rule.name for rule in rules]
    for name in names:
        if names.count(name) > 1:
            raise InvalidError(f"rules: two are called {name!r}; give each a 'name' of its own.")
    return tuple(rules)


def _bound(table: dict[str, Any], where: str, arms: _Arms, metrics: Mapping[str, Metric]) -> BoundRule:
    entries.only(table, _BOUND, where)
    metric = metrics[entries.one_of(table["metric"], tuple(metrics), f"{where}.metric")]
    if metric.range is None:
        raise InvalidError(
            f"{where}: a bound on {metric.name!r} needs the 'range' of that metric, since a mean can be told with a "
            "stated error only if the values have limits."
        )
    if ("above" in table) == ("below" in table):
        raise InvalidError(f"{where} must have either 'above' or 'below', with the value that must not be crossed.")
    side: Literal["above", "below"] = "above" if "above" in table else "below"
    bound = entries.number(table[side], f"{where}.{side}")
    if not metric.range[0] < bound < metric.range[1]:
        raise InvalidError(
            f"{where}.{side} must lie within the range of {metric.name!r}, {metric.range[0]:g} to {metric.range[1]:g}; "
            f"got {bound:g}."
        )
    error = entries.number(table.get("error"), f"{where}.error")
    if not MIN_ERROR <= error <= MAX_ERROR:
        raise InvalidError(f"{where}.error must be between {MIN_ERROR:g} and {MAX_ERROR:g}; got {error:g}.")
    then: BoundAction = entries.one_of(table.get("then"), get_args(BoundAction), f"{where}.then")
    watched, others = _watched(table, where, arms, then)
    spared = arms.baseline if then == "suspend" else None
    name = _name(table, f"{metric.name} {side} {bound:g}", where)
    return BoundRule(name, metric.name, side, bound, metric.range, error, watched, others, spared, then)


def _watched(table: dict[str, Any], where: str, arms: _Arms, then: BoundAction) -> tuple[tuple[str, ...] | None, bool]:
    """Which arms are watched, each for itself, and whether those that come later are; None: all together."""
    if "arm" in table:
        if "per" in table:
            raise InvalidError(f"{where}: give 'arm', or 'per', but not both.")
        arm = arms.named(table["arm"], f"{where}.arm")
        if then == "suspend":
            arms.check_not_baseline(arm, where)
        return (arm,), False
    per: Watched = entries.one_of(table.get("per", "arm"), get_args(Watched), f"{where}.per")
    if per == "arm":
        return tuple(arm for arm in arms.declared if not (then == "suspend" and arm == arms.baseline)), True
    if then == "suspend":
        raise InvalidError(f"{where}: 'suspend' is about one arm; with per = 'experiment', stop or serve the baseline.")
    return None, True


def _cap(table: dict[str, Any], where: str, arms: _Arms) -> CapRule:
    entries.only(table, _CAP, where)
    arm = table.get("arm")
    if arm is not None:
        if "then" in table:
            raise InvalidError(f"{where}: 'then' is for a cap on all decisions; in place of an arm, others are served.")
        arms.check_not_baseline(arms.named(arm, f"{where}.arm"), where)
    period = None if "per" not in table else entries.seconds(table["per"], f"{where}.per")
    then: CapAction = entries.one_of(table.get("then", "stop"), get_args(CapAction), f"{where}.then")
    about = "" if arm is None else f" {arm}"
    name = _name(table, f"at most{about}{'' if period is None else f' per {period:g} s'}", where)
    return CapRule(name, _count(table["at_most"], f"{where}.at_most"), arm, period, then)


def _count(given: Any, where: str) -> int:
    count = entries.integer(given, where)
    if not 1 <= count <= MAX_COUNT:
        raise InvalidError(f"{where} must be from 1 to {MAX_COUNT:,}; got {count}.")
    return count


def _name(table: dict[str, Any], usual: str, where: str) -> str:
    return entries.name(table.get("name", usual[:64].strip()), f"{where}.name")
