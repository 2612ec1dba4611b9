"""HTML as PDF, printed by Chromium, where that is installed."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from conebandit.experiment.errors import InvalidError
from conebandit.service.errors import ServiceError

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-extensions"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-pdf-header-footer"),
)
PATIENCE = 120.0  # seconds


def chromium() -> str | None:
    """Where Chromium is; None if it is not installed."""
    return next((found for name in NAMES if (found := shutil.which(name)) is not None), None)


def check_chromium() -> str:
    """Where Chromium is; an ``InvalidError`` if it is not installed."""
    found = chromium()
    if found is None:
        raise InvalidError(
            "PDF needs Chromium, and there is none on this machine. Install it (apt-get install chromium), or ask for "
            "HTML, and print that from any browser."
        )
    return found


def to_pdf(html: str) -> bytes:
    """A page that loads nothing from elsewhere, on paper; a new profile each time, so that nothing is left behind.

    Raises
    ------
    InvalidError
        If there is no Chromium.
    ServiceError
        If it does not print the page.
    """
    browser = check_chromium()
    with tempfile.TemporaryDirectory(prefix="conebandit-", ignore_cleanup_errors=True) as folder:
        page, paper = Path(folder) / "report.html", Path(folder) / "report.pdf"
        page.write_text(html, encoding="utf-8")
        profile = f"--user-data-dir={Path(folder) / 'profile'}"
        command = [browser, *FLAGS, profile, f"--print-to-pdf={paper}", page.as_uri()]
        try:
            subprocess.run(command, timeout=PATIENCE, check=True, capture_output=True)
            return paper.read_bytes()
        except (OSError, subprocess.SubprocessError) as error:
            raise ServiceError(f"Chromium ({browser}) did not print the report: {error}.") from error
