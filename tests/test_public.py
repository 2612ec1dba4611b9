"""Promises about the package as a whole."""

import inspect
import typing
from importlib.resources import files

import conebandit

# Their docstrings are texts of the HTTP schema; the example of Client shows them.
REPLIES = {"Assignment", "Receipt"}


def test_every_public_name_is_documented_with_an_example():
    for name in conebandit.__all__:
        thing = getattr(conebandit, name)
        if callable(thing) and name not in REPLIES:
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


def annotated_types(thing):
    """The types in the annotations of a function, or of a class, its fields and its public methods and properties."""
    if inspect.isclass(thing):
        members = [member for name, member in inspect.getmembers(thing) if not name.startswith("_")]
        annotated = [thing, thing.__init__, *members]
    else:
        annotated = [thing]
    for member in annotated:
        function = member.fget if isinstance(member, property) else member
        if inspect.isclass(function) or inspect.isfunction(function) or inspect.ismethod(function):
            for name, hint in typing.get_type_hints(function, localns=vars(conebandit)).items():
                if not name.startswith("_"):
                    yield from flattened(hint)


def flattened(hint):
    yield hint
    for inner in typing.get_args(hint):
        yield from flattened(inner)


def test_every_type_that_a_user_meets_in_an_annotation_is_public():
    public = [getattr(conebandit, name) for name in conebandit.__all__]
    for name in conebandit.__all__:
        for met in annotated_types(getattr(conebandit, name)):
            module = getattr(met, "__module__", "")
            if isinstance(met, type) and module.startswith("conebandit") and "environments" not in module:
                assert met in public, f"{name} speaks of {module}.{met.__name__}, which is not public"
