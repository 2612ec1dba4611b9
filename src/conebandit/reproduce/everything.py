"""All tables and figures of the paper, and a page that compares them with what it claims."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from conebandit._version import __version__
from conebandit.progress import Progress, steps
from conebandit.reproduce import exhibits, page
from conebandit.reproduce.change_points import study_sections
from conebandit.reproduce.study import QUICK, Setting, run_study

WITHOUT_RUNS: dict[str, Callable[[Path], page.Section]] = {
    "gap table": exhibits.table_section,
    "cone figure": exhibits.cone_section,
    "schematic": exhibits.schematic_section,
    "Hausdorff example": exhibits.hausdorff_section,
}


NAMES = {"K": "arms", "nu": "nus", "t_p": "change_points", "T": "horizon"}  # in the paper, and here
OPTIONS = {"--arms": "arms", "--nu": "nus", "--change-point": "change_points", "--horizon": "horizon"}


def reproduce_all(
    to: Path, *, quick: bool = False, setting: Setting | None = None, n_jobs: int = 2, progress: Progress = False
) -> Path:
    """Make everything; returns the page.

    Parameters
    ----------
    to
        Folder for figures (PNG and SVG), data (CSV) and the page.
    quick
        Few rounds and runs; then most of the time goes into compiling and drawing.
    setting
        Of the experiment, if it is to be another one, made by :func:`~conebandit.reproduce.study.changed`.
    n_jobs
        Number of processes for the runs.
    progress
        Whether to show a progress bar; or a function, called with a few words whenever something is done.
    """
    to.mkdir(parents=True, exist_ok=True)
    usual = QUICK if quick else Setting()
    setting = setting or usual
    exhibited: list[page.Section] = []

    with steps(progress, "compiling kernels", len(WITHOUT_RUNS) + len(setting.cells()) + 1) as step:

        def exhibit() -> None:
            for words, make in WITHOUT_RUNS.items():
                exhibited.append(make(to))
                step(words)

        result = run_study(setting, to / "runs", n_jobs=n_jobs, progress=step, meanwhile=exhibit)
        sections = [*exhibited, *study_sections(result, to, n_jobs=n_jobs)]
        step("figures")
    path = to / "index.html"
    title = "Vector preference-based contextual bandits under distributional shifts, reproduced"
    introduction = (
        "Every table and figure of the paper, made anew by one command, with what the paper claims and what was found. "
        + (_what_is_quick(setting) if quick else "")
        + (_what_is_other(setting, usual, quick=quick) if setting != usual else "")
    )
    options = "".join(f" {option}" for option in (["--quick"] if quick else []) + _as_options(setting, usual))
    footer = f"Made by conebandit {__version__}: conebandit reproduce{options}."
    path.write_text(page.render(title, introduction, sections, footer), encoding="utf-8")
    return path


def _what_is_quick(setting: Setting) -> str:
    """What the quick version has less of; a horizon that was asked for is that of the runs."""
    full = Setting()
    return (
        f"This is the quick version, with T = {setting.horizon:,} in place of {full.horizon:,}, {QUICK.runs} runs in "
        f"place of {full.runs}, {QUICK.pairs} pairs of runs in place of {full.pairs}, and {QUICK.default_runs} runs of "
        f"the default policy in place of {full.default_runs}: it shows little of what is learned, and decides less."
    )


def _what_is_other(setting: Setting, usual: Setting, *, quick: bool) -> str:
    """In what the experiment is not the usual one, in words; of the quick version the horizon was named before."""
    words = []
    for name, attribute in NAMES.items():
        if quick and attribute == "horizon":
            continue
        mine, theirs = getattr(setting, attribute), getattr(usual, attribute)
        if mine != theirs:
            words.append(f"{name} = {_listed(mine)} in place of {_listed(theirs)}")
    return f" Runs are made with {'; '.join(words)}." if words else ""


def _as_options(setting: Setting, usual: Setting) -> list[str]:
    """What was asked for on the command line."""
    found = []
    for option, attribute in OPTIONS.items():
        mine = getattr(setting, attribute)
        if mine != getattr(usual, attribute):
            found += [f"{option} {value:g}" for value in (mine if isinstance(mine, tuple) else (mine,))]
    return found


def _listed(values: tuple[float, ...] | int) -> str:
    return ", ".join(f"{value:,g}" for value in (values if isinstance(values, tuple) else (values,)))
