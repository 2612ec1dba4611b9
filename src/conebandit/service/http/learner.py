"""A learner, served from this process while a block runs; what :meth:`Learner.serve` does."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conebandit.experiment.learner import Learner
from conebandit.service.client import Client
from conebandit.service.http.server import serving
from conebandit.service.past import deploy


@contextmanager
def serving_learner(learner: Learner, store: str | os.PathLike[str] | None, port: int) -> Iterator[Client]:
    """Begin the experiment in a store, a temporary one by default, and serve it on this machine."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        where = str(Path(folder, "log.db")) if store is None else os.fspath(store)
        deploy(learner, where)
        with serving(where, port=port) as address, Client(address) as client:
            yield client
