"""Killed at random moments: what was acknowledged is there, once. CONEBANDIT_KILLS=50 for the long version."""

import os

import pytest

from tests.service.crash import kill_the_database, kill_the_service, with_everything
from tests.service.databases import Postgres, binaries

KILLS = int(os.environ.get("CONEBANDIT_KILLS", "2"))


@pytest.fixture(scope="module")
def lonely_postgres():
    """A server without the databases of all other tests: after a kill it looks at every file that it has."""
    if binaries() is None:
        pytest.skip("PostgreSQL's binaries are not installed (apt-get install postgresql)")
    server = Postgres()
    yield server
    server.stop()


def test_killing_the_service(tmp_path, declaration):
    assert_nothing_is_lost(kill_the_service(tmp_path, declaration, KILLS))


def test_killing_the_database_under_four_processes(lonely_postgres, declaration):
    assert_nothing_is_lost(kill_the_database(lonely_postgres, declaration, KILLS))


def test_killing_the_service_with_units_rules_and_erasures(tmp_path, declaration):
    assert_nothing_is_lost(kill_the_service(tmp_path, with_everything(declaration), KILLS))


def test_killing_the_database_with_units_rules_and_erasures(lonely_postgres, declaration):
    assert_nothing_is_lost(kill_the_database(lonely_postgres, with_everything(declaration), KILLS))


def assert_nothing_is_lost(found):
    assert found.decisions > 10, found
    assert (found.lost, found.twice, found.fronts_differ, found.agrees, found.left) == (0, 0, 0, True, 0), found
