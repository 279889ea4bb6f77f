"""Bad input to what only holds values: each is refused when it is made, by field and value.

Rows that a module's own test has are not repeated but where the list would have a hole.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from gangsched import (
    Backoff,
    Node,
    NodeName,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Order,
    Pod,
    PodGroup,
    PodPhase,
    Resources,
    Taint,
    Toleration,
    Wait,
    WhenBlocked,
    group_key,
    membership,
)
from gangsched.errors import GangschedError, InvalidPodGroupError, InvalidValueError
from gangsched.model import FrozenMap
from gangsched.quantity import parse_quantity
from support.refusals import INF, NAN, NO_SECONDS, check_refusal, row

COLON = "pod-group/min-available"
NAME, MINIMUM = (f"pod-group.scheduling.sigs.k8s.io/{part}" for part in ("name", "min-available"))
CORE = "spec.schedulingGroup.podGroupName"
FIVE: Any = 5  # for a type checker it may be what is asked for


def bad(name: str, call: Callable[[], object], field: str, value: object, **more: Any) -> Any:
    return row(name, call, InvalidValueError, field=field, value=value, **more)


def pod(**given: Any) -> Callable[[], Pod]:
    return lambda: Pod(**{"name": "p", **given})


def node(**given: Any) -> Callable[[], Node]:
    return lambda: Node(**{"name": NodeName("n"), **given})


def group(**given: Any) -> Callable[[], PodGroup]:
    return lambda: PodGroup(**{"name": "g", "namespace": "ns", "min_available": 1, **given})


def of_group(name: str, given: dict[str, Any], field: str, value: object, **more: Any) -> Any:
    """Return a row of a group's constructor; the group is named too."""
    subject = group_key(given.get("namespace", "ns"), given.get("name", "g"))
    call = group(**given)
    return row(name, call, InvalidPodGroupError, subject=subject, field=field, value=value, **more)


def claim(name: str, field: str, value: object, **given: Any) -> Any:
    """Return a row of a pod whose claim to be in a group is malformed."""
    call, subject = (lambda: membership(Pod(name="p", **given))), "pod default/p"
    return row(name, call, InvalidPodGroupError, subject=subject, field=field, value=value)


def needs(key: Any, operator: Any, *values: Any) -> Callable[[], NodeSelectorRequirement]:
    return lambda: NodeSelectorRequirement(key, operator, *values)


PODS = [
    bad("pod without a name", pod(name=None), "name", None),
    bad("pod of a namespace that is a number", pod(namespace=1), "namespace", 1),
    bad("pod of a namespace with a slash", pod(namespace="a/b"), "namespace", "a/b"),
    bad("pod with a UID that is a number", pod(uid=5), "uid", 5),
    bad("pod of no priority at all", pod(priority=None), "priority", None),
    bad("pod that asks for true", pod(requests={"cpu": True}), "cpu", True),
    bad("pod that asks for a fraction", pod(requests={"cpu": 0.5}), "cpu", 0.5),
    bad("pod that asks for nothing in words", pod(requests={"cpu": ""}), "cpu", ""),
    bad("pod that asks for less than nothing", pod(requests={"gpu": -1}), "requests.gpu", "-1"),
    bad("pod that asks for a millionth", pod(requests={"cpu": "1u"}), "cpu", "1u"),
    bad("pod that asks for all there is", pod(requests={"cpu": 10**30}), "cpu", 10**30),
    bad("pod limited to what is no amount", pod(limits={"memory": None}), "memory", None),
    bad("pod with a label that is no text", pod(labels={"app": None}), "labels.app", None),
    bad("pod annotated with a list", pod(annotations={"a": []}), "annotations.a", []),
    bad("pod that selects by a number", pod(node_selector={"d": 1}), "node_selector.d", 1),
    bad("pod with a term that is none", pod(affinity=[None]), "affinity[0]", None),
    bad("pod that tolerates a text", pod(tolerations=["all"]), "tolerations[0]", "all"),
    bad("pod in a group that is a number", pod(pod_group=1), "pod_group", 1),
    bad("pod with one text for its gates", pod(scheduling_gates="g"), "scheduling_gates", "g"),
    bad("pod on a node that is a number", pod(node_name=3), "node_name", 3),
    bad("pod of an unknown phase", pod(phase="Evicted"), "phase", "Evicted"),
    *[bad(f"pod created at {x!r:.8}", pod(created_at=x), "created_at", x) for x in NO_SECONDS],
    *[bad(f"pod deleted at {x!r:.8}", pod(deleted_at=x), "deleted_at", x) for x in NO_SECONDS[1:]],
    bad("no phase", lambda: PodPhase("running"), "phase", "running"),
    *[
        bad(f"pod with {field} {x!r}", pod(**{field: x}), field, x)
        for field in ("labels", "annotations", "node_selector", "requests", "limits")
        for x in (5, None, "ab", ["a"])
    ],
    *[
        bad(f"pod with {field} {x!r}", pod(**{field: x}), field, x)
        for field in ("affinity", "tolerations", "scheduling_gates", "owners")
        for x in (5, None)
    ],
    bad(
        "pod with labels of two kinds",
        pod(labels={1: "a", "b": "c"}),
        "labels.1",
        "a",
    ),
    bad("pod that asks for a number", pod(requests={1: 1}), "requests", 1),
]

GROUPS = [
    of_group("group without a name", {"name": None}, "name", None),
    of_group("group of an empty namespace", {"namespace": ""}, "namespace", ""),
    *[
        of_group(f"group of at least {x!r:.8}", {"min_available": x}, "min_available", x)
        for x in (0, -1, 1.0, NAN, "2", True, None, [2])
    ],
    *[
        of_group(f"group that waits for {x!r:.8}", {"schedule_timeout": x}, "schedule_timeout", x)
        for x in (-1, -1e-9, *NO_SECONDS[1:])
    ],
    *[
        of_group(f"group of priority {x!r}", {"priority": x}, "priority", x)
        for x in (1.5, "high", False)
    ],
    *[
        of_group(f"group created at {x!r:.8}", {"created_at": x}, "created_at", x)
        for x in NO_SECONDS
    ],
    of_group(
        "group that needs less than nothing",
        {"min_resources": {"cpu": "-1"}},
        "min_resources.cpu",
        "-1",
    ),
    of_group(
        "group that needs a number",
        {"min_resources": 5},
        "min_resources",
        5,
    ),
    of_group(
        "group of a namespace with a slash: a/b + c and a + b/c would be one key",
        {"namespace": "a/b"},
        "namespace",
        "a/b",
    ),
    of_group("group that needs what has no name", {"min_resources": {1: 1}}, "min_resources", 1),
    *[
        of_group(f"group that needs {x!r}", {"min_resources": x}, "min_resources", x)
        for x in (None, "cpu", ["cpu"])
    ],
]

NODES = [
    bad("node without a name", node(name=None), "name", None),
    bad("node that offers less than nothing", node(allocatable={"c": -1}), "allocatable.c", "-1"),
    bad("node that offers a word", node(allocatable={"cpu": "four"}), "cpu", "four"),
    bad("node labelled with a number", node(labels={"zone": 1}), "labels.zone", 1),
    bad("node with a taint that is a text", node(taints=["k"]), "taints[0]", "k"),
    *[bad(f"node cordoned {x!r}", node(unschedulable=x), "unschedulable", x) for x in (None, 1)],
    *[
        bad(f"node with {field} {x!r}", node(**{field: x}), field, x)
        for field in ("allocatable", "labels", "taints")
        for x in (5, None)
    ],
]

CONDITIONS = [
    bad("taint without a key", lambda: Taint(""), "key", ""),
    bad("taint of a number", lambda: Taint("k", FIVE), "value", FIVE),
    bad("taint of no effect", lambda: Taint("k", "v", "No"), "effect", "No"),
    bad("toleration of nothing", lambda: Toleration(), "key", ""),
    bad("toleration by a number", lambda: Toleration(key=FIVE), "key", FIVE),
    bad("toleration of no effect", lambda: Toleration("k", effect="No"), "effect", "No"),
    bad("toleration that perhaps exists", lambda: Toleration("k", exists=FIVE), "exists", FIVE),
    bad("requirement without a key", needs("", "Exists"), "key", ""),
    bad("requirement of no operator", needs("k", "in", ("a",)), "operator", "in"),
    bad("In without values", needs("k", "In"), "values", ()),
    bad("Exists with a value", needs("k", "Exists", ("a",)), "values", ("a",)),
    bad("Gt of two", needs("k", "Gt", ("1", "2")), "values", ("1", "2")),
    bad("Lt of a word", needs("k", "Lt", ("one",)), "values", ("one",)),
    bad("one text for values", needs("k", "In", "ab"), "values", "ab"),
    bad("a number among values", needs("k", "In", [1]), "values", [1]),
    bad("a number for values", needs("k", "In", 1), "values", 1),
    bad("term of numbers", lambda: NodeSelectorTerm([FIVE]), "requirements[0]", FIVE),
]

NO_MAPPINGS: list[Any] = [5, None, "ab", ["a"], [([], 1)]]
TWO_KINDS: dict[Any, Any] = {"a": 1, 2: 1}
NO_QUANTITIES: list[Any] = [
    *("", "1 ", "+-1", "0x1", "1Gb", "1e", "1kk", "٣", "9" * 40),
    *(1.0, NAN, INF, None, True, []),
]
AMOUNTS = [
    *[bad(f"resources of {x!r}", partial(Resources, x), "quantities", x) for x in NO_MAPPINGS],
    *[bad(f"mapping of {x!r}", partial(FrozenMap, x), "items", x) for x in NO_MAPPINGS],
    bad("resources without a name", partial(Resources, {1: 1}), "quantities", 1),
    bad("mapping of two kinds", partial(FrozenMap, TWO_KINDS), "items", 2),
    *[
        bad(f"quantity {x!r:.8}", partial(parse_quantity, x, field="gpu"), "gpu", x)
        for x in NO_QUANTITIES
    ],
    *[bad(f"resources {x!r:.8}", partial(Resources, {"gpu": x}), "gpu", x) for x in NO_QUANTITIES],
]

DECISIONS = [
    *[bad(f"wait for {x!r:.8}", partial(Wait, x), "timeout", x) for x in (-1, -1e-9, *NO_SECONDS)],
    *[
        bad(f"rest {x!r:.8} at first", partial(Backoff, x), "initial", x)
        for x in (0, -1, *NO_SECONDS)
    ],
    *[
        bad(f"rest {x!r:.8} at most", partial(Backoff, 2, x), "maximum", x)
        for x in (1, -1, *NO_SECONDS)
    ],
    bad("no order", lambda: Order("fifo"), "order", "fifo"),
    bad("no way of being blocked", lambda: WhenBlocked("never"), "when_blocked", "never"),
]

CLAIMS = [
    *[
        claim(f"{key} of {x!r}", key, x, labels={key.replace("min-available", "name"): "g", key: x})
        for key in (COLON, MINIMUM)
        for x in ("0", "-1", "1.5", "two", "", " 2", "1e1", "²", "9" * 10)
    ],
    claim("a minimum without a name", NAME, None, labels={MINIMUM: "2"}),
    claim("an empty name", NAME, "", labels={NAME: ""}),
    claim("an empty field", CORE, "", pod_group=""),
    claim(
        "two labels, two groups",
        "pod-group/name",
        group_key("default", "h"),
        labels={NAME: "g", "pod-group/name": "h"},
    ),
    claim(
        "a label and an annotation, two groups",
        "scheduling.k8s.io/group-name",
        group_key("default", "h"),
        labels={NAME: "g"},
        annotations={"scheduling.k8s.io/group-name": "h"},
    ),
    claim(
        "a field and a label, two groups",
        NAME,
        group_key("default", "h"),
        pod_group="g",
        labels={NAME: "h"},
    ),
    claim(
        "one group, two minima",
        COLON,
        3,
        labels={NAME: "g", MINIMUM: "2", "pod-group/name": "g", COLON: "3"},
    ),
]

ROWS = [*PODS, *GROUPS, *NODES, *CONDITIONS, *AMOUNTS, *DECISIONS, *CLAIMS]


@pytest.mark.parametrize(("call", "error", "fields"), ROWS)
def test_bad_argument_is_refused_by_field_and_value(
    call: Callable[[], object], error: type[GangschedError], fields: dict[str, object]
) -> None:
    """F23, F27, F28, F51."""
    check_refusal(call, error, fields)


def test_list_is_long() -> None:
    assert len(ROWS) > 100
