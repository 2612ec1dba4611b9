"""Bets against a bound, written out plainly: the twin of ``diagnose/betting.py``."""

import math

SHARES = [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64]


def money(values, bound):
    """What bets against a mean of at most ``bound`` have made of 1; values from 0 to 1, None for harmless so far."""
    grown = []
    for share in SHARES:
        product = 1.0
        for value in values:
            product *= 1 + share * ((0.0 if value is None else value) / bound - 1)
        grown.append(product)
    return math.fsum(grown) / len(grown)


def all_money(values, bound, restart=32):
    """Four fifths of the money bet from the first value on; of the rest 1/2 from the 33rd, 1/6 from the 65th, ..."""
    total, left, number = 0.8 * money(values, bound), 0.2, 1
    while number * restart < len(values):
        part = 0.2 / (number * (number + 1))
        total += part * money(values[number * restart :], bound)
        left -= part
        number += 1
    return total + left


def most_money(values, bound, restart=32):
    """The most that there is after any number of values, in their order."""
    return max(all_money(values[:n], bound, restart) for n in range(len(values) + 1))


def refuted(values, bound, error):
    return money(values, bound) >= 1 / error
