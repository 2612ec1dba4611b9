"""Edges and the service are killed while edges decide: what was answered is in the log, once; verify agrees."""

from tests.service.edge_crash import kill_edges


def test_nothing_is_lost_and_nothing_twice_when_edges_and_the_service_are_killed(tmp_path, declaration):
    found = kill_edges(tmp_path, str(tmp_path / "log.db"), declaration, kills=3)
    assert (found.lost, found.twice, found.refused, found.agrees) == (0, 0, 0, True)
    assert found.decisions >= 100
    assert found.outcomes >= 10
    assert found.recomputed >= found.decisions


def test_the_same_with_two_edges_and_two_services_on_postgresql(tmp_path, declaration, postgres):
    found = kill_edges(tmp_path, postgres.fresh_database("edge_crash"), declaration, kills=2, n_edges=2)
    assert (found.lost, found.twice, found.refused, found.agrees) == (0, 0, 0, True)
    assert found.decisions >= 100
    assert found.recomputed >= found.decisions
