"""Room: an upper bound on the members that fit once some pods have left their nodes.

Theory of operation. To know whether a gang fits without some pods, these are taken off the nodes,
and the gang is placed. That costs about 5 microseconds a pod. The resources alone say much sooner
when too little is free: on each node, so many members fit as its free amounts are worth. So the
first instant that is worth a placement is found by sums, and only pods on nodes with room for a
member are taken off.

Invariants (checked by ``_check``):
  I1  the room for a kind of members is the sum of the room on all nodes;

Rules:
  R1  the bound is never too low: members that have no room do not fit, whatever else is asked for;
  R2  members of more kinds than ``_KINDS`` count as equally small: the least of each resource.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias, final

from gangsched._core._entity import QueuedEntity
from gangsched.errors import InternalError
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.placement import gang_layout
from gangsched.framework.queueing import bundles
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.pods import Member, Pods
from gangsched.framework.state.role_count import RoleCount
from gangsched.framework.state.settings import Settings
from gangsched.model import NodeName, Resources

__all__ = ["Room"]

_KINDS: Final = 3
"""How many kinds of members are told apart."""

_Needs: TypeAlias = tuple[tuple[str, int], ...]


@final
class Room:
    """How many members of a gang have room on the nodes, by their resources alone.

    It knows no node at first; see ``fill``.

    Runtime complexity: O(members) to create one, O(resources) for each node and for each pod that
    leaves.

    Args:
        settings: What the caller set.
        pods: The known pods and groups.
        call: What the current call has read.
        entity: The gang.
    """

    __slots__ = ("_asks", "_free", "_kinds", "_most", "_on_node", "_total")

    def __init__(
        self, settings: Settings, pods: Pods, call: CurrentCall, entity: QueuedEntity
    ) -> None:
        members = [
            pods.members[pod.uid] for each in bundles.pending(pods, entity) for pod in each.pending
        ]
        asks = gang_layout.asks(settings, pods, call, entity)
        self._kinds: tuple[_Needs, ...] = _kinds(members)
        self._most: int = len(members)
        self._asks: list[tuple[int, dict[int, int]]] = [
            (ask.count, self._counted(ask, members)) for ask in asks
        ]
        self._free: dict[NodeName, dict[str, int]] = {}
        self._on_node: dict[NodeName, tuple[int, ...]] = {}
        self._total: list[int] = [0] * len(self._kinds)

    def fill(self, nodes: Nodes) -> Room:
        """Set what would be free on each node if no reservation withheld capacity; return self.

        Runtime complexity: O(nodes x resources).
        """
        for name, info in nodes.infos.items():
            self.put(name, info.unreserved())
        return self

    def _counted(self, ask: RoleCount, members: Iterable[Member]) -> dict[int, int]:
        """Return how many members of each kind count for what is asked."""
        found: dict[int, int] = {}
        number_of = {kind: number for number, kind in enumerate(self._kinds)}
        for member in members:
            if member.group is not None and ask.covers(member.group.key, member.role):
                number = number_of.get(_needs(member.requests), 0)
                found[number] = found.get(number, 0) + 1
        return found

    @property
    def is_enough(self) -> bool:
        """Whether there is room for all members that are asked for. O(asks)."""
        total = self._total
        return all(
            sum(min(total[number], most) for number, most in counted.items()) >= count
            for count, counted in self._asks
        )

    def may_be_enough(self, largest: Mapping[str, int]) -> bool:
        """Return whether nodes on which no more than this is free could be enough. O(asks).

        Args:
            largest: The most that a node has free of each resource; it need not be one node.
        """
        room = self._room(largest)
        return all(
            sum(most for number, most in counted.items() if room[number]) >= count
            for count, counted in self._asks
        )

    def put(self, name: NodeName, free: dict[str, int]) -> None:
        """Say what is free on a node. O(resources)."""
        room = self._room(free)
        before = self._on_node.get(name)
        self._free[name] = free
        if room == before:  # as a rule: a node has room for none after most pods that leave it
            return
        self._on_node[name] = room
        for number, now in enumerate(room):
            self._total[number] += now - (0 if before is None else before[number])

    def leave(self, name: NodeName, leaving: Iterable[Mapping[str, int]]) -> None:
        """Say that pods with these requests have left a node. O(resources) for each."""
        free = self._free[name]
        for requests in leaving:
            for resource, amount in requests.items():
                free[resource] = free.get(resource, 0) + amount
        self.put(name, free)

    def has_room(self, free: Mapping[str, int]) -> bool:
        """Return whether a node on which this is free has room for any member. O(resources)."""
        return any(self._room(free))

    def _room(self, free: Mapping[str, int]) -> tuple[int, ...]:
        found: list[int] = []
        for needs in self._kinds:
            room = self._most
            for resource, need in needs:
                has = free.get(resource, 0)
                if has < need:
                    room = 0
                    break
                room = min(room, has // need)
            found.append(room)
        return tuple(found)

    def _check(self) -> None:
        for number, total in enumerate(self._total):
            found = sum(room[number] for room in self._on_node.values())
            if found != total:
                raise InternalError(f"room of kind {number} is {total}, not {found}")


def _needs(requests: Resources) -> _Needs:
    return tuple(sorted((name, amount) for name, amount in requests.items() if amount))


def _kinds(members: Iterable[Member]) -> tuple[_Needs, ...]:
    """Return what the kinds of members need; of too many kinds, the least of each resource."""
    kinds = tuple(dict.fromkeys(_needs(member.requests) for member in members))
    if len(kinds) <= _KINDS:
        return kinds
    least = dict(kinds[0])
    for needs in map(dict, kinds[1:]):
        least = {name: min(least[name], needs[name]) for name in least.keys() & needs.keys()}
    return (tuple(sorted(least.items())),)
