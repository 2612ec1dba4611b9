"""Control: what will happen is said first, then it is done, once, by somebody who may, and the log says by whom."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import httpx
import pytest

from conebandit.experiment.errors import InvalidError
from conebandit.service.dashboard.looks import _look
from conebandit.service.dashboard.words import summary
from conebandit.service.dashboard.words.orders import Order, last_order, situation
from conebandit.service.engine.turn import Turn
from conebandit.service.errors import ConflictError, NotFoundError
from conebandit.service.http import access
from conebandit.service.http.server import serving
from conebandit.service.log.entries import read
from conebandit.service.stores.base import open_store
from tests.service.dashboard.visiting import Page, make_key
from tests.service.driver import HOUR, PHONE, Driver

CONTROL = "/dashboard/experiments/checkout/control"
RULE = {"name": "slow", "metric": "latency", "above": 1.0, "error": 0.2, "then": "suspend"}
LATENCY = {"name": "latency", "direction": "min", "range": [0, 10]}


@pytest.fixture
def kept(address, declaration, monkeypatch):
    monkeypatch.setattr(access, "MAX_KEY_AGE", 0.0)
    store = open_store(address)
    declaration["metrics"][1], declaration["rules"] = LATENCY, [RULE]
    Driver(store).create(declaration)
    yield store
    store.close()


@pytest.fixture
def url(address, kept):
    with serving(address) as url:
        yield url


@pytest.fixture
def admin(kept, come):
    """Somebody who may do everything, and has said who they are."""
    visitor = come()
    visitor.sign_in(make_key(kept, "office", "admin"), "Dr. Müller")
    return visitor


def orders(store):
    """Events that somebody has ordered, and who did."""
    with store.read() as session:
        entries = [read(record) for record in session.events("checkout", limit=10**6)]
    return [(entry.event, tuple(entry.by)) for entry in entries if entry.by is not None]


def ask(visitor, what, value, **more):
    """Choose something; gives the page that says what will happen, and the form on it."""
    page = visitor.send(f"{CONTROL}/confirm", 200, what=what, value=value, **more)
    return page, page.form("/control/do")["fields"]


def do(visitor, form, status=303, **more):
    reply = visitor.http.post(f"{CONTROL}/do", data={**form, **more})
    assert reply.status_code == status, reply.text
    return visitor.get(reply.headers["location"]) if status == 303 else Page(reply)


def make_rule_fire(url, key):
    with httpx.Client(base_url=url, headers={"x-api-key": key}, timeout=60) as client:
        for i in range(60):
            client.post("/experiments/checkout/decisions", json={"id": f"d{i}", "context": PHONE})
            values = {"revenue": 1.0, "latency": 10.0}
            client.post("/experiments/checkout/outcomes", json={"id": f"d{i}", "values": values})
        return client.get("/experiments/checkout").json()["stopped"]


def test_nothing_happens_before_it_was_said_what_will(kept, admin):
    page, form = ask(admin, "mode", "off")
    assert "Change the mode to off?" in page.words
    assert "Everybody is served the baseline, old. The policy is not asked." in page.words
    assert orders(kept) == []
    page = do(admin, form)
    assert "Change the mode to off: done." in page.words
    assert "Mode: off" in page.words
    [(event, by)] = orders(kept)
    assert (event.kind, event.mode, by) == ("mode_changed", "off", ("office", "Dr. Müller"))


def test_what_is_sent_twice_is_done_once(kept, admin):
    for what, value, more in (
        ("mode", "shadow", {}),
        ("add", "fresh", {}),
        ("retire", "bold", {}),
        ("stage", "paused", {"reason": "a look at the data"}),
        ("stage", "running", {"reason": "it is fine"}),
    ):
        before = len(orders(kept))
        _, form = ask(admin, what, value)
        assert ": done." in do(admin, form, **more).words
        assert ": it was so already." in do(admin, form, **more).words
        assert len(orders(kept)) == before + 1
        assert "it is so already" in admin.send(f"{CONTROL}/confirm", what=what, value=value).words
    assert orders(kept)[-1][0].reason == "it is fine"


def test_a_page_that_is_out_of_date_does_nothing(kept, admin):
    _, pause = ask(admin, "stage", "paused")
    _, off = ask(admin, "mode", "off")
    do(admin, pause, reason="first")
    page = do(admin, off, 409)
    assert "the experiment has changed since this page was shown" in page.words
    assert "office, Dr. Müller" in page.words
    _, run = ask(admin, "stage", "running")
    do(admin, run, reason="go on")
    do(admin, pause, 409, reason="first")
    assert [event.kind for event, _ in orders(kept)] == ["stage_changed", "stage_changed"]


def test_of_two_orders_at_the_same_instant_one_is_carried_out(kept, admin, come):
    second = come()
    second.sign_in(make_key(kept, "night shift", "admin"))
    for round_ in range(6):  # each changes what the other one was told
        mode, stage = (("off", "paused"), ("live", "running"))[round_ % 2]
        forms = [(admin, ask(admin, "mode", mode)[1]), (second, ask(second, "stage", stage)[1])]
        together = Barrier(2)

        def send(visitor, form, together=together):
            together.wait()
            return visitor.http.post(f"{CONTROL}/do", data={**form, "reason": "now"}).status_code

        with ThreadPoolExecutor(2) as threads:
            answers = list(threads.map(lambda pair, send=send: send(*pair), forms))
        assert sorted(answers) == [303, 409]
        visitor, form = forms[answers.index(409)]
        visitor.http.post(f"{CONTROL}/do", data=ask(visitor, form["what"], form["value"])[1] | {"reason": "after all"})
    assert len(orders(kept)) == 12


def test_orders_in_one_turn_see_each_other(kept):
    run, seen = Driver(kept), last_order(kept, "checkout")
    with run.transaction() as transaction:
        assert Order("mode", "off").carry_out(Turn(transaction), "checkout", None, seen)
        with pytest.raises(ConflictError, match="has changed since this page was shown"):
            Order("retire", "bold").carry_out(Turn(transaction), "checkout", None, seen)
    with kept.read() as session:
        assert [record.kind for record in session.events("checkout", limit=10)] == ["created", "mode_changed"]


def test_what_was_said_of_another_log_of_the_same_name_does_not_hold(kept, declaration):
    run, other = Driver(kept), Driver(kept, "other")
    other.create(declaration | {"id": "other"})
    seen = last_order(kept, "other")
    assert seen.split()[0] == last_order(kept, "checkout").split()[0]
    with run.transaction() as transaction, pytest.raises(ConflictError):
        Order("mode", "off").carry_out(Turn(transaction), "checkout", None, seen)


def test_ending_takes_the_id_and_a_reason(kept, admin):
    page, form = ask(admin, "stage", "ended")
    assert "This cannot be undone" in page.words
    assert "Outcomes are refused, too" in page.words
    for typed in ("", "Checkout", "other", "checkout x"):
        page = do(admin, form, 422, typed=typed, reason="enough")
        assert "to end it, type its id: checkout" in page.words
        assert page.form("/control/do")["fields"]["reason"] == "enough", "what was written is not lost"
    page = do(admin, form, 422, typed="checkout", reason="")
    assert "reason must be a text of 1 to 500 printable characters" in page.words
    do(admin, form, 422, typed="checkout", reason="x" * 501)
    do(admin, form, 422, typed="checkout", reason="a\nb")
    assert orders(kept) == []
    page = do(admin, form, typed=" checkout ", reason="enough")
    assert "Stage: ended" in page.words
    assert not [form for form in page.forms if "/control/" in form["action"]], "nothing more is offered"
    refused = admin.send(f"{CONTROL}/confirm", 200, what="mode", value="off")
    assert "has ended: nothing of it can be changed" in do(admin, refused.form("/do")["fields"], 409).words


def test_a_rule_that_has_fired_is_lifted(kept, url, admin):
    key = make_key(kept, "robot", "admin")
    assert make_rule_fire(url, key) == ["slow"]
    page = admin.get(CONTROL)
    assert "if latency is above 1" in page.words
    assert "left out by a safety rule" in page.words
    page, form = ask(admin, "lift", "slow", then="disable")
    assert "it protects nobody any more" in page.words
    assert "Until now: this arm is not served" in page.words
    do(admin, form, 422, reason="")
    assert "Lift rule slow and turn the rule off: done." in do(admin, form, reason="a wrong clock").words
    assert "it was so already" in do(admin, form, reason="a wrong clock").words
    event, by = orders(kept)[-1]
    assert (event.kind, event.then, event.reason, by[1]) == ("lifted", "disable", "a wrong clock", "Dr. Müller")
    admin.send(f"{CONTROL}/confirm", 404, what="lift", value="slow", then="restart")
    admin.send(f"{CONTROL}/confirm", 404, what="lift", value="nothing", then="restart")


def test_a_draft_is_begun(declaration, kept, admin):
    draft = Driver(kept, "later")
    draft.create(declaration | {"id": "later", "stage": "draft"})
    there = "/dashboard/experiments/later/control"
    page = admin.get(there)
    assert "Stage: draft" in page.words
    assert "Name of a new arm" not in page.words
    page = admin.send(f"{there}/confirm", 200, what="stage", value="running")
    assert "The experiment begins." in page.words
    fields = page.form("/control/do")["fields"]
    reply = admin.http.post(f"{there}/do", data={**fields, "reason": "approved"})
    assert "Stage: running" in admin.get(reply.headers["location"]).words


def test_what_the_engine_refuses_is_said_in_its_words(kept, admin):
    for what, value, words in (
        ("retire", "old", "arm 'old' is the baseline"),
        ("retire", "nobody", "there is no arm 'nobody'"),
        ("stage", "draft", "a running experiment can become paused or ended; got draft"),
    ):
        token, last = admin.get(CONTROL).csrf, last_order(kept, "checkout")
        form = {"csrf": token, "what": what, "value": value, "seen": last, "reason": "x"}
        reply = admin.http.post(f"{CONTROL}/do", data=form)
        assert reply.status_code in (404, 409)
        assert words in Page(reply).words
    for fields in (
        {},
        {"what": "nonsense", "value": "x"},
        {"what": "mode", "value": "on"},
        {"what": "mode"},
        {"what": "add", "value": ""},
        {"what": "add", "value": "\0"},
        {"what": "add", "value": "x" * 1000},
        {"what": "lift", "value": "slow", "then": "forget"},
    ):
        for step in ("confirm", "do"):
            admin.send(f"{CONTROL}/{step}", 422, **fields)
    admin.send(f"{CONTROL}/do", 409, what="mode", value="off", seen="nonsense")
    admin.send(f"{CONTROL}/do", 409, what="mode", value="off", seen="9" * 50)


def test_only_an_admin_is_offered_this_and_only_an_admin_can(kept, come):
    make_key(kept, "office", "admin")
    visitor = come()
    visitor.sign_in(make_key(kept, "board"))
    page = visitor.get("/dashboard/experiments/checkout")
    assert "Control" not in page.words
    assert "Not allowed" in visitor.get(CONTROL, 403).words
    for path in ("confirm", "do"):
        page = visitor.send(f"{CONTROL}/{path}", 403, what="mode", value="off", seen="1")
        assert "has not the scope 'admin'" in page.words
    other = come()
    other.sign_in(make_key(kept, "another", "admin", experiments=["other"]))
    other.send(f"{CONTROL}/do", 403, what="mode", value="off", seen="1")
    for path in ("confirm", "do"):
        reply = come().http.post(f"{CONTROL}/{path}", data={"what": "mode", "value": "off", "seen": "1"})
        assert reply.headers["location"].startswith("/dashboard/sign-in")
    assert orders(kept) == []


def test_words_with_markup_stay_words(kept, admin):
    strange = '<b>"x" & y</b>'
    admin.sign_in(make_key(kept, strange, "admin"), strange)
    page, form = ask(admin, "stage", "paused")
    assert "<b>" not in page.text
    page = do(admin, form, 422, reason=strange + "\n")
    assert "<b>" not in page.text
    do(admin, form, reason=strange)
    page = admin.get("/dashboard/experiments/checkout/log")
    assert "<b>" not in page.text
    assert f"The experiment pauses. Reason: {strange}" in page.words
    assert f"{strange} (key {strange})" in page.words


# ---- without pages --------------------------------------------------------------------------------------------------


def test_every_order_says_to_whom_it_happens(kept):
    run = Driver(kept)
    with run.transaction() as transaction:
        now = situation(Turn(transaction), "checkout")
    assert now.can_retire == ["new", "bold"]
    assert last_order(kept, "checkout").startswith("1 ")
    said = [" ".join(Order(what, value).consequences(now)) for what, value in (("mode", "live"), ("stage", "running"))]
    assert all("old, new, bold" in words for words in said)
    assert "old, bold are left" in " ".join(Order("retire", "new").consequences(now))
    with pytest.raises(ConflictError):
        Order("stage", "draft").consequences(now)
    with pytest.raises(NotFoundError):
        Order("lift", "slow", "restart").consequences(now)
    with pytest.raises(InvalidError, match="what must be one of"):
        Order.read({})
    many = {f"arm {i}": True for i in range(200)}
    words = " ".join(Order("mode", "live").consequences(now.__class__(**{**now.__dict__, "arms": many})))
    assert "and 190 more" in words
    assert len(words) < 400
    run.set_mode("off")
    assert last_order(kept, "checkout").startswith("2 ")


def test_a_cap_that_is_used_up_leaves_its_arm_out_until_the_period_ends(tmp_path, declaration):
    run = Driver(open_store(str(tmp_path / "log.db")))
    run.create({**declaration, "rules": [{"name": "few", "arm": "new", "at_most": 3, "per": "1d"}]})
    run.decide([{"id": f"d{i}", "context": PHONE} for i in range(60)])

    def told():
        with run.transaction() as transaction:
            turn = Turn(transaction)
            now = summary.now(turn, run.id)
            return situation(turn, run.id).status("new"), now.barred, _look(turn, run.id, None).barred

    assert told() == ("left out by a safety rule", {"new"}, {"new"})
    with run.transaction() as transaction:
        words = Order.read({"what": "mode", "value": "live"}).consequences(situation(Turn(transaction), run.id))
    assert "one of old, new, bold (but for new, left out by a safety rule)." in words[1]
    run.now += 2 * 24 * HOUR
    assert told() == ("can be served", set(), set()), "nothing was decided since, and now it can be"
    run.store.close()
