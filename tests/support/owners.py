"""Which owners of the state each function of the framework uses, itself or in what it calls.

Pure: sources in, names out. A function uses an owner if it takes it, reads it from the state, or
passes the state to a function that uses it. A class that keeps the state counts as a function: its
methods are its body. If the state is passed to something that is not found, the function counts as
using all of it, so a mistake here is on the lenient side.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from attrs import field, frozen

__all__ = ["OWNERS", "Use", "uses"]

OWNERS = (
    *("settings", "nodes", "queue", "pods", "pod_classes"),
    *("attempts", "reservations", "call"),
)
"""The attributes of ``State``."""


@frozen
class Use:
    """A function, or a class that keeps the state.

    Attributes:
        takes_state: Whether it takes the whole state, or keeps it.
        owners: The owners that it uses, itself or in what it calls.
    """

    takes_state: bool
    owners: frozenset[str]


@frozen
class _Found:
    """What one function does by itself."""

    takes_state: bool
    owners: set[str] = field(factory=set[str])
    calls: set[str] = field(factory=set[str])


def uses(modules: Mapping[str, str]) -> dict[str, Use]:
    """Return the use of each function by its full name.

    Args:
        modules: Full module name to source.
    """
    trees = {name: ast.parse(source) for name, source in modules.items()}
    names = {name: dict(_imported(tree)) for name, tree in trees.items()}
    known = {f"{m}.{n.name}" for m, tree in trees.items() for n in _definitions(tree)}
    found = {
        f"{module}.{node.name}": _read(module, node, names, known)
        for module, tree in trees.items()
        for node in _definitions(tree)
    }
    owners = {name: set(each.owners) for name, each in found.items()}
    changed = True
    while changed:
        changed = False
        for name, each in found.items():
            more = set().union(*(owners[called] for called in each.calls)) - owners[name]
            owners[name] |= more
            changed |= bool(more)
    return {name: Use(each.takes_state, frozenset(owners[name])) for name, each in found.items()}


def _definitions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.ClassDef]:
    return (n for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef))


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _resolve(called: ast.expr, module: str, names: Mapping[str, Mapping[str, str]]) -> str:
    """Return the full name of what is called; follow names that a module passes on."""
    match called:
        case ast.Name(id=name):
            full = names[module].get(name, f"{module}.{name}")
        case ast.Attribute(value=ast.Name(id=name), attr=attr) if name in names[module]:
            full = f"{names[module][name]}.{attr}"
        case _:
            return ""
    origin, _dot, name = full.rpartition(".")
    return names.get(origin, {}).get(name, full)


def _is_state(node: ast.expr) -> bool:
    match node:
        case ast.Name(id="state"):
            return True
        case ast.Attribute(value=ast.Name(id="self"), attr="state" | "_state"):
            return True
        case _:
            return False


def _read(
    module: str,
    node: ast.FunctionDef | ast.ClassDef,
    names: Mapping[str, Mapping[str, str]],
    known: set[str],
) -> _Found:
    annotations = [
        *(each.annotation for each in ast.walk(node) if isinstance(each, ast.arg)),
        *(each.annotation for each in ast.walk(node) if isinstance(each, ast.AnnAssign)),
    ]
    found = _Found(any(isinstance(each, ast.Name) and each.id == "State" for each in annotations))
    for each in ast.walk(node):
        match each:
            case ast.Attribute(value=value, attr=attr) if attr in OWNERS and _is_state(value):
                found.owners.add(attr)
            case ast.Call(func=func, args=args, keywords=keywords):
                if any(map(_is_state, (*args, *(each.value for each in keywords)))):
                    called = _resolve(func, module, names)
                    if called in known:
                        found.calls.add(called)
                    else:
                        found.owners.update(OWNERS)
            case _:
                pass
    return found
