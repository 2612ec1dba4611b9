"""What happens in the demonstration, in words, as it happens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conebandit.service.client import Client
from conebandit.service.demo.world import EXPERIMENT

YOUNG = {"age": 35, "weight": 75, "stage": "early"}
OLD = {"age": 72, "weight": 75, "stage": "early"}


class Narrator:
    """Asks the service how it is, and tells what is new.

    Parameters
    ----------
    client
        Of the service.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._stopped: set[str] = set()
        self._alarm = False
        self._seen: dict[str, tuple[str, ...]] = {}  # fronts, by patient
        self._told: dict[str, tuple[str, ...]] = {}

    def news(self) -> Iterator[str]:
        """What has changed since the last time."""
        for rule in self._client.rules(EXPERIMENT)["rules"]:
            if rule["status"] == "stopped" and (name := rule["arm"] or "all doses") not in self._stopped:
                self._stopped.add(name)
                mean, known = rule["mean"], rule["known"]
                yield f"{name} is suspended by a safety rule: mean toxicity {mean:.2f} of {known:,} patients."
        alarm = self._client.shift(EXPERIMENT)["alarm"]
        if alarm is not None and not self._alarm:
            self._alarm = True
            moved = alarm["coordinate"] or " and ".join(alarm["pair"] or ())
            yield f"The population has changed: {moved}, since about patient {alarm['change_point']:,}."
        for who, context in (("of 35", YOUNG), ("of 72", OLD)):
            front, before = tuple(self.front(context)), self._seen.get(who)
            self._seen[who] = front
            if front and front == before and front != self._told.get(who):  # twice: not what is gone a moment later
                self._told[who] = front
                yield f"Front for a patient {who}: {', '.join(front)}."

    def front(self, context: dict[str, Any]) -> list[str]:
        """Names of the doses on the front."""
        return [arm["arm"] for arm in self._client.front(EXPERIMENT, context)["arms"]]
