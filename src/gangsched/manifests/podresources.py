"""What a pod requests in total, as kube-scheduler computes it.

Rules:
  R1  if a container has a limit and no request for a resource, it requests its limit;
  R2  containers and sidecars (init containers that are restarted) run at the same time, so their
      requests are added. An init container runs beside the sidecars that precede it. The pod
      requests the larger of the two per resource, and its overhead in addition;
  R3  a request of the pod as a whole for cpu, memory or huge pages replaces that sum;
  R4  where kube-scheduler scores a node, a container without a request for cpu counts as 100m, and
      one without a request for memory as 200Mi. A request of 0 is a request;
  R5  of a pod that is resized in place, the largest of what it asks for and was given counts: see
      ``resized``;
  R6  a pod has a limit for a resource only if each of its containers has one: a container without
      may use any amount. So the QoS class that follows is that of Kubernetes.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from gangsched.manifests.fields import Field
from gangsched.manifests.resized import AS_ASKED, Amounts, Given, largest
from gangsched.quantity import MILLI, format_quantity
from gangsched.resources import Resources

__all__ = ["pod_limits", "pod_requests"]

_RESTARTS: Final = ("Always", "OnFailure", "Never")
_DEFAULTS: Final[Mapping[str, int]] = {"cpu": 100, "memory": 200 * 1024 * 1024 * MILLI}
"""What a container without a request counts for in scores: 100m and 200Mi, in thousandths."""


class _Kind(enum.Enum):
    CONTAINER = enum.auto()
    SIDECAR = enum.auto()
    INIT = enum.auto()


_Containers: TypeAlias = Sequence[tuple[_Kind, Amounts]]


def pod_requests(spec: Field, given: Given = AS_ASKED, *, lenient: bool = False) -> Resources:
    """Return what the pod with this specification requests.

    Args:
        spec: The specification.
        given: What the status of the pod says that it was given.
        lenient: Whether only requests are read: no limits, and an unknown restart policy of an init
            container is none.

    Raises:
        ManifestError: A quantity is malformed, or a request is larger than its limit.
    """
    containers = _containers(spec, _asked if lenient else _requests, lenient=lenient)
    names = () if given == AS_ASKED else [each["name"].text() for each in _each_container(spec)]
    kinds, asked = [kind for kind, _each in containers], [each for _kind, each in containers]

    def added(amounts: Sequence[Amounts]) -> dict[str, int]:
        return _combined(list(zip(kinds, amounts, strict=True)))

    def added_for_scores(amounts: Sequence[Amounts]) -> dict[str, int]:
        return added([{**_DEFAULTS, **each} for each in amounts])

    total = largest(given.sums(names, asked, added))
    defaulted = _defaulted(largest(given.sums(names, asked, added_for_scores)), total)
    for name, amount in given.to_pod(_whole(spec["resources"], total, lenient)).items():
        if _of_whole_pod(name):
            total[name] = amount
            defaulted.pop(name, None)
    for name, field in spec["overhead"].entries():
        total[name] = total.get(name, 0) + field.quantity(name)
    found = Resources.from_milli(total)
    return found.with_defaulted(defaulted) if defaulted else found


def pod_limits(spec: Field) -> Resources:
    """Return the most that the pod with this specification may use.

    Raises:
        ManifestError: A quantity is malformed.
    """
    limited: set[str] | None = None
    for container in _each_container(spec):
        names = set(_limits(container))
        limited = names if limited is None else limited & names
    combined = _combined(_containers(spec, _limits))
    total = {n: amount for n, amount in combined.items() if n in (limited or ())}
    for name, field in spec["resources"]["limits"].entries():
        if _of_whole_pod(name):
            total[name] = field.quantity(name)
    for name, field in spec["overhead"].entries():
        if name in total:
            total[name] += field.quantity(name)
    return Resources.from_milli(total)


def _whole(resources: Field, total: Mapping[str, int], lenient: bool) -> dict[str, int]:
    """Return what a pod asks for as a whole, given what its containers ask for in total."""
    asked: dict[str, int] = {}
    for name, field in () if lenient else resources["limits"].entries():
        if _of_whole_pod(name):
            asked[name] = total.get(name, field.quantity(name))
    for name, field in resources["requests"].entries():
        if _of_whole_pod(name):
            asked[name] = field.quantity(name)
    return asked


def _each_container(spec: Field) -> Iterator[Field]:
    yield from spec["containers"].elements()
    yield from spec["initContainers"].elements()


def _containers(
    spec: Field, amounts: Callable[[Field], dict[str, int]], *, lenient: bool = False
) -> _Containers:
    """Return the amounts of each container, in order, with the kind of the container."""
    kind = _Kind.CONTAINER
    found = [(kind, amounts(each)) for each in spec["containers"].elements()]
    for each in spec["initContainers"].elements():
        policy = each["restartPolicy"]
        restarts = (policy.value if lenient else policy.word(_RESTARTS, "")) == "Always"
        kind = _Kind.SIDECAR if restarts else _Kind.INIT
        found.append((kind, amounts(each)))
    return found


def _defaulted(counted: Amounts, total: Mapping[str, int]) -> dict[str, int]:
    """Return what the containers count for in scores beyond the total of their requests."""
    beyond = {name: counted.get(name, 0) - total.get(name, 0) for name in _DEFAULTS}
    return beyond if any(beyond.values()) else {}


def _combined(containers: _Containers) -> dict[str, int]:
    total: dict[str, int] = {}
    # A pod holds all of its sidecars while its containers run, so only what an init container
    # itself asks for can exceed that sum. Copying the sidecars' sum for each init container
    # instead took quadratic time.
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for kind, asked in containers:
        if kind is not _Kind.INIT:
            _add(total, asked)
            if kind is _Kind.SIDECAR:
                _add(sidecars, asked)
        else:
            for name, amount in asked.items():
                peak[name] = max(peak.get(name, 0), sidecars.get(name, 0) + amount)
    for name, amount in peak.items():
        total[name] = max(total.get(name, 0), amount)
    return total


def _add(total: dict[str, int], amounts: Amounts) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount


def _limits(container: Field) -> dict[str, int]:
    return container["resources"]["limits"].amounts()


def _asked(container: Field) -> dict[str, int]:
    return container["resources"]["requests"].amounts()


def _requests(container: Field) -> dict[str, int]:
    limits = _limits(container)
    asked = dict(limits)
    for name, field in container["resources"]["requests"].entries():
        amount = field.quantity(name)
        if amount > limits.get(name, amount):
            limit = format_quantity(limits[name])
            raise field.refuse(f"a quantity <= its limit, {limit}")
        asked[name] = amount
    return asked


def _of_whole_pod(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith("hugepages-")
