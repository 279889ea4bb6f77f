"""PodClass: like pods, evaluated once.

Pods with one signature get one answer from each node, so the answers are kept, and only nodes
that changed since are asked again. The nodes that can take such a pod stand in order, best first.

Invariants (checked by ``_check``):
  I1  after ``refresh`` each node is judged as it is now: feasible with a score, or not with a
      reason;
  I2  ``order`` holds the feasible nodes by (score, highest first; arrival of the node);
  I3  ``reasons`` counts the reasons of the others, and ``headroom`` sums that of the feasible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Any, Protocol, final

from sortedcontainers import SortedList

from gangsched.errors import InternalError
from gangsched.explain import Diagnosis
from gangsched.framework.nodes import NodeInfo, Nodes
from gangsched.model import NodeName, Pod

__all__ = ["Judge", "PodClass"]


class Judge(Protocol):
    """How a node is judged for pods of one class."""

    def screen(self, info: NodeInfo) -> tuple[int, str]:
        """Return the headroom, and why not; the reason is empty for a feasible node."""
        ...

    def before_scoring(self) -> None:
        """Run between the screening and the scoring, when a node is feasible."""
        ...

    def score(self, info: NodeInfo) -> int:
        """Return how good a feasible node is."""
        ...


@final
class PodClass:
    """The nodes, as pods of one signature see them.

    Attributes:
        signature: What these pods have in common.
        sample: One of these pods.
        users: How many pods are of this class.
        headroom: How many such pods the cluster could take at most, one kind of pod at a time.
    """

    __slots__ = (
        "_judged",
        "_order",
        "_reasons",
        "_seen",
        "headroom",
        "sample",
        "signature",
        "users",
    )

    def __init__(self, signature: Hashable, sample: Pod) -> None:
        self.signature = signature
        self.sample = sample
        self.users = 0
        self.headroom = 0
        self._seen = 0
        self._judged: dict[NodeName, tuple[int, int, int, str]] = {}  # index, score, room, reason
        self._order: Any = SortedList()
        self._reasons: Counter[str] = Counter()

    def refresh(self, nodes: Nodes, judge: Judge) -> None:
        """Judge every node that changed since the last time.

        Runtime complexity: O(changed nodes x (plugins + log nodes)); nothing when none changed.
        """
        if self._seen == nodes.version:
            return
        feasible: list[tuple[NodeInfo, int]] = []
        judged: list[tuple[NodeInfo, int, int, str]] = []
        for info in self._stale(nodes):
            room, reason = judge.screen(info)
            if reason:
                judged.append((info, 0, 0, reason))
            else:
                feasible.append((info, room))
        if feasible:
            judge.before_scoring()
            judged.extend((info, judge.score(info), room, "") for info, room in feasible)
        # whatever a plugin raises, it has raised by now
        for info, score, room, reason in judged:
            name = info.node.name
            self._forget(name)
            self._judged[name] = (info.index, score, room, reason)
            if reason:
                self._reasons.update(reason.split(", "))
            else:
                self._order.add((-score, info.index))
                self.headroom += room
        if len(self._judged) > len(nodes.infos):
            for name in [name for name in self._judged if name not in nodes.infos]:
                self._forget(name)
        self._seen = nodes.version

    def _stale(self, nodes: Nodes) -> list[NodeInfo]:
        stale: list[NodeInfo] = []
        for name in reversed(nodes.changed):
            if nodes.changed[name] <= self._seen:
                break
            stale.append(nodes.infos[name])
        stale.reverse()
        return stale

    def best(self, nodes: Nodes) -> NodeName | None:
        """Return the best node; None when no node can take such a pod. O(1)."""
        if not self._order:
            return None
        return nodes.by_index[self._order[0][1]].node.name

    def takes(self, name: NodeName) -> bool:
        """Say whether a node can take such a pod. O(1)."""
        found = self._judged.get(name)
        return found is not None and not found[3]

    def diagnosis(self) -> Diagnosis:
        """Say why no node can take such a pod. O(reasons)."""
        return Diagnosis(len(self._judged), tuple(sorted(self._reasons.items())))

    def _forget(self, name: NodeName) -> None:
        found = self._judged.pop(name, None)
        if found is None:
            return
        index, score, room, reason = found
        if reason:
            for one in reason.split(", "):
                self._reasons[one] -= 1
                if not self._reasons[one]:
                    del self._reasons[one]
        else:
            self._order.remove((-score, index))
            self.headroom -= room

    def _check(self, nodes: Nodes, judge: Judge) -> None:
        self.refresh(nodes, judge)
        fresh: dict[NodeName, tuple[int, int, int, str]] = {}
        for name, info in nodes.infos.items():
            room, reason = judge.screen(info)
            score = 0 if reason else judge.score(info)
            fresh[name] = (info.index, score, 0 if reason else room, reason)
        if fresh != self._judged:
            raise InternalError(f"class {self.signature}: a node is not judged as it is")
        order = sorted((-score, i) for i, score, _room, reason in fresh.values() if not reason)
        if order != list(self._order):
            raise InternalError(f"class {self.signature}: the order of nodes is wrong")
        if self.headroom != sum(room for _i, _score, room, _reason in fresh.values()):
            raise InternalError(f"class {self.signature}: headroom {self.headroom} is wrong")
