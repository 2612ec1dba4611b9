"""What a decision was: the arm that was served, what the policy would have done, and which policy that was."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import NamedTuple, Self

from conebandit.experiment.declaration import Mode
from conebandit.service.errors import CorruptionError
from conebandit.service.log import bodies
from conebandit.service.log.bodies import Body
from conebandit.service.stores.session import PAGE

_POSITION = re.compile("0|[1-9][0-9]{0,18}")  # as many digits as the largest position has; int() refuses thousands


class Version(NamedTuple):
    """Which policy made a decision: its name, the release of the library, and the last event that it had learned from.

    On disk it is a table of these three. In replies, and in logs that were written before, it is text: its first part,
    up to the first dash, is the policy and its last one the position; releases may have dashes in their names.

    Examples
    --------
    >>> Version.parse("ConeTree-1.0-rc-2-17")
    Version(policy='ConeTree', library='1.0-rc-2', position=17)
    >>> str(Version("ConeTree", "0.1.0", 17))
    'ConeTree-0.1.0-17'
    """

    policy: str
    library: str
    position: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a version; a ``CorruptionError`` if it is none."""
        policy, _, rest = text.partition("-")
        library, dash, position = rest.rpartition("-")
        if not dash or not _POSITION.fullmatch(position):
            raise CorruptionError(f"'version' must be POLICY-LIBRARY-POSITION; got {ascii(text)[:60]}.")
        return cls(policy, library, int(position))

    def __str__(self) -> str:
        return f"{self.policy}-{self.library}-{self.position}"


class Choice(NamedTuple):
    """What the policy would do, whatever was served.

    Attributes
    ----------
    arm, propensity
        The arm that it would serve, and how likely that was.
    probabilities
        By name, of the arms that it could have chosen; all others had none. None in logs that were written before, and
        if a policy of another package does not give them.
    """

    arm: str
    propensity: float
    probabilities: dict[str, float] | None = None

    def to_body(self) -> Body:
        """Its part of the body of a decision."""
        body: Body = {"arm": self.arm, "propensity": self.propensity}
        return body if self.probabilities is None else {**body, "probabilities": self.probabilities}


class Selection(NamedTuple):
    """The arm that was served, and what led to it.

    Attributes
    ----------
    mode
        The traffic mode.
    arm, propensity
        What was served, and how likely that was.
    active
        The arms that were in play.
    choice
        What the policy would do, and with which probabilities: the same in mode ``live``; None in mode ``off``, where
        it is not asked.
    version
        Which policy was asked; None in mode ``off``.
    """

    mode: Mode
    arm: str
    propensity: float
    active: tuple[str, ...]
    choice: Choice | None
    version: Version | None

    @property
    def probabilities(self) -> dict[str, float] | None:
        """By name, of the arms that could have been served; None if the log does not tell."""
        if self.mode == "live" and self.choice is not None:
            return self.choice.probabilities
        return {self.arm: self.propensity}

    def to_body(self) -> Body:
        """Its part of the body of a decision."""
        choice, version = self.choice, self.version
        return {
            "mode": self.mode,
            "arm": self.arm,
            "propensity": self.propensity,
            "active": list(self.active),
            "choice": None if choice is None else choice.to_body(),
            "version": None if version is None else version._asdict(),
        }

    @classmethod
    def from_body(cls, body: Body) -> Self:
        """Read it from the body of a decision."""
        return cls(
            bodies.mode(body, "mode"),
            bodies.text(body, "arm"),
            bodies.number(body, "propensity"),
            bodies.names(body, "active"),
            _choice(body, "choice"),
            _version(body, "version"),
        )


def _choice(body: Body, name: str) -> Choice | None:
    if name in body and body[name] is None:
        return None
    choice = bodies.table(body, name)
    probabilities = _probabilities(choice, "probabilities") if "probabilities" in choice else None
    return Choice(bodies.text(choice, "arm"), bodies.number(choice, "propensity"), probabilities)


def _probabilities(body: Body, name: str) -> dict[str, float]:
    """Whether they add up to 1 is for ``verify`` to say, which knows what they were."""
    value = bodies.number_by_name(body, name)
    for chance in value.values():
        if not 0.0 <= chance < math.inf:  # Python reads nan and infinity as JSON, but we do not write them
            raise bodies.refusal(body, name, "a table of finite numbers, none below 0")
    return value


def _version(body: Body, name: str) -> Version | None:
    if name in body and body[name] is None:
        return None
    if type(body.get(name)) is str:  # written before
        return _parse_version(body[name])
    version = bodies.table(body, name)
    return Version(
        bodies.text(version, "policy"), bodies.text(version, "library"), bodies.position(version, "position")
    )


# A log is read page by page, and many decisions on a page have the same version.
_parse_version = lru_cache(maxsize=PAGE)(Version.parse)
