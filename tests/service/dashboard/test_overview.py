"""The overview says what the API says, of one experiment and of all, however many there are."""

import asyncio
import copy
import math
import random
import re
import time
from html import unescape
from types import SimpleNamespace

import numpy as np
import pytest
from starlette.concurrency import run_in_threadpool

from conebandit.experiment.rules import BoundRule, BurnInRule, CapRule
from conebandit.pages.wording import count, number, share
from conebandit.service.dashboard.counts.tallies import read_tally
from conebandit.service.dashboard.counts.tally import DAY, Periods
from conebandit.service.dashboard.words import summary
from conebandit.service.dashboard.words.alarms import Alarms
from conebandit.service.http.server import serving
from conebandit.service.replies import RuleStatus
from conebandit.service.shift import ShiftWatch
from conebandit.service.stores.base import open_store
from tests.service.conftest import DECLARATION
from tests.service.dashboard.visiting import Visitor, make_key
from tests.service.driver import PHONE, Driver

RULES = [
    {"name": "slow", "metric": "latency", "above": 5, "error": 0.05, "per": "arm", "then": "suspend"},
    {"name": "enough", "at_most": 5000},
    {"name": "first", "burn_in": 10},
]
GUARDED = {
    **DECLARATION,
    "rules": RULES,
    "metrics": [
        {"name": "revenue"},
        {"name": "latency", "direction": "min", "worst": 10.0, "range": [0, 10], "outside": "hold"},
    ],
}
OVERVIEW = "/dashboard/experiments/checkout"


def fill(run, n=400, slow="new"):
    """Decisions, most of them with outcomes; those of one arm are slow."""
    rng = random.Random(0)
    for start in range(0, n, 50):
        made = run.decide([{"id": f"d{start + i}", "context": PHONE} for i in range(50)])
        for one in made:
            values = {"revenue": rng.random(), "latency": 9.0 if one["arm"] == slow else 1.0}
            if rng.random() < 0.8:
                run.report([{"id": one["id"], "values": values}])
    run.report([{"id": "d0", "values": {"latency": 70.0}}])


@pytest.fixture
def where(tmp_path):
    return str(tmp_path / "log.db")


@pytest.fixture
def store(where):
    store = open_store(where)
    yield store
    store.close()


def ready(visitor, path, words, without="eading the log"):
    """A page that is asked for until it says something."""
    end = time.monotonic() + 60
    while True:
        page = visitor.get(path)
        if words in page.words and without not in page.words:
            return page
        assert time.monotonic() < end, page.words
        time.sleep(0.2)


def rows(page):
    """The rows of all tables, as lists of the words in their cells."""
    found = []
    for row in re.findall(r"<tr>(.*?)</tr>", page.text, re.DOTALL):
        cells = re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL)
        without = [re.sub(r"<meter.*?</meter>|<[^>]*>", " ", cell, flags=re.DOTALL) for cell in cells]
        found.append([unescape(re.sub(r"\s+", " ", cell)).strip() for cell in without])
    return found


# ---- one experiment -------------------------------------------------------------------------------------------------


def test_an_overview_says_what_the_api_says(where, store):
    run = Driver(store)
    run.create(GUARDED)
    fill(run)
    run.set_mode("live")
    tally = read_tally(store, "checkout")
    with serving(where) as url, Visitor(url) as visitor:
        api = visitor.http
        rules = api.get("/experiments/checkout/rules").json()["rules"]
        described = api.get("/experiments/checkout").json()
        page = ready(visitor, OVERVIEW, "contexts")
    assert tally.on_hold == 1
    for words in [
        f"{count(tally.n_decisions)} decisions",
        f"{count(described['events'])} events",
        "The experiment runs: the policy decides.",
        "1 value on hold",
        f"No change of the population has been noticed in {count(tally.n_decisions)} contexts",
        "400 of 5,000 decisions",
        "The experiment was declared: 3 arms, 2 metrics",
        "can be written to",
        *(warning[:60] for warning in described["warnings"]),
    ]:
        assert words in page.words, words
    shown = rows(page)
    for metric, standing in tally.standing.items():
        numbers = [standing.reported, standing.default, standing.open, standing.missing, standing.late, standing.held]
        assert [metric, share(standing.share_lacking), *map(count, numbers), "0"] in shown
    assert [(rule["rule"], rule["arm"]) for rule in rules if rule["status"] == "stopped"] == [("slow", "new")]
    assert "arm new has fired: this arm is not served, until somebody lifts it" in page.words
    for rule in rules:
        if rule["needed"] is not None and rule["status"] == "watching":
            evidence = f"evidence {number(rule['evidence'])}; it fires at {number(rule['needed'])}"
            mean = f"mean {number(rule['mean'])} ({number(rule['low'])} to {number(rule['high'])})"
            seen = f"{rule['known']} values of {rule['decisions']} decisions, {mean}"
            assert ["slow " + rule["says"], rule["arm"], "watching", evidence, seen] in shown
    for arm, made in tally.decisions.items():
        now = "left out by a safety rule" if arm == "new" else "can be served"
        assert [arm, now, count(made), share(made / tally.n_decisions)] in shown


def test_a_part_is_only_what_changes_and_is_asked_for_again(where, store):
    Driver(store).create(DECLARATION)
    with serving(where) as url, Visitor(url) as visitor:
        whole = visitor.get(OVERVIEW)
        part = visitor.get(OVERVIEW, headers={"hx-request": "true"})
        table = visitor.get("/dashboard", headers={"hx-request": "true"})
    assert [a for tag, a in whole.elements if a.get("hx-get") == OVERVIEW and a["hx-trigger"].startswith("every 5s")]
    for page in (part, table):
        assert "<html" not in page.text
    assert "There are no decisions yet." in part.words
    assert "0 decisions" in part.words
    assert "There are none." in part.words
    assert not [tag for tag, a in whole.elements if "style" in a or any(name.startswith("on") for name in a)]


def test_stages_and_revisions_are_told(where, store):
    run = Driver(store)
    run.create({**DECLARATION, "stage": "draft"})
    with serving(where) as url, Visitor(url) as visitor:
        assert "The experiment is a draft: there are no decisions until" in visitor.get(OVERVIEW).words
        for stage, words in (("running", "The experiment runs"), ("paused", "The experiment pauses: there are no new")):
            visitor.http.post("/experiments/checkout/stage", json={"stage": stage, "reason": "the <b>board</b>"})
            page = visitor.get(OVERVIEW)
            assert words in page.words
            assert "Reason: the <b>board</b>" in page.words
            assert "<b>" not in page.text
        visitor.get("/dashboard/experiments/nobody", status=404)


def test_a_shift_is_told_when_it_has_been_noticed(where, store):
    run = Driver(store)
    run.create(DECLARATION)
    rng, younger = random.Random(0), [18, 50]
    for start in range(0, 2400, 400):
        ages = [rng.uniform(*(younger if start < 1200 else [60, 98])) for _ in range(400)]
        contexts = [{"age": age, "device": rng.choice(["phone", "desk"])} for age in ages]
        run.decide([{"id": f"d{start + i}", "context": context} for i, context in enumerate(contexts)])
    with serving(where) as url, Visitor(url) as visitor:
        page = ready(visitor, OVERVIEW, "The population has changed in")
        alarm = visitor.http.get("/experiments/checkout/shift").json()["alarm"]
        assert f"noticed after {count(alarm['at'])} contexts" in page.words
        assert "shift alarms in 1" in ready(visitor, "/dashboard", "alarm").words


@pytest.mark.parametrize("events", [0, 1])
def test_alarms_of_another_log_of_the_same_name_are_not_told(tmp_path, events):
    """Of one that has as many events, or more."""
    stores = [open_store(str(tmp_path / f"{place}.db")) for place in range(2)]
    for place, store in enumerate(stores):
        run = Driver(store)
        run.now += place
        run.create(copy.deepcopy(DECLARATION))
        for i in range(3 + place * events):
            run.ask(f"d{i}")
    with stores[0].read() as before, stores[1].read() as after:
        heads = [before.existing_head("checkout"), after.existing_head("checkout")]

    async def ask():
        backend = SimpleNamespace(store=stores[0], in_thread=run_in_threadpool)
        backend.shift, backend.read_long = ShiftWatch(stores[0]), lambda _, work, *args: run_in_threadpool(work, *args)
        alarms, told = Alarms(backend), []
        for store, head in ((stores[0], heads[0]), (stores[1], heads[1])):
            backend.store, backend.shift = store, ShiftWatch(store)
            told.append((await alarms.known({"checkout": head}, "here"))["checkout"])
            await asyncio.gather(*alarms._asking.values())
            told.append((await alarms.known({"checkout": head}, "here"))["checkout"])
        return told

    told = asyncio.run(ask())
    assert [report and report.contexts for report in told] == [None, 3, None, 3 + events]
    for store in stores:
        store.close()


@pytest.mark.parametrize(("arms", "metrics", "decisions"), [(200, 16, 0), (200, 16, 60), (2, 1, 1)])
def test_much_and_little_can_be_read(where, store, arms, metrics, decisions):
    run = Driver(store, "e")
    run.create(
        {
            "id": "e",
            "arms": [f"arm {k} {'x' * 50}"[:64] for k in range(arms)],
            "metrics": [{"name": f"metric {k}"} for k in range(metrics)],
            "policy": {"name": "ParetoUCB1"},
        }
    )
    if decisions:
        run.decide([{"id": f"d{i}", "context": {}} for i in range(decisions)])
        run.report([{"id": "d0", "values": {"metric 0": 1.0}}])
    with serving(where) as url, Visitor(url) as visitor:
        page = visitor.get("/dashboard/experiments/e")
    assert sum(tag == "meter" for tag, _ in page.elements) == (arms + metrics if decisions else 0)
    assert f"{decisions} decision" in page.words


# ---- all experiments ------------------------------------------------------------------------------------------------


def test_none_and_many_experiments(where, store):
    with serving(where) as url, Visitor(url) as visitor:
        assert "There are none yet." in visitor.get("/dashboard").words
    for k in range(200):
        run = Driver(store, f"trial-{k:03d}")
        run.create({"id": run.id, "arms": ["a", "b"], "metrics": [{"name": "joy"}], "policy": {"name": "ParetoUCB1"}})
        if k % 3 == 0:
            run.decide([{"id": "one", "context": {}}, {"id": "two", "context": {}}])
            run.report([{"id": "one", "values": {"joy": 1.0}}])
    with serving(where) as url, Visitor(url) as visitor:
        page = ready(visitor, "/dashboard", "200 experiments", without="eading the log, ")
        assert ["trial-003", "running", "live", "2", "50 %", "none"] in [row[:6] for row in rows(page)]
        assert ["trial-004", "running", "live", "0", "no decisions", "none"] in [row[:6] for row in rows(page)]


def test_lines_are_what_the_api_says(where, store):
    for k in range(6):
        run = Driver(store, f"e{k}")
        run.create({**GUARDED, "id": run.id, "mode": "live" if k else "shadow"})
        if k % 2:
            fill(run)
        if k % 3 == 0:
            run.set_stage("paused", "lunch")
            run.set_mode("off")
        if k == 5:
            run.lift("slow", "it was the clock", "restart")
    lines = summary.Lines(store)
    before = lines.get(["e0", "e1"])
    Driver(store, "e0").set_stage("running", "back")
    assert [line.stage for line in before] == ["paused", "running"]
    found = lines.get([f"e{k}" for k in range(7)])
    assert [line.id for line in found] == [f"e{k}" for k in range(6)]
    for line in found:
        run = Driver(store, line.id)
        described = run.describe()
        assert (line.stage, line.mode, line.events) == (described["stage"], described["mode"], described["events"])
        assert set(line.stopped) == set(described["stopped"])
    assert any(line.stopped for line in found)


def test_a_damaged_log_does_not_hide_the_others(where, store):
    for id_ in ("damaged", "fine"):
        Driver(store, id_).create({**DECLARATION, "id": id_})
    with serving(where) as url, Visitor(url) as visitor:
        visitor.get("/dashboard")
        with store.write() as session:
            session._run("UPDATE events SET body = '{}' WHERE experiment = 'damaged'")
            session._run("UPDATE experiments SET last_check = 'other' WHERE id = 'damaged'")
        Driver(store, "fine").ask("a")
        page = ready(visitor, "/dashboard", "2 experiments", without="eading the log, ")
        damaged, fine = (next(row for row in rows(page) if row[0] == id_) for id_ in ("damaged", "fine"))
        assert damaged[1].startswith("cannot be read")
        assert fine[:5] == ["fine", "running", "live", "1", "100 %"]
        assert "running" in visitor.get("/dashboard/experiments/fine").words


TOTALS = ("requests wait", "logs are being folded anew", "commits since the start")


def test_a_key_for_one_experiment_sees_no_other(where, store):
    for id_ in ("checkout", "secret"):
        Driver(store, id_).create({**DECLARATION, "id": id_})
    key = make_key(store, "guest", experiments=["checkout"])
    with serving(where) as url, Visitor(url) as visitor:
        visitor.sign_in(key)
        page = visitor.get("/dashboard")
        assert "checkout" in page.words
        assert "secret" not in page.text
        visitor.get("/dashboard/experiments/secret", status=403)
        for path in ("/dashboard", "/dashboard/experiments/checkout"):
            words = visitor.get(path).words
            assert "can be written to" in words
            assert not [told for told in TOTALS if told in words], "they would tell of the other experiment"
    with serving(where) as url, Visitor(url) as visitor:
        visitor.sign_in(make_key(store, "board"))
        assert all(told in visitor.get("/dashboard").words for told in TOTALS)


# ---- words ----------------------------------------------------------------------------------------------------------


def bound(evidence, status="watching"):
    return RuleStatus("slow", "says", status, "new", 10, 8, 3.0, 2.0, 4.0, evidence, 100.0)


def test_how_close_a_rule_is_follows_the_logarithm_of_its_evidence():
    rule = BoundRule("slow", "latency", "above", 5.0, (0.0, 10.0), 0.01, None, False, None, "suspend")
    ways = [
        summary.rule_lines([bound(e)], {"slow": rule})[0].way
        for e in (0.0, 0.5, 1.0, 10.0, 100.0, 1e300, None, math.inf)
    ]
    assert ways == pytest.approx([0, 0, 0, 0.5, 1, 1, 1, 1])
    cap, first = CapRule("cap", 20, None, None, "stop"), BurnInRule("first", 30)
    rules = {"slow": rule, "cap": cap, "first": first}
    statuses = [
        RuleStatus("first", "", "open", decisions=5),
        RuleStatus("cap", "", "open", decisions=5),
        bound(50.0),
        bound(200.0, "stopped"),
        RuleStatus("slow", "", "watching"),
    ]
    lines = summary.rule_lines(statuses, rules)
    assert [(line.rule, line.status) for line in lines[:3]] == [
        ("slow", "stopped"),
        ("slow", "watching"),
        ("cap", "open"),
    ]
    assert [line.words for line in lines[2:]] == [
        "5 of 20 decisions",
        "5 of 30 decisions",
        "nothing was decided that it watches",
    ]


def test_what_is_wrong_with_the_service_is_told():
    writer = SimpleNamespace(clock_jumped=0.0, clock_ahead=0.0, waiting=0, revising=0, events_written=1, turns=1)
    assert all(one.fine for one in summary.health(writer, {}, writable=True))
    ill = SimpleNamespace(clock_jumped=-7200.0, clock_ahead=90.0, waiting=9999, revising=1, events_written=1, turns=1)
    told = {one.name: one for one in summary.health(ill, {"checkout": 3600.0}, writable=False)}
    assert [name for name, one in told.items() if not one.fine] == ["Store", "Clock", "Queue"]
    assert "set by 2 h" in told["Clock"].words
    assert "checkout: the log is 60 min ahead" in told["Clock"].words
    assert not summary.health(writer, {}, writable=None)[0].fine


def test_a_long_life_is_drawn_in_a_picture_of_bounded_size():
    days = np.arange(5000, dtype=np.int64)
    periods = Periods(DAY, days * DAY, days + 1, {}, {"joy": days})
    assert summary.decisions_chart(periods).count("<rect") == summary.MAX_PERIODS + 1  # and the field
    assert "polyline" in summary.outcomes_chart(periods)


def test_a_line_does_not_pass_over_days_on_which_nothing_came():
    starts = np.array([0, 1, 10], dtype=np.int64) * DAY
    periods = Periods(DAY, starts, np.full(3, 7), {}, {"joy": np.full(3, 7)})
    points = re.search(r'<polyline class="line[^"]*" points="([^"]*)"', summary.outcomes_chart(periods))[1].split()
    heights = [float(point.split(",")[1]) for point in points]
    assert heights[0] == heights[1] == heights[4] < heights[2] == heights[3]


@pytest.mark.parametrize(
    ("then", "words"), [("stop", "no more decisions"), ("baseline", "only the baseline is served")]
)
def test_who_decides_is_told_as_it_is_when_a_cap_is_used_up(where, store, then, words):
    run = Driver(store)
    run.create({**DECLARATION, "rules": [{"name": "enough", "at_most": 5, "then": then}]})
    run.decide([{"id": f"d{i}", "context": PHONE} for i in range(5)])
    with serving(where) as url, Visitor(url) as visitor:
        asked = visitor.http.post("/experiments/checkout/decisions", json={"id": "more", "context": PHONE})
        assert (asked.status_code == 200) == (then == "baseline")
        page = visitor.get(OVERVIEW)
    assert f"The experiment runs, but by a safety rule: {words}." in page.words
    assert "the policy decides." not in page.words
