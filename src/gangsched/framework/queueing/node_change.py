"""NodeChange: what a change of some nodes means for classes of pods.

Many equivalence classes have the same class of pods, such as gangs of different sizes. Each class
of pods is asked once for a change, not once for each of these.

Rules:
  R1  it is used within one step, while no node changes;
  R2  ``has_room`` asks no plugin. Most changes of a node help none of the pods that wait, and
      there may be thousands of classes of these.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, final

from gangsched.errors import GangschedError
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.pod_class import PodClass
from gangsched.framework.runtime import filter_and_score
from gangsched.framework.state.settings import Settings
from gangsched.model import NodeName

__all__ = ["UNKNOWN", "NodeChange", "headroom"]

UNKNOWN: Final = -1
"""The room for a class of pods about which a plugin raised."""


@final
class NodeChange:
    """A change of some nodes.

    Args:
        settings: What the caller set.
        nodes: The nodes.
        names: The nodes that have changed.
        now: The current instant.
    """

    __slots__ = (
        "_has_room",
        "_is_judged",
        "_names",
        "_nodes",
        "_now",
        "_room",
        "_settings",
        "_takes",
    )

    def __init__(
        self, settings: Settings, nodes: Nodes, names: Collection[NodeName], now: float
    ) -> None:
        self._settings = settings
        self._nodes = nodes
        self._names = names
        self._now = now
        self._has_room: dict[PodClass, bool] = {}
        self._is_judged: dict[PodClass, bool] = {}
        self._takes: dict[PodClass, bool] = {}
        self._room: dict[PodClass, int] = {}

    def room(self, pod_class: PodClass) -> int:
        """Return the ``headroom`` for pods of a class; 0 if no changed node can take one.

        Runtime complexity: that of ``has_room``, ``is_judged`` and ``takes`` for the first question
        about a class; then O(1), which is asked for thousands of classes of gangs.
        """
        known = self._room.get(pod_class)
        if known is None:
            known = self._room[pod_class] = self._find_headroom(pod_class)
        return known

    def has_room(self, pod_class: PodClass) -> bool:
        """Return whether a changed node has free what a pod requests; no plugin is asked.

        Runtime complexity: O(changed nodes x resources) for the first question about a class.
        """
        known = self._has_room.get(pod_class)
        if known is None:
            known = self._has_room[pod_class] = self._find_room(pod_class)
        return known

    def is_judged(self, pod_class: PodClass) -> bool:
        """Judge the nodes for a class of pods; return False if a plugin raised."""
        known = self._is_judged.get(pod_class)
        if known is None:
            found = headroom(self._settings, self._nodes, pod_class, self._now)
            known = self._is_judged[pod_class] = found != UNKNOWN
        return known

    def takes(self, pod_class: PodClass) -> bool:
        """Return whether a changed node can take a pod of a class that was judged."""
        known = self._takes.get(pod_class)
        if known is None:
            class_of = self._nodes.class_of
            known = any(pod_class.takes(class_of(name)) for name in self._names)
            self._takes[pod_class] = known
        return known

    def _find_headroom(self, pod_class: PodClass) -> int:
        if not self.has_room(pod_class):
            return 0
        if not self.is_judged(pod_class):
            return UNKNOWN
        return pod_class.headroom if self.takes(pod_class) else 0

    def _find_room(self, pod_class: PodClass) -> bool:
        asked = pod_class.fitted or ()
        for name in self._names:
            info = self._nodes.infos.get(name)
            if info is None:
                continue
            free = info.free
            for resource, amount in asked:
                if amount > free.get(resource, 0):
                    break
            else:
                return True
        return False


def headroom(settings: Settings, nodes: Nodes, pod_class: PodClass, now: float) -> int:
    """Return an upper bound on the pods of a class that fit; ``UNKNOWN`` if a plugin raised."""
    try:
        return filter_and_score.judged(settings, nodes, pod_class, now).headroom
    except GangschedError:
        return UNKNOWN
