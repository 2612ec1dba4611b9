"""EffTox against published figures, and against integration by many random draws."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from conebandit.studies.trials.conduct import Limits, Trial, Utility
from conebandit.studies.trials.efftox import Contour, EffTox, Priors
from tests.studies.trials.outcomes import counted, next_dose

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import trial_published

# Thall et al. (2014): the example that the MD Anderson software and the R package trialr come with. Both let the slope
# of toxicity be negative.
THALL = EffTox((1.0, 2.0, 4.0, 6.6, 10.0), Limits(toxicity=0.3, efficacy=0.5), rising=False)
# Brock et al. (2017): the trial Matchpoint.
MATCHPOINT = EffTox(
    (7.5, 15.0, 30.0, 45.0),
    Limits(toxicity=0.4, efficacy=0.45),
    Contour(0.4, 0.7, 0.5, 0.4),
    sure=0.03,
    start=3,
    priors=Priors((-5.4317, 2.7643), (3.1761, 2.7703), (-0.8442, 1.9786), (1.9857, 1.9820), (0.0, 0.2), (0.0, 1.0)),
    rising=False,
)


def described(design, text):
    """Means of efficacy and toxicity, desirabilities, and how sure the doses are within limits: (5, K)."""
    known = design.posterior(counted(text, len(design.doses))[0])
    pairs = zip(known.efficacy.tolist(), known.toxicity.tolist(), strict=True)
    desirability = [design.contour.desirability(*pair) for pair in pairs]
    return np.array([known.efficacy, known.toxicity, desirability, known.effective, known.tolerated])


# ---- published figures ----------------------------------------------------------------------------------------------


def test_the_contour_is_the_published_one():
    assert round(THALL.contour.power, 3) == 0.977  # trialr, test of efftox_solve_p
    found = [THALL.contour.desirability(e, t) for e, t in ((0.6, 0.1), (0.7, 0.2), (0.8, 0.3))]
    assert np.round(found, 2).tolist() == [0.04, 0.08, 0.12]  # trialr, reference of efftox_utility


def test_the_example_of_the_vignette_of_trialr():
    """'1NNE 2EEB', fitted by Stan with 4,000 draws. Its Monte Carlo error of a chance near 1/2 is about 0.02."""
    found = described(THALL, "1NNE 2EEB")
    published = [
        [0.402, 0.789, 0.929, 0.955, 0.964],
        [0.088, 0.103, 0.225, 0.315, 0.372],
        [-0.342, 0.412, 0.506, 0.420, 0.349],
        [0.333, 0.943, 0.984, 0.983, 0.980],
        [0.927, 0.921, 0.718, 0.617, 0.561],
    ]
    assert np.abs(found - published).max() < 0.025
    assert next_dose(THALL, "1NNE 2EEB", 5) == 3


# What the MD Anderson software says of the same design, as the tests of clintrials and trialr quote it: figures of
# several runs, which differ by up to 0.03 among themselves. They compare with a tolerance of 0.05.
SOFTWARE = {
    "1NNN": [
        [0.04, 0.19, 0.57, 0.78, 0.87],
        [0.01, 0.01, 0.02, 0.07, 0.13],
        [-0.93, -0.62, 0.11, 0.46, 0.53],
        [0.01, 0.12, 0.59, 0.82, 0.89],
        [1.00, 0.99, 0.98, 0.93, 0.85],
    ],
    "1NNN 2ENN": [
        [0.05, 0.26, 0.72, 0.86, 0.91],
        [0.01, 0.01, 0.02, 0.06, 0.12],
        [-0.91, -0.47, 0.42, 0.64, 0.64],
        [0.01, 0.13, 0.80, 0.91, 0.94],
        [1.00, 1.00, 0.98, 0.93, 0.86],
    ],
    "1NNN 2ENN 3ETB": [
        [0.06, 0.24, 0.71, 0.89, 0.94],
        [0.02, 0.06, 0.41, 0.77, 0.87],
        [-0.92, -0.63, -0.24, -0.41, -0.47],
        [0.01, 0.07, 0.84, 0.97, 0.98],
        [1.00, 0.98, 0.36, 0.08, 0.05],
    ],
    "4T 2N 1N 5B": [
        [0.03, 0.08, 0.26, 0.54, 0.75],
        [0.01, 0.04, 0.22, 0.64, 0.89],
        [-0.95, -0.91, -0.84, -0.92, -0.89],
        [0.01, 0.02, 0.16, 0.57, 0.84],
        [0.99, 0.97, 0.72, 0.16, 0.02],
    ],
}


@pytest.mark.parametrize("text", SOFTWARE)
def test_figures_of_the_original_software(text):
    assert np.abs(described(THALL, text) - SOFTWARE[text]).max() < 0.04


def test_next_doses_of_the_original_software():
    path = ("1NNN", "1NNN 2ENN", "1NNN 2ENN 3ETB")
    assert [next_dose(THALL, text, 5) for text in path] == [2, 3, 3]


def test_a_cohort_of_matchpoint():
    """'3NTT' in the MD Anderson software, as the tests of clintrials quote it."""
    published = [
        [0.11, 0.10, 0.16, 0.25],
        [0.06, 0.12, 0.52, 0.80],
        [-0.49, -0.50, -0.57, -0.67],
        [0.08, 0.04, 0.06, 0.20],
        [0.95, 0.92, 0.33, 0.07],
    ]
    assert np.abs(described(MATCHPOINT, "3NTT") - published).max() < 0.025


# Table 3 of Brock et al. (2017), as the tutorial of clintrials prints it: the dose after 3TTT and then three patients
# at dose 2; 0 to stop.
PATHWAYS = "NNN3 NNE1 NNT0 NNB1 NEE1 NET1 NEB1 NTT0 NTB1 NBB1 EEE1 EET1 EEB1 ETT1 ETB1 EBB1 TTT0 TTB1 TBB1 BBB1"


def test_the_dose_transition_pathways_of_matchpoint():
    for each in PATHWAYS.split():
        assert next_dose(MATCHPOINT, f"3TTT 2{each[:3]}", 4) == int(each[3]), each


# The R package EffToxDesign, its README: the dose after one cohort at dose 2, with a positive slope of toxicity. Its
# priors have means fitted to elicited chances by least squares on the logits. Once, after 2EEN, it says 3 where the
# desirabilities of 2 and 3 are 0.01 apart, which is within the error of its random draws.
TRANSITIONS = "BBB1 BBE1 BBN1 BBT1 BEE1 BEN1 BET1 BNN1 BNT1 BTT1 EEE2 EET1 ENN3 ENT1 ETT1 NNN3 NNT3 NTT0 TTT0"


def fitted(chances, codes, degree):
    return np.polyfit(codes, np.log(chances) - np.log1p(-np.array(chances)), degree)[::-1]


def with_elicited_priors():
    """The design of that README."""
    alpha, beta = fitted([0.02, 0.04, 0.06, 0.08, 0.10], THALL.codes, 1)
    gamma, zeta, eta = fitted([0.2, 0.4, 0.6, 0.8, 0.9], THALL.codes, 2)
    priors = Priors((alpha, 3.5487), (beta, 3.5018), (gamma, 2.5423), (zeta, 2.4406), (eta, 0.2))
    return EffTox(THALL.doses, THALL.limits, start=2, priors=priors)


def test_transitions_where_toxicity_must_rise():
    design = with_elicited_priors()
    for each in TRANSITIONS.split():
        assert next_dose(design, f"2{each[:3]}", 5) == int(each[3]), each
    near = described(design, "2EEN")[2]
    assert sorted(near.argsort()[-2:].tolist()) == [1, 2]
    assert abs(near[1] - near[2]) < 0.02


# ---- the plain twin -------------------------------------------------------------------------------------------------


def by_many_draws(design, counts, n=400_000):
    """Posterior means by weighting random draws from the priors with the likelihood, cell by cell."""
    rng, x = np.random.default_rng(0), design.codes
    alpha, beta, gamma, zeta, eta, psi = (mean + sd * rng.standard_normal((n, 1)) for mean, sd in design.priors)
    t = 1 / (1 + np.exp(-(alpha + beta * x)))
    e = 1 / (1 + np.exp(-(gamma + zeta * x + eta * x**2)))
    tie = e * (1 - e) * t * (1 - t) * (np.exp(psi) - 1) / (np.exp(psi) + 1)
    weights = (beta[:, 0] > 0).astype(float) if design.rising else np.ones(n)
    for k, both in enumerate(counts.both):
        only_e, only_t = counts.effective[k] - both, counts.toxic[k] - both
        neither = counts.treated[k] - both - only_e - only_t
        weights *= (e * t + tie)[:, k] ** both * (e * (1 - t) - tie)[:, k] ** only_e
        weights *= ((1 - e) * t - tie)[:, k] ** only_t * ((1 - e) * (1 - t) + tie)[:, k] ** neither
    weights /= weights.sum()
    assert 1 / (weights**2).sum() > 300  # draws that matter
    return [weights @ e, weights @ t, weights @ (e > design.limits.efficacy), weights @ (t < design.limits.toxicity)]


@pytest.mark.parametrize("rising", [True, False])
@pytest.mark.parametrize("text", ["1NNN", "2TTT", "1NNE 2EEB 3EBT"])
def test_the_posterior_is_that_of_many_random_draws(text, rising):
    design = EffTox(THALL.doses, THALL.limits, rising=rising)
    counts, _ = counted(text, 5)
    found, plain = np.array(design.posterior(counts)), np.array(by_many_draws(design, counts))
    assert np.abs(found[:2] - plain[:2]).max() < 0.02  # means; the draws have an error of about 0.01
    assert np.abs(found[2:] - plain[2:]).max() < 0.04  # chances of being within limits, coarser on both sides


def on_a_grid(design, counts):
    """Posterior means without association, by sums over grids of the parameters of either outcome."""
    x, found = design.codes, []
    for pairs, seen, limit in (
        (design.priors.of_efficacy, counts.effective, design.limits.efficacy),
        (design.priors.of_toxicity, counts.toxic, design.limits.toxicity),
    ):
        points = 301 if len(pairs) == 2 else 81
        axes = np.meshgrid(*(np.linspace(mean - 5 * sd, mean + 5 * sd, points) for mean, sd in pairs), indexing="ij")
        theta = np.stack([axis.ravel() for axis in axes])
        logits = sum(row[:, None] * x**power for power, row in enumerate(theta))
        log_density = -0.5 * (((theta.T - pairs[:, 0]) / pairs[:, 1]) ** 2).sum(axis=1)
        log_density += logits @ np.array(seen) - np.logaddexp(0, logits) @ np.array(counts.treated)
        if len(pairs) == 2 and design.rising:
            log_density[theta[1] <= 0] = -np.inf
        weights = np.exp(log_density - log_density.max())
        chances = 1 / (1 + np.exp(-logits))
        beyond = chances > limit if len(pairs) == 3 else chances < limit
        found.append((weights @ chances / weights.sum(), weights @ beyond / weights.sum()))
    (efficacy, effective), (toxicity, tolerated) = found
    return np.array([efficacy, toxicity, effective, tolerated])


@pytest.mark.parametrize("rising", [True, False])
@pytest.mark.parametrize(
    "text",
    ["1NNT 2NNT 3NNT 4NNN 5NNN", "1TTN 2TTN 3NNN 4NNN 5NNE", "1NNN 2NEN 3NEB 4BEE 4NEE 4BEN 5BTB 4NEE 4EEN 3NNE"],
)
def test_the_posterior_is_that_of_a_grid(text, rising):
    design = EffTox(THALL.doses, THALL.limits, priors=Priors(psi=(0.0, 1e-9)), rising=rising)
    counts, _ = counted(text, 5)
    found, plain = np.array(design.posterior(counts)), on_a_grid(design, counts)
    assert np.abs(found[:2] - plain[:2]).max() < 0.006  # means
    assert np.abs(found[2:] - plain[2:]).max() < 0.03  # chances of being within limits


def test_results_are_a_function_of_the_data():
    from conebandit.studies.trials import efftox  # noqa: PLC0415

    first = described(THALL, "1NNE 2EEB")
    efftox._posterior.cache_clear()
    efftox._points.cache_clear()
    assert (described(THALL, "1NNE 2EEB") == first).all()


# ---- edges ----------------------------------------------------------------------------------------------------------


def test_one_dose_and_no_efficacy():
    design = EffTox((1.0,), Limits(0.3, 0.5))
    assert next_dose(design, "1EEN", 1) == 1
    assert next_dose(design, "1NNN 1NNN 1NNN 1NNN", 1) == 0
    assert next_dose(design, "1TTT 1TTT 1TTT", 1) == 0


def test_no_untried_dose_is_skipped_or_selected():
    counts, dose = counted("1NNE 2EEB", 5)
    assert THALL.next_dose(counts, dose) == 2
    assert THALL.selected(counts).dose == 1
    assert next_dose(EffTox(THALL.doses, THALL.limits), "1EEE", 5) <= 2
    assert next_dose(THALL, "3NNN", 5) in {2, 3, 4}


# ---- operating characteristics --------------------------------------------------------------------------------------


def test_ten_published_trials_are_such_as_ours():
    """Averages over 10 trials in the README of EffToxDesign, within 4 of their own standard errors of ours over 100."""
    design = with_elicited_priors()
    chances = np.stack([[0.2, 0.4, 0.6, 0.8, 0.9], [0.05, 0.10, 0.15, 0.20, 0.40]], axis=1)
    rng, found = np.random.default_rng(0), []
    for _ in range(100):
        outcomes = (rng.random((39, 5, 2)) < chances).astype(float)
        nobody = np.zeros((1, 1))
        trial = Trial(0, np.zeros((39, 1)), outcomes, np.zeros(39), nobody, design.limits, Utility(60.0, 40.0))
        given = design.conduct(trial).doses
        seen = outcomes[np.arange(len(given)), given].sum(axis=0)
        found.append([*np.bincount(given, minlength=5), *seen])
    published = [4.8, 6.6, 15.9, 6.0, 5.7, 23.4, 6.6]  # patients under each dose, with efficacy, with toxicity
    error = np.std(found, axis=0) / np.sqrt(10)
    assert (np.abs(np.mean(found, axis=0) - published) < 4 * error).all()


PUBLISHED = json.loads(trial_published.PUBLISHED.read_text(encoding="utf-8"))


@pytest.mark.untraced
@pytest.mark.parametrize("number", range(6))
def test_operating_characteristics_of_trialr(number):
    """5,000 published trials in each scenario; the full comparison is ``benchmarks/trial_published.py``.

    Six percentages and five means each: with 66 figures, one beyond 4 errors has a chance of some 0.5 %.
    """
    scenario = PUBLISHED["scenarios"][number]
    found = trial_published.simulate(PUBLISHED, scenario, 50, seed=100 + number)
    assert found.selected.sum() == pytest.approx(100.0)
    assert np.abs(trial_published.errors(PUBLISHED, scenario, found, 50)).max() < 4.0
