"""Priority classes: which priority a name stands for.

Rules:
  R1  a class is known if a ``PriorityClass`` document was given, before or after its user, or
      if it is one of Kubernetes' own two;
  R2  a pod that names neither a class nor a priority has that of the global default: the
      smallest of them if several claim to be it, as the API server decides, and else 0;
  R3  a class that is not known is an error, never priority 0.
"""

from __future__ import annotations

from typing import Final, final

from attrs import frozen

from gangsched.model import PreemptionPolicy
from gangsched.objects.fields import Field
from gangsched.resources import FrozenMap

__all__ = ["PriorityClasses", "with_priority_class"]

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
        values: The priority of each, by name.
        default: The priority of a pod that names none; None where no class is the default.
        never: The classes whose pods displace nobody.
        default_never: Whether a pod that names none displaces nobody.
    """

    values: FrozenMap[int] = _BUILT_IN
    default: int | None = None
    never: frozenset[str] = frozenset()
    default_never: bool = False

    def priority_of(self, spec: Field) -> int:
        """Return the priority that a pod's specification asks for.

        Raises:
            ManifestError: It names a class that is not known.
        """
        asked = self.asked_by(spec)
        return (self.default or 0) if asked is None else asked

    def asked_by(self, spec: Field) -> int | None:
        """Return the priority that is asked for by number or by name; None for neither."""
        if spec["priority"].given:
            return spec["priority"].whole(least=_LEAST)
        name = spec["priorityClassName"].text()
        if not name:
            return None
        if name not in self.values:
            raise spec["priorityClassName"].refuse("the name of a PriorityClass that is given")
        return self.values[name]

    def policy_of(self, spec: Field) -> PreemptionPolicy:
        """Return whether a pod may displace others: what it says itself, else its class.

        Raises:
            ManifestError: What it says is no preemption policy.
        """
        said = spec["preemptionPolicy"].word(_POLICIES, "")
        if said:
            return PreemptionPolicy(said)
        name = spec["priorityClassName"].text()
        never = name in self.never if name else self.default_never and not spec["priority"].given
        return PreemptionPolicy.NEVER if never else PreemptionPolicy.PREEMPT_LOWER_PRIORITY


def with_priority_class(known: PriorityClasses, document: Field) -> PriorityClasses:
    """Return *known* with the class of a ``PriorityClass`` document.

    Raises:
        ManifestError: The document is malformed.
    """
    name = document["metadata"]["name"].name()
    value = document["value"].whole(least=_LEAST)
    says = document["preemptionPolicy"].word(
        _POLICIES, PreemptionPolicy.PREEMPT_LOWER_PRIORITY.value
    )
    is_never = says == PreemptionPolicy.NEVER.value
    default, default_never = known.default, known.default_never
    if document["globalDefault"].flag() and (default is None or value < default):
        default, default_never = value, is_never
    never = known.never | {name} if is_never else known.never - {name}
    values = FrozenMap({**known.values, name: value})
    return PriorityClasses(values, default, never, default_never)
