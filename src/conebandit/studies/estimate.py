"""How many runs a study has, and how long those that are left will take, by those that are finished."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from conebandit.studies.folder import Folder
from conebandit.studies.plan import Kind, Plan
from conebandit.studies.runs import STUDY


def estimate(plan: Plan[Any], path: Path, kind: Kind = STUDY) -> list[str]:
    """What a study would run and what is finished, in words.

    Examples
    --------
    >>> from conebandit.studies.declaration import read_plan
    >>> plan = read_plan({"policies": ["random"], "environments": ["paper"], "horizon": 9000, "seeds": 5})
    >>> estimate(plan, Path("not-yet-there"))
    ['1 policies x 1 environments x 5 seeds: 5 runs, 45,000 rounds.', 'None is finished in not-yet-there.']
    """
    sizes = (len(plan.policies), len(plan.scenes), len(plan.seeds))
    rounds = sum(scene.horizon for scene in plan.scenes) * len(plan.policies) * len(plan.seeds)
    policies, environments, seeds, runs, each = kind.words
    combined = f"{sizes[0]} {policies} x {sizes[1]} {environments} x {sizes[2]} {seeds}"
    first = f"{combined}: {len(plan):,} {runs}, {rounds:,} {each}."
    folder = Folder(path, kind)
    frame = None
    if folder.begun:
        folder.refuse_another(folder.about(), plan)
        plan = folder.as_begun(plan)
        frame = folder.parts.read(["run", "policy", "environment", "seconds"])
    if frame is None:
        return [first, f"None is finished in {path}."]
    times: dict[tuple[str, str], list[float]] = {}
    for policy, place, seconds in frame.select("policy", "environment", "seconds").rows():
        times.setdefault((policy, place), []).append(seconds)
    typical = {cell: float(np.median(each)) for cell, each in times.items()}  # a first run also compiles
    others = float(np.median(list(typical.values())))
    left = 0.0
    for scene in plan.scenes:
        for entry in plan.policies:
            cell = (entry.label, scene.label)
            left += (len(plan.seeds) - len(times.get(cell, ()))) * typical.get(cell, others)
    unseen = len(plan.policies) * len(plan.scenes) - len(times)
    guess = f" ({unseen} combinations without a run are taken to be as long as others)" if unseen else ""
    finished = "1 is" if frame.height == 1 else f"{frame.height:,} are"
    return [
        first,
        f"{finished} finished in {path}; the others take about {in_time(left)} on one process{guess}.",
    ]


def in_time(seconds: float) -> str:
    """A length of time in words.

    Examples
    --------
    >>> in_time(30), in_time(600), in_time(90_000)
    ('30 s', '10 min', '25.0 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
