"""What a pod reserves on its node in all, as kube-scheduler adds it up.

Rules:
  R1  a container that has a limit and no request for a resource requests its limit;
  R2  a pod reserves, per resource, what its containers and its sidecars (init containers that
      are restarted) request together, or what one init container requests on top of the
      sidecars before it, if that is more; and its overhead;
  R3  what the pod as a whole requests of cpu, memory or huge pages replaces that sum;
  R4  a pod has a limit only for what each of its containers has a limit for: one without may
      take any amount. So the QoS class that follows is the one that Kubernetes gives.
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
    """Return what the pod of this specification reserves.

    Raises:
        ManifestError: A quantity is malformed, or a request is more than its limit.
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
    """Return what the pod of this specification may use at most.

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
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec["initContainers"].elements():
        asked = amounts(container)
        if container["restartPolicy"].word(_RESTARTS, "") == "Always":
            _add(total, asked)
            _add(sidecars, asked)
            at_once = sidecars
        else:
            at_once = dict(sidecars)
            _add(at_once, asked)
        _raise(peak, at_once)
    _raise(total, peak)
    return total


def _add(total: dict[str, int], amounts: dict[str, int]) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount


def _raise(total: dict[str, int], amounts: dict[str, int]) -> None:
    for name, amount in amounts.items():
        total[name] = max(total.get(name, 0), amount)


def _limits(container: Field) -> dict[str, int]:
    return container["resources"]["limits"].amounts()


def _requests(container: Field) -> dict[str, int]:
    limits = _limits(container)
    asked = dict(limits)
    for name, field in container["resources"]["requests"].entries():
        amount = field.quantity(name)
        if amount > limits.get(name, amount):
            limit = format_quantity(limits[name])
            raise field.refuse(f"a quantity of at most its limit, {limit}")
        asked[name] = amount
    return asked


def _of_whole_pod(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith("hugepages-")
