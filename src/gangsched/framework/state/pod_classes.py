"""The equivalence classes of the known pods: one of the owners of a scheduler's state.

Invariants (checked by ``_check``):
  I1  each class is kept under its own signature, and has a user: a class without one is dropped;
  I2  judgements that classes share are known by their key as long as a class uses them.

Which pods use a class is known to the owner of the pods; ``State._check`` compares the two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import final

from attrs import define, field

from gangsched.errors import InternalError
from gangsched.framework.nodes.judgements import Judgements
from gangsched.framework.nodes.labels_read import LabelsRead
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
        alike: Judgements that classes share, by the part of their signatures that plugins read
            which are asked about classes of nodes.
        watching: How many classes depend on, or affect, other pods on nodes.
    """

    by_signature: dict[Hashable, PodClass] = field(factory=dict[Hashable, PodClass])
    labels: LabelsRead = field(factory=LabelsRead)
    watching: int = 0
    alike: dict[Hashable, Judgements] = field(factory=dict[Hashable, Judgements])

    def watch(self, pod_class: PodClass, change: int, nodes: Nodes) -> None:
        """Count one class more (1) or less (-1) that depends on, or affects, other pods.

        While there is one, the nodes note when their pods change. From the first class on that
        carries terms or selects pods, the pods on nodes are counted, so that no decision begins
        with that. O(1), O(pods on nodes) for the first, O(counts) after the last.
        """
        self.watching += change
        nodes.watches_pods = self.watching > 0
        if not self.watching:
            nodes.counts.clear()
        elif change > 0 and (pod_class.carried or pod_class.selected):
            nodes.counts.activate()

    def share(self, pod_class: PodClass, key: Hashable) -> None:
        """Let a class use the judgements under a key, or share its own under this key. O(1)."""
        if pod_class.judgements.key is not None:
            return
        found = self.alike.get(key)
        if found is None:
            pod_class.judgements.key = key
            self.alike[key] = pod_class.judgements
        else:
            pod_class.share(found)

    def leave(self, judgements: Judgements) -> None:
        """Count a class less that uses some judgements; forget them after the last. O(1)."""
        judgements.sharing -= 1
        if not judgements.sharing and judgements.key is not None:
            del self.alike[judgements.key]

    def _check(self) -> None:
        for signature, pod_class in self.by_signature.items():
            if pod_class.signature != signature:
                raise InternalError(f"pod class {signature} has another signature")
            if not pod_class.users:
                raise InternalError(f"pod class {signature} miscounts its users")
        using = Counter(id(each.judgements) for each in self.by_signature.values())
        for key, judgements in self.alike.items():
            if judgements.key != key or judgements.sharing != using[id(judgements)]:
                raise InternalError(f"the classes that share the judgements {key} are miscounted")
        shared = {id(judgements) for judgements in self.alike.values()}
        if any(count > 1 and each not in shared for each, count in using.items()):
            raise InternalError("classes share judgements that are not known as shared")
        watching = sum(pod_class.watches_pods for pod_class in self.by_signature.values())
        if watching != self.watching:
            raise InternalError(f"{watching} pod classes watch pods, counted as {self.watching}")
