"""The paper's gap table, computed and compared entry by entry."""

from __future__ import annotations

from dataclasses import dataclass

from conebandit.geometry.gap import gap
from conebandit.geometry.pareto import pareto_mask
from conebandit.reproduce import printed


@dataclass(frozen=True)
class Entry:
    """One arm under one cone: what we computed and what the paper prints."""

    arm: str
    cone: str
    on_front: bool
    gap: float
    printed_on_front: bool
    printed_gap: str

    @property
    def agrees(self) -> bool:
        """Whether both agree, the gap to the four decimals that are printed."""
        return self.on_front == self.printed_on_front and f"{self.gap:.4f}" == self.printed_gap


def gap_table() -> list[Entry]:
    """All twenty entries of the paper's gap table.

    Examples
    --------
    >>> entries = gap_table()
    >>> len(entries), sum(e.agrees for e in entries)
    (20, 20)
    """
    entries = []
    for name, cone in printed.CONES.items():
        mask = pareto_mask(printed.ARMS, cone)
        gaps = gap(printed.ARMS, mask, cone)
        entries += [
            Entry(
                arm=arm,
                cone=name,
                on_front=bool(mask[k]),
                gap=float(gaps[k]),
                printed_on_front=arm in printed.FRONTS[name],
                printed_gap=printed.GAPS[name][k],
            )
            for k, arm in enumerate(printed.ARM_NAMES)
        ]
    return entries
