"""The values of pod constraints: selectors, terms, spread constraints, ports, images."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gangsched
from gangsched import (
    Comparison,
    ContainerImage,
    HostPort,
    LabelSelector,
    LabelSelectorRequirement,
    Node,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    PreferredSchedulingTerm,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from gangsched._hypothesis import register_types
from gangsched.errors import InvalidValueError

register_types()
NAMES = {name: getattr(gangsched, name) for name in gangsched.__all__}
VALUES = (
    *(LabelSelector, LabelSelectorRequirement, PodAffinityTerm, WeightedPodAffinityTerm),
    *(TopologySpreadConstraint, HostPort, ContainerImage, PreferredSchedulingTerm),
)
LABELS = st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"))
WEB = LabelSelector({"app": "web"})


@pytest.mark.parametrize("kind", VALUES, ids=lambda kind: kind.__name__)
def test_repr_evaluates_to_an_equal_value(kind: type[Any]) -> None:
    @given(st.from_type(kind))
    def check(value: object) -> None:
        assert eval(repr(value), NAMES) == value
        assert hash(eval(repr(value), NAMES)) == hash(value)

    check()


@pytest.mark.parametrize(
    ("operator", "values", "labels", "expected"),
    [
        ("In", ["x", "y"], {"k": "y"}, True),
        ("In", ["x"], {"k": "y"}, False),
        ("In", ["x"], {}, False),
        ("NotIn", ["x"], {"k": "x"}, False),
        ("NotIn", ["x"], {"k": "y"}, True),
        ("NotIn", ["x"], {}, True),
        ("Exists", [], {"k": ""}, True),
        ("Exists", [], {"j": ""}, False),
        ("DoesNotExist", [], {"j": ""}, True),
        ("DoesNotExist", [], {"k": ""}, False),
    ],
)
def test_label_condition_has_the_meaning_of_kubernetes(
    operator: str, values: list[str], labels: dict[str, str], expected: bool
) -> None:
    assert LabelSelectorRequirement("k", operator, values).matches(labels) is expected


@given(LABELS)
def test_selector_without_conditions_matches_every_object(labels: dict[str, str]) -> None:
    assert LabelSelector().is_empty
    assert LabelSelector().matches(labels)


@given(LABELS, LABELS)
def test_selector_matches_if_every_label_is_equal(
    wanted: dict[str, str], labels: dict[str, str]
) -> None:
    expected = all(labels.get(key) == value for key, value in wanted.items())
    assert LabelSelector(wanted).matches(labels) is expected
    expressions = [LabelSelectorRequirement(key, "In", [v]) for key, v in wanted.items()]
    assert LabelSelector({}, expressions).matches(labels) is expected
    assert LabelSelector().with_expressions(expressions).matches(labels) is expected


def test_selector_names_the_labels_that_it_reads() -> None:
    selector = LabelSelector({"a": "b"}, [LabelSelectorRequirement("c", "Exists")])
    assert selector.keys() == {"a", "c"}
    assert selector.with_expressions([]) is selector


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (HostPort(80), HostPort(80), True),
        (HostPort(80), HostPort(81), False),
        (HostPort(80), HostPort(80, "UDP"), False),
        (HostPort(80, "TCP", "10.0.0.1"), HostPort(80, "TCP", "10.0.0.2"), False),
        (HostPort(80, "TCP", "10.0.0.1"), HostPort(80, "TCP", "10.0.0.1"), True),
        (HostPort(80, "TCP", ""), HostPort(80, "TCP", "10.0.0.2"), True),
        (HostPort(80, "TCP", "0.0.0.0"), HostPort(80, "TCP", "::1"), True),
    ],
)
def test_host_ports_conflict_if_number_protocol_and_address_do(
    one: HostPort, other: HostPort, expected: bool
) -> None:
    assert one.conflicts_with(other) is expected
    assert other.conflicts_with(one) is expected


def test_host_port_without_address_stands_for_every_address() -> None:
    assert HostPort(80, host_ip="") == HostPort(80) == HostPort(80, "TCP", "0.0.0.0")


def test_node_term_reads_the_name_of_the_node() -> None:
    only = NodeSelectorTerm(
        [], match_fields=[NodeSelectorRequirement("metadata.name", "In", ["n1"])]
    )
    others = NodeSelectorTerm(
        [NodeSelectorRequirement("zone", "Exists")],
        [NodeSelectorRequirement("metadata.name", "NotIn", ["n1"])],
    )
    assert only.matches({}, "n1")
    assert not only.matches({}, "n2")
    assert not others.matches({"zone": "a"}, "n1")
    assert others.matches({"zone": "a"}, "n2")
    assert not others.matches({}, "n2")


@pytest.mark.parametrize(
    ("comparison", "value", "expected"),
    [
        ("Gt", "6", True),
        ("Gt", "5", False),
        ("Lt", "4", True),
        ("Lt", "-7", True),
        ("Lt", "5", False),
        ("Gt", "06", False),
        ("Gt", "many", False),
        ("Gt", "", False),
    ],
)
def test_toleration_compares_integers(comparison: str, value: str, expected: bool) -> None:
    toleration = Toleration("load", "5", comparison=Comparison(comparison))
    assert toleration.tolerates(Taint("load", value)) is expected
    assert not toleration.tolerates(Taint("other", value))


BAD: list[tuple[type[Any], dict[str, Any], str, object]] = [
    (LabelSelectorRequirement, {"key": "", "operator": "Exists"}, "key", ""),
    (LabelSelectorRequirement, {"key": "k", "operator": "Gt"}, "operator", "Gt"),
    (LabelSelectorRequirement, {"key": "k", "operator": "In"}, "values", ()),
    (
        LabelSelectorRequirement,
        {"key": "k", "operator": "Exists", "values": ["v"]},
        "values",
        ("v",),
    ),
    (LabelSelector, {"match_labels": {"a": 1}}, "match_labels.a", 1),
    (LabelSelector, {"match_expressions": ["a"]}, "match_expressions[0]", "a"),
    (PodAffinityTerm, {"topology_key": ""}, "topology_key", ""),
    (PodAffinityTerm, {"topology_key": "z", "label_selector": {}}, "label_selector", {}),
    (PodAffinityTerm, {"topology_key": "z", "namespace_selector": 1}, "namespace_selector", 1),
    (PodAffinityTerm, {"topology_key": "z", "namespaces": "ns"}, "namespaces", "ns"),
    (
        PodAffinityTerm,
        {"topology_key": "z", "match_label_keys": ["a"]},
        "match_label_keys",
        ("a",),
    ),
    (
        PodAffinityTerm,
        {
            "topology_key": "z",
            "label_selector": WEB,
            "match_label_keys": ["a"],
            "mismatch_label_keys": ["a"],
        },
        "mismatch_label_keys",
        "a",
    ),
    (WeightedPodAffinityTerm, {"weight": 0, "pod_affinity_term": 1}, "weight", 0),
    (WeightedPodAffinityTerm, {"weight": 1, "pod_affinity_term": 1}, "pod_affinity_term", 1),
    (PreferredSchedulingTerm, {"weight": 101, "preference": 1}, "weight", 101),
    (PreferredSchedulingTerm, {"weight": 1, "preference": 1}, "preference", 1),
    (TopologySpreadConstraint, {"max_skew": 0, "topology_key": "z"}, "max_skew", 0),
    (TopologySpreadConstraint, {"max_skew": 1, "topology_key": ""}, "topology_key", ""),
    (
        TopologySpreadConstraint,
        {"max_skew": 1, "topology_key": "z", "min_domains": 0},
        "min_domains",
        0,
    ),
    (
        TopologySpreadConstraint,
        {
            "max_skew": 1,
            "topology_key": "z",
            "min_domains": 2,
            "when_unsatisfiable": "ScheduleAnyway",
        },
        "min_domains",
        2,
    ),
    (
        TopologySpreadConstraint,
        {"max_skew": 1, "topology_key": "z", "when_unsatisfiable": "Never"},
        "when_unsatisfiable",
        "Never",
    ),
    (
        TopologySpreadConstraint,
        {"max_skew": 1, "topology_key": "z", "node_taints_policy": "Never"},
        "policy",
        "Never",
    ),
    (
        TopologySpreadConstraint,
        {"max_skew": 1, "topology_key": "z", "match_label_keys": ["a"]},
        "match_label_keys",
        ("a",),
    ),
    (HostPort, {"host_port": 0}, "host_port", 0),
    (HostPort, {"host_port": True}, "host_port", True),
    (HostPort, {"host_port": 80, "protocol": "tcp"}, "protocol", "tcp"),
    (HostPort, {"host_port": 80, "host_ip": None}, "host_ip", None),
    (ContainerImage, {"names": "a"}, "names", "a"),
    (ContainerImage, {"size_bytes": -1}, "size_bytes", -1),
    (Toleration, {"key": "k", "value": "x", "comparison": "Gt"}, "value", "x"),
    (Toleration, {"key": "k", "value": "05", "comparison": "Gt"}, "value", "05"),
    (Toleration, {"key": "k", "value": "5", "comparison": "Ge"}, "comparison", "Ge"),
    (
        Toleration,
        {"key": "k", "value": "5", "exists": True, "comparison": "Gt"},
        "comparison",
        Comparison.GT,
    ),
    (
        NodeSelectorTerm,
        {"requirements": (), "match_fields": [NodeSelectorRequirement("zone", "Exists")]},
        "match_fields",
        "zone",
    ),
    (Pod, {"name": "a", "pod_affinity": [1]}, "pod_affinity[0]", 1),
    (Pod, {"name": "a", "pod_anti_affinity": 1}, "pod_anti_affinity", 1),
    (Pod, {"name": "a", "preferred_pod_affinity": [1]}, "preferred_pod_affinity[0]", 1),
    (Pod, {"name": "a", "preferred_node_affinity": [1]}, "preferred_node_affinity[0]", 1),
    (Pod, {"name": "a", "topology_spread_constraints": [1]}, "topology_spread_constraints[0]", 1),
    (Pod, {"name": "a", "host_ports": [80]}, "host_ports[0]", 80),
    (Pod, {"name": "a", "images": "busybox"}, "images", "busybox"),
    (Pod, {"name": "a", "image_volumes": [1]}, "image_volumes[0]", 1),
    (Pod, {"name": "a", "required_features": [1]}, "required_features[0]", 1),
    (Node, {"name": "a", "images": ["busybox"]}, "images[0]", "busybox"),
    (Node, {"name": "a", "declared_features": "F"}, "declared_features", "F"),
]


@pytest.mark.parametrize(("kind", "arguments", "field", "value"), BAD)
def test_malformed_constraint_is_refused_by_name(
    kind: type[Any], arguments: dict[str, Any], field: str, value: object
) -> None:
    with pytest.raises(InvalidValueError) as caught:
        kind(**arguments)
    assert (caught.value.field, caught.value.value) == (field, value)


def test_features_are_kept_sorted_and_once() -> None:
    assert Pod(name="a", required_features=["b", "a", "b"]).required_features == ("a", "b")
    assert Node(name="a", declared_features=["b", "a", "b"]).declared_features == ("a", "b")
