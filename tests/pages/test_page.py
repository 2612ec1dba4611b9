"""The template of pages: what a browser makes of it on a phone, on a dark screen and on paper, as far as text tells."""

import re
from itertools import pairwise

import numpy as np
import pytest

from conebandit import plots
from conebandit.pages import page
from conebandit.pages.drawing import inline
from conebandit.pages.palette import SERIES, SHADES
from conebandit.pages.template import style
from tests.pages.elements import Elements

LIGHT, DARK = 0, 1
STYLE = str(style())


def luminance(colour):
    channels = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def contrast(one, other, mode):
    """By the formula of WCAG 2; 4.5 is asked of text, 3 of graphics."""
    return contrast_of(SHADES[one][mode], SHADES[other][mode])


def contrast_of(one, other):
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("mode", [LIGHT, DARK])
def test_text_can_be_read_on_its_ground(mode):
    for name in ("text", "muted", "blue"):  # links are blue
        assert contrast(name, "ground", mode) >= 4.5
    for name in ("green", "red", "muted"):  # grounds of verdicts
        assert contrast("ground", name, mode) >= 4.5


def test_curves_can_be_seen_on_dark_ground():
    for name in ("green", "red", "blue", "amber", "light-red", "grey"):
        assert contrast(name, "ground", DARK) >= 3


@pytest.mark.parametrize("mode", [LIGHT, DARK])
def test_colours_of_arms_can_be_seen_and_are_not_those_of_others(mode):
    for shades in SERIES:
        assert contrast_of(shades[mode], SHADES["ground"][mode]) >= 4.5  # names are written in them
    assert len({shades[mode] for shades in SERIES}) == len(SERIES)


def test_colours_can_be_told_apart():
    """Otherwise a page could not know which one a picture means."""
    assert len({light for light, _ in SHADES.values()}) == len(SHADES)


def test_the_style_is_well_formed_and_uses_colours_that_exist():
    depth = np.cumsum([(c == "{") - (c == "}") for c in STYLE])
    assert depth[-1] == 0
    assert depth.min() == 0
    known = {*SHADES, *(f"series-{number}" for number in range(len(SERIES))), "own"}
    assert set(re.findall(r"var\(--([\w-]+)\)", STYLE)) <= known
    for mode in (LIGHT, DARK):
        for name, shades in SHADES.items():
            assert f"--{name}: {shades[mode]};" in STYLE
    without_variables = re.sub(r"--[\w-]+: #[0-9a-f]{6};", "", STYLE)
    values = re.findall(r":\s*[^;{}]*#[0-9a-f]{3,8}\b", without_variables)
    assert values == []  # every colour has a name, so that it has a shade for dark ground


def test_dark_is_for_screens_only_and_phones_and_paper_have_rules():
    queries = re.findall(r"@media ([^{]+?) \{", STYLE)
    assert queries[:3] == ["screen and (prefers-color-scheme: dark)", "(max-width: 40rem)", "print"]


def test_a_table_scrolls_in_a_wrapper_that_keys_can_reach():
    found = Elements(page.table([["a", "b"], ["1 < 2", "x" * 400]]))
    ((_, path),) = found.all("table")
    name, attributes = path[-1]
    assert (name, attributes["class"], attributes["tabindex"]) == ("div", "scroll", "0")
    assert re.search(r"\.scroll \{ overflow-x: auto;", STYLE)
    assert page.table([]) == ""


def drawn(tmp_path, stem="one-two"):
    x = np.linspace(1, 10, 5)
    curves = {name: (x, x * k, x / 10) for k, name in enumerate(("a", "b", "c", "d"))}
    figure = plots.rounds_figure(curves, title="title", ylabel="label", ylim=(0, 40))
    return plots.save(figure, tmp_path / stem)[1]


def test_pictures_stand_side_by_side_or_stack(tmp_path):
    paths = [drawn(tmp_path, stem) for stem in ("one", "two-too")]
    found = Elements(page.figures(paths))
    assert [path[-2:] for _, path in found.all("svg")] == [[("div", {"class": "figures"}), ("figure", {})]] * 2
    assert [attributes["aria-label"] for attributes, _ in found.all("svg")] == ["one", "two too"]
    assert re.search(r"\.figures \{ display: grid; grid-template-columns: repeat\(auto-fit, minmax\(", STYLE)
    assert page.figures([]) == ""


def test_a_panel_fits_on_a_phone_without_letters_becoming_small(tmp_path):
    """360 CSS pixels less the margins of the page are 328, that is 246 points."""
    ((attributes, _),) = Elements(page.figure(drawn(tmp_path))).all("svg")
    least = float(re.search(r"min-width: (\d+)pt", attributes["style"])[1])
    assert least <= 246
    assert "width" not in attributes  # of a fixed width it would not shrink


def test_pictures_of_a_page_have_identifiers_of_their_own(tmp_path):
    text = page.figures([drawn(tmp_path, "one"), drawn(tmp_path, "two")])
    names = re.findall(r'\bid="([^"]+)"', text)
    assert len(names) == len(set(names))
    targets = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text)
    assert targets
    assert {one or other for one, other in targets} <= set(names)


def test_pictures_take_every_colour_from_the_page(tmp_path):
    text = page.figure(drawn(tmp_path))
    assert not re.search(r": #[0-9a-f]{3,6}\b", text)
    assert {"var(--text)", "var(--ground)", "var(--blue)", "var(--amber)", "var(--red)", "var(--green)"} <= set(
        re.findall(r"var\(--[\w-]+\)", text)
    )


def test_shapes_stay_where_they_are(tmp_path):
    """Coordinates are shortened to a hundredth of a point, and nothing else is."""
    path = drawn(tmp_path)
    before = [re.findall(r"-?[\d.]+", d) for d in re.findall(r' d="([^"]*)"', path.read_text())]
    after = [re.findall(r"-?[\d.]+", d) for d in re.findall(r' d="([^"]*)"', inline(path.read_text(), "x"))]
    assert len(before) == len(after) > 10
    for one, other in zip(before, after, strict=True):
        np.testing.assert_allclose(np.array(one, float), np.array(other, float), atol=0.01)
    assert re.findall(r"scale\([^)]*\)", path.read_text()) == re.findall(
        r"scale\([^)]*\)", inline(path.read_text(), "x")
    )


@pytest.mark.parametrize("text", ["", "<html></html>", '<svg viewBox="0 0 1 1"></svg>'])
def test_what_is_no_picture_is_refused(text):
    with pytest.raises(ValueError, match="svg must be a picture"):
        inline(text, "x")


def test_names_are_escaped_everywhere():
    text = page.document("a < b", page.heading("<i>") + page.folded("<b>", page.paragraph("&")), "<u>")
    found = Elements(text)
    assert {name for name, _, _ in found.seen}.isdisjoint({"i", "b", "u"})
    headings = re.findall(r"<h(\d)", text)
    assert all(int(b) - int(a) <= 1 for a, b in pairwise(headings))


@pytest.mark.parametrize(("good", "kind"), [(True, "yes"), (False, "no"), (None, "open")])
def test_verdicts_have_a_ground(good, kind):
    assert f'class="verdict {kind}"' in page.verdict(good, "word")
    assert f".{kind} {{ background: var(--" in STYLE
