"""Marks: who is in the domain of a node, as far as gangs ask for domains of their own.

A mark is of one level. Nodes with equal marks are of one static kind, so a pod is refused by what
is known of a kind, and counts, proofs and wake-ups know of it like of any other static answer.

Rules:
  R1  where a gang has a domain for itself, everybody else's pods are refused;
  R2  a pod of a gang that asks for domains of its own is refused where somebody else's pods are,
      and on nodes that are in no domain of that level;
  R3  pods of DaemonSets and mirror pods are refused nowhere, and leave a domain empty.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from gangsched.model import Pod

__all__ = ["ANYBODY", "Asks", "Mark", "Marks", "NO_DOMAIN", "SOMEBODY", "asks_of", "is_resident"]

SOMEBODY: Final = "*"
"""The tenant of a domain with pods of a gang that asks for no domain, or of several gangs."""
NO_DOMAIN: Final = "-"
"""The tenant of nodes without the label of the level."""


class Mark(NamedTuple):
    """Who is in a domain of a level.

    Attributes:
        level: The level.
        tenant: The key of the gang that has all pods there, if it asks for domains of its own at
            any level; ``SOMEBODY``; or ``""`` if no pods are there.
        owner: The key of the gang that has the domain for itself; ``""`` for none.
    """

    level: str
    tenant: str = ""
    owner: str = ""


Marks: TypeAlias = tuple[Mark, ...]


class Asks(NamedTuple):
    """What a pod asks of marks.

    Attributes:
        gang: The key of its gang, if that asks for domains of its own; ``""`` otherwise.
        levels: The levels of which it is only in domains without anybody else's pods.
        is_resident: Whether it is a pod that every node has.
    """

    gang: str = ""
    levels: tuple[str, ...] = ()
    is_resident: bool = False

    def refused(self, marks: Marks) -> str:
        """Return why nodes with these marks refuse it; ``""`` if they do not. O(levels)."""
        for mark in () if self.is_resident else marks:
            if mark.owner not in ("", self.gang):
                return f"node(s) within a {mark.level} that another gang has for itself"
            if mark.level in self.levels and mark.tenant not in ("", self.gang):
                if mark.tenant == NO_DOMAIN:
                    return f"node(s) without the label {mark.level}"
                return f"node(s) within a {mark.level} with pods of others"
        return ""


ANYBODY: Final = Asks()
_RESIDENT: Final = Asks(is_resident=True)


def is_resident(pod: Pod) -> bool:
    """Return whether a pod is one that every node has: of a DaemonSet, or a mirror pod."""
    return bool(pod.controller) and pod.controller.split("/")[-2:-1] in (["DaemonSet"], ["Node"])


def asks_of(pod: Pod) -> Asks:
    """Return what a pod asks whose gang asks for no domains of its own."""
    return _RESIDENT if is_resident(pod) else ANYBODY
