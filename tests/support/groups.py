"""Pods that claim a group, and claims."""

from __future__ import annotations

from typing import Any

from gangsched.membership import Membership, membership
from gangsched.model import GroupKey, Pod

__all__ = ["claim_of", "grouped", "key"]


def grouped(name: str, group: str = "g", minimum: int | None = None, **fields: Any) -> Pod:
    """Return a pod that claims *group*, with a minimum if one is given."""
    labels = {"pod-group/name": group}
    if minimum is not None:
        labels["pod-group/min-available"] = str(minimum)
    return Pod(name=name, namespace="ns", labels=labels, **fields)


def claim_of(pod: Pod) -> Membership:
    """Return the claim of a pod."""
    claim = membership(pod)
    assert claim is not None
    return claim


def key(name: str) -> GroupKey:
    """Return the key of the group *name* of the namespace in which ``grouped`` pods are."""
    return GroupKey(f"ns/{name}")
