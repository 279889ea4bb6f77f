"""Deeds: the steps of a history of a cluster, as values.

A history is a list of steps. Each step selects pods, nodes and groups by a number, modulo their
count. So any list of steps is a history, and a shorter one is simpler.
"""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from gangsched import Topology
from support.driver import Fate


@frozen
class PutNode:
    """Add or change a node."""

    index: int
    cpu: int = 2
    gpu: int = 0
    pods: int | None = None
    zone: str = "a"
    tainted: bool = False
    cordoned: bool = False
    rack: str | None = None


@frozen
class DropNode:
    """Delete a node."""

    index: int


@frozen
class PutPods:
    """Add equal pods, as members of a group if one is given, numbered from *number* on."""

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
    number: int | None = None


@frozen
class PutGroup:
    """Add or change a pod group.

    ``within_zone`` is a required zone constraint if True, a preferred one if False; ``topology`` is
    any other one.
    """

    group: int
    minimum: int = 2
    timeout: float | None = None
    priority: int | None = None
    cpu: int = 0
    roles: tuple[tuple[str, int], ...] = ()
    bundle: tuple[int, ...] = ()
    within_zone: bool | None = None
    topology: Topology | None = None


@frozen
class PutBundle:
    """Add or change the pod groups of a bundle."""

    groups: tuple[int, ...]
    minimum: int = 2


@frozen
class DropGroup:
    """Delete a pod group."""

    group: int


@frozen
class ChangePod:
    """Change one pod.

    ``how`` is one of: delete, terminate, succeed, fail, ungate, recreate, relabel, reclaim
    (change its minimum), recast (change its role), resize, raise (change its priority), seize
    (another scheduler binds it).
    """

    index: int
    how: str = "delete"
    to: int = 0


@frozen
class Decide:
    """Make *steps* decisions, or all."""

    steps: int | None = None
    fate: Fate = Fate.DONE


@frozen
class Pass:
    """Let *seconds* pass, or the time until the next deadline."""

    seconds: float | None = None


@frozen
class Report:
    """Report a bind in flight; or let one that was reported as failed take effect."""

    index: int
    fate: Fate = Fate.DONE
    landing: bool = False


@frozen
class Repeat:
    """Deliver an old event again."""

    index: int


@frozen
class Catch:
    """Delay events from now on, or stop delaying; or deliver one delayed event."""

    late: bool = False
    index: int | None = None


@frozen
class Restart:
    """Restart the scheduler; every ``n``-th bind in flight has succeeded."""

    every: int = 2


@frozen
class Rebuild:
    """Call ``rebuild``."""


HistoryStep: TypeAlias = (
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
