"""The body of a decision as text, put together by hand, in a quarter less time: most events are decisions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from json.encoder import encode_basestring_ascii as quoted
from typing import TYPE_CHECKING, Any

from conebandit.service.log.bodies import Body
from conebandit.service.stores.records import canonical

if TYPE_CHECKING:
    from conebandit.service.log.events import Decided
    from conebandit.service.log.selection import Version


def body_text(decided: Decided, by: Body) -> str:
    """What :func:`canonical` makes of the body of a decision and of who caused it, to the letter."""
    mode, arm, propensity, active, choice, version = decided.selection
    if decided.visit is not None or choice is None or version is None or choice.probabilities is None:
        return canonical({**decided.to_body(), **by})
    caused = f'"by":{canonical(by["by"])},' if by else ""
    return (
        f'{{"active":[{",".join(map(quoted, active))}],"arm":{quoted(arm)},"at":{decided.at},{caused}'
        f'"choice":{{"arm":{quoted(choice.arm)},"probabilities":{_table_text(choice.probabilities)},'
        f'"propensity":{_number_text(choice.propensity)}}},"context":{_table_text(decided.context)},'
        f'"id":{quoted(decided.id)},"mode":"{mode}","propensity":{_number_text(propensity)},'
        f'"version":{_version_text(version)},"x":[{",".join(map(_number_text, decided.x))}]}}'
    )


def _number_text(number: float) -> str:
    """As JSON; that has no word for numbers that are none."""
    return repr(number) if type(number) is float and -math.inf < number < math.inf else canonical(number)


def _table_text(table: Mapping[str, Any]) -> str:
    """As JSON: of numbers and texts, nearly always."""
    return f"{{{','.join([f'{quoted(name)}:{_number_text(table[name])}' for name in sorted(table)])}}}"


@lru_cache(maxsize=64)
def _version_text(version: Version) -> str:
    """One for many decisions: a policy learns from time to time."""
    return canonical(version._asdict())
