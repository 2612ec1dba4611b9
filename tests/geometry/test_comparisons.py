"""Cones from comparisons of outcomes, what contradicts what, and what to ask next; with plain twins."""

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import conebandit as cb
from conebandit import Cone, ContradictionError
from conebandit.geometry.contradictions import smallest_contradiction
from conebandit.geometry.polyhedra import primitive
from conebandit.geometry.questions import MAX_OUTCOMES


@st.composite
def comparisons(draw, most=6):
    """Pairs of different outcomes on a small grid, in one to four dimensions."""
    m = draw(st.integers(1, 4))
    outcome = st.lists(st.integers(-3, 3), min_size=m, max_size=m)
    pairs = draw(st.lists(st.tuples(outcome, outcome).filter(lambda p: p[0] != p[1]), min_size=1, max_size=most))
    better, worse = (np.array(side) for side in zip(*pairs, strict=True))
    return better, worse


def made(better, worse):
    try:
        return Cone.from_comparisons(better, worse)
    except ContradictionError:
        assume(False)


def contradict_by_program(differences):
    """Plain twin: is there a combination, coefficients >= 0 and summing to 1, without a positive entry?"""
    d = np.asarray(differences, dtype=float)
    found = linprog(np.zeros(len(d)), A_ub=d.T, b_ub=np.zeros(d.shape[1]), A_eq=np.ones((1, len(d))), b_eq=[1.0])
    return found.status == 0


@given(comparisons())
def test_contradiction_iff_some_combination_of_differences_and_gains_is_zero(case):
    better, worse = case
    differences = better - worse
    if not contradict_by_program(differences):
        cone = Cone.from_comparisons(better, worse)
        assert cone.is_pointed
        assert cone.contains_orthant
        return
    with pytest.raises(ContradictionError) as caught:
        Cone.from_comparisons(better, worse)
    found = caught.value.comparisons
    assert contradict_by_program(differences[list(found)])
    for size in range(1, len(found)):  # as few as possible, by trying all sets that are smaller
        assert not any(contradict_by_program(differences[list(s)]) for s in combinations(range(len(better)), size))
    for i in found:
        assert f"[{i}] " in str(caught.value)


@given(comparisons())
def test_it_is_the_smallest_cone_with_the_orthant_and_the_differences(case):
    better, worse = case
    cone = made(better, worse)
    rays = np.vstack([np.eye(better.shape[1]), better - worse])
    assert cone.contains(rays).all()
    assert cone == Cone.from_rays(rays)  # hence in every cone that contains them


@given(comparisons(), st.randoms(use_true_random=False))
def test_order_and_repetition_do_not_matter(case, random):
    better, worse = case
    cone = made(better, worse)
    again = [random.randrange(len(better)) for _ in range(3)] + random.sample(range(len(better)), len(better))
    other = Cone.from_comparisons(better[again], worse[again])
    np.testing.assert_array_equal(other.facets, cone.facets)
    np.testing.assert_array_equal(other.rays, cone.rays)


@given(comparisons())
def test_one_more_comparison_never_shrinks_it(case):
    better, worse = case
    cone = made(better, worse)
    assert Cone.orthant(cone.dim).is_subset_of(cone)
    if len(better) > 1:
        assert Cone.from_comparisons(better[:-1], worse[:-1]).is_subset_of(cone)


@given(comparisons(), st.data())
def test_costs_are_compared_in_their_own_units(case, data):
    better, worse = case
    names = [f"m{i}" for i in range(better.shape[1])]
    minimise = data.draw(st.lists(st.sampled_from(names), unique=True))
    sign = np.array([-1 if n in minimise else 1 for n in names])
    rewards = made(better * sign, worse * sign)
    cone = Cone.from_comparisons(better, worse, names=names, minimise=minimise)
    assert cone == Cone.from_facets(rewards.facets * sign)
    assert cone.dominates(better, worse).all()


def test_outcomes_by_name():
    named = Cone.from_comparisons(
        [{"efficacy": 0.6, "toxicity": 0.1}, {"cost": 10, "toxicity": 0.2}],
        [{"efficacy": 0.8, "toxicity": 0.2}, {"toxicity": 0.1, "cost": 40}],
        names=["efficacy", "toxicity", "cost"],
        minimise=["toxicity", "cost"],
    )
    plain = Cone.from_rays([[1, 0, 0], [0, -1, 0], [0, 0, -1], [-2, -1, 0], [0, 1, -300]])
    assert named == plain
    assert named.names == ("efficacy", "toxicity", "cost")


def test_decimals_are_what_they_show():
    # 0.7 - 0.6 and 0.3 - 0.2 are not the same floats; as decimals the two statements are opposite
    with pytest.raises(ContradictionError) as caught:
        Cone.from_comparisons([[0.7, 0.0], [0.2, 0.1]], [[0.6, 0.1], [0.3, 0.0]])
    assert caught.value.comparisons == (0, 1)
    exact = Cone.from_comparisons([[Fraction(1, 3), 0]], [[0, Fraction(1, 7)]])
    assert exact == Cone.from_rays([[1, 0], [0, 1], [7, -3]])
    tiny = Cone.from_comparisons([[1e-300, 0]], [[0, 2e-300]])
    assert tiny == Cone.from_rays([[1, 0], [0, 1], [1, -2]])


def test_contradictions_that_only_rounding_decides_are_refused():
    pi, e = math.pi, math.e
    with pytest.raises(ValueError, match=r"line.*up to rounding"):
        Cone.from_comparisons([[pi, 0], [0, e * (1 + 1e-15)]], [[0, e], [pi, 0]])


def test_a_contradiction_is_named_in_words():
    with pytest.raises(ContradictionError) as caught:
        Cone.from_comparisons(
            [{"a": 3, "b": 0}, {"a": 0, "b": 2}, {"a": 9, "b": 9}],
            [{"a": 0, "b": 2}, {"a": 3, "b": 0}, {"a": 8, "b": 9}],
        )
    assert caught.value.comparisons == (0, 1)
    assert "[0] a 3, b 0 rather than a 0, b 2; [1] a 0, b 2 rather than a 3, b 0" in str(caught.value)
    with pytest.raises(ContradictionError, match=r"\[1\] \(0, 0\) rather than \(1, 0\)\. .* can mean this"):
        Cone.from_comparisons([[1, 0], [0, 0]], [[0, 1], [1, 0]])


def test_the_smallest_contradiction_among_many():
    rng = np.random.default_rng(5)
    weights = rng.integers(1, 9, 5)
    gains = []
    while len(gains) < 40:  # all agree with one weighting
        d = rng.integers(-9, 10, 5)
        if d @ weights > 0:
            gains.append(d)
    gains[11:11] = [-(gains[3] + gains[7])]  # but this one contradicts two of them
    found = smallest_contradiction([primitive(map(int, g)) for g in gains])
    assert len(found) <= 3
    assert contradict_by_program([gains[i] for i in found])
    for size in (1, 2):
        if size < len(found):
            assert not any(contradict_by_program([gains[i] for i in s]) for s in combinations(range(len(gains)), size))


def test_where_the_program_is_of_no_use_none_can_be_left_out(monkeypatch):
    monkeypatch.setattr("conebandit.geometry.contradictions._proposed", lambda gains: [1])
    assert smallest_contradiction([(2, -1), (1, 1), (-2, 1), (-1, 1)]) in ((0, 2), (0, 3))


@pytest.mark.parametrize(
    ("better", "worse", "error", "says"),
    [
        ([], [], TypeError, "better must be a non-empty list"),
        ("ab", "cd", TypeError, "better must be a non-empty list"),
        ([[1, 2]], 5, TypeError, "worse must be a non-empty list"),
        ([[1, 2]], [[1, 2], [3, 4]], ValueError, "as many rows; got 1 and 2"),
        ([[1, 2]], [[1, 2]], ValueError, "are the same outcome"),
        ([[1, 2]], [[1, 2, 3]], ValueError, "values of the same objectives"),
        ([[1, 2], [1, 2, 3]], [[0, 4], [0, 4, 0]], ValueError, "as all other rows do"),
        ([[1, np.nan]], [[0, 1]], ValueError, "finite"),
        ([[1, "x"]], [[0, 1]], TypeError, "real number"),
        ([5], [6], ValueError, r"better\[0\] must be a row"),
        ([[]], [[]], ValueError, r"better\[0\] must be a row"),
        ([{"a": 1}], [{"b": 1}], ValueError, r"worse\[0\] must be a row with a value for each of \['a'\]"),
        ([{"a": 1, "b": 1}], [{"b": 2}], ValueError, "values of the same objectives"),
        ([{}], [{}], TypeError, "names"),
    ],
)
def test_bad_comparisons_are_refused(better, worse, error, says):
    with pytest.raises(error, match=says):
        Cone.from_comparisons(better, worse)


# ---- what to ask ----------------------------------------------------------------------------------------------------


def open_pairs_plainly(points, cone):
    front = points[cb.pareto_mask(points, cone)]
    pairs = combinations(range(len(front)), 2)
    return sum(
        not (cone.weakly_dominates(front[i], front[j]) or cone.weakly_dominates(front[j], front[i])) for i, j in pairs
    )


def ask_plainly(cone, points, outcomes):
    """Plain twin: every pair of outcomes, both answers, the wider cone made anew each time."""
    ranked = []
    for i, j in combinations(range(len(outcomes)), 2):
        d = outcomes[i] - outcomes[j]
        if cone.contains(d) or cone.contains(-d):
            continue
        left = tuple(open_pairs_plainly(points, Cone.from_rays([*cone.rays, s * d])) for s in (1, -1))
        ranked.append((max(left), sum(left), (i, j), left))
    return min(ranked, default=None)


@st.composite
def cone_and_arms(draw):
    m = draw(st.integers(1, 3))
    facet = st.lists(st.integers(0, 4), min_size=m, max_size=m).filter(any)
    cone = draw(st.one_of(st.just(Cone.orthant(m)), st.lists(facet, min_size=m, max_size=4).map(Cone.from_facets)))
    arm = st.lists(st.integers(0, 6), min_size=m, max_size=m)
    return cone, np.array(draw(st.lists(arm, min_size=1, max_size=6)), dtype=float)


@settings(deadline=None)
@given(cone_and_arms(), st.booleans())
def test_the_question_is_the_one_that_a_plain_search_finds(case, made_up):
    cone, points = case
    front = cb.pareto_mask(points, cone)
    outcomes = points[::-1] + np.arange(cone.dim) if made_up else points
    if open_pairs_plainly(points, cone) == 0:
        assert cone.ask(points, outcomes=outcomes if made_up else None) is None
        return
    best = ask_plainly(cone, points, outcomes if made_up else np.where(front[:, None], points, points[front][0]))
    if best is None:
        with pytest.raises(ValueError, match="hold no pair"):
            cone.ask(points, outcomes=outcomes)
        return
    question = cone.ask(points, outcomes=outcomes if made_up else None)
    assert question.open_pairs == open_pairs_plainly(points, cone)
    assert (max(question.left), sum(question.left)) == best[:2]
    if made_up:
        assert question.positions == best[2]
    i, j = question.positions
    np.testing.assert_array_equal(question.first, outcomes[i])
    np.testing.assert_array_equal(question.second, outcomes[j])
    d = outcomes[i] - outcomes[j]
    for sign, left in zip((1, -1), question.left, strict=True):
        assert left == open_pairs_plainly(points, Cone.from_rays([*cone.rays, sign * d]))
        assert left < question.open_pairs or made_up


@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e300, 1 / 3])
def test_a_board_that_answers_is_led_to_its_best_arm(scale):
    rng = np.random.default_rng(8)
    angles = np.sort(rng.uniform(0, np.pi / 2, 32))
    arms = np.column_stack([np.sin(angles), 1 - np.cos(angles)]) * scale  # the more efficacy, the more toxicity
    worth = np.array([2.0, -3.0])
    labels = {"names": ["efficacy", "toxicity"], "minimise": ["toxicity"]}
    cone, better, worse = Cone.orthant(2, **labels), [], []
    while (question := cone.ask(arms)) is not None:
        first = np.dot(worth, question.first) > np.dot(worth, question.second)
        better.append(question.first if first else question.second)
        worse.append(question.second if first else question.first)
        cone = Cone.from_comparisons(better, worse, **labels)
    assert np.flatnonzero(cb.pareto_mask(arms, cone)) == [np.argmax(arms @ worth)]
    assert len(better) <= 6  # each answer about halves the 32 arms


@pytest.mark.parametrize("scale", [1e-20, 1e-8, 1.0, 1e8, 1e20])
def test_outcomes_may_be_of_another_size_than_the_points(scale):
    points = [[1.0, 2.0], [2.0, 1.0], [3.0, 0.5]]
    question = Cone.orthant(2).ask(points, outcomes=scale * np.array([[1.0, 2.0], [2.0, 1.0]]))
    assert question.left == (1, 0)


def test_questions_about_too_many_outcomes_are_refused():
    x = np.linspace(0, 1, MAX_OUTCOMES + 1)
    arms = np.column_stack([x, -x])
    with pytest.raises(ValueError, match="at most 64 on the front; got 65"):
        Cone.orthant(2).ask(arms)
    with pytest.raises(ValueError, match="outcomes must be at most 64; got 65"):
        Cone.orthant(2).ask(arms[:3], outcomes=arms)
    assert Cone.orthant(2).ask(np.column_stack([x, x])) is None


def test_a_question_says_what_it_asks():
    cone = Cone.orthant(2, names=["a", "b"])
    assert str(cone.ask([[1, 0.5], [0.25, 2]])) == "Would you rather have a 1, b 0.5 or a 0.25, b 2?"
