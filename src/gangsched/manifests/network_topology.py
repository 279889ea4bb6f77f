"""``networkTopology`` of Volcano, and the gather strategy of Koordinator, as topologies.

Both name levels by words of their own: tiers of HyperNodes, and layers. ``Manifest.level_names``
has the label of each, if the levels of the scheduler are those of this peer.

Rules:
  R1  Volcano tries the tiers from the finest up to the highest that is allowed. So the finest is
      preferred within that one. A tier above all that there are allows any nodes;
  R2  a soft topology is one domain of the finest tier, if possible. Without levels it is nothing;
  R3  Koordinator gathers in one domain of the layer that must, and tries those that it prefers. Of
      several, the finest is read of either kind, since the others follow;
  R4  what has no meaning here holds the pods of the group, with the reason.

Source: ``IsHardTopologyMode`` and the gradients of HyperNodes in Volcano 1.15;
apis/extension/network_topology.go of Koordinator.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from attrs import frozen

from gangsched.manifests.fields import Field
from gangsched.manifests.manifest import Manifest
from gangsched.manifests.pod_fields import Schema, unknown
from gangsched.model import Topology

__all__ = ["GATHERED", "NetworkTopology", "read_gathered", "read_network_topology"]

GATHERED: Final = "gang.scheduling.koordinator.sh/network-topology-spec"

_SCHEMA: Final[Schema] = dict.fromkeys(("mode", "highestTierAllowed", "highestTierName"))
_TIERS: Final = "its tiers are known with levels: {from: volcano} only"
_LAYERS: Final = "its layers are known with levels: {from: koordinator} only"
_STRATEGIES: Final = ("MustGather", "PreferGather")


@frozen
class NetworkTopology:
    """A topology; or why it has no meaning here, and which field says it."""

    topology: Topology | None = None
    unclear: tuple[Field, str] | None = None


def read_network_topology(manifest: Manifest, field: Field) -> NetworkTopology:
    """Return what a network topology of Volcano says.

    Raises:
        ManifestError: A field is malformed.
    """
    if not field.given:
        return NetworkTopology()
    is_soft = field["mode"].word(("hard", "soft"), "hard") == "soft"
    for more in unknown(field, _SCHEMA):
        return NetworkTopology(unclear=(more, ""))
    allowed, called = field["highestTierAllowed"], field["highestTierName"].text()
    tier = str(allowed.whole(0, least=0)) if allowed.given else called
    if allowed.given and called:
        raise field["highestTierName"].problem("expected it without highestTierAllowed")
    tiers = _tiers(manifest)
    if not tiers:
        return NetworkTopology(unclear=None if is_soft else (field, _TIERS))
    finest = tiers[min(tiers)]
    if is_soft:
        return NetworkTopology(Topology(finest, required=False))
    if not tier:
        return NetworkTopology(unclear=(field, "hard, without a highest tier"))
    if called:
        if called not in manifest.level_names:
            return NetworkTopology(unclear=(field["highestTierName"], "no HyperNode has this tier"))
        label = manifest.level_names[called]
    elif int(tier) > max(tiers):
        return NetworkTopology(Topology(finest, required=False))
    else:
        known = [number for number in tiers if number <= int(tier)]
        if not known:
            return NetworkTopology(unclear=(allowed, "no HyperNode has so low a tier"))
        label = tiers[max(known)]
    return NetworkTopology(Topology(label, prefer=None if label == finest else finest))


def _tiers(manifest: Manifest) -> dict[int, str]:
    names = manifest.level_names
    return {int(name): label for name, label in names.items() if name.isascii() and name.isdigit()}


def read_gathered(manifest: Manifest) -> NetworkTopology:
    """Return what the annotation of Koordinator on a group says.

    Raises:
        ManifestError: It is malformed.
    """
    field = manifest.document["metadata"]["annotations"][GATHERED]
    if not field.text():
        return NetworkTopology()
    must: list[str] = []
    prefers: list[str] = []
    for rule in _rules(field):
        layer, strategy = rule.get("layer"), rule.get("strategy")
        if not isinstance(layer, str) or strategy not in _STRATEGIES:
            raise field.refuse("rules with a layer, and the strategy MustGather or PreferGather")
        if rule.keys() - {"layer", "strategy"}:
            return NetworkTopology(unclear=(field, "rules with more than a layer and a strategy"))
        (must if strategy == "MustGather" else prefers).append(layer)
    order = list(manifest.level_names)
    for layer in (*must, *prefers):
        if layer not in order:
            is_soft = not must and not order
            return NetworkTopology(unclear=None if is_soft else (field, _LAYERS))
    label = _finest(manifest, must)
    preferred = _finest(manifest, prefers)
    if label is None:
        soft = None if preferred is None else Topology(preferred, required=False)
        return NetworkTopology(soft)
    return NetworkTopology(Topology(label, prefer=None if preferred == label else preferred))


def _rules(field: Field) -> list[Mapping[str, Any]]:
    expected = 'JSON such as {"gatherStrategy": [{"layer": "Rack", "strategy": "MustGather"}]}'
    try:
        found: object = json.loads(field.text())
    except (ValueError, RecursionError) as error:
        raise field.refuse(expected) from error
    rules: object = (
        cast("dict[str, Any]", found).get("gatherStrategy") if isinstance(found, dict) else 0
    )
    if not isinstance(rules, list):
        raise field.refuse(expected)
    rules = cast("list[object]", rules)
    if not all(isinstance(rule, dict) for rule in rules):
        raise field.refuse(expected)
    return cast("list[Mapping[str, Any]]", rules)


def _finest(manifest: Manifest, layers: list[str]) -> str | None:
    order = list(manifest.level_names.values())
    labels = [manifest.level_names[layer] for layer in layers]
    return max(labels, key=order.index, default=None)
