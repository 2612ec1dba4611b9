"""Averages and differences as tables of texts, the first row of which is the head; as Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from conebandit.studies.paired import Average, Paired

Rows = Sequence[Sequence[str]]

_TEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}",
}  # fmt: skip
_NUMBER = re.compile(r"[+-]?\d[\d,.]*(e[+-]?\d+)?( \([\d.]+\))?")  # with its error, perhaps


def to_markdown(rows: Rows) -> str:
    r"""A table in Markdown.

    Examples
    --------
    >>> print(to_markdown([["policy", "play"], ["a|b", "0.1"]]))
    | policy | play |
    | --- | --- |
    | a\|b | 0.1 |
    <BLANKLINE>
    """
    lines = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines.insert(1, ["---"] * len(rows[0]))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def to_csv(rows: Rows) -> str:
    """A table as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def to_latex(rows: Rows) -> str:
    r"""A table in LaTeX, for the package booktabs; columns of numbers are set flush right.

    Examples
    --------
    >>> print(to_latex([["policy", "play"], ["my_tree", "-0.1"]]))
    \begin{tabular}{lr}
    \toprule
    policy & play \\
    \midrule
    my\_tree & $-$0.1 \\
    \bottomrule
    \end{tabular}
    <BLANKLINE>
    """
    columns = zip(*rows[1:], strict=True) if len(rows) > 1 else ([] for _ in rows[0])
    sides = "".join("r" if all(_NUMBER.fullmatch(cell) for cell in column) else "l" for column in columns)
    head, *body = (" & ".join(map(_tex, row)) + r" \\" for row in rows)
    lines = [rf"\begin{{tabular}}{{{sides}}}", r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}"]
    return "\n".join([*lines, ""])


def _tex(cell: str) -> str:
    escaped = "".join(_TEX.get(sign, sign) for sign in cell)
    return re.sub(r"(?<![\w.])-(?=\d)", "$-$", escaped)


def write_tables(stem: Path, rows: Rows, exact: Sequence[NamedTuple]) -> list[Path]:
    """Write a table as Markdown and LaTeX, and what it is made of, with every digit, as CSV; the paths written."""
    digits = [exact[0]._fields, *([str(value) for value in each] for each in exact)]
    paths = []
    for kind, text in ((".md", to_markdown(rows)), (".csv", to_csv(digits)), (".tex", to_latex(rows))):
        paths.append(stem.with_suffix(kind))
        paths[-1].write_text(text, encoding="utf-8")
    return paths


def average_rows(means: Sequence[Average]) -> Rows:
    """Averages as a table of texts."""
    rows = [["environment", "policy", "series", "seeds", "mean", "95 % interval"]]
    for each in means:
        rows.append(
            [
                each.environment,
                each.policy,
                each.series,
                str(each.seeds),
                _number(each.mean),
                _ends(each.low, each.high),
            ]
        )
    return rows


def difference_rows(differences: Sequence[Paired], what: str) -> Rows:
    """Paired differences as a table of texts; ``what`` says what is subtracted from what. None if there are none."""
    if not differences:
        return []
    head = ["environment", "policy", "series", "seeds", what]
    rows = [[*head, "95 % interval", "95 % for all together", "decided"]]
    for each in differences:
        numbers = (_number(each.difference), _ends(each.low, each.high), _ends(each.low_all, each.high_all))
        rows.append([each.environment, each.policy, each.series, str(each.seeds), *numbers, each.decided])
    return rows


def _number(value: float) -> str:
    return f"{value:.4g}" if np.isfinite(value) else "none"


def _ends(low: float, high: float) -> str:
    return f"{low:.4g} to {high:.4g}" if np.isfinite(low) and np.isfinite(high) else "none"
