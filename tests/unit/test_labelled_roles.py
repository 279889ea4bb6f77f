"""``LabelledRole``: which member has which role by its labels, and how many copies there are."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    Gang,
    GroupKey,
    InMemoryCluster,
    InvalidPodGroupError,
    InvalidValueError,
    LabelSelector,
    Node,
    NodeName,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodRefused,
    PodUID,
    PodUpdated,
    Role,
    Scheduler,
    presets,
)
from gangsched.drivers.host import Host
from gangsched.events import Event, NodeAdded
from gangsched.model import LabelledRole
from gangsched.simulation import Arrival, Simulator, Workload
from gangsched.status import pod_group_status

TREE = Role(2, minimum=2, roles={"leader": 1, "worker": 2})
NAMED = (
    LabelledRole("replica/0/leader", LabelSelector({"part": "leader-a"})),
    LabelledRole("replica/0/worker", LabelSelector({"part": "worker-a"})),
    LabelledRole("replica/1/leader", LabelSelector({"part": "leader-b"})),
    LabelledRole("replica/1/worker", LabelSelector({"part": "worker-b"})),
)
NUMBERED = (LabelledRole("replica/*/worker", LabelSelector({"app": "a"}), number="replica"),)


def named(**more: Any) -> PodGroup:
    return PodGroup(name="serve", roles={"replica": TREE}, labelled_roles=NAMED, **more)


def numbered(minimum: int = 2, size: int = 2, **more: Any) -> PodGroup:
    role = Role(minimum, roles={"worker": size})
    return PodGroup(name="serve", roles={"replica": role}, labelled_roles=NUMBERED, **more)


def pod(name: str, cpu: int = 1, role: str | None = None, **labels: str) -> Pod:
    return Pod(
        name=name, uid=name, pod_group="serve", requests={"cpu": cpu}, role=role, labels=labels
    )


def copy(number: object, size: int = 2) -> list[Pod]:
    return [pod(f"w-{number}-{n}", app="a", replica=f"{number}") for n in range(size)]


class Run:
    """A scheduler, and what it has bound so far."""

    def __init__(self, group: PodGroup, cpu: int) -> None:
        self.cluster = InMemoryCluster()
        self.scheduler: Scheduler = presets.gang(self.cluster)
        self.bound: set[str] = set()
        self.refused: dict[str, str] = {}
        node = Node(name="n", allocatable={"cpu": cpu, "pods": 99})
        self.take(NodeAdded(node), PodGroupAdded(group))

    def take(self, *events: Any) -> None:
        effects: list[Any] = []
        for event in events:
            self.cluster.apply(event)
            effects += self.scheduler.handle(event, now=0.0)
        while (found := self.scheduler.schedule_one(now=0.0)) is not None:
            effects += found
        self.bound |= {each.uid for each in effects if isinstance(each, Bind)}
        self.refused |= {each.uid: each.reason for each in effects if isinstance(each, PodRefused)}


# Values -----------------------------------------------------------------------------------------


def test_first_labelled_role_that_selects_a_member_counts_whatever_it_says() -> None:
    group = named()
    assert group.path_of("x", {"part": "worker-b"}) == "replica/1/worker"
    assert group.path_of("replica.0.worker", {"part": "other"}) == "replica/0/worker"
    both = PodGroup(name="g", min_available=1, labelled_roles=[LabelledRole("a"), *NAMED])
    assert both.path_of(None, {"part": "worker-b"}) == "a"


def test_number_of_a_copy_is_the_value_of_a_label() -> None:
    group = numbered()
    assert group.path_of(None, {"app": "a", "replica": "7"}) == "replica/7/worker"
    for labels in ({"app": "a"}, {"replica": "7"}, {"app": "a", "replica": ""}):
        assert group.path_of("ps", labels) == "ps", "it is not selected"


@pytest.mark.parametrize("number", ["a", "1000", "-1", "01", "1.5", "٣", "9" * 99])
def test_label_that_numbers_no_copy_is_a_problem(number: str) -> None:
    problem = numbered().member_problem(None, {"app": "a", "replica": number}, "p")
    assert problem is not None
    assert problem.field == "labels['replica']"
    assert numbered().member_problem(None, {"app": "a", "replica": "999"}, "p") is None


def test_role_has_as_many_copies_as_its_members_number() -> None:
    group = numbered(minimum=1)
    grown = group.with_copies_of(["replica/3/worker", "replica/x/worker", "ps", None])
    assert grown.roles["replica"] == Role(4, minimum=1, roles={"worker": 2})
    assert grown.with_copies_of(["replica/0/worker"]) is grown
    assert named().with_copies_of(["replica/9/worker"]) == named(), "no label numbers them"


@pytest.mark.parametrize(
    ("role", "number"),
    [("", None), ("a//b", None), ("a/*/b", None), ("a", "x"), ("*", "x"), ("a/0/*", "x")],
)
def test_malformed_path_is_refused(role: str, number: str | None) -> None:
    with pytest.raises(InvalidValueError):
        LabelledRole(role, number=number)
    no_role: Any = role
    with pytest.raises(InvalidPodGroupError):
        PodGroup(name="g", min_available=1, labelled_roles=[no_role])


# Decisions --------------------------------------------------------------------------------------


def test_members_start_by_the_roles_that_their_labels_give_them() -> None:
    run = Run(named(), cpu=8)
    first = [pod("l-a", part="leader-a"), *(pod(f"w-a-{n}", part="worker-a") for n in "01")]
    run.take(*map(PodAdded, first))
    assert not run.bound
    run.take(PodAdded(pod("l-b", part="leader-b")), PodAdded(pod("w-b-0", part="worker-b")))
    assert not run.bound, "worker-b lacks one"
    run.take(PodAdded(pod("w-b-1", part="worker-b")))
    assert run.bound == {"l-a", "w-a-0", "w-a-1", "l-b", "w-b-0", "w-b-1"}


def test_k_copies_of_as_many_as_labels_number_start_and_each_other_one_as_a_whole() -> None:
    run = Run(numbered(minimum=2), cpu=7)
    run.take(*(PodAdded(each) for number in (0, 3, 7, 9) for each in copy(number)))
    assert run.bound == {f"w-{number}-{n}" for number in (0, 3, 7) for n in range(2)}


def test_copies_come_in_any_order() -> None:
    for numbers in ((9, 3, 0, 7), (3, 9, 7, 0)):
        run = Run(numbered(minimum=2), cpu=4)
        run.take(*(PodAdded(each) for number in numbers for each in copy(number)))
        assert run.bound == {f"w-{number}-{n}" for number in (0, 3) for n in range(2)}


def test_copies_do_not_start_by_halves() -> None:
    run = Run(numbered(minimum=2), cpu=3)
    run.take(*(PodAdded(each) for number in (0, 1, 2) for each in copy(number)))
    assert not run.bound
    run.take(NodeAdded(Node(name="m", allocatable={"cpu": 2, "pods": 9})))
    assert len({name[:3] for name in run.bound}) == 2
    assert len(run.bound) == 4


def test_group_that_comes_after_its_pods_has_their_copies() -> None:
    run = Run(PodGroup(name="other", min_available=1), cpu=7)
    run.take(*(PodAdded(each) for number in (5, 6) for each in copy(number)))
    assert not run.bound
    run.take(PodGroupAdded(numbered(minimum=2)))
    assert run.bound == {f"w-{number}-{n}" for number in (5, 6) for n in range(2)}


def test_group_that_is_updated_keeps_the_copies_of_its_members() -> None:
    run = Run(numbered(minimum=3), cpu=9)
    run.take(*(PodAdded(each) for number in (4, 6) for each in copy(number)))
    assert not run.bound
    run.take(PodGroupUpdated(numbered(minimum=2)))
    assert run.bound == {f"w-{number}-{n}" for number in (4, 6) for n in range(2)}


def test_member_with_labels_of_no_role_is_refused_and_said() -> None:
    run = Run(numbered(minimum=1), cpu=9)
    run.take(PodAdded(pod("odd", app="a", replica="seven")), *map(PodAdded, copy(0)))
    assert run.bound == {"w-0-0", "w-0-1"}
    assert "the number of a copy" in run.refused["odd"]
    last = (*NAMED, LabelledRole(None))
    run = Run(PodGroup(name="serve", min_available=1, labelled_roles=last), cpu=9)
    run.take(PodAdded(pod("odd", part="nobody")), PodAdded(pod("l-a", part="leader-a")))
    assert run.bound == {"l-a"}
    assert "those of a role of its group" in run.refused["odd"]


def test_refused_member_is_taken_in_once_its_group_says_otherwise() -> None:
    last = (LabelledRole(None),)
    run = Run(PodGroup(name="serve", min_available=1, labelled_roles=last), cpu=9)
    run.take(PodAdded(pod("odd")))
    assert not run.bound
    run.take(PodGroupUpdated(PodGroup(name="serve", min_available=1)))
    assert run.bound == {"odd"}


def test_bound_member_has_the_role_that_its_updated_group_gives_it() -> None:
    run = Run(PodGroup(name="serve", min_available=1, labelled_roles=[LabelledRole("a")]), cpu=9)
    run.take(PodAdded(evolve(pod("w"), node_name=NodeName("n"))))
    for role in "ab":
        labelled = [LabelledRole(role)]
        run.take(PodGroupUpdated(PodGroup(name="serve", min_available=1, labelled_roles=labelled)))
        assert [row["role"] for row in run.scheduler.snapshot()["pods"]] == [role]


def test_rebuilt_scheduler_knows_the_copies() -> None:
    run = Run(numbered(minimum=2), cpu=2)
    run.take(*(PodAdded(each) for number in (3, 8) for each in copy(number)))
    fresh = presets.gang(run.cluster)
    fresh.rebuild(now=0.0)
    fresh.schedule_one(now=0.0)
    assert fresh.why("w-8-0", now=0.0) == run.scheduler.why("w-8-0", now=0.0)


def test_restored_scheduler_knows_the_copies() -> None:
    run = Run(numbered(minimum=2), cpu=2)
    run.take(*(PodAdded(each) for number in (3, 8) for each in copy(number)))
    restored = presets.gang(run.cluster)
    restored.restore(run.scheduler.snapshot())
    assert restored.snapshot() == run.scheduler.snapshot()


def test_status_of_a_group_counts_the_copies_that_labels_number() -> None:
    pods = [each for number in (3, 8) for each in copy(number)]
    assert pod_group_status(numbered(minimum=2), pods).phase.value != "Pending"
    assert pod_group_status(numbered(minimum=2), pods[:3]).phase.value == "Pending"


def test_simulation_counts_the_copies_that_labels_number() -> None:
    node = Node(name="n", allocatable={"cpu": 4, "pods": 99})
    events: list[Event] = [NodeAdded(node), PodGroupAdded(numbered(minimum=2))]
    events += [PodAdded(each) for number in (3, 8) for each in copy(number)]
    run = Simulator(Workload(Arrival(0.0, event) for event in events), presets.gang)
    run.run(until=1.0)
    assert [job.started_at for job in run.jobs] == [0.0]


def test_host_counts_the_copies_that_labels_number() -> None:
    group = numbered(minimum=2)
    pods = tuple(each for number in (3, 8) for each in copy(number))
    with Host(start=lambda _pod, _node: None, evict=lambda _pod, _node: None) as host:
        host.tell(NodeAdded(Node(name="n", allocatable={"cpu": 4, "pods": 99})))
        assert len(host.submit(Gang(group, pods)).wait(60.0)) == 4


# Any order --------------------------------------------------------------------------------------

STEPS = st.one_of(
    st.tuples(st.just("pod"), st.integers(0, 5), st.sampled_from(["0", "1", "4", "9", "x", ""])),
    st.tuples(st.just("gone"), st.integers(0, 5), st.just("")),
    st.tuples(st.just("group"), st.integers(1, 2), st.just("")),
    st.tuples(st.just("no group"), st.just(0), st.just("")),
)


def event_of(step: tuple[str, int, str], cluster: InMemoryCluster) -> Event | None:
    """Return what happens; None if it cannot happen now."""
    kind, number, replica = step
    shown = cluster.pod_group(GroupKey("default/serve"))
    before = cluster.pod(PodUID(f"p-{number}"))
    match kind:
        case "pod":
            after = pod(f"p-{number}", app="a", replica=replica)
            return PodAdded(after) if before is None else PodUpdated(after)
        case "gone":
            return None if before is None else PodDeleted(before.uid)
        case "group":
            after_group = numbered(minimum=number)
            return PodGroupUpdated(after_group) if shown else PodGroupAdded(after_group)
        case _:
            return None if shown is None else PodGroupDeleted(shown.key)


@given(st.lists(STEPS, min_size=6, max_size=20))
def test_scheduler_that_saw_each_change_decides_as_one_that_is_rebuilt(
    steps: list[tuple[str, int, str]],
) -> None:
    run = Run(PodGroup(name="other", min_available=1), cpu=0)
    for step in steps:
        if (event := event_of(step, run.cluster)) is not None:
            run.take(event)
    fresh = presets.gang(run.cluster)
    fresh.rebuild(now=0.0)
    for _ in range(2):
        while fresh.schedule_one(now=0.0) is not None:
            pass
    room = NodeAdded(Node(name="m", allocatable={"cpu": 4, "pods": 99}))
    run.cluster.apply(room)
    decided: list[set[tuple[str, str]]] = []
    for scheduler in (run.scheduler, fresh):
        effects = [*scheduler.handle(room, now=0.0)]
        while (more := scheduler.schedule_one(now=0.0)) is not None:
            effects += more
        scheduler._check()
        decided.append({(each.uid, each.node) for each in effects if isinstance(each, Bind)})
    assert decided[0] == decided[1]
