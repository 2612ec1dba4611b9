"""Decisions at the edge: states are published for those who decide elsewhere, and their decisions put into the log."""

from __future__ import annotations

import logging

from conebandit.service.engine.batches import Batch, unchecked
from conebandit.service.engine.parts import Part
from conebandit.service.engine.ready import Ready, read_upload
from conebandit.service.engine.units import Door
from conebandit.service.errors import ConflictError
from conebandit.service.log.choosing import refusal
from conebandit.service.log.entries import By
from conebandit.service.log.events import Published
from conebandit.service.log.published import PublishedState, outlines, why_not_at_edges
from conebandit.service.log.state import State
from conebandit.service.replies import RefusedDecision, Upload

MIN_APART = 1000  # milliseconds between states that differ in what was learned alone
MAX_UPLOADS = 4  # batches that are put into the log in a turn
log = logging.getLogger("conebandit.service")


class Edges(Part):
    """What edges ask for."""

    def publish(self, experiment_id: str) -> PublishedState:
        """The state to decide from: the last one that was published, or a new one if there is something new."""
        state, states = self.transaction.state(experiment_id), self.transaction.published_states
        at, last = self.transaction.time(state), state.published
        _check_edges(state, at)
        known = None if last is None else states.find(experiment_id, last.seq, last.check)
        if known is not None and at < known.at + MIN_APART and outlines(known.state)[1] == outlines(state)[1]:
            return known
        windows = state.plain()["windows"]
        self.transaction.close_windows(state)
        self.transaction.stop_if_due(state)
        _check_edges(state, at)
        closed = state.plain()["windows"] != windows  # then an event must say so, since others fold the log
        if known is not None and not closed and outlines(known.state) == outlines(state):
            return known
        published = PublishedState.of(state, state.head.seq + 1, at)
        if last is None or closed or published.check != last.check:
            self.append(state, Published(at, *published.version, published.check))
        else:
            published.seq, published.at = last.seq, last.at
        states.keep(published)
        return published

    def take(self, experiment_id: str, batch: Batch, by: By | None) -> Upload:
        """Put decisions of an edge into the log that are not there; it does not matter how often they are sent."""
        state = self.transaction.state(experiment_id)
        door, at = Door(self.transaction, state), self.transaction.time(state)
        new, refused = batch.news(door.decided(list(batch.decisions)))
        for id_ in door.erased(new):  # whoever sends them again must not bring them back
            del new[id_]
        repeated = len(batch.decisions) - len(new) - len(refused)
        for id_ in door.clashes(new):
            del new[id_]
            refused[id_] = "the log calls another decision so"
        if new:
            self.transaction.close_windows(state)
            self.transaction.stop_if_due(state)
            door.enter({id_: one.arrived(batch.since, at) for id_, one in new.items()}, at, by)
        told = [*batch.refused, *(RefusedDecision(id_, reason) for id_, reason in refused.items())]
        return Upload(len(new), repeated, tuple(told), unchecked(new))

    def take_ready(self, experiment_id: str, ready: Ready) -> Upload:
        """What :meth:`take` does with decisions that are written as the log will have them."""
        state = self.transaction.state(experiment_id)
        door, at = Door(self.transaction, state), self.transaction.time(state)
        plain = state.experiment.units is None and not state.rules.rules
        if not plain or ready.latest > at or door.has_any(ready.ids):
            return self.take(experiment_id, *ready.to_batch())
        self.transaction.close_windows(state)
        door.enter_bodies(ready.ids, ready.bodies(at))
        return Upload(len(ready.ids), 0, ())

    def take_uploads(self, experiment_id: str) -> int:
        """Put some of what edges have uploaded into the log, in the order of each edge; how many batches it were."""
        session = self.transaction.session
        self.transaction.state(experiment_id)  # locks the log, so nobody else takes them
        rows = session.uploads(experiment_id, MAX_UPLOADS)
        done = []
        for row in rows:
            refused = {one.id for one in self._take_upload(experiment_id, row.content).refused}
            if refused:  # somebody else had the same id meanwhile
                log.error("%s: decisions of edge %s have ids that were taken: %s", experiment_id, row.edge, refused)
                self.transaction.put_aside[experiment_id] += len(refused)
                batch, by = read_upload(row.content)
                kept = Batch(batch.since, {id_: one for id_, one in batch.decisions.items() if id_ in refused}, [])
                session.put_upload_aside(experiment_id, row._replace(content=kept.to_text(by)))
            else:
                done.append(row)
        session.end_uploads(experiment_id, done)
        return len(rows)

    def _take_upload(self, experiment_id: str, content: str) -> Upload:
        ready = Ready.from_text(content)
        if ready is not None:
            return self.take_ready(experiment_id, ready)
        return self.take(experiment_id, *Batch.from_text(content))


def _check_edges(state: State, at: int) -> None:
    """Refuse to publish where an edge must not decide."""
    reason = refusal(state, 1, at)
    if reason is not None:
        raise ConflictError(f"experiment {state.experiment.id!r} {reason}")
    reason = why_not_at_edges(state, at)
    if reason is not None:
        raise ConflictError(f"experiment {state.experiment.id!r} cannot be decided at edges: {reason}.")
