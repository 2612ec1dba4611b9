"""Killed at random moments: what was acknowledged is there, once. CONEBANDIT_KILLS=50 for the long version."""

import os

from tests.service.crash import kill_the_database, kill_the_service, with_everything

KILLS = int(os.environ.get("CONEBANDIT_KILLS", "2"))


def test_killing_the_service(tmp_path, declaration):
    assert_nothing_is_lost(kill_the_service(tmp_path, declaration, KILLS))


def test_killing_the_database_under_four_processes(postgres, declaration):
    assert_nothing_is_lost(kill_the_database(postgres, declaration, KILLS))


def test_killing_the_service_with_units_rules_and_erasures(tmp_path, declaration):
    assert_nothing_is_lost(kill_the_service(tmp_path, with_everything(declaration), KILLS))


def test_killing_the_database_with_units_rules_and_erasures(postgres, declaration):
    assert_nothing_is_lost(kill_the_database(postgres, with_everything(declaration), KILLS))


def assert_nothing_is_lost(found):
    assert found.decisions > 10, found
    assert (found.lost, found.twice, found.fronts_differ, found.agrees, found.left) == (0, 0, 0, True, 0), found
