"""Minima per role: reading, notices, simulation, and plugins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from attrs import evolve

from gangsched import (
    Coscheduling,
    GroupIncomplete,
    GroupKey,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    Outcome,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    PodGroupPhase,
    PodPhase,
    PodUID,
    Profile,
    Scheduler,
    explain,
    pod_group_status,
)
from gangsched.errors import ManifestError, PluginError
from gangsched.framework.queueing import equivalence, requeue
from gangsched.framework.state.role_count import RoleCount
from gangsched.membership import membership
from gangsched.outcomes import SUCCESS, Wait
from gangsched.plugins import DefaultBinder, NodeResources, PrioritySort
from gangsched.protocols import CycleView, GroupView
from gangsched.simulation.describe import EventLog
from gangsched.simulation.jobs import Jobs
from gangsched.simulation.manifests import load_manifests
from gangsched.testing import make_pod
from support.driver import Driver
from support.faulty_plugin import problem_with

G = GroupKey("default/g")
SPEC = PodGroup(name="g", roles={"ps": 1, "worker": 2})


def member(name: str, role: str | None = None, **fields: Any) -> Pod:
    return make_pod(name, group="g", role=role, **{"cpu": 1, **fields})


def driver(*plugins: object, cpu: int = 9) -> Driver:
    chosen = plugins or (Coscheduling(),)
    profile = Profile(*chosen, NodeResources(), DefaultBinder())
    made = Driver(lambda cluster: Scheduler(cluster, profile))
    made.tell(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": cpu})), PodGroupAdded(SPEC))
    return made


# What is read ---------------------------------------------------------------------------------


def volcano(**spec: Any) -> tuple[PodGroup, tuple[str, ...]]:
    document = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "x"},
        "spec": spec,
    }
    workload = load_manifests(yaml.safe_dump(document), file="f.yaml")
    (arrival,) = workload.arrivals
    assert isinstance(arrival.event, PodGroupAdded)
    return arrival.event.group, workload.skipped


def test_minima_of_volcanos_tasks_are_those_of_roles() -> None:
    group, notes = volcano(minMember=5, minTaskMember={"ps": 1, "worker": 4, "spare": 0})
    assert group == PodGroup(name="x", roles={"ps": 1, "worker": 4})
    assert notes == ()
    assert volcano(minMember=1, minTaskMember={}) == (PodGroup(name="x", min_available=1), ())


def test_minima_of_tasks_that_exceed_the_groups_are_passed_over_as_volcano_does() -> None:
    group, notes = volcano(minMember=2, minTaskMember={"ps": 1, "worker": 2})
    assert group == PodGroup(name="x", min_available=2)
    (note,) = notes
    said = "spec.minTaskMember adds up to more than spec.minMember and was ignored"
    assert note.endswith(f"PodGroup default/x: {said}")


@pytest.mark.parametrize("bad", [{"ps": -1}, {"ps": "1"}, {"ps": 1.5}, {"": 1}, ["ps"], "ps"])
def test_malformed_minima_of_tasks_are_refused_by_path(bad: Any) -> None:
    with pytest.raises(ManifestError) as caught:
        volcano(minMember=5, minTaskMember=bad)
    assert caught.value.field.startswith("spec.minTaskMember")


@pytest.mark.parametrize(
    ("kind", "specs", "types", "roles"),
    [
        ("TFJob", "tfReplicaSpecs", ("PS", "Worker"), ["ps", "worker"]),
        ("PyTorchJob", "pytorchReplicaSpecs", ("Master", "Worker"), ["master", "worker"]),
        ("MPIJob", "mpiReplicaSpecs", ("Worker", "Launcher"), ["worker", "launcher"]),
    ],
)
def test_pods_of_a_job_say_which_replicas_they_are(
    kind: str, specs: str, types: tuple[str, ...], roles: list[str]
) -> None:
    template: dict[str, Any] = {"spec": {"containers": [{}]}}
    document = {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "metadata": {"name": "j"},
        "spec": {
            specs: {each: {"replicas": 1, "template": template} for each in types},
            "runPolicy": {"schedulingPolicy": {"minAvailable": 2}},
        },
    }
    workload = load_manifests(yaml.safe_dump(document), file="f.yaml")
    pods = [a.event.pod for a in workload.arrivals if isinstance(a.event, PodAdded)]
    claims = [membership(pod) for pod in pods]
    assert [claim.role for claim in claims if claim is not None] == roles


# Notices --------------------------------------------------------------------------------------


def test_missing_role_is_reported_in_words() -> None:
    log = EventLog()
    log.effects((GroupIncomplete(G, 5, 5, (("ps", 1, 0), ("worker", 4, 3))),), 2.0)
    (entry,) = log.entries
    assert entry.message == "Has 5 members, needs 5, 1 ps (has 0), 4 worker (has 3)"


@pytest.mark.parametrize(
    ("why", "missing", "said"),
    [
        (
            explain.NotEnoughMembers(G, 5, 5, (("gated", 1),), (("ps", 2, 0),)),
            2,
            "waiting for 2 more ps: 0 of 2 exist, 1 more gated",
        ),
        (
            explain.NotEnoughMembers(G, 2, 5, (), (("ps", 1, 0),)),
            3,
            "waiting for 3 more members: 2 of 5 exist; 1 more ps: 0 of 1 exist",
        ),
        (
            explain.NotEnoughMembers(G, 2, 5),
            3,
            "waiting for 3 more members: 2 of 5 exist",
        ),
    ],
)
def test_answer_says_which_role_is_missing(
    why: explain.NotEnoughMembers, missing: int, said: str
) -> None:
    assert (why.missing, str(why)) == (missing, said)


# The status -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("servers", "workers", "phase"),
    [
        ("", "RRRR", PodGroupPhase.PENDING),
        ("P", "RRR", PodGroupPhase.SCHEDULING),
        ("R", "RRP", PodGroupPhase.RUNNING),
        ("F", "RRR", PodGroupPhase.FAILED),
        ("R", "SSS", PodGroupPhase.RUNNING),
        ("S", "SSR", PodGroupPhase.FINISHED),
    ],
)
def test_quorum_of_a_phase_has_its_roles_too(
    servers: str, workers: str, phase: PodGroupPhase
) -> None:
    letters = {phase.value[0]: phase for phase in PodPhase}
    pods = [evolve(member(f"s{n}", "ps"), phase=letters[c]) for n, c in enumerate(servers)]
    pods += [evolve(member(f"w{n}", "worker"), phase=letters[c]) for n, c in enumerate(workers)]
    assert pod_group_status(SPEC, pods).phase is phase


# The simulator's jobs -------------------------------------------------------------------------


def test_work_of_a_job_begins_when_each_role_has_its_minimum() -> None:
    jobs = Jobs()
    jobs.add_group(SPEC, now=0.0)
    for n in range(3):
        jobs.add_pod(member(f"w{n}", "worker"), now=1.0)
    (job,) = jobs
    assert job.submitted_at is None
    jobs.add_pod(member("s0", "ps"), now=2.0)
    assert job.submitted_at == 2.0
    for n in range(3):
        assert jobs.bind(PodUID(f"default/w{n}"), now=3.0) == []
        jobs._check()
    assert len(jobs.bind(PodUID("default/s0"), now=4.0)) == 4
    assert job.started_at == 4.0
    jobs._check()
    jobs.remove_pod(PodUID("default/s0"), now=5.0)
    assert set(job.roles.values()) == {"worker"}


# What plugins are asked -----------------------------------------------------------------------


class OnlyMinima:
    """A gang rule without roles."""

    name = "OnlyMinima"

    def members_needed(self, group: GroupView) -> int | None:
        """Return the number of members that the group lacks."""
        return (group.min_available or 0) - group.scheduled

    def permit(self, state: CycleView, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        """Succeed with a quorum."""
        assert state.group is not None
        more = self.members_needed(state.group)
        return Wait(9.0) if more is not None and more > 0 else SUCCESS


class WithRoles(OnlyMinima):
    """A gang rule with roles that returns any given answer."""

    name = "WithRoles"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def roles_needed(self, group: GroupView) -> Mapping[str, int]:
        """Return the given answer."""
        if isinstance(self.answer, Exception):
            raise self.answer
        answer: Mapping[str, int] = self.answer
        return answer


def quotas(made: Driver) -> list[tuple[str | None, int]]:
    state = made.scheduler._state
    found = equivalence.role_counts(state.settings, state.call, state.pods.entities[G])
    assert {each.group for each in found} == {G}
    return [(each.role, each.count) for each in found]


def test_rule_that_knows_no_roles_is_not_asked_for_them() -> None:
    made = driver(OnlyMinima(), PrioritySort())
    made.watched = False
    made.add(*(member(f"w{n}", "worker") for n in range(3)))
    assert quotas(made) == [(None, 3)]
    made.drain()
    assert all(pod.node_name for pod in made.cluster.pods())


def test_only_the_rule_that_counts_is_asked_for_roles() -> None:
    both = Profile(OnlyMinima(), WithRoles({}), PrioritySort(), DefaultBinder())
    assert both.quorum is both.plugins[0]
    assert both.roles is None
    other = Profile(WithRoles({}), OnlyMinima(), PrioritySort(), DefaultBinder())
    assert other.roles is other.plugins[0]


def test_roles_without_a_rule_are_those_of_the_specification() -> None:
    made = driver(PrioritySort())
    made.add(member("w0", "worker"))
    assert quotas(made) == [(None, 3), ("ps", 1), ("worker", 2)]


@pytest.mark.parametrize("answer", [None, {"ps": "1"}, {1: 1}, {"ps": True}, RuntimeError("no")])
def test_rule_that_breaks_its_contract_on_roles_is_a_plugin_error(answer: Any) -> None:
    cluster = InMemoryCluster()
    scheduler = Scheduler(
        cluster, Profile(WithRoles(answer), PrioritySort(), NodeResources(), DefaultBinder())
    )
    scheduler.handle(cluster.apply(PodGroupAdded(SPEC)), now=0.0)
    scheduler.handle(cluster.apply(PodAdded(member("w0", "worker"))), now=0.0)
    with pytest.raises(PluginError) as caught:
        scheduler.why(G)
    problem = problem_with("roles_needed", answer)
    assert str(caught.value) == f"plugin 'WithRoles' at roles_needed for default/g: {problem}"
    assert scheduler._state.call.deferred == []


# How many, and which is next ------------------------------------------------------------------


def test_quotas_say_how_many_of_each_role_and_in_all() -> None:
    made = driver(cpu=2)
    made.tell(PodGroupAdded(PodGroup(name="g", roles=SPEC.roles, min_available=4)))
    made.add(*(member(f"w{n}", "worker") for n in range(4)), member("s", "ps"))
    assert quotas(made) == [(None, 4), ("ps", 1), ("worker", 2)]
    made.step()
    assert quotas(made) == [(None, 3), ("ps", 1), ("worker", 1)]
    made.step()
    assert quotas(made) == [(None, 2), ("ps", 1)]
    assert not equivalence.falls_short(
        made.scheduler._state.settings,
        made.scheduler._state.call,
        made.scheduler._state.pods.entities[G],
    )
    roles = {member.pod.name: member.role for member in made.scheduler._state.pods.members.values()}
    assert roles == {"w0": "worker", "w1": "worker", "w2": "worker", "w3": "worker", "s": "ps"}


def test_earliest_member_is_tried_while_any_will_do() -> None:
    made = driver()
    made.tell(PodGroupAdded(PodGroup(name="g", roles={"ps": 1}, min_available=3)))
    made.add(*(member(f"w{n}", "worker") for n in range(4)), member("s", "ps"))
    for name in ("w0", "w1", "s"):
        state = made.scheduler._state
        assert (
            equivalence.next_member(
                state.settings, state.pods, state.call, state.pods.entities[G]
            ).pod.name
            == name
        )
        made.step()
    assert made.step(), "the others are tried after the release"


def test_entity_without_roles_needs_so_many_of_any() -> None:
    made = driver()
    state = made.scheduler._state
    made.add(make_pod("alone", cpu=1), make_pod("h", group="h", min_available=3, cpu=1))
    made.add(make_pod("r", group="h", role="worker", min_available=3, cpu=1))
    assert equivalence.role_counts(
        state.settings, state.call, state.pods.members[PodUID("default/alone")].entity
    ) == (RoleCount(None, None, 1),)
    assert equivalence.role_counts(
        state.settings, state.call, state.pods.entities[GroupKey("default/h")]
    ) == (RoleCount(GroupKey("default/h"), None, 3),)


def class_of(*pods: Pod, roles: Mapping[str, int]) -> object:
    made = driver()
    made.tell(PodGroupAdded(PodGroup(name="g", roles=roles, min_available=3)))
    made.add(*pods)
    state = made.scheduler._state
    found = equivalence.class_of(
        state.settings, state.nodes, state.pods, state.call, state.pods.entities[G]
    )
    assert isinstance(found, equivalence.EquivalenceClass)
    runs = tuple((each.signature, count) for each, count in found.runs)
    return (found.needed, runs, found.role_counts, found.roles)


def test_groups_of_one_equivalence_class_lack_the_same_roles_in_the_same_order() -> None:
    w, v, s = member("w", "worker"), member("v", "worker"), member("s", "ps")
    one = class_of(w, v, s, roles={"ps": 1})
    assert one == class_of(w, member("x"), s, roles={"ps": 1}), "no minimum is asked of workers"
    assert one != class_of(w, s, v, roles={"ps": 1})
    assert one != class_of(w, v, s, roles={"worker": 1})
    assert one != class_of(w, v, s, roles={})
    assert class_of(w, v, s, roles={}) == class_of(w, s, v, roles={})


def test_shape_may_fit_only_where_each_role_has_capacity() -> None:
    """Capacity for workers does not requeue a group that lacks a server."""
    made = driver(cpu=9)
    made.add(*(member(f"w{n}", "worker") for n in range(5)), member("s", "ps", cpu=99))
    state = made.scheduler._state
    entity = state.pods.entities[G]
    assert not requeue.may_fit(
        state,
        equivalence.class_of(state.settings, state.nodes, state.pods, state.call, entity),
        now=0.0,
    )
    made.add(member("t", "ps"))
    assert requeue.may_fit(
        state,
        equivalence.class_of(state.settings, state.nodes, state.pods, state.call, entity),
        now=0.0,
    )
