"""Promises about the package as a whole."""

import copy
import importlib
import inspect
import pickle
import re
import subprocess
import sys
import typing
from importlib.resources import files
from pathlib import Path

import cloudpickle
import pytest

import conebandit
from conebandit import _public
from conebandit.experiment import declaration

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


def test_the_package_travels_by_its_name():
    assert pickle.loads(pickle.dumps(conebandit)) is conebandit
    assert copy.deepcopy(conebandit) is conebandit
    names = {"__name__": "__main__", "cb": conebandit}  # as in a script or a notebook, whose functions travel by value
    exec("def version():\n    return cb.__version__", names)
    assert pickle.loads(cloudpickle.dumps(names["version"]))() == conebandit.__version__


MODULES = (
    "conebandit",
    "conebandit.environments",
    "conebandit.environments.shift",
    "conebandit.formats",
    "conebandit.gym",
)
ELSEWHERE = re.compile(r"(?:as for|those of)\s+:(?:class|func):`(\w+)`", re.IGNORECASE)


def public_callables():
    for module in map(importlib.import_module, MODULES):
        for name in getattr(module, "__all__", ("BanditEnv", "make", "names")):
            thing = getattr(module, name)
            raised = inspect.isclass(thing) and issubclass(thing, BaseException)  # not made by users
            if callable(thing) and not raised and name not in REPLIES and not getattr(thing, "_is_protocol", False):
                yield module, name, thing


def explanation(module, thing):
    """Docstring of a function or class, those of its bases, and those it refers to for its parameters."""
    classes = [c for c in thing.__mro__ if c.__module__.startswith("conebandit")] if inspect.isclass(thing) else [thing]
    text = "\n".join(inspect.cleandoc(c.__doc__ or "") for c in classes)
    others = (getattr(module, name, thing) for name in ELSEWHERE.findall(text))
    return "\n".join([text, *(inspect.getdoc(other) or "" for other in others)])


def test_every_option_is_explained():
    """Each parameter that has a default: in a section of the docstring, or in its words."""
    for module, name, thing in public_callables():
        text = explanation(module, thing)
        for option in inspect.signature(thing).parameters.values():
            if option.default is not option.empty:
                listed = re.search(rf"^(?:\w+, )*{option.name}(?:, \w+)*$", text, re.MULTILINE)
                assert listed or f"``{option.name}``" in text, f"{name}: {option.name} is not explained"


def test_every_entry_of_a_declaration_is_explained():
    """The lists of entries that the code knows, and the page that lists them for people."""
    page = (Path(__file__).parents[1] / "docs" / "service.md").read_text(encoding="utf-8")
    room = Path(conebandit.__file__).parent / "experiment"
    known = set(declaration.KNOWN)
    for file in ("metrics.py", "columns.py"):
        for listed in re.findall(r'\(("name", [^)]*)\)', (room / file).read_text(encoding="utf-8")):
            known |= set(re.findall(r'"(\w+)"', listed))
    assert {"arms", "metrics", "worst", "window", "levels", "out_of_range"} <= known
    for entry in known:
        assert re.search(rf"\b{entry}\b( =|\]\])|`{entry}`", page), f"{entry} is not in docs/service.md"


def test_what_takes_long_to_load_is_not_loaded_before_it_is_needed():
    code = "import sys, conebandit.cli; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "conebandit" in loaded
    assert not {"scipy.stats", "scipy.optimize", "matplotlib", "pandas", "pyarrow", "fastapi"} & set(loaded)


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


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_public_names_are_loaded_when_the_first_is_asked_for():
    """A service needs few of them, and starts sooner."""
    before = "import sys, conebandit; print(conebandit.__version__, 'numba' in sys.modules)"
    assert run(before) == [conebandit.__version__, "False"]
    for ask in ("from conebandit import Cone", "conebandit.policies", "from conebandit import *", "dir(conebandit)"):
        code = f"import conebandit; {ask}; print(*sorted(set(vars(conebandit)) & set(conebandit.__all__)))"
        assert run(code) == sorted(conebandit.__all__), ask


def test_every_public_name_is_what_it_is_elsewhere():
    assert set(conebandit.__all__) <= set(dir(conebandit))
    for name in conebandit.__all__:
        thing = getattr(conebandit, name)
        assert thing is getattr(_public, name)
        if hasattr(thing, "__qualname__"):
            assert pickle.loads(pickle.dumps(thing)) is thing
    with pytest.raises(AttributeError, match="module 'conebandit' has no attribute 'Come'"):
        conebandit.Come  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'Come'"):
        exec("from conebandit import Come")


def test_the_function_that_simulates_is_never_the_module_of_its_name():
    for first in (
        "import conebandit.simulate",
        "from conebandit.simulate import Run",
        "import conebandit.evaluation.log",
    ):
        assert run(f"{first}; import conebandit; print(type(conebandit.simulate).__name__)") == ["function"], first


def test_threads_that_ask_at_once_all_get_what_they_ask_for():
    code = """
import threading, conebandit
found, gate = [], threading.Barrier(4)
def ask(name):
    gate.wait()
    found.append(getattr(conebandit, name).__name__)
threads = [threading.Thread(target=ask, args=[name]) for name in ("Cone", "Client", "simulate", "Edge")]
[thread.start() for thread in threads], [thread.join() for thread in threads]
print(*sorted(found))
"""
    assert run(code) == ["Client", "Cone", "Edge", "simulate"]


def test_the_service_loads_nothing_that_only_studies_need():
    loaded = set(run("import sys, conebandit.cli, conebandit.service.http.server; print(*sys.modules)"))
    assert "conebandit.service.http.server" in loaded
    assert not loaded & {"joblib", "conebandit.simulate", "conebandit.evaluation.log", "conebandit._public"}
