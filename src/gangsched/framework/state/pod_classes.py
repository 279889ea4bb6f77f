"""The equivalence classes of the known pods: one of the owners of a scheduler's state.

Invariants (checked by ``_check``):
  I1  each class is kept under its own signature, and has a user: a class without one is dropped.

Which pods use a class is known to the owner of the pods; ``State._check`` compares the two.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import final

from attrs import define, field

from gangsched.errors import InternalError
from gangsched.framework.nodes.node_class import LabelsRead
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.pod_class import PodClass

__all__ = ["PodClasses"]


@final
@define(eq=False)
class PodClasses:
    """The equivalence classes of the known pods.

    Attributes:
        by_signature: The equivalence class of each pod signature.
        labels: The node labels that some filter or score plugin reads for one of these classes,
            or that a group has as its topology.
        latest: The class that came last, by the part of its signature that plugins read which are
            asked about classes of nodes. Classes with one such part have equal judgements.
        watching: How many classes depend on, or affect, other pods on nodes.
    """

    by_signature: dict[Hashable, PodClass] = field(factory=dict[Hashable, PodClass])
    labels: LabelsRead = field(factory=LabelsRead)
    watching: int = 0
    latest: dict[Hashable, PodClass] = field(factory=dict[Hashable, PodClass])

    def watch(self, pod_class: PodClass, change: int, nodes: Nodes) -> None:
        """Count one class more (1) or less (-1) that depends on, or affects, other pods.

        While there is one, the nodes note when their pods change. While a class carries terms, the
        pods on nodes are counted. O(1), O(pods on nodes) for the first, O(counts) after the last.
        """
        self.watching += change
        nodes.watches_pods = self.watching > 0
        if not self.watching:
            nodes.counts.clear()
        elif change > 0 and pod_class.carried:
            nodes.counts.activate()

    def _check(self) -> None:
        for signature, pod_class in self.by_signature.items():
            if pod_class.signature != signature:
                raise InternalError(f"pod class {signature} has another signature")
            if not pod_class.users:
                raise InternalError(f"pod class {signature} miscounts its users")
        watching = sum(pod_class.watches_pods for pod_class in self.by_signature.values())
        if watching != self.watching:
            raise InternalError(f"{watching} pod classes watch pods, counted as {self.watching}")
