"""The domains of a gang with a topology: the values of a label within which it may be placed.

Rules:
  R1  the value that may take most members of the gang comes first, its elastic members included.
      Of equal values the tightest does: larger ones are left for larger gangs;
  R2  a member that joins a gang on nodes goes to the values of these nodes. If none of them has the
      label, it is held. If the topology is only preferred, other nodes will do;
  R3  an attempt is rejected if its members wait on permit on nodes of several values, because the
      specification or the label of a node has changed.

Source: the topology constraints of KEP-5732; the score PodGroupPodsCount of kube-scheduler.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence

from gangsched._core._counters import MemberState
from gangsched._core._registry import PodGroupInfo
from gangsched.framework.nodes import in_order
from gangsched.framework.nodes.label_values import LabelValues
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
    """Return the best node of a domain; None if none of it is feasible.

    Runtime complexity: O(log classes) for a domain of one value, else O(classes).
    """
    for _score, given in pod_class.judgements.ranked(domain.within):
        if domain.has(given):
            return nodes.by_index[given.nodes[0]].node.name
    return None


def domains(
    nodes: Nodes,
    pods: Pods,
    info: PodGroupInfo,
    counts: Collection[tuple[PodClass, int]],
    needed: int,
) -> Iterator[tuple[Domain | None, float]]:
    """Iterate over the domains of a gang with a topology, in the order in which to try them.

    Each comes with an upper bound on the number of members that it takes, infinite if that was not
    computed. None stands for all nodes. Runtime complexity: O(log values) for each, if the members
    are of one class of pods; otherwise O(values log values x classes of pods) for the first.

    Args:
        nodes: The nodes; they must not change before the last domain was asked for.
        pods: The known pods and groups.
        info: The gang.
        counts: The judged classes of its pending members, each with the number of members.
        needed: How many of them must fit.
    """
    topology = None if info.spec is None else info.spec.topology
    assert topology is not None
    here = _of_members(nodes, pods, info)
    if here is not None:
        yield here, math.inf
    else:
        for value, most in _values_in_order(topology.key, counts, needed):
            yield Domain(topology.key, frozenset({value})), most
    if not topology.required:
        yield None, math.inf


def _values_in_order(
    key: str, counts: Collection[tuple[PodClass, int]], needed: int
) -> Iterable[tuple[str, int]]:
    """Return the values of a label by R1, each with a bound on the members that it takes.

    If no value is large enough, the largest is returned, so that the proof says what is short
    there.
    """
    kinds = {pod_class.judgements for pod_class, _count in counts}
    if len(kinds) == 1:
        return _of_one_class(kinds.pop().values_of(key), [n for _class, n in counts], needed)
    enough: dict[str, int] = {}
    totals: dict[str, int] = {}
    for pod_class, count in counts:
        for value, most in pod_class.judgements.values_of(key).totals():
            enough[value] = enough.get(value, 0) + min(most, count)
            totals[value] = totals.get(value, 0) + most
    fitting = [value for value, most in enough.items() if most >= needed]
    if not fitting and enough:
        fitting = [max((most, value) for value, most in enough.items())[1]]
    fitting.sort(key=lambda value: (-enough[value], totals[value], value))
    return [(value, enough[value]) for value in fitting]


def _of_one_class(
    values: LabelValues, counts: Sequence[int], needed: int
) -> Iterator[tuple[str, int]]:
    """Iterate over the values as ``_values_in_order``, for members of one class of pods.

    The more pods a value takes, the more of the members it takes, until it takes all of them. So
    the order of the values by pods has all that is needed.
    """
    order, whole = values.in_order(), sum(counts)
    end = all_fit = in_order.first_at_least(order, (max(counts), ""))
    found = False
    if whole >= needed:
        for _total, value in in_order.between(order, all_fit):
            found = True
            yield value, whole
    while end:
        total = order[end - 1][0]
        most = sum(min(total, count) for count in counts)
        if most < needed:
            break
        begin = in_order.first_at_least(order, (total, ""))
        for _total, value in in_order.between(order, begin, end):
            found = True
            yield value, most
        end = begin
    if not found and order:
        largest = in_order.between(order, min(all_fit, len(order) - 1))
        most = sum(min(order[-1][0], count) for count in counts)
        yield max(value for _total, value in largest), most


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
    """Return the domain of the members that hold nodes; None if none does. O(members).

    If none of their nodes has the label, no node is in the domain: any other one would be in
    another domain, or in none.
    """
    topology = None if info.spec is None else info.spec.topology
    if topology is None or not info.scheduled:
        return None
    values = _values(nodes, pods, info, topology.key, ON_NODES)
    known = frozenset(value for value in values if value is not None)
    return Domain(topology.key, known) if known or topology.required else None


def _values(
    nodes: Nodes, pods: Pods, info: PodGroupInfo, key: str, states: tuple[MemberState, ...]
) -> set[str | None]:
    """Return the values of a label on the nodes of the members in some states. O(members).

    None is among them for a node without the label, and for one that is not known.
    """
    values = set[str | None]()
    for member in pods.of_group(info):
        if member.state in states:
            name = member.node if member.node is not None else member.pod.node_name
            node = None if name is None else nodes.infos.get(name)
            values.add(None if node is None else node.node.labels.get(key))
    return values
