"""Every constant that decides how the default policy behaves, at half and at double its value.

    python benchmarks/constants.py                      all of them; writes results and is about 20 minutes of a core
    python benchmarks/constants.py FAR_SHARE            some of them; shows, and writes nothing
    python benchmarks/constants.py --rounds 500 --kinds 4 --seeds 1 FAR_SHARE      a quick look

Runs are those of the kinds that the policy is designed on (``design_kinds.py``), shorter, with development seeds:
nothing that is claimed is measured on them. The effect of a value is the geometric mean, over kinds and seeds, of the
score divided by the score with the value as it is; both have the same contexts and noise. Such a ratio still varies by
chance, since a run goes its own way once a single decision differs: ``noise`` is the standard error of its logarithm,
from the runs, and a ratio that differs from 1 by less than two of them says nothing. ``same`` is the share of runs in
which all decisions are the same.

The result file is written after each constant. A run that was broken off goes on where it was: rows are kept whose runs
with the values as they are had the same decisions as now, which ``basis`` tells.

Each value has a process of its own, in which it is set before the package reads it. Kernels into which the constant is
compiled are then compiled anew, in a folder that is thrown away. Constants with another role (guards, limits of work,
accuracy, conventions) are listed in ``docs/constants.md``; any of them can be asked for by name if it is a number, and
those are measured as well whose role is not plain from what they do.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
PACKAGE = Path(str(importlib.util.find_spec("conebandit").submodule_search_locations[0]))  # type: ignore[union-attr, index]
TABLE = "conebandit.kernels.cone_kernel.constants"
FILE = PACKAGE / "kernels" / "cone_kernel" / "constants.py"
FACTORS = {"half": 0.5, "double": 2.0}
ROUNDS, SEEDS = 3_000, 2


def load_table(changed: dict[str, float] | None = None) -> Any:
    """The module of constants, some values changed, in place of the package's own; before the package is loaded."""
    spec = importlib.util.spec_from_file_location(TABLE, FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[TABLE] = module
    spec.loader.exec_module(module)
    for name, value in (changed or {}).items():
        setattr(module, name, value)
    return module


def turned(name: str, value: float, factor: float) -> float:
    """A value times a factor; whole numbers stay whole, and positive. Of a growth, what exceeds 1 is multiplied."""
    if name.endswith("_GROWTH"):
        return 1.0 + factor * (value - 1.0)
    return max(round(value * factor), 1) if isinstance(value, int) else value * factor


def is_compiled(name: str) -> bool:
    """Whether kernels read the constant, so that its value is compiled into them.

    Plain functions beside them are not compiled; what a module keeps from one at import is read by name elsewhere too.
    """
    files = [file for file in FILE.parent.glob("*.py") if file != FILE]
    parts = [part for file in files for part in ast.parse(file.read_text()).body]
    compiled = [part for part in parts if not isinstance(part, ast.FunctionDef) or part.decorator_list]
    return any(isinstance(node, ast.Name) and node.id == name for part in compiled for node in ast.walk(part))


def runs_with(name: str, value: float, asked: argparse.Namespace) -> list[dict[str, Any]]:
    """Scores and digests of all runs, from a process in which the constant has this value."""
    with tempfile.TemporaryDirectory() as folder:
        own = {"NUMBA_CACHE_DIR": folder} if is_compiled(name) else {}
        sizes = [f"--{size}={n}" for size in ("rounds", "kinds", "seeds") if (n := getattr(asked, size)) is not None]
        command = [sys.executable, __file__, "--child", name, repr(value), *sizes]
        found = subprocess.run(command, env={**os.environ, **own}, check=True, stdout=subprocess.PIPE, text=True)
    rows: list[dict[str, Any]] = json.loads(found.stdout)
    return rows


def child(name: str, value: float, asked: argparse.Namespace) -> None:
    """Print what the runs with this value give, as JSON."""
    load_table({name: value})
    from conebandit.kernels.compile import compiling  # noqa: PLC0415
    from conebandit.policies.cone_kernel import ConeKernel  # noqa: PLC0415
    from conebandit.simulate import simulate  # noqa: PLC0415
    from conebandit.studies.standings import score  # noqa: PLC0415
    from contest import DEVELOPMENT  # noqa: PLC0415
    from design_kinds import KINDS  # noqa: PLC0415

    rows = []
    for kind in KINDS[: asked.kinds]:
        for seed in range(DEVELOPMENT, DEVELOPMENT + asked.seeds):
            world = replace(kind, rounds=min(kind.rounds, asked.rounds)).make(seed)
            # Arms of dose-response are described, so that what only described arms have is measured as well.
            described: dict[str, Any] = (
                {"arm_features": list(range(world.n_arms))} if kind.name.startswith("doses") else {}
            )
            policy = ConeKernel(world.n_arms, world.cone, world.context_dim, seed=seed, **described)
            run = simulate(policy, world, min(kind.rounds, asked.rounds), seed=seed)
            after = world.change_points[-1]
            found = {series: run.average(series, after=after) for series in ("play", "shortfall", "front")}
            rows.append(
                {
                    "kind": kind.name,
                    "seed": seed,
                    "score": score(found),
                    "arms": blake2b(run.arms.tobytes(), digest_size=8).hexdigest(),
                }
            )
    print(json.dumps(rows))
    print(f"{name} = {value:g}: {len(rows)} runs, {len(compiling.kernels)} kernels compiled", file=sys.stderr)


def effect(now: list[dict[str, Any]], other: list[dict[str, Any]]) -> tuple[float, float, float]:
    """Geometric mean of the ratios of scores, the standard error of its logarithm, and the share of equal runs."""
    scores = np.array([[row["score"] for row in rows] for rows in (other, now)])
    logs = np.log(np.maximum(scores, np.finfo(float).tiny))
    ratios = logs[0] - logs[1]
    same = np.mean([a["arms"] == b["arms"] for a, b in zip(now, other, strict=True)])
    return float(np.exp(ratios.mean())), float(ratios.std(ddof=1) / np.sqrt(ratios.size)), float(same)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="of constants; all that decide on behaviour, or may do, if none"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of each run, at most")
    parser.add_argument("--kinds", type=int, help="how many of the kinds, the first ones")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="runs of each kind")
    parser.add_argument("--child", nargs=2, metavar=("NAME", "VALUE"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        child(asked.child[0], ast.literal_eval(asked.child[1]), asked)
        return
    table = {constant.name: constant for constant in load_table().TABLE}
    names = asked.names or [name for name, constant in table.items() if constant.is_turned]
    if unknown := [name for name in names if name not in table or not isinstance(table[name].value, int | float)]:
        parser.error(f"no constant that is a number is called {', '.join(unknown)}; see docs/constants.md")
    report(names, table, asked)


def report(names: list[str], table: dict[str, Any], asked: argparse.Namespace) -> None:
    """Turn each of the constants, those first that are not compiled; results are written if all are asked for."""
    from contest import RESULTS  # noqa: PLC0415
    from report import Report, machine, versions  # noqa: PLC0415

    names = sorted(names, key=is_compiled)
    found = Report(
        title="Constants of the default policy at half and at double their value (development seeds)",
        command=" ".join(["python benchmarks/constants.py", *sys.argv[1:]]),
        versions=versions("conebandit", "numpy", "numba"),
        machine=machine("one core"),
    )
    keeps, stem = not asked.names and asked.kinds is None, RESULTS / "constants"
    now = runs_with(names[0], table[names[0]].value, asked)
    basis = blake2b("".join(row["arms"] for row in now).encode(), digest_size=4).hexdigest()
    values = {name: table[name].value for name in names}
    found.rows = kept_rows(stem.with_suffix(".json"), basis, values) if keeps else []
    done = {row["constant"] for row in found.rows}
    for name in (name for name in names if name not in done):
        row: dict[str, Any] = {"constant": name, "value": values[name]}
        for word, factor in FACTORS.items():
            ratio, noise, same = effect(now, runs_with(name, turned(name, values[name], factor), asked))
            row |= {word: ratio, f"{word} noise": noise, f"{word} same": same}
        found.add(**row, runs=len(now), rounds=asked.rounds, basis=basis)
        if keeps:
            found.write(stem)
    found.show()


def kept_rows(file: Path, basis: str, values: dict[str, float]) -> list[dict[str, Any]]:
    """Rows of an earlier run that still hold: of constants with the same value, measured against the same runs."""
    rows = json.loads(file.read_text())["rows"] if file.exists() else []
    return [row for row in rows if row["basis"] == basis and values.get(row["constant"]) == row["value"]]


if __name__ == "__main__":
    main()
