"""The ledger: the states of all experiments in memory, kept in step with the log. Nothing else changes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from conebandit.service.engine.published_states import PublishedStates
from conebandit.service.engine.snapshots import Snapshots
from conebandit.service.engine.transaction import Transaction
from conebandit.service.log.state import State
from conebandit.service.stores.base import Store
from conebandit.service.stores.records import Head


class Ledger:
    """What this process knows of the logs: states, snapshots that are being written, and known damage.

    All of it can be forgotten at any time; the next transaction reads it from the store again. States change in
    transactions only (:class:`Transaction`), or are lent to somebody who reads the log without its lock.

    Parameters
    ----------
    max_replayed
        How many events, and past rows, a transaction may fold under the lock of a log; None for any. For a correction
        or a change of arms that needs more, somebody else must do it, and call :meth:`Transaction.revise`; if others
        have appended more, somebody must read the log first (:meth:`Transaction.catch_up`).

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from conebandit.experiment.declaration import Experiment
    >>> from conebandit.service.engine.turn import Turn
    >>> from conebandit.service.stores.base import open_store
    >>> experiment = Experiment.from_dict({"id": "e", "arms": ["a", "b"], "metrics": [{"name": "m"}]})
    >>> ledger = Ledger()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = open_store(str(pathlib.Path(folder) / "log.db"))
    ...     with ledger.transaction(store, now=0) as transaction:
    ...         _ = Turn(transaction).create(experiment)
    ...     store.close()
    >>> ledger.state("e").head.seq
    1
    """

    def __init__(self, max_replayed: int | None = None) -> None:
        self.max_replayed = max_replayed
        self.snapshots = Snapshots()
        self.published = PublishedStates()
        self.past_rows: dict[str, int] = {}  # with how many a log begins, where somebody has asked: it stays so
        self._states: dict[str, State] = {}
        self._damage: dict[str, tuple[Head, str]] = {}  # logs that cannot be folded up to this head, and why

    @contextmanager
    def transaction(self, store: Store, now: int) -> Iterator[Transaction]:
        """A transaction: committed, on disk, when the block ends. If that fails, nothing of it stays in memory either.

        Parameters
        ----------
        store
            Where the logs are.
        now
            Milliseconds since 1970.
        """
        transaction: Transaction | None = None
        try:
            with store.write() as session:
                transaction = Transaction(self, session, now)
                yield transaction
                transaction.finish()
        except BaseException:
            if transaction is not None:
                self.forget(transaction.changed)  # what was folded was not written
            raise

    def experiments(self) -> list[str]:
        """Ids of the experiments whose states are here, sorted."""
        return sorted(self._states)

    def times(self) -> dict[str, int]:
        """The times of the last events in the states that are here; other threads may ask."""
        return {id_: state.at for id_, state in sorted(self._states.copy().items())}

    def stopped(self) -> dict[str, int]:
        """How many safety rules have fired, where there are any; other threads may ask."""
        states = sorted(self._states.copy().items())
        return {id_: len(state.rules.stopped) for id_, state in states if state.rules.rules}

    def state(self, experiment_id: str) -> State | None:
        """The state of an experiment, if it is here: at some event of the log, not necessarily the last."""
        return self._states.get(experiment_id)

    def put(self, state: State) -> None:
        """Keep a state, in place of the one that was here."""
        self._states[state.experiment.id] = state

    def lend(self, experiment_id: str) -> State | None:
        """Hand a state over, to be brought up to date without a lock; nobody finds it here until it is put back."""
        return self._states.pop(experiment_id, None)

    def forget(self, experiment_ids: Iterable[str] | None = None) -> None:
        """Drop the states of some experiments, or of all: the next transaction reads them from the store."""
        for experiment_id in self.experiments() if experiment_ids is None else experiment_ids:
            self._states.pop(experiment_id, None)
            self.snapshots.abandon(experiment_id)

    def note_damage(self, experiment_id: str, head: Head, reason: str) -> None:
        """A log cannot be folded up to this head; until it has another one, nobody need try again."""
        self._damage[experiment_id] = head, reason

    def damage(self, experiment_id: str, head: Head) -> str | None:
        """What is known to be wrong with a log that ends at this head."""
        known = self._damage.get(experiment_id)
        return known[1] if known is not None and known[0] == head else None
