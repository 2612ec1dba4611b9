"""Arms at a context as pages show them: what is expected of each, what is to be said of it, and in which order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from conebandit.experiment.facets import Facet, facets_of
from conebandit.experiment.standing import Standing, standings
from conebandit.geometry.cone import Cone
from conebandit.service.dashboard.arms import charts
from conebandit.service.dashboard.arms.contexts import Context
from conebandit.service.dashboard.looks import Look
from conebandit.service.dashboard.words.telling import LEFT_OUT


@dataclass(frozen=True)
class ArmRow:
    """An arm, and what a page says about it.

    Attributes
    ----------
    standing
        How it stands beside the others.
    status
        Whether it is served at all, in words; empty if nothing is special about it.
    margins
        If it is beaten: by how much, facet by facet, in words.
    """

    standing: Standing
    status: str
    margins: tuple[str, ...]


@dataclass(frozen=True)
class ArmsAt:
    """All arms at a context, as rows of a table and as something to draw.

    Attributes
    ----------
    rows
        Arms on the front first, and likelier ones before others.
    drawn
        For :mod:`~conebandit.service.dashboard.arms.charts`.
    """

    rows: tuple[ArmRow, ...]
    drawn: charts.View

    @property
    def n_drawn(self) -> int:
        """How many arms are drawn."""
        return min(sum(arm.known for arm in self.drawn.arms), charts.MAX_DRAWN)

    @property
    def has_chances(self) -> bool:
        """Whether the policy says how likely arms are on the front."""
        return any(math.isfinite(arm.outlook.chance) for arm in self.drawn.arms)


def arms_now(look: Look, context: Context) -> ArmsAt:
    """How arms stand at a context, as of a look; it waits for others who ask its policy."""
    x = look.experiment.encode(context)
    with look.lock:
        found = standings(look.experiment, look.policy, x, retired(look))
    return arms_at(look, found, look.experiment.cone)


def arms_at(look: Look, found: Sequence[Standing], cone: Cone) -> ArmsAt:
    """What is said about arms that stand like this under a cone."""
    facets = facets_of(cone, look.experiment.metrics)
    said = [_status(look, arm) for arm in found]
    titles = [charts.in_words(arm, facets, status) for arm, status in zip(found, said, strict=True)]
    rows = [ArmRow(arm, status, tuple(charts.margins(arm, facets))) for arm, status in zip(found, said, strict=True)]
    rows.sort(key=lambda row: (not row.standing.outlook.on_front, -_likely(row.standing)))
    return ArmsAt(tuple(rows), charts.View(found, titles, look.experiment.metrics, facets))


def retired(look: Look) -> frozenset[str]:
    """Arms that are not served any more, though the policy may still know them."""
    return frozenset(name for name, served in look.served.items() if not served)


def respects(facets: Sequence[Facet]) -> list[tuple[str, str]]:
    """In what arms are compared, and what that means."""
    return [(facet.words, facet.meaning) for facet in facets]


def _status(look: Look, arm: Standing) -> str:
    name = arm.outlook.arm
    if name in retired(look):
        return "retired"
    if name in look.barred:
        return LEFT_OUT
    return "" if arm.active else "not played here at present"


def _likely(arm: Standing) -> float:
    return arm.outlook.chance if math.isfinite(arm.outlook.chance) else 0.0
