"""Who gets what over one or two context columns: a map of tiles, at each of which the policy is asked."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conebandit.experiment.columns import Categorical, Column, Numeric, by_column
from conebandit.experiment.declaration import Experiment
from conebandit.experiment.policy import Served
from conebandit.experiment.recommendation import Recommended, recommended
from conebandit.service.dashboard.arms.contexts import OTHER, Context
from conebandit.service.dashboard.looks import Look
from conebandit.validate.arrays import FloatArray

MAX_TILES = 400
MAX_STRIP = 60  # tiles of a map of one number
MIN_STEPS = 5  # of a number on a map of two columns, however long they take
MAX_LEVELS = 20  # of a category; of more, the most frequent ones
# Arms times metrics times contexts that a policy is asked about for one picture. The default policy takes half a second
# for them, most of it for the chances to be on the front (2026-11, 5 arms with 2 metrics to 20 with 3, a busy machine).
MAX_WORK = 12_000
CHUNK = 25  # contexts that a policy is asked about at once
MAX_PAUSE = 0.01  # seconds

Value = float | str
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Side:
    """One direction of a map.

    Attributes
    ----------
    column
        Which column.
    values
        What its tiles stand for: middles of equal steps of a number, or levels.
    left_out
        How many levels have no tile.
    """

    column: Column
    values: tuple[Value, ...]
    left_out: int = 0

    def places(self, part: FloatArray) -> Counts:
        """In which tile coordinates (n, width) of the column are; -1 if in none."""
        if isinstance(self.column, Numeric):
            steps = len(self.values)
            return np.minimum((part[:, 0] * steps).astype(np.int64), steps - 1)
        codes = np.where(part.any(axis=1), part.argmax(axis=1), len(self.column.levels))
        levels = all_levels(self.column)
        tiles = {levels.index(str(level)): k for k, level in enumerate(self.values)}
        return np.array([tiles.get(code, -1) for code in codes.tolist()], dtype=np.int64)

    def place_of(self, value: Value) -> int:
        """In which tile a value is; -1 if in none."""
        return int(self.places(np.array([self.column.coordinates(value)]))[0])


@dataclass(frozen=True)
class Tiles:
    """A map: what the policy recommends at each tile, and how many decisions of a sample were made there.

    Attributes
    ----------
    sides
        One or two directions.
    shape
        Number of tiles along the first and the second; 1 if there is no second.
    made
        What is recommended at each tile, the second direction running fastest.
    counts
        Decisions of the sample at each tile, whatever their other columns are.
    """

    sides: tuple[Side, ...]
    shape: tuple[int, int]
    made: tuple[Recommended, ...]
    counts: Counts

    def values(self, number: int) -> Context:
        """What the columns of the map are at a tile."""
        places = divmod(number, self.shape[1])
        return {side.column.name: side.values[place] for side, place in zip(self.sides, places, strict=False)}

    def number_of(self, context: Context) -> int | None:
        """The tile that a context is in; None if it is in none."""
        places = [side.place_of(context[side.column.name]) for side in self.sides]
        return None if min(places) < 0 else _tile_numbers(np.array([places]), self.shape)[0]


def rows_within(policy: Served, most: int, work: int = MAX_WORK) -> int:
    """About how many contexts a policy is to be asked: fewer if it has many arms and metrics; ``most`` at most."""
    return max(1, min(most, work // (policy.n_arms * policy.n_objectives)))


def all_levels(column: Categorical) -> tuple[str, ...]:
    """The levels of a column, and one for all others if these are taken."""
    return (*column.levels, OTHER) if column.unknown == "zeros" else column.levels


def typical(experiment: Experiment, contexts: FloatArray) -> Context:
    """A context like most of some (n, d): medians with few digits, and the levels that are most frequent."""
    found: Context = {}
    for column, part in by_column(experiment.columns, contexts):
        if isinstance(column, Categorical):
            place = int(part.sum(axis=0).argmax()) if len(part) else 0
            found[column.name] = column.levels[place]
        else:
            middle = float(np.median(column.decode(part))) if len(part) else (column.low + column.high) / 2
            found[column.name] = min(max(float(f"{middle:.3g}"), column.low), column.high)
    return found


def make_sides(columns: Sequence[Column], experiment: Experiment, contexts: FloatArray, rows: int) -> tuple[Side, ...]:
    """The directions of a map of about ``rows`` tiles over one or two columns."""
    parts = {column.name: part for column, part in by_column(experiment.columns, contexts)}
    of_levels = {c.name: _level_side(c, parts[c.name]) for c in columns if isinstance(c, Categorical)}
    numbers = len(columns) - len(of_levels)
    left = rows / math.prod(len(side.values) for side in of_levels.values())  # for the numbers
    least, most = (1, MAX_STRIP) if len(columns) == 1 else (MIN_STEPS, math.isqrt(MAX_TILES))
    steps = int(min(max(left ** (1 / max(numbers, 1)), least), most))
    return tuple(_number_side(c, steps) if isinstance(c, Numeric) else of_levels[c.name] for c in columns)


def make_tiles(look: Look, sides: tuple[Side, ...], context: Context, contexts: FloatArray) -> Tiles:
    """Ask the policy at every tile, with the other columns as in ``context``, and count a sample (n, d)."""
    experiment = look.experiment
    shape = (len(sides[0].values), len(sides[1].values) if len(sides) > 1 else 1)
    empty = Tiles(sides, shape, (), np.zeros(0, dtype=np.int64))
    points = np.array([experiment.encode({**context, **empty.values(number)}) for number in range(shape[0] * shape[1])])
    parts = {column.name: part for column, part in by_column(experiment.columns, contexts)}
    places = np.column_stack([side.places(parts[side.column.name]) for side in sides])
    numbers = _tile_numbers(places[(places >= 0).all(axis=1)], shape)
    counts = np.bincount(numbers, minlength=shape[0] * shape[1])
    return Tiles(sides, shape, tuple(ask(look, points)), counts)


def ask(look: Look, points: FloatArray) -> list[Recommended]:
    """What the policy of a look recommends in some contexts (n, d).

    Others who look may ask in between. After each part there is a pause of as long as it took: decisions in this
    process come first.
    """
    made: list[Recommended] = []
    for start in range(0, len(points), CHUNK):
        began = time.perf_counter()
        with look.lock:
            made += recommended(look.policy, points[start : start + CHUNK])
        time.sleep(min(time.perf_counter() - began, MAX_PAUSE))
    return made


def _tile_numbers(places: Counts, shape: tuple[int, int]) -> Counts:
    """Numbers of tiles from their places (n, 1 or 2) along the sides."""
    return np.asarray(places[:, 0] * shape[1] + (places[:, 1] if places.shape[1] > 1 else 0))


def _number_side(column: Numeric, steps: int) -> Side:
    middles = column.low + (np.arange(steps) + 0.5) / steps * (column.high - column.low)
    return Side(column, tuple(middles.tolist()))


def _level_side(column: Categorical, part: FloatArray) -> Side:
    """All levels, or the most frequent ones in the order in which they are declared."""
    levels = all_levels(column)
    counts = np.append(part.sum(axis=0), len(part) - part.sum())[: len(levels)]
    kept = np.sort(np.argsort(-counts, kind="stable")[:MAX_LEVELS])
    return Side(column, tuple(levels[k] for k in kept.tolist()), len(levels) - len(kept))
