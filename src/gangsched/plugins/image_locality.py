"""Prefer nodes that have the container images of a pod.

Source: ``ImageLocality`` of kube-scheduler 1.36.
"""

from __future__ import annotations

from typing import Final, final

from attrs import frozen

from gangsched.model import Pod
from gangsched.plugins._scores import BEST
from gangsched.protocols import CycleView, NodeView, StateKey

__all__ = ["ImageLocality"]

_MIB: Final = 1024 * 1024
_LEAST: Final = 23 * _MIB
_MOST: Final = 1000 * _MIB
"""The sizes in bytes below and above which, for one container, more makes no difference."""
_SPREAD: Final[StateKey[dict[str, int]]] = StateKey("ImageLocality.spread", derived=True)


@final
@frozen
class ImageLocality:
    """Score nodes by the size of the images that they have, of those that the pod needs.

    The size of an image counts in proportion to the nodes that have it, so that a rare image does
    not draw all pods to one node. The score depends on all nodes, so the plugin gives no signature
    of a pod that holds longer than a cycle.
    """

    @property
    def name(self) -> str:
        """``ImageLocality``."""
        return "ImageLocality"

    def scores_in_cycle(self, state: CycleView, pod: Pod) -> bool:
        """Return whether a node has an image of the pod. O(images on nodes), once in a cycle."""
        needed = {_tagged(given) for given in (*pod.images, *pod.image_volumes)}
        return bool(needed) and not needed.isdisjoint(_spread_in(state))

    @property
    def signs_node_alone(self) -> bool:
        """True: images are part of the node."""
        return True

    def node_signature(self, node: NodeView) -> tuple[object, ...]:
        """Return the images of the node."""
        return node.node.images

    def score(self, state: CycleView, pod: Pod, node: NodeView) -> int:
        """Return 0 for at most 23 MiB of images, 100 for 1000 MiB for each container."""
        if not pod.images and not pod.image_volumes:
            return 0
        spread = _spread_in(state)
        count = max(len(state.nodes), 1)
        sizes = {name: image.size_bytes for image in node.node.images for name in image.names}
        total = 0
        for given in (*pod.images, *pod.image_volumes):
            image = _tagged(given)
            if image in sizes:
                total += int(float(sizes[image]) * (spread.get(image, 0) / count))
        most = _MOST * len(pod.images)
        if most <= _LEAST:
            return 0
        total = min(max(total, _LEAST), most)
        return BEST * (total - _LEAST) // (most - _LEAST)


def _spread_in(state: CycleView) -> dict[str, int]:
    """Return how many nodes have each image. O(images on nodes), once in a cycle."""
    known = state.read(_SPREAD)
    if known is not None:
        return known
    spread: dict[str, int] = {}
    for view in state.nodes.values():
        for name in {name for image in view.node.images for name in image.names}:
            spread[name] = spread.get(name, 0) + 1
    state.write(_SPREAD, spread)
    return spread


def _tagged(image: str) -> str:
    """Return the name of an image with its tag, ``latest`` if it has none."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
