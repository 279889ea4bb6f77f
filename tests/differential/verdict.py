"""What a scheduler decides about a pod: a node, or the reasons why there is none."""

from __future__ import annotations

import re
from typing import Final

from attrs import frozen

__all__ = ["Verdict", "placed", "refused"]

_MESSAGE: Final = re.compile(r"(?P<head>0/\d+ nodes are available): (?P<reasons>.*)", re.DOTALL)
_BETWEEN: Final = re.compile(r", (?=\d+ )")
_PREEMPTION: Final = re.compile(r"\.? (preemption: .*)$", re.DOTALL)


@frozen
class Verdict:
    """A node, or reasons.

    Attributes:
        node: The chosen node; empty if the pod is unschedulable.
        head: ``0/5 nodes are available``; empty if the message has none.
        reasons: The reasons with their counts, sorted, such as ``3 Insufficient cpu``.
    """

    node: str = ""
    head: str = ""
    reasons: tuple[str, ...] = ()


def placed(node: str) -> Verdict:
    """Return the verdict that chose a node."""
    return Verdict(node)


def refused(message: str) -> Verdict:
    """Return the verdict of a message of kube-scheduler; what it says of preemption is left out.

    >>> refused("0/3 nodes are available: 1 Too many pods, 2 Insufficient cpu.").reasons
    ('1 Too many pods', '2 Insufficient cpu')
    """
    text = _PREEMPTION.sub("", message.strip())
    found = _MESSAGE.fullmatch(text)
    if found is None:
        return Verdict(reasons=(text.rstrip("."),))
    reasons = _BETWEEN.split(found["reasons"].rstrip("."))
    return Verdict(head=found["head"], reasons=tuple(sorted(reasons)))
