"""First use on a machine: what compiling takes, with an empty folder for machine code.

    python benchmarks/cold.py                       # of this checkout
    python benchmarks/cold.py --before OTHER/src    # beside another checkout
    python benchmarks/cold.py --lines               # what single lines of a kernel take to compile

Each row is a process of its own that does one thing, in an empty folder or in one that ``conebandit warm`` has filled;
seconds are those of the processor, without those of importing the library. A version is a function for a combination
of types of arguments; Numba's own functions that kernels use are among them. Results: benchmarks/results/cold.md and
cold_lines.md.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core import event

from report import Report, machine, versions

HERE = Path(__file__).resolve().parent
WANTED = {"decide": 4.0, "simulate": 15.0}  # seconds of the processor
LONGEST = 3  # functions that are named
TURNS = 3  # of which the fastest counts: shared machines have slow spells


class Clock(event.Listener):
    """Seconds of the processor that each function takes to compile, without those that it calls."""

    def __init__(self) -> None:
        self.versions: list[tuple[float, str]] = []
        self._open: list[tuple[float, float]] = []  # when it began, and how much of it was for others

    def on_start(self, event: Any) -> None:
        """A function begins to be compiled."""
        self._open.append((time.process_time(), 0.0))

    def on_end(self, event: Any) -> None:
        """It is done."""
        start, others = self._open.pop()
        seconds, function = time.process_time() - start, event.data["dispatcher"].py_func
        if self._open:
            outer, more = self._open[-1]
            self._open[-1] = outer, more + seconds
        self.versions.append((seconds - others, f"{function.__module__}.{function.__name__}"))


def default_policy(world: Any) -> Any:
    import conebandit as cb  # noqa: PLC0415  (of the side that is asked)

    return cb.default_policy(world.n_arms, world.cone, world.context_dim)


def decide() -> None:
    import conebandit as cb  # noqa: PLC0415

    default_policy(cb.environments.smooth(n_arms=5, context_dim=2)).decide([0.5, 0.5], 1)


def observe() -> None:
    import conebandit as cb  # noqa: PLC0415

    policy = default_policy(cb.environments.smooth(n_arms=5, context_dim=2))
    for key in range(50):
        policy.observe([0.5, key / 50], policy.decide([0.5, 0.5], key).arm, [1.0, key / 50])


def simulate() -> None:
    import conebandit as cb  # noqa: PLC0415

    world = cb.environments.smooth(n_arms=5, context_dim=2, change_point=1000)
    cb.simulate(default_policy(world), world, 4000)


def paper_tree() -> None:
    import conebandit as cb  # noqa: PLC0415

    world = cb.environments.paper(n_arms=5)
    cb.simulate(cb.ConeTree(5, world.cone, 1, preset="paper"), world, 4000)


def other_cone() -> None:
    import conebandit as cb  # noqa: PLC0415

    world = cb.environments.paper(n_arms=5, cone=cb.Cone.from_rays([[1.0, 0.6], [0.6, 1.0]]))
    cb.simulate(default_policy(world), world, 4000)


def service() -> None:
    """One decision and its outcome, without HTTP."""
    from conebandit.experiment.declaration import Experiment  # noqa: PLC0415
    from conebandit.service.engine.ledger import Ledger  # noqa: PLC0415
    from conebandit.service.engine.turn import Turn  # noqa: PLC0415
    from conebandit.service.stores.base import open_store  # noqa: PLC0415

    declaration = {"id": "e", "arms": ["a", "b"], "metrics": [{"name": "m"}, {"name": "n"}]}
    declaration["context"] = [{"name": "age", "low": 18, "high": 98}]
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(str(Path(folder) / "log.db"))
        with Ledger().transaction(store, now=0) as transaction:
            turn = Turn(transaction)
            turn.create(Experiment.from_dict(declaration))
            turn.decide("e", [{"id": "1", "context": {"age": 40}}])
            turn.report("e", [{"id": "1", "values": {"m": 1.0, "n": 2.0}}])
        store.close()


ACTIONS = {
    "decide": decide,
    "observe": observe,
    "simulate": simulate,
    "paper tree": paper_tree,
    "other cone": other_cone,
    "service": service,
}


def one_side(action: str) -> None:
    """In a process of its own: do it, and print what it took."""
    import conebandit as cb  # noqa: PLC0415

    for name in cb.__all__:  # what import leaves for the first use of a name
        getattr(cb, name)
    clock = Clock()
    event.register("numba:compile", clock)
    start = time.process_time()
    ACTIONS[action]()
    seconds = time.process_time() - start
    longest = sorted(clock.versions, reverse=True)[:LONGEST]
    found = {
        "seconds": seconds,
        "versions": len(clock.versions),
        "functions": len({name for _, name in clock.versions}),
        "longest": ", ".join(f"{name.split('kernels.')[-1]} {own:.2g}" for own, name in longest),
    }
    print(json.dumps(found))


# What a kernel may contain; a, b are vectors, n is a number. The first of its kind in a process is what costs.
CONTENTS = {
    "a loop": "for i in range(n): a[i] = b[i]",
    "a number in a slice": "a[:n] = 0.0",
    "an array in a slice": "a[:n] = b[:n]",
    "an array made": "c = np.empty(n)\n    a[0] = c.size",
    "a.min()": "a[0] = a.min()",
    "a.sum()": "a[0] = a.sum()",
    "np.flatnonzero": "a[0] = np.flatnonzero(a).size",
    "np.argsort": "a[0] = np.argsort(a)[0]",
    "an array as index": "a[0] = a[c][0]",
    "np.dot": "a[0] = np.dot(a, b)",
}


def one_content(content: str) -> None:
    """In a process of its own: compile a kernel with this content, and print what it took."""

    def compile_with(line: str) -> float:
        names: dict[str, Any] = {"np": np}
        exec(f"def kernel(a, b, c, n):\n    {line}\n", names)
        kernel, start = numba.njit(nogil=True, error_model="numpy")(names["kernel"]), time.process_time()
        kernel(np.ones(3), np.ones(3), np.zeros(2, dtype=np.int64), 2)
        return time.process_time() - start

    compile_with("a[0] = 1.0")  # what any first kernel takes
    print(json.dumps({"seconds": compile_with(CONTENTS[content])}))


def environment(source: Path, folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(source.resolve()), "NUMBA_CACHE_DIR": str(folder)}


def ask(source: Path, action: str, folder: Path) -> dict[str, Any]:
    """What an action, or a kernel with some content, takes with this folder for machine code."""
    command = [sys.executable, __file__, "--side", action]
    done = subprocess.run(command, env=environment(source, folder), capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def warm(source: Path, folder: Path) -> dict[str, Any]:
    """What ``conebandit warm`` takes, all processes together."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    command = [sys.executable, "-m", "conebandit", "warm"]
    done = subprocess.run(command, env=environment(source, folder), capture_output=True, text=True, check=True)
    print(done.stdout.strip(), file=sys.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": spent, "wall": time.perf_counter() - start}


def measure(report: Report, side: str, source: Path) -> None:
    """The rows of one checkout."""
    for action in ("decide", "observe", "simulate"):
        with tempfile.TemporaryDirectory() as folder:
            for state in ("empty", "filled by it"):
                found = ask(source, action, Path(folder))
                wanted = WANTED.get(action) if state == "empty" else None
                reached = None if wanted is None else found["seconds"] <= wanted
                report.add(code=side, folder=state, action=action, **found, wanted=wanted, reached=reached)
    if (source / "conebandit" / "warm.py").exists():
        with tempfile.TemporaryDirectory() as folder:
            report.add(code=side, folder="empty", action="conebandit warm", **warm(source, Path(folder)))
            report.add(code=side, folder="warm", action="conebandit warm", **warm(source, Path(folder)))
            for action in ACTIONS:
                found = ask(source, action, Path(folder))
                nothing = found["versions"] == 0
                report.add(code=side, folder="warm", action=action, **found, reached=nothing)


def measure_lines() -> None:
    """What a kernel takes to compile that consists of one line."""
    report = Report(
        title="Lines of a kernel: seconds of the processor to compile the first of its kind in a process",
        command="python benchmarks/cold.py --lines",
        versions=versions("numba", "llvmlite", "numpy"),
        machine=machine(),
    )
    with tempfile.TemporaryDirectory() as folder:
        for content, line in CONTENTS.items():
            seconds = min(ask(HERE.parent / "src", content, Path(folder))["seconds"] for _ in range(TURNS))
            report.add(content=content, line=f"`{line.splitlines()[0]}`", seconds=seconds)
    report.show()
    report.write(HERE / "results" / "cold_lines")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", choices=[*ACTIONS, *CONTENTS], help=argparse.SUPPRESS)
    parser.add_argument("--before", type=Path, metavar="SOURCE", help="the src folder of another checkout")
    parser.add_argument("--lines", action="store_true", help="what single lines of a kernel take to compile")
    options = parser.parse_args()
    if options.side:
        (one_side if options.side in ACTIONS else one_content)(options.side)
        return
    if options.lines:
        measure_lines()
        return
    report = Report(
        title="First use on a machine: seconds of the processor, and what is compiled",
        command="python benchmarks/cold.py" + (" --before BEFORE/src" if options.before else ""),
        versions=versions("numba", "llvmlite", "numpy"),
        machine=machine(f"{os.cpu_count()} cores"),
    )
    if options.before:
        measure(report, "before", options.before)
    measure(report, "now", HERE.parent / "src")
    report.show()
    report.write(HERE / "results" / "cold")


if __name__ == "__main__":
    main()
