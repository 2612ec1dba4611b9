"""Beginning an experiment from past data: of a file, or of a learner."""

from __future__ import annotations

from contextlib import closing
from hashlib import file_digest
from pathlib import Path

from conebandit.experiment.declaration import Experiment
from conebandit.experiment.errors import InvalidError
from conebandit.experiment.frames import Frame
from conebandit.experiment.learner import Learner
from conebandit.experiment.rows import read_rows
from conebandit.service.engine.clock import plausible_now
from conebandit.service.engine.experiments import new_state
from conebandit.service.engine.ledger import Ledger
from conebandit.service.engine.turn import Turn
from conebandit.service.log.entries import By, as_actor
from conebandit.service.log.past import Past
from conebandit.service.log.replay import read_to_head
from conebandit.service.stores.base import Store, open_store


def read_past(experiment: Experiment, path: Path) -> Past:
    """The rows of a CSV or Parquet file, checked as :meth:`Experiment.learn` does; rows are counted from 0."""
    frame = Frame(path)
    with path.open("rb") as file:
        check = file_digest(file, "sha256").hexdigest()
    try:
        return Past(path.name, check, read_rows(experiment, frame))
    except InvalidError as error:
        raise InvalidError(f"{path.name}: {error}") from None


def deploy(learner: Learner, store: str = "conebandit.db", *, actor: str = "cb.deploy") -> str:
    """Begin the experiment of a learner in a store of the service, from what it has learned.

    Then ``conebandit serve`` decides and goes on learning. All rows that the learner knows are one event of the log.

    Parameters
    ----------
    learner
        What is to be served.
    store
        A path (SQLite) or an address ``postgresql://...``; made if it is missing.
    actor
        Who does it, for the log: 1 to 128 printable characters.

    Returns
    -------
    str
        The id of the experiment. The same learner again is a no-op.

    Examples
    --------
    >>> import tempfile, conebandit as cb
    >>> log = {"page": ["old", "new"] * 50, "revenue": [1.0, 2.0] * 50}
    >>> learner = cb.Experiment.from_frame(log, id="shop", arm="page", metrics=["revenue"], context=[]).learn(log)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cb.deploy(learner, f"{folder}/log.db")
    'shop'
    """
    if not isinstance(learner, Learner):
        raise TypeError(f"learner must be a Learner; got {learner!r}.")
    by = By(None, as_actor(actor, "actor"))
    with closing(open_store(store, create=True)) as opened:
        begin(opened, learner.experiment, Past.of_learner(learner.rows), by)
    return learner.experiment.id


def begin(store: Store, experiment: Experiment, past: Past | None, by: By | None = None) -> None:
    """Begin an experiment in a store. Past rows are learned before it is locked, so that no service waits for that."""
    ledger, state = Ledger(), None
    known = read_to_head(store.read, experiment.id)
    if known is None:
        state = new_state(experiment, past)
    else:
        ledger.put(known)
    with ledger.transaction(store, plausible_now(store)) as transaction:
        Turn(transaction, by).create(experiment, past, state)
