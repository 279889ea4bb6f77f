"""The commands of text scenarios; ``tests/README.md`` lists them.

Rules:
  R1  only public names of ``gangsched`` are used; ``Story`` is the cluster and the host;
  R2  a command that is no command, or a word that is none of its words, is an error.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any, Final

from attrs import Factory, define, evolve

from gangsched import (
    Bind,
    Effect,
    GroupIncomplete,
    Node,
    NodeAdded,
    NodeDeleted,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodPhase,
    PodUnschedulable,
    PodUpdated,
    PreemptionPolicy,
    RestartPolicy,
    Scheduler,
    Topology,
    group_key,
)
from support.effects_in_words import in_words
from support.story import Story, Way

__all__ = ["BadWordError", "Run", "options"]

_AMOUNTS: Final[Mapping[str, Any]] = {"cpu": str, "gpu": int}
"""The words of a command: how a value is read or, of a flag, what it stands for."""
_NODE: Final[Mapping[str, Any]] = {**_AMOUNTS, "rack": str, "cordoned": True}
_POD: Final[Mapping[str, Any]] = {
    **_AMOUNTS,
    "name": str,
    "group": str,
    "min": int,
    "priority": int,
    "node": str,
    "gated": ("held",),
    "open": (),
    "never": PreemptionPolicy.NEVER,
}
_GROUP: Final[Mapping[str, Any]] = {
    **_AMOUNTS,
    "min": int,
    "priority": int,
    "timeout": float,
    "topology": Topology,
    "bundle": lambda names: tuple(group_key("default", name) for name in names.split(",")),
    "restart": RestartPolicy(),
    "never": PreemptionPolicy.NEVER,
}
_FIELDS: Final = {
    "min": "min_available",
    "timeout": "schedule_timeout",
    "node": "node_name",
    "group": "pod_group",
    "gated": "scheduling_gates",
    "open": "scheduling_gates",
    "never": "preemption_policy",
}
_USAGE: Final = {
    "preset": "preset in the first line that is no comment",
    "node": "node N [gone] …",
    "group": "group G [gone] …",
    "pod": "pod P …",
    "gang": "gang G SIZE …",
    "delete": "delete P…",
    "end": "end P succeeded|failed",
    "hold": "hold binds|evictions",
    "bound": "bound P|all",
    "fail": 'fail bind P "why"',
    "decide": "decide, and nothing more",
    "advance": "advance SECONDS",
    "why": "why P|G",
    "new": "new cluster",
}
"""What is expected after the first word of each command."""
_NOT_YET: Final = (GroupIncomplete, PodUnschedulable)
"""What a gang is answered whose last member has not arrived; ``gang`` adds all at once."""


class BadWordError(ValueError):
    """A word that is none, with what is expected."""

    def __init__(self, word: str, expected: str) -> None:
        super().__init__(f"{word!r}: {expected}")


@define(eq=False)
class Run:
    """One run of a text: its story, and what was answered since the block began.

    Attributes:
        make: Creates the scheduler.
        restores: Whether the scheduler is replaced by a restored one before each block.
    """

    make: Callable[..., Scheduler]
    restores: bool
    story: Story = Factory(lambda self: Story(self.make), takes_self=True)
    seen: int = 0
    began: float = 0.0
    is_fresh: bool = True
    said: list[tuple[float, Effect | str]] = Factory(list)

    def begin(self) -> None:
        """Begin a block."""
        if self.restores:
            self._replace(Way.RESTORED)
        self.said, self.began, self.seen = [], self.story.now, len(self.story.effects)

    def run(self, line: str) -> None:
        """Run a line: a command, a comment, or nothing."""
        self._perform(*(shlex.split(line, comments=True) or [""]))
        self._note()

    def answers(self) -> list[str]:
        """Return what was answered in this block."""
        return list(in_words(self.said, self.began, self.story))

    def _note(self, *left_out: type[Effect]) -> None:
        new = self.story.effects[self.seen :]
        self.said += ((self.story.now, each) for each in new if not isinstance(each, left_out))
        self.seen = len(self.story.effects)

    def _replace(self, way: Way) -> None:
        self.story.way = way
        self.story.interrupt()

    def _perform(self, name: str, *words: str) -> None:
        story, is_fresh = self.story, self.is_fresh
        self.is_fresh = is_fresh and name == ""
        match name, [*words]:
            case ("", []) | ("preset", _) if is_fresh or not name:
                pass
            case "new", ["cluster"]:
                self.story, self.seen, self.began = Story(self.make), 0, 0.0
            case "node", [node, "gone"]:
                story.tell(NodeDeleted(node))
            case "node", [node, *rest]:
                self._node(node, options(rest, _NODE))
            case "group", [group, "gone"]:
                story.tell(PodGroupDeleted(group_key("default", group)))
            case "group", [group, *rest]:
                self._group(group, options(rest, _GROUP))
            case "pod", [pod, *rest]:
                self._pod(pod, options(rest, _POD))
            case "gang", [gang, size, *rest] if size.isdecimal():
                given = {"group": gang, **options(rest, _POD)}
                if story.cluster.pod_group(group_key("default", gang)) is None:
                    given.setdefault("min", int(size))
                for number in range(int(size)):
                    self._note(*_NOT_YET)
                    self._pod(f"{gang}-{number}", given)
            case "delete", [_, *_]:
                story.delete(*map(self._there, words))
            case "end", [pod, "succeeded" | "failed" as how]:
                story.update(self._there(pod), phase=PodPhase(how.capitalize()))
            case "hold", [("binds" | "evictions") as what]:
                setattr(story, f"holds_{what}", True)
            case "bound", ["all"]:
                story.finish_binds()
            case "bound", [pod]:
                story.finish_bind(self._under_way(pod))
            case "fail", ["bind", pod, why]:
                self._under_way(pod)
                story.fail_bind(pod, why)
            case "decide", []:
                story.decide()
            case "advance", [seconds]:
                if not 0 <= float(seconds) < inf:
                    raise BadWordError(seconds, "expected a number of seconds >= 0")
                self._advance(story.now + float(seconds))
            case "why", [subject]:
                self._note()
                why = str(story.scheduler.why(f"default/{subject}"))
                self.said += ((story.now, line) for line in why.splitlines())
            case ("restore" | "rebuild") as way, []:
                self._replace(Way.RESTORED if way == "restore" else Way.REBUILT)
            case _:
                usage = _USAGE.get(name)
                expected = f"expected {usage}" if usage else "no such command, see tests/README.md"
                raise BadWordError(" ".join([name, *words]), expected)

    def _node(self, name: str, given: dict[str, Any]) -> None:
        node = Node(
            name=name,
            allocatable={"pods": 110, **_amounts(given)},
            labels={"rack": given["rack"]} if "rack" in given else {},
            unschedulable="cordoned" in given,
        )
        self.story.tell(NodeAdded(node))

    def _group(self, name: str, given: dict[str, Any]) -> None:
        changes = _fields(given)
        if amounts := _amounts(given):
            changes["min_resources"] = amounts
        before = self.story.cluster.pod_group(group_key("default", name))
        group = before or PodGroup(name=name, created_at=self.story.now, **changes)
        kind = PodGroupAdded if before is None else PodGroupUpdated
        self.story.tell(kind(evolve(group, **changes)))

    def _pod(self, name: str, given: dict[str, Any]) -> None:
        changes = _fields(given)
        uid = self.story.uid(name)
        before = self.story.cluster.pod(uid)
        if before is None or _amounts(given):
            changes["requests"] = {"cpu": 1, **_amounts(given)}
        pod = before or Pod(name=name, uid=uid, created_at=self.story.now)
        kind = PodAdded if before is None else PodUpdated
        self.story.tell(kind(evolve(pod, **changes)))

    def _there(self, pod: str) -> str:
        if self.story.cluster.pod(self.story.uid(pod)) is None:
            raise BadWordError(pod, "there is no such pod")
        return pod

    def _under_way(self, pod: str) -> Bind:
        for bind in self.story.binds:
            if bind.uid == self.story.uid(pod):
                return bind
        raise BadWordError(pod, "its bind is not under way; see the command hold binds")

    def _advance(self, until: float) -> None:
        self.story.decide()
        self._note()
        while (due := self.story.scheduler.next_deadline()) is not None and due <= until:
            self.story.run(due)
            self._note()
        self.story.run(until)


def _fields(given: Mapping[str, Any]) -> dict[str, Any]:
    return {_FIELDS.get(key, key): given[key] for key in given if key not in _AMOUNTS}


def _amounts(given: Mapping[str, Any]) -> dict[str, Any]:
    names = {"cpu": "cpu", "gpu": "nvidia.com/gpu"}
    return {names[key]: given[key] for key in names if key in given}


def options(words: Sequence[str], known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a command: ``key=value``, or a flag."""
    found: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if name not in known or bool(equals) is not callable(known[name]):
            usual = (f"{each}=…" if callable(known[each]) else each for each in known)
            raise BadWordError(word, f"expected one of {' '.join(usual)}")
        try:
            found[name] = known[name](value) if equals else known[name]
        except ValueError as error:
            raise BadWordError(word, str(error)) from None
    return found
