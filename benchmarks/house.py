"""How large and how tangled the code is: files, functions, classes, complexity, repeated passages.

python benchmarks/house.py                        # of this checkout
python benchmarks/house.py --before OTHER/src     # beside another checkout; writes benchmarks/results/house.md
python benchmarks/house.py --check                # exit code 1 if a limit is exceeded; part of `make lint`
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import sys
import tokenize
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from statistics import median, quantiles

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src"

MAX_CLASS, MAX_FUNCTION, MAX_COMPLEXITY = 250, 60, 15  # lines, lines with docstring, independent paths
PASSAGE = 6  # lines of code that make a repetition
MAX_PLACES = 8  # a passage that stands in more places is an idiom of the language, not a repetition of ours

Function = ast.FunctionDef | ast.AsyncFunctionDef
BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.IfExp, ast.comprehension, ast.match_case)


@dataclass(frozen=True)
class Spread:
    """How long things are, in lines."""

    count: int
    median: float
    p90: float
    longest: int


@dataclass(frozen=True)
class House:
    """What was measured of a source folder."""

    lines: int
    files: Spread
    functions: Spread
    long_classes: list[str]
    long_functions: list[str]
    tangled_functions: list[str]
    repeated: list[str]

    @property
    def exceeded(self) -> list[str]:
        """Everything beyond a limit."""
        return self.long_classes + self.long_functions + self.tangled_functions


def measure(source: Path) -> House:
    """Measure all Python files below a folder."""
    texts = {str(path.relative_to(source)): path.read_text("utf-8") for path in sorted(source.rglob("*.py"))}
    functions: list[int] = []
    long_classes, long_functions, tangled = [], [], []
    for name, text in texts.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and length(node) > MAX_CLASS:
                long_classes.append(f"{name}: class {node.name} has {length(node)} lines")
            elif isinstance(node, Function):
                functions.append(length(node))
                if length(node) > MAX_FUNCTION:
                    long_functions.append(f"{name}: {node.name} has {length(node)} lines")
                if complexity(node) > MAX_COMPLEXITY:
                    tangled.append(f"{name}: {node.name} has complexity {complexity(node)}")
    lines = [len(text.splitlines()) for text in texts.values()]
    return House(
        lines=sum(lines),
        files=spread(lines),
        functions=spread(functions),
        long_classes=long_classes,
        long_functions=long_functions,
        tangled_functions=tangled,
        repeated=repeated_passages(texts),
    )


def length(node: ast.ClassDef | Function) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def complexity(function: Function) -> int:
    """McCabe's number: one more than the branches of a function, without those of functions within it.

    Boolean operators count as well, which is stricter than most tools.
    """
    number = 1
    stack = list(ast.iter_child_nodes(function))
    while stack:
        node = stack.pop()
        if isinstance(node, (*Function.__args__, ast.Lambda)):
            continue
        number += isinstance(node, BRANCHES)
        if isinstance(node, ast.BoolOp):
            number += len(node.values) - 1
        stack += ast.iter_child_nodes(node)
    return number


def spread(values: list[int]) -> Spread:
    return Spread(len(values), median(values), quantiles(values, n=10)[-1], max(values))


# ---- repetition -----------------------------------------------------------------------------------------------------


def repeated_passages(texts: dict[str, str]) -> list[str]:
    """Pairs of places that share six or more lines of code, one for each pair of files; comments do not count."""
    places = defaultdict(list)
    for name, text in texts.items():
        code = list(code_lines(text))
        for i in range(len(code) - PASSAGE + 1):
            window = code[i : i + PASSAGE]
            places["\n".join(line for _, line in window)].append((name, window[0][0]))
    pairs: dict[tuple[str, str], tuple[int, int]] = {}
    for found in places.values():
        if 2 <= len(found) <= MAX_PLACES:
            for (a, i), (b, j) in combinations(found, 2):
                if a != b or abs(i - j) >= PASSAGE:
                    pairs.setdefault((a, b), (i, j))
    return [f"{a}:{i} ~ {b}:{j}" for (a, b), (i, j) in sorted(pairs.items())]


def code_lines(text: str) -> Iterator[tuple[int, str]]:
    """Number and content of the lines that are code: no comments, docstrings or blank lines."""
    words = defaultdict(list)
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in skipped and not (token.type == tokenize.STRING and token.string.startswith('"""')):
            words[token.start[0]].append(token.string)
    for number in sorted(words):
        yield number, " ".join(words[number])


# ---- report ---------------------------------------------------------------------------------------------------------


def table(houses: dict[str, House]) -> str:
    """The figures side by side, in Markdown."""
    rows: list[tuple[str, Callable[[House], object]]] = [
        ("lines", lambda h: f"{h.lines:,}"),
        ("files", lambda h: h.files.count),
        ("lines of a file: median / p90 / longest", lambda h: _words(h.files)),
        ("functions", lambda h: h.functions.count),
        ("lines of a function: median / p90 / longest", lambda h: _words(h.functions)),
        (f"classes above {MAX_CLASS} lines", lambda h: len(h.long_classes)),
        (f"functions above {MAX_FUNCTION} lines", lambda h: len(h.long_functions)),
        (f"functions of complexity above {MAX_COMPLEXITY}", lambda h: len(h.tangled_functions)),
        (f"pairs of files that share {PASSAGE} or more lines of code", lambda h: len(h.repeated)),
    ]
    lines = [f"| | {' | '.join(houses)} |", "| --- |" + " ---: |" * len(houses)]
    lines += [f"| {name} | {' | '.join(str(value(h)) for h in houses.values())} |" for name, value in rows]
    return "\n".join(lines) + "\n"


def _words(s: Spread) -> str:
    return f"{s.median:g} / {s.p90:.0f} / {s.longest}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="the source folder of another checkout")
    parser.add_argument("--check", action="store_true", help="say only what exceeds a limit")
    parser.add_argument("--list", action="store_true", help="also list what exceeds a limit or is repeated")
    options = parser.parse_args()
    now = measure(SOURCE)
    if options.check:
        print("\n".join(now.exceeded) or "No class, function or complexity beyond its limit.")
        sys.exit(bool(now.exceeded))
    houses = {"now": now} if options.before is None else {"before": measure(options.before), "now": now}
    text = table(houses)
    print(text)
    if options.list:
        print("\n".join(now.exceeded + now.repeated))
    if options.before is not None:
        figures = json.dumps({name: asdict(house) for name, house in houses.items()}, indent=1)
        (HERE / "results" / "house.json").write_text(figures + "\n")
        head = "`src` before and after the second plan, by `python benchmarks/house.py --before OTHER/src`."
        (HERE / "results" / "house.md").write_text(f"# The code in figures\n\n{head}\n\n{text}")


if __name__ == "__main__":
    main()
