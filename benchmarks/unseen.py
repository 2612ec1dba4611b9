"""Does it hold elsewhere? The default policy and its rivals in environments that nothing was tuned on.

    python benchmarks/unseen.py                              all kinds; writes results and counts the look
    python benchmarks/unseen.py --policy linear              another contender in the place of the default policy
    python benchmarks/unseen.py --kind moving --kind drugs   some kinds
    python benchmarks/unseen.py --keep-rivals                against the best rivals on file, if none has changed

The kinds are in ``benchmarks/unseen_kinds.py``: mean functions, noise, shifts, cones and sizes that are in neither the
suite nor the development suite. No constant of any policy was chosen by looking at them. The default policy is
compared with the best rival of each kind *in hindsight*: every baseline, the adaptive tree and posterior sampling.

Whoever looks at the results and then changes the policy has tuned on them. So every run of the default policy, here or
in ``benchmarks/peers_play.py``, adds a line to ``benchmarks/results/unseen_looks.md``. Only a run of the default policy
on all kinds writes the other results.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from conebandit.studies.bench import CONTENDERS, DEFAULT, Contender, Row, run_suite
from conebandit.studies.standings import Standing, standings
from report import Report, versions
from unseen_kinds import SEEDS, Kind, kinds

NO_RIVALS = ("oracle", "random", "tree-sound", "tree-paper")  # they know too much, or learn nothing in this time
PARTS = ("play", "shortfall", "front")  # what the score is made of
HERE = Path(__file__).resolve().parent
LOOKS = HERE / "results" / "unseen_looks.md"


@dataclass(frozen=True)
class Duel:
    """A policy and its best rival in one kind of environment."""

    kind: str
    ours: Standing
    rival: Standing

    @property
    def ratio(self) -> float:
        """Score to score; below 1 we are better."""
        return self.ours.mean["score"] / self.rival.mean["score"]


def main() -> None:
    options = parse()
    chosen = [kind for kind in kinds() if not options.kind or kind.name in options.kind]
    start = time.perf_counter()
    policies = [c for c in contenders(options.policy) if not options.keep_rivals or c.name == options.policy]
    table = standings(run(chosen, policies))
    duels = find_duels([*table, *(rivals_on_file() if options.keep_rivals else [])], options.policy)
    report = Report(
        title=f"Environments that nothing was tuned on: {options.policy} to the best rival in hindsight",
        command="python benchmarks/unseen.py" + (" --keep-rivals" if options.keep_rivals else ""),
        versions=versions("conebandit", "numpy", "numba"),
        machine=f"{platform.machine()}, {time.perf_counter() - start:.0f} s",
    )
    for duel, kind in zip(duels, chosen, strict=True):
        report.add(**row_of(duel, kind))
    ratios = [duel.ratio for duel in duels]
    report.add(task="geometric mean", score_ratio=geometric_mean(ratios))
    report.add(task="worst", score_ratio=max(ratios))
    report.show()
    if options.policy == DEFAULT:
        count_look(f"{len(chosen)} of {len(kinds())}, score beside rivals", ratios)
        if not options.kind:
            report.write(HERE / "results" / "unseen")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The default policy in environments that nothing was tuned on.")
    names = [c.name for c in CONTENDERS]
    parser.add_argument("--policy", default=DEFAULT, choices=names, help="in the place of the default policy")
    parser.add_argument("--kind", action="append", choices=[k.name for k in kinds()], help="may be given several times")
    parser.add_argument("--keep-rivals", action="store_true", help="those of the result file; they run no more")
    return parser.parse_args()


def rivals_on_file() -> list[Standing]:
    """The best rival of each kind, as an earlier run has found it."""
    rows = json.loads((HERE / "results" / "unseen.json").read_text())["rows"]
    parts = ("score", *PARTS)
    return [
        Standing(row["task"], row["best_rival"], row["seeds"], {part: row[f"rival_{part}"] for part in parts}, {})
        for row in rows
        if "best_rival" in row
    ]


def contenders(policy: str) -> list[Contender]:
    """The policy and its rivals; without the default policy, unless it is the one."""
    return [c for c in CONTENDERS if c.name == policy or c.name not in (*NO_RIVALS, DEFAULT)]


def run(chosen: Sequence[Kind], policies: Sequence[Contender]) -> list[Row]:
    """All runs, each kind with its horizon and number of seeds."""
    rows: list[Row] = []
    for horizon, seeds in SEEDS.items():
        tasks = [kind.task for kind in chosen if kind.horizon == horizon]
        if tasks:
            rows += run_suite(tasks=tasks, contenders=policies, horizon=horizon, seeds=seeds, progress=True)
    order = {kind.name: place for place, kind in enumerate(chosen)}
    return sorted(rows, key=lambda row: order[row["task"]])


def find_duels(table: Sequence[Standing], policy: str) -> list[Duel]:
    """The policy against the rival with the best score, kind by kind; the table has the best score first."""
    duels = []
    for kind in dict.fromkeys(standing.task for standing in table):
        here = [standing for standing in table if standing.task == kind]
        ours = next(standing for standing in here if standing.policy == policy)
        duels.append(Duel(kind, ours, next(standing for standing in here if standing.policy != policy)))
    return duels


def geometric_mean(values: Sequence[float]) -> float:
    return float(np.exp(np.log(values).mean()))


def row_of(duel: Duel, kind: Kind) -> dict[str, Any]:
    """A line of the report."""
    ours, rival, world = duel.ours.mean, duel.rival.mean, kind.make(0)
    return {
        "task": kind.name,
        "about": kind.about,
        "K": world.n_arms,
        "M": world.n_objectives,
        "d": world.context_dim,
        "rounds": kind.horizon,
        "seeds": len(SEEDS[kind.horizon]),
        "score": ours["score"],
        "best_rival": duel.rival.policy,
        "rival_score": rival["score"],
        "score_ratio": duel.ratio,
        **{name: ours[name] for name in PARTS},
        **{f"rival_{name}": rival[name] for name in PARTS},
    }


def count_look(what: str, ratios: Sequence[float], log: Path = LOOKS) -> None:
    """Add a line that says when, with which code and at what somebody looked."""
    if not log.exists():
        log.write_text(
            "# Looks at the environments that nothing is tuned on\n\n"
            "Every run of the default policy by `benchmarks/unseen.py` or `benchmarks/peers_play.py` adds a line. "
            "Ratios are to the\nbest rival, or peer, of each kind in hindsight.\n\n"
            "| date | commit | kinds | geometric mean | worst |\n| --- | --- | --- | --- | --- |\n"
        )
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    commit = subprocess.run(command, capture_output=True, text=True, check=False, cwd=HERE).stdout.strip()
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
    with log.open("a") as file:
        file.write(f"| {now} | {commit or 'unknown'} | {what} | {geometric_mean(ratios):.3f} | {max(ratios):.3f} |\n")


if __name__ == "__main__":
    main()
