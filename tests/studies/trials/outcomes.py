"""Outcomes of trials as text: '1NNE 2EB' is three patients at dose 1, of whom one had efficacy, then two at dose 2.

N stands for neither, E for efficacy, T for toxicity, B for both (Brock et al. 2017, as in docs/trials.md).
"""

from conebandit.studies.trials.counts import Counts


def counted(text, n_doses):
    """What was seen, and the dose of the last cohort, counted from 0."""
    counts, dose = Counts(n_doses), 0
    for cohort in text.split():
        dose = int(cohort[0]) - 1
        for letter in cohort[1:]:
            counts.add(dose, efficacy=letter in "EB", toxicity=letter in "TB")
    return counts, dose


def next_dose(design, text, n_doses):
    """The dose of the next cohort, counted from 1; 0 if there is none."""
    found = design.next_dose(*counted(text, n_doses))
    return 0 if found is None else found + 1
