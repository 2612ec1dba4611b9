"""The view Progress: what it shows is what the service says, and what it cannot show it says."""

import copy
import json
import math
import random
import threading
from html.parser import HTMLParser

import httpx
import numpy as np
import pytest

from conebandit.experiment.errors import InvalidError
from conebandit.experiment.how_many import sample_size
from conebandit.experiment.outlook import Interval
from conebandit.policies.compiled import estimates
from conebandit.service.dashboard.looks import _look
from conebandit.service.dashboard.past.course import Course
from conebandit.service.dashboard.past.progress import MAX_LINES, Settling, arms_shown, readings, settled_words
from conebandit.service.engine.turn import Turn
from conebandit.service.http.server import serving
from conebandit.service.stores.base import open_store
from tests.service.driver import HOUR, PHONE, Driver

CONTEXT = {"age": 30.0, "device": "phone"}
QUERY = {"c.age": "30", "c.device": "phone"}
HERE = "/dashboard/experiments/checkout/progress"


class Tables(HTMLParser):
    """The cells of each table of a page."""

    def __init__(self, text):
        super().__init__()
        self.tables, self._inside = [], False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        self._inside = tag in ("td", "th") or (self._inside and tag == "span")

    def handle_endtag(self, tag):
        self._inside = self._inside and tag not in ("td", "th")

    def handle_data(self, data):
        if self._inside:
            self.tables[-1][-1][-1] += data.strip()


def look_at(run):
    with run.transaction() as transaction:
        return _look(Turn(transaction), run.id, None)


def fill(run, decisions):
    rng, ids = random.Random(0), []
    for step in range(decisions):
        run.ask_at_random(rng, ids, step)
        run.tell(ids[-1], revenue=rng.gauss(1, 1), latency=rng.uniform(0, 9))
        run.now += HOUR // 5


@pytest.fixture
def run(tmp_path, declaration):
    store = open_store(str(tmp_path / "log.db"))
    run = Driver(store)
    run.create(declaration)
    yield run
    store.close()


def read_all(run):
    course = Course(run.store, run.id)
    while course.advance():
        pass
    return course


@pytest.mark.parametrize("decisions", [0, 60])
def test_the_last_reading_is_what_the_service_says_now(run, decisions):
    fill(run, decisions)
    look, course = look_at(run), read_all(run)
    x = look.experiment.encode(CONTEXT)
    found = readings(course, course.past(), look, x)
    front = run.front(CONTEXT)
    assert list(found[-1].front) == [row["arm"] for row in front["arms"]]
    for row in front["arms"]:
        for name, told in row["estimates"].items():
            shown = found[-1].arms[row["arm"]][name]
            assert shown.estimate == told["mean"] or (told["mean"] is None and math.isnan(shown.estimate))
            if told["radius"] is not None:
                assert shown.high - shown.estimate == pytest.approx(told["radius"])
    assert found[-1].seq == run.state.head.seq
    assert [reading.observations for reading in found] == sorted(reading.observations for reading in found)
    assert (len(found) > 10) == (decisions > 0)


def test_a_retired_arm_is_on_no_front_and_other_arms_begin_anew(run):
    fill(run, 40)
    course, before = read_all(run), look_at(run)
    retired = next(arm for arm in run.front(CONTEXT)["arms"] if arm["arm"] != "old")["arm"]
    run.retire_arm(retired)
    look = look_at(run)
    x = look.experiment.encode(CONTEXT)
    assert len(readings(course, course.past(), before, x)) > 1
    assert retired not in readings(course, course.past(), look, x)[-1].front
    if retired not in look.experiment.arms:
        assert len(readings(course, course.past(), look, x)) == 1, "the past is that of other arms"
    again = readings(anew := read_all(run), anew.past(), look, x)
    assert [row["arm"] for row in run.front(CONTEXT)["arms"]] == list(again[-1].front)


def test_at_most_as_many_lines_as_colours_and_the_front_has_one(tmp_path, declaration):
    store = open_store(str(tmp_path / "many.db"))
    run = Driver(store)
    run.create({**declaration, "arms": [f"a{i}" for i in range(40)]})
    fill(run, 50)
    last = readings(course := read_all(run), course.past(), look_at(run), run.state.experiment.encode(CONTEXT))[-1]
    shown = arms_shown(last)
    assert len(shown) == MAX_LINES
    assert set(shown) <= set(last.front) or set(last.front) <= set(shown)
    assert arms_shown(last, "a39") == ["a39"]
    with pytest.raises(InvalidError, match="arm must be one of those"):
        arms_shown(last, "nobody")
    store.close()


# ---- how many more --------------------------------------------------------------------------------------------------


def test_how_many_is_simulated_once_for_each_state(tmp_path, declaration, monkeypatch):
    store = open_store(str(tmp_path / "kernel.db"))
    run = Driver(store)
    run.create({**declaration, "policy": {"name": "ConeKernel"}})
    fill(run, 60)
    look, contexts = look_at(run), np.random.default_rng(0).uniform(size=(30, 3))
    settling, calls = Settling(), []
    answer = settling.ask(look, contexts, 0.8)
    seen = np.ones((3, 2), dtype=bool)
    assert answer == sample_size(look.experiment, look.policy, contexts, seen)
    monkeypatch.setattr("conebandit.service.dashboard.past.progress._simulate", lambda *_: calls.append(1) or answer)
    assert settling.ask(look, contexts, 0.8) is answer
    assert calls == []
    settling.ask(look, contexts, 0.9)
    assert calls == [1]
    words = settled_words(answer, look)
    assert "80 % of the contexts" in words or words.startswith("No more: ")
    with pytest.raises(InvalidError, match="nothing has been decided yet"):
        settling.ask(look, contexts[:0], 0.8)
    store.close()


# ---- pages ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def client(address, declaration):
    with serving(address) as url, httpx.Client(base_url=url, timeout=60) as client:
        assert client.post("/experiments", json=declaration).status_code == 201
        yield client


def report(client, n):
    made = [{"id": f"d{i}", "context": {"age": 20 + i % 70, "device": "phone"}} for i in range(n)]
    client.post("/experiments/checkout/decisions", json={"decisions": made})
    rng = random.Random(1)
    told = [{"id": f"d{i}", "values": {"revenue": rng.gauss(1, 1), "latency": rng.uniform(0, 9)}} for i in range(n)]
    assert client.post("/experiments/checkout/outcomes", json={"outcomes": told}).status_code == 200


def until_read(client, n, **query):
    """The page, once the log was read and so many outcomes are known; it may be a second old."""
    for _ in range(200):
        page = client.get(HERE, params={**QUERY, **query})
        assert page.status_code == 200
        if "Reading the log" not in page.text and f"after {n} observations" in page.text:
            return page.text
        threading.Event().wait(0.05)
    raise AssertionError(page.text)


def test_what_is_on_the_page_is_what_the_api_says(client):
    assert "Nothing has been learned yet" in client.get(HERE).text
    report(client, 80)
    text = until_read(client, 80)
    front = client.get("/experiments/checkout/front", params={"context": json.dumps(CONTEXT)}).json()
    rows = Tables(text).tables[-1][1:]
    now = [row for row in rows if row[1] == rows[0][1]]
    assert len(rows) > 10 * len(now), "the past is there, too"
    assert {row[3] for row in now if row[-1] == "yes"} == {arm["arm"] for arm in front["arms"]}
    for arm in front["arms"]:
        row = next(row for row in now if row[3] == arm["arm"])
        for cell, told in zip(row[4:6], arm["estimates"].values(), strict=True):
            value, radius = told["mean"], told["radius"]
            assert cell == str(Interval(value, value - radius, value + radius))
    assert 'aria-label="Estimates of latency over time, for 3 arms"' in text
    assert "(less is better)" in text


def test_htmx_gets_the_part_and_others_the_page(client):
    report(client, 20)
    whole = until_read(client, 20, by="observations", arm="new")
    part = client.get(HERE, params={**QUERY, "by": "observations", "arm": "new"}, headers={"hx-request": "true"}).text
    assert "<html" in whole
    assert "<html" not in part
    assert Tables(part).tables == Tables(whole).tables
    assert whole.count('aria-label="Estimates of') == 2
    assert 'value="30"' in whole or 'value="30.0"' in whole


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"by": "magic"}, "by must be one of"),
        ({"arm": "<script>"}, "arm must be one of"),
        ({"c.age": "old"}, "must be a number"),
        ({"c.age": "nan"}, "age"),
        ({"c.device": "fridge"}, "must be one of phone, desk"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_words(client, query, words):
    page = client.get(HERE, params=query)
    assert page.status_code == 422
    assert words in page.text
    assert "<script>" not in page.text


def test_who_cannot_say_how_many_says_so(client):
    page = client.get(f"{HERE}/settled")
    assert (page.status_code, "nothing has been decided yet" in page.text) == (200, True)
    report(client, 20)
    page = client.get(f"{HERE}/settled")
    until_read(client, 20)
    page = client.get(f"{HERE}/settled")
    assert "has none. Declare policy = &#39;ConeKernel&#39;." in page.text
    assert client.get(f"{HERE}/settled", params={"power": "2"}).status_code == 422
    assert client.get("/dashboard/experiments/nothing/progress").status_code == 404
    assert client.get("/dashboard/experiments/nothing/progress/settled").status_code == 404
    assert client.post("/experiments/checkout/decisions", json={"context": PHONE}).status_code == 200


def test_a_look_at_another_log_of_the_same_name_is_a_look_at_that_one(tmp_path, declaration):
    looks = []
    for place, revenue in enumerate((1.0, 1.0, 5.0)):
        run = Driver(open_store(str(tmp_path / f"{place // 2}.db")))
        if place != 1:
            run.create(copy.deepcopy(declaration))
            for i in range(30):
                run.ask(f"d{i}")
                run.tell(f"d{i}", revenue=revenue, latency=1.0)
        for _ in range(2):
            with run.transaction() as transaction:
                looks.append(_look(Turn(transaction), run.id, looks[-1] if looks else None))
        run.store.close()
    assert len({look.version for look in looks}) == 1
    assert looks[1].policy is looks[0].policy, "what is the same is copied once"
    known = [estimates(look.policy, np.full((1, look.experiment.context_dim), 0.5))[0] for look in looks]
    assert np.array_equal(known[0], known[3])
    assert not np.allclose(known[0], known[4])


def test_how_many_is_simulated_anew_for_another_log_of_the_same_name(tmp_path, declaration, monkeypatch):
    calls, settling, look = [], Settling(), None
    monkeypatch.setattr("conebandit.service.dashboard.past.progress._simulate", lambda *_: calls.append(1))
    for place, revenue in enumerate((1.0, 5.0)):
        run = Driver(open_store(str(tmp_path / f"{place}.db")))
        run.create(copy.deepcopy(declaration))
        for i in range(8):
            run.ask(f"d{i}")
            run.tell(f"d{i}", revenue=revenue, latency=1.0)
            for _ in range(2):
                with run.transaction() as transaction:
                    look = _look(Turn(transaction), run.id, look)
                settling.ask(look, np.full((5, 3), 0.5), 0.8)
        run.store.close()
    assert len(calls) == 16, "once for each state of each of the two"
