"""Priority classes: the priority that a name stands for.

Rules:
  R1  a class is known if a ``PriorityClass`` document was given, before or after the pods that
      use it, or if it is one of the two that Kubernetes defines;
  R2  a pod without class and priority has the priority of the global default. If several classes
      are the global default, it is the smallest, as in the API server; without one it is 0;
  R3  an unknown class is an error, never priority 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, final

from attrs import frozen

from gangsched.manifests.fields import Field
from gangsched.model import PreemptionPolicy
from gangsched.resources import FrozenMap

__all__ = ["PriorityClasses", "with_priority_classes"]

_BUILT_IN: Final = FrozenMap(
    {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
)
_LEAST: Final = -(2**31)
_POLICIES: Final = tuple(policy.value for policy in PreemptionPolicy)


@final
@frozen
class PriorityClasses:
    """The priority classes that are known.

    Attributes:
        values: The priority of each class, by name.
        default: The priority of a pod that names none; None if no class is the default.
        never: The classes whose pods do not preempt.
        default_never: Whether a pod that names no class does not preempt.
    """

    values: FrozenMap[int] = _BUILT_IN
    default: int | None = None
    never: frozenset[str] = frozenset()
    default_never: bool = False

    def priority_of(self, spec: Field) -> int:
        """Return the priority of a pod's specification.

        Raises:
            ManifestError: The specification names an unknown class.
        """
        asked = self.asked_by(spec)
        return (self.default or 0) if asked is None else asked

    def asked_by(self, spec: Field) -> int | None:
        """Return the priority that is given by number or by name; None for neither."""
        if spec["priority"].given:
            return spec["priority"].whole(least=_LEAST)
        name = spec["priorityClassName"].text()
        if not name:
            return None
        if name not in self.values:
            raise spec["priorityClassName"].refuse("the name of a known PriorityClass")
        return self.values[name]

    def policy_of(self, spec: Field) -> PreemptionPolicy:
        """Return whether a pod may preempt others: its own policy, else that of its class.

        Raises:
            ManifestError: The pod's policy is not a preemption policy.
        """
        said = spec["preemptionPolicy"].word(_POLICIES, "")
        if said:
            return PreemptionPolicy(said)
        name = spec["priorityClassName"].text()
        never = name in self.never if name else self.default_never and not spec["priority"].given
        return PreemptionPolicy.NEVER if never else PreemptionPolicy.PREEMPT_LOWER_PRIORITY


def with_priority_classes(known: PriorityClasses, documents: Iterable[Field]) -> PriorityClasses:
    """Return *known* with the classes of ``PriorityClass`` documents.

    Runtime complexity: O(known + documents).

    Raises:
        ManifestError: A document is malformed.
    """
    values, never = dict(known.values), set(known.never)
    default, default_never = known.default, known.default_never
    for document in documents:
        name = document["metadata"]["name"].name()
        value = document["value"].whole(least=_LEAST)
        policy = document["preemptionPolicy"].word(
            _POLICIES, PreemptionPolicy.PREEMPT_LOWER_PRIORITY.value
        )
        is_never = policy == PreemptionPolicy.NEVER.value
        if document["globalDefault"].flag() and (default is None or value < default):
            default, default_never = value, is_never
        values[name] = value
        never.discard(name)
        if is_never:
            never.add(name)
    return PriorityClasses(FrozenMap(values), default, frozenset(never), default_never)
