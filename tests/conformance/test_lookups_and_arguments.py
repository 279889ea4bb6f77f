"""Rows 56 to 68: finding a group, forgetting it, and the arguments of a policy."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched import (
    Backoff,
    ClusterState,
    Coscheduling,
    InMemoryCluster,
    InvalidValueError,
    PodAdded,
    PodGroupAdded,
    PodGroupRegistry,
    PodUID,
    Scheduler,
    membership,
    presets,
)
from support.conformance import gang, row, rows, worker

# Finding a group ------------------------------------------------------------------------------


pytestmark = pytest.mark.once("makes no scheduler that decides")


@rows(56)
def test_labelled_pod_leads_to_its_group() -> None:
    spec, pod = gang("alder", 6), worker("alder-0", "alder")
    cluster = InMemoryCluster()
    scheduler = presets.coscheduling(cluster)
    for fact in (PodGroupAdded(spec), PodAdded(pod)):
        scheduler.handle(cluster.apply(fact), now=0.0)

    claim = membership(pod)
    assert claim is not None
    assert claim.group == "lab/alder"
    assert cluster.pod_group(claim.group) == spec
    known = scheduler.registry.get(claim.group)
    assert known is not None
    assert (known.spec, known.min_available) == (spec, 6)


@rows(57, ours=True)
def test_port_to_a_cluster_has_methods_that_read_and_no_client() -> None:
    """F34, F36: it answers from memory, so there is nothing that a client could be refused."""
    asked = {name for name in vars(ClusterState) if not name.startswith("_")}
    assert asked == {"nodes", "node", "pods", "pod", "pods_on", "pod_groups", "pod_group"}
    cluster = InMemoryCluster()
    Scheduler(cluster, presets.coscheduling_profile()).advance(now=0.0)
    assert [*cluster.nodes(), *cluster.pods(), *cluster.pod_groups()] == []


# Arguments ------------------------------------------------------------------------------------


@rows(58, ours=True)
def test_policy_without_arguments_waits_ten_seconds_and_tolerates_no_gap() -> None:
    policy = Coscheduling()
    assert (policy.permit_timeout, policy.reject_percentage) == (10.0, 0)
    assert not hasattr(policy, "backoff")


@rows(59, ours=True)
def test_arguments_are_kept_and_the_scheduler_sets_the_backoff() -> None:
    policy = Coscheduling(permit_timeout=45, reject_percentage=35)
    assert (policy.permit_timeout, policy.reject_percentage) == (45, 35)
    rest = Backoff(15, 15)
    assert {rest.delay(failures) for failures in range(1, 9)} == {15}
    Scheduler(InMemoryCluster(), presets.coscheduling_profile(policy), backoff=rest)


@rows(60, ours=True)
def test_boundary_values_are_accepted_except_a_backoff_of_zero() -> None:
    for percentage in (0, 10, 100):
        assert Coscheduling(permit_timeout=25, reject_percentage=percentage)
    assert Coscheduling(permit_timeout=0).permit_timeout == 0
    with pytest.raises(InvalidValueError):
        Backoff(0, 0)


@pytest.mark.parametrize(
    ("make", "values", "field"),
    [
        row(61, Coscheduling, [{"permit_timeout": -7}], "permit_timeout"),
        row(62, Backoff, [{"initial": -15}], "initial"),
        row(
            63,
            Coscheduling,
            [{"reject_percentage": bad} for bad in (-3, 101, 140, 50.0, "50", True)],
            "reject_percentage",
        ),
        # of several that are wrong, the first is named
        row(
            64,
            Coscheduling,
            [{"permit_timeout": -7, "reject_percentage": -3}],
            "permit_timeout",
            ours=True,
        ),
    ],
)
def test_argument_that_cannot_be_is_refused_by_name(
    make: Any, values: list[dict[str, object]], field: str
) -> None:
    """Rows 61 to 64."""
    for given in values:
        with pytest.raises(InvalidValueError) as caught:
            make(**given)
        assert (caught.value.field, caught.value.value) == (field, given[field])
        assert str(caught.value).startswith(f"{field} must be ")


@rows(65, ours=True)
def test_argument_that_does_not_exist_is_a_type_error() -> None:
    policy: Any = Coscheduling
    with pytest.raises(TypeError, match="kube_config_path"):
        policy(kube_config_path="/etc/config")
    with pytest.raises(TypeError):
        policy(10.0)


@rows(66, ours=True)
def test_profile_that_says_nothing_of_the_policy_has_its_defaults() -> None:
    (gate,) = presets.coscheduling_profile().permit
    assert gate == Coscheduling()
    assert gate == Coscheduling(permit_timeout=10.0, reject_percentage=0)


# Forgetting a group ---------------------------------------------------------------------------


def registry_of(*names: str) -> PodGroupRegistry:
    """Return a registry that keeps a group for a minute, with members that arrived."""
    registry = PodGroupRegistry(grace=60.0)
    for name in names:
        pod = worker(name, "alder", priority=4)
        claim = membership(pod)
        assert claim is not None
        registry.join(pod, claim)
    return registry


def uid(name: str) -> PodUID:
    return PodUID(f"lab/{name}")


ALDER = gang("alder", 1).key


@rows(67, ours=True)
def test_group_is_kept_for_the_grace_after_its_last_member_left() -> None:
    """F39: a member that is deleted beside others marks nothing."""
    registry = registry_of("a", "b")
    registry.leave(ALDER, uid("a"), now=5.0)
    registry.expire(now=500.0)
    assert ALDER in registry
    registry.leave(ALDER, uid("b"), now=501.0)
    registry.expire(now=560.9)
    assert ALDER in registry


@rows(68, ours=True)
def test_group_is_forgotten_in_the_instant_in_which_its_grace_ends() -> None:
    """F38; nothing sweeps."""
    registry = registry_of("a")
    registry.leave(ALDER, uid("a"), now=5.0)
    registry.expire(now=65.0)
    assert ALDER not in registry
    assert len(registry) == 0
