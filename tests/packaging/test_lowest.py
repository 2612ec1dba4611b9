"""``lowest.txt``, which CI tests with, says the same as pyproject.toml, which pip reads."""

import re
import tomllib
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROJECT = tomllib.loads((HERE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# The extras that a user of the library installs.
USERS = ("plot", "data", "service", "postgres", "gym", "dask", "ray", "trials")
REQUIREMENT = re.compile(r"(?P<name>[a-z0-9-]+)(\[(?P<extras>[a-z,]+)\])?>=(?P<version>[0-9.]+)$")


def promised() -> dict[str, str]:
    """The lowest version of each dependency, by name; an extra of a dependency is a package of its own."""
    extras = PROJECT["optional-dependencies"]
    lines = [*PROJECT["dependencies"], *(line for extra in USERS for line in extras[extra])]
    lines += [line for line in extras["dev"] if line.startswith("httpx")]  # Starlette's test client needs it
    found = {}
    for line in lines:
        match = REQUIREMENT.match(line)
        assert match, f"{line!r} in pyproject.toml does not say its lowest version as name>=version"
        for name in (
            match["name"],
            *(f"{match['name']}-{extra}" for extra in (match["extras"] or "").split(",") if extra),
        ):
            found[name] = match["version"]
    return found


def pinned() -> dict[str, str]:
    lines = (HERE / "lowest.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


@pytest.mark.parametrize("name", sorted(promised().keys() | pinned().keys()))
def test_the_lowest_version_is_the_one_that_is_tested(name):
    assert pinned().get(name) == promised().get(name)
