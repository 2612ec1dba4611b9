"""The paper's gap table, computed and compared entry by entry."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from conebandit.geometry.gap import gap
from conebandit.geometry.pareto import pareto_mask
from conebandit.reproduce import printed
from conebandit.reproduce.files import write_csv


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


def write_table(entries: list[Entry], to: Path) -> Path:
    """The gap table as CSV."""
    head = ["arm", "cone", "on_front", "printed_on_front", "gap", "printed_gap", "agrees"]
    rows = [
        [e.arm, e.cone, str(e.on_front), str(e.printed_on_front), f"{e.gap:.10f}", e.printed_gap, str(e.agrees)]
        for e in entries
    ]
    return write_csv(to / "gap-table.csv", [head, *rows])
