"""What the view Progress shows: estimates in a context over time, and how many more observations are needed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from conebandit.experiment.declaration import Experiment
from conebandit.experiment.errors import InvalidError
from conebandit.experiment.how_many import GROWTH, N_CONTEXTS, N_DRAWS, SampleSize, sample_size
from conebandit.experiment.metrics import Metric
from conebandit.experiment.outlook import Interval, estimates_by_name
from conebandit.experiment.policy import Served
from conebandit.pages.chart import Axis, Panel
from conebandit.pages.palette import series
from conebandit.pages.wording import share, shown
from conebandit.policies.compiled import estimates
from conebandit.service.dashboard.kept import Kept
from conebandit.service.dashboard.looks import Look
from conebandit.service.dashboard.past.course import Course, Past, Point
from conebandit.validate.arrays import FloatArray

WIDTH, HEIGHT = 460, 300  # of a chart; two stand side by side
MAX_LINES = 8  # arms in a chart: as many as there are colours
EARLY = 0.1  # share of the observations before which intervals may be cut off by the edge of a chart
MAX_COMPARED = 2_000_000_000  # numbers that a simulation compares; fewer contexts for many arms
MIN_CONTEXTS = 10
MAX_ANSWERS = 8  # contexts for which a point of the past remembers what it knew
MAX_SETTLED = 32  # answers that are remembered


class Reading(NamedTuple):
    """What was known in a context at one time.

    Attributes
    ----------
    seq, at
        Position in the log, and its time in milliseconds since 1970.
    observations
        Of how many decisions and past rows something had been learned.
    arms
        For each arm that the policy has, the estimate of each metric by name, in the units of the metric.
    front
        The arms that were on the front, by what was known.
    """

    seq: int
    at: int
    observations: int
    arms: dict[str, dict[str, Interval]]
    front: tuple[str, ...]


def _read(experiment: Experiment, point: Point, x: FloatArray) -> Reading:
    """What a policy, whose arms are those of the experiment, knows in a context."""
    means, radii = (found[0].tolist() for found in estimates(point.policy, x[None]))
    known = {
        arm: estimates_by_name(experiment.metrics, mean, radius)
        for arm, mean, radius in zip(experiment.arms, means, radii, strict=True)
    }
    front = tuple(experiment.arms[k] for k in point.policy.front(x).arms)
    return Reading(point.seq, point.at, point.observations, known, front)


def readings(course: Course, past: Past, look: Look, x: FloatArray) -> list[Reading]:
    """What was known in a context at the points of a course, and last of all what is known now.

    A course that has not heard of another declaration, or of other arms, is left out: it begins anew.
    """
    found = []
    if past.experiment is not None and past.experiment == look.experiment:
        with course.asking:
            earlier = [point for point in past.points if point.seq < look.events]
            found = [_known(look.experiment, point, x) for point in earlier]
    with look.lock:
        found.append(_read(look.experiment, Point(look.events, look.at, look.observations, look.policy, 0, {}), x))
    last = found[-1]
    served = tuple(arm for arm in last.front if look.served.get(arm, False))  # as the service says it
    return [*found[:-1], last._replace(front=served)]


def _known(experiment: Experiment, point: Point, x: FloatArray) -> Reading:
    """The same for a point of the past, which does not change; a few contexts are remembered."""
    key = x.tobytes()
    if key not in point.answers:
        if len(point.answers) >= MAX_ANSWERS:
            point.answers.clear()
        point.answers[key] = _read(experiment, point, x)
    reading: Reading = point.answers[key]
    return reading


def arms_shown(last: Reading, wanted: str = "") -> list[str]:
    """Which arms have a line: the one that is wanted, or those on the front first, as many as there are colours."""
    if wanted:
        if wanted not in last.arms:
            raise InvalidError(f"arm must be one of those that there are; got {wanted!a}.")
        return [wanted]
    ordered = sorted(last.arms, key=lambda arm: arm not in last.front)
    kept = set(ordered[:MAX_LINES])
    return [arm for arm in last.arms if arm in kept]


def chart(metric: Metric, found: Sequence[Reading], arms: Sequence[str], colours: dict[str, str], by: str) -> Markup:
    """Estimates of one metric over time, or over the number of observations, with intervals as bands."""
    places = [float(reading.at if by == "time" else reading.observations) for reading in found]
    better = "less" if metric.direction == "min" else "more"
    name = f"{shown(metric.name, 40)}{f', {metric.units}' if metric.units else ''} ({better} is better)"
    up = Axis.around(_seen_values(metric, found, arms), name, _around(metric))
    panel = Panel(_across(found, by), up, width=WIDTH, height=HEIGHT)
    last = found[-1]
    for arm in sorted(arms, key=lambda arm: arm in last.front):  # the front on top of the others
        intervals = [(place, reading.arms[arm][metric.name]) for place, reading in zip(places, found, strict=True)]
        pale = "" if arm in last.front else " pale"
        sure = [(p, i.low, i.high) for p, i in intervals if math.isfinite(i.high - i.low)]
        known = [(p, i.estimate) for p, i in intervals if math.isfinite(i.estimate)]
        if len(sure) > 1:
            panel.band(sure, colours[arm] + pale)
        if len(known) > 1:
            panel.line(known, colours[arm] + pale)
        for place, interval in intervals:
            if math.isfinite(interval.estimate):
                panel.mark(place, interval.estimate, colours[arm] + pale, f"{shown(arm)}: {interval}", radius=3.0)
    return panel.svg(f"Estimates of {shown(metric.name)} over time, for {len(arms)} arms")


def colours_of(arms: Sequence[str]) -> dict[str, str]:
    """The class of the colour of each arm, the same in every view."""
    return {arm: series(k) for k, arm in enumerate(arms)}


def _across(found: Sequence[Reading], by: str) -> Axis:
    if by == "time":
        return Axis.of_times(reading.at for reading in found).sparser()
    return Axis.around([0, *(reading.observations for reading in found)], "observations", (0.0, math.inf))


def _around(metric: Metric) -> tuple[float, float] | None:
    """Nothing beyond the range of a metric needs to be seen, but for a margin."""
    if metric.range is None:
        return None
    low, high = metric.range
    margin = 0.03 * (high - low)
    return low - margin, high + margin


def _seen_values(metric: Metric, found: Sequence[Reading], arms: Sequence[str]) -> list[float]:
    """What a chart must have room for: all estimates, and intervals but for the widest ones at the beginning."""
    least = EARLY * found[-1].observations
    values: list[float] = []
    for reading in found:
        for arm in arms:
            interval = reading.arms[arm][metric.name]
            values += interval if reading.observations >= least else [interval.estimate]
    return values


# ---- how many more --------------------------------------------------------------------------------------------------


class Settling:
    """How many more observations until the front is settled; simulated once for each state of a policy.

    To be asked by one thread at a time: each takes a core for a second, or for more.
    """

    def __init__(self) -> None:
        self._known = Kept(MAX_SETTLED)

    def ask(self, look: Look, contexts: FloatArray, power: float) -> SampleSize:
        """For contexts (n, d) such as those of the decisions; an ``InvalidError`` if nobody can say it."""
        if not len(contexts):
            raise InvalidError("nothing has been decided yet, so it is not known for which contexts.")
        with look.lock:
            policy = look.policy.copy()  # so that nobody waits for the other one
        key = (look.log, look.version, policy.n_observations, power)
        return self._known.get(key, lambda: _simulate(look.experiment, policy, contexts, power))


def _simulate(experiment: Experiment, policy: Served, contexts: FloatArray, power: float) -> SampleSize:
    """As :meth:`Learner.how_many` does, at fewer contexts where there are many arms to compare."""
    pairs = len(GROWTH) * N_DRAWS * policy.n_arms**2 * len(experiment.cone.facets)
    n = min(max(MAX_COMPARED // pairs, MIN_CONTEXTS), N_CONTEXTS)
    places = np.unique(np.linspace(0, len(contexts) - 1, n).astype(np.int64))
    counts = policy.state().get("counts")
    shape = (policy.n_arms, len(experiment.metrics))
    seen = np.ones(shape, dtype=np.bool_) if counts is None else counts.reshape(shape) > 0
    return sample_size(experiment, policy, contexts[places], seen, power=power)


def settled_words(size: SampleSize, look: Look) -> str:
    """The answer in a sentence. The policy counts reports, of which there may be several for a decision."""
    each = look.observations / max(look.policy.n_observations, 1)
    wanted, today = share(size.power), share(size.settled_now)
    if not size.rows:
        return f"No more: the front is settled in {today} of the contexts, and {wanted} were asked for."
    low, high = (f"{end * each:,.0f}" if math.isfinite(end) else "many more" for end in (size.low, size.high))
    rows = f"{size.rows * each:,.0f}" if math.isfinite(size.rows) else f"{max(size.curve) * each:,.0f}"
    about = "About" if math.isfinite(size.rows) else "Far more than"
    return (
        f"{about} {rows} more observations until the front is settled in {wanted} of the contexts; today it is in "
        f"{today}. 90 % interval: {low} to {high}."
    )


def settled_chart(size: SampleSize, observations: int) -> Markup:
    """The expected share of contexts with a settled front, after so many times the observations."""
    times = [math.log2(1.0 + more / max(observations, 1)) for more in size.curve]
    ticks = tuple((float(k), f"{2**k:,} x") for k in range(0, int(max(times)) + 1, 2))
    across = Axis("observations, as a multiple of those so far", 0.0, max(*times, 1.0), ticks)
    shares = tuple((k / 5, f"{20 * k} %") for k in range(6))
    panel = Panel(across, Axis("contexts with a settled front", 0.0, 1.04, shares), width=WIDTH, height=HEIGHT)
    panel.span((0.0, size.power), (across.high, size.power), css="rule")
    panel.line(list(zip(times, size.curve.values(), strict=True)), "series-0")
    if math.isfinite(size.rows):
        place = math.log2(1.0 + size.rows / max(observations, 1))
        panel.mark(place, max(size.power, size.settled_now), "series-0", "here")
    return panel.svg("Expected share of contexts in which the front is settled, as observations grow")
