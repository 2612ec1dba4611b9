"""Shared fixtures, and the rule that CI may not skip."""

import os
from collections.abc import Generator

import hypothesis
import numpy as np
import pytest

# Shared machines are slow at times, so no deadlines; CI looks at the same examples every time.
hypothesis.settings.register_profile("conebandit", deadline=None, max_examples=150, derandomize="CI" in os.environ)
hypothesis.settings.load_profile("conebandit")

GEOMETRY = ("cone", "pareto", "gap", "laws")  # modules, and files of tests without their "test_"


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20261115)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Coverage is asked of the geometry, so only its tests are traced: traced, kernels compile 40 % slower."""
    for item in items:
        if item.path.stem.removeprefix("test_") not in GEOMETRY:
            item.add_marker("no_cover")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With CONEBANDIT_TEST_ALL=1 a skipped test is a failure: CI has everything that a test may need.

    All but what only a package of the system provides and ``.ci/run`` could not install: the mark ``system_package``.
    """
    report = yield
    needed = not hasattr(report, "wasxfail") and item.get_closest_marker("system_package") is None
    if report.skipped and needed and os.environ.get("CONEBANDIT_TEST_ALL") == "1":
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped although CONEBANDIT_TEST_ALL=1: {report.longrepr}"
    return report
