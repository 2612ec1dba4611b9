"""Past traffic: from a raw CSV file to a recommendation for each visitor, to rules, and to what they are worth.

Run it with ``python examples/past_traffic.py``; it takes some seconds and writes two pictures. It needs polars
and matplotlib, ``pip install 'conebandit[data,plot]'``; with pandas or Arrow all is the same, but for the lines that
read the file and cut it in two.

A shop has shown three versions of a page at random, the plain one more often than the others. Revenue is to be high
and latency low. What the shop does not know: on phones most people like the short page, but not those above sixty;
elsewhere the page with videos sells best, and takes twice as long to load. We know it, and can say at the end how right
the answers were.
"""

import csv
import random
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

import conebandit as cb

SHOWN = {"plain": 0.5, "short": 0.25, "video": 0.25}  # with these probabilities
LATENCY = {"plain": 300.0, "short": 300.0, "video": 600.0}


def revenue_of(page, device, age):
    """Mean revenue: the truth, which only this script knows."""
    if device == "phone":
        return {"plain": 10.0, "short": 16.0 if age < 60 else 5.0, "video": 6.0}[page]
    return {"plain": 10.0, "short": 4.0, "video": 26.0}[page]


def write_visits(path, n=3000, seed=1):
    """A file such as a shop might have: text, numbers, yes and no, and holes. Also returns devices and ages."""
    luck = random.Random(seed)
    visitors = [(luck.choice(["phone", "phone", "desk", "tablet"]), luck.randint(18, 79)) for _ in range(n)]
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["page", "probability", "device", "country", "age", "member", "revenue", "latency"])
        for device, age in visitors:
            page = luck.choices(list(SHOWN), weights=SHOWN.values())[0]
            before = [device, luck.choice(["AT", "CH", "DE"]), "" if luck.random() < 0.1 else age]  # some do not say
            revenue = "" if luck.random() < 0.05 else round(luck.gauss(revenue_of(page, device, age), 5), 2)
            latency = round(luck.gauss(LATENCY[page], 80))
            writer.writerow([page, SHOWN[page], *before, luck.choice(["true", "false"]), revenue, latency])
    return visitors


def main():
    """Declare, learn, recommend, judge, and compare with the truth."""
    with tempfile.TemporaryDirectory() as folder:
        visitors = write_visits(Path(folder, "visits.csv"))
        visits = pl.read_csv(Path(folder, "visits.csv"))
    earlier, later = visits.head(1500), visits.tail(1500)  # nothing may be judged by what it has learned from

    # Say what the columns are. The rest is inferred: look at it before anything else.
    experiment = cb.Experiment.from_frame(
        earlier,
        id="shop",
        arm="page",
        propensity="probability",
        metrics=[
            {"name": "revenue", "units": "EUR", "resolution": 1},
            {"name": "latency", "direction": "min", "units": "ms", "resolution": 30},
        ],
        context=["device", "country", "age", "member"],
        cone={"tradeoffs": ["one unit of revenue is worth at least 10 of latency"]},
    )
    print(experiment, end="\n\n")

    # What to show to whom: for each visitor, for one in detail, and as rules.
    learner = experiment.learn(earlier)
    print(learner.recommend(later.head(5)).select("arm", "chance", "revenue", "latency", "front"), end="\n\n")
    print(learner.explain({"device": "phone", "country": "AT", "age": 30, "member": True}), end="\n\n")
    segments = learner.segments(max_leaves=5)
    segments.figure().savefig("past_traffic_segments.png")
    print(segments, end="\n\n")
    print(learner.how_many(power=0.9), end="\n\n")

    # What would that have brought? Later visits can say.
    devices = later["device"].to_list()
    pages = {
        "always plain": ["plain"] * len(later),
        "always video": ["video"] * len(later),
        "short on phones": ["short" if device == "phone" else "plain" for device in devices],
        "by device": ["short" if device == "phone" else "video" for device in devices],
        "as recommended": learner.recommend(later)["arm"].to_list(),
    }
    found = cb.evaluate(later, {"as it was": "logged", **pages}, experiment=experiment)
    print(found, end="\n\n")

    # How right is it? Means of the truth over these visitors, beside the regions.
    figure = found.figure()
    for name, shown in pages.items():
        true = np.mean(
            [(revenue_of(p, *who), LATENCY[p]) for p, who in zip(shown, visitors[1500:], strict=True)], axis=0
        )
        place = found.policies.index(name)
        held = (abs(true - found.values[place]) <= found.radii()[place]).all()
        print(f"{name}: in truth {true[0]:.1f} EUR and {true[1]:.0f} ms, {'in' if held else 'not in'} its region.")
        figure.axes[0].plot(*true, "k+", markersize=14)
    figure.savefig("past_traffic.png")
    print("Look at past_traffic_segments.png and at past_traffic.png, where a cross marks the truth.")


if __name__ == "__main__":
    main()
