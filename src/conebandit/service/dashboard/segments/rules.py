"""The rules that people read: found from a sample of decisions, and which of these follow which."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conebandit.experiment.segments import Segments, segments_of
from conebandit.policies.compiled import estimates
from conebandit.service.dashboard.arms.contexts import Context
from conebandit.service.dashboard.counts.tally import Sample, Tally
from conebandit.service.dashboard.kept import Kept
from conebandit.service.dashboard.looks import Look
from conebandit.service.dashboard.segments.maps import MAX_WORK, ask, rows_within, typical
from conebandit.validate.arrays import FloatArray

MAX_RULES = 6  # as many as Learner.segments makes
MAX_CONTEXTS = 1000  # that rules are made from; shares are then known to 1.6 %
MIN_CONTEXTS = 40  # below, a rule for 2 % of them would be about nobody


@dataclass(frozen=True)
class Rules:
    """Rules, and the decisions of a sample that follow them; no context of anybody, since it is kept.

    Attributes
    ----------
    segments
        The rules, the largest first.
    made_from
        From how many contexts.
    places
        Which rule each decision of the sample follows (n,).
    usual, typical
        A context like most of the sample, and one for each rule like most that follow it.
    """

    segments: Segments
    made_from: int
    places: NDArray[np.int64]
    usual: Context
    typical: tuple[Context, ...]

    def shares(self, among: NDArray[np.bool_]) -> list[float]:
        """Share of each rule among some of the decisions."""
        counts = np.bincount(self.places[among], minlength=len(self.segments))
        return (counts / max(int(counts.sum()), 1)).tolist()  # type: ignore[no-any-return]


def sample_of(look: Look, sample: Sample) -> FloatArray:
    """The contexts of a sample (n, d), also if there are none."""
    return sample.x if len(sample) else np.empty((0, look.experiment.context_dim))


def rules_of(kept: Kept, look: Look, tally: Tally) -> Rules | None:
    """Rules for the contexts of a tally, found anew when something has been learned or decided."""
    key = ("rules", look.log, look.version, tally.seen, tally.at)
    return kept.get(key, lambda: find_rules(look, tally.sample))


def find_rules(look: Look, sample: Sample) -> Rules | None:
    """Rules for the contexts of a sample; None if there are none."""
    contexts = sample_of(look, sample)
    if not len(contexts):
        return None
    most = max(rows_within(look.policy, MAX_CONTEXTS, 3 * MAX_WORK), MIN_CONTEXTS)
    some = contexts[np.unique(np.linspace(0, len(contexts) - 1, most).astype(np.int64))]
    made = ask(look, some)
    with look.lock:
        estimated = estimates(look.policy, some)
    segments = segments_of(look.experiment, some, made, estimated, MAX_RULES)
    places = np.zeros(len(contexts), dtype=np.int64)
    for number, segment in enumerate(segments):
        places[segment.has(look.experiment.columns, contexts)] = number
    experiment = look.experiment
    own = tuple(typical(experiment, contexts[places == number]) for number in range(len(segments)))
    return Rules(segments, len(some), places, typical(experiment, contexts), own)
