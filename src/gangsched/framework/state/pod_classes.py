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
    """

    by_signature: dict[Hashable, PodClass] = field(factory=dict[Hashable, PodClass])
    labels: LabelsRead = field(factory=LabelsRead)

    def _check(self) -> None:
        for signature, pod_class in self.by_signature.items():
            if pod_class.signature != signature:
                raise InternalError(f"pod class {signature} has another signature")
            if not pod_class.users:
                raise InternalError(f"pod class {signature} miscounts its users")
