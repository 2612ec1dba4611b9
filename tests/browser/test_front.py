"""The front and what if, in a browser: sliders, the area at the arm that is pointed at, copying."""

import json
import re
import tomllib

import pytest


def chances(page, column):
    """What the table says, by arm; ``column`` counts its numbers of chances."""
    rows = page.locator("#arms tbody tr").all()
    return {
        row.get_attribute("data-arm"): float(row.locator("data").nth(column).get_attribute("value")) for row in rows
    }


def test_moving_a_slider_shows_the_front_of_the_api(trial, watch):
    service, client = trial
    page = watch().page
    page.goto(f"{service}/dashboard/experiments/trial/front", wait_until="networkidle")
    with page.expect_response(re.compile("c.age=70")):
        page.locator("#context-0").fill("70")
    page.wait_for_url(re.compile("c.age=70"))
    assert page.locator("output[for=context-0]").inner_text() == "70"
    context = json.dumps({"age": 70, "weight": 80, "stage": "early"})
    front = client.get("/experiments/trial/front", params={"context": context}).json()
    assert chances(page, 0) == front["chances"]
    page.reload()
    assert chances(page, 0) == front["chances"], "the address has the context"


@pytest.mark.parametrize("size", ["phone", "desk"])
def test_the_area_shows_at_the_arm_that_has_the_focus(trial, watch, size):
    service, _ = trial
    page = watch(size).page
    page.goto(f"{service}/dashboard/experiments/trial/front", wait_until="networkidle")
    arm, areas = page.locator("g.arm").first, page.locator("g.arm .better")
    assert areas.count() == 4
    assert not any(area.is_visible() for area in areas.all())
    arm.focus()
    assert [area.is_visible() for area in areas.all()] == [True, False, False, False]
    page.keyboard.press("Tab")
    assert [area.is_visible() for area in areas.all()] == [False, True, False, False]
    arm.locator(".mark").hover(force=True)
    assert areas.first.is_visible()


def test_what_if_by_slider_and_copied(trial, watch):
    service, client = trial
    watched = watch(permissions=["clipboard-read", "clipboard-write"])
    page, before = watched.page, client.get("/experiments/trial").json()["events"]
    page.goto(f"{service}/dashboard/experiments/trial/what-if", wait_until="networkidle")
    assert "This is what is declared" in page.locator("#changes").inner_text()
    slider = page.locator("[data-sets=most-0]")
    low = slider.get_attribute("min")
    with page.expect_response(re.compile("most.0=0")):
        slider.fill(low)
    rate = float(page.locator("#most-0").input_value())
    assert rate == pytest.approx(10 ** float(low), rel=0.06)
    page.wait_for_function("document.getElementById('words-then').innerText.includes('at most')")
    assert chances(page, 0) != chances(page, 1)
    assert watched.axe() == []
    page.get_by_role("button", name="Copy as TOML").click()
    page.get_by_text("Copied").wait_for()
    [sentence] = tomllib.loads(page.evaluate("navigator.clipboard.readText()"))["cone"]["tradeoffs"]
    assert re.fullmatch(r"one unit of response is worth at most 0\.\d+ of toxicity", sentence)
    assert client.get("/experiments/trial").json()["events"] == before


def test_without_scripts_the_form_has_a_button(trial, watch):
    service, _ = trial
    page = watch(java_script_enabled=False).page
    page.goto(f"{service}/dashboard/experiments/trial/what-if")
    page.locator("#most-0").fill("0.2")
    page.get_by_role("button", name="Show").click()
    assert "at most 0.2 of toxicity" in page.locator("#words-then").inner_text()
    assert not page.locator("[data-sets=most-0]").is_visible()
