"""What is public is listed, documented and importable; what is listed is public."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import subprocess
import sys
import typing
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import gangsched
from gangsched import errors, events, model, outcomes, status
from gangsched._facade import MODULES as PUBLIC
from gangsched._facade import ORIGINS
from support.layers import sources

MODULES = sources(Path(gangsched.__file__).parent)
LISTED = [name for name, source in MODULES.items() if "__all__" in source]
HERE = [name for name in LISTED if not name.startswith("gangsched.kubernetes")]
EXPORTED = {name: getattr(gangsched, name) for name in gangsched.__all__}
WHERE = {**os.environ, "PYTHONPATH": str(Path(gangsched.__file__).parent.parent)}
TYPES = {name: value for name, value in EXPORTED.items() if inspect.isclass(value)}


def listed(module: str) -> list[str]:
    """Return the literal ``__all__`` of a module."""
    for node in ast.parse(MODULES[module]).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names = ast.literal_eval(node.value)
            assert isinstance(names, list)
            return names
    raise AssertionError(f"{module} has no __all__ that can be read")


def defined(module: str) -> set[str]:
    """Return the classes, functions and types that a module defines at its top and shows."""
    names: set[str] = set()
    for node in ast.parse(MODULES[module]).body:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                names.add(name)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name("NewType"))):
                names.add(name)
            case ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name("TypeAlias")):
                names.add(name)
    return {name for name in names if not name.startswith("_")}


# The facade -----------------------------------------------------------------------------------


def imported_by_the_facade() -> list[tuple[str, str]]:
    """Return what type checkers take for imported: modules and names."""
    (block,) = (node for node in ast.parse(MODULES["gangsched"]).body if isinstance(node, ast.If))
    return [
        (str(node.module).removeprefix("gangsched").removeprefix("."), alias.asname or alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]


def test_facade_lists_what_it_imports_in_order() -> None:
    imported = [name for _module, name in imported_by_the_facade()]
    assert gangsched.__all__ == sorted([*imported, "__version__"])
    assert len(set(imported)) == len(imported)


def test_facade_loads_what_type_checkers_take_for_imported() -> None:
    loaded = {(module, name) for module, names in ORIGINS.items() for name in names.split()}
    modules = {("", name) for name in PUBLIC if name in gangsched.__all__}
    assert sorted(loaded | modules) == sorted(imported_by_the_facade())
    assert set(gangsched.__all__) < set(dir(gangsched))


def test_public_names_are_present_and_no_others() -> None:
    there = {name.split(".")[1] for name in MODULES if "." in name}
    others = there - {*PUBLIC, *gangsched.__all__, "_facade", "_version"}
    assert {"primitives", "simulation", "cli"} < others
    code = f"""
import sys
for name in {[*PUBLIC, *sorted(others)]}:
    for loaded in [each for each in sys.modules if each.partition(".")[0] == "gangsched"]:
        del sys.modules[loaded]
    import gangsched
    if name in {PUBLIC}:
        assert getattr(gangsched, name).__name__ == "gangsched." + name, name
    else:
        assert not hasattr(gangsched, name), name
"""
    # an extension may refuse to be loaded twice
    where = {**WHERE, "GANGSCHED_NO_EXTENSIONS": "1"}
    subprocess.run([sys.executable, "-c", code], check=True, env=where)
    name = "nobody"
    with pytest.raises(AttributeError, match="'gangsched' has no attribute 'nobody'"):
        getattr(gangsched, name)


@pytest.mark.parametrize(
    "first", ["pass", "import gangsched.membership", "from gangsched.membership import SPELLINGS"]
)
def test_name_that_a_module_has_too_is_what_the_facade_says(first: str) -> None:
    code = (
        f"{first}\nimport gangsched\nfrom gangsched import membership\n"
        "import gangsched.membership\nassert gangsched.membership is membership\n"
        "assert membership.__module__ == 'gangsched.membership'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=WHERE)


def test_loaded_values_are_kept() -> None:
    assert gangsched.Pod is model.Pod
    assert vars(gangsched)["Pod"] is model.Pod


@pytest.mark.parametrize("name", gangsched.__all__)
def test_every_name_of_the_facade_is_documented(name: str) -> None:
    value = EXPORTED[name]
    if inspect.isclass(value) or inspect.isfunction(value) or inspect.ismodule(value):
        own = inspect.getdoc(value)
        assert own
        assert own[0].isupper() or own.startswith("``")
    else:
        # an alias, an id type or a text: its documentation stands beside it
        assert isinstance(value, str) or typing.get_args(value) or hasattr(value, "__supertype__")


def test_every_public_method_of_the_facade_is_documented() -> None:
    bare = [
        f"{name}.{member}"
        for name, cls in TYPES.items()
        for member, value in vars(cls).items()
        if not member.startswith("_")
        and (inspect.isroutine(value) or isinstance(value, property))
        and not inspect.getdoc(value)
    ]
    assert bare == []


@pytest.mark.parametrize(
    "module", [errors, events, model, outcomes, status], ids=lambda m: m.__name__
)
def test_every_error_event_noun_decision_and_status_is_on_the_facade(module: ModuleType) -> None:
    public = {
        name
        for name in module.__all__
        if inspect.isclass(value := getattr(module, name)) or inspect.isfunction(value)
    }
    # a parameter takes any mapping, so no caller has to name the frozen copy
    assert public - set(gangsched.__all__) <= {"FrozenMap"}
    assert all(getattr(module, name) is EXPORTED[name] for name in public & EXPORTED.keys())


def test_unions_are_on_the_facade_with_all_that_is_in_them() -> None:
    for name in ("Outcome", "Verdict", "Event", "Effect", "Notice"):
        members = typing.get_args(EXPORTED[name])
        assert members
        assert {member.__name__ for member in members} <= EXPORTED.keys()


def test_facade_says_what_version_it_is() -> None:
    parts = gangsched.__version__.split(".")
    assert len(parts) >= 3
    assert all(part.isdigit() for part in parts[:2])


# Every module ---------------------------------------------------------------------------------


def test_only_modules_without_a_surface_list_nothing() -> None:
    silent = set(MODULES) - set(LISTED)
    assert {name for name in silent if defined(name)} == set()


@pytest.mark.parametrize("module", LISTED)
def test_module_lists_all_that_it_defines(module: str) -> None:
    if module == "gangsched":
        return
    names = listed(module)
    assert len(set(names)) == len(names)
    assert defined(module) - set(names) == set()


@pytest.mark.parametrize("module", HERE)
def test_all_that_a_module_lists_can_be_imported_by_star(module: str) -> None:
    names: dict[str, Any] = {}
    exec(f"from {module} import *", names)
    assert set(listed(module)) <= names.keys()
    assert all(getattr(importlib.import_module(module), n) is names[n] for n in listed(module))


@pytest.mark.parametrize("module", MODULES)
def test_module_says_what_it_is(module: str) -> None:
    doc = ast.get_docstring(ast.parse(MODULES[module]))
    assert doc or module == "gangsched._version"


@pytest.mark.parametrize("module", HERE)
def test_all_that_a_module_lists_is_documented(module: str) -> None:
    loaded = importlib.import_module(module)
    bare = [
        name
        for name in listed(module)
        if (inspect.isclass(value := getattr(loaded, name)) or inspect.isfunction(value))
        and not inspect.getdoc(value)
    ]
    assert bare == []
