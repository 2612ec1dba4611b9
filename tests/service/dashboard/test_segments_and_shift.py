"""The pages "Segments" and "Shift" on a running service: what they say is what the API says."""

import json
import re
from html import unescape

import httpx
import numpy as np
import pytest

from conebandit.pages.wording import count, moment, share
from conebandit.service.http.server import serving
from conebandit.service.log.times import as_time
from tests.service.dashboard.looking import DOSES

BEFORE, AFTER = 600, 300  # decisions; those after it are about older people
LEVELS = [f"ward {k}" for k in range(24)]
OTHERS = {
    "kernel": DOSES | {"id": "kernel", "policy": "ConeKernel"},
    "empty": DOSES | {"id": "empty", "shift_block": "day"},
    "bare": DOSES | {"id": "bare", "context": []},
    "single": DOSES | {"id": "single", "arms": ["only"], "mode": "shadow"},
    "wide": DOSES
    | {
        "id": "wide",
        "arms": [f"\u05d0rm-{k}" + "x" * 50 for k in range(200)],
        "metrics": [{"name": f"m{k}", "units": "<script>alert(1)</script>"} for k in range(16)],
        "context": [{"name": f"c{k}", "low": 0, "high": 1} for k in range(8)] + [{"name": "ward", "levels": LEVELS}],
        "policy": "ParetoUCB1",
    },
}


def decide(client, id_, contexts, arms=()):
    """Decisions, and outcomes that make more of a dose better for the young."""
    for start in range(0, len(contexts), 300):
        part = contexts[start : start + 300]
        asked = [{"id": f"{id_}{start + i}", "context": context} for i, context in enumerate(part)]
        reply = client.post(f"/experiments/{id_}/decisions", json={"decisions": asked})
        assert reply.status_code == 200, reply.text
        if arms:
            told = [
                {"id": d["id"], "values": {"response": arms.index(d["arm"]) * (50 - c["age"]) / 30, "toxicity": 0.1}}
                for d, c in zip(reply.json()["decisions"], part, strict=True)
            ]
            assert client.post(f"/experiments/{id_}/outcomes", json={"outcomes": told}).status_code == 200


def people(rng, n, low, high):
    stages = rng.choice(["early", "late"], n).tolist()
    ages, weights = rng.uniform(low, high, n).tolist(), rng.uniform(50, 110, n).tolist()
    return [{"age": a, "weight": w, "stage": s} for a, w, s in zip(ages, weights, stages, strict=True)]


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with (
        serving(str(tmp_path_factory.mktemp("store") / "log.db")) as url,
        httpx.Client(base_url=url, timeout=120) as http,
    ):
        rng = np.random.default_rng(0)
        for declaration in (DOSES | {"shift_block": 1}, *OTHERS.values()):
            reply = http.post("/experiments", json=declaration)
            assert reply.status_code == 201, reply.text
        moved = people(rng, BEFORE, 20, 60) + people(rng, AFTER, 40, 80)
        decide(http, "doses", moved, DOSES["arms"])
        decide(http, "kernel", people(rng, 60, 20, 80), DOSES["arms"])
        decide(http, "bare", [{}] * 90)
        decide(http, "single", people(rng, 40, 20, 80))
        wide = [{f"c{k}": v for k, v in enumerate(row)} for row in rng.random((60, 8)).tolist()]
        decide(http, "wide", [{**context, "ward": LEVELS[k % 24]} for k, context in enumerate(wide)])
        yield http


def get(client, path, status=200, part=False):
    reply = client.get(f"/dashboard/experiments/{path}", headers={"hx-request": "true"} if part else {})
    assert reply.status_code == status, reply.text
    assert "style=" not in reply.text
    assert "<script>alert" not in reply.text
    return reply


def words(reply):
    """What can be read on a page."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", reply.text)))


@pytest.mark.parametrize("id_", ["doses", *OTHERS])
@pytest.mark.parametrize("view", ["segments", "shift"])
def test_the_page_comes_first_and_then_what_takes_a_while(client, id_, view):
    page = get(client, f"{id_}/{view}").text
    assert "without scripts" in page
    for path in re.findall(r'hx-get="/dashboard/experiments/([^"]*)"', page):
        assert path.startswith(f"{id_}/{view}")
        assert "<html" not in get(client, unescape(path), part=True).text


@pytest.mark.parametrize("id_", ["doses", *OTHERS])
@pytest.mark.parametrize(
    "query", ["segments?colour=leader", "segments?colour=front", "segments?colour=traffic", "shift?show=all"]
)
def test_everything_is_there_without_scripts(client, id_, query):
    page = get(client, f"{id_}/{query}")
    assert page.text.rstrip().endswith("</html>")
    assert "Asking the policy" not in page.text
    assert len(page.text) < 700_000
    assert not re.search(r"\bnan\b|\bNone\b", words(page))


def test_the_front_at_a_place_is_that_of_the_api(client):
    for id_ in ("doses", "kernel"):
        for age in (25.0, 75.0):
            page = words(get(client, f"{id_}/segments?x=age&y=weight&c.age={age}&c.stage=late&c.weight=80", part=True))
            context = json.dumps({"age": age, "stage": "late", "weight": 80})
            front = client.get(f"/experiments/{id_}/front", params={"context": context}).json()
            explained = client.get(f"/experiments/{id_}/explain", params={"context": context}).json()
            on, off = page.split("On the front")[1].split("Off the front")
            for row in front["arms"]:
                assert f" {row['arm']} " in on
                found = row["estimates"]["response"]
                value, radius = found["mean"], found["radius"]
                low, high = re.search(rf" {row['arm']} .*?\((-?[\d.]+) to (-?[\d.]+)\)", on).groups()
                assert float(low) == pytest.approx(value - radius, abs=0.06 * radius)
                assert float(high) == pytest.approx(value + radius, abs=0.06 * radius)
            for arm in set(DOSES["arms"]) - {row["arm"] for row in front["arms"]}:
                assert f" {arm} : most likely beaten by" in off
            for beaten in explained["beaten"] or ():
                assert re.search(rf" {beaten['arm']} : most likely beaten by {beaten['by']}: ", off)
            if front["chances"]:
                for row in front["arms"]:
                    assert f" {row['arm']} {share(front['chances'][row['arm']])} " in on


def test_rules_lead_to_a_typical_context_of_theirs(client):
    rules = get(client, "doses/segments/rules", part=True)
    said = words(rules)
    assert "Found from 900 of 900 decisions" in said
    links = re.findall(r'<a href="([^"]*)">a typical context', rules.text)
    assert len(links) == rules.text.count('<th scope="row"') > 1
    for link in links:
        assert "At age" in words(get(client, f"doses/segments{unescape(link).split('#')[0]}"))


def test_a_tile_leads_to_its_place(client):
    page = get(client, "doses/segments?x=stage&y=age&colour=traffic", part=True)
    assert page.headers["hx-push-url"] == "/dashboard/experiments/doses/segments?x=stage&y=age&colour=traffic"
    links = re.findall(r'<a href="([^"]*)" tabindex="-1"><title>([^<]*)</title>', page.text)
    assert len(links) > 50
    decisions = 0
    for address, title in links[:: len(links) // 5]:
        stage, age, n = re.match(r"stage ([\w ]+), age ([\d.]+): .*; (\d+) decisions? of the sample", title).groups()
        place = words(get(client, f"doses/segments{unescape(address)}", part=True))
        assert f"At stage {stage}, age {age}" in place
        assert f"{n} decision" in place.split("is off the front there")[-1].split("Chance: that")[0]
        decisions += int(n)
    assert decisions > 0


def test_what_is_fixed_stays_fixed_from_tile_to_tile(client):
    page = get(client, "doses/segments?x=age&y=&colour=front&c.weight=100&c.stage=late", part=True).text
    links = [unescape(link) for link in re.findall(r'<a href="([^"]*)" tabindex', page)]
    assert len(links) == 60, "a strip"
    assert all("c.weight=100" in link and "colour=front" in link for link in links)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("x=height", "x and y must be one of"),
        ("colour=<b>", "colour must be one of"),
        ("c.age=young", "'age' must be a number"),
        ("c.age=999", "'age' must lie in"),
        ("c.age=nan", "age"),
        ("c.age=", "'age' must be a number"),
    ],
)
def test_what_cannot_be_is_refused_in_words(client, query, reason):
    page = get(client, f"doses/segments?{query}", status=422)
    assert reason in words(page)
    assert "<b>" not in page.text


def test_levels_that_are_not_declared_are_a_place_of_their_own(client):
    page = get(client, "doses/segments?x=stage&y=&c.stage=", part=True)
    assert "At stage another one" in words(page)


def test_before_anything_was_learned_nobody_leads(client):
    assert "Nothing has been learned yet" in words(get(client, "empty/segments"))
    assert "Nothing has been learned yet" not in words(get(client, "doses/segments"))
    assert "There are no decisions yet" in words(get(client, "empty/segments/rules", part=True))
    assert "everybody gets the baseline" in words(get(client, "single/segments"))


def test_without_columns_everybody_gets_the_same(client):
    page = words(get(client, "bare/segments?colour=leader"))
    assert "Everywhere" in page
    assert "everyone" in page
    assert "There is no column that could have moved" in words(get(client, "bare/shift?show=all"))


def test_a_wide_experiment_fits_on_a_page(client):
    page = get(client, "wide/segments?x=ward&y=c0")
    assert "4 are left out" in words(page)
    assert "Levels of ward" in words(page)
    assert page.text.count('type="range"') == 8


# ---- shift ----------------------------------------------------------------------------------------------------------


def test_the_alarm_is_that_of_the_api(client):
    report = client.get("/experiments/doses/shift").json()
    alarm = report["alarm"]
    assert alarm["coordinate"] == "age"
    page = words(get(client, "doses/shift/alarm", part=True))
    assert "The population has changed : seen in age" in page
    assert f"{moment(as_time(alarm['noticed_at'], ''))}, after {count(alarm['at'])} contexts" in page
    assert f"{moment(as_time(alarm['since'], ''))}, after {count(alarm['change_point'])} contexts" in page
    assert "an alarm is raised at 100" in page
    assert f"{share(report['recent']['little_support'])} of the latest contexts" in page


def test_what_came_before_the_change_is_compared_with_what_came_after(client):
    for path in ("doses/shift/alarm", "doses/shift?show=all"):
        reply = get(client, path, part="alarm" in path)
        page, alarm = words(reply), client.get("/experiments/doses/shift").json()["alarm"]
        early, late = map(int, re.search(r"(\d+) decisions of the sample from .* and (\d+) from ", page).groups())
        assert abs(early - alarm["change_point"]) <= 300, "decisions of one request have the same time"
        assert early + late == BEFORE + AFTER
        assert "most of all age" in page
        assert "beyond all earlier ones in at least one of the columns that moved" in page
        assert "alarm" in reply.text.split("Traffic by segment")[1].split("</svg>")[0], "a line in the picture"


def test_without_an_alarm_there_is_nothing_to_do(client):
    page = words(get(client, "kernel/shift/alarm", part=True))
    assert "There can be no alarm yet. 60 contexts have come" in page
    assert "The monitor needs 511 contexts to compare later ones with, after the first ones" in page
    days = words(get(client, "empty/shift/alarm", part=True))
    assert "The monitor needs 15 blocks to compare later ones with." in days
    assert "No column moved more than chance allows" in words(get(client, "kernel/shift/population", part=True))


def test_a_time_is_chosen_or_refused(client):
    since = client.get("/experiments/doses/shift").json()["alarm"]["since"][:19]
    page = get(client, f"doses/shift/population?since={since}", part=True)
    assert f'value="{since}"' in page.text
    for given in ("yesterday", "2026-99-99T00:00", "9" * 400):
        assert "since must be a date and time" in words(get(client, f"doses/shift?since={given}", status=422))
    thirds = words(get(client, "doses/shift/population?since=", part=True))
    assert re.search(r"300 decisions of the sample from .* and 300 from", thirds), "chosen, too"
    assert "too few to compare" in words(get(client, "doses/shift/population?since=1971-01-01T00:00", part=True))


def test_what_is_not_there_is_not_found(client):
    for path in ("segments", "segments/rules", "shift", "shift/alarm", "shift/population", "segments?x=age"):
        get(client, f"nothing/{path}", status=404)
