"""Every view in a real browser: nothing goes wrong, nothing is too wide, and everybody can use it."""

import pytest

from conebandit.pages.page import definitions, document, heading
from conebandit.service.dashboard.pages import VIEWS
from tests.browser.conftest import SIZES
from tests.browser.hostile import hostile_experiments

PATHS = {label: path for path, label, _ in VIEWS}


def address_of(service, experiment, label):
    return f"{service}/dashboard/experiments/{experiment}{PATHS[label]}"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("label", PATHS)
def test_a_view_of_a_running_experiment(trial, watch, label, size, scheme):
    service, _ = trial
    watched = watch(size, scheme)
    answer = watched.page.goto(address_of(service, "trial", label), wait_until="networkidle")
    assert answer.status == 200
    assert watched.page.locator("h1").count() == 1
    assert watched.page.locator("nav a[aria-current]").inner_text() == label
    assert watched.too_wide() <= 0
    assert watched.axe() == []


@pytest.mark.parametrize("path", ["", "/experiments/trial"])
def test_a_tab_that_nobody_sees_asks_for_nothing(trial, watch, path):
    service, _ = trial
    page, asked = watch().page, []
    page.clock.install()
    page.on("request", lambda request: asked.append(request) if "hx-request" in request.headers else None)
    page.goto(f"{service}/dashboard{path}", wait_until="networkidle")
    with page.expect_response(f"{service}/dashboard{path}"):
        page.clock.run_for(6_000)
    page.evaluate("Object.defineProperty(document, 'hidden', {get: () => window.hide, configurable: true})")
    page.evaluate("window.hide = true; document.dispatchEvent(new Event('visibilitychange'))")
    before = len(asked)
    page.clock.run_for(60_000)
    page.evaluate("fetch('/healthz')")  # what was asked for before is known then
    assert before >= 1
    assert len(asked) == before
    with page.expect_response(f"{service}/dashboard{path}"):
        page.evaluate("window.hide = false; document.dispatchEvent(new Event('visibilitychange'))")
    with page.expect_response(f"{service}/dashboard{path}"):
        page.clock.run_for(6_000)


def test_all_views_can_be_reached_by_keyboard(trial, watch):
    service, _ = trial
    watched = watch()
    watched.page.goto(service)
    watched.page.get_by_role("link", name="trial").press("Enter")
    for label in PATHS:
        watched.page.get_by_role("link", name=label, exact=True).press("Enter")
        watched.page.wait_for_url(address_of(service, "trial", label))


@pytest.mark.parametrize("label", PATHS)
@pytest.mark.parametrize("name", [each["id"] for each in hostile_experiments()])
def test_a_hostile_experiment_breaks_no_view(hostile, watch, name, label):
    _, service, _ = hostile
    watched = watch("phone")
    answer = watched.page.goto(address_of(service, name, label), wait_until="networkidle")
    assert answer.status == 200
    assert watched.page.locator("h1").count() == 1
    assert watched.page.evaluate("window.broken") is None
    assert watched.page.locator("main script, main img, main iframe").count() == 0
    assert watched.too_wide() <= 0
    text = watched.page.locator("main").inner_text()
    assert "NaN" not in text
    assert "None" not in text
    assert "49{%" not in text


def test_a_report_in_a_file_is_no_wider_than_a_phone(watch, tmp_path):
    facts = definitions([("Trial file", f"SHA-256 {'7e5b' * 16}"), ("Policies", "ParetoUCB1" * 12)])
    (tmp_path / "index.html").write_text(document("Report", heading("Report") + facts, ""), encoding="utf-8")
    watched = watch("phone")
    watched.page.goto((tmp_path / "index.html").as_uri())
    assert watched.page.locator("dd").evaluate_all("all => all.every(each => each.scrollWidth <= each.clientWidth)")
    assert watched.too_wide() <= 0
