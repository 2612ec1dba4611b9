"""The values of an experiment that somebody must look at before they count."""

from __future__ import annotations

from conebandit.service.log.entries import read_as
from conebandit.service.log.events import Held
from conebandit.service.log.repairs import Repairs
from conebandit.service.log.replay import declared_at, erased_units
from conebandit.service.log.reports import Reports
from conebandit.service.log.times import as_text
from conebandit.service.replies import HeldValue, HeldValues
from conebandit.service.stores.base import Store
from conebandit.service.stores.records import BEGINNING


def on_hold(store: Store, experiment_id: str, after: int, most: int) -> HeldValues:
    """Values on hold, oldest first; not those of decisions that are void.

    Parameters
    ----------
    store
        Is read as it is now.
    experiment_id
        Which one.
    after
        Position in the log: what came up to there is left out.
    most
        Of how many events with such values we look whether they are still on hold.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from conebandit.service.client import Client
    >>> from conebandit.service.http.server import serving
    >>> from conebandit.service.stores.base import open_store
    >>> metric = {"name": "pain", "range": [0, 10], "outside": "hold"}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = str(pathlib.Path(folder) / "log.db")
    ...     with serving(path) as address, Client(address) as client:
    ...         _ = client.create({"id": "trial", "arms": ["old", "new"], "metrics": [metric]})
    ...         _ = client.decide("trial", id="patient-1")
    ...         receipt = client.report("trial", "patient-1", {"pain": 70})
    ...     store = open_store(path)
    ...     [held] = on_hold(store, "trial", 0, 100).held
    ...     store.close()
    >>> receipt.held, held.id, held.value
    (('pain',), 'patient-1', 70.0)
    """
    with store.read() as session:
        head = session.existing_head(experiment_id)
        next(session.checked(experiment_id, BEGINNING, head, limit=1), None)
        experiment = declared_at(session, experiment_id, head.seq)  # a draft may have had other metrics
        page = session.amendments(experiment_id, (Held.kind,), after, head.seq, most)
        erased = erased_units(session, experiment_id, head.seq)
        histories = session.histories(experiment_id, list({record.decision or "" for record in page}), head.seq)
        repairs = Repairs.find(session, experiment_id, head.seq)
    reports = {id_: Reports(experiment, list(map(repairs.read, history))) for id_, history in histories.items()}
    found = []
    for record in page:
        event = read_as(Held, record)
        about = reports[event.id]
        for name, value in event.values.items():
            slot = about.slots[name]
            if slot.held_at == record.seq and about.void is None and about.decided.unit not in erased:
                observed = None if event.observed_at is None else as_text(event.observed_at)
                late = not slot.place
                found.append(
                    HeldValue(about.decided.called, name, value, record.seq, as_text(event.at), observed, late)
                )
    return HeldValues(tuple(found), page[-1].seq if page else after)
