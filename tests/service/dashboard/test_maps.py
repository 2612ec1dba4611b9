"""Maps ask the policy at every tile, count what a sample has there, and say in words what colours mean."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conebandit.experiment.columns import Categorical, Numeric
from conebandit.service.dashboard.segments import map_chart, maps
from tests.pages.elements import Elements
from tests.service.dashboard.looking import DOSES, a_look, a_sample

PAIRS = [("age",), ("stage",), ("age", "weight"), ("stage", "age"), ("weight", "stage")]


@pytest.fixture(scope="module")
def look():
    return a_look()


def tiles_of(look, names, rows=120, sample=None):
    columns = [column for name in names for column in look.experiment.columns if column.name == name]
    x = (sample or a_sample(look)).x
    sides = maps.make_sides(columns, look.experiment, x, rows)
    return maps.make_tiles(look, sides, maps.typical(look.experiment, x), x)


@pytest.mark.parametrize("names", PAIRS)
def test_every_tile_has_the_front_of_the_policy_there(look, names):
    tiles = tiles_of(look, names)
    usual = maps.typical(look.experiment, a_sample(look).x)
    assert len(tiles.made) == tiles.shape[0] * tiles.shape[1]
    for number, made in enumerate(tiles.made):
        x = look.experiment.encode({**usual, **tiles.values(number)})
        assert made.front.arms == look.policy.front(x).arms
        assert made.arm in made.front.arms
        assert tiles.number_of({**usual, **tiles.values(number)}) == number


@pytest.mark.parametrize("names", PAIRS)
def test_decisions_are_counted_where_they_were_made(look, names):
    sample = a_sample(look)
    sample.x[:2, 0] = [0.0, 1.0]  # the bounds belong to the first and the last tile
    tiles = tiles_of(look, names, sample=sample)
    plain = np.zeros(tiles.shape, dtype=int)
    for x in sample.x:
        places = []
        for name, steps in zip(names, tiles.shape, strict=False):
            if name == "stage":
                places.append({(1.0, 0.0): 0, (0.0, 1.0): 1, (0.0, 0.0): 2}[tuple(x[1:3])])
            else:
                upper_ends = np.arange(1, steps) / steps
                places.append(int((x[0 if name == "age" else 3] >= upper_ends).sum()))
        plain[(*places, 0)[:2]] += 1
    assert tiles.counts.tolist() == plain.ravel().tolist()
    assert tiles.counts.sum() == len(sample)


def test_there_are_never_more_tiles_than_allowed():
    many = [{"name": f"c{k}", "levels": [f"l{i}" for i in range(50)]} for k in range(2)]
    look = a_look(DOSES | {"context": many}, observations=5)
    for names in (("c0",), ("c0", "c1")):
        tiles = tiles_of(look, names, rows=maps.MAX_TILES)
        assert len(tiles.made) <= maps.MAX_TILES
        assert all(side.left_out == 50 - maps.MAX_LEVELS for side in tiles.sides)
    assert len(tiles_of(a_look(observations=5), ("age", "weight"), rows=10**6).made) == maps.MAX_TILES
    assert len(tiles_of(a_look(observations=5), ("age", "weight"), rows=1).made) == maps.MIN_STEPS**2
    assert len(tiles_of(a_look(observations=5), ("age",), rows=10**6).made) == maps.MAX_STRIP


def test_the_most_frequent_levels_are_shown_in_the_order_of_the_declaration():
    levels = tuple(f"l{i}" for i in range(30))
    part = np.eye(30)[[*range(5, 30), *range(5, 30), 0]]
    side = maps._level_side(Categorical("c", levels), part)
    assert side.values == levels[5 : 5 + maps.MAX_LEVELS]
    assert side.places(np.eye(30)[[0, 5, 24, 25]]).tolist() == [-1, 0, 19, -1]


def test_a_policy_with_more_arms_is_asked_less():
    few, many = a_look(observations=2), a_look(DOSES | {"arms": [f"a{k}" for k in range(100)]}, observations=2)
    assert maps.rows_within(few.policy, 400) == 400
    assert maps.rows_within(many.policy, 400) == maps.MAX_WORK // 200


def test_a_typical_context_can_be_decided_about():
    look = a_look()
    assert look.experiment.encode(maps.typical(look.experiment, np.empty((0, 4)))).tolist() == [0.5, 1.0, 0.0, 0.5]
    typical = maps.typical(look.experiment, np.array([[0.1234567, 0, 1, 0.5], [0.1234567, 0, 1, 0.0]]))
    assert typical == {"age": 27.4, "stage": "late", "weight": 60.0}
    narrow = replace(look.experiment, columns=(Numeric("c", 0.12345, 0.12346),))
    assert narrow.columns[0].low <= maps.typical(narrow, np.array([[0.5]]))["c"] <= narrow.columns[0].high


@given(values=st.lists(st.integers(0, 3000), min_size=1, max_size=60))
def test_a_legend_says_how_many_tiles_have_each_number(values):
    coloured = map_chart._by_number(values, "decision", "decisions")
    assert sum(key.tiles for key in coloured.legend) == len(values)
    assert len(coloured.legend) <= map_chart.SHADES + 1
    assert len({key.css for key in coloured.legend}) == len(coloured.legend)
    shades = [int(css.removeprefix("shade-")) for css in coloured.css]
    for value, shade in zip(values, shades, strict=True):
        assert (shade == 0) == (value == 0)
        assert all(shade <= other for more, other in zip(values, shades, strict=True) if more >= value)


@pytest.mark.parametrize("names", PAIRS)
@pytest.mark.parametrize("by", map_chart.COLOURINGS)
def test_a_picture_has_a_link_and_words_for_every_tile(look, names, by):
    tiles = tiles_of(look, names)
    drawn = map_chart.picture(tiles, look.experiment.arms, by, lambda tile: f"?tile={tile}", chosen=0)
    elements = Elements(str(drawn))
    assert [link["href"] for link, _ in elements.all("a")] == [f"?tile={k}" for k in range(len(tiles.made))]
    assert drawn.count("<title>") == len(tiles.made)
    legend = map_chart.coloured(tiles, look.experiment.arms, by).legend
    assert sum(key.tiles for key in legend) == len(tiles.made)
    assert all(f"tile {key.css}" in drawn for key in legend)


def test_where_colours_come_again_arms_are_numbered():
    look = a_look(DOSES | {"arms": [f"a{k}" for k in range(12)]}, observations=60)
    tiles = tiles_of(look, ("age",))
    drawn = str(map_chart.picture(tiles, look.experiment.arms, "leader", str))
    legend = map_chart.coloured(tiles, look.experiment.arms, "leader").legend
    assert drawn.count('class="on-tile"') == len(tiles.made)
    assert all(key.words.split(": ")[0].isdigit() for key in legend)
