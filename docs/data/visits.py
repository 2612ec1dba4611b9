"""Write ``visits.csv`` beside this file: simulated visits of a shop that shows one of three pages at random.

python docs/data/visits.py

On phones most people like the short page, but not those above sixty; elsewhere the page with videos sells best, and
takes twice as long to load. Some visitors do not say how old they are, and some payments are not known.
"""

from __future__ import annotations

import csv
import random
from pathlib import Path

SHOWN = {"plain": 0.5, "short": 0.25, "video": 0.25}  # with these probabilities
LATENCY = {"plain": 300.0, "short": 300.0, "video": 600.0}
N_VISITS = 2000


def mean_revenue(page: str, device: str, age: int) -> float:
    """The truth."""
    if device == "phone":
        return {"plain": 10.0, "short": 16.0 if age < 60 else 5.0, "video": 6.0}[page]
    return {"plain": 10.0, "short": 4.0, "video": 26.0}[page]


def main() -> None:
    """Write the file."""
    luck = random.Random(1)
    with (Path(__file__).parent / "visits.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["page", "probability", "device", "country", "age", "member", "revenue", "latency"])
        for _ in range(N_VISITS):
            device, age = luck.choice(["phone", "phone", "desk", "tablet"]), luck.randint(18, 79)
            page = luck.choices(list(SHOWN), weights=list(SHOWN.values()))[0]
            country, member = luck.choice(["AT", "CH", "DE"]), luck.choice(["true", "false"])
            revenue = "" if luck.random() < 0.05 else round(luck.gauss(mean_revenue(page, device, age), 5), 2)
            known_age = "" if luck.random() < 0.1 else age
            latency = round(luck.gauss(LATENCY[page], 80))
            writer.writerow([page, SHOWN[page], device, country, known_age, member, revenue, latency])


if __name__ == "__main__":
    main()
