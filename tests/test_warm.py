"""``conebandit warm`` compiles what later runs use, and compiling says so where somebody can see it."""

import json
import os
import subprocess
import sys

import numba
import numpy as np
import pytest
from typer.testing import CliRunner

from conebandit import warm
from conebandit.cli import app
from conebandit.kernels import compile as compile_module
from conebandit.kernels.compile import NOTICE, compiled, compiling
from conebandit.policies.registry import OURS
from conebandit.progress import tell_once

# What people do first, with other sizes than those that ``warm`` uses.
FIRST_USES = """
import math, tempfile, pathlib
import numpy as np, conebandit as cb
from conebandit.experiment.declaration import Experiment
from conebandit.policies.registry import OURS
from conebandit.service.engine.ledger import Ledger
from conebandit.service.engine.rehearsal import Kernels
from conebandit.service.engine.turn import Turn
from conebandit.service.stores.base import open_store

narrow = cb.Cone.from_rays([[1, 0.6], [0.6, 1]])
for world in (cb.environments.paper(n_arms=5), cb.environments.paper(n_arms=3, cone=narrow)):
    size = (world.n_arms, world.cone, world.context_dim)
    for policy in (cb.default_policy(*size), cb.ConeTree(*size, preset="paper")):
        learner = cb.simulate(policy, world, 3000).policy
        learner.observe([0.5], learner.decide([0.25], "key").arm, [0.5, math.nan])
        learner.explain([0.5]), learner.front([0.5]), learner.fronts([[0.5], [0.75]])
many = cb.default_policy(40, narrow, 1)
for i in range(200):
    many.observe([i / 200], i % 40, [i % 3, i % 4])
cb.default_policy(3, narrow, 2, explore=0.2).decide([0.5, 0.5], 1)
cb.gap(np.ones((3, 2)), np.full((2, 2), 2.0), narrow)
contexts = np.random.default_rng(1).normal(size=(3000, 3)) + np.sin(np.arange(3000) / 4)[:, None]
for way in ({}, {"block": 20}, {"block": "auto"}, {"block": "manual"}, {"pairs": False}):
    monitor = cb.ShiftMonitor(3, **way)
    for part in np.split(contexts, 30):
        monitor.update_many(part)
        if way.get("block") == "manual":
            monitor.end_block()
    monitor.update([0.0, 0.0, 0.0])
    if not way:
        monitor.snapshot()
declaration = {"id": "e", "arms": ["a", "b", "c"], "metrics": [{"name": "m"}, {"name": "n"}]}
declaration["context"] = [{"name": "age", "low": 18, "high": 98}, {"name": "device", "levels": ["phone", "desk"]}]
with tempfile.TemporaryDirectory() as folder:
    store = open_store(str(pathlib.Path(folder) / "log.db"))
    with Ledger().transaction(store, now=0) as transaction:
        turn, context = Turn(transaction), {"age": 40, "device": "desk"}
        turn.create(Experiment.from_dict(declaration))
        turn.decide("e", [{"id": "1", "context": context}])
        turn.report("e", [{"id": "1", "values": {"m": 1.0}}])
        turn.front("e", context), turn.explain("e", context)
    store.close()
for policy in (*OURS, {"name": "ConeTree", "preset": "paper"}, {"name": "ParetoUCB1", "explore": 0.1}):
    Kernels().for_decisions(Experiment.from_dict({**declaration, "policy": policy}))
for block in (5, "day", "auto"):
    Kernels().for_shift(Experiment.from_dict({**declaration, "shift_block": block}))
"""


# Which kernels a process has called from Python, and with which types: those that it compiled or found on disk.
VERSIONS = """
import gc, json
from numba.core.dispatcher import Dispatcher
kernels = [thing for thing in gc.get_objects() if isinstance(thing, Dispatcher)]
names = [(f"{kernel.py_func.__module__}.{kernel.py_func.__name__}", kernel) for kernel in kernels]
print(json.dumps([f"{name} {types}" for name, kernel in names if "conebandit" in name for types in kernel.signatures]))
"""


def versions_after(source):
    done = subprocess.run([sys.executable, "-c", source + VERSIONS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_it_needs_every_version_of_a_kernel_that_people_need_first():
    # With the folder that all tests share: an empty one would take minutes. benchmarks/cold.py measures that.
    warmed = versions_after("from conebandit import warm\nfor work in warm.pieces().values(): work()")
    used = versions_after(FIRST_USES)
    assert len(used) > 20
    assert used <= warmed


def test_every_policy_is_warmed():
    names = {name.split(",")[0] for name in warm.pieces()}
    assert set(OURS) <= names
    assert {"ConeTree, paper, simulated", "ConeTree, sound, simulated", "ConeTree, adaptive, at_many"} <= set(
        warm.pieces()
    )


@pytest.fixture
def two_pieces(monkeypatch):
    """Only a little to compile, in this process."""
    monkeypatch.setattr(warm, "pieces", lambda: {"one": lambda: None, "two": lambda: compiling.kernels.append("k")})
    monkeypatch.setattr(compiling, "kernels", [])


def test_it_says_what_was_compiled_and_where_it_is(two_pieces):
    result = CliRunner().invoke(app, ["warm", "--jobs", "1"])
    assert result.exit_code == 0
    assert "Compiled 1 kernels in 0 s" in result.output
    assert str(compile_module.kept_in()) in result.output.replace("\n", "")


def test_a_second_time_there_is_nothing_to_do(two_pieces, monkeypatch):
    monkeypatch.setattr(warm, "pieces", lambda: {"one": lambda: None})
    result = CliRunner().invoke(app, ["warm", "--jobs", "1"])
    assert result.exit_code == 0
    assert "Nothing was left to compile" in result.output


def test_steps_are_told(two_pieces):
    seen = []
    assert warm.compile_all(n_jobs=1, progress=seen.append) == ["k"]
    assert seen == ["one", "two"]


def test_without_a_folder_that_can_be_written_it_fails(two_pieces, monkeypatch):
    monkeypatch.setattr(compile_module, "_folders", set())
    result = CliRunner().invoke(app, ["warm"])
    assert result.exit_code == 1
    assert "NUMBA_CACHE_DIR" in result.output


class Terminal:
    def __init__(self, is_terminal):
        self.is_terminal, self.text = is_terminal, ""

    def isatty(self):
        return self.is_terminal

    def write(self, text):
        self.text += text

    def flush(self):
        pass


@pytest.mark.parametrize("is_terminal", [True, False])
def test_compiling_is_announced_once_on_a_terminal_only(is_terminal, monkeypatch, tmp_path):
    tell_once.cache_clear()
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    terminal = Terminal(is_terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    compiled_names = list(compiling.kernels)
    monkeypatch.setattr(compiling, "kernels", compiled_names)
    monkeypatch.setattr(compile_module, "__package__", __package__)  # these count as kernels of ours

    @compiled
    def add(x, y):
        return x + y

    add(1, 2), add(1.0, 2.0), add(1, 2)
    monkeypatch.undo()
    assert terminal.text == (NOTICE + "\n" if is_terminal else "")
    assert compiled_names[-2:] == [f"{__name__}.add"] * 2


def test_kernels_that_kernels_call_have_no_version_for_python():
    @compiled
    def inner(x, n):
        return x[n]

    @compiled
    def outer(x):
        n = 0  # first taken for a constant
        for _ in range(x.size - 1):
            n += 1
        return inner(x, n)

    assert outer(np.arange(3.0)) == 2.0
    assert not inner.signatures
    assert inner(np.arange(3.0), 1) == 1.0
    assert len(inner.signatures) == 1
    assert outer(np.arange(4)) == 3


def test_a_terminal_is_told_by_a_process_that_compiles_and_by_no_other(tmp_path):
    code = "import conebandit as cb; cb.RandomArm(2, cb.Cone.orthant(2), 1).decide([0.5], 1)"
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    program = f"import pty, sys; sys.exit(pty.spawn([{sys.executable!r}, '-c', {code!r}]))"
    texts = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        texts.append(done.stdout + done.stderr)
    assert [text.count(NOTICE) for text in texts] == [1, 0]
