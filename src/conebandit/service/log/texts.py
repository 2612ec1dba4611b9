"""The body of a decision as text, put together by hand: most events are decisions, and this takes half the time."""

from __future__ import annotations

import math
from functools import lru_cache
from json.encoder import encode_basestring_ascii as quoted
from typing import TYPE_CHECKING

from conebandit.service.log.bodies import Body
from conebandit.service.stores.records import canonical

if TYPE_CHECKING:
    from conebandit.service.log.events import Decided
    from conebandit.service.log.selection import Version


def body_text(decided: Decided, by: Body) -> str:
    """What :func:`canonical` makes of the body of a decision and of who caused it, to the letter."""
    made = decided.selection
    choice, version = made.choice, made.version
    chances = None if choice is None else choice.probabilities
    if decided.visit is not None or choice is None or version is None or chances is None:
        return canonical({**decided.to_body(), **by})
    if not math.isfinite(sum((made.propensity, choice.propensity, *chances.values(), *decided.x))):
        return canonical({**decided.to_body(), **by})  # which refuses numbers that JSON has not
    caused = f'"by":{canonical(by["by"])},' if by else ""
    active, x = ",".join(map(quoted, made.active)), ",".join(map(repr, decided.x))
    table = ",".join([f"{quoted(name)}:{chance!r}" for name, chance in sorted(chances.items())])
    return (
        f'{{"active":[{active}],"arm":{quoted(made.arm)},"at":{decided.at},{caused}'
        f'"choice":{{"arm":{quoted(choice.arm)},"probabilities":{{{table}}},"propensity":{choice.propensity!r}}},'
        f'"context":{canonical(decided.context)},"id":{quoted(decided.id)},"mode":"{made.mode}",'
        f'"propensity":{made.propensity!r},"version":{_version_text(version)},"x":[{x}]}}'
    )


@lru_cache(maxsize=64)
def _version_text(version: Version) -> str:
    """One for many decisions: a policy learns from time to time."""
    return canonical(version._asdict())
