"""What ``/metrics`` shows, in the text format of Prometheus (version 0.0.4). To add a metric, add a row to METRICS."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Literal, NamedTuple

from conebandit.service.engine.writer import Writer
from conebandit.service.replies import Upload

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds, at most
FORMAT = "text/plain; version=0.0.4; charset=utf-8"
# The routes with histograms of their latencies.
DECISIONS, OUTCOMES = "/experiments/{experiment}/decisions", "/experiments/{experiment}/outcomes"


class Sample(NamedTuple):
    """One value of a metric."""

    value: float
    labels: Mapping[str, str] = {}
    suffix: str = ""  # to the name of the metric; the parts of a histogram have one

    def line(self, name: str) -> str:
        """As text.

        Examples
        --------
        >>> Sample(3, {"route": "/healthz"}).line("requests_total")
        'requests_total{route="/healthz"} 3'
        """
        labels = ",".join(f'{label}="{_escaped(text)}"' for label, text in self.labels.items())
        return f"{name}{self.suffix}{{{labels}}} {self.value}" if labels else f"{name}{self.suffix} {self.value}"


def _escaped(text: str) -> str:
    """Names of keys may hold anything that can be printed."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


class Histogram:
    """How many durations were at most so long, for a few lengths.

    Examples
    --------
    >>> histogram = Histogram()
    >>> for seconds in (0.002, 0.004, 20.0):
    ...     histogram.observe(seconds)
    >>> [sample.line("wait_seconds") for sample in histogram.samples(experiment="checkout")][1:4]
    ['wait_seconds_bucket{experiment="checkout",le="0.0025"} 1',
     'wait_seconds_bucket{experiment="checkout",le="0.005"} 2',
     'wait_seconds_bucket{experiment="checkout",le="0.01"} 2']
    """

    def __init__(self) -> None:
        self._counts = [0] * (len(BUCKETS) + 1)  # the last one: longer than all
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        """Count one more."""
        self._counts[bisect_left(BUCKETS, seconds)] += 1
        self._sum += seconds

    def samples(self, **labels: str) -> Iterator[Sample]:
        """Its buckets, its sum and its count."""
        counts = list(accumulate(self._counts))
        for most, count in zip((*map(str, BUCKETS), "+Inf"), counts, strict=True):
            yield Sample(count, {**labels, "le": most}, "_bucket")
        yield Sample(round(self._sum, 6), labels, "_sum")
        yield Sample(counts[-1], labels, "_count")


class RequestCounts:
    """What is counted of requests. Memory does not grow with them: unknown routes and experiments have no rows.

    Examples
    --------
    >>> counts = RequestCounts()
    >>> counts.answered("POST", "/experiments/{experiment}/decisions", 200, 0.004, "checkout")
    >>> [sample.value for sample in counts.latencies("/experiments/{experiment}/decisions")][-2:]
    [0.004, 1]
    """

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._latencies: dict[str, defaultdict[str, Histogram]] = {  # by route and experiment
            route: defaultdict(Histogram) for route in (DECISIONS, OUTCOMES)
        }
        self.refusals: Counter[tuple[str, str]] = Counter()  # by reason and name of the key
        self._from_edges: Counter[tuple[str, str]] = Counter()  # decisions, by experiment and what became of them
        self.unchecked: Counter[str] = Counter()  # decisions of edges that were taken on trust, by experiment

    def answered(self, method: str, route: str, status: int, seconds: float, experiment: str | None) -> None:
        """A request was answered."""
        self._requests[method, route, status] += 1
        self._seconds[method, route] += seconds
        if route in self._latencies and status == 200 and experiment is not None:  # others need not be experiments
            self._latencies[route][experiment].observe(seconds)

    def requests(self) -> Iterator[Sample]:
        """How many requests, by method, route and status."""
        for (method, route, status), count in sorted(self._requests.items()):
            yield Sample(count, {"method": method, "route": route, "status": str(status)})

    def seconds(self) -> Iterator[Sample]:
        """How long they took together, by method and route."""
        for (method, route), seconds in sorted(self._seconds.items()):
            yield Sample(round(seconds, 6), {"method": method, "route": route})

    def refused(self) -> Iterator[Sample]:
        """How many requests were refused before they were looked at, by reason and key."""
        for (reason, key), count in sorted(self.refusals.items()):
            yield Sample(count, {"reason": reason, "key": key})

    def uploaded(self, experiment: str, upload: Upload) -> None:
        """Decisions came from an edge."""
        for result, count in (("taken", upload.taken), ("repeated", upload.repeated), ("refused", len(upload.refused))):
            self._from_edges[experiment, result] += count
        self.unchecked[experiment] += upload.unchecked

    def from_edges(self) -> Iterator[Sample]:
        """How many decisions edges have sent, by experiment and what became of them."""
        for (experiment, result), count in sorted(self._from_edges.items()):
            yield Sample(count, {"experiment": experiment, "result": result})

    def latencies(self, route: str) -> Iterator[Sample]:
        """How long the answers of a route took that had status 200, by experiment."""
        for experiment, histogram in sorted(self._latencies[route].items(), key=lambda item: item[0]):
            yield from histogram.samples(experiment=experiment)


class Metric(NamedTuple):
    """A metric of ``/metrics``, and where its values come from."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    samples: Callable[[Writer, RequestCounts], Iterable[Sample]]


def _by_experiment(values: Mapping[str, float]) -> Iterator[Sample]:
    for experiment, value in values.items():
        yield Sample(value, {"experiment": experiment})


# Every metric, in the order in which they are shown; docs/service.md explains them.
METRICS = (
    Metric("conebandit_events_total", "counter", lambda writer, _: [Sample(writer.events_written)]),
    Metric("conebandit_commits_total", "counter", lambda writer, _: [Sample(writer.turns)]),
    Metric("conebandit_waiting_requests", "gauge", lambda writer, _: [Sample(writer.waiting)]),
    Metric("conebandit_running_revisions", "gauge", lambda writer, _: [Sample(writer.revising)]),
    Metric("conebandit_clock_jumped_seconds", "gauge", lambda writer, _: [Sample(writer.clock_jumped)]),
    Metric("conebandit_clock_ahead_of_database_seconds", "gauge", lambda writer, _: [Sample(writer.clock_ahead)]),
    Metric("conebandit_log_ahead_seconds", "gauge", lambda writer, _: _by_experiment(writer.ahead)),
    Metric("conebandit_stopped_rules", "gauge", lambda writer, _: _by_experiment(writer.stopped)),
    Metric("conebandit_requests_total", "counter", lambda _, counts: counts.requests()),
    Metric("conebandit_request_seconds_total", "counter", lambda _, counts: counts.seconds()),
    Metric("conebandit_refused_requests_total", "counter", lambda _, counts: counts.refused()),
    Metric("conebandit_edge_decisions_total", "counter", lambda _, counts: counts.from_edges()),
    Metric("conebandit_edge_decisions_unchecked_total", "counter", lambda _, counts: _by_experiment(counts.unchecked)),
    Metric("conebandit_edge_decisions_put_aside_total", "counter", lambda writer, _: _by_experiment(writer.put_aside)),
    Metric("conebandit_decision_seconds", "histogram", lambda _, counts: counts.latencies(DECISIONS)),
    Metric("conebandit_outcome_seconds", "histogram", lambda _, counts: counts.latencies(OUTCOMES)),
)


def metrics_text(writer: Writer, counts: RequestCounts) -> str:
    """All metrics of this process, as Prometheus reads them."""
    lines = []
    for metric in METRICS:
        lines.append(f"# TYPE {metric.name} {metric.kind}")
        lines += [sample.line(metric.name) for sample in metric.samples(writer, counts)]
    return "\n".join(lines) + "\n"
