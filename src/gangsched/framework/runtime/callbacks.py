"""The questions that the node table and the queue of one state ask its plugins.

Rules:
  R1  each state asks the plugins of its own profile;
  R2  an error of a plugin is put off until the end of the call.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import final

from gangsched.constraints.matchers import CarriedTerm
from gangsched.framework.runtime import extension_points, signatures
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.pod_classes import PodClasses
from gangsched.framework.state.settings import Settings
from gangsched.model import Pod
from gangsched.protocols import EntityView, NodeView, QueueSortKey

__all__ = ["Callbacks"]


@final
class Callbacks:
    """What a node table and a queue are given to ask the plugins with.

    A class and not two closures, because a fork copies objects with their attributes and shares
    functions; see ``gangsched._copying``.
    """

    __slots__ = ("_call", "_pod_classes", "_settings")

    def __init__(self, settings: Settings, pod_classes: PodClasses, call: CurrentCall) -> None:
        self._settings = settings
        self._pod_classes = pod_classes
        self._call = call

    def sign(self, view: NodeView) -> tuple[Hashable, ...] | None:
        """Return the signature of a node; see ``signatures.node_signature``."""
        return signatures.node_signature(self._settings, self._pod_classes, self._call, view)

    def sign_after(
        self, view: NodeView, before: tuple[Hashable, ...]
    ) -> tuple[Hashable, ...] | None:
        """Return the signature of a node after a pod; see ``signatures.node_signature_after``."""
        return signatures.node_signature_after(
            self._settings, self._pod_classes, self._call, view, before
        )

    def carried(self, pod: Pod) -> tuple[CarriedTerm, ...]:
        """Return the terms that a pod carries to its node; see ``signatures.carried``."""
        return signatures.carried(self._settings.profile, pod)

    def sort_key(self, entity: EntityView) -> QueueSortKey:
        """Return the sort key of an entity; see ``extension_points.queue_sort``."""
        return extension_points.queue_sort(self._settings, self._call, entity)
