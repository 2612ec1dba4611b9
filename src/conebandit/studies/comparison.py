"""Two studies side by side: what the second found minus what the first did, seed by seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from conebandit.experiment.entries import short
from conebandit.regret import RESOLVED
from conebandit.studies.folder import in_words
from conebandit.studies.paired import BySeed, Paired, paired
from conebandit.studies.results import Results


class Comparison(NamedTuple):
    """Differences between two studies, and what has to be said about them."""

    differences: list[Paired]
    words: list[str]


def compare(first: Results, second: Results, series: Sequence[str]) -> Comparison:
    """Policies and environments that both studies have, the second minus the first, over the seeds that both have.

    A policy is known by its label; an environment must be the same in every setting, and of the same length.

    Raises
    ------
    ValueError
        If they have nothing in common, or no finished run.
    """
    places = [s.label for s in second.plan.scenes if s.label in first.environments and first.scene(s.label) == s]
    policies = [policy for policy in second.policies if policy in first.policies]
    cells, series = [(place, policy) for place in places for policy in policies], tuple(dict.fromkeys(series))
    if not cells:
        raise ValueError(
            f"there is nothing to compare: {first.path} and {second.path} have no policy of the same label in the same "
            "environment."
        )
    found: list[Paired] = []
    values: list[tuple[float, float]] = []
    for name in series:
        before, after = first.cells(name), second.cells(name)
        found += paired(after, before, [(cell, cell) for cell in cells], name, at_once=len(cells) * len(series))
        values += [pair for cell in cells for pair in _both(before.get(cell, {}), after.get(cell, {}))]
    if not found:
        raise ValueError(_no_run(first, second))
    every = (*first.policies, *second.policies, *first.environments, *second.environments)
    alone = [label for label in dict.fromkeys(every) if label not in policies and label not in places]
    return Comparison(found, [*_words(first, second, values, alone), *_resolutions(first, second, series)])


def _no_run(first: Results, second: Results) -> str:
    """Why two studies with the same policies and environments have no run in common, and what to do."""
    problem = f"there is nothing to compare: {first.path} and {second.path} have no run in common"
    before, after = first.plan.seeds, second.plan.seeds
    if set(before) & set(after):
        return f"{problem} that is finished. Run what is left of them, then compare."
    seeds = f"the first has seeds {short(list(before))}, the second {short(list(after))}"
    return f"{problem}: {seeds}. Run one of them, in another folder, with seeds of the other."


def _words(first: Results, second: Results, values: Sequence[tuple[float, float]], alone: Sequence[str]) -> list[str]:
    """How much of two studies is the same, and what makes them differ besides."""
    same = sum(a == b for a, b in values)
    words = [f"{second.path} minus {first.path}. {same:,} of {len(values):,} pairs of values are the same bit for bit."]
    if alone:
        words.append(f"Left out, since the studies do not both have the same: {', '.join(alone)}.")
    if first.about["versions"] != second.about["versions"]:
        begun = [in_words(study.about["versions"]) for study in (first, second)]
        words.append(
            f"The first was begun with {begun[0]}, the second with {begun[1]}: one run may come out differently."
        )
    before, after = first.about["modules"], second.about["modules"]
    if changed := [name for name in before if after.get(name, before[name]) != before[name]]:
        words.append(f"Modules of your own are not the same in both: {', '.join(changed)}.")
    if first.about["data"] != second.about["data"]:
        words.append("Their files of data differ, so environments of the same label may not be the same.")
    return words


def _resolutions(first: Results, second: Results, series: Sequence[str]) -> list[str]:
    """What has to be said if the two were measured with different resolutions, and series depend on that."""
    before, after = (study.plan.recipe.resolution for study in (first, second))
    concerned = [name for name in series if name in RESOLVED]
    if before == after or not concerned:
        return []
    return [
        f"The first has resolution {before}, the second {after}. These series are then not measured alike, and may "
        f"differ for that alone: {', '.join(concerned)}."
    ]


def _both(before: BySeed, after: BySeed) -> list[tuple[float, float]]:
    return [(before[seed], after[seed]) for seed in before if seed in after]
