"""Kernels are compiled by rehearsals: small runs of what the service does with an experiment, before it has to do it.

Compiling takes seconds, and whoever calls a kernel first has to wait for it; in the writer's thread that would be
everybody. Which kernels there are, and for which types, is written down nowhere: a rehearsal uses a policy as the
service does. Sizes are no types, so an experiment with more arms, metrics or columns needs nothing new.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from conebandit.experiment.arms import MAX_ARMS
from conebandit.experiment.declaration import Experiment
from conebandit.experiment.errors import InvalidError, RefusalError
from conebandit.experiment.policy import Served, load_policy, make_policy, with_policy
from conebandit.geometry.cone import Cone
from conebandit.geometry.pareto import pareto_mask
from conebandit.kernels.compile import compiling, kept_in
from conebandit.policies.cone_kernel import ConeKernel
from conebandit.service.log.replay import declared
from conebandit.service.shift import rehearse_shift
from conebandit.service.stores.records import Record, canonical

ARMS, OUTCOMES = 4, 125  # at most as many arms as there are; enough for a model to be fitted many times
BUSY_ARMS, BUSY_OUTCOMES = 60, 130  # so many arms that outcomes come in before a fit of ConeKernel is done
SMALL: dict[str, Any] = {
    "id": "small",
    "arms": ["a", "b"],
    "metrics": [{"name": "m"}, {"name": "n"}],
    "context": [{"name": "x", "low": 0, "high": 1}, {"name": "y", "low": 0, "high": 1}],
}
MAX_FACETS = 4  # for more, the same kernels are used
MAX_SECONDS = 600.0  # for a process that compiles
NICENESS = 10  # of such a process: decisions come first
CHILD = f"from {__name__} import compile_what_is_asked; compile_what_is_asked()"

log = logging.getLogger("conebandit.service")

Part = Literal["fronts", "policy", "shift"]


class Rehearsal(NamedTuple):
    """A part of what is done with an experiment."""

    part: Part
    experiment: Experiment

    @property
    def kind(self) -> str:
        """Rehearsals of the same kind need the same kernels, for the same types.

        Examples
        --------
        >>> declared = {"id": "e", "arms": ["a", "b"], "metrics": [{"name": "m"}], "policy": {"name": "ConeKernel"}}
        >>> [Rehearsal(part, Experiment.from_dict(declared)).kind for part in ("fronts", "policy", "shift")]
        ['["fronts"]', '["policy","ConeKernel",{},false]', '["shift","auto",false]']
        """
        experiment = self.experiment
        if self.part == "policy":
            settings = {name: _kind_of_setting(value) for name, value in experiment.settings.items()}
            return canonical([self.part, experiment.policy, settings, bool(experiment.arm_features)])
        if self.part == "shift":
            block = experiment.shift_block
            return canonical([self.part, "blocks" if isinstance(block, int) else block, experiment.context_dim > 1])
        return canonical([self.part])

    def run(self) -> None:
        """Have all kernels of this kind in memory: found on disk, or compiled now."""
        if self.part == "policy":
            rehearse_policy(self.experiment)
        elif self.part == "shift":
            rehearse_shift(self.experiment)
        else:
            rehearse_fronts()


def _kind_of_setting(value: Any) -> Any:
    """What matters of a setting: which text it is, or of which type and whether it is 0."""
    return value if isinstance(value, str | bool) else f"{type(value).__name__}{'' if value else ' 0'}"


def rehearse_fronts() -> None:
    """Fronts of as many arms as there may be; the kernels depend on the number of facets."""
    rng = np.random.default_rng(0)
    for facets, resolution in product(range(1, MAX_FACETS + 1), (0.0, 0.02)):
        cone, points = Cone.orthant(facets), rng.uniform(size=(MAX_ARMS, facets))
        for sets in (points, points[None, :2], np.concatenate([points, points * (1 + 1e-15)])):  # with near ties
            pareto_mask(sets, cone, resolution=resolution)


def rehearse_policy(experiment: Experiment) -> None:
    """Decisions, outcomes and questions, also with a policy that was read from a snapshot."""
    policy = _small(experiment, min(ARMS, len(experiment.arms)))
    _use(policy, OUTCOMES)
    _use(_read_back(policy), 1)
    if isinstance(policy, ConeKernel):
        busy = _small(experiment, BUSY_ARMS)
        _use(busy, BUSY_OUTCOMES)
        _use(_read_back(busy), 1)  # in the middle of a fit, which is then done at once


def _read_back(policy: Served) -> Served:
    """The policy as it comes from a snapshot."""
    with tempfile.TemporaryDirectory() as folder:
        policy.save(Path(folder) / "policy")
        return load_policy(Path(folder) / "policy")


def _use(policy: Served, outcomes: int) -> None:
    """Let a policy learn, and ask it now and then what the service asks."""
    rng = np.random.default_rng(0)
    for i in range(outcomes):
        x, rewards = rng.uniform(size=policy.context_dim), rng.uniform(size=policy.n_objectives)
        if i % 3 == 0:
            rewards[1:] = np.nan
        policy.observe(x, i % policy.n_arms, rewards)
        if i % 50 == 0:
            policy.decide(x, "a key")
            policy.decide(x, 0)
            policy.decide_many([x, x], ["a key", "another"])
            policy.front(x)
            if hasattr(policy, "explain"):
                policy.explain(x)


def _small(experiment: Experiment, n_arms: int) -> Served:
    """A policy with the settings that are declared, of a size that is quick; or as it is declared, if it must be."""
    small, arms = Experiment.from_dict(SMALL), [f"arm {k}" for k in range(n_arms)]
    names = list(next(iter(experiment.arm_features.values()), {}))
    features = {arm: dict.fromkeys(names, float(k)) for k, arm in enumerate(arms)} if names else {}
    wanted = replace(small, policy=experiment.policy, settings=experiment.settings, arm_features=features)
    try:
        return make_policy(wanted, arms)
    except InvalidError:
        return make_policy(experiment, experiment.arms)


class Kernels:
    """Sees to it that kernels are in memory before they are needed; each kind once in a process.

    Parameters
    ----------
    apart
        Compile in a process of its own, so that decisions in this one go on. What it keeps on disk is then read here.
        Without a folder for machine code, or if that process fails, kernels are compiled in the thread that asks.

    Examples
    --------
    >>> declared = {"id": "e", "arms": ["a", "b"], "metrics": [{"name": "m"}], "policy": "ParetoUCB1"}
    >>> Kernels().for_decisions(Experiment.from_dict(declared))
    """

    _prepared: ClassVar[set[str]] = set()  # kinds; of all objects, since machine code belongs to the process
    _one_at_a_time = threading.Lock()  # others would compile the same, or would want more cores than there are

    def __init__(self, *, apart: bool = False) -> None:
        self._apart = apart
        self._child: subprocess.Popen[bytes] | None = None
        self._given_up = False

    def give_up(self) -> None:
        """End a process that compiles; nothing will be needed any more."""
        self._given_up = True
        if self._child is not None:
            self._child.kill()

    def for_decisions(self, experiment: Experiment) -> None:
        """Whatever deciding, learning and looking at fronts needs."""
        self._prepare([Rehearsal("fronts", experiment), Rehearsal("policy", experiment)])

    def for_log(self, record: Record) -> None:
        """What the experiment needs that a record declares; if that is wrong, whoever reads the log will hear."""
        with suppress(RefusalError, LookupError, TypeError, ValueError):
            self.for_decisions(declared(record))

    def for_shift(self, experiment: Experiment) -> None:
        """What the monitor of contexts needs."""
        self._prepare([Rehearsal("shift", experiment)])

    def _prepare(self, wanted: Iterable[Rehearsal]) -> None:
        missing = [rehearsal for rehearsal in wanted if rehearsal.kind not in self._prepared]
        if not missing:
            return
        with self._one_at_a_time:
            missing = [rehearsal for rehearsal in missing if rehearsal.kind not in self._prepared]
            if missing and self._apart and kept_in() is not None and not self._given_up:
                log.info("compiling what %s needs", ", ".join(rehearsal.kind for rehearsal in missing))
                _try(partial(self._compile_apart, missing), "a process that compiles kernels")
            for rehearsal in missing if not self._given_up else []:
                _try(rehearsal.run, f"a rehearsal of {rehearsal.kind}")
                self._prepared.add(rehearsal.kind)

    def _compile_apart(self, rehearsals: list[Rehearsal]) -> None:
        """Compile in another process, which finds the same packages and keeps machine code where this one looks."""
        asked = [(rehearsal.part, rehearsal.experiment.declaration) for rehearsal in rehearsals]
        with subprocess.Popen(
            [sys.executable, "-c", CHILD],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as self._child:
            if self._given_up:  # meanwhile
                self._child.kill()
            try:
                _, said = self._child.communicate(json.dumps(asked).encode(), timeout=MAX_SECONDS)
            finally:
                self._child.kill()  # if it has not ended
        if self._child.returncode and not self._given_up:
            raise ChildProcessError(said.decode(errors="replace")[-500:])


def prepare_start(logs: Iterable[Record]) -> int:
    """Have in memory what experiments need, and what one with the default policy would; how many were compiled.

    For before anybody is served: it is done in this process, so that none is started if all is on disk already.

    Parameters
    ----------
    logs
        The records of each that declare it, first and later.
    """
    kernels, known = Kernels(), len(compiling.kernels)
    kernels.for_decisions(with_policy(Experiment.from_dict(SMALL)))
    for record in logs:
        kernels.for_log(record)
    return len(compiling.kernels) - known


def _try(work: Callable[[], None], what: str) -> None:
    """Rehearsals only save time: whoever really needs what has failed here will be told."""
    try:
        work()
    except Exception as error:
        log.warning("%s failed: %s", what, error)


def compile_what_is_asked() -> None:
    """In a process of its own: do the rehearsals that standard input asks for."""
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    for part, declaration in json.load(sys.stdin):
        Rehearsal(part, Experiment.from_dict(declaration)).run()
