"""The builder of gangs: names, roles, minima, requests, and bad input."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched import (
    InvalidPodGroupError,
    InvalidValueError,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    RestartPolicy,
    Role,
    Topology,
    gang,
    membership,
)


def test_gang_of_workers_needs_all_of_them() -> None:
    train = gang("train", workers=3, gpu=2, memory="1Gi", priority=7, namespace="team")
    assert (train.group.key, train.group.min_available, train.group.priority) == (
        "team/train",
        3,
        7,
    )
    assert [pod.key for pod in train.pods] == [f"team/train-{n}" for n in range(3)]
    for pod in train.pods:
        claim = membership(pod)
        assert claim is not None
        assert (claim.group, claim.role, pod.priority) == ("team/train", None, 7)
        assert dict(pod.requests) == {"memory": 2**30 * 1000, "nvidia.com/gpu": 2000}


def test_roles_have_their_own_counts_minima_and_requests() -> None:
    fit = gang("fit", roles={"ps": 1, "worker": Role(3, minimum=2, requests={"cpu": 4})}, cpu=1)
    assert dict(fit.group.roles) == {"ps": 1, "worker": 2}
    assert fit.group.min_available == 3
    found = [(pod.name, pod.requests.amount("cpu")) for pod in fit.pods]
    workers = [(f"fit-worker-{n}", 4000) for n in range(3)]
    assert found == [("fit-ps-0", 1000), *workers]
    claims = [membership(pod) for pod in fit.pods]
    assert [claim and claim.role for claim in claims] == ["ps", "worker", "worker", "worker"]


def test_minimum_below_the_workers_makes_the_others_elastic() -> None:
    assert gang("g", workers=4, min_available=2).group.min_available == 2


def test_events_add_the_group_before_its_pods() -> None:
    made = gang("g", workers=2)
    assert list(made.events()) == [PodGroupAdded(made.group), *map(PodAdded, made.pods)]


def test_generation_makes_other_pods_of_one_name() -> None:
    first, second = (gang("g", workers=1, generation=each) for each in "ab")
    assert first.pods[0].name == second.pods[0].name
    assert first.pods[0].uid != second.pods[0].uid


def test_labels_are_kept_beside_the_role() -> None:
    made = gang("g", roles={"ps": 1}, labels={"app": "x"}, node_selector={"zone": "a"})
    assert dict(made.pods[0].labels) == {"app": "x"}
    assert dict(made.pods[0].node_selector) == {"zone": "a"}
    claim = membership(made.pods[0])
    assert claim is not None
    assert claim.role == "ps"


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({}, "workers"),
        ({"workers": 0}, "workers"),
        ({"workers": True}, "workers"),
        ({"workers": 1, "roles": {"a": 1}}, "workers"),
        ({"roles": {}}, "roles"),
        ({"roles": {"a": 0}}, "roles['a']"),
        ({"roles": 3}, "roles"),
        ({"workers": 1, "uid": "x"}, "uid"),
        ({"workers": 1, "labels": 3}, "labels"),
        ({"workers": 1, "requests": 3}, "requests"),
        ({"workers": 1, "generation": 3}, "generation"),
        ({"workers": 1, "generation": ""}, "generation"),
        ({"workers": 2, "min_available": 3}, "min_available"),
    ],
)
def test_bad_input_names_the_argument(arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        gang("g", **arguments)
    assert caught.value.field == field


def test_role_refuses_a_minimum_above_its_count() -> None:
    with pytest.raises(InvalidValueError, match="minimum"):
        Role(2, minimum=3)


def test_group_refuses_a_minimum_that_is_no_count() -> None:
    with pytest.raises(InvalidPodGroupError, match="min_available"):
        gang("g", workers=2, min_available=0)


@pytest.mark.parametrize("name", ["nope", "pod_group", "role", "group"])
def test_argument_that_no_pod_has_is_refused_by_its_name(name: str) -> None:
    arguments: dict[str, Any] = {name: "x"}
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
        gang("g", workers=1, **arguments)


def test_role_with_requests_of_its_own_has_none_of_the_gang() -> None:
    made = gang("g", roles={"ps": Role(1, requests={"memory": "1Gi"}), "worker": 1}, cpu=2)
    assert [set(pod.requests) for pod in made.pods] == [{"memory"}, {"cpu"}]


def test_pods_of_copies_name_their_role_by_its_path() -> None:
    decode = Role(2, minimum=1, roles={"worker": 2, "leader": 1}, topology=Topology("rack"))
    made = gang("serve", roles={"decode": decode, "prefill": Role(2, minimum=1), "router": 1})
    assert [(pod.name, pod.role) for pod in made.pods] == [
        ("serve-decode-0-leader-0", "decode/0/leader"),
        ("serve-decode-0-worker-0", "decode/0/worker"),
        ("serve-decode-0-worker-1", "decode/0/worker"),
        ("serve-decode-1-leader-0", "decode/1/leader"),
        ("serve-decode-1-worker-0", "decode/1/worker"),
        ("serve-decode-1-worker-1", "decode/1/worker"),
        ("serve-prefill-0", "prefill"),
        ("serve-prefill-1", "prefill"),
        ("serve-router-0", "router"),
    ]
    assert dict(made.group.roles) == {"decode": decode, "prefill": 1, "router": 1}
    assert made.group.min_available == 3 + 1 + 1
    claim = membership(made.pods[1])
    assert claim is not None
    assert claim.role == "decode/0/worker"


def test_copies_of_copies_are_numbered_at_each_level() -> None:
    made = gang("g", roles={"a": Role(1, roles={"b": Role(2, roles={"c": 1})})})
    assert [(pod.name, pod.role) for pod in made.pods] == [
        ("g-a-0-b-0-c-0", "a/0/b/0/c"),
        ("g-a-0-b-1-c-0", "a/0/b/1/c"),
    ]


def test_attributes_of_a_role_are_the_defaults_of_the_roles_below() -> None:
    leader = Role(1, node_selector={})
    replica = Role(
        1,
        requests={"cpu": 2},
        node_selector={"pool": "a"},
        roles={"leader": leader, "worker": Role(1, requests={"cpu": 4})},
    )
    made = gang("g", roles={"r": replica, "router": 1}, cpu=1, node_selector={"pool": "b"})
    assert [(pod.requests.amount("cpu"), dict(pod.node_selector)) for pod in made.pods] == [
        (2000, {}),
        (4000, {"pool": "a"}),
        (1000, {"pool": "b"}),
    ]


def test_gang_passes_on_what_the_group_takes() -> None:
    policy = RestartPolicy(max_restarts=2)
    made = gang("g", workers=2, restart=policy, bundle=["default/h"], evicted_whole=True)
    assert made.group == PodGroup(
        name="g",
        min_available=2,
        priority=0,
        restart=policy,
        bundle=("default/h",),
        evicted_whole=True,
    )


def test_pods_of_two_roles_must_not_have_one_name() -> None:
    with pytest.raises(InvalidValueError, match="g-a-0-b-0"):
        gang("g", roles={"a": Role(1, roles={"b": 1}), "a-0-b": 1})


def test_quorum_of_copies_is_at_least_what_they_need() -> None:
    roles = {"a": Role(3, minimum=2, roles={"b": 2})}
    assert gang("g", roles=roles, min_available=5).group.min_available == 5
    with pytest.raises(InvalidPodGroupError, match="roles"):
        gang("g", roles=roles, min_available=3)
    with pytest.raises(InvalidValueError, match="number of pods, which is 6"):
        gang("g", roles=roles, min_available=7)
