"""What has moved between two samples, in numbers, in words and on a page."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

from conebandit._version import __version__
from conebandit.diagnose.monitor import LITTLE
from conebandit.diagnose.rho import FEW_EMPTY, Rho, RhoCurve, rho, rho_curve
from conebandit.diagnose.tables import Pair
from conebandit.pages import page
from conebandit.validate.arrays import FloatArray

MAX_ROWS = 4000  # of each table that are compared in pairs; a random part of longer ones
RADII: FloatArray = 2.0 ** -np.arange(1.0, 7.0)


@dataclass(frozen=True)
class Moved:
    """One column: how it differs between source and target.

    Attributes
    ----------
    column
        Its name.
    source_mean, target_mean
        Means.
    distance
        Kolmogorov-Smirnov distance: the largest difference of the shares below a value; 0 same, 1 apart.
    p_value
        Of that distance if nothing had moved.
    cost
        How many source rows one target row is worth if only this column counted.
    """

    column: str
    source_mean: float
    target_mean: float
    distance: float
    p_value: float
    cost: float


@dataclass(frozen=True)
class ShiftReport:
    """Everything that ``conebandit shift`` says.

    Attributes
    ----------
    pair
        The tables.
    moved
        Columns, those that moved most first.
    curve
        Dissimilarity of source and target over radii, in all columns together.
    within
        That of the target to itself.
    h
        The smallest radius of the curve at which at most 5 % of the target rows are without a source row and without
        another target row near; the largest one if there is none.
    exchange
        How many source rows one target row is worth at ``h``: the ratio of both; with interval.
    little_support
        Share of target rows with fewer than five source rows within ``h``.
    """

    pair: Pair
    moved: tuple[Moved, ...]
    curve: RhoCurve
    within: RhoCurve
    h: float
    exchange: Rho
    little_support: float

    @property
    def overlaps(self) -> bool:
        """Whether the estimates rest on neighbours, not on the rule for empty balls."""
        return self.exchange.empty <= FEW_EMPTY

    def sentences(self) -> list[str]:
        """The findings in words, the most important first."""
        top = self.moved[0]
        moved = [m.column for m in self.moved if m.p_value < 0.01 / len(self.moved)]
        words = ["No column moved more than chance allows."]
        if moved:
            means = f"mean {top.source_mean:.4g} in the source, {top.target_mean:.4g} in the target"
            most = f", {top.column} most" if len(moved) > 1 else ""
            words[0] = f"{_join(moved)} moved{most} ({means})."
        least = "" if self.overlaps else "at least "
        words.append(
            f"One target row is worth {least}{self.exchange.value:.3g} source rows "
            f"(95 % interval {self.exchange.low:.3g} to {self.exchange.high:.3g}) for what happens within "
            f"{self.h:.3g} of a context, as a share of each column's range."
        )
        if len(self.pair.columns) > 1 and self.h > 0.25:
            words.append(
                f"With {len(self.pair.columns)} columns at a time few rows are near each other: name the columns that "
                "matter with --columns to see more closely."
            )
        words.append(
            f"{self.little_support:.1%} of the target rows have fewer than {LITTLE} source rows that near: there the "
            "source says little."
        )
        return [*words, *self.pair.notes]

    def rows(self) -> list[list[str]]:
        """The columns as a table."""
        head = ["column", "source mean", "target mean", "distance (KS)", "p-value", "source rows per target row"]
        body = [
            [
                m.column,
                *(f"{mean:.4g}" for mean in (m.source_mean, m.target_mean)),
                *(f"{m.distance:.3f}", f"{m.p_value:.2g}", f"{m.cost:.2f}"),
            ]
            for m in self.moved
        ]
        return [head, *body]

    def curve_rows(self) -> list[list[str]]:
        """The dissimilarity over radii as a table."""
        head = ["h", "rho(source, target)", "95 % interval", "rho(target, target)", "without a source row near"]
        body = []
        for i, r in enumerate(self.curve.h):
            across, within = self.curve.at(i), self.within.at(i)
            least = "at least " if across.empty > FEW_EMPTY else ""
            interval = f"{across.low:.4g} to {across.high:.4g}"
            body.append(
                [f"1/{1 / r:.0f}", f"{least}{across.value:.4g}", interval, f"{within.value:.4g}", f"{across.empty:.1%}"]
            )
        return [head, *body]


def _join(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else ""


def shift_report(pair: Pair, *, seed: int = 0) -> ShiftReport:
    """Compare two tables; ``seed`` is that of the bootstrap and of the part of long tables.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> pair = Pair(("age", "income"), rng.random((300, 2)), rng.random((300, 2)) ** [1, 2], ())
    >>> shift_report(pair).sentences()[0]
    'income moved (mean 0.5127 in the source, 0.3134 in the target).'
    """
    rng = np.random.default_rng(seed)
    source = _part(pair.source, rng)
    target = source if np.array_equal(pair.source, pair.target) else _part(pair.target, rng)
    both = np.vstack([source, target])
    low, span = both.min(axis=0), np.ptp(both, axis=0)
    x, y = (source - low) / span, (target - low) / span
    box = np.tile([0.0, 1.0], (x.shape[1], 1))
    curve, within = (rho_curve(a, y, RADII, bounds=box, seed=seed) for a in (x, y))
    filled = np.flatnonzero((curve.empty <= FEW_EMPTY) & (within.empty <= FEW_EMPTY))
    at = int(filled.max()) if len(filled) else 0
    h = float(RADII[at])
    counts = np.concatenate([_near(x, part, h) for part in np.array_split(y, max(1, len(y) // 256))])
    return ShiftReport(
        pair=pair,
        moved=tuple(_moved(pair, x, y)),
        curve=curve,
        within=within,
        h=h,
        exchange=_ratio(curve.at(at), within.at(at)),
        little_support=float((counts < LITTLE).mean()),
    )


def _part(table: FloatArray, rng: np.random.Generator) -> FloatArray:
    return table if len(table) <= MAX_ROWS else table[rng.choice(len(table), MAX_ROWS, replace=False)]


def _near(source: FloatArray, target: FloatArray, h: float) -> FloatArray:
    """How many source rows are within h of each target row."""
    return np.asarray((np.abs(source[None] - target[:, None]).max(axis=2) <= h).sum(axis=1))


def _moved(pair: Pair, x: FloatArray, y: FloatArray) -> list[Moved]:
    found = []
    for j, name in enumerate(pair.columns):
        a, b = pair.source[:, j], pair.target[:, j]
        test = stats.ks_2samp(a, b, method="asymp")
        one = np.array([[0.0, 1.0]])
        source, target = np.ascontiguousarray(x[:, [j]]), np.ascontiguousarray(y[:, [j]])
        cost = float(rho(source, target, 1 / 16, bounds=one, resamples=2)) / float(
            rho(target, target, 1 / 16, bounds=one, resamples=2)
        )
        found.append(Moved(name, float(a.mean()), float(b.mean()), float(test.statistic), float(test.pvalue), cost))
    return sorted(found, key=lambda m: -m.distance)


def _ratio(across: Rho, within: Rho) -> Rho:
    """Source rows that one target row is worth; errors of both added on the log scale."""
    value = across.value / within.value
    spread = float(np.hypot(across.error / across.value, within.error / within.value))
    width = float(np.exp(1.96 * spread))
    return Rho(value, value * spread, value / width, value * width, across.empty, "samples")


def write_page(report: ShiftReport, path: Path, names: tuple[str, str]) -> Path:
    """The report as one self-contained HTML page.

    Parameters
    ----------
    report
        What to show.
    path
        File to write.
    names
        Of source and target.
    """
    from conebandit import plots  # noqa: PLC0415  (needs matplotlib, an extra)

    with tempfile.TemporaryDirectory() as folder:
        curve = plots.save(plots.rho_figure(report.curve, report.within, report.h), Path(folder) / "rho-over-h")[0]
        overlap = plots.save(plots.overlap_figure(report.pair, *_axes(report)), Path(folder) / "overlap-map")[0]
        body = "".join(
            [
                *(page.paragraph(sentence) for sentence in report.sentences()),
                page.paragraph(f"Source: {names[0]}, {len(report.pair.source):,} rows."),
                page.paragraph(f"Target: {names[1]}, {len(report.pair.target):,} rows."),
                "<h2>Which columns moved</h2>",
                page.paragraph(
                    "Each column alone. KS distance: the largest difference between the shares of source and target "
                    "below a value; 0 means the same, 1 no overlap. p-value: how likely a distance that large would be "
                    "if nothing had moved. Last: what a target row is worth within 1/16 of the range, were this the "
                    "only column."
                ),
                page.table(report.rows()),
                "<h2>Overlap map</h2>",
                page.paragraph(
                    "The columns that moved most. Darker: more of the sample. Crosses mark cells that the target "
                    f"reaches and that hold fewer than {LITTLE} source rows: what is learned there rests on little."
                ),
                page.image(overlap),
                "<h2>Dissimilarity over the radius</h2>",
                page.paragraph(
                    "rho is the mean, over target rows, of one divided by the share of source rows within h. The gap "
                    "between the two curves is what a target row is worth in source rows; shaded: 95 % intervals. "
                    "Hollow points: more than 5 % of the target rows have no source row that near, so the value is a "
                    "lower bound."
                ),
                page.image(curve),
                page.table(report.curve_rows()),
            ]
        )
    footer = f"Made by conebandit {__version__}: conebandit shift {names[0]} {names[1]}."
    path.write_text(page.document(f"From {names[0]} to {names[1]}: what has moved", body, footer), encoding="utf-8")
    return path


def _axes(report: ShiftReport) -> tuple[str, ...]:
    """The one or two columns that moved most."""
    return tuple(m.column for m in report.moved[:2])
