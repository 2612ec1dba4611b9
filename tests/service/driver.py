"""Turns on a store, without HTTP, and what they lead to."""

import numpy as np

from conebandit.experiment.declaration import Experiment
from conebandit.service.engine.ledger import Ledger
from conebandit.service.engine.turn import Turn
from conebandit.service.log.replay import fold_page, start
from conebandit.service.replies import Reply

HOUR = 3_600_000  # milliseconds
PHONE = {"age": 30, "device": "phone"}


def as_dict(answer):
    """Replies as they are sent; anything else as it is."""
    if isinstance(answer, list):
        return [as_dict(one) for one in answer]
    return answer.to_dict() if isinstance(answer, Reply) else answer


class Driver:
    """Turns on a store, at times that the test chooses, with one ledger or several."""

    def __init__(self, store, id_="checkout"):
        self.store, self.id, self.ledger, self.now = store, id_, Ledger(), 1_000_000

    def transaction(self):
        return self.ledger.transaction(self.store, self.now)

    def __getattr__(self, name):
        def call(*args):
            with self.transaction() as transaction:
                return as_dict(getattr(Turn(transaction), name)(self.id, *args))

        return call

    def create(self, declaration):
        with self.transaction() as transaction:
            Turn(transaction).create(Experiment.from_dict(declaration))

    def write_snapshot(self):
        with self.transaction() as transaction:
            transaction.write_snapshot(self.id)

    @property
    def state(self):
        """As it is in memory, if it is."""
        return self.ledger.state(self.id)

    def ask(self, id_, context=PHONE):
        return self.decide([{"id": id_, "context": context}])[0]

    def tell(self, id_, **values):
        return self.report([{"id": id_, "values": values}])[0]

    def ask_at_random(self, rng, ids, step):
        ids.append(f"d{step}")
        self.ask(ids[-1], {"age": rng.uniform(0, 120), "device": rng.choice(["phone", "desk"])})

    def tell_at_random(self, rng, ids):
        """About one of the latest decisions."""
        names = rng.sample(["revenue", "latency"], rng.randint(1, 2))
        self.tell(rng.choice(ids[-12:]), **{n: float(rng.randint(0, 12)) for n in names})

    @property
    def awaits_revision(self):
        return self.state is not None and self.state.corrected_from is not None

    def begin_revision(self, *, fold=True):
        """A state that knows of all corrections up to now, as a thread or process beside the turns makes it."""
        with self.store.read() as session:
            revised = start(session, self.id, self.state.head.seq, self.state.corrected_from)
            if fold:
                fold_page(session, revised, session.head(self.id))
        return revised

    def go_on_from(self, revised):
        with self.transaction() as transaction:
            return transaction.revise(revised)

    @property
    def events(self):
        with self.store.read() as session:
            return session.events(self.id, limit=10**6)


def assert_same(a, b):
    a, b = a.state(), b.state()
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)
