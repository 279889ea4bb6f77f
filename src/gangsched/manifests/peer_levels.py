"""Levels that are stated by objects of another project, which may run beside this scheduler.

Rules:
  R1  several objects are several topologies. One whose labels another one has in the same order
      says nothing more, and is left out;
  R2  a label that is in two places is malformed here, though Kueue allows it: a domain is the path
      of its levels, so a rack would have two;
  R3  what a peer calls a level otherwise, such as a tier, has a name. Groups are read with them.

Source: ``Topology`` of Kueue v1beta2 and of KAI Scheduler v1alpha1, ``HyperNode`` of Volcano
v1alpha1, ``ClusterNetworkTopology`` of Koordinator v1alpha1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, final

from attrs import frozen

from gangsched.errors import InvalidValueError
from gangsched.manifests.fields import Field
from gangsched.manifests.hyper_nodes import HyperNodes, read_hyper_nodes
from gangsched.model import Node
from gangsched.options.levels import NO_LEVELS, Levels, as_levels

__all__ = ["PEERS", "PeerApi", "PeerLevels", "read_peer_levels"]

_HOST: Final = "kubernetes.io/hostname"


@final
@frozen
class PeerApi:
    """Where a peer states its levels."""

    group: str
    kind: str
    plural: str


PEERS: Final[Mapping[str, PeerApi]] = {
    "kueue": PeerApi("kueue.x-k8s.io", "Topology", "topologies"),
    "kai": PeerApi("kai.scheduler", "Topology", "topologies"),
    "volcano": PeerApi("topology.volcano.sh", "HyperNode", "hypernodes"),
    "koordinator": PeerApi(
        "scheduling.koordinator.sh", "ClusterNetworkTopology", "clusternetworktopologies"
    ),
}
"""The peers whose levels are read, by the word of the configuration."""


@final
@frozen
class PeerLevels:
    """The levels of a peer.

    Attributes:
        peer: A key of ``PEERS``; empty for none.
        levels: The levels.
        names: What the peer calls levels otherwise, each with its label; the coarsest first.
        hyper_nodes: What gives nodes the labels of these levels; None if they have them.
    """

    peer: str = ""
    levels: Levels = NO_LEVELS
    names: tuple[tuple[str, str], ...] = ()
    hyper_nodes: HyperNodes | None = None

    def labelled(self, node: Node) -> Node:
        """Return a node with the labels of the levels. O(HyperNodes)."""
        return node if self.hyper_nodes is None else self.hyper_nodes.labelled(node)


def read_peer_levels(peer: str, objects: Iterable[Field]) -> PeerLevels:
    """Return the levels that objects of a peer state.

    Args:
        peer: A key of ``PEERS``.
        objects: The documents of its kind.

    Raises:
        ManifestError: A field is malformed, or a label is in two places.
    """
    found = list(objects)
    if peer == "volcano":
        nodes = read_hyper_nodes(found)
        levels = ((*nodes.levels, _HOST),) if nodes.levels else ()
        return PeerLevels(peer, Levels(levels), nodes.names, nodes)
    if peer == "koordinator":
        return PeerLevels(peer, *_layers(found))
    topologies = [(each, _node_labels(each["spec"]["levels"])) for each in found]
    return PeerLevels(peer, _as_levels(topologies))


def _node_labels(levels: Field) -> tuple[str, ...]:
    labels = tuple(each["nodeLabel"].name() for each in levels.elements())
    if not labels:
        raise levels.refuse("at least one level")
    return labels


def _as_levels(topologies: list[tuple[Field, tuple[str, ...]]]) -> Levels:
    kept: list[tuple[str, ...]] = []
    for document, labels in sorted(topologies, key=lambda one: (-len(one[1]), one[1])):
        if any(_has_in_order(other, labels) for other in kept):
            continue
        kept.append(labels)
        try:
            as_levels(kept)
        except InvalidValueError as error:
            name = document["metadata"]["name"].text()
            raise document["spec"]["levels"].problem(
                f"expected {error.expected}, among all topologies that are read ({name} is one of"
                f" {len(topologies)}); name the levels in the configuration instead"
            ) from error
    return as_levels(kept)


def _has_in_order(labels: tuple[str, ...], some: tuple[str, ...]) -> bool:
    rest = iter(labels)
    return all(label in rest for label in some)


def _layers(objects: list[Field]) -> tuple[Levels, tuple[tuple[str, str], ...]]:
    """Return the layers of Koordinator, each below that which it names, and their names."""
    names: list[tuple[str, str]] = []
    chains: list[tuple[Field, tuple[str, ...]]] = []
    for document in objects:
        below: dict[str, tuple[str, Field]] = {}
        labels: dict[str, str] = {}
        for layer in document["spec"]["networkTopologySpec"].elements():
            name, above = layer["topologyLayer"].name(), layer["parentTopologyLayer"].text()
            keys = [key.name() for key in layer["labelKey"].elements()] or [_HOST]
            if len(keys) > 1:
                raise layer["labelKey"].refuse("one label")
            if above in below:
                raise layer["parentTopologyLayer"].refuse("a layer with one layer below it")
            below[above], labels[name] = (name, layer), keys[0]
        chain: list[str] = []
        above = ""
        while above in below and len(chain) <= len(below):
            above = below[above][0]
            chain.append(labels[above])
        if len(chain) != len(labels):
            raise document["spec"]["networkTopologySpec"].problem("expected one chain of layers")
        names += sorted(labels.items(), key=lambda one: chain.index(one[1]))
        chains.append((document, tuple(chain)))
    return _as_levels([each for each in chains if each[1]]), tuple(names)
