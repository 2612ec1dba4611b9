"""Using the dashboard as a person does: what is on the page is what the API says, and what is ordered is done."""

import json
from contextlib import closing

import httpx
import pytest

from conebandit.service.http.keys import create_key
from conebandit.service.http.server import serving
from conebandit.service.stores.base import open_store
from tests.browser.conftest import TRIAL, decision_of, fill, service_with, settled

TRIAL_PAGE = "/dashboard/experiments/trial"
PATIENT = {"age": 54, "weight": 80, "stage": "early"}


def first_number(text):
    return float(text.split(" ")[0].replace(",", ""))


def rows_of(page, table="#arms"):
    """The cells of a table's body, by the name of the arm."""
    return {
        row.get_attribute("data-arm"): [cell.inner_text() for cell in row.locator("td").all()]
        for row in page.locator(f"{table} tbody tr").all()
    }


def test_the_front_on_the_page_is_that_of_the_api(trial, watch):
    service, client = trial
    watched = watch()
    watched.page.goto(f"{service}{TRIAL_PAGE}/front", wait_until="networkidle")
    told = client.get("/experiments/trial/front", params={"context": json.dumps(PATIENT)}).json()
    shown = rows_of(watched.page)
    assert {arm for arm, cells in shown.items() if cells[0] == "yes"} == {arm["arm"] for arm in told["arms"]}
    for arm in told["arms"]:
        cells = shown[arm["arm"]]
        for cell, metric in zip(cells[2:], ("response", "toxicity"), strict=False):
            assert first_number(cell) == pytest.approx(arm["estimates"][metric]["mean"], abs=0.006)
    for arm, chance in told["chances"].items():
        percent = shown[arm][1].strip("<> %")
        assert float(percent) == pytest.approx(100 * chance, abs=1.01)


def test_moving_a_slider_changes_the_front_at_once(trial, watch):
    service, client = trial
    watched = watch()
    watched.page.goto(f"{service}{TRIAL_PAGE}/front", wait_until="networkidle")
    before = rows_of(watched.page)
    slider = watched.page.locator("input[type=range]").first
    with settled(watched.page):
        slider.focus()
        slider.press("Home")
    after = rows_of(watched.page)
    assert after != before
    told = client.get("/experiments/trial/front", params={"context": json.dumps(PATIENT | {"age": 18})}).json()
    assert {arm for arm, cells in after.items() if cells[0] == "yes"} == {arm["arm"] for arm in told["arms"]}


def test_the_cone_is_drawn_at_the_arm_under_the_pointer(trial, watch):
    service, _ = trial
    watched = watch()
    watched.page.goto(f"{service}{TRIAL_PAGE}/front", wait_until="networkidle")
    arms = watched.page.locator("svg.chart [tabindex='0']")
    assert arms.count() >= 3
    seen = """els => els.map(e => getComputedStyle(e)).filter(
        style => style.visibility !== 'hidden' && style.display !== 'none' && style.opacity > 0).length"""
    wedges = watched.page.locator("svg.chart .better")
    assert wedges.evaluate_all(seen) == 0
    arms.first.focus()
    assert wedges.evaluate_all(seen) == 1


def test_what_if_touches_nothing(trial, watch):
    service, client = trial
    before = client.get("/experiments/trial/state").json()
    watched = watch()
    watched.page.goto(f"{service}{TRIAL_PAGE}/what-if", wait_until="networkidle")
    watched.page.locator("input[name='most.0']").fill("1")
    watched.page.locator("input[name='least.0']").fill("0.9")
    watched.page.locator("#toml", has_text="tradeoffs").wait_for()
    assert client.get("/experiments/trial/state").json() == before


def test_a_tile_of_the_map_says_why_arms_are_off_the_front(trial, watch):
    service, _ = trial
    watched = watch()
    watched.page.goto(f"{service}{TRIAL_PAGE}/segments", wait_until="networkidle")
    tile = watched.page.locator("#segments-map svg a").first
    with settled(watched.page):
        tile.focus()
        tile.press("Enter")
    card = watched.page.locator("#segments-map .card").inner_text()
    assert "On the front" in card
    assert "Off the front" in card


def test_the_log_finds_a_decision_and_says_what_became_of_it(trial, watch):
    service, client = trial
    watched = watch()
    watched.page.goto(f"{service}{TRIAL_PAGE}/log")
    end = client.get("/experiments/trial/state").json()
    assert watched.page.locator("#checksum").inner_text() == end["check"]
    watched.page.locator("input[name=decision]").fill("patient-3")
    watched.page.locator("input[name=decision]").press("Enter")
    watched.page.wait_for_url("**decision=patient-3*")
    [assigned] = client.post(  # asked for again, it is the same
        "/experiments/trial/decisions", json={"decisions": [decision_of(3)]}
    ).json()["decisions"]
    assert assigned["arm"] in watched.page.locator("main").inner_text()


def posted(reply):
    return reply.request.method == "POST"


@pytest.fixture
def own_trial(tmp_path):
    """One that a test may change."""
    with service_with(tmp_path, [TRIAL]) as (address, client):
        fill(client, patients=60)
        yield address, client


def test_a_value_on_hold_is_released_and_the_trial_paused(own_trial, watch):
    service, client = own_trial
    watched = watch()
    page = watched.page
    page.goto(f"{service}{TRIAL_PAGE}/log/held")
    page.get_by_label("Reason, for the log").first.fill("a typing error")
    with page.expect_response(posted):
        page.get_by_role("button", name="Reject").first.click()
    assert client.get("/experiments/trial/held").json()["held"] == []
    page.goto(f"{service}{TRIAL_PAGE}/control")
    page.get_by_role("button", name="Pause …").click()
    assert page.locator("#consequences li").count() >= 1
    assert client.get("/experiments/trial").json()["stage"] == "running"  # nothing yet
    page.get_by_label("Reason, for the log").fill("the board meets")
    with page.expect_response(posted):
        page.get_by_role("button", name="Pause").click()
    assert client.get("/experiments/trial").json()["stage"] == "paused"


def test_signing_in_and_out(tmp_path, watch):
    store = str(tmp_path / "log.db")
    with closing(open_store(store)) as opened, opened.write() as session:
        reader = create_key(session, "reader", ["read"])
        admin = create_key(session, "admin", ["admin"])
    with serving(store) as service:
        made = httpx.post(f"{service}/experiments", json=TRIAL, headers={"X-API-Key": admin}, timeout=120)
        assert made.status_code == 201
        watched = watch()
        page = watched.page
        page.goto(f"{service}{TRIAL_PAGE}/front")
        assert "/dashboard/sign-in" in page.url
        assert watched.axe() == []
        page.get_by_label("API key").fill(reader)
        page.get_by_label("Your name").fill("Dr. Who")
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(f"**{TRIAL_PAGE}/front")
        assert "Dr. Who" in page.locator("header").inner_text()
        assert page.get_by_role("link", name="Control").count() == 0
        assert page.evaluate("document.cookie") == ""
        page.get_by_role("button", name="Sign out").click()
        page.goto(f"{service}{TRIAL_PAGE}/front")
        assert "/dashboard/sign-in" in page.url


@pytest.mark.parametrize(
    ("path", "part", "link_and_table"),
    [("/dashboard", "#experiments", ("#to-trial", "#table")), (TRIAL_PAGE, "#overview", ("#to-log", "#missing"))],
)
def test_what_comes_anew_keeps_the_focus_and_where_tables_are_scrolled_to(trial, watch, path, part, link_and_table):
    (address, _), (link, table) = trial, link_and_table
    page = watch("phone").page
    page.goto(address + path)
    page.evaluate(f"document.querySelector('{table}').scrollLeft = 40")
    page.focus(link)
    page.evaluate(f"document.querySelector('{link}').dataset.old = 'yes'")
    page.evaluate(f"htmx.ajax('GET', '{path}', '{part}')")
    page.wait_for_selector(f"{link}:not([data-old])")
    page.wait_for_function(f"document.activeElement === document.querySelector('{link}')")
    page.wait_for_function(f"document.querySelector('{table}').scrollLeft === 40")
