"""The view of the log: everything in words, only what is asked for is read, and what was erased is shown as erased."""

import httpx
import pytest

from conebandit.experiment.declaration import Experiment
from conebandit.service.audit import Wanted
from conebandit.service.dashboard.words import logbook
from conebandit.service.dashboard.words.logbook import audited, latest, of_decision, of_unit
from conebandit.service.dashboard.words.telling import _SAID, KINDS, by_whom, history, told
from conebandit.service.errors import CorruptionError, NotFoundError
from conebandit.service.http import access
from conebandit.service.http.server import serving
from conebandit.service.log import events
from conebandit.service.log.entries import By, read
from conebandit.service.stores.base import open_store
from conebandit.service.stores.session import Session
from tests.service.dashboard.visiting import Page, make_key
from tests.service.driver import HOUR, PHONE, Driver

LOG = "/dashboard/experiments/checkout/log"
VOID = "The decision is void, so nothing of this counts."
DOSE = {"name": "dose", "units": "mg", "range": [0, 10], "outside": "hold"}


@pytest.fixture
def kept(address, declaration, monkeypatch):
    monkeypatch.setattr(access, "MAX_KEY_AGE", 0.0)
    store = open_store(address)
    declaration["metrics"].append(DOSE)
    Driver(store).create(declaration)
    yield store
    store.close()


@pytest.fixture
def run(kept):
    return Driver(kept)


@pytest.fixture
def url(address, kept):
    with serving(address) as url:
        yield url


@pytest.fixture
def with_units(kept, declaration):
    """An experiment about patients: ann came three times, bob once."""
    run = Driver(kept, "patients")
    run.create({**declaration, "id": "patients", "unit": {"sticky": True}})
    for id_, unit in (("a1", "ann"), ("b1", "bob"), ("a2", "ann"), ("a3", "ann")):
        run.now += 1000
        run.decide([{"id": id_, "context": PHONE, "unit": unit}])
    run.tell("a1", revenue=1.5)
    return run


def words_of(page):
    return [" ".join(line.words) for line in page.lines]


# ---- in words -------------------------------------------------------------------------------------------------------


def test_every_kind_of_event_has_words(declaration):
    assert set(KINDS) == set(events.KINDS)
    assert set(_SAID) == set(events.KINDS) - {"decided"}
    experiment = Experiment.from_dict({**declaration, "rules": [{"name": "few", "at_most": 3}]})
    said = [
        (events.ModeChanged(0, "off"), "The mode is off"),
        (events.ArmAdded(0, "x"), "Arm x was added"),
        (events.Revised(0, 1234), "up to event 1,234 count"),
        (events.Stopped(0, "r", "x", "suspend", 41.0, {"known": 9}), "Rule r has fired, about arm x: this arm is not"),
        (events.Lifted(0, "r", "restart", "why"), "Rule r was lifted and begins anew. Reason: why"),
        (
            events.Lifted(0, "few", "restart", "why"),
            "Rule few was lifted and is on again, with all that it has counted.",
        ),
        (events.Learned(0, "past.csv", "0", 7, ""), "7 past rows of past.csv"),
        (events.ClockRepaired(0, 3, "ntp"), "dates after event 3 were wrong. Reason: ntp"),
        (events.Erased(0, "u_1", 1, 5, "asked"), "Unit u_1 is to be forgotten, with 1 decision."),
        (events.Sealed(0), "Sealed with a key"),
        (events.Retracted(0, "d", ("revenue",), "swapped"), "Taken back: revenue. Reason: swapped"),
    ]
    for event, words in said:
        assert words in " ".join(told(experiment, event))
    assert told(experiment, events.Retracted(0, "d", (), "erased"), erased=True) == ["Retraction: erased."]
    assert [by_whom(by) for by in (None, By(None, None), By("k", None), By(None, "ann"), By("k", "ann"))] == [
        *("", "", "key k", "ann", "ann (key k)")
    ]


def test_a_decision_is_told_from_its_beginning_to_its_end(run, kept):
    made = run.ask("one")
    run.tell("one", revenue=2.0, dose=70.0)
    run.tell("one", revenue=3.5)
    run.review([{"id": "one", "values": {"dose": 70.0}, "verdict": "reject", "reason": "a typo"}])
    run.retract([{"id": "one", "metrics": ["revenue"], "reason": "of another"}])
    run.tell("one", revenue=4.0)
    run.correct_context([{"id": "one", "context": {"age": 31, "device": "desk"}, "reason": "misread"}])
    run.void([{"id": "one", "void": True, "reason": "a test"}])
    run.now += 2 * HOUR
    run.tell("one", latency=3.0)
    run.ask("another")
    page = of_decision(kept, "checkout", "one")
    said = words_of(page)
    assert said[0].startswith(f"Arm {made['arm']}, with probability {made['propensity']:.3g}.")
    assert "Decided by LinearParetoUCB" in said[0]
    assert "which had learned the events up to 1." in said[0] or "up to 0." in said[0]
    assert all(f"{arm} {chance:.3g}" in said[0] for arm, chance in made["probabilities"].items())
    assert "Context: age 30, device phone." in said[0]
    assert [line.kind for line in page.lines] == [
        *("decision", "outcome", "value on hold", "outcome", "review", "retraction", "outcome", "context corrected"),
        *("void", "outcome"),
    ]
    for words, expected in zip(
        said[1:],
        [
            "revenue 2.",
            "dose 70 mg is on hold until somebody looks at it.",
            "revenue 3.5 (a correction: it was 2).",
            "Rejected: dose 70 mg. Reason: a typo",
            "Taken back: revenue. Reason: of another",
            "revenue 4 (in place of what was taken back).",
            "What is learned is learned in another context. Reason: misread Context: age 31, device desk.",
            "Nothing is learned from this decision. Reason: a test",
            "latency 3 (after its time, so it is kept and does not count). " + VOID,
        ],
        strict=True,
    ):
        assert words == expected
    with kept.read() as session:
        records = session.histories("checkout", ["one"], 100)["one"]
        experiment = logbook.Logbook(session, "checkout")._experiment
    assert len(history(experiment, [read(record) for record in records])) == len(records)


def test_a_value_that_is_clipped_or_replaces_one_on_hold_says_so(kept, declaration):
    run = Driver(kept, "clipped")
    clipped = {"name": "score", "range": [0, 1], "outside": "clip"}
    run.create({**declaration, "id": "clipped", "metrics": [clipped, DOSE]})
    run.ask("one")
    run.tell("one", score=7.0, dose=99.0)
    run.tell("one", dose=5.0)
    said = " ".join(words_of(of_decision(kept, "clipped", "one")))
    assert "score 7 (outside of its range, so it counts as 1)." in said
    assert "dose 5 mg (99 mg is not on hold any more)." in said


def test_what_modes_do_is_told(run, kept):
    run.set_mode("shadow")
    run.ask("shadow")
    run.set_mode("off")
    run.ask("off")
    [first, second] = (words_of(of_decision(kept, "checkout", id_))[0] for id_ in ("shadow", "off"))
    assert first.startswith("Arm old, the baseline (mode shadow); the policy would have taken ")
    assert second.startswith("Arm old, the baseline; the policy was not asked (mode off).")


# ---- what is found --------------------------------------------------------------------------------------------------


def test_pages_go_back_to_the_first_event(run, kept):
    run.decide([{"id": f"d{i}", "context": PHONE} for i in range(120)])
    before, seen, pages = 0, [], 0
    while before or not pages:
        page = latest(kept, "checkout", before)
        assert len(page.lines) <= logbook.MAX_SHOWN
        seen += [line.seq for line in page.lines]
        before, pages = page.more, pages + 1
    assert seen == list(range(121, 0, -1))
    assert pages == 3
    assert latest(kept, "checkout", 10**9).lines[0].seq == 121
    assert latest(kept, "checkout", 1).lines == ()
    with kept.read() as session:
        assert latest(kept, "checkout", 0).head == session.head("checkout")


def test_only_what_is_asked_for_is_read(run, kept, monkeypatch):
    run.decide([{"id": f"d{i}", "context": PHONE} for i in range(600)])
    run.tell("d3", revenue=1.0)
    read_ = []
    with_personal = Session._with_personal

    def counted(self, experiment, records):
        read_.extend(records)
        return with_personal(self, experiment, records)

    monkeypatch.setattr(Session, "_with_personal", counted)
    for work in (
        lambda: latest(kept, "checkout", 0),
        lambda: latest(kept, "checkout", 300),
        lambda: of_decision(kept, "checkout", "d3"),
        lambda: audited(kept, "checkout", Wanted(kinds=("mode_changed", "created")), 0),
    ):
        read_.clear()
        work()
        assert 0 < len(read_) < 2 * logbook.MAX_SHOWN


def test_a_log_that_was_changed_is_not_shown(run, kept, tmp_path):
    run.ask("one")
    with kept.write() as session:
        session._run("UPDATE events SET body = replace(body, 'phone', 'desk') WHERE decision = ?", ("one",))
    for work in (lambda: latest(kept, "checkout", 0), lambda: of_decision(kept, "checkout", "one")):
        with pytest.raises(CorruptionError):
            work()


def test_units_are_found_by_name_with_all_their_decisions(with_units, kept, monkeypatch):
    page = of_unit(kept, "patients", "ann", 0)
    assert [line.called for line in page.lines] == ["a1", "a2", "a3", "a1"]
    assert "Visit 2 of unit ann." in words_of(page)[1]
    assert "which the unit has kept from an earlier decision" in words_of(page)[1]
    monkeypatch.setattr(logbook, "MAX_SHOWN", 2)
    first = of_unit(kept, "patients", "ann", 0)
    assert [line.called for line in first.lines] == ["a1", "a2", "a1"]
    second = of_unit(kept, "patients", "ann", first.more)
    assert ([line.called for line in second.lines], second.more) == (["a3"], 0)
    with pytest.raises(NotFoundError, match="there is no unit 'eve'"):
        of_unit(kept, "patients", "eve", 0)
    monkeypatch.setattr(logbook, "MAX_HISTORY", 1)
    assert of_decision(kept, "patients", "a1").left_out == 1


@pytest.mark.parametrize("revised", [False, True])
def test_what_was_erased_is_shown_as_erased_at_once(with_units, kept, monkeypatch, revised):
    if not revised:  # the personal data are still in the store: nobody has removed them yet
        monkeypatch.setattr(Session, "erase", lambda *_: None)
    done = with_units.erase("ann", "she asked")
    alias = done["unit"]
    pages = [latest(kept, "patients", 0), audited(kept, "patients", Wanted(), 0)]
    ids = [line.decision for line in pages[0].lines if line.called == "erased"]
    assert len(ids) == 4
    pages += [of_decision(kept, "patients", id_) for id_ in ids]
    for page in pages:
        text = " ".join(words_of(page) + [line.called for line in page.lines])
        assert "ann" not in text
        assert "a1" not in [line.called for line in page.lines]
        assert "revenue 1.5" not in text
    assert "Visit 1 of unit erased. Context: erased." in words_of(pages[2])[0] or "unit erased" in words_of(pages[2])[0]
    assert "Context: age 30" in " ".join(words_of(of_decision(kept, "patients", "b1")))
    for asked in ("a1", "ann"):
        with pytest.raises(NotFoundError):
            of_decision(kept, "patients", asked)
    with pytest.raises(NotFoundError):
        of_unit(kept, "patients", "ann", 0)
    if revised:
        with pytest.raises(NotFoundError, match=r"was erased 1970-01-01 .*, with 3 decisions"):
            of_unit(kept, "patients", alias, 0)


# ---- pages ----------------------------------------------------------------------------------------------------------


def test_the_pages_of_the_log(run, kept, with_units, come):
    run.ask("one")
    run.tell("one", revenue=2.25)
    visitor = come()
    page = visitor.get(LOG)
    assert "revenue 2.25" in page.words
    with kept.read() as session:
        head = session.head("checkout")
    assert f"event {head.seq}" in page.words
    assert head.check in page.words
    assert (
        httpx.get(str(page.reply.url).replace("/dashboard", "").replace("/log", "/state")).json()["check"] == head.check
    )
    assert "Find unit" not in page.words
    assert "Find unit" in visitor.get(LOG.replace("checkout", "patients")).words
    assert "revenue 2.25." in visitor.get(f"{LOG}?decision=one").words
    assert "there is no decision 'two'" in visitor.get(f"{LOG}?decision=two", 404).words
    assert "this experiment declares no units" in visitor.get(f"{LOG}?unit=ann", 422).words
    patients = LOG.replace("checkout", "patients")
    assert "Visit 1 of unit ann." in visitor.get(f"{patients}?unit=ann").words
    visitor.get(f"{patients}?unit=eve", 404)
    assert "there is no experiment 'nothing'" in visitor.get("/dashboard/experiments/nothing/log?decision=x", 404).words
    for path in ("", "/audit", "/held", "/export?format=csv"):
        visitor.get(f"/dashboard/experiments/nothing/log{path}", 404)


def test_nonsense_is_answered(run, come):
    visitor = come()
    for query in ("before=-1", "before=x", "before=1.5", "before=%00", "before=" + "9" * 5000, "before=٣"):
        assert "must be a position" in visitor.get(f"{LOG}?{query}", 422).words
    for query in ("decision=%00", "decision=%ED%A0%80", "decision=" + "x" * 5000, "decision=a%20b"):
        assert "id must be 1 to 128" in visitor.get(f"{LOG}?{query}", 422).words
    for query in ("from=yesterday", "until=%00", "kind=nonsense", "after=x", "from=9999-99-99"):
        assert visitor.get(f"{LOG}/audit?{query}", 422).words
    for query in ("actor=%00", "actor=%ED%A0%80", "key=" + "x" * 5000, "from=0001-01-01", "until=9999-12-31"):
        assert visitor.get(f"{LOG}/audit?kind=all&{query}").words
    assert visitor.get(f"{LOG}/held?after={2**62}").words
    visitor.get(f"{LOG}?before={2**62}")
    visitor.get(f"{LOG}/export?format=exe", 422)


def test_names_that_would_break_a_page_do_not(kept, come, declaration):
    declaration["context"][1]["unknown"] = "zeros"
    run, hostile, id_ = Driver(kept, "patients"), "<script>alert(1)</script>\"'&", "a<b>'&#x3C;"
    run.create({**declaration, "id": "patients", "unit": {}})
    context = {"age": 30, "device": "<img src=x onerror=alert(1)>\u202e"}
    run.decide([{"id": id_, "unit": hostile, "context": context}])
    visitor, log = come(), LOG.replace("checkout", "patients")
    for page in (
        visitor.get(log),
        visitor.get(log, params={"unit": hostile}),
        visitor.get(log, params={"decision": id_}),
        visitor.get(f"{log}/audit", params={"actor": hostile, "kind": "all"}),
        visitor.get(log, 404, params={"unit": hostile + "x"}),
    ):
        scripts = [given for tag, given in page.elements if tag == "script"]
        assert all(given["src"].startswith("/dashboard/static/") for given in scripts)
        assert not {"img", "b"} & {tag for tag, _ in page.elements}
        assert "\u202e" not in page.text
    assert id_ in visitor.get(log).words
    assert f"Visit 1 of unit {hostile}." in visitor.get(log, params={"decision": id_}).words


def test_who_did_what_is_found(kept, url, come):
    office = make_key(kept, "office", "admin")
    with httpx.Client(base_url=url, headers={"x-api-key": office}, timeout=60) as client:
        for mode, actor in (("off", "ann"), ("live", "bob"), ("shadow", "ann")):
            client.post("/experiments/checkout/mode", json={"mode": mode}, headers={"x-actor": actor})
        client.post("/experiments/checkout/decisions", json={"id": "d", "context": PHONE}, headers={"x-actor": "ann"})
    visitor = come()
    visitor.sign_in(make_key(kept, "board"))
    page = visitor.get(f"{LOG}/audit")
    assert "The mode is live from here on." in page.words
    assert "The experiment was declared: 3 arms, 3 metrics" in page.words
    assert page.words.count("(key office)") == 3
    page = visitor.get(f"{LOG}/audit", params={"actor": "ann"})
    assert page.words.count("ann (key office)") == 2
    page = visitor.get(f"{LOG}/audit", params={"actor": "ann", "kind": "all"})
    assert page.words.count("ann (key office)") == 3
    page = visitor.get(f"{LOG}/audit", params={"kind": "mode_changed", "key": "office", "from": "2020-01-01"})
    assert page.words.count("The mode is") == 3
    assert "There are none." in visitor.get(f"{LOG}/audit", params={"until": "1969-12-31"}).words
    assert "There are none." in visitor.get(f"{LOG}/audit", params={"kind": "amendments"}).words
    part = visitor.get(f"{LOG}/audit", params={"key": "office"}, headers={"hx-request": "true"})
    assert "<html" not in part.text


def test_a_long_audit_goes_on(run, kept, come):
    for i in range(logbook.MAX_SHOWN + 5):
        run.set_mode("off" if i % 2 else "shadow")
    page = come().get(f"{LOG}/audit?kind=mode_changed&actor=")
    [link] = [given["href"] for tag, given in page.elements if given.get("rel") == "next"]
    assert "kind=mode_changed" in link
    page = come().get(link)
    assert page.words.count("The mode is") == 5
    assert not [given for _, given in page.elements if given.get("rel") == "next"]


def test_values_on_hold_are_released_and_rejected_by_an_admin(kept, url, run, come):
    for i in range(3):
        run.ask(f"d{i}")
        run.tell(f"d{i}", dose=20.0 + i / 10)
    admin, board = come(), come()
    admin.sign_in(make_key(kept, "office", "admin"), "Dr. Müller")
    board.sign_in(make_key(kept, "board"))
    page = board.get(f"{LOG}/held")
    assert "dose 20.1 mg" in page.words
    assert not [form for form in page.forms if form["action"].endswith("/held")]
    board.send(f"{LOG}/held", 403, id="d0", metric="dose", value="20.0", verdict="release", reason="seen")
    page = admin.get(f"{LOG}/held")
    forms = [form["fields"] for form in page.forms if form["action"].endswith("/held")]
    assert [(form["id"], form["metric"], form["value"]) for form in forms] == [
        *(("d0", "dose", "20"), ("d1", "dose", "20.1"), ("d2", "dose", "20.2"))
    ]

    def send(form, status=303, **more):
        reply = admin.http.post(f"{LOG}/held", data={**form, **more})
        assert reply.status_code == status, reply.text
        return admin.get(reply.headers["location"]) if status == 303 else Page(reply)

    assert "reason must be" in send(forms[0], 422, verdict="release", reason="").words
    assert "verdict must be" in send(forms[0], 422, verdict="forget", reason="x").words
    assert "is not on hold for 'd0'" in send(forms[0], 409, verdict="release", reason="x", value="21").words
    for value in ("", "x", "\0", "1" * 400):
        assert send(forms[0], 422, verdict="release", reason="x", value=value).words
    for value in ("nan", "inf"):
        assert send(forms[0], 422, verdict="release", reason="x", value=value).words
    send(forms[0], 422, verdict="release", reason="x", metric="nothing")
    send(forms[0], 404, verdict="release", reason="x", id="nobody")
    send(forms[0], 422, verdict="release", reason="x", id="\0")
    assert "20 of dose was released and counts." in send(forms[0], verdict="release", reason="measured twice").words
    assert "20 of dose was released and counts already." in send(forms[0], verdict="release", reason="again").words
    page = send(forms[1], verdict="reject", reason="a typo")
    assert "dose 20.2 mg" in page.words
    assert "dose 20.1" not in page.words
    said = words_of(of_decision(kept, "checkout", "d0"))
    assert said[-1] == "Released, so it counts: dose 20 mg. Reason: measured twice"
    [line] = [line for line in of_decision(kept, "checkout", "d1").lines if line.kind == "review"]
    assert line.who == "Dr. Müller (key office)"


def test_exports_are_those_of_the_api(kept, url, run, come):
    run.ask("one")
    key, visitor = make_key(kept, "board"), come()
    assert visitor.http.get(f"{LOG}/export?format=csv").headers["location"].startswith("/dashboard/sign-in")
    visitor.sign_in(key)
    links = [given["href"] for tag, given in visitor.get(LOG).elements if "download" in given]
    assert len(links) == 3
    for link in links:
        mine = visitor.http.get(link)
        theirs = httpx.get(url + "/experiments/checkout/export?" + link.partition("?")[2], headers={"x-api-key": key})
        assert mine.status_code == theirs.status_code == 200
        assert mine.content == theirs.content
        for name in ("content-type", "content-disposition"):
            assert mine.headers[name] == theirs.headers[name]
        assert mine.headers["cache-control"] == "no-store"
    assert visitor.http.get(f"{LOG}/export").content == visitor.http.get(f"{LOG}/export?format=jsonl").content
