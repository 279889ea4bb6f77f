"""The domains of a gang with a topology: the values of a label within which it may be placed.

Rules:
  R1  the value that may take most members of the gang comes first, its elastic members included.
      Of equal values the tightest does: larger ones are left for larger gangs;
  R2  a member that joins a gang on nodes goes to the values of these nodes; if the topology is only
      preferred, other nodes will do;
  R3  an attempt is rejected if its members wait on permit on nodes of several values, because the
      specification or the label of a node has changed.

Source: the topology constraints of KEP-5732; the score PodGroupPodsCount of kube-scheduler.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from gangsched._core._counters import MemberState
from gangsched._core._registry import PodGroupInfo
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.pod_class import PodClass
from gangsched.framework.placement.plan import Domain
from gangsched.framework.state.pods import ON_NODES, Pods
from gangsched.model import NodeName

__all__ = ["asked", "best", "domains", "rejection_reason", "joined"]


def asked(info: PodGroupInfo) -> bool:
    """Return whether a gang has a topology. O(1)."""
    return info.spec is not None and info.spec.topology is not None


def joined(nodes: Nodes, pods: Pods, info: PodGroupInfo) -> Domain | None:
    """Return the domain that a later member of a gang must use; None for all. O(members)."""
    topology = None if info.spec is None else info.spec.topology
    return _of_members(nodes, pods, info) if topology is not None and topology.required else None


def best(nodes: Nodes, pod_class: PodClass, domain: Domain) -> NodeName | None:
    """Return the best node of a domain; None if none of it is feasible. O(classes)."""
    for _score, given in pod_class.ranked():
        if domain.has(given):
            return nodes.by_index[given.nodes[0]].node.name
    return None


def domains(
    nodes: Nodes,
    pods: Pods,
    info: PodGroupInfo,
    counts: Iterable[tuple[PodClass, int]],
    needed: int,
) -> list[tuple[Domain | None, float]]:
    """Return the domains of a gang with a topology, in the order in which to try them.

    Each comes with an upper bound on the number of members that it takes, infinite if that was not
    computed. None stands for all nodes. Runtime complexity: O(classes of nodes x classes of pods).

    Args:
        nodes: The nodes.
        pods: The known pods and groups.
        info: The gang.
        counts: The judged classes of its pending members, each with the number of members.
        needed: How many of them must fit.
    """
    topology = None if info.spec is None else info.spec.topology
    assert topology is not None
    here = _of_members(nodes, pods, info)
    if here is not None:
        nearby: list[tuple[Domain | None, float]] = [(here, math.inf)]
        return nearby if topology.required else [*nearby, (None, math.inf)]
    enough: dict[str, int] = {}
    totals: dict[str, int] = {}
    for pod_class, count in counts:
        of_class: dict[str, int] = {}
        for given, each in pod_class.with_max_pods():
            value = given.sample.node.labels.get(topology.key)
            if value is not None:
                of_class[value] = of_class.get(value, 0) + each * len(given.nodes)
        for value, most in of_class.items():
            enough[value] = enough.get(value, 0) + min(most, count)
            totals[value] = totals.get(value, 0) + most
    fitting = [value for value, most in enough.items() if most >= needed]
    if not fitting and enough:
        # no value is large enough: the largest is tried, so that the proof says what is short there
        fitting = [max((most, value) for value, most in enough.items())[1]]
    fitting.sort(key=lambda value: (-enough[value], totals[value], value))
    found: list[tuple[Domain | None, float]] = [
        (Domain(topology.key, frozenset({value})), enough[value]) for value in fitting
    ]
    return found if topology.required else [*found, (None, math.inf)]


def rejection_reason(nodes: Nodes, pods: Pods, info: PodGroupInfo) -> str:
    """Return why the nodes of waiting members contradict the topology; "" if not. O(members)."""
    topology = None if info.spec is None else info.spec.topology
    if topology is None or not topology.required or info.was_scheduled:
        return ""
    held = _values(nodes, pods, info, topology.key, (MemberState.WAITING,))
    seated = _values(nodes, pods, info, topology.key, (MemberState.ASSIGNED,)) - {None}
    if held <= seated if seated else len(held) <= 1 and None not in held:
        return ""
    return f"belongs within one {topology.key} now"


def _of_members(nodes: Nodes, pods: Pods, info: PodGroupInfo) -> Domain | None:
    """Return the domain of the members that hold nodes; None if none does. O(members)."""
    topology = None if info.spec is None else info.spec.topology
    if topology is None or not info.scheduled:
        return None
    values = _values(nodes, pods, info, topology.key, ON_NODES)
    known = frozenset(value for value in values if value is not None)
    return Domain(topology.key, known) if known else None


def _values(
    nodes: Nodes, pods: Pods, info: PodGroupInfo, key: str, states: tuple[MemberState, ...]
) -> set[str | None]:
    """Return the values of a label on the nodes of some members; None for a node without it."""
    values = set[str | None]()
    for member in pods.of_group(info):
        if member.state in states:
            name = member.node if member.node is not None else member.pod.node_name
            node = None if name is None else nodes.infos.get(name)
            values.add(None if node is None else node.node.labels.get(key))
    return values
