"""One log in many files, learned by several workers at once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from conebandit.formats.files import find_parquet, parquet_rows
from conebandit.formats.rows import LogColumns, LogRows, columns_of_files, read_file
from conebandit.policies.logs import Learning, LogPolicy, learned_from, needs_a_start
from conebandit.studies.pool import Backend, Workers, as_finished

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

START_ROWS = 2**13  # after so many it is seen whether a policy can go on in shards


class Shard(NamedTuple):
    """What one worker learns from: a file, from row ``first`` on, beginning as a copy of ``start``."""

    start: LogPolicy
    file: Path
    first: int
    columns: LogColumns


def learn_shards(
    policy: Learning,
    files: Paths,
    *,
    contexts: Sequence[str] | None = None,
    arm: str = "arm",
    rewards: Sequence[str] | None = None,
    backend: Backend = "loky",
    jobs: int = 0,
    address: str | None = None,
) -> Learning:
    """Learn from Parquet files on several workers, one file each at a time, and merge what they have learned.

    Each file is learned by a copy of the policy, and copies are merged in the order of the files, so the result depends
    on the files alone: not on the backend, nor on the number of workers. What it has in common with learning all rows
    in one place is said where merging is, in ``docs/large-logs.md``. A policy that has to learn before copies of it can
    go on apart (:class:`ConeKernel`, up to its last fit at about 100,000 rows, later if values of a metric come late)
    learns the first rows here.

    Parameters
    ----------
    policy
        It stays as it is.
    files
        Parquet files, as for the method ``learn`` of policies: the shards. Workers must be able to read them.
    contexts, arm, rewards
        Names of columns, as for ``learn``.
    backend, jobs, address
        Where shards are learned, as for :func:`run_study`.

    Returns
    -------
    A policy that has learned what the given one had, and all files.

    Raises
    ------
    ValueError, TypeError
        As ``learn`` does; or if policies of this kind cannot be merged.

    Examples
    --------
    >>> import tempfile, pathlib, numpy as np, polars as pl, conebandit as cb
    >>> folder, rng = pathlib.Path(tempfile.mkdtemp()), np.random.default_rng(0)
    >>> for region in ("north", "south"):
    ...     log = {"context.age": rng.random(500), "arm": rng.integers(0, 2, 500), "metric.sales": rng.random(500)}
    ...     pl.DataFrame(log).write_parquet(folder / f"{region}.parquet")
    >>> policy = cb.ConeTree(n_arms=2, cone=cb.Cone.orthant(1), context_dim=1)
    >>> cb.learn_shards(policy, folder, backend="sequential").n_observations
    1000
    """
    workers = Workers(backend, jobs, address)
    if not isinstance(policy, LogPolicy):
        raise TypeError(f"policy must be one that learns from logs, by its method learn; got {policy!r}.")
    policy.clone().merge(policy.clone())  # a TypeError if that is not possible, before anything is learned
    found = find_parquet(files)
    columns = columns_of_files(found, LogColumns(contexts, arm, rewards, policy.context_dim, policy.n_objectives))
    start, shards = _started(policy, found, columns)
    finished: dict[int, Any] = dict(as_finished(_learn, shards, workers))
    learned: list[Learning] = [finished[number] for number in range(len(shards))]
    return _merged(start, learned)


def _started(policy: Learning, files: Sequence[Path], columns: LogColumns) -> tuple[Learning, list[Shard]]:
    """The policy that shards begin with, and the shards: all rows that it has not learned from itself."""
    start, firsts = policy.copy(), dict.fromkeys(files, 0)
    for file, piece in _pieces(files, columns) if needs_a_start(start) else ():
        if not needs_a_start(start):
            break
        start = learned_from(start, [piece])
        firsts[file] = piece.first + len(piece.arms)
    left = [file for file in files if firsts[file] < parquet_rows(file)]
    return start, [Shard(start, file, firsts[file], columns) for file in left]


def _pieces(files: Sequence[Path], columns: LogColumns) -> Iterator[tuple[Path, LogRows]]:
    return ((file, piece) for file in files for rows in read_file(file, columns) for piece in rows.pieces(START_ROWS))


def _learn(shard: Shard) -> LogPolicy:
    return learned_from(shard.start, read_file(shard.file, shard.columns, shard.first))


def _merged(start: Learning, learned: list[Learning]) -> Learning:
    """All of them together: neighbours are merged, and those that come of it, so that little is copied."""
    while len(learned) > 1:
        pairs = [learned[i : i + 2] for i in range(0, len(learned), 2)]
        learned = [pair[0] if len(pair) == 1 else pair[0].merge(pair[1], since=start) for pair in pairs]
    return learned[0] if learned else start
