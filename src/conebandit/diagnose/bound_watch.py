"""A bound of a safety rule, watched with every value: in the log of the service, and in simulated trials.

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
from collections.abc import Iterable
from typing import Any

from conebandit.diagnose.betting import LOSSES, SHARES, confidence_sequence, log_evidence, log_gains, log_sum
from conebandit.experiment.rules import BoundRule

MAX_PREFIXES = 4
FIRST_STAKE = 0.8  # of the money is at stake from the first decision on
RESTART = 32  # decisions after which some of the rest is, each time
MAX_BETS = 6  # that are kept, of those that began at different times
NOTHING = (0.0,) * len(SHARES)
MAX_LOG = 690.0  # e to this power is still a number


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


class BoundWatch:
    """The bets of one rule, on one arm or on all of them.

    Parameters
    ----------
    rule
        It says what is harmful.
    since
        Position after which decisions count.

    Examples
    --------
    >>> rule = BoundRule("harm", "toxicity", "above", 0.3, (0.0, 1.0), 0.05, None, True, None, "stop")
    >>> watch = BoundWatch(rule, since=0)
    >>> for patient in range(1, 8):
    ...     watch.decide(patient)
    ...     watch.settle(patient, 1.0)
    >>> watch.fired is not None, watch.evidence > rule.needed
    (True, True)
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
    def from_plain(cls, rule: BoundRule, plain: list[Any]) -> BoundWatch:
        """What :meth:`plain` was asked of."""
        since, fired, harm, prefixes = plain
        self = cls(rule, since)
        self.fired, self.harm = fired, harm
        *self._earlier, self._all = [_Prefix(*prefix) for prefix in prefixes]
        return self
