"""What a policy says about segments: fronts, and estimates with intervals that hold for all arms at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from conebandit.experiment.columns import Categorical, by_column
from conebandit.experiment.declaration import Experiment
from conebandit.experiment.outlook import Outlook, estimates_by_name
from conebandit.experiment.recommendation import chance_of
from conebandit.experiment.segments import Segment, Segments, find_segments
from conebandit.policies.compiled import estimates
from conebandit.service.report.facts import Facts
from conebandit.validate.arrays import FloatArray

MAX_SEGMENTS = 6  # as many as Learner.segments makes
MAX_CONTEXTS = 1000  # that they are made from: shares are then known to 1.6 %
MAX_ASKED = 200_000  # contexts times arms times metrics; fewer contexts for many arms
MIN_CONTEXTS = 50
LEVEL = 0.95  # of the intervals


@dataclass(frozen=True)
class Finding:
    """What is known about a segment.

    Attributes
    ----------
    segment
        Which contexts it has, and what they get.
    typical
        A context in it: the middle of each number, the most frequent level. Of few contexts it may be one of them.
    arms
        What is expected of each arm there, those on the front first.
    """

    segment: Segment
    typical: dict[str, Any]
    arms: tuple[Outlook, ...]


@dataclass(frozen=True)
class Findings:
    """What is known about all segments.

    Attributes
    ----------
    segments
        The rules that tell them apart, and how often they agree with the policy; None if nothing is known.
    found
        Of each of them.
    simultaneous
        Whether intervals hold for all arms and metrics of a context at once. Not all policies can say that.
    level
        Of the intervals, if they are simultaneous.
    made_from
        From how many contexts.
    """

    segments: Segments | None
    found: tuple[Finding, ...]
    simultaneous: bool
    level: float = LEVEL
    made_from: int = 0


def find(facts: Facts) -> Findings:
    """What the policy says, at the contexts of a sample of the decisions."""
    experiment, policy, sample = facts.experiment, facts.policy, facts.tally.sample
    simultaneous = hasattr(policy, "radii")
    if not len(sample) or not policy.n_observations:
        return Findings(None, (), simultaneous)
    most = MAX_ASKED // (policy.n_arms * len(experiment.metrics))
    n = min(max(most, MIN_CONTEXTS), MAX_CONTEXTS)
    contexts = sample.x[np.unique(np.linspace(0, len(sample) - 1, n).astype(np.int64))]
    segments = find_segments(experiment, policy, contexts, MAX_SEGMENTS)
    found = []
    for segment in segments:
        members = contexts[segment.has(experiment.columns, contexts)]
        typical = typical_context(experiment, segment, members)
        found.append(Finding(segment, typical, _outlooks(facts, experiment.encode(typical))))
    return Findings(segments, tuple(found), simultaneous, made_from=len(contexts))


def typical_context(experiment: Experiment, segment: Segment, contexts: FloatArray) -> dict[str, Any]:
    """A context in the middle of some (n, d) of a segment, in few digits if it is still in there then."""
    exact: dict[str, Any] = {}
    short: dict[str, Any] = {}
    for column, part in by_column(experiment.columns, contexts):
        if isinstance(column, Categorical):
            exact[column.name] = short[column.name] = column.levels[int(part.sum(axis=0).argmax())]
        else:
            middle = float(np.median(column.decode(part)))
            exact[column.name] = min(max(middle, column.low), column.high)
            short[column.name] = min(max(float(f"{middle:.3g}"), column.low), column.high)
    inside = segment.has(experiment.columns, experiment.encode(short)[None])
    return short if inside.all() else exact


def _outlooks(facts: Facts, x: FloatArray) -> tuple[Outlook, ...]:
    """What is expected of each arm that can be served, those on the front first."""
    experiment, policy = facts.experiment, facts.policy
    means, radii = (found[0] for found in estimates(policy, x[None]))
    if hasattr(policy, "radii"):
        radii = policy.radii(x[None], level=LEVEL, simultaneous=True)[0]
    front = policy.front(x)
    outlooks = [
        Outlook(
            arm=name,
            on_front=k in front.arms,
            chance=chance_of(front, k),
            estimates=estimates_by_name(experiment.metrics, means[k].tolist(), radii[k].tolist()),
        )
        for k, name in enumerate(experiment.arms)
        if facts.arms[name]
    ]
    return tuple(sorted(outlooks, key=lambda each: not each.on_front))
