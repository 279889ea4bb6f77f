"""Values of constraints: selectors, taints, terms, spread constraints, ports and images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    TaintEffect,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from gangsched.errors import InvalidValueError
from support.refusals import check_rows, each, keywords

LABELS = st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"))
WEB = LabelSelector({"app": "web"})
NO_EXECUTE = TaintEffect.NO_EXECUTE


@pytest.mark.parametrize(
    ("toleration", "taint", "expected"),
    [
        (Toleration("k", "v"), Taint("k", "v"), True),
        (Toleration("k", "v"), Taint("k", "w"), False),
        (Toleration("k", "v"), Taint("j", "v"), False),
        (Toleration("k"), Taint("k"), True),
        (Toleration("k"), Taint("k", "v"), False),
        (Toleration("k", exists=True), Taint("k", "v"), True),
        (Toleration("k", exists=True), Taint("j"), False),
        (Toleration(exists=True), Taint("j", "v", NO_EXECUTE), True),
        (Toleration("k", "v", effect=NO_EXECUTE), Taint("k", "v"), False),
        (Toleration("k", "v", effect="NoExecute"), Taint("k", "v", NO_EXECUTE), True),
        (Toleration("k", "v", effect=NO_EXECUTE), Taint("k", "v", "NoSchedule"), False),
        (Toleration(exists=True, effect=NO_EXECUTE), Taint("k"), False),
        *(
            (Toleration("k", "5", comparison=comparison), Taint("k", value), expected)
            for comparison, value, expected in (
                *(("Gt", "6", True), ("Gt", "5", False), ("Gt", "06", False), ("Gt", "", False)),
                *(("Gt", "many", False), ("Lt", "4", True), ("Lt", "-7", True), ("Lt", "5", False)),
            )
        ),
        (Toleration("k", "5", comparison="Gt"), Taint("j", "6"), False),
    ],
)
def test_toleration_compares_key_value_and_effect(
    toleration: Toleration, taint: Taint, expected: bool
) -> None:
    assert expected is toleration.tolerates(taint)


MATCHES: list[tuple[str, tuple[str, ...], str | None, bool]] = [
    ("In", ("x", "y"), "y", True),
    ("In", ("x", "y"), "z", False),
    ("In", ("x",), None, False),
    ("NotIn", ("x", "y"), "y", False),
    ("NotIn", ("x", "y"), "z", True),
    ("NotIn", ("x",), None, True),
    ("Exists", (), "", True),
    ("Exists", (), None, False),
    ("DoesNotExist", (), "", False),
    ("DoesNotExist", (), None, True),
]
COMPARES: list[tuple[str, tuple[str, ...], str | None, bool]] = [
    ("Gt", ("5",), "6", True),
    ("Gt", ("5",), "5", False),
    ("Gt", ("-5",), "-4", True),
    ("Lt", ("5",), "4", True),
    ("Lt", ("5",), "5", False),
    ("Lt", ("5",), "x", False),
    ("Gt", ("5",), None, False),
    ("Gt", ("5",), "9" * 5000, False),
    ("Gt", ("9",), "10", True),
    ("Lt", (str(2**63 - 1),), str(-(2**63)), True),
    ("Lt", ("0",), str(-(2**63) - 1), False),
    ("Gt", ("0",), str(2**63), False),
]


@pytest.mark.parametrize(
    ("kind", "case"),
    [
        *((LabelSelectorRequirement, case) for case in MATCHES),
        *((NodeSelectorRequirement, case) for case in (*MATCHES, *COMPARES)),
    ],
)
def test_operators_match_as_in_kubernetes(kind: type[Any], case: tuple[Any, ...]) -> None:
    operator, values, label, expected = case
    labels = {} if label is None else {"k": label}
    assert expected is kind("k", operator, values).matches(labels)


@given(LABELS, LABELS)
def test_selector_matches_if_every_label_is_equal(
    wanted: dict[str, str], labels: dict[str, str]
) -> None:
    expected = all(labels.get(key) == value for key, value in wanted.items())
    assert LabelSelector(wanted).matches(labels) is expected
    assert LabelSelector(wanted).is_empty is (not wanted)
    expressions = [LabelSelectorRequirement(key, "In", [v]) for key, v in wanted.items()]
    assert LabelSelector({}, expressions).matches(labels) is expected
    assert LabelSelector().with_expressions(expressions).matches(labels) is expected
    term = NodeSelectorTerm([NodeSelectorRequirement(k, "In", [v]) for k, v in wanted.items()])
    assert term.matches(labels) is (expected and bool(wanted))  # without one it matches no node


def test_selector_names_the_labels_that_it_reads() -> None:
    selector = LabelSelector({"a": "b"}, [LabelSelectorRequirement("c", "Exists")])
    assert selector.keys() == {"a", "c"}
    assert selector.with_expressions([]) is selector


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
    assert HostPort(80, host_ip="") == HostPort(80) == HostPort(80, "TCP", "0.0.0.0")


def test_features_are_kept_sorted_and_once() -> None:
    assert Pod(name="a", required_features=["b", "a", "b"]).required_features == ("a", "b")
    assert Node(name="a", declared_features=["b", "a", "b"]).declared_features == ("a", "b")


def made(kind: type[Any], **sound: Any) -> Callable[..., object]:
    """Return a constructor with sound arguments for what is not given."""
    return lambda **given: kind(**{**sound, **given})


def affinity(**given: Any) -> PodAffinityTerm:
    return PodAffinityTerm(**{"topology_key": "z", **given})


def spread(**given: Any) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(**{"max_skew": 1, "topology_key": "z", **given})


ONE: Any = 1
NO_NUMBERS = [(), ("1", "2"), ("1.5",), ("",), ("-",), ("--1",), ("\u0663",), ("9" * 20,)]
BAD = [
    *keywords(made(Taint, key="k"), key=[""], value=[1], effect=["noexecute", "No"]),
    *each(lambda x: Toleration(key=x), "key", ""),
    *keywords(
        made(Toleration, key="k"), key=[None, 5], value=[1], effect=["Never"], exists=["yes", 5]
    ),
    *each(lambda x: Toleration("k", x, comparison="Gt"), "value", "x", "05"),
    *each(lambda x: Toleration("k", "5", comparison=x), "comparison", "Ge"),
    *each(lambda x: Toleration("k", "5", exists=True, comparison=x), "comparison", Comparison.GT),
    *[
        case
        for kind, operator in ((LabelSelectorRequirement, "Gt"), (NodeSelectorRequirement, "in"))
        for case in (
            *keywords(made(kind, key="k", operator="Exists"), key=[""], operator=[operator]),
            *keywords(made(kind, key="k", operator="In"), values=[(), "abc", (1,)]),
            *each(lambda x, kind=kind: kind("k", "NotIn", x), "values", ()),
            *each(lambda x, kind=kind: kind("k", "Exists", x), "values", ("v",)),
            *each(lambda x, kind=kind: kind("k", "DoesNotExist", x), "values", ("v",)),
        )
    ],
    *each(lambda x: NodeSelectorRequirement("k", "Gt", x), "values", *NO_NUMBERS),
    *each(lambda x: NodeSelectorRequirement("k", "Lt", x), "values", ("v",)),
    *each(lambda x: NodeSelectorTerm([x]), "requirements[0]", 5),
    *each(
        lambda x: NodeSelectorTerm((), [NodeSelectorRequirement(x, "Exists")]),
        "match_fields",
        "zone",
    ),
    *each(lambda x: LabelSelector({"a": x}), "match_labels.a", 1),
    *each(lambda x: LabelSelector({}, [x]), "match_expressions[0]", "a"),
    *keywords(
        affinity,
        topology_key=[""],
        label_selector=[{}],
        namespace_selector=[1],
        namespaces=["ns"],
        match_label_keys=[("a",)],
    ),
    *each(
        lambda x: affinity(label_selector=WEB, match_label_keys=[x], mismatch_label_keys=[x]),
        "mismatch_label_keys",
        "a",
    ),
    *keywords(made(WeightedPodAffinityTerm, pod_affinity_term=ONE), weight=[0]),
    *keywords(made(WeightedPodAffinityTerm, weight=1), pod_affinity_term=[1]),
    *keywords(made(PreferredSchedulingTerm, preference=ONE), weight=[101]),
    *keywords(made(PreferredSchedulingTerm, weight=1), preference=[1]),
    *keywords(
        spread,
        max_skew=[0],
        topology_key=[""],
        min_domains=[0],
        when_unsatisfiable=["Never"],
        match_label_keys=[("a",)],
    ),
    *each(lambda x: spread(min_domains=x, when_unsatisfiable="ScheduleAnyway"), "min_domains", 2),
    *each(lambda x: spread(node_taints_policy=x), "policy", "Never"),
    *keywords(made(HostPort, host_port=80), host_port=[0, True], protocol=["tcp"], host_ip=[None]),
    *keywords(ContainerImage, names=["a"], size_bytes=[-1]),
    *keywords(made(Pod, name="a"), pod_anti_affinity=[1], images=["busybox"]),
    *each(lambda x: Pod(name="a", pod_affinity=[x]), "pod_affinity[0]", 1),
    *each(lambda x: Pod(name="a", preferred_pod_affinity=[x]), "preferred_pod_affinity[0]", 1),
    *each(lambda x: Pod(name="a", preferred_node_affinity=[x]), "preferred_node_affinity[0]", 1),
    *each(
        lambda x: Pod(name="a", topology_spread_constraints=[x]),
        "topology_spread_constraints[0]",
        1,
    ),
    *each(lambda x: Pod(name="a", host_ports=[x]), "host_ports[0]", 80),
    *each(lambda x: Pod(name="a", image_volumes=[x]), "image_volumes[0]", 1),
    *each(lambda x: Pod(name="a", required_features=[x]), "required_features[0]", 1),
    *each(lambda x: Node(name="a", images=[x]), "images[0]", "busybox"),
    *keywords(made(Node, name="a"), declared_features=["F"]),
]


def test_malformed_constraint_is_refused_by_field_and_value() -> None:
    check_rows(BAD)
    with pytest.raises(InvalidValueError):
        NodeSelectorRequirement("k", "Gt", ("9" * 5000,))  # which int() refuses to read
