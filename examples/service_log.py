"""The service and its log: serve decisions, report outcomes, and judge other policies by what was logged.

Run it with ``python examples/service_log.py``; it takes some seconds and writes ``service_log.png``. It needs the
service and matplotlib, ``pip install 'conebandit[service,plot]'``.

A shop asks a service which page to show. The outcomes come back later, some of them never. In front of the service
stands a shop that is simulated here; all else is as it would be with real visitors. In production the service is a
process of its own, ``conebandit serve``, and the log is exported with ``conebandit experiment export``.
"""

import random
import tempfile
from pathlib import Path

import conebandit as cb
from conebandit.service.http.server import serving  # the service, from a thread, as long as a block runs

DECLARATION = """
id = "checkout"
arms = ["plain", "short", "video"]
baseline = "plain"
seed = 7
policy = { explore = 0.15 }          # so that the log can judge any policy: see below what happens without
cone = { tradeoffs = ["one unit of revenue is worth at least 10 of latency"] }

[[metrics]]
name = "revenue"
units = "EUR"
resolution = 1

[[metrics]]
name = "latency"
direction = "min"
worst = 1000
units = "ms"
resolution = 30

[[context]]
name = "device"
levels = ["phone", "desk"]

[[context]]
name = "age"
low = 18
high = 80
missing = 45                         # not everybody says
"""


def visitor(luck):
    """Somebody comes."""
    return {"device": luck.choice(["phone", "desk"]), "age": luck.choice([None, luck.randint(18, 80)])}


def outcome(luck, who, page):
    """What came of it: on phones the short page sells best, elsewhere the one with videos, which loads slowly."""
    mean = (
        {"plain": 10, "short": 16, "video": 6} if who["device"] == "phone" else {"plain": 10, "short": 4, "video": 24}
    )
    latency = luck.gauss(600 if page == "video" else 300, 80)
    return {"latency": latency} if luck.random() < 0.1 else {"latency": latency, "revenue": luck.gauss(mean[page], 5)}


def run_shop(client, experiment, n_batches=20, size=50, seed=1):
    """Visitors come in batches; their outcomes are reported when the next batch has been served."""
    luck, waiting = random.Random(seed), {}
    for _ in range(n_batches):
        people = [visitor(luck) for _ in range(size)]
        made = client.decide_many(experiment, people)
        client.report_many(experiment, waiting)
        waiting = {each.id: outcome(luck, who, each.arm) for each, who in zip(made, people, strict=True)}
    client.report_many(experiment, waiting)


def main():
    """Serve, export, judge."""
    experiment = cb.Experiment.from_toml(DECLARATION)
    greedy = cb.Experiment.from_dict({**experiment.declaration, "id": "greedy", "policy": {}})  # the same, no floor
    with tempfile.TemporaryDirectory() as folder:
        with serving(str(Path(folder, "log.db"))) as address, cb.Client(address) as client:
            for each in (experiment, greedy):
                client.create(each.declaration)
                run_shop(client, each.id)
                Path(folder, f"{each.id}.csv").write_bytes(client.export(each.id, "csv"))
            for device in ("phone", "desk"):
                front = client.front("checkout", {"device": device, "age": 30})
                print(f"{device}: on the front are {', '.join(arm['arm'] for arm in front['arms'])}.")
        log = cb.Log.from_table(Path(folder, "checkout.csv"), experiment)
        floorless = cb.Log.from_table(Path(folder, "greedy.csv"), greedy)

    # A policy that learned made this log, so intervals are made for that.
    print(log, end="\n\n")
    policies = {
        "as it was": "logged",
        "always plain": "plain",
        "always video": "video",
        "by device": ["short" if is_phone else "video" for is_phone in log.contexts[:, 0]],
    }
    found = cb.evaluate(log, policies)
    print(found, end="\n\n")
    better = found.difference("by device", "as it was")
    print(f"By device instead of as it was: {better.values[0]:+.1f} ± {better.radii[0]:.1f} EUR.", end="\n\n")
    found.figure().savefig("service_log.png")
    print("Look at service_log.png", end="\n\n")

    # Without a floor, the policy soon stopped showing pages that it thought worse, so its log cannot judge them.
    try:
        cb.evaluate(floorless, ["video"])
    except ValueError as error:
        print(f"Without a floor: {error}")


if __name__ == "__main__":
    main()
