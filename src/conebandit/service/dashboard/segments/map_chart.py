"""A map of tiles as a picture: its colours, their meaning in words, and a link for each tile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

from markupsafe import Markup

from conebandit.experiment.columns import Categorical, Numeric
from conebandit.pages.chart import Axis, Panel
from conebandit.pages.palette import SERIES, series
from conebandit.pages.wording import count, number, share, shown
from conebandit.service.dashboard.arms.contexts import OTHER
from conebandit.service.dashboard.segments.maps import Side, Tiles, Value

Colouring = Literal["leader", "front", "traffic"]
COLOURINGS: tuple[Colouring, ...] = get_args(Colouring)
WORDS: dict[Colouring, str] = {
    "leader": "the leading arm",
    "front": "number of arms on the front",
    "traffic": "number of decisions",
}
SHADES = 5  # darker the more
WIDTH, HEIGHT = 640, 460  # of a map
STRIP, LEVEL = 190, 70  # how high a strip is, and how much more each further level is
LETTER, MIN_LETTERS = 6.5, 6  # about how wide one is, and how many a name below a tile must have room for


class Box(NamedTuple):
    """A rectangle in units of a picture: its upper left corner and its size."""

    x: float
    y: float
    width: float
    height: float


class Key(NamedTuple):
    """An entry of the legend: a colour, what it means, and how many tiles have it."""

    css: str
    words: str
    tiles: int


class Coloured(NamedTuple):
    """The classes of all tiles, and the legend."""

    css: list[str]
    legend: list[Key]


def coloured(tiles: Tiles, arms: Sequence[str], by: Colouring) -> Coloured:
    """Give every tile a colour."""
    if by == "leader":
        return _by_leader([made.arm for made in tiles.made], arms)
    if by == "front":
        return _by_number([len(made.front.arms) for made in tiles.made], "arm", "arms")
    return _by_number(tiles.counts.tolist(), "decision", "decisions")


def picture(
    tiles: Tiles,
    arms: Sequence[str],
    by: Colouring,
    link: Callable[[int], str],
    chosen: int | None = None,
) -> Markup:
    """The map; ``link`` gives the address of what is known at a tile, and ``chosen`` is a tile that is marked."""
    across, up = tiles.sides[0], tiles.sides[1] if len(tiles.sides) > 1 else None
    height = STRIP if up is None else _height(up)
    x = _axis(across, (WIDTH - 80) / len(across.values), numbered=is_numbered(across))
    y = Axis("", 0.0, 1.0, ()) if up is None else _axis(up, 44.0)
    panel = Panel(x, y, width=WIDTH, height=height)
    css = coloured(tiles, arms, by).css
    numbered = by == "leader" and len(arms) > len(SERIES)  # so many that colours come again
    for tile, made in enumerate(tiles.made):
        box = _box(tiles, panel, tile)
        inside = _rectangle(box, f"tile {css[tile]}") + (_label(box, str(made.arm + 1)) if numbered else "")
        panel.add(_link(link(tile), title_of(tiles, arms, tile), inside))
    if chosen is not None:
        box = _box(tiles, panel, chosen)
        panel.add(_rectangle(box, "halo") + _rectangle(box, "chosen"))
    columns = " and ".join(shown(side.column.name) for side in tiles.sides)
    return panel.svg(f"Map over {columns}, coloured by {WORDS[by]}; each tile says what it is when pointed at")


def title_of(tiles: Tiles, arms: Sequence[str], tile: int) -> str:
    """What is known at a tile, in one sentence."""
    made = tiles.made[tile]
    where = ", ".join(f"{shown(name)} {value_words(value)}" for name, value in tiles.values(tile).items())
    front = ", ".join(shown(arms[k], 24) for k in made.front.arms[:6]) + (", …" if len(made.front.arms) > 6 else "")
    sure = "" if made.chance != made.chance else f" (on the front with a chance of {share(made.chance)})"
    decisions = int(tiles.counts[tile])
    return (
        f"{where}: {shown(arms[made.arm], 24)} leads{sure}; on the front: {front}; "
        f"{count(decisions)} decision{'' if decisions == 1 else 's'} of the sample"
    )


def value_words(value: Value) -> str:
    """A value of a column, to be read."""
    if isinstance(value, str):
        return "another one" if value == OTHER else shown(value, 24)
    return number(value, 4)


def _by_leader(leaders: Sequence[int], arms: Sequence[str]) -> Coloured:
    found = sorted(set(leaders), key=lambda arm: -leaders.count(arm))
    numbered = len(arms) > len(SERIES)
    legend = [
        Key(series(arm), f"{arm + 1}: {shown(arms[arm])}" if numbered else shown(arms[arm]), leaders.count(arm))
        for arm in found
    ]
    return Coloured([series(arm) for arm in leaders], legend)


def _by_number(values: Sequence[int], one: str, many: str) -> Coloured:
    """Darker where there are more; nothing is a shade of its own."""
    ranges = _ranges([value for value in values if value > 0])
    shades = {0: "shade-0"}
    for value in set(values) - {0}:
        place = next(k for k, (_, high) in enumerate(ranges) if value <= high)
        shades[value] = f"shade-{place + 1 + SHADES - len(ranges)}"
    css = [shades[value] for value in values]
    legend = []
    for low, high in [*([(0, 0)] if 0 in values else []), *ranges]:
        words = f"no {one}" if high == 0 else f"{count(low)} to {count(high)} {many}"
        if low == high > 0:
            words = f"{count(low)} {one if low == 1 else many}"
        own = [shade for value, shade in zip(values, css, strict=True) if low <= value <= high]
        if own:
            legend.append(Key(own[0], words, len(own)))
    return Coloured(css, legend)


def _ranges(values: Sequence[int]) -> list[tuple[int, int]]:
    """Each value by itself if there are few, else equal ranges from the smallest to the largest."""
    known = sorted(set(values))
    if len(known) <= SHADES:
        return [(value, value) for value in known]
    edges = [known[0] + (known[-1] - known[0]) * k // SHADES for k in range(SHADES + 1)]
    return [(low + (k > 0), high) for k, (low, high) in enumerate(pairwise(edges))]


def is_numbered(side: Side) -> bool:
    """Whether there are too many levels to write their names below a map."""
    return isinstance(side.column, Categorical) and (WIDTH - 80) / len(side.values) < MIN_LETTERS * LETTER


def _axis(side: Side, room: float, *, numbered: bool = False) -> Axis:
    """An axis with a tile for each value; ``room`` is how wide the name of a level may be."""
    column = side.column
    if isinstance(column, Numeric):
        ends = (column.low, column.high)
        return Axis.around(ends, column.name, within=ends)
    names = [str(k + 1) if numbered else value_words(level) for k, level in enumerate(side.values)]
    ticks = tuple((float(k), shown(name, int(room / LETTER))) for k, name in enumerate(names))
    return Axis(column.name, -0.5, len(names) - 0.5, ticks)


def _height(up: Side) -> int:
    """Of a map; lower if there are few levels."""
    return HEIGHT if isinstance(up.column, Numeric) else min(HEIGHT, STRIP + LEVEL * (len(up.values) - 1))


def _box(tiles: Tiles, panel: Panel, tile: int) -> Box:
    """Where a tile is in the picture."""
    places = divmod(tile, tiles.shape[1])
    (left, right), (low, high) = (
        (axis.low + (axis.high - axis.low) * place / n, axis.low + (axis.high - axis.low) * (place + 1) / n)
        for axis, place, n in zip((panel.x, panel.y), places, tiles.shape, strict=True)
    )
    (x, y), (end, base) = panel.at(left, high), panel.at(right, low)
    return Box(x, y, round(end - x, 2), round(base - y, 2))


def _rectangle(box: Box, css: str) -> Markup:
    return Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>').format(css, *box)


def _link(address: str, title: str, inside: Markup) -> Markup:
    """A tile that leads to what is known there. By keyboard one goes there with the fields for the columns."""
    return Markup('<a href="{}" tabindex="-1"><title>{}</title>{}</a>').format(address, title, inside)


def _label(box: Box, words: str) -> Markup:
    x, y = round(box.x + box.width / 2, 1), round(box.y + box.height / 2 + 4, 1)
    return Markup('<text class="on-tile" x="{}" y="{}" text-anchor="middle">{}</text>').format(x, y, words)
