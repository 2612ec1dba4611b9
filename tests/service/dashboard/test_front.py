"""The front in metric space: numbers of the API, the area that would be better, and pages for every experiment."""

import json
import math
import re
from functools import partial

import numpy as np
import pytest

import conebandit as cb
from conebandit.experiment.declaration import Experiment
from conebandit.experiment.facets import facets_of
from conebandit.experiment.outlook import Interval
from conebandit.pages.wording import share
from conebandit.service.dashboard.arms.charts import MAX_DRAWN
from conebandit.service.dashboard.arms.contexts import slider_step
from conebandit.service.dashboard.arms.regions import better_region, needed_facets
from conebandit.service.http.server import serving
from tests.service.dashboard.visiting import Visitor

DOSES = {
    "id": "doses",
    "arms": ["placebo", "low", "middle", "high"],
    "metrics": [
        {"name": "response", "units": "points", "resolution": 0.05},
        {"name": "toxicity", "direction": "min", "range": [0, 1]},
    ],
    "cone": {"tradeoffs": ["one unit of toxicity is worth at most 4 of response"]},
    "context": [
        {"name": "age", "low": 20, "high": 80},
        {"name": "stage", "levels": ["early", "late"], "unknown": "zeros"},
    ],
    "seed": 3,
}


def metrics(n):
    costs = {"direction": "min", "worst": 9.0, "units": "<b>EUR</b>"}
    return [{"name": f"metric {m}", **(costs if m % 2 else {"direction": "max"})} for m in range(n)]


SIZES = {  # arms, metrics, columns
    "one": (3, 1, 1),
    "three": (3, 3, 0),
    "five": (3, 5, 1),
    "many": (70, 16, 30),
    "alone": (1, 2, 1),
}


def declared(id_, arms, n_metrics, columns):
    return {
        "id": id_,
        "arms": [f"arm {k} " + "w" * 40 for k in range(arms)],
        "metrics": metrics(n_metrics),
        "context": [{"name": f"column {i}", "low": 0, "high": 1} for i in range(columns)],
        "policy": {"name": "LinearParetoUCB"},
    }


def run(visitor, experiment, outcome, n, seed=0):
    """Decisions with outcomes, in a few requests."""
    rng, at = np.random.default_rng(seed), f"/experiments/{experiment['id']}"
    contexts = [
        {
            c["name"]: rng.choice(c["levels"]) if "levels" in c else rng.uniform(c["low"], c["high"])
            for c in experiment["context"]
        }
        for _ in range(n)
    ]
    for start in range(0, n, 100):
        asked = [{"id": f"d{start + i}", "context": x} for i, x in enumerate(contexts[start : start + 100])]
        made = visitor.http.post(f"{at}/decisions", json={"decisions": asked}).json()["decisions"]
        told = [{"id": d["id"], "values": outcome(rng, experiment["arms"].index(d["arm"]))} for d in made]
        assert visitor.http.post(f"{at}/outcomes", json={"outcomes": told}).status_code == 200


def dose(rng, k):
    return {"response": 0.2 * k + rng.normal(0, 0.2), "toxicity": float(rng.random() < 0.05 + 0.2 * k)}


def noise(n_metrics, rng, k):
    return {f"metric {m}": k + rng.normal() for m in range(n_metrics)}


@pytest.fixture(scope="module")
def visitor(tmp_path_factory):
    """Somebody who looks at a service with several experiments."""
    with serving(str(tmp_path_factory.mktemp("front") / "log.db")) as url, Visitor(url) as visitor:
        for experiment in (DOSES, DOSES | {"id": "empty"}, *(declared(id_, *sizes) for id_, sizes in SIZES.items())):
            assert visitor.http.post("/experiments", json=experiment).status_code == 201
        run(visitor, DOSES, dose, 200)
        for id_, sizes in SIZES.items():
            run(visitor, declared(id_, *sizes), partial(noise, sizes[1]), max(60, 4 * sizes[0]))
        yield visitor


def front_of(id_):
    return f"/dashboard/experiments/{id_}/front"


def table(page):
    """Rows by arm: the numbers behind the words, and all words."""
    rows = {}
    for name, row in re.findall(r'<tr data-arm="([^"]*)">(.*?)</tr>', page.text, re.DOTALL):
        numbers = [float(value) for value in re.findall(r'<data value="([^"]*)"', row)]
        rows[name] = (numbers, re.sub(r"<[^>]*>", " ", row))
    return rows


# ---- the area that would be better ----------------------------------------------------------------------------------


def is_inside(point, corners):
    """Whether a point is within a convex polygon, corner by corner; a plain twin."""
    turns = []
    for a, b in zip(corners, [*corners[1:], corners[0]], strict=True):
        turns.append((b[0] - a[0]) * (point[1] - a[1]) - (b[1] - a[1]) * (point[0] - a[0]))
    return all(t >= 0 for t in turns) or all(t <= 0 for t in turns)


CONES = [
    cb.Cone.orthant(2),
    *(cb.Cone.wedge(angle) for angle in (20, 60, 120, 170, 180)),
    cb.Cone.from_rays([[1, 0.1], [-0.5, 1]]),
    cb.Cone.from_facets([[1, -3], [2, 1]]),
    cb.Cone.from_tradeoffs("one unit of a is worth between 2 and 3 of b", names=["a", "b"]),
    cb.Cone.from_weights([[1, 0]]),
]


@pytest.mark.parametrize("cone", CONES, ids=repr)
@pytest.mark.parametrize("costs", [(1, 1), (1, -1), (-1, -1)])
def test_the_area_has_exactly_the_points_that_the_cone_calls_better(cone, costs, rng):
    """Values of metrics, of which some are costs, on axes of very different units."""
    low, high = np.array([-3.0, 1e4]), np.array([5.0, 9e4])
    sign, facets = np.array(costs), cone.facets * np.array(costs) / (high - low)
    tip = rng.uniform(low, high)
    corners = better_region(tuple(tip), facets.tolist(), tuple(low), tuple(high))
    points = rng.uniform(low, high, (400, 2))
    rewards = sign * (points - tip) / (high - low)  # in which the cone is declared
    margin = (rewards @ cone.facets.T).min(axis=1)
    clear = np.abs(margin) > 1e-6  # others are on the border
    few = needed_facets([*facets.tolist(), *(facets[:1] + facets[-1:]).tolist(), [0.0, 0.0]])
    assert better_region(tuple(tip), few, tuple(low), tuple(high)) == pytest.approx(np.array(corners))
    assert len(few) <= 2
    found = [bool(corners) and is_inside(point, corners) for point in points[clear]]
    assert found == (margin[clear] > 0).tolist()
    assert all((low - 1e-9 <= corner).all() and (corner <= high + 1e-3).all() for corner in np.array(corners))


def test_no_area_is_nothing():
    assert better_region((0.5, 0.5), [(1, 0), (-1, 0)], (0, 0), (1, 1)) == ()
    assert better_region((1.0, 1.0), [(1, 0), (0, 1)], (0, 0), (1, 1)) == (), "the tip is in the corner"
    everything = ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0))
    assert better_region((0.5, 0.5), [(0, 0)], (0, 0), (1, 1)) == everything, "facets about other metrics say nothing"


# ---- what the page says ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("context", [{"age": 50.0, "stage": "early"}, {"age": 22.5, "stage": "late"}])
def test_numbers_are_those_of_the_api(visitor, context):
    page = visitor.get(front_of("doses"), params={f"c.{name}": value for name, value in context.items()})
    query = {"context": json.dumps(context)}
    front = visitor.http.get("/experiments/doses/front", params=query).json()
    why = visitor.http.get("/experiments/doses/explain", params=query).json()
    rows = table(page)
    assert set(rows) == set(DOSES["arms"])
    on_front = {row["arm"]: row["estimates"] for row in front["arms"]}
    for name, (numbers, words) in rows.items():
        assert numbers[0] == front["chances"][name]
        assert share(numbers[0]) in words
        assert (" yes " in words) == (name in on_front)
        if name in on_front:
            estimates = on_front[name]
            assert numbers[1] == estimates["response"]["mean"]
            assert numbers[2] == min(max(estimates["toxicity"]["mean"], 0.0), 1.0), "within the declared range"
            assert (
                str(Interval(numbers[1], *(numbers[1] + s * estimates["response"]["radius"] for s in (-1, 1)))) in words
            )
    assert f"{why['learned']['response']:,} values of response" in page.words
    assert "response, points (more is better)" in page.words
    assert "toxicity (less is better)" in page.words


def test_who_beats_whom_and_by_how_much(visitor):
    """The margins of ``explain`` on each facet, in the units of a metric."""
    experiment = Experiment.from_dict(DOSES)
    weight, other = facets_of(experiment.cone, experiment.metrics)
    assert {weight.words, other.words} == {"response", "response - 4 toxicity"}
    seen = 0
    for age in (20.0, 50.0, 80.0):
        page = visitor.get(front_of("doses"), params={"c.age": age})
        why = visitor.http.get(
            "/experiments/doses/explain", params={"context": json.dumps({"age": age, "stage": "early"})}
        ).json()
        rows = table(page)
        for beaten in why["beaten"]:
            _, words = rows[beaten["arm"]]
            assert f"{beaten['by']}: " in words
            for facet, lead, deviation in zip((weight, other), beaten["leads"], beaten["deviations"], strict=True):
                amount, radius = abs(lead) / facet.scale, 2 * deviation / facet.scale
                word = "higher" if lead > 0 else "lower"
                assert f"{facet.words} {word} by {Interval(amount, amount - radius, amount + radius)} points" in words
                seen += 1
    assert seen, "somebody is beaten somewhere"


def test_a_cost_is_a_cost_and_the_cone_is_in_words(visitor):
    page = visitor.get(front_of("doses"))
    assert "More response and less toxicity are better." in page.words
    assert "One unit of response is worth at least 0.25 of toxicity." in page.words
    assert "one unit less of toxicity counts as 4 of response" in page.words
    assert "Differences up to 0.05 points in response do not matter" in page.words
    arms = [given for tag, given in page.elements if tag == "g" and given.get("class", "").startswith("arm")]
    assert len(arms) == 4
    assert all(arm["tabindex"] == "0" and "toxicity" in arm["aria-label"] for arm in arms)
    assert sum(given.get("class") == "better" for _, given in page.elements) == 4


def test_the_default_context_is_the_middle_and_the_first_level(visitor):
    page = visitor.get(front_of("doses"))
    sliders = [given for tag, given in page.elements if tag == "input" and given.get("type") == "range"]
    assert [(s["name"], s["value"], s["min"], s["max"]) for s in sliders] == [("c.age", "50.0", "20.0", "80.0")]
    assert [given["value"] for tag, given in page.elements if tag == "option" and "selected" in given] == ["early"]
    assert "another one" in page.words, "the column takes levels that are not declared"
    visitor.get(front_of("doses"), params={"c.stage": ""})


def test_the_context_of_a_recent_decision(visitor):
    reply = visitor.http.get(front_of("doses"), params={"recent": "yes"})
    assert reply.status_code == 303
    assert "c.age=" in reply.headers["location"]
    assert table(visitor.get(reply.headers["location"]))
    nobody = visitor.http.get(front_of("empty"), params={"recent": "yes"})
    assert "No recent decision" in visitor.get(nobody.headers["location"]).words


def test_an_erased_context_is_not_a_recent_one(tmp_path):
    at, somebody = "/experiments/doses", {"id": "d1", "unit": "ann", "context": {"age": 33, "stage": "late"}}
    with serving(str(tmp_path / "log.db")) as url, Visitor(url) as visitor:
        visitor.http.post("/experiments", json=DOSES | {"unit": {}, "policy": {"name": "LinearParetoUCB"}})
        assert (reply := visitor.http.post(f"{at}/decisions", json=somebody)).status_code == 200, reply.text
        recent = visitor.http.get(front_of("doses"), params={"recent": "yes"}).headers["location"]
        assert recent.endswith("?c.age=33.0&c.stage=late")
        erasure = {"unit": "ann", "reason": "consent withdrawn"}
        assert (reply := visitor.http.post(f"{at}/erasures", json=erasure)).status_code == 200, reply.text
        assert visitor.http.get(front_of("doses"), params={"recent": "yes"}).headers["location"].endswith("?none=yes")


def test_htmx_gets_the_part_that_changes(visitor):
    part = visitor.get(front_of("doses"), headers={"hx-request": "true"})
    assert "<html" not in part.text
    assert table(part) == table(visitor.get(front_of("doses")))


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"c.age": "old"}, "'age' must be a number; got 'old'"),
        ({"c.age": "nan"}, "'age' must"),
        ({"c.age": "200"}, "'age' must lie in [20, 80]"),
        ({"pair": "7-9"}, "pair must be two positions"),
    ],
)
def test_nonsense_gets_a_message(visitor, query, words):
    assert words in visitor.get(front_of("doses"), 422, params=query).words


def test_without_observations_nothing_is_drawn(visitor):
    page = visitor.get(front_of("empty"))
    assert "Nothing can be estimated yet" in page.words
    assert not [tag for tag, _ in page.elements if tag == "svg"]
    assert all("not known" in words for _, words in table(page).values())
    assert "0 values of response" in page.words


@pytest.mark.parametrize(("id_", "panels"), [("one", 1), ("three", 4), ("five", 2), ("many", 2), ("alone", 1)])
def test_any_number_of_arms_and_metrics(visitor, id_, panels):
    page = visitor.get(front_of(id_))
    assert sum(tag == "svg" for tag, _ in page.elements) == panels
    arms = [given for tag, given in page.elements if tag == "g" and given.get("class", "").startswith("arm")]
    assert len(arms) == panels * min(SIZES[id_][0], MAX_DRAWN)
    assert len(table(page)) == SIZES[id_][0]
    assert "<b>EUR" not in page.text
    assert not [given for _, given in page.elements if "style" in given or any(name.startswith("on") for name in given)]
    assert not [given for tag, given in page.elements if tag == "script" and "src" not in given]
    if id_ == "five":
        chosen = visitor.get(front_of(id_), params={"pair": "1-4"})
        assert "metric 1 and metric 4. Point at an arm" in chosen.words
    if id_ == "many":
        assert f"{MAX_DRAWN} of 70 arms are drawn" in page.words


def test_retired_and_suspended_arms_are_marked(tmp_path):
    experiment = DOSES | {
        "policy": {"name": "LinearParetoUCB"},
        "rules": [{"name": "few", "arm": "middle", "at_most": 3}],
    }
    with serving(str(tmp_path / "log.db")) as url, Visitor(url) as visitor:
        assert (reply := visitor.http.post("/experiments", json=experiment)).status_code == 201, reply.text
        run(visitor, experiment, dose, 60)
        assert (reply := visitor.http.post("/experiments/doses/arms", json={"retire": "high"})).status_code == 200, (
            reply.text
        )
        page = visitor.get(front_of("doses"))
        assert "middle left out by a safety rule" in page.words
        rows = table(page)
        gone = "Retired, and not known to the policy any more: high." in page.words
        assert gone or ("retired" in rows["high"][1] and " no " in rows["high"][1])


def test_sliders_reach_both_ends():
    for low, high in ((18, 90), (0, 1), (0.1, 0.9), (-1e6, 1e6), (0, 0.7), (3, 3.0001)):
        step = slider_step(low, high)
        assert (high - low) / step >= 99
        assert math.isclose((high - low) / step, round((high - low) / step), rel_tol=1e-6)
