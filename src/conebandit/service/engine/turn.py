"""Deciding, reporting, changing: all that can be asked of the service, without HTTP, in one transaction."""

from __future__ import annotations

from conebandit.service.engine.amendments import Amendments
from conebandit.service.engine.edges import Edges
from conebandit.service.engine.erasures import Erasures
from conebandit.service.engine.lifecycle import LifeCycle
from conebandit.service.engine.queries import Queries
from conebandit.service.engine.traffic import Traffic


class Turn(LifeCycle, Traffic, Amendments, Erasures, Edges, Queries):
    """What can be asked of experiments. A request is refused before it has changed anything.

    Parameters
    ----------
    transaction
        Where states are found and events go.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from conebandit.experiment.declaration import Experiment
    >>> from conebandit.service.engine.ledger import Ledger
    >>> from conebandit.service.stores.base import open_store
    >>> experiment = Experiment.from_dict({"id": "e", "arms": ["a", "b"], "metrics": [{"name": "m"}, {"name": "n"}]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = open_store(str(pathlib.Path(folder) / "log.db"))
    ...     with Ledger().transaction(store, now=0) as transaction:
    ...         turn = Turn(transaction)
    ...         created = turn.create(experiment)
    ...         [decision] = turn.decide("e", [{"id": "first", "context": {}}])
    ...         outcome = turn.report("e", [{"id": "first", "values": {"m": 1.0}}])
    ...     store.close()
    >>> decision.propensity, outcome[0].recorded
    (0.5, ('m',))
    """
