"""The metrics of a declaration: what is measured after a decision, and which way is better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from conebandit.experiment import entries
from conebandit.experiment.errors import InvalidError
from conebandit.geometry.directions import sounds_like_a_cost

MAX_METRICS = 16
MAX_UNITS = 32  # characters


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
        Lowest and highest value that can be; others are refused.

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

    def reward(self, value: float) -> float:
        """What the policy is told."""
        return value if self.worst is None else max(self.worst - value, 0.0)

    def value(self, reward: float) -> float:
        """What a reward means, in the units of the metric."""
        return reward if self.worst is None else self.worst - reward

    def check(self, value: Any) -> float:
        """A value that was measured; an ``InvalidError`` if it cannot be one."""
        number = entries.number(value, f"values: {self.name!r}")
        if self.range is not None and not self.range[0] <= number <= self.range[1]:
            raise InvalidError(
                f"values: {self.name!r} must lie in its range, {self.range[0]:g} to {self.range[1]:g}; got {number!r}. "
                "Is it in other units? If such values can be, declare a wider range."
            )
        return number


def read_metrics(given: Any) -> tuple[Metric, ...]:
    """One or more metrics with different names."""
    if not isinstance(given, list) or not 1 <= len(given) <= MAX_METRICS:
        raise InvalidError(f"metrics must be a list of 1 to {MAX_METRICS} tables; got {entries.short(given)}.")
    metrics = tuple(_metric(m, f"metrics[{i}]") for i, m in enumerate(given))
    entries.names([m.name for m in metrics], "metrics", most=MAX_METRICS)
    return metrics


def _metric(given: Any, where: str) -> Metric:
    table = entries.table(given, where)
    known = ("name", "direction", "worst", "window", "default", "units", "resolution", "range")
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
    window, default = table.get("window"), table.get("default")
    if default is not None and window is None:
        raise InvalidError(f"{where}: a default counts when the window closes, so it needs a 'window'.")
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
