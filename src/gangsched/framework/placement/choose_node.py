"""Choose the node of a single pod (``choose``).

Theory of operation. ``PodClass`` knows which classes of nodes are accepted, with their scores. If
no plugin reads, for this pod, which pods are on nodes, the best node of ``PodClass`` is taken. If
the placement strategy packs the pod, that is the node that a gang of one would get: the smallest.

Otherwise the answers of ``PodClass`` leave out the plugins that read pods. These plugins are asked
about nodes of the accepted classes only, best first. If none of them scores, the first accepted
node is the best, and the remaining nodes are not asked about.

Rules:
  R1  of nodes with equal scores, the one that came first is taken, as for any pod;
  R2  a node is accepted only if the plugins that read pods accept it as it is now.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import Final

from attrs import evolve

from gangsched.cycle_state import CycleState
from gangsched.explain import Diagnosis
from gangsched.framework.nodes.node_class import NodeClass
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.pod_class import PodClass
from gangsched.framework.placement import topology
from gangsched.framework.placement.plan import Domain
from gangsched.framework.placement.tentative import Tentative
from gangsched.framework.runtime import filter_and_score, pod_readers
from gangsched.framework.runtime.pod_readers import NodeCheck
from gangsched.framework.state.pods import Member
from gangsched.framework.state.settings import Settings
from gangsched.model import NodeName
from gangsched.options.scheduling_unit import SchedulingUnit

__all__ = ["accepts_all", "best", "candidates", "choose", "diagnosis", "packed", "ranked"]

_NOT_NAMED: Final = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
"""Said of nodes other than those that a plugin names, as kube-scheduler says it."""


def choose(
    settings: Settings,
    nodes: Nodes,
    cycle: CycleState,
    member: Member,
    pod_class: PodClass,
    domain: Domain | None,
    nominated: NodeName | None = None,
    *,
    barred: Container[int] = (),
    explains: bool = True,
) -> NodeName | Diagnosis:
    """Return the node for one pod, or why no node can take it.

    Runtime complexity: as ``Judgements.best``; for a pod for which plugins read pods O(nodes that
    are asked about x plugins).

    Args:
        settings: What the caller set.
        nodes: The nodes.
        cycle: The cycle of the pod.
        member: The pod.
        pod_class: Its class, judged.
        domain: The nodes that may be used; None for all.
        nominated: The node where capacity is reserved for the pod; it is taken if it is accepted.
        barred: The indices of nodes that are not used. None are barred for a pod for which no
            plugin reads pods.
        explains: Whether the reasons of plugins that read pods are wanted, too. To find them, each
            node is asked about.
    """
    # no call where no pod carries a term, since most decisions pass here
    packs = settings.unit is SchedulingUnit.GROUP and filter_and_score.packs(settings, member)
    may_be = nodes.counts.has_terms or (nodes.guard is not None and nodes.watches_pods)
    is_affected = may_be and bool(pod_readers.affected(nodes, member.pod))
    if not pod_class.reads_pods and not is_affected:
        node = nominated
        if node is None and packs:
            smallest = next(packed(pod_class, domain), None)
            node = None if smallest is None else nodes.by_index[smallest].node.name
        elif node is None and domain is None:
            node = pod_class.judgements.best(nodes)
        elif node is None and domain is not None:
            node = topology.best(nodes, pod_class, domain)
        if node is not None:
            return node
        found = pod_class.judgements.diagnosis()
        return found if domain is None else _with_outside(found, pod_class, domain)
    check = NodeCheck(settings, nodes, cycle, member.pod, is_affected=is_affected)
    if nominated is not None and not check.refusal(nodes.infos[nominated]):
        return nominated
    index: int | None
    if packs and check.named is None:
        order = (index for index in packed(pod_class, domain, check) if index not in barred)
        index = next((each for each in order if not check.refusal(nodes.by_index[each])), None)
    else:
        index = best(nodes, pod_class, check, domain, barred)
    if index is None:
        return (
            diagnosis(nodes, pod_class, check, domain)
            if explains
            else pod_class.judgements.diagnosis()
        )
    return nodes.by_index[index].node.name


def best(
    nodes: Nodes,
    pod_class: PodClass,
    check: NodeCheck,
    domain: Domain | None,
    barred: Container[int] = (),
) -> int | None:
    """Return the index of the best node that is accepted and not barred; None if none is."""
    by_index = nodes.by_index
    accepted = (
        (score, index)
        for score, index in candidates(nodes, pod_class, check, domain)
        if index not in barred and not check.refusal(by_index[index])
    )
    if not check.scores:
        return next((index for _score, index in accepted), None)
    found = list(accepted)
    more = check.totals([by_index[index] for _score, index in found])
    base = [0 if check.ranks_alone else score for score, _index in found]
    indices = [index for _score, index in found]
    totals = (
        (score + extra, -index) for score, extra, index in zip(base, more, indices, strict=True)
    )
    top = max(totals, default=None)
    return None if top is None else -top[1]


def candidates(
    nodes: Nodes, pod_class: PodClass, check: NodeCheck, domain: Domain | None
) -> Iterator[tuple[int, int]]:
    """Iterate over the nodes that may be accepted, best first: (score, index).

    Left out are the classes that the plugins refuse as a whole, and the nodes that they do not
    name. O(log classes) for each node, O(names) if they name nodes.
    """
    if check.named is None:
        within = None if domain is None else domain.within
        return ranked(pod_class.judgements.ranked(within), domain, check)
    infos, classes = nodes.infos, nodes.classes
    scores = {given: score for score, given in pod_class.judgements.ranked()}
    found: list[tuple[int, int]] = []
    for name in check.named:
        info = infos.get(name)
        given = None if info is None else classes.of(info.index)
        if info is not None and given in scores and (domain is None or domain.has(given)):
            found.append((-scores[given], info.index))
    return ((-score, index) for score, index in sorted(found))


def ranked(
    classes: Iterable[tuple[int, NodeClass]],
    domain: Domain | None,
    check: NodeCheck | None = None,
) -> Iterator[tuple[int, int]]:
    """Iterate over nodes, best first: (score, index). O(log classes) for each.

    Args:
        classes: Scores and classes, best first.
        domain: The nodes that may be used; None for all.
        check: Classes that it refuses as a whole are left out; None to leave out none.
    """
    for score, equal in groupby(classes, key=itemgetter(0)):
        allowed = [
            given
            for _score, given in equal
            if (domain is None or domain.has(given)) and (check is None or not check.refuses(given))
        ]
        for index in merge(*(given.nodes for given in allowed)):
            yield score, int(index)


def packed(
    pod_class: PodClass, domain: Domain | None, check: NodeCheck | None = None, wanted: int = 1
) -> Iterator[int]:
    """Iterate over nodes in the order in which packing fills them. O(log classes) for each.

    Args:
        pod_class: The class of the pods.
        domain: The nodes that may be used; None for all.
        check: Classes that it refuses as a whole are left out; None to leave out none.
        wanted: How many such pods are to be placed.
    """
    within = None if domain is None else domain.within
    for strands in (False, True):
        for given in pod_class.judgements.by_max_pods(strands, wanted, within):
            allowed = domain is None or domain.has(given)
            if allowed and (check is None or not check.refuses(given)):
                yield from map(int, given.nodes)


def diagnosis(
    nodes: Nodes, pod_class: PodClass, check: NodeCheck, domain: Domain | None = None
) -> Diagnosis:
    """Return why no node can take a pod, the refusals by plugins that read pods included.

    Runtime complexity: O(nodes x plugins).
    """
    infos = nodes.by_index
    in_order = check.in_order(pod_class.filters or ())
    if in_order is not None or check.named is not None:
        reasons: Counter[str] = Counter()
        accepted = {given for _score, given in pod_class.judgements.ranked()}
        for index, info in infos.items():
            given = nodes.classes.of(index)
            if check.named is not None and info.node.name not in check.named:
                reasons[_NOT_NAMED] += 1
            elif given not in accepted or domain is None or domain.has(given):
                reasons.update(check.first_refusal(info, in_order or ()))
            else:
                reasons[_outside(domain)] += 1
        return Diagnosis(len(infos), tuple(sorted(reasons.items())))
    found = pod_class.judgements.diagnosis()
    if domain is not None:
        found = _with_outside(found, pod_class, domain)
    reasons = Counter(dict(found.reasons))
    for _score, index in ranked(pod_class.judgements.ranked(), domain):
        reasons.update(check.refusal(infos[index]))
    return Diagnosis(len(infos), tuple(sorted(reasons.items())))


def _with_outside(found: Diagnosis, pod_class: PodClass, domain: Domain) -> Diagnosis:
    """Add the nodes outside of a domain that would take a pod otherwise. O(classes of nodes)."""
    others = (given for _score, given in pod_class.judgements.ranked() if not domain.has(given))
    count = sum(len(given.nodes) for given in others)
    if not count:
        return found
    return evolve(found, reasons=tuple(sorted((*found.reasons, (_outside(domain), count)))))


def _outside(domain: Domain) -> str:
    """Return the reason of nodes that would take a pod, but not within the domain of its gang."""
    return f"node(s) not within {domain}"


def accepts_all(
    settings: Settings,
    nodes: Nodes,
    placed: Sequence[tuple[Member, int]],
    cycles: Mapping[int, CycleState],
) -> bool:
    """Return whether members may go to these nodes one after another, in this order.

    Asks the plugins that read pods only. Runtime complexity: O(members x plugins), and O(members^2
    x plugins) where a plugin has ``add_pod``.

    Args:
        settings: What the caller set.
        nodes: The nodes.
        placed: The members in order, with the index of the node.
        cycles: The cycle of each member, by its number.
    """
    if not nodes.watches_pods:
        return True
    by_terms = pod_readers.affected_among(nodes, [member for member, _index in placed])
    if not any(member.pod_class.reads_pods for member, _index in placed) and not any(by_terms):
        return True
    checks = [
        NodeCheck(settings, nodes, cycles[member.seq], member.pod, is_affected=bool(terms))
        for (member, _index), terms in zip(placed, by_terms, strict=True)
    ]
    with Tentative(nodes, checks) as tentative:
        for check, (member, index) in zip(checks, placed, strict=True):
            if check.refusal(nodes.by_index[index]):
                return False
            tentative.put(member, index)
    return True
