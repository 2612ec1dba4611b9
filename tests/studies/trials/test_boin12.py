"""BOIN12 against published figures, against a plain twin, and at its edges."""

import itertools
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from conebandit.studies.trials.boin12 import Boin12, boundaries
from conebandit.studies.trials.conduct import NO_DOSE, Limits, Trial, Utility
from conebandit.studies.trials.counts import Counts, isotonic, select
from tests.studies.trials.outcomes import counted, next_dose

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import trial_application
import trial_review

USUAL = Boin12(5, Limits(toxicity=0.35, efficacy=0.25), Utility(both=60.0, neither=40.0))
OTHER = Boin12(5, Limits(0.15, 0.4), Utility(both=30.0, neither=50.0), too_toxic=0.9, futile=0.8)


# ---- published figures ----------------------------------------------------------------------------------------------


def test_boundaries_are_those_that_are_published():
    # lambda_e and lambda_d: 0.276 and 0.419 at 0.35 (BOIN12 paper), and to 7 digits at 0.30 (simFastBOIN, its vignette)
    assert np.round(boundaries(0.35), 3).tolist() == [0.276, 0.419]
    assert np.round(boundaries(0.30), 7).tolist() == [0.2364907, 0.3585195]


def test_scores_are_those_of_table_3_of_the_paper():
    # As quoted by the tests of the R package escalation 0.2.3; ranks of equal ones are averages there, as here.
    scores = USUAL.scores([0, 3, 6, 9])
    published = {
        (0, 0, 0): 60, (3, 0, 3): 91, (6, 1, 5): 87, (9, 0, 8): 99, (9, 2, 3): 32.5, (9, 5, 5): 32.5, (9, 3, 1): 7,
    }  # fmt: skip
    assert {key: scores[key] for key in published} == published
    assert not {(6, 5, 1), (9, 4, 0), (9, 6, 9)} & scores.keys()  # eliminated


# The worked examples of the paper (page 1396) and of its data supplement (section 6), cohort by cohort.
EXAMPLE = ["1NNN", "2NNB", "3NEE", "3NTN", "4ETE", "4NBE", "4BNN", "5BEN", "5NBT", "4NEN"]
NEXT = [2, 3, 3, 4, 4, 4, 5, 5, 4, 4]


def test_the_worked_examples_of_the_paper():
    assert next_dose(USUAL, "1NNN 2ENT 3ETT 2EEN", 5) == 2
    assert [next_dose(USUAL, " ".join(EXAMPLE[: i + 1]), 5) for i in range(len(EXAMPLE))] == NEXT
    capped = Boin12(5, USUAL.limits, USUAL.utility, stop_at=12)
    counts, _ = counted(" ".join(EXAMPLE), 5)
    assert capped.finished(counts, 3)
    assert not capped.finished(counted(" ".join(EXAMPLE[:-1]), 5)[0], 3)


# What the authors' application (biostatistics.mdanderson.org/shinyapps/BOIN12) says after one cohort, as the tests of
# the R package escalation 0.2.3 have it: the next dose after outcomes at dose 1, 2 and 5, with its default settings.
APPLICATION = {
    "1": "EBB1 EEB1 EEE1 EET1 ETB1 ETT1 NBB1 NEB1 NEE1 NET2 NNB2 NNE2 NNN2 NNT2 NTB1 NTT1",
    "2": "BBB1 EBB1 EEB2 EEE2 EET2 ETB1 ETT1 NBB1 NEB2 NEE2 NET3 NNB3 NNE3 NNN3 NNT3 NTB1 NTT1 TBB1 TTB1 TTT1",
    "5": "BBB4 EBB4 EEB5 EEE5 EET5 ETB4 ETT4 NBB4 NEB5 NEE5 NET4 NNB4 NNE4 NNN4 NNT4 NTB4 NTT4 TBB4 TTB4 TTT4",
}
# The same with limits 0.15 and 0.4, utilities 50 and 30, and certainties 0.9 and 0.8.
APPLICATION_OTHER = {
    "1": "EEB1 EEE1 EET1 NEB1 NEE1 NET1 NNB1 NNE2 NNN2",
    "2": "BBB1 EBB1 EEB1 EEE2 EET1 ETB1 ETT1 NBB1 NEB1 NEE2 NET1 NNB1 NNN3 NNT1 NTB1 NTT1 TBB1 TTB1 TTT1",
    "5": "BBB4 EBB4 EEB4 EEE5 EET4 ETB4 ETT4 NBB4 NEB4 NEE5 NET4 NNB4 NNE4 NNN4 NNT4 NTB4 NTT4 TBB4 TTB4 TTT4",
}
# There the package stays at the lowest dose although it is too toxic; the paper stops, and so do we.
STOPPED_OTHER = ["1EBB", "1ETB", "1ETT", "1NBB", "1NTB"]


@pytest.mark.parametrize(("design", "published"), [(USUAL, APPLICATION), (OTHER, APPLICATION_OTHER)])
def test_decisions_are_those_of_the_authors_application(design, published):
    for dose, row in published.items():
        for each in row.split():
            assert next_dose(design, f"{dose}{each[:3]}", 5) == int(each[3]), f"{dose}{each}"


def test_the_trial_stops_where_the_lowest_dose_is_too_toxic():
    assert [next_dose(OTHER, text, 5) for text in STOPPED_OTHER] == [0] * 5
    assert next_dose(USUAL, "1TTT", 5) == next_dose(USUAL, "1BBB", 5) == 0


# ---- plain twins ----------------------------------------------------------------------------------------------------


def plain_desirability(design, n, worth):
    """By its definition: the chance that a beta variable exceeds the benchmark."""
    e, t, u = design.limits.efficacy, design.limits.toxicity, design.utility
    least = 100 * e * (1 - t) + u.both * e * t + u.neither * (1 - e) * (1 - t)
    return beta(1 + worth, 1 + n - worth).sf((least + (100 - least) / 2) / 100)


def plain_next_dose(design, counts, d, lot=1.0):
    """The decision rules one by one, with scipy's beta distribution."""
    phi_t, phi_e = design.limits
    doses = range(design.n_doses)
    tox, eff = ([beta(1 + y[k], 1 + counts.treated[k] - y[k]) for k in doses] for y in (counts.toxic, counts.effective))
    toxic = [law.sf(phi_t) >= design.too_toxic for law in tox]
    futile = [law.cdf(phi_e) >= design.futile for law in eff]
    bad = [any(toxic[: k + 1]) or futile[k] for k in range(design.n_doses)]
    below = [k for k in range(d) if not bad[k]]
    above = [k for k in range(d + 1, design.n_doses) if not bad[k]]
    n, rate = counts.treated[d], counts.toxic[d] / counts.treated[d]
    low, high = 0.6 * phi_t, 1.4 * phi_t
    lambda_e = math.log((1 - low) / (1 - phi_t)) / math.log(phi_t * (1 - low) / low / (1 - phi_t))
    lambda_d = math.log((1 - phi_t) / (1 - high)) / math.log(high * (1 - phi_t) / phi_t / (1 - high))
    if rate >= lambda_d:
        if below:
            return below[-1]
        return None if bad[d] else d
    if above and design.explore_at and n >= design.explore_at and counts.treated[above[0]] == 0:
        return above[0]
    options = [*below[-1:], *([] if bad[d] else [d])]
    if rate <= lambda_e or n < design.enough:
        options += above[:1]
    wanted = {k: plain_desirability(design, counts.treated[k], counts.worth(k, design.utility)) for k in options}
    best = max(wanted.values(), default=None)
    equal = sorted(k for k in wanted if wanted[k] > best - 1e-12)
    if not equal:
        return None
    return next(k for i, k in enumerate(equal, 1) if lot * len(equal) < i) if design.draw_ties else equal[-1]


@st.composite
def trials_so_far(draw):
    counts = Counts(4)
    for dose in range(4):
        for _ in range(draw(st.sampled_from([0, 3, 6, 9, 12]))):
            counts.add(dose, efficacy=draw(st.booleans()), toxicity=draw(st.booleans()))
    tried = [dose for dose, n in enumerate(counts.treated) if n]
    return counts, draw(st.sampled_from(tried or [0]))


@given(
    so_far=trials_so_far(),
    both=st.sampled_from([60.0, 35.0]),
    explore_at=st.sampled_from([9, 0]),
    draw_ties=st.booleans(),
    lot=st.floats(0.0, 1.0, exclude_max=True),
)
def test_decisions_are_those_of_a_plain_twin(so_far, both, explore_at, draw_ties, lot):
    counts, dose = so_far
    utility = Utility(both=both, neither=40.0)
    design = Boin12(4, Limits(0.3, 0.3), utility, explore_at=explore_at, draw_ties=draw_ties)
    if counts.treated[dose]:
        assert design.next_dose(counts, dose, lot) == plain_next_dose(design, counts, dose, lot)


def test_scores_are_ranks_by_definition():
    scores = USUAL.scores([3, 6])
    wanted = {}
    for n, t, e in scores:
        wanted[n, t, e] = plain_desirability(USUAL, n, 0.6 * e + 0.4 * (n - t))
    for key, value in wanted.items():
        below = sum(other < value - 1e-9 for other in wanted.values())
        equal = sum(abs(other - value) <= 1e-9 for other in wanted.values())
        assert scores[key] == below + (equal + 1) / 2


@given(
    values=st.lists(st.floats(0, 1), min_size=1, max_size=6),
    weights=st.lists(st.floats(0.1, 9), min_size=6, max_size=6),
)
def test_isotonic_regression_is_the_one_of_its_definition(values, weights):
    """Max-min formula: the largest, over starts up to a place, of the smallest mean, over ends from that place on."""
    w = weights[: len(values)]
    means = {
        (i, j): np.average(values[i : j + 1], weights=w[i : j + 1])
        for i, j in itertools.combinations_with_replacement(range(len(values)), 2)
    }
    plain = [max(min(means[i, j] for j in range(k, len(values))) for i in range(k + 1)) for k in range(len(values))]
    found = isotonic(values, w)
    assert np.allclose(found, plain)
    assert (np.diff(found) >= -1e-12).all()


# ---- operating characteristics --------------------------------------------------------------------------------------


def exact_characteristics(design, toxicity, efficacy, cohorts):
    """Chances of every final choice, by all sequences of outcomes of cohorts of one; the twin of a simulation."""
    found = dict.fromkeys([*range(design.n_doses), NO_DOSE], 0.0)

    def follow(texts, dose, chance, left):
        counts, _ = counted(" ".join(texts), design.n_doses)
        if not left or dose is None:
            choice = None if dose is None else design.selected(counts)
            found[NO_DOSE if choice is None else choice.dose] += chance
            return
        e, t = efficacy[dose], toxicity[dose]
        for letter, share in zip("NETB", ((1 - e) * (1 - t), e * (1 - t), (1 - e) * t, e * t), strict=True):
            more = [*texts, f"{dose + 1}{letter}"]
            follow(more, design.next_dose(*counted(" ".join(more), design.n_doses)), chance * share, left - 1)

    follow([], design.start - 1, 1.0, cohorts)
    return found


def test_simulated_trials_have_the_exact_characteristics():
    """All 4^6 courses of a small trial against 4,000 simulated ones; 4 standard errors: a false alarm in 4,000."""
    toxicity, efficacy = [0.2, 0.5], [0.3, 0.6]
    design = Boin12(2, Limits(0.35, 0.25), Utility(60.0, 40.0), cohort=1, enough=3, explore_at=3)
    exact = exact_characteristics(design, toxicity, efficacy, 6)
    rng, n = np.random.default_rng(3), 4000
    chances = np.stack([efficacy, toxicity], axis=1)
    counted_ = dict.fromkeys(exact, 0)
    for _ in range(n):
        outcomes = (rng.random((6, 2, 2)) < chances).astype(float)
        trial = Trial(0, np.zeros((6, 1)), outcomes, np.zeros(6), np.zeros((1, 1)), design.limits, design.utility)
        counted_[int(design.conduct(trial).recommended[0])] += 1
    for choice, chance in exact.items():
        assert abs(counted_[choice] / n - chance) < 4 * math.sqrt(chance * (1 - chance) / n) + 1e-9


APPLICATION_RUNS = json.loads(trial_application.PUBLISHED.read_text(encoding="utf-8"))


@pytest.mark.parametrize("number", range(4))
def test_operating_characteristics_of_the_authors_application(number):
    """1,000 trials of it in each scenario; the full comparison is ``benchmarks/trial_application.py``.

    Six percentages and five means in each of ten scenarios: of 440, one beyond 5 errors has a chance of some 0.1 %.
    """
    run = APPLICATION_RUNS["runs"][number]
    design = trial_application.design(APPLICATION_RUNS, run, "application")
    for scenario in range(number, 37, 4):
        chances = APPLICATION_RUNS["scenarios"][scenario]
        found = trial_application.simulate(design, chances, run["patients"], 60, seed=scenario)
        off = trial_application.errors(APPLICATION_RUNS, run, scenario, found, 60)[:6]
        assert found.selected.sum() == pytest.approx(100.0)
        assert np.nanmax(np.abs(off)) < 5.0, scenario


def test_figures_of_the_application_are_whole():
    for run in APPLICATION_RUNS["runs"]:
        assert len(run["selected_percent"]) == len(run["mean_patients"]) == len(APPLICATION_RUNS["scenarios"]) == 37
        assert np.abs(np.sum(run["selected_percent"], axis=1) - 100.0).max() < 0.31  # six rounded figures
        assert np.sum(run["mean_patients"], axis=1).max() < run["patients"] + 0.26


REVIEW = json.loads(trial_review.PUBLISHED.read_text(encoding="utf-8"))


@pytest.mark.parametrize("number", range(0, 30, 5))
def test_operating_characteristics_of_a_review(number):
    """10,000 trials in random scenarios; the full comparison is ``benchmarks/trial_review.py``.

    The selection is left out: that rule is another one. Where few trials have an event its error is not known.
    """
    row = REVIEW["rows"][number]
    found = trial_review.simulate(trial_review.made(REVIEW, row, "review"), row, 60, seed=number)
    off = trial_review.errors(REVIEW, row, found)
    for name in ("patients_at_best", "few_at_best"):
        assert abs(off[trial_review.MEASURES.index(name)]) < 4.0


@pytest.mark.parametrize("best", range(5))
def test_random_scenarios_are_what_they_say(best):
    design = trial_review.made(REVIEW, REVIEW["rows"][0], "paper")
    rng = np.random.default_rng(best)
    for _ in range(20):
        toxicity, efficacy = trial_review.random_scenario(rng, design, best)
        assert (np.diff(toxicity) >= 0.0).all()
        assert toxicity[best] <= 0.35
        assert efficacy[best] >= 0.25
        tolerated = np.abs(toxicity - 0.3).argmin()
        assert (60.0 * efficacy + 40.0 * (1.0 - toxicity))[: tolerated + 1].argmax() == best
        assert (efficacy[: best + 1] == np.sort(efficacy[: best + 1])).all()


# ---- options that others' programs differ in ------------------------------------------------------------------------


def test_untried_doses_need_not_be_explored():
    # Dose 1 is far more desirable than one that nobody has had.
    assert next_dose(USUAL, "1EEE 1EEE 1EEE", 5) == 2
    assert next_dose(Boin12(5, USUAL.limits, USUAL.utility, explore_at=0), "1EEE 1EEE 1EEE", 5) == 1


def test_lots_may_be_drawn_between_equal_doses():
    """Nobody has any outcome: up to dose 5, which is then as desirable as dose 4."""
    drawing = Boin12(5, USUAL.limits, USUAL.utility, draw_ties=True)
    for design, lot, last in ((USUAL, 0.1, 4), (drawing, 0.1, 3), (drawing, 0.9, 4)):
        lots = np.full(18, lot)
        trial = Trial(0, np.zeros((18, 1)), np.zeros((18, 5, 2)), lots, np.zeros((1, 1)), USUAL.limits, USUAL.utility)
        assert design.conduct(trial).doses.tolist() == [*np.repeat(range(5), 3), *[last] * 3]


def test_the_lowest_dose_may_be_selected_where_all_that_are_tolerated_are_closed():
    """Dose 1 is of no use, and dose 2 is open, but its toxicity is farther from the limit."""
    counts, _ = counted("1TNN 1TNN 1TNN 2BBE", 5)
    assert USUAL.closed(counts).tolist() == [True, False, False, False, False]
    assert USUAL.selected(counts) is None
    choice = Boin12(5, USUAL.limits, USUAL.utility, fall_back=True).selected(counts)
    assert (choice.dose, choice.efficacy) == (0, 0.0)
    assert Boin12(5, USUAL.limits, USUAL.utility, fall_back=True).selected(Counts(5)) is None


# ---- edges ----------------------------------------------------------------------------------------------------------


def test_one_dose():
    design = Boin12(1, USUAL.limits, USUAL.utility)
    assert next_dose(design, "1NNE", 1) == next_dose(design, "1NNE 1NNT", 1) == 1
    assert next_dose(design, "1TTT", 1) == 0
    assert design.selected(counted("1NNE", 1)[0]).dose == 0


def test_the_selected_dose_was_given_and_is_open():
    assert select(Counts(3), np.zeros(3, dtype=bool), USUAL.limits, USUAL.utility) is None
    counts, _ = counted("1NNN 2NNN 3NNN 4EEE 4EEE", 5)
    assert USUAL.selected(counts).dose == 3  # as for the R package escalation
    assert USUAL.selected(counted("1NNN 2NNT 2NNT 3ETT 3NNN 4EEE 4EEE", 5)[0]).dose == 3
    assert USUAL.selected(counted("1NNN 2ENT 3ETT 2EEN", 5)[0]).dose == 1
    assert USUAL.selected(counted("1TTT 1TTT", 5)[0]) is None


def test_limits_without_boundaries_are_refused():
    with pytest.raises(ValueError, match=r"limit of toxicity must be above 0 and below 0.714 .* got 0.8"):
        boundaries(0.8)
    with pytest.raises(ValueError, match="both \\+ neither is 100"):
        OTHER.scores([3])
