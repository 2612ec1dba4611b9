"""The map and the comparison of two periods in a real browser: what is clicked or typed is what is shown."""

import json
import re

import pytest

WIDE = "/dashboard/experiments/trial/segments?x=age&y=weight&colour=leader"


@pytest.fixture
def page(trial, watch):
    watched = watch()
    watched.page.goto(f"{trial[0]}/dashboard/experiments/trial/segments", wait_until="networkidle")
    return watched.page


def place(page):
    return page.locator("#segments-map h3").inner_text()


def test_a_click_on_a_tile_shows_the_front_there(trial, page):
    service, client = trial
    page.goto(service + WIDE)
    before, tile = place(page), page.locator("#segments-map svg a").nth(25)
    title = tile.locator("title").text_content()
    age, weight = re.match(r"age ([\d.]+), weight ([\d.]+): ", title).groups()
    tile.click()
    page.get_by_text(f"At age {age}, weight {weight}").wait_for()
    assert f"c.age={age}&c.weight={weight}" in page.url
    stage = page.get_by_label("stage").input_value()
    context = json.dumps({"age": float(age), "weight": float(weight), "stage": stage})
    front = client.get("/experiments/trial/front", params={"context": context}).json()
    shown = page.locator("#segments-map tr[data-arm]").evaluate_all("rows => rows.map(row => row.dataset.arm)")
    assert sorted(shown) == sorted(arm["arm"] for arm in front["arms"])
    page.go_back()
    page.locator("#segments-map h3", has_text=before).wait_for()
    assert page.url == service + WIDE


def test_a_place_is_chosen_by_keyboard_and_keeps_the_focus(trial, page):
    page.goto(trial[0] + WIDE)
    slider = page.get_by_label(re.compile("^age"))
    slider.focus()
    before = place(page)
    with page.expect_response(re.compile("/segments")):
        slider.press("ArrowRight")
    page.wait_for_function("before => document.querySelector('#segments-map h3').innerText !== before", arg=before)
    assert page.evaluate("document.activeElement.type") == "range"
    assert f"{float(slider.input_value()):g}" in place(page)


def choose(page, field, value):
    with page.expect_response(re.compile("/segments")):
        page.locator(field).select_option(value)
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(300)  # until htmx knows the fields that have come; people are slower than that


def test_columns_and_colours_are_chosen(trial, page):
    page.goto(trial[0] + WIDE, wait_until="networkidle")  # over columns that do not depend on what was learned
    tiles = page.locator("#segments-map svg a")
    choose(page, "#map-colour", "traffic")
    assert page.get_by_text(re.compile(r"decisions? \d+ tile")).count() > 0
    choose(page, "#map-y", "")
    assert tiles.count() == 60
    choose(page, "#map-x", "stage")
    assert tiles.count() == 2


def test_two_periods_are_compared(trial, watch):
    page = watch().page
    page.goto(f"{trial[0]}/dashboard/experiments/trial/shift", wait_until="networkidle")
    assert "There can be no alarm yet" in page.locator("#shift-alarm").inner_text()
    assert "most of all age" in page.locator("#shift-population").inner_text()
    page.get_by_label(re.compile("Compare what came before")).fill("2001-01-01T00:00:00")
    page.get_by_text("too few to compare").wait_for()
