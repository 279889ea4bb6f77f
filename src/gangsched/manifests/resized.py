"""What the containers of a pod were given, from its status: a resize in place takes its time.

Theory of operation. The requests of a running pod can be changed. The kubelet then allocates what
is asked for, if the node has it, and changes the containers. Until that is done, the status says
what was allocated and what the containers have. The larger amounts count, so that nothing is
promised twice.

Rules:
  R1  three sums are compared, for each resource by itself, and the largest counts: what the
      containers ask for, what they were allocated, and what they have. Up to Kubernetes 1.36 the
      largest of each container was added, so a pod that moves resources from one container to
      another counted for more than it ever has;
  R2  what a container has is what it was allocated, if its status does not say it; without a status
      of the container, both are what it asks for;
  R3  if the resize is infeasible, what is asked for does not count, for no container;
  R4  if the status says both of the pod as a whole, it takes the place of the sums over the
      containers;
  R5  a pod that asks for amounts as a whole counts the largest of these and of that status.

Source: ``PodRequests`` of k8s.io/component-helpers/resource in 1.37 (KEP-1287, KEP-5419).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias, final

from attrs import field, frozen

from gangsched.manifests.fields import Field

__all__ = ["AS_ASKED", "Add", "Amounts", "Given", "largest", "read_given"]

_PENDING: Final = "PodResizePending"
_INFEASIBLE: Final = "Infeasible"

Amounts: TypeAlias = Mapping[str, int]
"""Amounts of resources in thousandths."""
Add: TypeAlias = Callable[[Sequence[Amounts]], Amounts]
"""Returns what a pod takes if each of its containers takes some amounts."""


@final
@frozen
class Given:
    """What a pod and its containers were given, in thousandths.

    Attributes:
        allocated: By name of the container, what was allocated.
        used: By name of the container, what it has; what was allocated if that is not said.
        whole: What the pod as a whole was allocated, and what it has; None for what is not said.
        says_whole: Whether the status has ``resources`` of the pod as a whole.
        infeasible: Whether the node cannot give what is asked for.
    """

    allocated: Mapping[str, Amounts] = field(factory=dict[str, Amounts])
    used: Mapping[str, Amounts] = field(factory=dict[str, Amounts])
    whole: tuple[Amounts | None, Amounts | None] = (None, None)
    says_whole: bool = False
    infeasible: bool = False

    def sums(self, names: Sequence[str], asked: Sequence[Amounts], add: Add) -> list[Amounts]:
        """Return the sums of which the largest amounts count. O(containers * resources).

        Args:
            names: The names of the containers.
            asked: What each of them asks for.
            add: Returns what a pod takes if each container takes some amounts.
        """
        if self == AS_ASKED:
            return [add(asked)]
        found = [] if self.infeasible else [add(asked)]
        allocated, used = self.whole
        if allocated is not None and used is not None:
            return [*found, allocated, used]
        nothing = dict[str, int]()
        rest = [nothing] * len(asked) if self.infeasible else asked
        for given in (self.allocated, self.used):
            each = [given.get(name, one) for name, one in zip(names, rest, strict=True)]
            found.append(add(each))
        return found

    def to_pod(self, asked: Amounts) -> Amounts:
        """Return what counts for a pod that asks for some amounts as a whole. O(resources)."""
        if not asked or not self.says_whole:
            return asked
        given = [each for each in self.whole if each is not None]
        return largest(given if self.infeasible else [asked, *given])


AS_ASKED: Final = Given()
"""Of a pod without a status: what it asks for counts."""


def read_given(status: Field) -> Given:
    """Return what the status of a pod says that it was given. O(size of the status).

    Raises:
        ManifestError: The status is malformed.
    """
    allocated: dict[str, Amounts] = {}
    used: dict[str, Amounts] = {}
    for report in (
        *status["containerStatuses"].elements(),
        *status["initContainerStatuses"].elements(),
    ):
        name = report["name"].text()
        for given, into in zip(_given(report), (allocated, used), strict=True):
            if given is not None:
                into[name] = given
        if name in allocated:
            used.setdefault(name, allocated[name])
    says_whole = status["resources"].given
    return Given(allocated, used, _given(status), says_whole, _is_infeasible(status))


def _given(report: Field) -> tuple[Amounts | None, Amounts | None]:
    """Return what was allocated, and what is in use; None for what is not said."""
    allocated, used = report["allocatedResources"], report["resources"]["requests"]
    return (
        allocated.amounts() if allocated.given else None,
        used.amounts() if used.given else None,
    )


def _is_infeasible(status: Field) -> bool:
    for condition in status["conditions"].elements():
        if condition["type"].text() == _PENDING:
            return condition["reason"].text() == _INFEASIBLE
    return False


def largest(each: Iterable[Amounts]) -> dict[str, int]:
    """Return the largest amount of each resource."""
    found: dict[str, int] = {}
    for amounts in each:
        for name, amount in amounts.items():
            found[name] = max(found.get(name, 0), amount)
    return found
