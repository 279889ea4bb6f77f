"""What a pod requests in total, as kube-scheduler computes it.

Rules:
  R1  if a container has a limit and no request for a resource, it requests its limit;
  R2  containers and sidecars (init containers that are restarted) run at the same time, so their
      requests are added. An init container runs beside the sidecars that precede it. The pod
      requests the larger of the two per resource, and its overhead in addition;
  R3  a request of the pod as a whole for cpu, memory or huge pages replaces that sum;
  R4  a pod has a limit for a resource only if each of its containers has one: a container without
      may use any amount. So the QoS class that follows is that of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gangsched.objects.fields import Field
from gangsched.quantity import format_quantity
from gangsched.resources import Resources

__all__ = ["pod_limits", "pod_requests"]

_RESTARTS: Final = ("Always", "OnFailure", "Never")


def pod_requests(spec: Field) -> Resources:
    """Return what the pod with this specification requests.

    Raises:
        ManifestError: A quantity is malformed, or a request is larger than its limit.
    """
    total = _combined(spec, _requests)
    whole = spec["resources"]
    for name, field in whole["limits"].entries():
        if _of_whole_pod(name):
            total.setdefault(name, field.quantity(name))
    for name, field in whole["requests"].entries():
        if _of_whole_pod(name):
            total[name] = field.quantity(name)
    for name, field in spec["overhead"].entries():
        total[name] = total.get(name, 0) + field.quantity(name)
    return Resources.from_milli(total)


def pod_limits(spec: Field) -> Resources:
    """Return the most that the pod with this specification may use.

    Raises:
        ManifestError: A quantity is malformed.
    """
    limited: set[str] | None = None
    for container in (*spec["containers"].elements(), *spec["initContainers"].elements()):
        names = set(_limits(container))
        limited = names if limited is None else limited & names
    total = {n: amount for n, amount in _combined(spec, _limits).items() if n in (limited or ())}
    for name, field in spec["resources"]["limits"].entries():
        if _of_whole_pod(name):
            total[name] = field.quantity(name)
    for name, field in spec["overhead"].entries():
        if name in total:
            total[name] += field.quantity(name)
    return Resources.from_milli(total)


def _combined(spec: Field, amounts: Callable[[Field], dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for container in spec["containers"].elements():
        _add(total, amounts(container))
    # A pod holds all of its sidecars while its containers run, so only what an init container
    # itself asks for can exceed that sum. Copying the sidecars' sum for each init container
    # instead took quadratic time.
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec["initContainers"].elements():
        asked = amounts(container)
        if container["restartPolicy"].word(_RESTARTS, "") == "Always":
            _add(total, asked)
            _add(sidecars, asked)
        else:
            for name, amount in asked.items():
                peak[name] = max(peak.get(name, 0), sidecars.get(name, 0) + amount)
    for name, amount in peak.items():
        total[name] = max(total.get(name, 0), amount)
    return total


def _add(total: dict[str, int], amounts: dict[str, int]) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount


def _limits(container: Field) -> dict[str, int]:
    return container["resources"]["limits"].amounts()


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
