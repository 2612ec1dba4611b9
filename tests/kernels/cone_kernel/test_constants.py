"""The table of constants: complete, and the only place where numbers are written."""

import ast
import json
import math
from pathlib import Path

import pytest

import conebandit
from conebandit.kernels.cone_kernel import constants

ROOMS = [Path(conebandit.__file__).parent / room / "cone_kernel" for room in ("kernels", "policies")]
FILES = sorted(file for room in ROOMS for file in room.glob("*.py") if file.name != "constants.py")
# Those of formulas: a half and a square, signs, powers.
MATHEMATICS = {0.0, 0.5, 1.0, 2.0}


def test_rows_are_the_constants_of_the_module():
    named = {name: value for name, value in vars(constants).items() if name.isupper() and not isinstance(value, str)}
    assert {row.name: row.value for row in constants.TABLE} == {
        name: value for name, value in named.items() if name not in {"TABLE", "ROLES"}
    }
    assert len({row.name for row in constants.TABLE}) == len(constants.TABLE)
    assert all(row.meaning and row.origin for row in constants.TABLE)


def test_every_role_that_is_not_behaviour_is_given_to_constants_of_the_table():
    roles = [row.role for row in constants.TABLE]
    assert set(roles) == {constants.BEHAVIOUR, *constants.ROLES}
    given = [name for names in constants._names.values() for name in names]
    assert sorted(given) == sorted(row.name for row in constants.TABLE if row.role != constants.BEHAVIOUR)


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parts[-3]}/{file.name}")
def test_other_files_write_no_numbers(file):
    """But those of formulas, and small integers, which count axes and places."""
    numbers = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Constant)]
    floats = {node.value for node in numbers if isinstance(node.value, float)}
    assert floats <= MATHEMATICS, file
    assert all(abs(node.value) <= 6 for node in numbers if type(node.value) is int)


def test_what_origins_say_about_a_measurement_is_so():
    file = Path(__file__).parents[3] / "benchmarks" / "results" / "constants.json"
    measured = {row["constant"]: row for row in json.loads(file.read_text())["rows"]}
    for row in constants.TABLE:
        found = measured.get(row.name)
        if row.origin == constants.CHECKED:
            assert all(math.log(found[word]) >= -2 * found[f"{word} noise"] for word in ("half", "double")), row.name
        if row.origin == constants.FINE_ENOUGH:
            assert abs(math.log(found["half"])) < 2 * found["half noise"], row.name
        assert found is None or found["value"] == row.value, row.name


def test_every_constant_is_used():
    text = "\n".join(file.read_text() for file in FILES)
    names = {node.id for node in ast.walk(ast.parse(text.replace("from __future__ import annotations", "")))
             if isinstance(node, ast.Name)}  # fmt: skip
    assert {row.name for row in constants.TABLE} <= names
