"""Regions and the front of policies."""

import json

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

import conebandit as cb
from conebandit.evaluation.regions import differences, largest_deviation, standings
from tests.evaluation.logs import random_log, random_policy


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_simultaneous_quantiles(level):
    assert largest_deviation(np.diag([4.0]), level) == norm.ppf(0.5 + level / 2)
    assert largest_deviation(np.diag([4.0, 0.0]), level) == norm.ppf(0.5 + level / 2)
    assert largest_deviation(np.zeros((2, 2)), level) == norm.ppf(0.5 + level / 2)
    alone = norm.ppf(0.5 + 0.5 * level ** (1 / 4))
    assert largest_deviation(np.diag([1.0, 4.0, 9.0, 1e-20]), level) == pytest.approx(alone, abs=0.06)
    # Two correlated ones, by the exact probability of a square.
    covariance = np.array([[1.0, 0.8], [0.8, 1.0]])
    c = largest_deviation(covariance, level)
    law = multivariate_normal(cov=covariance)
    inside = law.cdf([c, c]) - law.cdf([-c, c]) - law.cdf([c, -c]) + law.cdf([-c, -c])
    assert inside == pytest.approx(level, abs=0.016)


def plain_standings(values, covariance, facets, c):
    n, found = len(values), []
    for k in range(n):
        off, on = False, True
        for j in range(n):
            if j == k:
                continue
            lead, spread = [], []
            for facet in facets:
                direction = np.zeros_like(values)
                direction[j], direction[k] = facet, -facet
                lead.append((direction * values).sum())
                variance = np.einsum("pm,pmqn,qn->", direction, covariance, direction)
                spread.append(c * np.sqrt(max(variance, 0.0)))
            off |= all(a - b > 0 for a, b in zip(lead, spread, strict=True))
            on &= any(a + b < 0 for a, b in zip(lead, spread, strict=True))
        found.append("off" if off else "on" if on else "open")
    return found


@pytest.mark.parametrize(
    "cone", [cb.Cone.orthant(2), cb.Cone.wedge(60), cb.Cone.wedge(150), cb.Cone.from_weights([[1, 2]])]
)
def test_standings_are_those_of_plain_loops(cone):
    rng = np.random.default_rng(0)
    kinds = set()
    for _ in range(60):
        n = int(rng.integers(2, 6))
        values = rng.normal(size=(n, 2))
        root = rng.normal(0.0, rng.choice([0.02, 0.2, 1.0]), (2 * n, 2 * n)) / np.sqrt(2 * n)
        covariance = (root @ root.T).reshape(n, 2, n, 2)
        _, errors, radii = differences(values, covariance, cone.facets, 0.95)
        c = (radii / errors).max()
        np.testing.assert_allclose(radii, c * errors)
        found = standings(values, covariance, cone, 0.95)
        assert found == plain_standings(values, covariance, cone.facets, c)
        kinds |= set(found)
        front = cb.pareto_mask(values, cone)
        assert all(on for on, said in zip(front, found, strict=True) if said == "on")
        assert not any(on for on, said in zip(front, found, strict=True) if said == "off")
    assert kinds == {"on", "off", "open"}


def test_standings_of_known_values():
    nothing = np.zeros((3, 2, 3, 2))
    values = np.array([[1.0, 1.0], [0.0, 0.0], [1.0, 1.0]])
    assert standings(values, nothing, cb.Cone.orthant(2), 0.95) == ["on", "off", "on"]
    assert standings(values[:1], nothing[:1, :, :1], cb.Cone.orthant(2), 0.95) == ["on"]
    tied = np.array([[1.0, 1.0], [1.0, 0.5], [0.1 + 0.2, 3.0]])
    assert standings(tied, nothing, cb.Cone.orthant(2), 0.95) == ["on", "off", "on"]


def test_what_is_surely_worse_is_off_and_what_is_hardly_known_is_open():
    log = random_log(n=3000)  # each arm is better than the one before by 1 in both metrics
    found = cb.evaluate(log, {"a": "a", "b": "b", "c": "c", "nearly c": np.tile([0, 0.001, 0.999], (3000, 1))})
    assert found.standings["a"] == found.standings["b"] == "off"
    assert found.standings["c"] == "on"
    assert "c" in found.front
    assert "a" not in found.front
    small = cb.evaluate(log.take(slice(20)), ["a", "b", "c"])
    assert "open" in small.standings.values()


def test_radii():
    log = random_log(1)
    found = cb.evaluate(log, {"one": random_policy(log, 1), "two": random_policy(log, 2)})
    np.testing.assert_allclose(found.radii(simultaneous=False), norm.ppf(0.975) * found.errors)
    assert (found.radii() > found.radii(simultaneous=False)).all()
    assert (found.radii() < norm.ppf(1 - 0.025 / 4) * 1.03 * found.errors).all()  # no larger than Bonferroni's
    assert (found.radii(level=0.5) < found.radii()).all()
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        found.radii(level=95)


def test_differences_of_unknown_policies_are_refused():
    found = cb.evaluate(random_log(), ["a", "b"])
    with pytest.raises(ValueError, match="policy must be one of a, b; got 'c'"):
        found.difference("a", "c")
    with pytest.raises(ValueError, match="two different policies"):
        found.difference("a", "a")


def test_everything_can_be_written_as_json_and_read_by_people():
    found = cb.evaluate(random_log(n=300), ["a", "b", "logged"])
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["policies"][1]["values"] == found.values[1].tolist()
    assert plain["policies"][1]["standing"] == found.standings["b"]
    assert plain["policies"][1]["overlap"]["effective_rows"] == found.overlap["b"].effective_rows
    text = str(found)
    assert text.splitlines()[0].split() == ["policy", "metric", "0", "metric", "1", "front", "rows", "in", "effect"]
    assert (
        "300 rows of a log that is not adaptive, estimator dr; with probability 0.95 all intervals hold at once."
        in text
    )
    assert len(text.splitlines()) == 5


def test_one_metric_and_one_policy():
    log = random_log(n_objectives=1)
    found = cb.evaluate(log, "a")
    assert found.standings == {"a": "on"}
    np.testing.assert_allclose(found.radii(), found.radii(simultaneous=False))
    with pytest.raises(ValueError, match="a figure shows two metrics; this evaluation has one, metric 0"):
        found.figure()


def test_figure():
    found = cb.evaluate(random_log(n_objectives=3), ["a", "b", "c"])
    axes = found.figure(("metric 2", "metric 0")).axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("metric 2", "metric 0")
    assert {text.get_text() for text in axes.texts} == {"a", "b", "c"}
    np.testing.assert_allclose(axes.lines[0].get_xydata()[0], found.values[0, [2, 0]])
    box = axes.patches[0]
    np.testing.assert_allclose([box.get_width(), box.get_height()], 2 * found.radii()[0, [2, 0]])
    with pytest.raises(ValueError, match="metrics must be two of"):
        found.figure(("metric 0", "metric 0"))
