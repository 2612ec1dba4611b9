"""Which arm a decision gets: a function of the state, the context and a key, and of nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from hashlib import blake2b
from itertools import compress, repeat
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from conebandit._version import __version__
from conebandit.experiment.declaration import Stage
from conebandit.policies.base import Decision, Decisions
from conebandit.service.log.selection import Choice, Selection, Version
from conebandit.validate.arrays import FloatArray

if TYPE_CHECKING:
    from conebandit.service.log.events import Decided
    from conebandit.service.log.state import State


REFUSALS: dict[Stage, str] = {
    "draft": "is a draft: begin it first (stage 'running').",
    "paused": "is paused: it makes no decisions until its stage is 'running' again.",
    "ended": "has ended: it makes no more decisions.",
}


def refusal(state: State, decisions: int, at: int) -> str | None:
    """Why so many decisions cannot be made at a time; None if they can."""
    if state.stage != "running":
        return REFUSALS[state.stage]
    left = state.rules.left(at) if state.rules.rules else None
    if left is None or decisions <= left:
        return None
    return f"may make {left} more decisions, its safety rules say ({', '.join(state.rules.limiting(at))})."


def choose(state: State, x: FloatArray, key: str, at: int) -> Selection:
    """Arm, propensity and what led to them, at a time."""
    return _without_policy(state, at) or _select(state, state.policy.decide(x, key), key, at)


def choose_many(
    state: State, xs: Sequence[Sequence[float]] | FloatArray, keys: Sequence[str], at: int
) -> list[Selection]:
    """What :func:`choose` says for each of many contexts; only where a decision does not change the next one.

    So not where safety rules count decisions. The policy is asked once, which is much quicker.
    """
    served = _without_policy(state, at)
    if served is not None:
        return [served] * len(keys)
    made = state.policy.decide_many(np.asarray(xs), keys)
    if state.rules.rules or not all(state.arms[name] for name in state.known):  # some may have to be drawn again
        rows = zip(made.arms.tolist(), made.propensities.tolist(), *made[2:], keys, strict=True)
        return [_select(state, Decision(*row), key, at) for *row, key in rows]
    return _select_all(state, made)


def _select_all(state: State, made: Decisions) -> list[Selection]:
    """What :func:`_select` says of each decision, where nothing but the policy has a say."""
    mode, known = state.mode, state.known
    version = Version(state.experiment.policy, __version__, state.version)
    arms, propensities = [known[arm] for arm in made.arms.tolist()], made.propensities.tolist()
    in_play = lru_cache(maxsize=None)(partial(_named, known))  # one for many decisions
    active = [known] * len(arms) if made.masks.all() else list(map(in_play, _rows(made.masks)))
    choices = list(map(Choice, arms, propensities, _tables(known, made.probabilities)))
    if mode != "live":
        arms, propensities = [state.experiment.baseline] * len(arms), [1.0] * len(arms)
    return list(map(Selection, repeat(mode), arms, propensities, active, choices, repeat(version)))


def _tables(known: tuple[str, ...], chances: FloatArray) -> list[dict[str, float]]:
    """The probabilities (n, K) of each decision by name, of arms that have one."""
    in_order = _in_order(known)
    names, rows = [known[k] for k in in_order], chances[:, in_order].tolist()
    return [{name: chance for name, chance in zip(names, row, strict=True) if chance > 0.0} for row in rows]


@lru_cache(maxsize=64)
def _in_order(known: tuple[str, ...]) -> list[int]:
    """Positions of arms in the order of their names, as on disk."""
    return sorted(range(len(known)), key=known.__getitem__)


def _named(names: tuple[str, ...], flags: Sequence[bool]) -> tuple[str, ...]:
    """Those of the arms that are flagged."""
    return tuple(compress(names, flags))


def _rows(flags: NDArray[np.bool_]) -> Iterator[tuple[bool, ...]]:
    """The rows of a table."""
    return zip(*flags.T.tolist(), strict=True)


def _without_policy(state: State, at: int) -> Selection | None:
    """The baseline, if it alone is to be served; None if the policy is to be asked."""
    if state.mode == "off" or (state.rules.rules and state.rules.only_baseline(at)):
        return serve_baseline(state)
    return None


def serve_baseline(state: State) -> Selection:
    """The baseline, without asking the policy."""
    baseline = state.experiment.baseline
    return Selection("off", baseline, 1.0, (baseline,), choice=None, version=None)


def _select(state: State, decision: Decision, key: str, at: int) -> Selection:
    """What is served where the policy has decided so."""
    mode, known = state.mode, state.known
    active = _named(known, decision.mask.tolist())
    arm, propensity = known[decision.arm], decision.propensity
    probabilities: dict[str, float] | None = None  # as a policy of another package may leave them
    if decision.probabilities is not None:
        chances = decision.probabilities.tolist()
        probabilities = {known[k]: chances[k] for k in _in_order(known) if chances[k] > 0.0}
    if not all(map(state.arms.__getitem__, (arm, *active))):
        arm, probabilities = _choose_unretired(state, decision, key)
        active, propensity = _those_in(probabilities, known), probabilities[arm]
    if state.rules.rules:
        ruled = _ruled(state, probabilities or dict.fromkeys(sorted(active), 1.0), at)
        if ruled is not None:
            arm, probabilities = _draw(ruled, _number(state.experiment.seed, key)), ruled
            active, propensity = _those_in(probabilities, known), probabilities[arm]
    choice = Choice(arm, propensity, probabilities)
    served = choice if mode == "live" else Choice(state.experiment.baseline, 1.0)
    version = Version(state.experiment.policy, __version__, state.version)
    return Selection(mode, served.arm, served.propensity, active, choice, version)


def _those_in(probabilities: dict[str, float], known: tuple[str, ...]) -> tuple[str, ...]:
    """Arms that have a probability, in the order of the policy."""
    return tuple(name for name in known if name in probabilities)


def keep(drawn: Decided) -> Selection:
    """The arm that was drawn for a unit, once more: there is no draw, and the policy is not asked."""
    made = drawn.selection
    return Selection(made.mode, made.arm, 1.0, (made.arm,), choice=None, version=None)


def _ruled(state: State, weights: dict[str, float], at: int) -> dict[str, float] | None:
    """The probabilities of all arms where safety rules change those of the policy; None if they do not.

    In a burn-in they are the same for all arms that may be served; else those of the policy, without the arms that may
    not. If that leaves none, the baseline is served: it always may be.
    """
    barred = state.rules.barred(at)
    if state.rules.burning_in(at):
        weights = {name: 1.0 for name in sorted(state.known) if state.arms[name] and name not in barred}
    elif barred.isdisjoint(weights):
        return None
    else:
        weights = {name: weight for name, weight in weights.items() if name not in barred}
    weights = weights or {state.experiment.baseline: 1.0}
    total = math.fsum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


def _draw(probabilities: dict[str, float], number: int) -> str:
    """An arm, by the upper bits of a number."""
    draw, name = (number >> 75) * 2.0**-53, ""
    for name, chance in probabilities.items():  # noqa: B007  (the last one, should they add up to less than 1)
        draw -= chance
        if draw < 0.0:
            break
    return name


def _choose_unretired(state: State, decision: Decision, key: str) -> tuple[str, dict[str, float]]:
    """An arm and all probabilities where an arm was retired that the policy still has.

    The others that the policy itself plays are drawn with equal chances; with ``explore``, any that may be served.
    """
    explore, baseline = state.policy.explore, state.experiment.baseline
    played = decision.mask
    if explore and decision.probabilities is not None:  # then the mask has all arms: those above the floor count
        played = decision.probabilities > explore / len(state.known)
    own = [name for name, plays in zip(state.known, played.tolist(), strict=True) if plays and state.arms[name]]
    own = own or [baseline]
    number = _number(state.experiment.seed, key)
    if not explore:
        return own[number % len(own)], dict.fromkeys(sorted(own), 1 / len(own))
    served = sorted(name for name in state.known if state.arms[name])
    chance, floor = (1.0 - explore) / len(own), explore / len(served)
    explores = (number >> 75) * 2.0**-53 < explore  # other bits of the number than those that pick the arm
    drawn = served if explores else own
    return drawn[number % 2**64 % len(drawn)], {name: floor + chance * (name in own) for name in served}


def _number(seed: int, key: str) -> int:
    """128 bits that depend on nothing but seed and key."""
    return int.from_bytes(blake2b(f"{seed}\n{key}".encode(), digest_size=16).digest())
