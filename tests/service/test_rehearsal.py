"""Kernels are compiled before they are needed, and never in the writer's thread."""

import json
import logging
import os
import re
import subprocess
import sys
import threading
import time

import pytest

from conebandit.experiment.declaration import Experiment
from conebandit.policies.registry import OURS
from conebandit.service.engine import rehearsal
from conebandit.service.engine.rehearsal import Kernels, Rehearsal, prepare_start
from conebandit.service.engine.writer import Writer
from conebandit.service.http import server
from conebandit.service.stores.base import open_store
from conebandit.service.stores.records import seal
from conebandit.service.stores.seals import START

# Every version of a kernel that a process has is found on disk, or compiled, by a call of this method.
WATCH = """
import threading
from numba.core.dispatcher import Dispatcher
found, compile_kernel = [], Dispatcher.compile
def watched(self, *args, **options):
    if self.py_func.__module__.startswith("conebandit"):
        found.append([threading.current_thread().name, f"{self.py_func.__module__}.{self.py_func.__name__}"])
    return compile_kernel(self, *args, **options)
Dispatcher.compile = watched
"""

SERVICE = """
import json, sys, tempfile, pathlib
import conebandit as cb
from conebandit.experiment.declaration import Experiment
from conebandit.service.http.server import serving
from conebandit.service.past import begin
from conebandit.service.stores.base import open_store

def declared(id_, policy=None):
    made = {"id": id_, "arms": ["a", "b"], "metrics": [{"name": "m", "resolution": 0.1}, {"name": "n"}, {"name": "o"}]}
    made["context"] = [{"name": "x", "low": 0, "high": 1}, {"name": "y", "levels": ["p", "q", "r"]}]
    return made if policy is None else {**made, "policy": policy}

def use(client, id_):
    context = {"x": 0.5, "y": "q"}
    for i in range(150):
        client.decide(id_, {"x": i / 150, "y": "pqr"[i % 3]}, id=f"{id_}-{i}")
        client.report(id_, f"{id_}-{i}", {"m": i % 7, "n": i % 5} if i % 2 else {"o": i % 3})
    client.decide_many(id_, [context, context])
    client.report(id_, f"{id_}-1", {"m": 3.5})
    client.front(id_, context), client.explain(id_, context), client.state(id_)

with tempfile.TemporaryDirectory() as folder:
    where = str(pathlib.Path(folder) / "log.db")
    store = open_store(where)
    begin(store, Experiment.from_dict(declared("there")), None)
    begin(store, Experiment.from_dict(declared("linear", {"name": "LinearParetoUCB", "explore": 0.1})), None)
    begun = len(found)
    with serving(where) as address, cb.Client(address) as client:
        use(client, "there"), use(client, "linear")
        client.create(declared("new", "ScalarisedUCB"))
        use(client, "new")
        client.add_arm("new", "c"), client.retire_arm("new", "b")
        use(client, "new")
        begin(store, Experiment.from_dict(declared("elsewhere", "ParetoUCB1")), None)
        use(client, "elsewhere")
        client.shift("there")
    store.close()
    with serving(where) as address, cb.Client(address) as client:  # from snapshots
        use(client, "there")
print(json.dumps(found[begun:]))
"""


def run(program, **environment):
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_writer_never_waits_for_a_kernel():
    found = json.loads(run(WATCH + SERVICE).splitlines()[-1])
    threads = {thread for thread, _ in found}
    assert len(found) > 20
    assert not any(thread.startswith(("conebandit-writer", "conebandit-revision")) for thread in threads), found


# With each policy: what a service does, with other sizes than the rehearsal, and longer.
SIZES = """
import json
import numpy as np
from conebandit.experiment.declaration import Experiment
from conebandit.experiment.policy import make_policy
from conebandit.service.engine.rehearsal import Kernels

policies = json.loads(POLICIES)
shapes = [
    (2, 1, 0, 400, "orthant"),
    (70, 3, 3, 300, "orthant"),
    (3, 5, 1, 60, "orthant"),
    (5, 2, 2, 60, {"tradeoffs": ["one unit of m0 is worth at most 50 of m1"]}),
    (2, 2, 1, 20, {"rays": [[1, 0.6], [0.6, 1]]}),
    (2, 2, 1, 20, {"facets": [[1, 0], [1, 3]]}),
    (2, 3, 1, 20, {"weights": [[1, 2, 3], [3, 2, 1]]}),
    (2, 2, 1, 20, {"comparisons": [{"better": {"m0": 3, "m1": 1}, "worse": {"m0": 1, "m1": 2}}]}),
]
known = {}
for policy in policies:
    for arms, metrics, columns, outcomes, cone in shapes:
        declared = {"id": "e", "arms": [f"a{k}" for k in range(arms)], "policy": policy}
        declared["metrics"] = [{"name": f"m{m}"} for m in range(metrics)]
        declared["context"] = [{"name": f"c{c}", "low": 0, "high": 1} for c in range(columns)]
        declared["cone"] = cone
        experiment = Experiment.from_dict(declared)
        Kernels().for_decisions(experiment)
        before = len(found)
        made, rng = make_policy(experiment, experiment.arms), np.random.default_rng(1)
        for i in range(outcomes):
            x, reward = rng.uniform(size=experiment.context_dim), rng.uniform(size=metrics)
            if metrics > 1 and i % 4 == 0:
                reward[i % metrics] = np.nan
            decision = made.decide(x, str(i))
            made.observe(x, decision.arm, reward)
            if i % 20 == 19:
                made.front(x), made.decide(x, 0)
                if hasattr(made, "explain"):
                    made.explain(x)
        if len(found) > before:
            known[f"{policy} {arms} {metrics} {columns}"] = found[before:]
print(json.dumps(known))
"""


def test_a_rehearsal_is_enough_for_every_policy_of_any_size():
    policies = [*OURS, *({"name": "ConeTree", "preset": preset} for preset in ("paper", "sound", "adaptive"))]
    policies += [{"name": "ConeKernel", "explore": 0.1}, {"name": "ParetoUCB1", "resolution": 0.1}]
    found = run(f"POLICIES = {json.dumps(policies)!r}\n{WATCH}{SIZES}")
    assert json.loads(found.splitlines()[-1]) == {}


def declared(policy, **entries):
    made = {"id": "e", "arms": ["a", "b"], "metrics": [{"name": "m"}], "policy": policy}
    return Experiment.from_dict({**made, **entries})


def test_kinds_do_not_depend_on_sizes_and_values():
    one = declared({"name": "LinearParetoUCB", "width": 0.4})
    large = declared(
        {"name": "LinearParetoUCB", "width": 0.9},
        arms=[str(k) for k in range(9)],
        metrics=[{"name": name} for name in "mno"],
        context=[{"name": "x", "low": 0, "high": 1}],
    )
    assert Rehearsal("policy", one).kind == Rehearsal("policy", large).kind
    others = [
        declared("ParetoUCB1"),
        declared({"name": "LinearParetoUCB", "width": 1}),
        declared({"name": "LinearParetoUCB", "width": 0.4, "explore": 0.1}),
        declared({"name": "ConeTree", "preset": "paper"}),
        declared("ConeTree"),
        declared("ConeKernel"),
        declared("ConeKernel", arms=[{"name": "a", "dose": 1.0}, {"name": "b", "dose": 2.0}]),
    ]
    kinds = {Rehearsal("policy", experiment).kind for experiment in (one, *others)}
    assert len(kinds) == 1 + len(others)
    blocks = ["auto", "day", 10]
    assert len({Rehearsal("shift", declared("ConeKernel", shift_block=b)).kind for b in blocks}) == 3


@pytest.fixture
def nothing_prepared(monkeypatch):
    """As in a new process; what is rehearsed is only listed."""
    rehearsed, processes = [], []
    monkeypatch.setattr(Kernels, "_prepared", set())
    monkeypatch.setattr(Rehearsal, "run", lambda self: rehearsed.append(self.part))
    monkeypatch.setattr(Kernels, "_compile_apart", lambda _, wanted: processes.append([r.part for r in wanted]))
    return rehearsed, processes


def test_another_process_compiles_each_kind_once(nothing_prepared):
    rehearsed, processes = nothing_prepared
    kernels, experiment = Kernels(apart=True), declared("ParetoUCB1")
    for _ in range(2):
        kernels.for_decisions(experiment)
    kernels.for_decisions(declared("ParetoUCB1", arms=["a", "b", "c"]))
    assert processes == [["fronts", "policy"]]
    assert rehearsed == ["fronts", "policy"]  # and this one then finds it on disk
    kernels.for_shift(experiment)
    assert processes[1:] == [["shift"]]


def test_a_start_uses_no_other_process(nothing_prepared):
    rehearsed, processes = nothing_prepared
    body = {"at": 0, "declaration": declared("ParetoUCB1").declaration, "library": "0.4.0"}
    created = [seal(START, 1, "created", None, body)] * 2
    assert prepare_start([seal(START, 1, "created", None, {"wrong": True}), *created]) == 0
    assert rehearsed == ["fronts", "policy", "policy"]  # of the default, and of these
    assert not processes
    Kernels(apart=True).for_decisions(declared("ParetoUCB1"))
    assert not processes


def test_without_a_folder_kernels_are_compiled_in_the_thread_that_asks(nothing_prepared, monkeypatch):
    rehearsed, processes = nothing_prepared
    monkeypatch.setattr(rehearsal, "kept_in", lambda: None)
    Kernels(apart=True).for_decisions(declared("ParetoUCB1"))
    assert (rehearsed, processes) == (["fronts", "policy"], [])


def test_without_a_folder_a_start_says_so(monkeypatch, tmp_path, caplog):
    monkeypatch.setattr(server, "kept_in", lambda: None)
    with caplog.at_level(logging.WARNING), server.serving(str(tmp_path / "log.db")):
        pass
    assert "NUMBA_CACHE_DIR" in caplog.text


@pytest.mark.usefixtures("nothing_prepared")
def test_a_rehearsal_that_fails_only_costs_time(monkeypatch, caplog):
    monkeypatch.setattr(Rehearsal, "run", lambda self: 1 / 0)
    Kernels(apart=True).for_decisions(declared("ParetoUCB1"))
    assert "division by zero" in caplog.text


@pytest.fixture
def child(monkeypatch):
    """What a process that compiles is to do instead; kinds are those of a new process."""
    monkeypatch.setattr(Kernels, "_prepared", set())
    return lambda program: monkeypatch.setattr(rehearsal, "CHILD", program)


def test_a_process_that_fails_only_costs_time(child, caplog):
    child("raise SystemExit('no room')")
    kernels = Kernels(apart=True)
    kernels.for_decisions(declared("ParetoUCB1"))
    assert "no room" in caplog.text
    assert len(kernels._prepared) == 2


def test_at_the_end_nobody_waits_for_a_process_that_compiles(child, tmp_path, caplog):
    child(f"import pathlib, time; pathlib.Path({str(tmp_path / 'begun')!r}).touch(); time.sleep(600)")
    kernels = Kernels(apart=True)
    thread = threading.Thread(target=kernels.for_decisions, args=[declared("ParetoUCB1")])
    thread.start()
    while not (tmp_path / "begun").exists():
        time.sleep(0.01)
    kernels.give_up()
    thread.join(60)
    assert not thread.is_alive()
    assert not kernels._prepared
    kernels.for_decisions(declared("ParetoUCB1"))
    assert not kernels._prepared
    assert "failed" not in caplog.text


def test_what_another_process_has_compiled_is_found_on_disk(tmp_path):
    program = """
import sys
from conebandit.experiment.declaration import Experiment
from conebandit.kernels.compile import compiling
from conebandit.service.engine import rehearsal
declared = {"id": "e", "arms": ["a", "b"], "metrics": [{"name": "m"}], "policy": "ParetoUCB1"}
wanted = [rehearsal.Rehearsal("policy", Experiment.from_dict(declared))]
rehearsal.Kernels(apart=True)._prepare(wanted)
print(len(compiling.kernels))
"""
    assert run(program, NUMBA_CACHE_DIR=str(tmp_path)) == "0\n"
    assert list(tmp_path.rglob("*.nbi"))


@pytest.mark.parametrize("quiet", [0.0, 600.0])
def test_a_start_that_takes_long_says_why(quiet, monkeypatch, tmp_path):
    said, told = [], threading.Event()

    def say(line):
        said.append(line)
        told.set()

    def prepare(_):
        if not quiet:
            assert told.wait(60)
        return 3 if not quiet else 0

    monkeypatch.setattr(server, "QUIET", quiet)
    monkeypatch.setattr(server, "prepare_start", prepare)
    writer = Writer(open_store(str(tmp_path / "log.db")))
    server._warm_up(writer, say)
    writer.close()
    timeless = [re.sub(r"\d+ s\.", "n s.", line) for line in said]  # a busy machine takes longer than no time
    assert timeless == ([] if quiet else [server.COMPILING, "Compiled 3 kernels in n s."])
