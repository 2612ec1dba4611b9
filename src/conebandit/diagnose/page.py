"""The page that ``conebandit shift`` writes, made with the template of ``pages/page.py``."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from conebandit._version import __version__
from conebandit.diagnose.report import ShiftReport
from conebandit.diagnose.rho import RhoCurve
from conebandit.diagnose.snapshot import MIN_SUPPORT
from conebandit.pages import page

if TYPE_CHECKING:
    from conebandit.plots import Estimates

COLUMNS = (
    "Each column alone. KS distance: the largest difference between the shares of source and target "
    "below a value; 0 means the same, 1 no overlap. p-value: how likely a distance that large would be "
    "if nothing had moved. Last: what a target row is worth within 1/16 of the range, were this the "
    "only column."
)
OVERLAP = (
    "The columns that moved most. Fuller colour: more of the sample. Crosses mark cells that the target "
    f"reaches and that hold fewer than {MIN_SUPPORT} source rows: what is learned there rests on little."
)
DISSIMILARITY = (
    "rho is the mean, over target rows, of one divided by the share of source rows within h. The gap "
    "between the two curves is what a target row is worth in source rows; shaded: 95 % intervals. "
    "Hollow points: more than 5 % of the target rows have no source row that near, so the value is a "
    "lower bound."
)


def write_page(report: ShiftReport, path: Path, names: tuple[str, str]) -> Path:
    """Write the report as one self-contained HTML page.

    Parameters
    ----------
    report
        What to show.
    path
        File to write.
    names
        Of source and target.
    """
    with tempfile.TemporaryDirectory() as folder:
        curve, overlap = _draw(report, Path(folder))
        body = "".join(
            [
                *(page.paragraph(sentence) for sentence in report.sentences()),
                page.paragraph(f"Source: {names[0]}, {len(report.pair.source):,} rows."),
                page.paragraph(f"Target: {names[1]}, {len(report.pair.target):,} rows."),
                page.heading("Which columns moved"),
                page.paragraph(COLUMNS),
                page.table(report.rows()),
                page.heading("Overlap map"),
                page.paragraph(OVERLAP),
                page.figure(overlap),
                page.heading("Dissimilarity over the radius"),
                page.paragraph(DISSIMILARITY),
                page.figure(curve),
                page.table(report.curve_rows()),
            ]
        )
    footer = f"Made by conebandit {__version__}: conebandit shift {names[0]} {names[1]}."
    path.write_text(page.document(f"From {names[0]} to {names[1]}: what has moved", body, footer), encoding="utf-8")
    return path


def estimates(curve: RhoCurve) -> Estimates:
    """A curve as ``plots`` takes it."""
    from conebandit.plots import Estimates  # noqa: PLC0415  (needs matplotlib, an extra)

    return Estimates(curve.h, curve.value, curve.low, curve.high, curve.is_lower_bound)


def _draw(report: ShiftReport, folder: Path) -> tuple[Path, Path]:
    """Dissimilarity over the radius, and an overlap map of the one or two columns that moved most, as SVG."""
    from conebandit import plots  # noqa: PLC0415  (needs matplotlib, an extra)

    names = [m.column for m in report.moved[:2]]
    curves = {"source to target": estimates(report.curve), "target to itself": estimates(report.within)}
    curve = plots.save(plots.rho_figure(curves, h=report.h), folder / "rho-over-h")
    overlap = plots.save(plots.overlap_figure(*report.pair.only(names), names), folder / "overlap-map")
    return curve[1], overlap[1]
