"""Filter nodes by required affinity and anti-affinity between pods.

Theory of operation. A term is about the domain of a node. The scheduler counts how many pods match
a term in each domain (``state.counts``), so a filter costs O(terms). The pod that is placed first
of a group with affinity to itself is accepted in every domain, as in kube-scheduler: otherwise none
of the group could ever start.

Anti-affinity works in both directions. A pod with anti-affinity carries its terms to its node
(``pods_affected``), and keeps later pods away even if these have no terms themselves.

Source: ``InterPodAffinity`` of kube-scheduler 1.36.

Rules:
  R1  the reasons are those of kube-scheduler, in its order: affinity, anti-affinity, anti-affinity
      of pods on nodes;
  R2  a node without the label of an affinity term is refused. A node without the label of an
      anti-affinity term is in no domain, and accepted;
  R3  terminating pods count until they are gone.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Final, NamedTuple, final

from attrs import field, frozen

from gangsched.cluster_objects import Namespace
from gangsched.constraints.matchers import CarriedTerm, PodMatcher
from gangsched.model import NodeName, Pod, PodAffinityTerm
from gangsched.outcomes import SUCCESS, Outcome, Unschedulable
from gangsched.plugins._scores import BEST
from gangsched.plugins._terms import (
    HOSTNAME,
    all_of,
    by_name,
    labels_of_namespace,
    shared_host,
    term_matcher,
)
from gangsched.protocols import CycleView, NodeView, StateKey
from gangsched.values.fields import check_count

__all__ = ["InterPodAffinity", "PreferredInterPodAffinity"]

_AFFINITY: Final = Unschedulable("node(s) didn't match pod affinity rules", resolvable=False)
_ANTI_AFFINITY: Final = Unschedulable("node(s) didn't match pod anti-affinity rules")
_EXISTING: Final = Unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")


class _Rules(NamedTuple):
    """What the terms of one pod ask, with namespaces by name.

    Attributes:
        companions: The pods that match every affinity term: one of these must be in each domain.
            None if no pod can match.
        affinity: The topology keys of the affinity terms.
        matches_itself: Whether the pod is one of its companions.
        anti_affinity: The anti-affinity terms.
    """

    companions: PodMatcher | None
    affinity: tuple[str, ...]
    matches_itself: bool
    anti_affinity: tuple[tuple[PodMatcher, str], ...]


_RULES: Final[StateKey[_Rules]] = StateKey("InterPodAffinity.rules", derived=True)
_PREFERENCES: Final[StateKey[tuple[tuple[PodMatcher, str, int], ...]]] = StateKey(
    "InterPodAffinity.preferences", derived=True
)


@frozen
class InterPodAffinity:
    """Refuse nodes against the required pod affinity and anti-affinity, in both directions."""

    @property
    def name(self) -> str:
        """``InterPodAffinity``."""
        return "InterPodAffinity"

    def pod_signature(self, pod: Pod) -> Hashable:
        """Return the terms with what they read of the pod itself; None for a pod without terms."""
        if not pod.pod_affinity and not pod.pod_anti_affinity:
            return None
        return (pod.pod_affinity, pod.pod_anti_affinity, pod.namespace, pod.labels)

    @property
    def signs_node_alone(self) -> bool:
        """True: the signature is constant."""
        return True

    def node_signature(self, node: NodeView) -> Hashable:
        """Return a constant: of a node by itself the plugin reads only labels."""
        return None

    def labels_read(self, pod: Pod) -> Iterable[str]:
        """Return the topology keys, except for the host name, which differs from node to node."""
        if not pod.pod_affinity and not pod.pod_anti_affinity:
            return ()
        terms = (*pod.pod_affinity, *pod.pod_anti_affinity)
        return {term.topology_key for term in terms} - {HOSTNAME}

    def objects_read(self, pod: Pod) -> Iterable[type[Namespace]]:
        """Return the namespaces if a term selects them by their labels."""
        return (Namespace,) if _selects_namespaces(pod.pod_affinity + pod.pod_anti_affinity) else ()

    def reads_pods(self, pod: Pod) -> bool:
        """Return whether the pod has required terms."""
        return bool(pod.pod_affinity or pod.pod_anti_affinity)

    def pods_affected(self, pod: Pod) -> tuple[CarriedTerm, ...]:
        """Return the terms of the required anti-affinity."""
        if not pod.pod_anti_affinity:
            return ()
        found = ((term_matcher(pod, term), term.topology_key) for term in pod.pod_anti_affinity)
        return tuple(CarriedTerm(pods, key) for pods, key in found if pods is not None)

    def pods_selected(self, pod: Pod) -> tuple[PodMatcher, ...]:
        """Return the pods that the terms of the required affinity select."""
        if not pod.pod_affinity:
            return ()
        found = (term_matcher(pod, term) for term in pod.pod_affinity)
        return tuple(pods for pods in found if pods is not None)

    def hindered_within(self, state: CycleView, pod: Pod, other: Pod) -> Iterable[str] | None:
        """Return the keys of the anti-affinity terms that *other* may match.

        A pod that matches the affinity terms of *pod* may be in the way on any node. If *pod* may
        be the first of its group, it is accepted only beside that pod.
        """
        if pod.pod_affinity and all(
            _may_match(pod, term, one) for term in pod.pod_affinity for one in (pod, other)
        ):
            return None
        terms = pod.pod_anti_affinity
        return {term.topology_key for term in terms if _may_match(pod, term, other)}

    def topology_keys(self, state: CycleView, pod: Pod) -> Iterable[str]:
        """Return the topology keys of the pod's terms, and of the carried terms about it."""
        own = {term.topology_key for term in (*pod.pod_affinity, *pod.pod_anti_affinity)}
        return own | {term.topology_key for term, _counts in state.counts.carried_about(pod)}

    def node_group(self, state: CycleView, pod: Pod, node: NodeView) -> Hashable:
        """Return the host name of *node* if other nodes share it, and its other domains.

        The topology keys of carried terms are no labels that are read for this pod.
        """
        labels, host = node.node.labels, shared_host(state, node)
        keys = {term.topology_key for term, _counts in state.counts.carried_about(pod)}
        return (host, *((key, labels.get(key)) for key in sorted(keys - {HOSTNAME})))

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        """Refuse *node* if its domains do not meet the terms. O(terms)."""
        labels, counts = node.node.labels, state.counts
        if pod.pod_affinity or pod.pod_anti_affinity:
            rules = state.read(_RULES)
            if rules is None:
                rules = _rules(state, pod)
                state.write(_RULES, rules)
            if rules.affinity and not _meets_affinity(state, rules, labels):
                return _AFFINITY
            for pods, key in rules.anti_affinity:
                value = labels.get(key)
                if value is not None and counts.matching(pods, key).get(value):
                    return _ANTI_AFFINITY
        for term, found in counts.carried_about(pod):
            if term.weight is None:
                value = labels.get(term.topology_key)
                if value is not None and found.get(value) and _is_about(state, term, pod):
                    return _EXISTING
        return SUCCESS


def _rules(state: CycleView, pod: Pod) -> _Rules:
    wanted = [term_matcher(pod, term) for term in pod.pod_affinity]
    companions = all_of([None if one is None else by_name(state, one) for one in wanted])
    shunned = [(term_matcher(pod, term), term.topology_key) for term in pod.pod_anti_affinity]
    return _Rules(
        companions,
        tuple(dict.fromkeys(term.topology_key for term in pod.pod_affinity)),
        companions is not None and companions.matches(pod.namespace, pod.labels),
        tuple((by_name(state, pods), key) for pods, key in shunned if pods is not None),
    )


def _meets_affinity(state: CycleView, rules: _Rules, labels: Mapping[str, str]) -> bool:
    values = [labels.get(key) for key in rules.affinity]
    companions = rules.companions
    if companions is None:
        return False
    found = [state.counts.matching(companions, key) for key in rules.affinity]
    met = True
    for counts, value in zip(found, values, strict=True):
        if value is None:
            return False
        met = met and counts.get(value) > 0
    # the first of a group with affinity to itself
    return met or (rules.matches_itself and not any(counts.total for counts in found))


def _is_about(state: CycleView, term: CarriedTerm, pod: Pod) -> bool:
    """Return whether a carried term is about a pod, the labels of its namespace included."""
    selector = term.pods.namespace_selector
    if selector is None or selector.is_empty or pod.namespace in term.pods.namespaces:
        return True
    return selector.matches(labels_of_namespace(state, pod))


def _may_match(pod: Pod, term: PodAffinityTerm, other: Pod) -> bool:
    """Return whether a term of *pod* may be about *other*, whatever labels its namespace has."""
    pods = term_matcher(pod, term)
    return pods is not None and pods.may_match(other.namespace, other.labels)


def _selects_namespaces(terms: Iterable[PodAffinityTerm]) -> bool:
    return any(term.namespace_selector is not None for term in terms)


@final
@frozen
class PreferredInterPodAffinity(InterPodAffinity):
    """``InterPodAffinity`` with the score of kube-scheduler: the preferred terms, both ways.

    Attributes:
        hard_pod_affinity_weight: How much a required affinity term of a pod on a node attracts the
            pods that it is about, 0 to 100.
    """

    hard_pod_affinity_weight: int = field(default=1, validator=check_count)

    def pod_signature(self, pod: Pod) -> Hashable:
        """Return the terms with what they read of the pod itself; None for a pod without terms."""
        preferred = (pod.preferred_pod_affinity, pod.preferred_pod_anti_affinity)
        required = super().pod_signature(pod)
        if required is None and not any(preferred):
            return None
        return (required, preferred, pod.namespace, pod.labels)

    def labels_read(self, pod: Pod) -> Iterable[str]:
        """Return the topology keys of all terms, except for the host name."""
        preferred = (*pod.preferred_pod_affinity, *pod.preferred_pod_anti_affinity)
        keys = {one.pod_affinity_term.topology_key for one in preferred}
        return (keys | set(super().labels_read(pod))) - {HOSTNAME}

    def objects_read(self, pod: Pod) -> Iterable[type[Namespace]]:
        """Return the namespaces if a term selects them by their labels."""
        preferred = (*pod.preferred_pod_affinity, *pod.preferred_pod_anti_affinity)
        by_labels = _selects_namespaces([one.pod_affinity_term for one in preferred])
        return (Namespace,) if by_labels else super().objects_read(pod)

    def reads_pods(self, pod: Pod) -> bool:
        """Return whether the pod has terms."""
        preferred = pod.preferred_pod_affinity or pod.preferred_pod_anti_affinity
        return bool(preferred) or super().reads_pods(pod)

    def pods_affected(self, pod: Pod) -> tuple[CarriedTerm, ...]:
        """Return the terms of the required anti-affinity, and all others with their weights."""
        weighted = [(each.pod_affinity_term, each.weight) for each in pod.preferred_pod_affinity]
        weighted += [
            (each.pod_affinity_term, -each.weight) for each in pod.preferred_pod_anti_affinity
        ]
        if self.hard_pod_affinity_weight:
            weighted += [(term, self.hard_pod_affinity_weight) for term in pod.pod_affinity]
        found = ((term_matcher(pod, term), term.topology_key, w) for term, w in weighted)
        soft = tuple(CarriedTerm(pods, key, w) for pods, key, w in found if pods is not None)
        return super().pods_affected(pod) + soft

    def score(self, state: CycleView, pod: Pod, node: NodeView) -> int:
        """Return the sum of the weights of matching pods in the domains of *node*."""
        labels, counts = node.node.labels, state.counts
        rules = state.read(_PREFERENCES)
        if rules is None:
            rules = _preferences(state, pod)
            state.write(_PREFERENCES, rules)
        total = 0
        for pods, key, weight in rules:
            value = labels.get(key)
            if value is not None:
                total += weight * counts.matching(pods, key).get(value)
        for term, found in counts.carried_about(pod):
            value = labels.get(term.topology_key)
            if term.weight is not None and value is not None and _is_about(state, term, pod):
                total += term.weight * found.get(value)
        return total

    def normalize_score(
        self, state: CycleView, pod: Pod, scores: Mapping[NodeName, int]
    ) -> Mapping[NodeName, int]:
        """Return 0 for the lowest sum, 100 for the highest, and others in proportion."""
        least, most = min(scores.values(), default=0), max(scores.values(), default=0)
        if least == most:
            return dict.fromkeys(scores, 0)
        return {
            name: int(BEST * ((score - least) / (most - least))) for name, score in scores.items()
        }


def _preferences(state: CycleView, pod: Pod) -> tuple[tuple[PodMatcher, str, int], ...]:
    weighted = [(each.pod_affinity_term, each.weight) for each in pod.preferred_pod_affinity]
    weighted += [(each.pod_affinity_term, -each.weight) for each in pod.preferred_pod_anti_affinity]
    found = ((term_matcher(pod, term), term.topology_key, weight) for term, weight in weighted)
    return tuple(
        (by_name(state, pods), key, weight) for pods, key, weight in found if pods is not None
    )
