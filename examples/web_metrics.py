"""Web metrics with a frame: from a CSV file of past visits to a recommendation for each visitor, and to rules.

Run it with ``python examples/web_metrics.py``; it takes a few seconds. It needs polars, ``pip install
'conebandit[data]'``; with pandas or Arrow everything is the same, but for the line that reads the file.

Three versions of a page were shown at random. Revenue is to be high and latency low. Visitors on phones like the short
page; the others like the one with videos, which takes longer to load.
"""

import random
import tempfile
from pathlib import Path

import polars as pl

import conebandit as cb


def write_visits(path, n=900, seed=1):
    """A file such as a shop might have: text, numbers, yes and no, and holes."""
    luck = random.Random(seed)
    lines = ["page,device,country,age,member,revenue,latency"]
    for _ in range(n):
        page, device = luck.choice(["plain", "short", "video"]), luck.choice(["phone", "phone", "desk", "tablet"])
        age = luck.randint(18, 79)
        liked = {"plain": 1.0, "short": 2.2 * (device == "phone"), "video": 3.0 * (device != "phone")}[page]
        revenue = f"{10 * liked + luck.gauss(0, 5):.2f}" if luck.random() > 0.05 else ""
        latency = f"{luck.gauss(600 if page == 'video' else 300, 80):.0f}"
        known_age = "" if luck.random() < 0.1 else str(age)
        country, member = luck.choice(["AT", "CH", "DE"]), luck.choice(["true", "false"])
        lines.append(f"{page},{device},{country},{known_age},{member},{revenue},{latency}")
    path.write_text("\n".join(lines), encoding="utf-8")


def main():
    """Declare, learn, recommend, explain."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "visits.csv"
        write_visits(path)
        visits = pl.read_csv(path)

    experiment = cb.Experiment.from_frame(
        visits,
        id="shop",
        arm="page",
        metrics=[
            {"name": "revenue", "units": "EUR", "resolution": 1},
            {"name": "latency", "direction": "min", "units": "ms", "resolution": 30},
        ],
        context=["device", "country", "age", "member"],
        cone={"tradeoffs": ["one unit of revenue is worth at least 20 of latency"]},
    )
    print(experiment, end="\n\n")  # what was inferred; look at it before anything else

    learner = experiment.learn(visits)
    print(learner.recommend(visits.head(5)), end="\n\n")  # a polars frame again
    print(learner.explain({"device": "phone", "country": "AT", "age": 30, "member": True}), end="\n\n")
    print(learner.segments(max_leaves=4), end="\n\n")
    print(learner.how_many(power=0.9))


if __name__ == "__main__":
    main()
