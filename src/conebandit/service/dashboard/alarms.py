"""Shift alarms of many experiments, asked for one after the other while pages say what is known by now."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from conebandit.experiment.errors import RefusalError
from conebandit.service.http.backend import Backend
from conebandit.service.replies import ShiftReport


class Alarms:
    """What the monitors said when they were last asked. A long log takes a while, so nobody waits for them.

    Parameters
    ----------
    backend
        Has the monitors.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._known: dict[str, tuple[int, ShiftReport]] = {}
        self._asking: asyncio.Task[None] | None = None

    def known(self, events: Mapping[str, int]) -> dict[str, ShiftReport | None]:
        """What is known of experiments with so many events; what is not, or is old, is asked for."""
        outdated = {id_: n for id_, n in events.items() if id_ not in self._known or self._known[id_][0] != n}
        if outdated and (self._asking is None or self._asking.done()):
            self._asking = asyncio.create_task(self._ask(outdated))
        return {id_: self._known[id_][1] if id_ in self._known else None for id_ in events}

    async def _ask(self, events: Mapping[str, int]) -> None:
        for id_, n in events.items():
            try:
                report = await self._backend.read_long("shift", self._backend.shift.report, id_)
            except RefusalError:
                self._known.pop(id_, None)  # it is not there any more, or cannot be read: others say so
            else:
                self._known[id_] = n, report
