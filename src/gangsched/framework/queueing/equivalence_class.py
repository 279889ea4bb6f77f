"""EquivalenceClass: what an entity asks for, as a value.

Entities of one class get the same answer from the same cluster. ``equivalence`` says which class an
entity has. Most entities have members that are all alike and ask for nothing else. Their classes
are kept by the class of their pods, since one is asked for with each attempt.

Invariant (checked by ``check_kept``): a class that is kept is equal to one that is made anew.
"""

from __future__ import annotations

from typing import final

from attrs import field, frozen

from gangsched._core._blocked_queues import Filing
from gangsched.errors import InternalError
from gangsched.framework.nodes.pod_class import PodClass
from gangsched.framework.state.role_count import RoleCount
from gangsched.model import Resources, Topology
from gangsched.resources import NOTHING

__all__ = ["EquivalenceClass", "check_kept", "of_like_members"]


@final
@frozen
class EquivalenceClass:
    """What an entity asks for.

    Attributes:
        needed: How many of its pending members must be placed for the try to succeed.
        runs: How many pending members of which pod class it has, in the order in which they are
            tried. The order counts: the member that is placed first may take the capacity that
            another needs.
        floor: The resources that must be free in the cluster as a whole before it is tried.
        role_counts: How many members of each role must be placed, for the roles that lack some;
            without the group, because it makes no difference.
        roles: The role of each run, if it is one of these; empty otherwise.
        topology: The node label within one value of which it must be placed.
        parts: The classes of the groups of a bundle that starts; empty for a group alone.
        reach: With preemption, the priority below which it may take reserved capacity, and
            whether it may evict pods too.
        affected: For each pending member in the order in which they are tried, the carried terms
            that are about it, and which matchers of its siblings select it. Empty if there are
            none. See ``gangsched.protocols.PodsAffected`` and ``PodsSelected``.
        filing: What a node must have free to help the class; see ``BlockedQueues``.
        watches_pods: Whether a plugin may read the pods on nodes for its members.
        alike: Its run, if it has one only, and that says all that it asks of nodes: it has no floor
            and no roles, and *watches_pods* is false. None if not.
    """

    needed: int
    runs: tuple[tuple[PodClass, int], ...]
    floor: Resources = NOTHING
    role_counts: tuple[RoleCount, ...] = ()
    roles: tuple[str, ...] = ()
    topology: Topology | None = None
    parts: tuple[EquivalenceClass, ...] = ()
    reach: tuple[int, bool] | None = None
    affected: tuple[str, ...] = ()
    filing: Filing | None = field(init=False, eq=False, repr=False)
    watches_pods: bool = field(init=False, eq=False, repr=False)
    alike: tuple[PodClass, int] | None = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        """Note what a node must have free to help the class, and how far it preempts. O(runs).

        A class that more than the capacity of nodes may help is not filed by it.
        """
        needs = {pod_class.fitted for pod_class, _count in self.runs}
        known = [need for need in needs if need is not None]
        watches_pods = bool(self.affected)
        for pod_class, _count in self.runs:
            watches_pods = watches_pods or pod_class.watches_pods
        is_plain = not self.floor and not watches_pods
        is_known = is_plain and len(known) == len(needs)
        filing = (self.reach, tuple(sorted(known))) if is_known else None
        is_alike = is_plain and len(self.runs) == 1 and not self.role_counts
        object.__setattr__(self, "watches_pods", watches_pods)
        object.__setattr__(self, "filing", filing)
        object.__setattr__(self, "alike", self.runs[0] if is_alike else None)


def of_like_members(pod_class: PodClass, needed: int, count: int) -> EquivalenceClass:
    """Return the class of entities with like members that ask for nothing else. O(1).

    Args:
        pod_class: The class of all pending members.
        needed: How many of them must be placed.
        count: How many there are.
    """
    key = (needed, count)
    known: EquivalenceClass | None = pod_class.askings.get(key)
    if known is None:
        known = EquivalenceClass(needed, ((pod_class, count),))
        if known.filing is not None:  # until a pod of the class is evaluated, less is known of it
            pod_class.askings[key] = known
    return known


def check_kept(pod_class: PodClass) -> None:
    """Raise if a class that is kept differs from one that is made anew.

    Raises:
        InternalError: It does.
    """
    for (needed, count), kept in pod_class.askings.items():
        made = EquivalenceClass(needed, ((pod_class, count),))
        if (kept, kept.filing, kept.alike) != (made, made.filing, made.alike):
            raise InternalError(f"class {pod_class.signature}: {kept} is kept for {made}")
