"""Which arm a decision gets: a function of the state, the context and a key, and of nothing else."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from conebandit._version import __version__
from conebandit.policies.base import Decision
from conebandit.service.log.selection import Choice, Selection, Version
from conebandit.validate.arrays import FloatArray

if TYPE_CHECKING:
    from conebandit.service.log.events import Decided
    from conebandit.service.log.state import State


def choose(state: State, x: FloatArray, key: str) -> Selection:
    """Arm, propensity and what led to them."""
    mode, baseline = state.mode, state.experiment.baseline
    if mode == "off":
        return Selection(mode, baseline, 1.0, (baseline,), choice=None, version=None)
    decision = state.policy.decide(x, key)
    active = [state.known[k] for k in decision.active]
    arm, propensity = state.known[decision.arm], decision.propensity
    probabilities: dict[str, float] | None = None  # as a policy of another package may leave them
    if decision.probabilities is not None:
        chances = zip(state.known, decision.probabilities.tolist(), strict=True)
        probabilities = {name: chance for name, chance in sorted(chances) if chance > 0.0}  # sorted, as on disk
    if not all(state.arms[name] for name in (arm, *active)):
        arm, probabilities = _choose_unretired(state, decision, key)
        active, propensity = [name for name in state.known if name in probabilities], probabilities[arm]
    choice = Choice(arm, propensity, probabilities)
    served = choice if mode == "live" else Choice(baseline, 1.0)
    version = Version(state.experiment.policy, __version__, state.version)
    return Selection(mode, served.arm, served.propensity, tuple(active), choice, version)


def keep(drawn: Decided) -> Selection:
    """The arm that was drawn for a unit, once more: there is no draw, and the policy is not asked."""
    made = drawn.selection
    return Selection(made.mode, made.arm, 1.0, (made.arm,), choice=None, version=None)


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
