"""Copying an experiment: what it declares, under another id and with changes; none of its data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conebandit.experiment.arms import read_arms
from conebandit.experiment.entries import short
from conebandit.experiment.errors import InvalidError
from conebandit.service.engine.ledger import Ledger
from conebandit.service.engine.transaction import Transaction
from conebandit.service.engine.turn import Turn
from conebandit.service.log.replay import read_to_head
from conebandit.service.replies import Description
from conebandit.service.stores.base import Store


def copied_declaration(source: Description, id_: Any, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The declaration of an experiment for another one.

    Its arms are those that can be served now: what was added is there, and what was retired does not come back unless
    ``changes`` says so. Entries of ``changes`` replace whole entries; None takes one away.

    Examples
    --------
    >>> from conebandit.service.replies import ArmStatus
    >>> arms = tuple(ArmStatus(name, name != "new") for name in ("old", "new", "bold"))
    >>> declared = {"id": "checkout", "arms": ["old", "new"], "metrics": [{"name": "revenue"}], "seed": 7}
    >>> source = Description("checkout", "live", arms, events=9, revising=False, declaration=declared)
    >>> copied_declaration(source, "checkout-2", {"mode": "shadow", "seed": None})
    {'id': 'checkout-2', 'arms': ['old', 'bold'], 'metrics': [{'name': 'revenue'}], 'mode': 'shadow'}
    """
    if "id" in changes:
        raise InvalidError(f"changes must not have an 'id'; give it as the id of the copy. Got {short(changes['id'])}.")
    if id_ == source.id:
        raise InvalidError(f"id must be another one than that of the experiment that is copied; got {short(id_)}.")
    _, features = read_arms(source.declaration["arms"])
    served = [arm.name for arm in source.arms if arm.active]
    arms = [{"name": name, **features[name]} for name in served] if features else served
    declaration = {**source.declaration, "arms": arms, "added_arms": None, **changes, "id": id_}
    return {name: value for name, value in declaration.items() if value is not None}


def describe(store: Store, experiment_id: str) -> Description:
    """What an experiment is, without a service; nothing is written."""
    ledger = Ledger()
    state = read_to_head(store.read, experiment_id)  # without a lock; what has come meanwhile is folded under it
    if state is not None:
        ledger.put(state)
    with store.write() as session:  # not finished: who looks on writes nothing
        return Turn(Transaction(ledger, session, now=0)).describe(experiment_id)
