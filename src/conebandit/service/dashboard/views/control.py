"""What an admin orders: mode, stage, arms, rules. First a page says what will happen, then it is done."""

from __future__ import annotations

from typing import Any

from fastapi import Response

from conebandit.experiment.errors import InvalidError
from conebandit.service.dashboard.pages import Asked, Pages
from conebandit.service.dashboard.words.orders import MODES_IN_WORDS, REVIVED, Order, Situation, last_order, situation
from conebandit.service.engine.repair import MAX_REASON


def add_control(pages: Pages) -> None:
    """Let an admin order something."""
    backend = pages.backend

    async def look(asked: Asked) -> Situation:
        return await backend.in_turn(asked.experiment, lambda turn: situation(turn, asked.experiment))

    @pages.view("/control", "admin")
    async def control(asked: Asked) -> Response:
        now = await look(asked)
        return await pages.show(asked, "control.html", view="Control", now=now, modes=MODES_IN_WORDS, revived=REVIVED)

    async def ask(asked: Asked, order: Order, seen: str, problem: str = "") -> Response:
        now = await look(asked)
        if not problem and order.holds(now):
            return pages.back(asked, "/control", f"{order.title}: it is so already.")
        values: dict[str, Any] = {"order": order, "said_to_happen": order.consequences(now), "seen": seen, "now": now}
        values |= {"reason": asked.form.get("reason", ""), "max_reason": MAX_REASON, "problem": problem}
        return await pages.show(asked, "control_confirm.html", 422 if problem else 200, view="Control", **values)

    @pages.action("/control/confirm")
    async def confirm(asked: Asked) -> Response:
        order = Order.read(asked.form)
        return await ask(asked, order, await backend.in_thread(last_order, backend.store, asked.experiment))

    @pages.action("/control/do")
    async def do(asked: Asked) -> Response:
        """Sent twice it does nothing twice."""
        order, id_ = Order.read(asked.form), asked.experiment
        reason, seen = asked.form.get("reason"), asked.form.get("seen", "")
        if order.is_final and order.what == "stage" and asked.form.get("typed", "").strip() != id_:
            return await ask(asked, order, seen, f"to end it, type its id: {id_}")
        try:
            done = await backend.in_turn(id_, lambda turn: order.carry_out(turn, id_, reason, seen))
        except InvalidError as refusal:
            return await ask(asked, order, seen, str(refusal))
        return pages.back(asked, "/control", f"{order.title}: {'done' if done else 'it was so already'}.")
