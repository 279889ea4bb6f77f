"""Deeds: what may happen to a cluster, as values.

A history is a list of deeds. Each names what it is about by a number that is taken modulo what
there is, so any list of deeds is a history, and a shorter one is simpler.
"""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from support.driver import Fate


@frozen
class PutNode:
    """A node comes, or changes."""

    index: int
    cpu: int = 2
    gpu: int = 0
    pods: int | None = None
    zone: str = "a"
    tainted: bool = False
    cordoned: bool = False


@frozen
class DropNode:
    """A node goes."""

    index: int


@frozen
class PutPods:
    """Pods of one kind come; with a group, they are members of it."""

    group: int | None = None
    count: int = 1
    minimum: int | None = None
    cpu: int = 1
    gpu: int = 0
    zone: str | None = None
    tolerant: bool = False
    priority: int = 0
    gated: bool = False
    role: str | None = None


@frozen
class PutGroup:
    """A group's specification comes, or changes.

    Its members belong within one zone where ``within_zone`` is true, and are better off there where
    it is false.
    """

    group: int
    minimum: int = 2
    timeout: float | None = None
    priority: int | None = None
    cpu: int = 0
    roles: tuple[tuple[str, int], ...] = ()
    bundle: tuple[int, ...] = ()
    within_zone: bool | None = None


@frozen
class PutBundle:
    """The specifications of groups come, or change, that start together."""

    groups: tuple[int, ...]
    minimum: int = 2


@frozen
class DropGroup:
    """A group's specification goes."""

    group: int


@frozen
class ChangePod:
    """Something happens to one pod.

    ``how`` is one of: delete, terminate, succeed, fail, ungate, recreate, relabel, reclaim (it
    gives another minimum), recast (its role changes), resize, seize (somebody else binds it).
    """

    index: int
    how: str = "delete"
    to: int = 0


@frozen
class Decide:
    """Decisions are made: so many, or as many as there are."""

    steps: int | None = None
    fate: Fate = Fate.DONE


@frozen
class Pass:
    """Time passes: some seconds, or until the next deadline."""

    seconds: float | None = None


@frozen
class Report:
    """A bind that is under way is reported; or one that was given up takes effect."""

    index: int
    fate: Fate = Fate.DONE
    landing: bool = False


@frozen
class Repeat:
    """An event of long ago is told again."""

    index: int


@frozen
class Catch:
    """Facts are told late from now on, or again at once; or one of the late ones is told."""

    late: bool = False
    index: int | None = None


@frozen
class Restart:
    """The scheduler starts anew; of the binds under way every ``n``-th happened."""

    every: int = 2


@frozen
class Rebuild:
    """The scheduler takes in a listing."""


Deed: TypeAlias = (
    PutNode
    | DropNode
    | PutPods
    | PutGroup
    | PutBundle
    | DropGroup
    | ChangePod
    | Decide
    | Pass
    | Report
    | Repeat
    | Catch
    | Restart
    | Rebuild
)
