"""Simulated trials from Python."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from conebandit.progress import Progress
from conebandit.studies.pool import Backend, Workers
from conebandit.studies.study import execute
from conebandit.studies.trials.declaration import TRIAL
from conebandit.studies.trials.results import TrialResults


def simulate_trials(
    trial: str | os.PathLike[str] | Mapping[str, Any],
    to: str | os.PathLike[str],
    *,
    backend: Backend = "loky",
    jobs: int = 0,
    address: str | None = None,
    progress: Progress = False,
) -> TrialResults:
    """Simulate trials, or what is left of them, and keep every finished one in a folder.

    Parameters
    ----------
    trial
        A trial file, or the same as a table; see ``docs/trials.md``.
    to
        The folder of results. It holds one file's trials: others are refused.
    backend, jobs, address, progress
        As for :func:`conebandit.run_study`.

    Examples
    --------
    >>> import tempfile
    >>> found = simulate_trials(
    ...     {"designs": ["uniform", "boin12"], "scenarios": ["umbrella"], "sizes": 30, "trials": 20},
    ...     tempfile.mkdtemp(),
    ...     backend="sequential",
    ... )
    >>> [(each.design, each.measure, each.trials) for each in found.characteristics(["patients"])]
    [('uniform', 'patients', 20), ('boin12', 'patients', 20)]
    """

    def caution(text: str) -> None:
        warnings.warn(text, stacklevel=3)

    source = trial if isinstance(trial, Mapping) else Path(trial)
    execute(source, Path(to), Workers(backend, jobs, address), progress=progress, caution=caution, kind=TRIAL)
    return TrialResults(Path(to))
