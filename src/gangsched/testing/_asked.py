"""Calls a plugin by the names of its points, and checks the types of its answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any, Final, cast

from attrs import frozen

from gangsched import protocols
from gangsched.model import Node, Pod
from gangsched.outcomes import Skip, Success, Unschedulable
from gangsched.testing._views import FakeEntity, FakeNode

__all__ = ["DECIDES", "NOW", "Asked", "kinds", "seen", "short"]

DECIDES: Final = (Success, Skip, Unschedulable)
NOW: Final = 100.0
_POINTS: Final = (
    *("pre_enqueue", "queue_sort", "pre_filter", "filter", "post_filter", "pre_score", "score"),
    *("reserve", "unreserve", "permit", "pre_bind", "bind", "post_bind"),
)

_KINDS: Final[list[type[object]]] = [
    getattr(protocols, name)
    for name in protocols.__all__
    if name.endswith(("Plugin", "Extensions"))
]
_METHODS: Final = sorted(method for kind in _KINDS for method in vars(kind) if method[0] != "_")


@frozen
class Asked:
    """A plugin whose points are called by name."""

    plugin: Any

    @property
    def name(self) -> str:
        return str(getattr(self.plugin, "name", type(self.plugin).__name__))

    def has(self, *points: str) -> bool:
        return all(callable(getattr(self.plugin, point, None)) for point in points)

    def reads_pods(self, pod: Pod) -> bool:
        """Return whether the plugin says that it reads the pods on nodes for *pod*."""
        if not self.has("reads_pods"):
            return False
        answer = self.twice("reads_pods", pod)
        self.expect("reads_pods", isinstance(answer, bool), f"returned {answer!r}, not a bool")
        return bool(answer)

    def has_a_name(self) -> None:
        name = getattr(self.plugin, "name", None)
        if not isinstance(name, str) or not name:
            raise AssertionError(f"{type(self.plugin).__name__}.name is {name!r}, not a text")
        assert name == self.plugin.name, f"{name}.name is another each time"
        has_some = any(map(self.has, _POINTS))
        assert has_some, f"{name} has none of the points {', '.join(_POINTS)}"
        kind = cast("type[object]", type(self.plugin))
        for method in dir(kind):
            is_own = method[0] != "_" and method not in _METHODS and callable(getattr(kind, method))
            near = get_close_matches(method, _METHODS, n=1, cutoff=0.9) if is_own else []
            is_fine = not near or self.has(*near)
            assert is_fine, f"{name}.{method} is never called: is it {near[0]}?"
        wide = getattr(self.plugin, "group_wide", ())
        allowed = {"pre_filter", "reserve", "permit"}
        assert set(wide) <= allowed, f"{name}.group_wide is {wide!r}, not of {sorted(allowed)}"

    def ask(self, point: str, *args: Any, **named: Any) -> Any:
        try:
            return getattr(self.plugin, point)(*args, **named)
        except Exception as error:
            details = f"{self.name}.{point} raised {type(error).__name__}: {error}"
            raise AssertionError(f"{details}, for {short(args)}") from error

    def expect(self, point: str, holds: bool, sentence: str) -> None:
        assert holds, f"{self.name}.{point}: {sentence}"

    def twice(self, point: str, *args: Any, of: Callable[[Any], Any] | None = None) -> Any:
        """Call a pure point twice and compare; *of* converts its answers first."""
        first, second = (self.ask(point, *args) for _ in range(2))
        first, second = (first, second) if of is None else (of(first), of(second))
        sentence = f"is not pure: {first!r} at first, then {second!r}, for {short(args)}"
        self.expect(point, first == second, sentence)
        return first

    def is_a(
        self, point: str, answer: object, of: tuple[type, ...], pod: Pod, view: FakeNode
    ) -> None:
        """Check that an answer has a type that its point may return."""
        names = ", ".join(kind.__name__ for kind in of)
        is_one = isinstance(answer, of) and not isinstance(answer, bool)
        details = f"{answer!r} for {short((pod, view))} is not one of {names}"
        self.expect(point, is_one, details)


def kinds(answers: Iterable[object]) -> str:
    """Return the names of the types of answers, in order."""
    return ", ".join(type(answer).__name__ for answer in answers)


def seen(view: FakeNode) -> tuple[Node, dict[str, int], int]:
    """Return the content of a node view, for comparison."""
    return view.node, dict(view.free), view.pod_count


def short(args: Iterable[object]) -> str:
    """Describe arguments for a message."""
    words: list[str] = []
    for each in args:
        if isinstance(each, Pod):
            words.append(f"pod {each.uid}")
        elif isinstance(each, FakeNode):
            words.append(f"node {each.node.name} with {dict(each.free)} free")
        elif isinstance(each, FakeEntity):
            words.append(f"pod {each.pod.uid} queued at {each.queued_at:g}")
        elif isinstance(each, str | int):
            words.append(str(each))
    return " on ".join(words[:2])
