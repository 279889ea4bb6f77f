"""How long is the walk of one call, and what is the shape of the core?

The first rows say what a reader has to follow who wants to know what a call does. The others are
of the source, see ``shape.py``.

    python benchmarks/walk.py [--json] [--functions]

With ``PYTHONPATH=SRC``, the figures are those of another checkout, of which ``SRC`` is the folder
``src``. Compare only those of one interpreter and one heap: a compiled heap makes no calls. There
is no threshold. A change that makes a figure worse should be worth it.

Rules:
  R1  a call enters a function in a file of the package, as ``sys.setprofile`` reports it. It does
      not enter a generator or a comprehension, nor a method that attrs writes;
  R2  a walk comes back to a file if a call enters it from another one, and it was entered before;
  R3  the same was done twice before, with other pods, so nothing is done for the first time.
"""

from __future__ import annotations

import argparse
import inspect
import json
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, TypeAlias

import gangsched
import shape
from gangsched import (
    Bind,
    BindFailed,
    Bound,
    Effect,
    InMemoryCluster,
    NodeAdded,
    Pod,
    PodAdded,
    PodDeleted,
    Scheduler,
    heap_implementation,
    presets,
)
from gangsched.testing import make_node, make_pod
from shape import CROWDED, LARGE

Walk: TypeAlias = tuple[int, int]
"""How many calls a walk takes, and how often it comes back to a file."""

_PACKAGE: Final = str(Path(gangsched.__file__).parent)
_COMPREHENSIONS: Final = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})


def _counts(code: CodeType) -> bool:
    """Return whether a call of this code is one that is counted."""
    generates = code.co_flags & inspect.CO_GENERATOR or code.co_name in _COMPREHENSIONS
    return code.co_filename.startswith(_PACKAGE) and not generates


def walked(call: Callable[[], tuple[Effect, ...] | None]) -> tuple[Walk, tuple[Effect, ...]]:
    """Make a call; return its walk, and its effects."""
    calls, back, met = 0, 0, set[str]()

    def note(frame: FrameType, what: str, _arg: Any) -> None:
        nonlocal calls, back
        if what == "call" and _counts(frame.f_code):
            where, caller = frame.f_code.co_filename, frame.f_back
            calls += 1
            back += where in met and caller is not None and caller.f_code.co_filename != where
            met.add(where)

    sys.setprofile(note)
    try:
        effects = call()
    finally:
        sys.setprofile(None)
    return (calls, back), effects or ()


class World:
    """Three nodes and a scheduler, in which the same is done again and again.

    Args:
        preset: What makes the scheduler.
        cpu: How many pods a node can take.
    """

    def __init__(self, preset: Callable[[InMemoryCluster], Scheduler], cpu: int) -> None:
        self.cluster = InMemoryCluster()
        for n in range(3):
            node = make_node(f"n{n}", allocatable={"cpu": cpu, "pods": 10})
            self.cluster.apply(NodeAdded(node))
        self.scheduler = preset(self.cluster)
        self.scheduler.rebuild(now=0.0)

    def third(self, walk: Callable[[World, list[Pod], float], Walk]) -> Walk:
        """Walk with a gang of 4 that has not arrived yet, three times; return the last walk."""
        last = (0, 0)
        for turn in range(3):
            named: dict[str, Any] = {"group": f"g{turn}", "min_available": 4, "cpu": 1}
            pods = [make_pod(f"g{turn}-{m}", **named) for m in range(4)]
            last = walk(self, pods, 100.0 * turn)
            for pod in self.cluster.pods():
                self.handle(PodDeleted(pod.uid), 100.0 * turn)
        return last

    def handle(self, event: Any, now: float) -> tuple[Walk, tuple[Effect, ...]]:
        """Let the cluster and the scheduler handle an event; return the walk, and the effects."""
        return walked(partial(self.scheduler.handle, self.cluster.apply(event), now=now))

    def add(self, pods: Sequence[Pod], now: float) -> Walk:
        """Add pods; return the walk of the last one."""
        return [self.handle(PodAdded(pod), now)[0] for pod in pods][-1]

    def decide(self, now: float) -> tuple[Walk, tuple[Effect, ...]]:
        """Run a scheduling cycle; return the walk, and the effects."""
        return walked(partial(self.scheduler.schedule_one, now=now))


def completes(world: World, pods: list[Pod], now: float) -> Walk:
    """Return the walk of the arrival of the last member."""
    return world.add(pods, now)


def waiting_member_is_deleted(world: World, pods: list[Pod], now: float) -> Walk:
    """Return the walk of the deletion of one of three members that wait for the fourth."""
    world.add(pods, now)
    for _member in range(3):
        world.decide(now)
    return world.handle(PodDeleted(pods[1].uid), now)[0]


def bind_fails(world: World, pods: list[Pod], now: float) -> Walk:
    """Return the walk of the failure of the first of four binds."""
    world.add(pods, now)
    first, *_others = [each for each in world.decide(now)[1] if isinstance(each, Bind)]
    return world.handle(BindFailed(first.uid, first.attempt, "refused"), now)[0]


def scheduling_cycle(world: World, pods: list[Pod], now: float) -> Walk:
    """Return the walk of the scheduling cycle that places and releases a gang."""
    world.add(pods, now)
    walk, effects = world.decide(now)
    binds = [effect for effect in effects if isinstance(effect, Bind)]
    assert len(binds) == 4, effects
    for bind in binds:
        world.handle(Bound(bind.uid, bind.node, bind.attempt), now)
    return walk


def figures() -> Iterator[tuple[str, Walk | int]]:
    """Yield the rows of the table."""
    gang, coscheduling = partial(World, presets.gang, 8), partial(World, presets.coscheduling, 1)
    yield "calls / returns: a pod completes its gang of 4", gang().third(completes)
    deleted = coscheduling().third(waiting_member_is_deleted)
    yield "calls / returns: a waiting member is deleted", deleted
    yield "calls / returns: a bind of a gang of 4 fails", gang().third(bind_fails)
    yield "calls / returns: the scheduling cycle of a gang of 4", gang().third(scheduling_cycle)
    yield "floors of the core", shape.floors()
    yield "floors of the core, each module for itself", shape.floors(by_module=True)
    functions = shape.branches()
    yield "branches of the most branched function of the core", functions[0].branches
    crowded = sum(each.branches > CROWDED for each in functions)
    yield f"functions of the core with more than {CROWDED} branches", crowded
    yield f"files of the core with more than {LARGE} lines", shape.large_files()
    yield "lines of the library", shape.library_lines()
    yield "lines of `tests/support`", shape.tests_lines()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--functions", action="store_true", help="list the branched functions, too")
    options = parser.parse_args()
    docs = {"Walks:": __doc__, "Shape:": shape.__doc__}
    rules = "\n".join(head + f"{doc}".partition("Rules:")[2] for head, doc in docs.items())
    versions = f"Python {platform.python_version()}, heap: {heap_implementation}"
    crowded = [each for each in shape.branches() if each.branches > CROWDED and options.functions]
    names = {f"{each.module}.{each.name}": each.branches for each in crowded}
    if options.json:
        listed = {"functions": names} if options.functions else {}
        shown = {"rules": rules, "versions": versions, "figures": dict(figures()), **listed}
        print(json.dumps(shown, indent=2))
        return
    print(f"{rules}\n{versions}\n\n| figure | |\n|---|---:|")
    for name, figure in figures():
        numbers = figure if isinstance(figure, tuple) else (figure,)
        print(f"| {name} | {' / '.join(f'{number:,}' for number in numbers)} |")
    if names:
        print("\n| function | branches |\n|---|---:|")
    for name, count in names.items():
        print(f"| `{name}` | {count} |")


if __name__ == "__main__":
    main()
