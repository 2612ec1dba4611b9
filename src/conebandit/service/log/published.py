"""States that edges decide from: what of a state is handed out, its checksum, and how it travels."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from conebandit._version import __version__
from conebandit.experiment.declaration import Experiment
from conebandit.experiment.policy import Served, load_policy
from conebandit.experiment.rules import BoundRule, CapRule
from conebandit.service.errors import CorruptionError
from conebandit.service.log.choosing import choose, choose_many, serve_baseline
from conebandit.service.log.rules import Rules
from conebandit.service.log.selection import Selection, Version
from conebandit.service.log.state import State, checksum
from conebandit.service.stores.records import canonical
from conebandit.validate.arrays import FloatArray

FORMAT = 1


class OtherReleaseError(Exception):
    """A state comes from another release of the library, which may compute something else."""


class PublishedState:
    """A state as it was published: nothing changes it any more, and all that decide from it decide alike.

    Parameters
    ----------
    seq
        Position of the event that published it.
    at
        When: milliseconds since 1970.
    state
        To decide from; its policy is its own.
    check
        Checksum of what decisions depend on; computed if it is not given.
    """

    def __init__(self, seq: int, at: int, state: State, check: str | None = None) -> None:
        self.seq, self.at, self.state = seq, at, state
        self.check = published_check(state) if check is None else check

    @classmethod
    def of(cls, state: State, seq: int, at: int) -> PublishedState:
        """A copy of what a state is now."""
        return cls(seq, at, _made(state.experiment, _plain(state), state.policy.copy()))

    @property
    def version(self) -> Version:
        """Which policy decides."""
        return Version(self.state.experiment.policy, __version__, self.state.version)

    @property
    def tag(self) -> str:
        """What tells it from all others: a log that was restored may have one of the same checksum elsewhere."""
        return f"{self.seq}-{self.check}"

    def decide(self, xs: Sequence[Sequence[float]] | FloatArray, keys: Sequence[str]) -> list[Selection]:
        """What is served in each of some contexts: a function of this state, the contexts and the keys alone."""
        if len(keys) == 1:  # as most callers ask
            return [choose(self.state, np.asarray(xs[0]), keys[0], self.at)]
        return choose_many(self.state, xs, keys, self.at) if keys else []

    def prepare(self) -> None:
        """Decide once, so that whatever has to be compiled is, and no caller waits for it."""
        middle = [0.5] * self.state.experiment.context_dim
        self.decide([middle], ["0"])
        self.decide([middle] * 2, ["0", "1"])

    @property
    def baseline(self) -> Selection:
        """What is served where this state is too old to decide from."""
        return serve_baseline(self.state)

    @cached_property
    def size(self) -> int:
        """Bytes of its policy, about."""
        return sum(array.nbytes for array in self.state.policy.state().values())

    @cached_property
    def content(self) -> bytes:
        """As it travels: a line of JSON, and the file of the policy, which holds no code."""
        header = {**_plain(self.state), "format": FORMAT, "state": self.seq, "at": self.at, "check": self.check}
        with tempfile.TemporaryDirectory() as folder:
            self.state.policy.save(Path(folder) / "policy")
            return canonical(header).encode() + b"\n" + (Path(folder) / "policy").read_bytes()

    @classmethod
    def read(cls, content: bytes) -> PublishedState:
        """What was sent; a ``CorruptionError`` if it is not whole, or an ``OtherReleaseError``."""
        head, _, policy = content.partition(b"\n")
        try:
            header = json.loads(head)
            if (header["library"], header["format"]) != (__version__, FORMAT):
                raise OtherReleaseError(f"the service is of release {header['library']}, and this is {__version__}.")
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "policy").write_bytes(policy)
                loaded = load_policy(Path(folder) / "policy")
            made = _made(Experiment.from_dict(header["declaration"]), header, loaded)
            published = cls(int(header["state"]), int(header["at"]), made)
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise CorruptionError(f"this is no published state: {error}") from None
        if published.check != header["check"]:
            raise CorruptionError("the published state does not match its checksum.")
        return published


def published_check(state: State) -> str:
    """A checksum of all that decisions at an edge depend on, each bit of the policy included."""
    return checksum(_plain(state), state.policy)


def outlines(state: State) -> tuple[int, str]:
    """What tells two states apart without their policies: the last event learned from, and all else as text."""
    plain = _plain(state)
    return plain.pop("version"), canonical(plain)


def _plain(state: State) -> dict[str, Any]:
    """Everything that decides, but the policy."""
    return {
        "declaration": state.experiment.declaration,
        "arms": list(state.arms.items()),
        "known": list(state.known),
        "mode": state.mode,
        "stage": state.stage,
        "version": state.version,
        "library": __version__,
        **_plain_rules(state.rules),
    }


def _plain_rules(rules: Rules) -> dict[str, Any]:
    """Rules that may have stopped something; the others count decisions, which an edge cannot (see below)."""
    plain = rules.plain()
    bounds = [rule for rule in plain["rules"] if rule[0] == BoundRule.__name__]
    if not bounds:
        return {}
    kept = {"rules": bounds, "stopped": plain["stopped"], "disabled": plain["disabled"]}
    return {"rules": {**kept, "since": {}, "counts": {}, "watches": []}}


def _made(experiment: Experiment, plain: dict[str, Any], policy: Served) -> State:
    state = State(experiment, tuple(plain["known"]))
    state.policy, state.arms = policy, dict(plain["arms"])
    state.mode, state.stage, state.version = plain["mode"], plain["stage"], plain["version"]
    if "rules" in plain:
        state.rules = Rules.from_plain(json.loads(canonical(plain["rules"])))  # a copy: the other one goes on
    return state


def why_not_at_edges(state: State, at: int) -> str | None:
    """What of an experiment needs one place that knows of every decision; None if nothing does."""
    units, rules = state.experiment.units, state.rules
    if units is not None and units.sticky:
        return "its units keep their arms, and an edge does not know what was drawn elsewhere"
    caps = [name for name, rule in rules.rules.items() if isinstance(rule, CapRule) and name not in rules.disabled]
    if caps:
        return f"its rules cap decisions ({', '.join(caps)}), and an edge does not count those of others"
    if rules.rules and rules.burning_in(at):
        return "it is in its burn-in, which is counted in one place; ask again when that is over"
    return None
