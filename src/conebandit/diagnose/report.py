"""What has moved between two samples, in numbers and in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy  # its parts are loaded when they are used: some take longer than this whole package

from conebandit.diagnose.rho import Rho, RhoCurve, rho, rho_curve
from conebandit.diagnose.snapshot import MIN_SUPPORT
from conebandit.diagnose.tables import Pair
from conebandit.validate.arrays import FloatArray

MAX_ROWS = 4000  # of each table that are compared in pairs; a random part of longer ones
RADII: FloatArray = 2.0 ** -np.arange(1.0, 7.0)


@dataclass(frozen=True)
class Moved:
    """One column: how it differs between source and target."""

    column: str
    source_mean: float
    target_mean: float
    distance: float  # of Kolmogorov and Smirnov: the largest difference of the shares below a value; 0 same, 1 apart
    p_value: float  # of that distance if nothing had moved
    cost: float  # how many source rows one target row is worth if only this column counted


@dataclass(frozen=True)
class ShiftReport:
    """Everything that ``conebandit shift`` says.

    ``h`` is the smallest radius of the curve at which at most 5 % of the target rows are without a source row and
    without another target row near; the largest one if there is none.
    """

    pair: Pair
    moved: tuple[Moved, ...]  # those that moved most first
    curve: RhoCurve  # dissimilarity of source and target over radii, in all columns together
    within: RhoCurve  # that of the target to itself
    h: float
    exchange: Rho  # how many source rows one target row is worth at h: the ratio of both
    little_support: float  # share of target rows with fewer than MIN_SUPPORT source rows within h

    @property
    def overlaps(self) -> bool:
        """Whether the estimates rest on neighbours, not on the rule for empty balls."""
        return not self.exchange.is_lower_bound

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
            f"{self.little_support:.1%} of the target rows have fewer than {MIN_SUPPORT} source rows that near: there "
            "the source says little."
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
            least = "at least " if across.is_lower_bound else ""
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
    filled = np.flatnonzero(~curve.is_lower_bound & ~within.is_lower_bound)
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
        little_support=float((counts < MIN_SUPPORT).mean()),
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
        test = scipy.stats.ks_2samp(a, b, method="asymp")
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
