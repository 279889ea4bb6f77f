"""What the containers of a pod were given, from its status: a resize in place takes its time.

Theory of operation. The requests of a running pod can be changed. The kubelet then allocates what
is asked for, if the node has it, and changes the containers. Until that is done, the status says
what was allocated and what the containers have. The larger amounts count, so that nothing is
promised twice.

Rules:
  R1  a container whose status has ``resources`` counts the largest of what it asks for, what was
      allocated, and what it has. This is done for each resource by itself;
  R2  if the resize is infeasible, what is asked for does not count;
  R3  the same holds for the resources of the pod as a whole.

Source: ``PodRequests`` of k8s.io/component-helpers/resource in 1.36 (KEP-1287, KEP-5419).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias, final

from attrs import field, frozen

from gangsched.objects.fields import Field

__all__ = ["AS_ASKED", "Given", "read_given"]

_PENDING: Final = "PodResizePending"
_INFEASIBLE: Final = "Infeasible"

_Amounts: TypeAlias = Mapping[str, int]


@final
@frozen
class Given:
    """What a pod and its containers were given, in thousandths.

    Attributes:
        containers: By name of the container, what was allocated or is in use; only containers
            whose status has resources.
        pod: The same for the pod as a whole; None if its status has no resources.
        infeasible: Whether the node cannot give what is asked for.
    """

    containers: Mapping[str, _Amounts] = field(factory=dict[str, _Amounts])
    pod: _Amounts | None = None
    infeasible: bool = False

    def to_container(self, name: str, asked: dict[str, int]) -> dict[str, int]:
        """Return what counts for a container that asks for some amounts. O(resources)."""
        given = self.containers.get(name)
        return asked if given is None else self._counted(asked, given)

    def to_pod(self, asked: dict[str, int]) -> dict[str, int]:
        """Return what counts for a pod that asks for some amounts as a whole. O(resources)."""
        if self.pod is None:
            return asked
        counted = self._counted(asked, self.pod)
        return {name: counted.get(name, 0) for name in asked}

    def _counted(self, asked: _Amounts, given: _Amounts) -> dict[str, int]:
        return dict(given) if self.infeasible else _largest((asked, given))


AS_ASKED: Final = Given()
"""Of a pod without a status: what it asks for counts."""


def read_given(status: Field) -> Given:
    """Return what the status of a pod says that it was given. O(size of the status).

    Raises:
        ManifestError: The status is malformed.
    """
    reports = (
        *status["containerStatuses"].elements(),
        *status["initContainerStatuses"].elements(),
    )
    containers = {each["name"].text(): _given(each) for each in reports if each["resources"].given}
    whole = status["resources"].given
    if not containers and not whole:
        return AS_ASKED
    return Given(containers, _given(status) if whole else None, _is_infeasible(status))


def _given(report: Field) -> dict[str, int]:
    used, allocated = report["resources"]["requests"], report["allocatedResources"]
    return _largest((used.amounts(), allocated.amounts()))


def _is_infeasible(status: Field) -> bool:
    for condition in status["conditions"].elements():
        if condition["type"].text() == _PENDING:
            return condition["reason"].text() == _INFEASIBLE
    return False


def _largest(each: Iterable[_Amounts]) -> dict[str, int]:
    found: dict[str, int] = {}
    for amounts in each:
        for name, amount in amounts.items():
            found[name] = max(found.get(name, 0), amount)
    return found
