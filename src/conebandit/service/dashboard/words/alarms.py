"""Shift alarms of many experiments, asked for one after the other while pages say what is known by now."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from conebandit.experiment.errors import RefusalError
from conebandit.service.http.backend import Backend
from conebandit.service.replies import ShiftReport
from conebandit.service.shift import leads_to
from conebandit.service.stores.base import Store
from conebandit.service.stores.records import Head


class Alarms:
    """What the monitors said when they were last asked. A long log takes a while, so nobody waits for them.

    Parameters
    ----------
    backend
        Has the monitors.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._known: dict[str, tuple[Head, ShiftReport]] = {}  # with the ends of the logs then
        self._asking: dict[str, asyncio.Task[None]] = {}

    async def known(self, heads: Mapping[str, Head], place: str) -> dict[str, ShiftReport | None]:
        """What is known of experiments whose logs end there; what is not, or is old, is asked for.

        For each ``place`` of the dashboard one after the other, so that a view of one experiment does not wait until
        all of them have been asked for.
        """
        outdated = {id_: head for id_, head in heads.items() if id_ not in self._known or self._known[id_][0] != head}
        if before := {id_: self._known[id_][0] for id_ in outdated if id_ in self._known}:
            for id_ in await self._backend.in_thread(_others, self._backend.store, before):
                self._known.pop(id_, None)
        if outdated and place not in self._asking:
            self._asking[place] = asyncio.create_task(self._ask(outdated))
            self._asking[place].add_done_callback(lambda _: self._asking.pop(place))
        return {id_: self._known[id_][1] if id_ in self._known else None for id_ in heads}

    async def _ask(self, heads: Mapping[str, Head]) -> None:
        for id_, head in heads.items():
            try:
                report = await self._backend.read_long("shift", self._backend.shift.report, id_)
            except RefusalError:
                self._known.pop(id_, None)  # it is not there any more, or cannot be read: others say so
            else:
                self._known[id_] = head, report


def _others(store: Store, heads: Mapping[str, Head]) -> list[str]:
    """Experiments whose logs do not hold where they once ended: these are others of the same name."""
    with store.read() as session:
        return [id_ for id_, head in heads.items() if not leads_to(session, id_, head)]
