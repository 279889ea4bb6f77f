"""A pod with a hard constraint that is not modelled is not scheduled, whatever the profile."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from gangsched import (
    Bind,
    GroupIncomplete,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    PodNotAdmitted,
    PodUpdated,
    Scheduler,
    presets,
)

GROUP = {"pod-group.scheduling.sigs.k8s.io/name": "g"}
HELD = Pod(name="p", unmodelled=["spec.resourceClaims", "spec.new"])


class Host:
    def __init__(self) -> None:
        self.cluster = InMemoryCluster()
        self.scheduler: Scheduler = presets.coscheduling(self.cluster)
        self.tell(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 8})))

    def tell(self, event: Any) -> list[Any]:
        effects = list(self.scheduler.handle(self.cluster.apply(event), now=0.0))
        while (more := self.scheduler.schedule_one(now=0.0)) is not None:
            effects += more
        return effects


def test_pod_with_an_unmodelled_constraint_is_held_and_the_notice_names_it() -> None:
    host = Host()
    reason = "has constraints that are not modelled: spec.resourceClaims, spec.new"
    assert host.tell(PodAdded(HELD)) == [PodNotAdmitted(HELD.uid, reason)]
    assert reason in str(host.scheduler.why(HELD.uid))
    assert HELD.is_gated


def test_held_pod_is_scheduled_once_it_has_no_such_constraint() -> None:
    host = Host()
    host.tell(PodAdded(HELD))
    effects = host.tell(PodUpdated(evolve(HELD, unmodelled=())))
    assert any(isinstance(effect, Bind) for effect in effects)


def test_held_pod_names_its_scheduling_gates_too() -> None:
    effects = Host().tell(PodAdded(evolve(HELD, scheduling_gates=["x"])))
    (notice,) = effects
    assert notice.reason.startswith("has scheduling gates: x; has constraints that are not")


def test_held_member_does_not_count_for_the_quorum() -> None:
    host = Host()
    host.tell(PodGroupAdded(PodGroup(name="g", min_available=2)))
    host.tell(PodAdded(evolve(HELD, labels=GROUP)))
    effects = host.tell(PodAdded(Pod(name="q", labels=GROUP)))
    assert not any(isinstance(effect, Bind) for effect in effects)
    assert any(isinstance(effect, GroupIncomplete) for effect in effects)


def test_bound_pod_counts_whatever_it_states() -> None:
    host = Host()
    host.tell(PodAdded(evolve(HELD, node_name="n", requests={"cpu": 8})))
    effects = host.tell(PodAdded(Pod(name="q", requests={"cpu": 1})))
    assert not any(isinstance(effect, Bind) for effect in effects)
