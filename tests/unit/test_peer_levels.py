"""Levels that objects of other projects state: Kueue, KAI Scheduler, Volcano and Koordinator."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from gangsched import Node, PodGroup, PodGroupAdded, Role, Topology
from gangsched.cli import main
from gangsched.configuration import make_scheduler, read_settings
from gangsched.configuration.settings import PEERS_WITH_LEVELS
from gangsched.errors import InvalidValueError, ManifestError
from gangsched.manifests import Field, Source
from gangsched.manifests.peer_levels import PEERS, PeerLevels, read_peer_levels
from gangsched.memory import InMemoryCluster
from gangsched.simulation.manifests import ParsedManifests, PriorityClasses
from support.root import ROOT

BLOCK, RACK, HOST = "example/block", "example/rack", "kubernetes.io/hostname"


def topology(name: str, *labels: str, api: str = "kueue.x-k8s.io/v1beta2") -> dict[str, Any]:
    levels = [{"nodeLabel": label} for label in labels]
    return {
        "apiVersion": api,
        "kind": "Topology",
        "metadata": {"name": name},
        "spec": {"levels": levels},
    }


def hyper_node(name: str, tier: int, *members: dict[str, Any], called: str = "") -> dict[str, Any]:
    spec: dict[str, Any] = {"tier": tier, "members": list(members)}
    if called:
        spec["tierName"] = called
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": spec,
    }


def member(kind: str = "Node", **selector: Any) -> dict[str, Any]:
    return {"type": kind, "selector": selector}


def named(name: str, kind: str = "Node") -> dict[str, Any]:
    return member(kind, exactMatch={"name": name})


TREE: Final = (
    hyper_node("s0", 1, named("node-0"), named("node-1"), called="rack"),
    hyper_node("s1", 1, member(regexMatch={"pattern": "^node-[23]$"}), called="rack"),
    hyper_node("s2", 1, member(labelMatch={"matchLabels": {"row": "c"}}), called="rack"),
    hyper_node("s3", 3, named("s0", "HyperNode"), named("s1", "HyperNode"), called="spine"),
)
"""Racks s0, s1 and s2, of which the first two are below the spine s3."""

LAYERS: Final = {
    "apiVersion": "scheduling.koordinator.sh/v1alpha1",
    "kind": "ClusterNetworkTopology",
    "metadata": {"name": "default"},
    "spec": {
        "networkTopologySpec": [
            {"parentTopologyLayer": "BlockLayer", "topologyLayer": "NodeTopologyLayer"},
            {
                "labelKey": [RACK],
                "parentTopologyLayer": "SpineLayer",
                "topologyLayer": "BlockLayer",
            },
            {"labelKey": [BLOCK], "topologyLayer": "SpineLayer"},
        ]
    },
}


def read(peer: str, *objects: dict[str, Any]) -> PeerLevels:
    return read_peer_levels(peer, [Field(Source("f", n), "", o) for n, o in enumerate(objects, 1)])


# Levels -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("peer", ["kueue", "kai"])
@pytest.mark.parametrize(
    ("given", "levels"),
    [
        ([], ()),
        ([(BLOCK, RACK, HOST)], ((BLOCK, RACK, HOST),)),
        ([(HOST,), (BLOCK, RACK, HOST), (BLOCK, HOST)], ((BLOCK, RACK, HOST),)),
        ([(BLOCK, RACK), ("zone",)], ((BLOCK, RACK), ("zone",))),
    ],
)
def test_topologies_are_levels_and_what_another_one_has_in_order_is_left_out(
    peer: str, given: list[tuple[str, ...]], levels: tuple[tuple[str, ...], ...]
) -> None:
    found = read(peer, *(topology(f"t{n}", *labels) for n, labels in enumerate(given)))
    assert found.levels.topologies == levels
    assert (found.peer, found.names) == (peer, ())


def test_tiers_are_levels_and_each_node_has_the_label_of_each_tier_that_it_is_in() -> None:
    found = read("volcano", *TREE)
    assert found.levels.topologies == (("volcano.sh/tier-3", "volcano.sh/tier-1", HOST),)
    assert dict(found.names) == {
        "3": "volcano.sh/tier-3",
        "spine": "volcano.sh/tier-3",
        "1": "volcano.sh/tier-1",
        "rack": "volcano.sh/tier-1",
    }
    nodes = [*(Node(name=f"node-{n}") for n in range(5)), Node(name="c", labels={"row": "c"})]
    places = [
        (labels.get("volcano.sh/tier-3"), labels.get("volcano.sh/tier-1"))
        for labels in (found.labelled(node).labels for node in nodes)
    ]
    assert places == [*[("s3", "s0")] * 2, *[("s3", "s1")] * 2, (None, None), (None, "s2")]
    assert found.labelled(nodes[4]) is nodes[4]


def test_layers_of_koordinator_are_levels_in_the_order_of_their_parents() -> None:
    found = read("koordinator", LAYERS)
    assert found.levels.topologies == ((BLOCK, RACK, HOST),)
    layers = (("SpineLayer", BLOCK), ("BlockLayer", RACK), ("NodeTopologyLayer", HOST))
    assert found.names == layers


@pytest.mark.parametrize(
    ("peer", "objects", "problem"),
    [
        ("kueue", [topology("t")], "spec.levels: expected at least one level"),
        ("kueue", [topology("t", "")], "spec.levels[0].nodeLabel: expected a non-empty string"),
        (
            "kueue",
            [topology("a", BLOCK, RACK), topology("b", "zone", RACK)],
            f"spec.levels: expected each label once, not {RACK} twice, among all topologies that",
        ),
        ("kueue", [topology("a", RACK, BLOCK), topology("b", BLOCK, RACK)], "each label once"),
        ("volcano", [hyper_node("s", -1)], "spec.tier: expected an int from 0 to 999, got -1"),
        (
            "volcano",
            [hyper_node("s", 1, member(regexMatch={"pattern": "("}))],
            "pattern: expected a regular expression: ",
        ),
        (
            "volcano",
            [hyper_node("s", 1, member(exactMatch={"name": "n"}, regexMatch={"pattern": "n"}))],
            "spec.members[0].selector: expected one of exactMatch, regexMatch, labelMatch",
        ),
        (
            "volcano",
            [*TREE, hyper_node("s4", 3, named("s0", "HyperNode"))],
            "selector: s0 has another parent, s3",
        ),
        (
            "volcano",
            [hyper_node("a", 1), hyper_node("b", 1, named("a", "HyperNode"))],
            "selector: a is of no lower tier than b",
        ),
        (
            "volcano",
            [hyper_node("a", 1, called="x"), hyper_node("b", 2, called="x")],
            "spec.tierName: expected a name of one tier, got 'x'",
        ),
        (
            "koordinator",
            [
                {
                    **LAYERS,
                    "spec": {
                        "networkTopologySpec": [{"topologyLayer": "A", "labelKey": ["a", "b"]}]
                    },
                }
            ],
            "labelKey: expected one label",
        ),
        (
            "koordinator",
            [
                {
                    **LAYERS,
                    "spec": {
                        "networkTopologySpec": [{"topologyLayer": "A", "parentTopologyLayer": "B"}]
                    },
                }
            ],
            "networkTopologySpec: expected one chain of layers",
        ),
    ],
)
def test_objects_that_are_no_levels_are_malformed(
    peer: str, objects: list[dict[str, Any]], problem: str
) -> None:
    with pytest.raises(ManifestError) as caught:
        read(peer, *objects)
    assert problem in str(caught.value)


# In the words of groups ---------------------------------------------------------------------------


def group(peer: str, objects: list[dict[str, Any]], **given: Any) -> PodGroup:
    """Return a group of Volcano, or of Koordinator, as files with levels of a peer have it."""
    metadata = {"name": "g", "namespace": "team", "annotations": given.pop("annotations", {})}
    value = {
        "apiVersion": given.pop("api", "scheduling.volcano.sh/v1beta1"),
        "kind": "PodGroup",
        "metadata": metadata,
        "spec": {"minMember": 8, **given},
    }
    items = {"apiVersion": "v1", "kind": "List", "items": [*objects, value]}
    parsed = ParsedManifests(json.dumps(items), file="f")
    levels = read_peer_levels(peer, parsed.peer_objects(peer)) if peer else PeerLevels()
    workload = parsed.workload(PriorityClasses(), levels=levels)
    assert peer != "volcano" or not [note for note in workload.skipped if "was skipped" in note]
    (event,) = [a.event for a in workload.arrivals if isinstance(a.event, PodGroupAdded)]
    return event.group


TIER_1, TIER_3 = "volcano.sh/tier-1", "volcano.sh/tier-3"
UP_TO_3: Final = Topology(TIER_3, prefer=TIER_1)
SOFT: Final = Topology(TIER_1, required=False)


@pytest.mark.parametrize(
    ("network", "meant"),
    [
        ({"mode": "hard", "highestTierAllowed": 1}, Topology(TIER_1)),
        ({"highestTierAllowed": 1}, Topology(TIER_1)),
        ({"highestTierAllowed": 2}, Topology(TIER_1)),
        ({"highestTierAllowed": 3}, UP_TO_3),
        ({"highestTierAllowed": 4}, SOFT),
        ({"highestTierName": "spine"}, UP_TO_3),
        ({"highestTierName": "rack"}, Topology(TIER_1)),
        ({"mode": "soft"}, SOFT),
        ({"mode": "soft", "highestTierAllowed": 1}, SOFT),
    ],
    ids=str,
)
def test_network_topology_of_volcano_prefers_the_finest_tier_up_to_the_highest_allowed(
    network: dict[str, Any], meant: Topology
) -> None:
    found = group("volcano", [*TREE], networkTopology=network)
    assert (found.topology, found.unmodelled) == (meant, ())
    policy = {"name": "p", "subGroupSize": 4, "minSubGroups": 2, "matchLabelKeys": ["part"]}
    found = group("volcano", [*TREE], subGroupPolicy=[{**policy, "networkTopology": network}])
    expected = {"p": Role(2, roles={"member": 4}, topology=meant)}
    assert (found.topology, dict(found.roles), found.unmodelled) == (None, expected, ())
    fixed = {**policy, "minSubGroups": 1, "networkTopology": network}
    fixed["labelSelector"] = {"matchLabels": {"part": "a"}}
    found = group("volcano", [*TREE], subGroupPolicy=[fixed])
    assert (dict(found.roles), found.unmodelled) == ({"p": Role(4, topology=meant)}, ())


@pytest.mark.parametrize(
    ("peer", "network", "reason"),
    [
        ("", {"highestTierAllowed": 1}, " (its tiers are known with levels: {from: volcano} only)"),
        ("koordinator", {"mode": "hard"}, " (its tiers are known with levels: {from: volcano"),
        ("volcano", {"mode": "hard"}, " (hard, without a highest tier)"),
        ("volcano", {"highestTierAllowed": 0}, ".highestTierAllowed (no HyperNode has so low a"),
        ("volcano", {"highestTierName": "x"}, ".highestTierName (no HyperNode has this tier)"),
        ("volcano", {"highestTierAllowed": 1, "new": 1}, ".new"),
    ],
    ids=str,
)
def test_network_topology_without_a_meaning_holds_the_pods_and_says_why(
    peer: str, network: dict[str, Any], reason: str
) -> None:
    (held,) = group(peer, [*TREE], networkTopology=network).unmodelled
    assert f".spec.networkTopology{reason}" in held


def test_soft_network_topology_is_nothing_without_tiers() -> None:
    found = group("", [], networkTopology={"mode": "soft"})
    assert (found.topology, found.unmodelled) == (None, ())


def gathered(*rules: dict[str, Any]) -> dict[str, str]:
    key = "gang.scheduling.koordinator.sh/network-topology-spec"
    return {key: json.dumps({"gatherStrategy": list(rules)})}


def rule(layer: str, strategy: str = "MustGather", **more: Any) -> dict[str, Any]:
    return {"layer": layer, "strategy": strategy, **more}


@pytest.mark.parametrize(
    ("rules", "meant"),
    [
        ([rule("SpineLayer")], Topology(BLOCK)),
        ([rule("NodeTopologyLayer")], Topology(HOST)),
        (
            [rule("BlockLayer", "PreferGather"), rule("SpineLayer")],
            Topology(BLOCK, prefer=RACK),
        ),
        (
            [rule("SpineLayer", "PreferGather"), rule("BlockLayer", "PreferGather")],
            Topology(RACK, required=False),
        ),
        ([], None),
    ],
)
def test_layers_that_koordinator_gathers_in_are_the_topology(
    rules: list[dict[str, Any]], meant: Topology | None
) -> None:
    found = group("koordinator", [LAYERS], annotations=gathered(*rules))
    assert (found.topology, found.unmodelled) == (meant, ())


@pytest.mark.parametrize(
    ("peer", "annotations", "spec", "reason"),
    [
        ("", gathered(rule("SpineLayer")), {}, "its layers are known with levels: {from: koord"),
        ("koordinator", gathered(rule("Other")), {}, "its layers are known with"),
        (
            "koordinator",
            gathered(rule("BlockLayer", podCountMultiple=4)),
            {},
            "rules with more than a layer and a strategy",
        ),
        (
            "koordinator",
            {
                **gathered(rule("BlockLayer")),
                "gang.scheduling.koordinator.sh/groups": '["team/g", "team/h"]',
            },
            {},
            "of several groups together",
        ),
    ],
)
def test_gather_strategy_without_a_meaning_holds_the_pods_and_says_why(
    peer: str, annotations: dict[str, str], spec: dict[str, Any], reason: str
) -> None:
    (held,) = group(peer, [LAYERS], annotations=annotations, **spec).unmodelled
    assert f"network-topology-spec] ({reason}" in held
    soft = gathered(rule("SpineLayer", "PreferGather"))
    assert group("", [], annotations=soft).unmodelled == ()


def test_gather_strategy_that_is_malformed_is_an_error() -> None:
    key = "gang.scheduling.koordinator.sh/network-topology-spec"
    for text in ("{", "[]", '{"gatherStrategy": 1}', '{"gatherStrategy": [{"layer": "x"}]}'):
        with pytest.raises(ManifestError, match="network-topology-spec"):
            group("koordinator", [LAYERS], annotations={key: text})


# Configuration ------------------------------------------------------------------------------------


def test_configuration_names_each_project_whose_levels_can_be_read() -> None:
    assert tuple(PEERS) == PEERS_WITH_LEVELS
    for peer in PEERS:
        assert read_settings({"levels": {"from": peer}}).levels_from == peer
    assert read_settings({"levels": [BLOCK]}).levels_from == ""


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"from": "slurm"}, "levels.from"),
        ({}, "levels.from"),
        ({"from": "kueue", "x": 1}, "levels"),
    ],
)
def test_wrong_source_of_levels_is_named(given: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        read_settings({"levels": given})
    assert caught.value.field.startswith(path)


@pytest.mark.once("reads files")
def test_chart_gives_the_right_to_list_the_objects_of_each_project() -> None:
    yaml = pytest.importorskip("yaml")
    chart = ROOT / "charts" / "gangsched"
    rules = yaml.safe_load((chart / "files" / "levels.yaml").read_text("utf-8"))
    assert rules == {
        peer: {"apiGroups": [api.group], "resources": [api.plural], "verbs": ["list"]}
        for peer, api in PEERS.items()
    }
    schema = json.loads((chart / "values.schema.json").read_text("utf-8"))
    levels = schema["definitions"]["configuration"]["properties"]["levels"]["oneOf"]
    assert levels[1]["properties"]["from"]["enum"] == list(PEERS)


def test_levels_that_the_caller_has_not_read_are_not_taken_for_none() -> None:
    with pytest.raises(InvalidValueError, match="levels must be a list of labels: objects of"):
        make_scheduler(read_settings({"levels": {"from": "kueue"}}), InMemoryCluster())


def test_simulation_reads_levels_from_the_objects_in_its_files(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    yaml = pytest.importorskip("yaml")
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"node-{n}"},
            "status": {"allocatable": {"cpu": "4", "pods": "9"}},
        }
        for n in range(4)
    ]
    metadata = {"name": "g", "namespace": "default"}
    wanted = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": metadata,
        "spec": {"minMember": 2, "networkTopology": {"highestTierAllowed": 1}},
    }
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"g-{n}",
                "annotations": {"scheduling.k8s.io/group-name": "g"},
            },
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]},
        }
        for n in range(2)
    ]
    # of rack s0, one node is gone: the other rack is left
    objects = [*TREE, *nodes[1:], wanted, *pods]
    (tmp_path / "w.yaml").write_text(yaml.safe_dump_all(objects), encoding="utf-8")
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "levels": {"from": "volcano"},
    }
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    given = [str(tmp_path / "w.yaml"), "--config", str(tmp_path / "c.yaml")]
    assert main(["simulate", *given, "--output", "json"]) == 0
    shown = capsys.readouterr().out
    assert "HyperNode" not in shown
    assert '"node-2"' in shown
    assert '"node-3"' in shown
    assert main(["explain", "default/g", *given]) == 0
    assert "default/g has started" in capsys.readouterr().out
