"""What ``verify`` checks of ids: that each of them stands for one decision."""

from __future__ import annotations

from conebandit.service.stores.session import PAGE, Session

MAX_TOLD = 10  # ids that are there twice


class IdsOfLog:
    """The ids of the decisions in a log, as many at once as are on a page: the store's index knows all the others.

    Parameters
    ----------
    session, experiment_id
        Where the log is.
    """

    def __init__(self, session: Session, experiment_id: str) -> None:
        self._session, self._id = session, experiment_id
        self._seen: list[tuple[str, int]] = []
        self._problems: list[str] = []

    def see(self, seq: int, id_: str) -> None:
        """The next decision."""
        self._seen.append((id_, seq))
        if len(self._seen) == PAGE:
            self._look_up()

    def problems(self) -> list[str]:
        """Decisions whose ids the log has before them, in words; some of them if there are many."""
        self._look_up()
        return self._problems

    def _look_up(self) -> None:
        first = self._session.first_events(self._id, list({id_ for id_, _ in self._seen}))
        told = [
            f"decision at event {seq}: event {first[id_]} is about a decision of the same id, {id_!a}."
            for id_, seq in self._seen
            if first.get(id_, seq) < seq
        ]
        self._problems += told[: MAX_TOLD - len(self._problems)]
        self._seen.clear()
