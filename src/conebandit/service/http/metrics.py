"""How often and how fast requests are answered, in the text format of Prometheus (version 0.0.4)."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import accumulate

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds, at most
FORMAT = "text/plain; version=0.0.4; charset=utf-8"
LATENCIES = {
    ("POST", "/experiments/{experiment}/decisions"): "conebandit_decision_seconds",
    ("POST", "/experiments/{experiment}/outcomes"): "conebandit_outcome_seconds",
}


class Histogram:
    """How many durations were at most so long, for a few lengths.

    Examples
    --------
    >>> histogram = Histogram()
    >>> for seconds in (0.002, 0.004, 20.0):
    ...     histogram.observe(seconds)
    >>> list(histogram.lines("wait_seconds", experiment="checkout"))[1:4]
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

    def lines(self, name: str, **labels: str) -> Iterator[str]:
        """As text."""
        counts = list(accumulate(self._counts))
        for most, count in zip((*map(str, BUCKETS), "+Inf"), counts, strict=True):
            yield _sample(f"{name}_bucket", {**labels, "le": most}, count)
        yield _sample(f"{name}_sum", labels, round(self._sum, 6))
        yield _sample(f"{name}_count", labels, counts[-1])


class Metrics:
    """What is counted of requests. Memory does not grow with them: unknown routes and experiments have no rows.

    Examples
    --------
    >>> metrics = Metrics()
    >>> metrics.answered("POST", "/experiments/{experiment}/decisions", 200, 0.004, "checkout")
    >>> 'conebandit_decision_seconds_count{experiment="checkout"} 1' in metrics.text({})
    True
    """

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._latencies: defaultdict[tuple[str, str], Histogram] = defaultdict(Histogram)  # by metric and experiment

    def answered(self, method: str, route: str, status: int, seconds: float, experiment: str | None) -> None:
        """A request was answered."""
        self._requests[method, route, status] += 1
        self._seconds[method, route] += seconds
        name = LATENCIES.get((method, route))
        if name is not None and status == 200 and experiment is not None:  # others need not be experiments at all
            self._latencies[name, experiment].observe(seconds)

    def text(self, numbers: Mapping[tuple[str, str], int]) -> str:
        """Everything, beside other numbers by name and type."""
        lines: list[str] = []
        for (name, kind), value in numbers.items():
            lines += [f"# TYPE {name} {kind}", _sample(name, {}, value)]
        lines.append("# TYPE conebandit_requests_total counter")
        for (method, route, status), count in sorted(self._requests.items()):
            labels = {"method": method, "route": route, "status": str(status)}
            lines.append(_sample("conebandit_requests_total", labels, count))
        lines.append("# TYPE conebandit_request_seconds_total counter")
        for (method, route), seconds in sorted(self._seconds.items()):
            labels = {"method": method, "route": route}
            lines.append(_sample("conebandit_request_seconds_total", labels, round(seconds, 6)))
        for name in LATENCIES.values():
            lines.append(f"# TYPE {name} histogram")
            for (of, experiment), histogram in sorted(self._latencies.items(), key=lambda item: item[0]):
                if of == name:
                    lines += histogram.lines(name, experiment=experiment)
        return "\n".join(lines) + "\n"


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    """One line; ids, methods and routes hold nothing that would have to be escaped."""
    inside = ",".join(f'{label}="{text}"' for label, text in labels.items())
    return f"{name}{{{inside}}} {value}" if inside else f"{name} {value}"
