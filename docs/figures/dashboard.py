"""Screenshots of the dashboard, after the trial of ``conebandit demo``: python docs/figures/dashboard.py.

Needs Chromium and playwright (the extra ``dev``); takes about a minute.
"""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from conebandit.service.demo.trial import Trial, running
from conebandit.service.demo.world import EXPERIMENT
from conebandit.service.report.pdf import FLAGS, check_chromium

FOLDER = Path(__file__).parent
SECONDS = 25.0
# Name of the picture, path of the view, its height, whether on dark ground, width.
PICTURES = (
    ("dashboard-overview", "", 1000, False, 1280),
    ("dashboard-front", "/front", 900, False, 1280),
    ("dashboard-segments", "/segments", 1250, False, 1280),
    ("dashboard-shift", "/shift", 1000, False, 1280),
    ("dashboard-what-if", "/what-if", 900, True, 1280),
    ("dashboard-phone", "/front", 844, True, 390),
)


def wait_until_whole(page: Page) -> None:
    """Until no part of the page is still to come."""
    for _ in range(240):
        page.wait_for_timeout(500)
        if not page.evaluate("document.body.innerText.includes('of the log read')"):
            break
    page.wait_for_load_state("networkidle")


def main() -> None:
    """Run the trial, and look at it."""
    with running() as (address, client, clock), sync_playwright() as playwright:
        trial = Trial(client, clock)
        trial.begin()
        trial.run(SECONDS)
        browser = playwright.chromium.launch(executable_path=check_chromium(), args=list(FLAGS))
        for name, path, height, dark, width in PICTURES:
            context = browser.new_context(
                viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
            )
            page = context.new_page()
            page.goto(f"{address}/dashboard/experiments/{EXPERIMENT}{path}")
            wait_until_whole(page)
            page.reload()
            wait_until_whole(page)
            if path == "/front" and width > 1000:
                page.locator("svg.chart [tabindex='0']").nth(1).focus()  # shows what would be better than it
            page.screenshot(path=FOLDER / f"{name}.png")
            context.close()
        browser.close()


if __name__ == "__main__":
    main()
