"""A clock for tests, short builders of pods, nodes and groups, and ``assert_effects``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import final

from attrs import evolve

from gangsched.model import Node, NodeName, Pod, PodGroup, PodUID, Resources

__all__ = ["FakeClock", "assert_effects", "make_group", "make_node", "make_pod"]

_GPU = "nvidia.com/gpu"


@final
class FakeClock:
    """A clock that only ``advance`` moves; calling it returns the current instant."""

    def __init__(self, now: float = 0.0) -> None:
        self.now: float = now

    def __call__(self) -> float:
        """Return the current instant."""
        return self.now

    def advance(self, seconds: float) -> float:
        """Move the clock forward, and return the new instant."""
        assert seconds >= 0, f"seconds must be >= 0, got {seconds}"
        self.now += seconds
        return self.now


def make_pod(
    name: str,
    *,
    group: str | None = None,
    min_available: int | None = None,
    role: str | None = None,
    cpu: str | int = 0,
    gpu: int = 0,
    requests: Mapping[str, str | int] | None = None,
    priority: int = 0,
    created_at: float = 0.0,
    uid: str | None = None,
) -> Pod:
    """Return a pod: ``make_pod("w-0", group="g", min_available=4, gpu=2)``."""
    labels: dict[str, str] = {}
    if group is not None:
        labels["pod-group.scheduling.sigs.k8s.io/name"] = group
    if min_available is not None:
        labels["pod-group.scheduling.sigs.k8s.io/min-available"] = str(min_available)
    if role is not None:
        labels["pod-group.scheduling.sigs.k8s.io/role"] = role
    asked = {"cpu": cpu, _GPU: gpu, **(requests or {})}
    pod = Pod(
        name=name,
        labels=labels,
        requests=Resources(asked),
        priority=priority,
        created_at=created_at,
    )
    return pod if uid is None else evolve(pod, uid=PodUID(uid))


def make_node(
    name: str,
    *,
    cpu: str | int = 0,
    gpu: int = 0,
    allocatable: Mapping[str, str | int] | None = None,
    labels: Mapping[str, str] | None = None,
) -> Node:
    """Return a node: ``make_node("n-0", cpu=8, gpu=4)``."""
    offered = Resources({"cpu": cpu, _GPU: gpu, **(allocatable or {})})
    return Node(name=NodeName(name), allocatable=offered, labels=dict(labels or {}))


def make_group(
    name: str, min_available: int | None = None, *, roles: Mapping[str, int] | None = None
) -> PodGroup:
    """Return a pod group: ``make_group("g", 4)``.

    Raises:
        InvalidPodGroupError: Neither a minimum nor a role is given.
    """
    if min_available is None:
        return PodGroup(name=name, roles=dict(roles or {}))
    return PodGroup(name=name, roles=dict(roles or {}), min_available=min_available)


def assert_effects(found: Iterable[object], *expected: object, exact: bool = True) -> None:
    """Assert that a call returned the expected effects, in order.

    Args:
        found: The effects that the call returned.
        expected: For each effect, an equal value or its class.
        exact: Whether other effects are an error. If False, others may stand between.

    Raises:
        AssertionError: The effects differ; the message shows them all, and the first that is
            missing.
    """
    effects = list(found)
    shown = "\n  ".join(map(repr, effects)) or "nothing"
    at = 0
    for number, wanted in enumerate(expected, 1):
        while not exact and at < len(effects) and not _is(effects[at], wanted):
            at += 1
        name = f"a {wanted.__name__}" if isinstance(wanted, type) else repr(wanted)
        assert at < len(effects), f"expected {name} as effect {number}, found no more:\n  {shown}"
        message = f"expected {name} as effect {number}, found {effects[at]!r}:\n  {shown}"
        assert _is(effects[at], wanted), message
        at += 1
    more = effects[at : at + 1] if exact else []
    assert not more, f"expected {at} effects, then found {more[0]!r}:\n  {shown}"


def _is(effect: object, wanted: object) -> bool:
    return isinstance(effect, wanted) if isinstance(wanted, type) else effect == wanted
