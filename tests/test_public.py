"""Promises about the package as a whole."""

import inspect
from importlib.resources import files

import conebandit


def test_every_public_name_is_documented_with_an_example():
    for name in conebandit.__all__:
        thing = getattr(conebandit, name)
        if callable(thing):
            assert ">>>" in (inspect.getdoc(thing) or ""), f"{name} has no runnable example"


def test_every_public_method_of_a_cone_is_documented_with_an_example():
    for name, member in inspect.getmembers(conebandit.Cone):
        if not name.startswith("_") and (callable(member) or isinstance(member, property)):
            doc = inspect.getdoc(member) or ""
            assert doc, f"Cone.{name} has no docstring"
            if callable(member):
                assert ">>>" in doc, f"Cone.{name} has no runnable example"


def test_the_package_is_typed():
    assert files("conebandit").joinpath("py.typed").is_file()
