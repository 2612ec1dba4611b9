"""What if: another front beside the present one, on the same estimates, and nothing is touched."""

import html
import re
import time
import tomllib

import pytest

from conebandit.service.http.server import serving
from tests.service.dashboard.test_front import DOSES, declared, dose, run, table
from tests.service.dashboard.visiting import Visitor

WHAT_IF = "/dashboard/experiments/doses/what-if"
AGE = {"c.age": "40", "c.stage": "late"}
CONTEXT = {"context": '{"age": 40, "stage": "late"}'}


def rates(least="", most="", **others):
    """What the form sends about the first pair of metrics."""
    row = {"metric.0": "response", "other.0": "toxicity", "least.0": least, "most.0": most}
    return {**row, "resolution.0": "0.05", "resolution.1": "0", **AGE, **others}


@pytest.fixture(scope="module")
def visitor(tmp_path_factory):
    with serving(str(tmp_path_factory.mktemp("what-if") / "log.db")) as url, Visitor(url) as visitor:
        several = declared("several", 3, 5, 1)
        sound = DOSES | {"id": "sound", "policy": {"name": "ConeTree", "preset": "sound"}}
        for experiment in (DOSES, several, sound, declared("one", 2, 1, 0), DOSES | {"id": "empty"}):
            assert visitor.http.post("/experiments", json=experiment).status_code == 201
        for experiment in (DOSES, sound):
            run(visitor, experiment, dose, 200)
        yield visitor


def toml_of(page):
    return tomllib.loads(html.unescape(re.search(r'<pre id="toml"[^>]*>(.*?)</pre>', page.text, re.DOTALL)[1]))


def test_it_begins_with_what_is_declared(visitor):
    page = visitor.get(WHAT_IF, params=AGE)
    assert "This is what is declared." in page.words
    fields = page.form("/what-if")["fields"]
    assert {name: fields[name] for name in ("least.0", "most.0", "resolution.0", "resolution.1")} == {
        "least.0": "0.25", "most.0": "", "resolution.0": "0.05", "resolution.1": "0",
    }  # fmt: skip
    assert toml_of(page) == {"cone": DOSES["cone"]}
    chances = visitor.http.get("/experiments/doses/front", params=CONTEXT).json()["chances"]
    assert {name: numbers for name, (numbers, _) in table(page).items()} == {n: [c, c] for n, c in chances.items()}
    again = visitor.get(WHAT_IF, params={**fields, **AGE})
    assert "This is what is declared." in again.words, "also if the form is sent as it is"


def test_contradictory_rates_get_the_sentences(visitor):
    page = visitor.get(WHAT_IF, params=rates("3", "2"))
    assert "statements contradict each other" in page.words
    assert "one unit of response is worth at least 3 of toxicity" in page.words
    assert "one unit of response is worth at most 2 of toxicity" in page.words
    assert 'id="toml"' not in page.text
    assert page.form("/what-if")["fields"]["least.0"] == "3", "what was entered is still there"


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (rates("many"), "this must be a number, or empty; got 'many'"),
        (rates("-1"), "an exchange rate must be a number from 1e-12"),
        (rates(**{"resolution.1": "-2"}), "the resolution of 'toxicity' must be at least 0"),
        (rates("1", **{"other.0": "<b>"}), "there is no 'response' and '<b>'"),
        (rates("1", **{"other.0": "response"}), "trades 'response' for itself"),
    ],
)
def test_nonsense_gets_a_message_beside_the_present_front(visitor, query, words):
    page = visitor.get(WHAT_IF, params=query)
    assert words in page.words
    assert "Now" in page.words


def test_the_front_of_then_is_that_of_the_experiment_after_the_change(tmp_path):
    """The TOML of the page, sent as a change, leads to the chances that the page foretold, bit for bit."""
    with serving(str(tmp_path / "log.db")) as url, Visitor(url) as visitor:
        visitor.http.post("/experiments", json=DOSES)
        run(visitor, DOSES, dose, 200)
        before = visitor.http.get("/experiments/doses").json()["events"]
        page = visitor.get(WHAT_IF, params=rates(most="0.3", **{"resolution.1": "0.02"}))
        assert "One unit of response is worth at most 0.3 of toxicity." in page.words
        assert visitor.http.get("/experiments/doses").json()["events"] == before, "looking changes nothing"
        foretold = {name: numbers[1] for name, (numbers, _) in table(page).items()}
        now = visitor.http.get("/experiments/doses/front", params=CONTEXT).json()["chances"]
        assert {name: numbers[0] for name, (numbers, _) in table(page).items()} == now
        assert foretold != now
        change = {"changes": toml_of(page), "reason": "other preferences"}
        assert (reply := visitor.http.post("/experiments/doses/change", json=change)).status_code == 200, reply.text
        for _ in range(300):
            then = visitor.http.get("/experiments/doses/front", params=CONTEXT).json()
            if then["chances"] != now:
                break
            time.sleep(0.1)
        assert then["chances"] == foretold
        reported = {row["arm"] for row in then["arms"]}
        yes = re.compile(r"\s(yes|no)\s.*?\s(yes|no)\s", re.DOTALL)
        assert {name for name, (_, words) in table(page).items() if yes.search(words)[2] == "yes"} == reported


def test_arms_that_enter_and_leave_are_named(visitor):
    page = visitor.get(WHAT_IF, params=rates(most="0.01"))
    changes = re.search(r'<div id="changes".*?</div>', page.text, re.DOTALL)[0]
    for name, (_, words) in table(page).items():
        now, then = re.findall(r"\s(yes|no)\s", words)
        said = re.search(rf"<b>{name}</b> (enters|leaves) the front", changes)
        assert (said and said[1]) == {("yes", "no"): "leaves", ("no", "yes"): "enters"}.get((now, then))
    assert "leaves the front" in changes


def test_a_policy_that_eliminates_is_compared_by_estimates(visitor):
    page = visitor.get("/dashboard/experiments/sound/what-if", params=rates(most="0.3"))
    assert "What ConeTree would have learned under another cone is not known" in page.words
    assert "without chances" in page.words


def test_a_cone_that_rates_cannot_say_stands_until_one_is_changed(tmp_path):
    acute = DOSES | {"cone": {"wedge": 60}, "policy": {"name": "LinearParetoUCB"}}
    with serving(str(tmp_path / "log.db")) as url, Visitor(url) as visitor:
        assert visitor.http.post("/experiments", json=acute).status_code == 201
        page = visitor.get(WHAT_IF)
        assert "The declared cone says more, or less, than exchange rates" in page.words
        fields = page.form("/what-if")["fields"]
        only_resolution = visitor.get(WHAT_IF, params={**fields, "c.stage": "late", "resolution.0": "0.2"})
        assert toml_of(only_resolution)["cone"] == {"wedge": 60}
        assert toml_of(visitor.get(WHAT_IF, params=rates(most="2")))["cone"] == {
            "tradeoffs": ["one unit of response is worth at most 2 of toxicity"]
        }


def test_with_many_metrics_one_chooses_the_pairs(visitor):
    where = "/dashboard/experiments/several/what-if"
    row = {"metric.0": "metric 3", "other.0": "metric 1", "least.0": "", "most.0": "2"}
    page = visitor.get(where, params=row)
    assert toml_of(page)["cone"] == {"tradeoffs": ["one unit of metric 3 is worth at most 2 of metric 1"]}
    assert "metric.2" in page.form("/what-if")["fields"], "there are empty rows left"
    assert "metric.3" not in page.form("/what-if")["fields"]


@pytest.mark.parametrize("id_", ["one", "empty"])
def test_one_metric_or_no_data(visitor, id_):
    page = visitor.get(f"/dashboard/experiments/{id_}/what-if", params={"resolution.0": "0.5"})
    assert "Nothing can be estimated yet" in page.words
    assert toml_of(page)["metrics"][0]["resolution"] == 0.5
    part = visitor.get(f"/dashboard/experiments/{id_}/what-if", headers={"hx-request": "true"})
    assert "<html" not in part.text
