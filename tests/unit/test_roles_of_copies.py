"""``Role``: leaves, copies that consist of roles, and groups of them."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import find, given
from hypothesis import strategies as st

import gangsched
from gangsched import (
    InvalidPodGroupError,
    InvalidValueError,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodGroup,
    Resources,
    RestartPolicy,
    Role,
    Toleration,
    Topology,
    gangs,
    membership,
    model,
    strategies,
)
from gangsched.values.form_table import GROUP

TERM = NodeSelectorTerm((NodeSelectorRequirement("pool", "In", ("cpu",)),))
DECODE = Role(4, minimum=2, roles={"leader": 1, "worker": 3}, topology=Topology("rack"))


def group(**more: Any) -> PodGroup:
    return PodGroup(name="serve", **more)


def test_role_is_found_by_each_of_its_import_paths() -> None:
    assert gangsched.Role is gangs.Role is model.Role is Role


@pytest.mark.parametrize(
    ("role", "needed", "least"),
    [
        (Role(3), 3, 1),
        (Role(3, 2), 2, 1),
        (DECODE, 2, 4),
        (Role(2, roles={"worker": Role(8, minimum=5), "leader": 1}), 2, 6),
        (Role(5, 1, roles={"a": Role(3, minimum=2, roles={"b": Role(4, 3), "c": 2})}), 1, 10),
    ],
)
def test_role_needs_copies_and_a_copy_needs_pods(role: Role, needed: int, least: int) -> None:
    assert (role.needed, role.least) == (needed, least)


def test_role_is_a_value() -> None:
    made = Role(
        2,
        requests={"cpu": "500m"},
        node_selector={"pool": "a"},
        affinity=iter([TERM]),
        tolerations=[Toleration(key="x")],
        roles={"a": Role(2, minimum=1, restart=RestartPolicy(), evicted_whole=True)},
    )
    assert made.requests == Resources({"cpu": "500m"})
    assert made == pickle.loads(pickle.dumps(made))
    assert hash(made) == hash(pickle.loads(pickle.dumps(made)))
    assert eval(repr(made), {**vars(model), **vars(gangsched)}) == made
    assert repr(DECODE) == (
        "Role(count=4, minimum=2, roles={'leader': 1, 'worker': 3}, topology=Topology(key='rack'))"
    )


@pytest.mark.parametrize(
    ("own", "field", "value"),
    [
        ({"count": 0}, "count", 0),
        ({"count": True}, "count", True),
        ({"minimum": 0}, "minimum", 0),
        ({"minimum": 3}, "minimum", 3),
        ({"requests": 3}, "requests", 3),
        ({"requests": {"cpu": "x"}}, "requests.cpu", "x"),
        ({"requests": {"cpu": -1}}, "requests.cpu", "-1"),
        ({"node_selector": 3}, "node_selector", 3),
        ({"node_selector": {"a": 3}}, "node_selector.a", 3),
        ({"affinity": 3}, "affinity", 3),
        ({"affinity": [3]}, "affinity[0]", 3),
        ({"tolerations": ["x"]}, "tolerations[0]", "x"),
        ({"roles": 3}, "roles", 3),
        ({"roles": {"": 1}}, "roles", ""),
        ({"roles": {"a/b": 1}}, "roles", "a/b"),
        ({"roles": {"a": 0}}, "roles['a']", 0),
        ({"roles": {"a": "1"}}, "roles['a']", "1"),
        ({"topology": "rack"}, "topology", "rack"),
        ({"restart": 1}, "restart", 1),
        ({"evicted_whole": 1}, "evicted_whole", 1),
    ],
)
def test_malformed_attribute_of_a_role_is_named(
    own: dict[str, Any], field: str, value: object
) -> None:
    arguments: dict[str, Any] = {"count": 2, **own}
    with pytest.raises(InvalidValueError) as caught:
        Role(**arguments)
    assert (caught.value.field, caught.value.value) == (field, value)


def test_group_needs_what_its_roles_need() -> None:
    made = group(roles={"decode": DECODE, "prefill": Role(6, minimum=3), "router": 1})
    assert made.min_available == 2 * 4 + 3 + 1
    assert made.has_copies
    assert dict(made.roles) == {"decode": DECODE, "prefill": 3, "router": 1}
    with pytest.raises(InvalidPodGroupError, match="min_available, which is 11"):
        group(roles=made.roles, min_available=11)


@pytest.mark.parametrize(
    ("role", "stored"),
    [
        (Role(6), 6),
        (Role(6, minimum=3, requests={"cpu": 1}, node_selector={"a": "b"}), 3),
        *[
            (role, role)
            for role in (
                Role(6, topology=Topology("rack")),
                Role(6, restart=RestartPolicy()),
                Role(6, evicted_whole=True),
            )
        ],
    ],
)
def test_role_of_pods_that_only_counts_is_stored_as_its_minimum(
    role: Role, stored: int | Role
) -> None:
    made = group(roles={"a": role})
    assert made.roles["a"] == stored
    assert made.min_available == role.needed
    assert not made.has_copies


@pytest.mark.parametrize(
    ("roles", "field", "value"),
    [
        ({"a/b": 1}, "roles", "a/b"),
        ({"a.b": 1, "decode": DECODE}, "roles", "a.b"),
        ({"decode": Role(2, roles={"a.b": 1})}, "roles['decode'].roles", "a.b"),
        (
            {"a": Role(2, roles={"b": Role(1, roles={"c.d": 1})})},
            "roles['a'].roles['b'].roles",
            "c.d",
        ),
        ({"a": 1.5, "decode": DECODE}, "roles['a']", 1.5),
    ],
)
def test_names_of_roles_must_make_paths(roles: Any, field: str, value: object) -> None:
    with pytest.raises(InvalidPodGroupError) as caught:
        group(roles=roles)
    assert (caught.value.field, caught.value.value) == (field, value)


def test_dot_in_a_name_is_no_error_without_copies() -> None:
    assert group(roles={"a.b": Role(2, topology=Topology("rack"))}).min_available == 2


@pytest.mark.parametrize("role", ["/", "/a", "a/", "a//b"])
def test_path_of_a_pod_has_no_empty_part(role: str) -> None:
    assert Pod(name="p", role="decode/0/worker").role == "decode/0/worker"
    with pytest.raises(InvalidValueError, match="role must be"):
        Pod(name="p", role=role)


# Written and read -----------------------------------------------------------------------------


def test_group_with_copies_is_written_to_json_and_read_back() -> None:
    worker = Role(3, minimum=2, requests={"cpu": "500m"}, affinity=[TERM], node_selector={"a": "b"})
    decode = Role(4, minimum=2, roles={"leader": 1, "worker": worker}, topology=Topology("rack"))
    router = Role(2, tolerations=[Toleration(key="x")], restart=RestartPolicy(), evicted_whole=True)
    made = group(roles={"decode": decode, "router": router, "cache": 1}, topology=Topology("block"))
    written = json.loads(json.dumps(GROUP.write(made)))
    assert written["roles"]["decode"]["roles"]["leader"] == 1
    assert written["roles"]["decode"]["roles"]["worker"]["requests"] == {"cpu": 500}
    assert GROUP.read(written, "group") == made


@pytest.mark.parametrize(
    ("roles", "field"),
    [
        ({"a": "1"}, "group.roles.a"),
        ({"a": {}}, "group.roles.a.count"),
        ({"a": {"count": 1, "minimum": 2}}, "group.roles.a.minimum"),
        ({"a": {"count": 1, "roles": {"b": []}}}, "group.roles.a.roles.b"),
        (
            {"a": {"count": 1, "roles": {"b": {"count": 1, "size": 2}}}},
            "group.roles.a.roles.b.size",
        ),
        ({"a": {"count": 1, "roles": {"b": 0}}}, "group.roles.a.roles['b']"),
    ],
)
def test_malformed_role_in_json_is_refused_by_its_path(roles: Any, field: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        GROUP.read({"name": "g", "min_available": 1, "roles": roles}, "group")
    assert caught.value.field == field


# Paths in labels ------------------------------------------------------------------------------


def test_dots_of_a_label_are_a_path_only_if_the_group_has_copies() -> None:
    assert group(roles={"decode": DECODE}).path_of("decode.0.worker") == "decode/0/worker"
    assert group(roles={"a.b": 2}).path_of("a.b") == "a.b"
    assert group(roles={"decode": DECODE}).path_of(None) is None


def test_path_of_a_pod_agrees_with_the_label_that_spells_it() -> None:
    def labelled(role: str) -> Pod:
        labels = {"pod-group/name": "serve", "pod-group/role": role}
        return Pod(name="p", role="decode/0/worker", labels=labels)

    claim = membership(labelled("decode.0.worker"))
    assert claim is not None
    assert claim.role == "decode/0/worker"
    with pytest.raises(InvalidPodGroupError, match=r"the value of Pod\.role"):
        membership(labelled("decode.1.worker"))


# Drawn ----------------------------------------------------------------------------------------


def paths(roles: Mapping[str, int | Role], levels: int = 1) -> Iterator[int]:
    """Yield how many roles lead to each pod."""
    for role in roles.values():
        each = role if isinstance(role, Role) else Role(role)
        for _ in range(each.count):
            yield from paths(each.roles, levels + 1) if each.roles else [levels]


@given(strategies.roles())
def test_drawn_roles_are_few_and_make_a_gang(roles: dict[str, int | Role]) -> None:
    found = list(paths(roles))
    assert 1 <= len(found) <= 8
    assert max(found) <= 3
    made = gangsched.gang("g", roles=roles)
    assert len(made.pods) == len(found)
    assert made.group.min_available <= len(found)


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_roles_of_each_depth_are_drawn(levels: int) -> None:
    find(strategies.roles(), lambda roles: max(paths(roles)) == levels)
    find(strategies.roles(), lambda roles: len(list(paths(roles))) == 8)


@given(st.from_type(Role))
def test_role_is_drawn_by_its_type(role: Role) -> None:
    assert 1 <= role.needed <= role.count


@pytest.mark.parametrize("required", [False, True])
def test_topology_that_prefers_a_level_is_drawn_by_its_type(required: bool) -> None:
    drawn = find(
        st.from_type(Topology), lambda each: each.required is required and each.prefer is not None
    )
    assert drawn == Topology("x", required, prefer="z")
    assert find(st.from_type(Topology), lambda _each: True).prefer is None, "the simplest"


@pytest.mark.parametrize(
    "status", [3, {"": (1, None)}, {"a": 1}, {"a": (0, None)}, {"a": (1, "soon")}, {"a": (1,)}]
)
def test_malformed_restarts_of_copies_are_refused(status: Any) -> None:
    with pytest.raises(InvalidPodGroupError, match="copy_restarts"):
        group(roles={"decode": DECODE}, copy_restarts=status)
