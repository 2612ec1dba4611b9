"""How often a safety rule stops a trial falsely, and how soon rightly, beside tests that people use instead.

    python benchmarks/service_stopping.py                       # an hour; writes results/stopping.json and .md
    python benchmarks/service_stopping.py --trials 50 --patients 100 --to /tmp/stopping      # to see that it works

Patients come one a day, older and older, and get one of three doses by the default policy. The limit is a toxicity of
0.3, the error 0.05. Where the toxicity is *at* the limit, a test that keeps its word stops at most one trial in twenty.
It is known at once; a month later, as all others are; or at once if there was one, and otherwise only when the window
of a month has closed. Compared, on the same patients:

* the rule, on all doses together and for each dose: its own object, fed with what the policy decides;
* an exact test of all that is known, made again after every patient (which is not valid);
* the same test, made once, a month after the last patient.

A few trials also go through the whole service, with a store; they must stop at the same patient.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.stats import beta, binom

from conebandit.experiment.declaration import Experiment
from conebandit.experiment.policy import make_policy, with_policy
from conebandit.service.engine.ledger import Ledger
from conebandit.service.engine.turn import Turn
from conebandit.service.errors import ConflictError
from conebandit.service.log.rules import Rules
from conebandit.service.stores.base import open_store
from report import Report, machine, versions

TRIALS, PATIENTS, SERVED = 1000, 200, 50
LIMIT, ERROR, WINDOW = 0.3, 0.05, 30  # toxicity, false stops, days
DAY = 86_400_000  # milliseconds
DOSES = ("none", "low", "high")

Delay = Literal["at once", "a month", "if toxic at once"]
DELAYS: tuple[Delay, ...] = ("at once", "a month", "if toxic at once")
Toxicity = dict[str, float]  # of each dose, for a patient of average age
WORLDS: dict[str, Toxicity] = {
    "below the limit": dict.fromkeys(DOSES, 0.2),
    "at the limit": dict.fromkeys(DOSES, LIMIT),
    "above the limit": dict.fromkeys(DOSES, 0.45),
    "one dose above": {"none": 0.1, "low": 0.2, "high": 0.5},
}


class Rule(NamedTuple):
    """A rule that is tried, and where it may be said to be at its limit."""

    name: str
    entries: dict[str, Any]
    slope: float  # by how much the toxicity grows from the youngest to the oldest


RULES = (
    Rule("all doses", {"per": "experiment", "then": "stop"}, slope=0.3),
    Rule("each dose", {"per": "arm", "then": "stop"}, slope=0.0),  # policies choose patients, who must then be alike
)


def declaration(rule: Rule, seed: int) -> Experiment:
    """A trial with a rule."""
    bound = {"name": "toxicity", "metric": "toxicity", "above": LIMIT, "error": ERROR, **rule.entries}
    toxicity = {"name": "toxicity", "direction": "min", "range": [0, 1], "window": f"{WINDOW}d", "default": 0}
    return with_policy(
        Experiment.from_dict(
            {
                "id": "trial",
                "arms": list(DOSES),
                "metrics": [{"name": "efficacy", "range": [0, 1]}, toxicity],
                "context": [{"name": "age", "low": 0, "high": 1}],
                "rules": [bound],
                "seed": seed,
            }
        )
    )


class Patients(NamedTuple):
    """All that can happen to the patients of a trial."""

    ages: list[float]
    toxic: list[dict[str, bool]]  # by dose
    effective: list[dict[str, bool]]

    @classmethod
    def drawn(cls, number: int, world: Toxicity, slope: float, seed: int) -> Patients:
        """Older and older, with as much toxicity on average on each day."""
        rng = np.random.default_rng(seed)
        middle = np.linspace(0.25, 0.75, number)  # of the ages on a day
        ages = middle + rng.uniform(-0.25, 0.25, number)
        more = slope * (ages - middle)
        lots = rng.random((number, 2))
        toxic = [{dose: bool(u < p + m) for dose, p in world.items()} for u, m in zip(lots[:, 0], more, strict=True)]
        helps = {"none": 0.2, "low": 0.4, "high": 0.6}
        effective = [{dose: bool(u < p) for dose, p in helps.items()} for u in lots[:, 1]]
        return cls(ages.tolist(), toxic, effective)


def known_on(day: int, toxic: bool, delay: Delay) -> int | None:
    """When the toxicity of a patient is reported; None if the window closes instead."""
    if delay == "if toxic at once":
        return day if toxic else None
    return day if delay == "at once" else day + WINDOW


class Outcome(NamedTuple):
    """When each way of looking at a trial stopped it: after how many patients; None if it did not."""

    rule: int | None
    repeated: int | None
    once: int | None


def simulate(experiment: Experiment, patients: Patients, delay: Delay, rejects: list[float]) -> Outcome:
    """A trial without a store: the policy, and the rule's own object."""
    policy, rules = make_policy(experiment, experiment.arms), Rules()
    rules.declare(experiment.rules, 0)
    arms = dict.fromkeys(DOSES, True)
    made: list[str] = []
    stopped = repeated = None
    values: list[bool] = []

    def learn(patient: int, efficacy: float, toxicity: float) -> None:
        reward = [efficacy, experiment.metrics[1].reward(toxicity)]
        policy.observe(np.array([patients.ages[patient]]), DOSES.index(made[patient]), np.array(reward))
        if not math.isnan(toxicity):
            rules.settle(patient + 1, made[patient], "toxicity", toxicity)
            values.append(bool(toxicity))

    def reported(day: int) -> Iterator[int]:
        for patient in range(max(0, day - WINDOW), len(made)):
            if known_on(patient, patients.toxic[patient][made[patient]], delay) == day:
                yield patient

    for day, age in enumerate(patients.ages):
        closed = day - WINDOW - 1
        if closed >= 0 and known_on(closed, patients.toxic[closed][made[closed]], delay) is None:
            learn(closed, math.nan, 0.0)
        for patient in reported(day):
            learn(patient, math.nan, float(patients.toxic[patient][made[patient]]))
        if stopped is None and rules.due(0, arms) is not None:
            stopped = day
        if repeated is None and sum(values) >= rejects[len(values)]:
            repeated = day
        made.append(DOSES[policy.decide(np.array([age]), f"p{day}").arm])
        rules.decide(day + 1, made[day], 0)
        toxicity = patients.toxic[day][made[day]]
        now = known_on(day, toxicity, delay) == day
        learn(day, float(patients.effective[day][made[day]]), float(toxicity) if now else math.nan)
        if stopped is None and rules.due(0, arms) is not None:
            stopped = day + 1
        if repeated is None and sum(values) >= rejects[len(values)]:
            repeated = day + 1
    everybody = sum(patients.toxic[day][arm] for day, arm in enumerate(made))
    return Outcome(stopped, repeated, len(made) if everybody >= rejects[len(made)] else None)


def serve(experiment: Experiment, patients: Patients, delay: Delay, folder: Path) -> int | None:
    """The same trial through the service: after how many patients it was stopped."""
    ledger = Ledger()
    with closing(open_store(str(folder / "log.db"))) as store:

        def ask(day: int, what: str, *args: Any) -> Any:
            with ledger.transaction(store, (20_000 + day) * DAY) as transaction:
                return getattr(Turn(transaction), what)(*args)

        def stopped() -> bool:
            return bool(ask(0, "describe", "trial").stopped)

        made: list[str] = []
        ask(0, "create", experiment)
        for day, age in enumerate(patients.ages):
            for patient in range(len(made)):
                toxicity = patients.toxic[patient][made[patient]]
                if known_on(patient, toxicity, delay) == day:
                    ask(day, "report", "trial", [{"id": f"p{patient}", "values": {"toxicity": float(toxicity)}}])
            if stopped():
                return day
            with ledger.transaction(store, (20_000 + day) * DAY) as transaction:
                try:
                    [made_now] = Turn(transaction).decide("trial", [{"id": f"p{day}", "context": {"age": age}}])
                except ConflictError:  # a window has closed, and the rule has stopped the trial
                    return day
            made.append(made_now.arm)
            toxicity = patients.toxic[day][made[day]]
            values = {"efficacy": float(patients.effective[day][made[day]])}
            values |= {"toxicity": float(toxicity)} if known_on(day, toxicity, delay) == day else {}
            ask(day, "report", "trial", [{"id": f"p{day}", "values": values}])
            if stopped():
                return day + 1
    return None


def share(stops: list[int | None]) -> str:
    """How many of the trials were stopped, with an interval of 95 % (Clopper and Pearson)."""
    k, n = sum(stop is not None for stop in stops), len(stops)
    low = beta.ppf(0.025, k, n - k + 1) if k else 0.0
    high = beta.ppf(0.975, k + 1, n - k) if k < n else 1.0
    return f"{k / n:.3f} ({low:.3f} to {high:.3f})"


def middle(stops: list[int | None]) -> float | None:
    """The median number of patients until a stop, of trials that were stopped."""
    found = [stop for stop in stops if stop is not None]
    return float(np.median(found)) if found else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--patients", type=int, default=PATIENTS)
    parser.add_argument("--served", type=int, default=SERVED, help="trials that also go through the service")
    parser.add_argument("--to", type=Path, default=Path(__file__).parent / "results" / "stopping")
    asked = parser.parse_args()
    report = Report(
        title=f"Safety rules in {asked.trials} trials of {asked.patients} patients: limit {LIMIT}, error {ERROR}",
        command=f"python benchmarks/service_stopping.py --trials {asked.trials} --patients {asked.patients}",
        versions=versions("conebandit", "numpy", "scipy"),
        machine=machine(),
    )
    rejects = [math.inf, *(int(binom.isf(ERROR, n, LIMIT)) + 1 for n in range(1, asked.patients + 1))]
    for rule in RULES:
        for world, toxicity in WORLDS.items():
            for delay in DELAYS:
                outcomes, compared = [], 0
                for seed in range(asked.trials):
                    patients = Patients.drawn(asked.patients, toxicity, rule.slope, seed)
                    experiment = declaration(rule, seed)
                    outcomes.append(simulate(experiment, patients, delay, rejects))
                    if compared < asked.served // (len(RULES) * len(WORLDS) * len(DELAYS)) + 1:
                        with tempfile.TemporaryDirectory() as folder:
                            served = serve(experiment, patients, delay, Path(folder))
                        assert served == outcomes[-1].rule, (rule, world, delay, seed, served, outcomes[-1])
                        compared += 1
                rules, repeated, once = (list(stops) for stops in zip(*outcomes, strict=True))
                report.add(
                    rule=rule.name,
                    toxicity=world,
                    known=delay,
                    rule_stops=share(rules),
                    repeated_test_stops=share(repeated),
                    test_at_the_end=share(once),
                    patients_until_rule=middle(rules),
                    patients_until_repeated_test=middle(repeated),
                    through_the_service=compared,
                )
                report.write(asked.to)  # after each row: the whole takes long
    report.show()


if __name__ == "__main__":
    main()
