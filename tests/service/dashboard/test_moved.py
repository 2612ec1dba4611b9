"""Traffic by segment over time, and two parts of a sample compared: numbers are those that one would count by hand."""

from dataclasses import replace

import numpy as np
import pytest

from conebandit.experiment.columns import Categorical, Numeric
from conebandit.service.dashboard.segments.moved import BINS, MAX_PERIODS, as_pair, compare, traffic
from conebandit.service.dashboard.segments.rules import find_rules
from tests.service.dashboard.looking import DAY, DOSES, a_look, a_sample


@pytest.fixture(scope="module")
def look():
    return a_look()


def moved_sample(look, n=600):
    """The second half is older, and some of it beyond all of the first half."""
    sample = a_sample(look, n)
    sample.x[: n // 2, 0] *= 0.5
    return sample


def test_every_decision_follows_one_rule_and_shares_are_those_of_the_sample(look):
    sample = a_sample(look)
    rules = find_rules(look, sample)
    assert len(rules.segments) > 1
    assert rules.made_from == len(sample)
    sizes = [int((rules.places == k).sum()) for k in range(len(rules.segments))]
    assert sizes == [segment.size for segment in rules.segments]
    assert rules.shares(np.ones(len(sample), dtype=bool)) == pytest.approx([s / len(sample) for s in sizes])
    assert rules.shares(np.zeros(len(sample), dtype=bool)) == [0.0] * len(sizes)


def test_there_are_no_rules_without_decisions(look):
    assert find_rules(look, a_sample(look, 0)) is None


def test_one_decision_is_enough_for_a_rule_about_everyone(look):
    [segment] = find_rules(look, a_sample(look, 1)).segments
    assert segment.rule == "everyone"


def test_traffic_is_counted_by_day(look):
    sample = a_sample(look, n=300, days=10)
    rules = find_rules(look, sample)
    periods = traffic(rules, sample)
    assert all(period.end - period.start == 6 * 3_600_000 for period in periods), "forty bars at most"
    periods = traffic(rules, replace(sample, at=sample.at * 2))
    assert [period.start for period in periods] == [day * DAY for day in range(20)]
    assert sum(period.decisions for period in periods) == 300
    for period in periods:
        inside = (2 * sample.at >= period.start) & (2 * sample.at < period.end)
        assert period.decisions == inside.sum()
        assert sum(period.shares) == pytest.approx(1.0)
        assert period.shares[0] == pytest.approx((rules.places[inside] == 0).mean())


@pytest.mark.parametrize("length", [0, 1, 999, 60_000, 3_600_000, 40 * DAY, 4000 * DAY, 10**15])
def test_there_are_never_too_many_bars(look, length):
    sample = replace(a_sample(look, 100), at=np.linspace(0, length, 100).astype(np.int64) + 1_700_000_000_000)
    periods = traffic(find_rules(look, sample), sample)
    assert 1 <= len(periods) <= MAX_PERIODS + 1
    assert sum(period.decisions for period in periods) == 100


def test_the_column_that_moved_comes_first(look):
    sample = moved_sample(look)
    rules = find_rules(look, sample)
    found = compare(look, rules, sample, None)
    age = found.columns[0]
    assert (age.name, age.surely, age.is_level) == ("age", True, False)
    early, late = sample.x[:200, 0] * 60 + 20, sample.x[400:, 0] * 60 + 20
    assert (found.early.decisions, found.late.decisions) == (200, 200)
    assert age.measured.source_mean == pytest.approx(early.mean())
    assert age.measured.target_mean == pytest.approx(late.mean())
    plain = max(abs((early <= v).mean() - (late <= v).mean()) for v in np.concatenate([early, late]))
    assert age.measured.distance == pytest.approx(plain)
    assert age.size == ("clearly" if plain < 0.5 else "very much")
    assert age.beyond == pytest.approx((late > early.max()).mean() + (late < early.min()).mean())
    assert found.beyond == age.beyond > 0.3, "no other column moved"
    assert all(len(part) == BINS and sum(part) == pytest.approx(1.0) for part in age.bins)
    assert not any(column.surely for column in found.columns[1:])
    for rows in (found.arms, found.segments):
        assert sum(row.before for row in rows) == pytest.approx(1.0)
        assert sum(row.after for row in rows) == pytest.approx(1.0)


def test_recommended_arms_are_those_of_the_policy(look):
    sample = a_sample(look, 90)
    found = compare(look, find_rules(look, sample), sample, None)
    fronts = look.policy.fronts(sample.x[60:])
    alone = sum(front.arms == (0,) for front in fronts) / 30
    assert next(row.after for row in found.arms if row.name == "placebo") >= alone


def test_parts_are_split_at_a_time(look):
    sample = moved_sample(look)
    since = int(sample.at[300])
    found = compare(look, find_rules(look, sample), sample, since)
    assert found.early == (300, sample.at[0], sample.at[299])
    assert found.late == (300, since, sample.at[-1])


@pytest.mark.parametrize("since", [None, 0, 10**15])
def test_too_few_are_not_compared(look, since):
    sample = a_sample(look, 59)
    assert compare(look, find_rules(look, sample), sample, since) is None


def test_a_unit_that_comes_again_counts_once(look):
    sample = moved_sample(look)
    sample.visit[::2] = 2
    found = compare(look, find_rules(look, sample), sample, None)
    assert (found.early.decisions, found.late.decisions) == (100, 100)


def test_what_is_the_same_everywhere_cannot_have_moved(look):
    sample = a_sample(look)
    sample.x[:] = sample.x[0]
    found = compare(look, find_rules(look, sample), sample, None)
    assert (found.columns, found.exchange, found.beyond) == ([], None, 0.0)
    none = a_look(DOSES | {"context": []})
    sample = a_sample(none)
    assert compare(none, find_rules(none, sample), sample, None).columns == []


def test_levels_are_columns_of_their_own():
    stage, age = Categorical("stage", ("a", "b", "c")), Numeric("age", 20, 80)
    early, late = np.array([[0.0, 1, 0, 0], [0.5, 0, 1, 0]]), np.array([[1.0, 0, 1, 0]])
    pair = as_pair([age, stage], early, late)
    assert pair.columns == ("age", "stage is a", "stage is b"), "nobody is c"
    assert pair.source.tolist() == [[20.0, 1.0, 0.0], [50.0, 0.0, 1.0]]
    assert pair.target.tolist() == [[80.0, 0.0, 1.0]]
