"""Reading a saved policy back, whichever it is."""

from __future__ import annotations

import os
from typing import Any

from conebandit.policies.compiled import CompiledPolicy
from conebandit.policies.registry import ALIASES, find_policy, policy_names
from conebandit.validate import storage


def load_policy(path: str | os.PathLike[str]) -> CompiledPolicy:
    """Read a policy that was written by its ``save`` method; bit for bit what was saved.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    Policy

    Raises
    ------
    ValueError
        (A ``PolicyFileError``.) If the file is not a saved policy, is damaged, or comes from a newer version.

    Examples
    --------
    >>> import tempfile, pathlib, conebandit as cb
    >>> policy = cb.ConeTree(n_arms=2, cone=cb.Cone.orthant(2), context_dim=1)
    >>> policy.observe([0.2], 0, [1.0, 0.5])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     policy.save(pathlib.Path(folder) / "policy.npz")
    ...     again = cb.load_policy(pathlib.Path(folder) / "policy.npz")
    >>> again.n_observations
    1
    """
    kind, options, arrays = storage.read(path)
    return restored(path, kind, options, arrays)


def restored(
    path: str | os.PathLike[str], kind: str, options: dict[str, Any], arrays: storage.Arrays
) -> CompiledPolicy:
    """The policy that a file holds, from its parts."""
    try:
        policy = find_policy(ALIASES.get(kind, kind))
    except KeyError:
        if kind == storage.LEARNER:
            problem = f"{os.fspath(path)!r} holds a Learner, not a policy: read it with conebandit.Learner.load."
            raise storage.PolicyFileError(problem) from None
        known = sorted((*ALIASES, *policy_names()))
        raise storage.PolicyFileError(
            f"{os.fspath(path)!r} holds a policy of kind {kind!r}; this version knows {known}."
        ) from None
    try:
        return policy._restore(kind, options, arrays)
    except (KeyError, TypeError, ValueError, IndexError, OverflowError, MemoryError) as error:
        raise storage.PolicyFileError(f"{os.fspath(path)!r} is damaged: {error}.") from None
