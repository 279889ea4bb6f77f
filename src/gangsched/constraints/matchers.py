"""Which pods, and which nodes, a constraint is about: the keys of counts that are kept.

Two constraints with equal matchers share one count. So a matcher has a form of its own: a selector
with ``match_label_keys`` filled in, and of node affinity only what a spread constraint honours.

Rules:
  R1  a matcher is a frozen value. It is compared and hashed by its attributes;
  R2  a matcher reads the namespace, the labels and the deletion of a pod, or the name, the labels
      and the taints of a node, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from attrs import field, frozen

from gangsched.constraints.node_selector import NodeSelectorTerm
from gangsched.constraints.selectors import LabelSelector
from gangsched.constraints.taints import Taint, TaintEffect, Toleration
from gangsched.resources import EMPTY, FrozenMap
from gangsched.values.reprs import short_repr

__all__ = ["CarriedTerm", "NodeMatcher", "PodMatcher", "pairs_of"]


def pairs_of(selector: LabelSelector) -> tuple[tuple[str, str], ...] | None:
    """Return labels of which a selected pod has at least one; None if none are known.

    They are those of one condition: the first label, else the values of the first ``In``.
    """
    for key, value in selector.match_labels.items():
        return ((key, value),)
    for one in selector.match_expressions:
        if one.operator == "In":
            return tuple((one.key, value) for value in one.values)
    return None


@final
@frozen(cache_hash=True)
class PodMatcher:
    """Pods with some labels in some namespaces.

    Attributes:
        selector: Selects the pods by their labels.
        namespaces: The names of their namespaces.
        namespace_selector: Selects further namespaces by their labels; None for none.
        live_only: Whether terminating pods are left out.
    """

    selector: LabelSelector
    namespaces: frozenset[str] = frozenset()
    namespace_selector: LabelSelector | None = None
    live_only: bool = False

    @property
    def is_everywhere(self) -> bool:
        """Whether pods of every namespace match, whatever its labels."""
        return self.namespace_selector is not None and self.namespace_selector.is_empty

    def may_match(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Return whether a pod matches if the labels of its namespace do. O(conditions)."""
        if namespace not in self.namespaces and self.namespace_selector is None:
            return False
        return self.selector.matches(labels)

    def matches(
        self, namespace: str, labels: Mapping[str, str], of_namespace: Mapping[str, str] = EMPTY
    ) -> bool:
        """Return whether a pod matches.

        Args:
            namespace: Its namespace.
            labels: Its labels.
            of_namespace: The labels of its namespace; empty if the namespace is not known.
        """
        if namespace not in self.namespaces and (
            self.namespace_selector is None or not self.namespace_selector.matches(of_namespace)
        ):
            return False
        return self.selector.matches(labels)

    def pairs(self) -> tuple[tuple[str, str], ...] | None:
        """Return labels of which a matching pod has at least one; see ``pairs_of``."""
        return pairs_of(self.selector)

    def __repr__(self) -> str:
        return short_repr(self)


@final
@frozen(cache_hash=True)
class NodeMatcher:
    """Nodes that a spread constraint counts.

    Attributes:
        keys: Keys of labels that a node must have.
        node_selector: Labels that it must have.
        affinity: Terms of which it must match one; empty for no condition.
        tolerations: The tolerations of the pod if a taint that they do not match leaves a node
            out; None if taints do not count.
    """

    keys: tuple[str, ...] = ()
    node_selector: FrozenMap[str] = EMPTY
    affinity: tuple[NodeSelectorTerm, ...] = ()
    tolerations: tuple[Toleration, ...] | None = field(default=None)

    def matches(self, name: str, labels: Mapping[str, str], taints: tuple[Taint, ...]) -> bool:
        """Return whether a node is counted. O(conditions)."""
        for key in self.keys:
            if key not in labels:
                return False
        for key, value in self.node_selector.items():
            if labels.get(key) != value:
                return False
        if self.affinity and not any(term.matches(labels, name) for term in self.affinity):
            return False
        tolerations = self.tolerations
        return tolerations is None or all(
            taint.effect is TaintEffect.PREFER_NO_SCHEDULE
            or any(one.tolerates(taint) for one in tolerations)
            for taint in taints
        )

    def __repr__(self) -> str:
        return short_repr(self)


@final
@frozen(cache_hash=True)
class CarriedTerm:
    """What a pod on a node does to other pods in its domain.

    Attributes:
        pods: The pods that it is about.
        topology_key: The key of the node label whose values are the domains.
        weight: How much it attracts them; below zero, how much it repels them. None if it keeps
            them away.
    """

    pods: PodMatcher
    topology_key: str
    weight: int | None = None

    def __repr__(self) -> str:
        return short_repr(self)
