"""The metrics of a declaration: what is measured after a decision, and which way is better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from conebandit.experiment import entries
from conebandit.experiment.errors import InvalidError
from conebandit.geometry.directions import sounds_like_a_cost

MAX_METRICS = 16


@dataclass(frozen=True)
class Metric:
    """One outcome. The policy sees rewards, more is better: the value, or for a cost ``worst - value``, at least 0."""

    name: str
    direction: Literal["max", "min"] = "max"
    worst: float | None = None  # for "min": the value that counts as reward 0; larger ones count the same
    window: float | None = None  # seconds after the decision during which values count; None: without end
    default: float | None = None  # counts when the window closes without a value; None: the value stays unknown

    def reward(self, value: float) -> float:
        """What the policy is told."""
        return value if self.worst is None else max(self.worst - value, 0.0)


def read_metrics(given: Any) -> tuple[Metric, ...]:
    """One or more metrics with different names."""
    if not isinstance(given, list) or not 1 <= len(given) <= MAX_METRICS:
        raise InvalidError(f"metrics must be a list of 1 to {MAX_METRICS} tables; got {entries.short(given)}.")
    metrics = tuple(_metric(m, f"metrics[{i}]") for i, m in enumerate(given))
    entries.names([m.name for m in metrics], "metrics", most=MAX_METRICS)
    return metrics


def _metric(given: Any, where: str) -> Metric:
    table = entries.table(given, where)
    entries.only(table, ("name", "direction", "worst", "window", "default"), where)
    name = entries.names([table.get("name")], f"{where}.name", most=1)[0]
    direction = entries.one_of(table.get("direction", "max"), ("max", "min"), f"{where}.direction")
    worst = table.get("worst")
    if (direction == "min") != (worst is not None):
        raise InvalidError(
            f"{where}: direction 'min' needs 'worst', the value that counts as reward 0; 'max' has none. "
            f"Got direction {direction!r} and worst {entries.short(worst)}."
        )
    window, default = table.get("window"), table.get("default")
    if default is not None and window is None:
        raise InvalidError(f"{where}: a default counts when the window closes, so it needs a 'window'.")
    return Metric(
        name=name,
        direction=direction,
        worst=None if worst is None else entries.number(worst, f"{where}.worst"),
        window=None if window is None else entries.seconds(window, f"{where}.window"),
        default=None if default is None else entries.number(default, f"{where}.default"),
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
