"""Every view in a real browser: nothing goes wrong, nothing is too wide, and everybody can use it."""

import pytest

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
    if size != "projector":
        assert watched.axe() == []


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
