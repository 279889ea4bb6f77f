"""Bind a pod with the plain ``Bind`` effect."""

from __future__ import annotations

from typing import final

from attrs import frozen

from gangsched.events import Bind
from gangsched.model import NodeName, Pod

__all__ = ["DefaultBinder"]


@final
@frozen
class DefaultBinder:
    """Bind every pod; the driver performs the effect."""

    @property
    def name(self) -> str:
        """``DefaultBinder``."""
        return "DefaultBinder"

    def bind(self, pod: Pod, node: NodeName, attempt: int, *, now: float) -> Bind:
        """Return the effect that binds *pod* to *node*."""
        return Bind(pod.uid, node, attempt)
