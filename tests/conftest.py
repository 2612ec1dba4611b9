"""Shared fixtures, and the rule that CI may not skip."""

import functools
import os
import sys
import threading
from collections.abc import Generator
from typing import Any

import hypothesis
import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

# Shared machines are slow at times, so no deadlines; CI looks at the same examples every time.
hypothesis.settings.register_profile("conebandit", deadline=None, max_examples=150, derandomize="CI" in os.environ)
hypothesis.settings.load_profile("conebandit")


def pytest_configure() -> None:
    """Do not trace Numba's compiler: it is not ours to cover, and traced it takes 40 % longer."""
    compile_kernel = Dispatcher.compile

    @functools.wraps(compile_kernel)
    def untraced(*arguments: Any, **options: Any) -> Any:
        tracer = sys.gettrace()
        if tracer is None:
            return compile_kernel(*arguments, **options)
        sys.settrace(None)
        try:
            return compile_kernel(*arguments, **options)
        finally:
            sys.settrace(tracer)
            _wake_tracer()

    Dispatcher.compile = untraced


def _wake_tracer() -> None:
    """Nothing; but coverage's tracer takes over again at a call, and must have done so when its caller returns."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Coverage does not see tests with the mark ``untraced``: traced, these take twice as long, mostly in plain twins.

    What it does not see can only lower the figures that have a gate. (With xdist, pytest-cov's own ``no_cover`` goes on
    tracing, for a second measurement that it has begun in each worker.)
    """
    tracer, of_threads = sys.gettrace(), threading.gettrace()
    if item.get_closest_marker("untraced") is None or not type(tracer).__module__.startswith("coverage"):
        return (yield)
    sys.settrace(None)
    threading.settrace(None)
    try:
        return (yield)
    finally:
        sys.settrace(tracer)
        threading.settrace(of_threads)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20261115)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With CONEBANDIT_TEST_ALL=1 a skipped test is a failure: CI has everything that a test may need.

    All but what only a package of the system provides and ``.ci/run`` could not install, and what is too large for it:
    the marks ``system_package`` and ``large_package``.
    """
    report = yield
    optional = any(item.get_closest_marker(mark) for mark in ("system_package", "large_package"))
    needed = not hasattr(report, "wasxfail") and not optional
    if report.skipped and needed and os.environ.get("CONEBANDIT_TEST_ALL") == "1":
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped although CONEBANDIT_TEST_ALL=1: {report.longrepr}"
    return report
