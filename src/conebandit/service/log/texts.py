"""The bodies of decisions as text. Most events are decisions, so the quickest writes them that writes the same.

That is pydantic. It differs from :func:`canonical` in what is not ASCII, and in very large and very small numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from json.encoder import encode_basestring_ascii as quoted
from typing import TYPE_CHECKING, Any

import numpy as np

from conebandit.service.log.bodies import Body
from conebandit.service.stores.records import canonical

if TYPE_CHECKING:
    from conebandit.service.log.events import Decided
    from conebandit.service.log.selection import Selection

MIN_PLAIN, MAX_PLAIN = 1e-4, 1e16  # numbers of these sizes have no exponent
PLAIN_TYPES = {str, int, float, bool, type(None)}  # of values in a context
_NOT_ASCII = re.compile(r"[^\x00-\x7e]+")  # with the last character of ASCII, which Python escapes, too


def body_text(decided: Decided, by: Body) -> str:
    """What :func:`canonical` makes of the body of a decision and of who caused it, to the letter."""
    return body_texts([decided], [by])[0]


def body_texts(made: Sequence[Decided], by: Sequence[Body]) -> list[str]:
    """What :func:`body_text` says of each of some decisions, in less time."""
    to_json = _quick_json()
    if to_json is None:
        return [canonical({**decided.to_body(), **caused}) for decided, caused in zip(made, by, strict=True)]
    plain = list(map(_is_plain, made))
    for number in _with_odd_numbers(made, plain):
        plain[number] = False
    return [
        _quick_text(decided, caused, to_json) if quick else canonical({**decided.to_body(), **caused})
        for decided, caused, quick in zip(made, by, plain, strict=True)
    ]


def number_texts(numbers: list[float]) -> list[str]:
    """What :func:`canonical` makes of each of some numbers, in less time.

    Examples
    --------
    >>> number_texts([0.5, 1e-05, -0.0, 1e22])
    ['0.5', '1e-05', '-0.0', '1e+22']
    """
    to_json = _quick_json()
    if to_json is None or not numbers:
        return list(map(_number_text, numbers))
    together = to_json(numbers).decode()[1:-1]
    texts = together.split(",")
    if _may_be_odd(together):
        return [_number_text(numbers[i]) if _may_be_odd(text) else text for i, text in enumerate(texts)]
    return texts


def _number_text(number: float) -> str:
    return repr(number) if -math.inf < number < math.inf else canonical(number)  # which refuses it


def _may_be_odd(text: str) -> bool:
    """Whether there may be numbers with an exponent, or that Python writes with one, or that are none."""
    return "e" in text or "0.0000" in text or "n" in text or "N" in text


@lru_cache(maxsize=1)
def _quick_json() -> Callable[[Any], bytes] | None:
    """What writes quickly. It comes with FastAPI, which those who do not serve need not have."""
    with suppress(ModuleNotFoundError):
        from pydantic_core import to_json  # noqa: PLC0415  (only where decisions are made)

        return to_json
    return None


def _is_plain(decided: Decided) -> bool:
    """Whether it is about no unit, by a policy that says everything, in a context as callers can send it."""
    _, _, _, _, choice, version = decided.selection
    told = version is not None and choice is not None and choice.probabilities is not None
    return told and decided.visit is None and PLAIN_TYPES.issuperset(map(type, decided.context.values()))


def _with_odd_numbers(made: Sequence[Decided], plain: Sequence[bool]) -> set[int]:
    """Positions of plain decisions with numbers that may be written with an exponent, or not at all."""
    numbers: list[float] = []
    ends = []
    for decided, quick in zip(made, plain, strict=True):
        _, _, propensity, _, choice, _ = decided.selection
        if quick and choice is not None and choice.probabilities is not None:
            numbers += (propensity, choice.propensity, *choice.probabilities.values(), *decided.x)
            numbers += [value for value in decided.context.values() if type(value) is float]
        ends.append(len(numbers))
    return _rows_with_odd_numbers(numbers, ends)


def _rows_with_odd_numbers(numbers: Sequence[float], ends: Sequence[int]) -> set[int]:
    """Which rows have numbers that may be written with an exponent, or not at all; ``ends`` says where rows end."""
    if len(ends) == 1:  # arrays take longer
        return set() if all(MIN_PLAIN <= abs(number) < MAX_PLAIN or number == 0.0 for number in numbers) else {0}
    sizes = np.abs(np.array(numbers))
    odd = np.flatnonzero(~((sizes >= MIN_PLAIN) & (sizes < MAX_PLAIN) | (sizes == 0.0)))
    return set(np.searchsorted(ends, odd, side="right").tolist())


def _quick_text(decided: Decided, by: Body, to_json: Callable[[Any], bytes]) -> str:
    given: Body = {"context": decided.context}
    if decided.edge is not None:
        given |= decided.edge.to_body()
    body = _body_in_order(decided.selection, decided.at, by, {**given, "id": decided.id}, decided.x)
    try:
        text = to_json(body).decode()
    except ValueError:  # half of a surrogate pair, say
        return canonical(body)
    return text if text.isascii() and "\x7f" not in text else _NOT_ASCII.sub(_escaped, text)


def _body_in_order(selection: Selection, at: int, by: Body, given: Body, x: Sequence[float]) -> Body:
    """What :meth:`Decided.to_body` says, and who caused it, with all entries in the order of their names.

    Parameters
    ----------
    selection, at, x
        Of the decision.
    by
        Who caused it: a table with the entry ``by``, or none.
    given
        Its context, its edge if it was made at one, and its id, in this order.
    """
    mode, arm, propensity, active, choice, version = selection
    chosen = None
    if choice is not None:
        chances = {} if choice.probabilities is None else {"probabilities": in_order(choice.probabilities)}
        chosen = {"arm": choice.arm, **chances, "propensity": choice.propensity}
    return {
        "active": active,
        "arm": arm,
        "at": at,
        **({"by": in_order(by["by"])} if by else {}),
        "choice": chosen,
        **{name: in_order(entry) if type(entry) is dict else entry for name, entry in given.items()},
        "mode": mode,
        "propensity": propensity,
        "version": version and {"library": version.library, "policy": version.policy, "position": version.position},
        "x": x,
    }


def in_order(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """A table with its entries in the order of their names."""
    return table if _are_in_order(tuple(table)) else dict(sorted(table.items()))


@lru_cache(maxsize=64)
def _are_in_order(names: tuple[str, ...]) -> bool:
    """Whether they are sorted: the names of arms, columns and the like, so always the same."""
    return list(names) == sorted(names)


def _escaped(found: re.Match[str]) -> str:
    return quoted(found[0])[1:-1]
