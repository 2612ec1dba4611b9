"""The metrics of a declaration: what is measured after a decision, and which way is better."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from conebandit.experiment import entries
from conebandit.experiment.errors import InvalidError
from conebandit.geometry.directions import sounds_like_a_cost

MAX_METRICS = 16
MAX_UNITS = 32  # characters
NEEDED = {  # entries that mean nothing without another one
    "default": ("window", "a default counts when the window closes"),
    "upload": ("window", "values may be uploaded after the window closes"),
    "outside": ("range", "'outside' says what becomes of values outside of the range"),
}


@dataclass(frozen=True)
class Metric:
    """One outcome. The policy sees rewards, more is better: the value, or for a cost ``worst - value``, at least 0.

    Attributes
    ----------
    name
        Its name.
    direction
        Whether more is better (``"max"``) or less (``"min"``).
    worst
        For ``"min"``: the value that counts as reward 0; larger ones count the same.
    window
        Seconds after the decision during which values count; None: without end.
    default
        What counts when the window closes without a value; None: the value stays unknown.
    units
        What it is measured in, to be shown.
    resolution
        The smallest difference that matters, in these units.
    range
        Lowest and highest value that can be.
    outside
        What becomes of values outside of it: ``"refuse"`` them, ``"clip"`` them to the nearest that can be, or
        ``"hold"`` them until somebody has looked at them (in the service only).
    upload
        Seconds after the window during which values that were observed within it may still arrive.

    Examples
    --------
    >>> latency = Metric("latency", direction="min", worst=2000.0, units="ms")
    >>> latency.reward(300.0), latency.value(1700.0)
    (1700.0, 300.0)
    """

    name: str
    direction: Literal["max", "min"] = "max"
    worst: float | None = None
    window: float | None = None
    default: float | None = None
    units: str | None = None
    resolution: float = 0.0
    range: tuple[float, float] | None = None
    outside: Literal["refuse", "clip", "hold"] = "refuse"
    upload: float = 0.0

    def reward(self, value: float) -> float:
        """What the policy is told."""
        return value if self.worst is None else max(self.worst - value, 0.0)

    def value(self, reward: float) -> float:
        """What a reward means, in the units of the metric."""
        return reward if self.worst is None else self.worst - reward

    def check(self, value: Any) -> float:
        """A value that was measured, as what counts; an ``InvalidError`` if it cannot be one."""
        number = self.check_reported(value)
        if self.must_be_held(number):
            raise self._refusal(number)
        return self.counted(number)

    def check_reported(self, value: Any) -> float:
        """A value as it was reported, also one that is to be clipped or held."""
        number = entries.number(value, f"values: {self.name!r}")
        if self.outside == "refuse" and self._is_outside(number):
            raise self._refusal(number)
        return number

    def must_be_held(self, value: float) -> bool:
        """Whether somebody must look at a value before it counts."""
        return self.outside == "hold" and self._is_outside(value)

    def counted(self, value: float) -> float:
        """What counts of a value that was reported.

        Examples
        --------
        >>> latency = Metric("latency", range=(0.0, 2000.0), outside="clip")
        >>> latency.counted(300.0), latency.counted(9999.0)
        (300.0, 2000.0)
        """
        if self.outside != "clip" or self.range is None:
            return value
        return min(max(value, self.range[0]), self.range[1])

    def _is_outside(self, value: float) -> bool:
        return self.range is not None and not self.range[0] <= value <= self.range[1]

    def _refusal(self, value: float) -> InvalidError:
        low, high = self.range or (-math.inf, math.inf)
        return InvalidError(
            f"values: {self.name!r} must lie in its range, {low:g} to {high:g}; got {value!r}. "
            "Is it in other units? If such values can be, declare a wider range."
        )


def read_metrics(given: Any) -> tuple[Metric, ...]:
    """One or more metrics with different names."""
    if not isinstance(given, list) or not 1 <= len(given) <= MAX_METRICS:
        raise InvalidError(f"metrics must be a list of 1 to {MAX_METRICS} tables; got {entries.short(given)}.")
    metrics = tuple(_metric(m, f"metrics[{i}]") for i, m in enumerate(given))
    entries.names([m.name for m in metrics], "metrics", most=MAX_METRICS)
    return metrics


def _metric(given: Any, where: str) -> Metric:
    table = entries.table(given, where)
    known = ("name", "direction", "worst", "window", "default", "units", "resolution", "range", "outside", "upload")
    entries.only(table, known, where)
    name = entries.names([table.get("name")], f"{where}.name", most=1)[0]
    direction = entries.one_of(table.get("direction", "max"), ("max", "min"), f"{where}.direction")
    range_ = _range(table.get("range"), f"{where}.range")
    worst = table.get("worst")
    if worst is None and direction == "min" and range_ is not None:
        worst = range_[1]
    if (direction == "min") != (worst is not None):
        raise InvalidError(
            f"{where}: direction 'min' needs 'worst', the value that counts as reward 0, or a 'range'; 'max' has none. "
            f"Got direction {direction!r} and worst {entries.short(worst)}."
        )
    for entry, (needed, why) in NEEDED.items():
        if table.get(entry) is not None and table.get(needed) is None:
            raise InvalidError(f"{where}: {why}, so it needs a {needed!r}.")
    window, default, upload = table.get("window"), table.get("default"), table.get("upload")
    resolution = entries.number(table.get("resolution", 0.0), f"{where}.resolution")
    if resolution < 0.0:
        raise InvalidError(
            f"{where}.resolution must be at least 0, the smallest difference that matters; got {resolution!r}."
        )
    return Metric(
        name=name,
        direction=direction,
        worst=None if worst is None else entries.number(worst, f"{where}.worst"),
        window=None if window is None else entries.seconds(window, f"{where}.window"),
        default=None if default is None else entries.number(default, f"{where}.default"),
        units=None if table.get("units") is None else entries.text(table["units"], f"{where}.units", most=MAX_UNITS),
        resolution=resolution,
        range=range_,
        outside=entries.one_of(table.get("outside") or "refuse", ("refuse", "clip", "hold"), f"{where}.outside"),
        upload=0.0 if upload is None else entries.seconds(upload, f"{where}.upload"),
    )


def warnings_about(given: Any) -> tuple[str, ...]:
    """What is allowed but may be a mistake, about metrics that have been read: costs that count as gains.

    Examples
    --------
    >>> warnings_about([{"name": "efficacy"}, {"name": "toxicity", "direction": "min", "worst": 1}])
    ()
    >>> warnings_about([{"name": "toxicity"}])[0][:66]
    "metrics: more 'toxicity' counts as better, though the name sounds "
    """
    names = [m["name"] for m in given if "direction" not in m and sounds_like_a_cost(m["name"])]
    return tuple(
        f"metrics: more {name!r} counts as better, though the name sounds like a cost. Declare direction = 'min' with "
        "its 'worst' value if less is better, or direction = 'max' if more is."
        for name in names
    )


def warnings_about_ranges(metrics: tuple[Metric, ...]) -> tuple[str, ...]:
    """What is allowed, since it always was, but is a mistake: values that can never be.

    Examples
    --------
    >>> warnings_about_ranges((Metric("pain", "min", worst=100.0, range=(0.0, 10.0)),))
    ("metrics: worst 100 of 'pain' lies outside its range, 0 to 10. Is it in other units?",)
    """
    return tuple(
        f"metrics: {name} {value:g} of {metric.name!r} lies outside its range, {metric.range[0]:g} to "
        f"{metric.range[1]:g}. Is it in other units?"
        for metric in metrics
        for name, value in (("worst", metric.worst), ("default", metric.default))
        if metric.range is not None and value is not None and not metric.range[0] <= value <= metric.range[1]
    )


def _range(given: Any, where: str) -> tuple[float, float] | None:
    if given is None:
        return None
    if not isinstance(given, list) or len(given) != 2:
        raise InvalidError(
            f"{where} must be a list of two numbers, the lowest and the highest; got {entries.short(given)}."
        )
    low, high = (entries.number(end, where) for end in given)
    if not low < high:
        raise InvalidError(f"{where}: the lowest must be below the highest; got {low:g} and {high:g}.")
    return low, high
