"""What the log holds: recent events, those of a decision or a unit, who did what, values on hold, exports."""

from __future__ import annotations

from fastapi import Response

from conebandit.experiment.errors import InvalidError
from conebandit.service.audit import ABOUT_NO_DECISION, AMENDMENTS, Wanted, milliseconds
from conebandit.service.dashboard.pages import HEADERS, Asked, Pages
from conebandit.service.dashboard.words.logbook import audited, held, latest, of_decision, of_unit
from conebandit.service.dashboard.words.telling import KINDS, plain
from conebandit.service.engine.repair import MAX_REASON
from conebandit.service.errors import NotFoundError
from conebandit.service.export import FORMATS
from conebandit.service.http.routes.queries import send_export
from conebandit.service.log.bodies import MAX_POSITION, VERDICTS

# What the audit trail can be asked for: those kinds that are found by an index come first.
GROUPS = {
    "orders": ("orders: modes, stages, arms, rules, changes", tuple(sorted(ABOUT_NO_DECISION))),
    "amendments": ("what was said of decisions afterwards", tuple(sorted(AMENDMENTS))),
    "all": ("everything (a long log is searched part by part)", ()),
}


def add_log(pages: Pages) -> None:
    """Let people read the log of an experiment."""
    _add_search(pages)
    _add_held(pages)

    @pages.view("/log/export")
    async def export(asked: Asked) -> Response:
        """The same file as ``GET /experiments/{id}/export``: a browser has no API key to send."""
        format_ = asked.query.get("format", "jsonl")
        return await send_export(pages.backend, asked.experiment, format_, HEADERS)


def _add_search(pages: Pages) -> None:
    store = pages.backend.store

    @pages.view("/log")
    async def log(asked: Asked) -> Response:
        if asked.query.get("decision") or asked.query.get("unit"):
            return await found(asked)
        before = _position(asked, "before")
        page = await pages.backend.read_long("events", latest, store, asked.experiment, before)
        return await pages.show(asked, "log.html", view="Log", page=page, before=before, formats=list(FORMATS))

    async def found(asked: Asked) -> Response:
        """What became of a decision, or of a unit; if there is none, that is no fault of the page."""
        decision, unit = asked.query.get("decision", ""), asked.query.get("unit", "")
        page, problem, status = None, "", 200
        try:
            if decision:
                page = await pages.backend.read_long("events", of_decision, store, asked.experiment, decision)
            else:
                after = _position(asked, "after")
                page = await pages.backend.read_long("events", of_unit, store, asked.experiment, unit, after)
        except (NotFoundError, InvalidError) as refusal:
            await pages.looks.get(asked.experiment)  # a 404 of its own if there is no such experiment
            problem, status = str(refusal), refusal.status
        values = {"page": page, "problem": problem, "decision": decision, "unit": unit}
        return await pages.show(asked, "log_found.html", status, view="Log", **values)

    @pages.view("/log/audit")
    async def audit(asked: Asked) -> Response:
        page, problem = None, ""
        try:
            wanted, after = _wanted(asked), _position(asked, "after")
            page = await pages.backend.read_long("events", audited, store, asked.experiment, wanted, after)
        except InvalidError as refusal:
            problem = str(refusal)
        template = "log_audit_part.html" if asked.part else "log_audit.html"
        values = {"groups": GROUPS, "kinds": KINDS, "query": asked.query, "page": page, "problem": problem}
        return await pages.show(asked, template, 422 if problem else 200, view="Log", **values)


def _add_held(pages: Pages) -> None:
    @pages.view("/log/held")
    async def on_hold(asked: Asked) -> Response:
        after, store = _position(asked, "after"), pages.backend.store
        page = await pages.backend.read_long("events", held, store, asked.experiment, after)
        return await pages.show(asked, "log_held.html", view="Log", page=page, plain=plain, max_reason=MAX_REASON)

    @pages.action("/log/held", "admin")
    async def review(asked: Asked) -> Response:
        """Sent twice it does nothing twice; if another value is on hold by now, it is refused."""
        form, id_ = asked.form, asked.experiment
        verdict, name, value = form.get("verdict"), form.get("metric", ""), _number(form.get("value", ""))
        request = {"id": form.get("id"), "values": {name: value}, "verdict": verdict, "reason": form.get("reason")}
        [done] = await pages.backend.in_turn(id_, lambda turn: turn.review(id_, [request]))
        words = "was released and counts" if verdict == VERDICTS[0] else "was rejected"
        was = "" if done.changed else " already"
        return pages.back(asked, "/log/held", f"{plain(value)} of {name} {words}{was}.")


def _position(asked: Asked, name: str) -> int:
    """A position in a log, which links carry."""
    text = asked.query.get(name, "") or "0"
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(MAX_POSITION)):
        raise InvalidError(f"{name} must be a position in the log; got {text[:40]!a}.")
    return int(text)


def _wanted(asked: Asked) -> Wanted:
    """Which events an audit is about."""
    query = {name: text for name, text in asked.query.items() if text}
    kind = query.get("kind", "orders")
    if kind not in GROUPS and kind not in KINDS:
        raise InvalidError(f"kind must be one of those that are offered; got {kind[:40]!a}.")
    kinds = GROUPS[kind][1] if kind in GROUPS else (kind,)
    since, until = (milliseconds(query[name], name) if name in query else None for name in ("from", "until"))
    return Wanted(query.get("actor"), query.get("key"), kinds, since, until)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidError(f"value must be a number; got {text[:40]!a}.") from None
