"""The house, as a table, and a checker that reads every import and asks whether it points down.

Pure: module names and sources in, violations out. An import counts wherever it stands: in a
function, under ``TYPE_CHECKING``, or in a branch that is never taken.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from attrs import field, frozen

__all__ = ["HOUSE", "Room", "Violation", "sources", "violations"]

ROOT: Final = "gangsched"


@frozen
class Room:
    """Modules that belong together.

    Attributes:
        floors: The modules, bottom first; ``x.*`` is every module under x, and these may not
            import each other; ``x.**`` is every module under x, and these may, without a circle.
        free: Whether the modules may import each other in any direction, without a circle.
        pure: Whether they must not import clocks, threads and the like.
    """

    floors: tuple[tuple[str, ...], ...]
    free: bool = field(default=False, kw_only=True)
    pure: bool = field(default=True, kw_only=True)

    def floor(self, module: str) -> int | None:
        """Return the floor of a module, from 0; None for a module of another package."""
        for number, names in enumerate(self.floors):
            if module in names:
                return number
        for number, names in enumerate(self.floors):
            if any("*" in name and module.startswith(name.rstrip("*")) for name in names):
                return number
        return None


def _each(names: str) -> tuple[Room, ...]:
    """Return modules that do not import each other."""
    return tuple(Room(((name,),)) for name in names.split())


def _shell(name: str) -> Room:
    return Room(((name, f"{name}.*"),), free=True, pure=False)


_EXTENDER_PROTOCOL: Final = Room(
    tuple(
        (f"kubernetes.extender.{each}",)
        for each in ("_messages", "_node_pauses", "_reasons", "_plans", "_answers")
    )
)
"""What the extender answers, without I/O; the shell around it is a part of ``kubernetes``."""

_PROTOCOLS: Final = Room(
    (
        *(("protocols._cluster", "protocols._groups"), ("protocols._views",)),
        *(("protocols.*",), ("protocols",)),
    )
)


def _tower(root: str, *floors: str) -> Room:
    """Return a package of packages, and of single modules, bottom first."""
    return Room((*((f"{root}.{each}", f"{root}.{each}.**") for each in floors), (root,)))


_PRIMITIVES: Final = Room(
    (
        ("primitives.heap", "primitives.heap.**"),
        ("primitives.packing", "primitives.packing.**"),
        ("primitives", "primitives.**"),
    )
)
_CORE: Final = _tower(
    "core",
    *("one_call", "remembered", "nodes", "evaluation", "records", "placement", "queue", "points"),
    *("state", "moves", "admission", "attempt", "preemption", "reservation", "intake", "reading"),
    *("settle", "decision", "cycle", "questions", "snapshot", "arguments", "scheduler"),
)
FACADE: Final = ""

HOUSE: Final[tuple[tuple[Room, ...], ...]] = (
    _each("errors _version _facade values values.hints values.text values.seconds"),
    _each("quantity"),
    _each("resources"),
    _each("values.fields values.reprs"),
    (Room((("constraints.*",), ("constraints",)), free=True),),
    (Room((("model.*",), ("model",)), free=True),),
    (
        *_each("outcomes values.forms"),
        _tower("explain", "_unschedulable", "_queue_turn", "_answers"),
        _tower(
            "cluster_objects",
            *("sets_of_pods", "service_files", "budgets", "classes", "namespaces"),
            *("volume_claims", "volume_drivers", "store"),
        ),
    ),
    (Room((("events._changes", "events._effects", "events._notices"), ("events",))),),
    _each("values.checks"),
    (*_each("membership values.form_table what_if listings trees"), _PROTOCOLS),
    _each("memory run_times gangs cluster_objects.claims_of_pods"),
    (*_each("overlay"), _PRIMITIVES),
    (
        *_each("status"),
        Room((("options.*",), ("options",))),
        _tower("cycle_state", "matcher_index", "pod_counts"),
        _tower("profile", "calls", "checked", "signing", "sort_keys", "_profile"),
    ),
    (_tower("forking", "lazy_dict", "copying"),),
    (
        *_each("coscheduling"),
        Room(
            (
                ("plugins._terms", "plugins._scores", "plugins._default_selector"),
                ("plugins.*",),
                ("plugins",),
            )
        ),
        _CORE,
    ),
    _each("scheduler"),
    _each("presets"),
    (
        Room(((FACADE,),)),
        Room((("manifests.*",), ("manifests",)), free=True),
        Room((("replay.*",), ("replay",)), free=True),
        Room((("configuration.*",), ("configuration",)), free=True),
    ),
    (_shell("simulation"), _shell("drivers"), _shell("metrics")),
    (_EXTENDER_PROTOCOL,),
    (_shell("kubernetes"),),
    (_shell("cli"),),
    _each("__main__"),
    (_shell("strategies"), _shell("testing")),
    (_shell("_hypothesis"),),
)
"""The packages, bottom first; packages of one level do not import each other."""

_NAMED: Final = {f"{ROOT}.{m}" for rooms in HOUSE for room in rooms for f in room.floors for m in f}
_RELATIVE: Final = "."

IMPURE: Final = frozenset(
    {
        *("asyncio", "concurrent", "datetime", "importlib", "logging", "multiprocessing", "os"),
        *("queue", "random", "sched", "secrets", "select", "selectors", "signal", "socket"),
        *("subprocess", "threading", "time", "uuid"),
    }
)
"""Modules that pure packages must not import."""

MAY_READ_THE_ENVIRONMENT: Final = "primitives.heap"
MAY_IMPORT_BY_NAME: Final = "_facade"

_ALLOWED: Final = {("os", MAY_READ_THE_ENVIRONMENT), ("importlib", MAY_IMPORT_BY_NAME)}

OWNERS: Final[Mapping[str, tuple[str, ...]]] = {
    "attrs": ("",),
    "typing_extensions": ("",),
    "sortedcontainers": ("forking", "primitives", "core", "simulation"),
    "yaml": ("simulation", "cli"),
    "rich": ("simulation", "cli"),
    "aiohttp": ("kubernetes",),
    "cryptography": ("kubernetes",),
    "httptools": ("kubernetes",),
    "kubernetes": ("kubernetes",),
    "kubernetes_asyncio": ("kubernetes",),
    "msgspec": ("kubernetes",),
    "uvloop": ("cli",),
    "shtab": ("cli",),
    "matplotlib": ("simulation",),
    "yarl": ("kubernetes",),
    "prometheus_client": ("metrics", "kubernetes"),
    "hypothesis": ("_hypothesis", "strategies", "testing"),
}
"""Which packages may import which third parties; the empty name stands for all packages."""

ONLY_IN_FUNCTIONS: Final = frozenset({"yaml", "rich", "shtab", "matplotlib", "prometheus_client"})


@frozen(order=True)
class Violation:
    """An import, or a module, that breaks the rules.

    Attributes:
        module: The module at fault.
        line: The line at fault; 0 for the module as a whole.
        problem: What is wrong with it.
    """

    module: str
    line: int
    problem: str


@frozen
class _Import:
    """One name that is imported somewhere."""

    module: str
    name: str
    line: int
    in_function: bool


def sources(package: Path) -> dict[str, str]:
    """Return the source of every module of a package, by its full name."""
    found: dict[str, str] = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = path.read_text(encoding="utf-8")
    return found


def violations(modules: Mapping[str, str]) -> tuple[Violation, ...]:
    """Return all that breaks the rules, in order.

    Args:
        modules: Full module name to source.
    """
    imports = [one for name, source in modules.items() for one in _imports(name, source)]
    known = set(modules)
    found = [
        *(Violation(name, 0, "has no layer") for name in modules if _place(name) is None),
        *(violation for one in imports for violation in _inside(one, known)),
        *(violation for one in imports for violation in _outside(one)),
        *_circles(imports, known),
        *_logic(modules.get(ROOT, "")),
    ]
    return tuple(sorted(found))


def _local(name: str) -> str:
    return name.removeprefix(ROOT).removeprefix(".")


def _is_ours(name: str) -> bool:
    return name == ROOT or name.startswith(f"{ROOT}.")


@cache
def _place(name: str) -> tuple[int, Room, int] | None:
    """Return level, package and floor of a module."""
    for storey, rooms in enumerate(HOUSE):
        for room in rooms:
            floor = room.floor(_local(name))
            if floor is not None:
                return storey, room, floor
    return None


@cache
def _imports(module: str, source: str) -> tuple[_Import, ...]:
    return tuple(_read(module, ast.parse(source)))


def _read(module: str, tree: ast.Module) -> Iterator[_Import]:
    stack: list[tuple[ast.AST, bool]] = [(tree, False)]
    while stack:
        node, in_function = stack.pop()
        match node:
            case ast.Import(names=aliases):
                for alias in aliases:
                    yield _Import(module, alias.name, node.lineno, in_function)
            case ast.ImportFrom(module=str(origin), names=aliases, level=0):
                for alias in aliases:
                    # the name of a module may be a module itself; _resolve decides
                    yield _Import(module, f"{origin}:{alias.name}", node.lineno, in_function)
            case ast.ImportFrom():
                yield _Import(module, _RELATIVE, node.lineno, in_function)
            case ast.Call(func=ast.Name(id="__import__")):
                yield _Import(module, "importlib", node.lineno, in_function)
        inside = in_function or isinstance(
            node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
        )
        stack.extend((child, inside) for child in ast.iter_child_nodes(node))


def _resolve(one: _Import, known: set[str]) -> str:
    origin, colon, name = one.name.partition(":")
    inner = f"{origin}.{name}"
    return inner if colon and (inner in known or inner in _NAMED) else origin


def _inside(one: _Import, known: set[str]) -> Iterator[Violation]:
    target = _resolve(one, known)
    if not _is_ours(target):
        return
    here, there = _place(one.module), _place(target)
    if here is None:
        return
    if there is None:
        yield Violation(one.module, one.line, f"imports {target}, which has no layer")
        return
    if here[1] is there[1]:
        same_package = here[2] == there[2] and _is_package(here[1], here[2])
        if here[1].free or here[2] > there[2] or same_package:
            return
        way = "sideways" if here[2] == there[2] else "upwards"
    elif here[0] > there[0]:
        return
    else:
        way = "sideways" if here[0] == there[0] else "upwards"
    yield Violation(one.module, one.line, f"imports {target}, {way}")


def _is_package(room: Room, floor: int) -> bool:
    return any(name.endswith(".**") for name in room.floors[floor])


def _outside(one: _Import) -> Iterator[Violation]:
    top = one.name.partition(":")[0].partition(".")[0]
    here, place = _local(one.module), _place(one.module)
    if top == ROOT:
        return
    if one.name == _RELATIVE:
        yield Violation(one.module, one.line, "imports by a relative name")
        return
    if top in sys.stdlib_module_names:
        allowed = (top, here) in _ALLOWED
        if place is not None and place[1].pure and top in IMPURE and not allowed:
            yield Violation(one.module, one.line, f"imports {top}, and is pure")
        return
    owners = OWNERS.get(top)
    if owners is None:
        yield Violation(one.module, one.line, f"imports {top}, which nobody owns")
    elif not any(not owner or here == owner or here.startswith(f"{owner}.") for owner in owners):
        yield Violation(one.module, one.line, f"imports {top}, which {', '.join(owners)} own")
    elif top in ONLY_IN_FUNCTIONS and not one.in_function:
        yield Violation(one.module, one.line, f"imports {top} outside of a function")


def _circles(imports: list[_Import], known: set[str]) -> Iterator[Violation]:
    arrows: dict[str, set[str]] = {}
    for one in imports:
        target = _resolve(one, known)
        here, there = _place(one.module), _place(target)
        if here is not None and there is not None and here[1:] == there[1:]:
            arrows.setdefault(one.module, set()).add(target)
    for module in arrows:
        reached: set[str] = set()
        stack = [module]
        while stack:
            news = arrows.get(stack.pop(), set()) - reached
            reached |= news
            stack.extend(news)
        if module in reached:
            yield Violation(module, 0, "imports itself by way of others")


def _logic(facade: str) -> Iterator[Violation]:
    for node in ast.parse(facade).body:
        match node:
            case ast.Import() | ast.ImportFrom():
                pass
            case ast.Expr(value=ast.Constant(value=str())):
                pass
            case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List() | ast.Tuple()):
                pass
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), body=body, orelse=[]) if all(
                isinstance(each, ast.ImportFrom) for each in body
            ):
                pass
            case ast.Expr(value=ast.Call(func=ast.Name(id="open_facade"))):
                pass
            case _:
                yield Violation(ROOT, node.lineno, "does more than import")
