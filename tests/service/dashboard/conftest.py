"""Visitors of a dashboard."""

from contextlib import ExitStack

import pytest

from tests.service.dashboard.visiting import Visitor


@pytest.fixture
def come(url):
    """Gives visitors of the service at ``url``."""
    with ExitStack() as stack:
        yield lambda at=url, **options: stack.enter_context(Visitor(at, **options))
