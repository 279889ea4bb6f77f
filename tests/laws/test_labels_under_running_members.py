"""The domain of a gang follows the nodes of its running members, whatever becomes of their labels.

Nodes are relabelled, deleted and added again under running members; the partner of a bundle comes
and goes; capacity is nominated. Two laws hold: a bind is in a domain where members of its group run
(a first one is in any), and no member waits that could start there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from itertools import combinations, permutations
from typing import Any, Final

import pytest
from attrs import define
from hypothesis import example, given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    Event,
    GroupKey,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    Pod,
    PodGroup,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    Preemption,
    Topology,
)
from gangsched.testing import make_node, make_pod
from support.examples import one_in
from support.story import Story, Way
from support.story_presets import GANG_PRESETS

pytestmark = pytest.mark.once("says itself which unit it is about")

HOST: Final = "kubernetes.io/hostname"
LEVELS: Final = ("rack", HOST)
GROUPS: Final = ("alone", "feeder", "trainer")
BUNDLE: Final = (GroupKey("default/feeder"), GroupKey("default/trainer"))
GRACE: Final = 30.0


@define(eq=False)
class Relabelled(Story):
    """A story of gangs that belong within one domain; each bind is checked."""

    level: str = "rack"
    count: int = 0

    def begin(self, minimum: int) -> None:
        for name in GROUPS:
            self.tell(PodGroupAdded(self.group(name, minimum)))

    def group(self, name: str, minimum: int, *, names: bool = True) -> PodGroup:
        return PodGroup(
            name=name,
            min_available=minimum,
            priority=5,
            bundle=BUNDLE if names and name != "alone" else (),
            topology=None if name == "feeder" else Topology(self.level),
        )

    # The two laws ---------------------------------------------------------------------------

    def _bind(self, bind: Bind) -> None:
        pod = self.cluster.pod(bind.uid)
        assert pod is not None
        group = self.group_of(pod)
        if group is not None and group.topology is not None:
            domain = self.domain(group.topology.key, bind.node)
            runs = self.running(group)
            assert domain is not None, f"{bind} is in no {group.topology.key}"
            allowed = self.domains(group)
            assert not runs or domain in allowed, f"{bind} is in {domain}, not in {allowed}"
        super()._bind(bind)

    def check_none_waits_that_could_start(self) -> None:
        for name in GROUPS:
            group = self.cluster.pod_group(GroupKey(f"default/{name}"))
            if group is None:
                continue
            runs = self.running(group)
            needed = max(group.min_available - len(runs), 1)
            if group.bundle and len(runs) < group.min_available:
                continue  # it may wait for its partner
            pending = [
                pod for pod in self.cluster.pods() if self.is_in(pod, group) and not pod.node_name
            ]
            for nodes in self.places(group):
                for pods in combinations(pending, needed):
                    free = [self.free(node) for node in nodes]
                    assert not fits(pods, free), f"{pods[0].key} waits, and fits on {nodes}"

    # What is there, by brute force ----------------------------------------------------------

    def group_of(self, pod: Pod) -> PodGroup | None:
        return next((g for g in self.cluster.pod_groups() if self.is_in(pod, g)), None)

    def is_in(self, pod: Pod, group: PodGroup) -> bool:
        return pod.name.startswith(f"{group.name}-")

    def running(self, group: PodGroup) -> list[Pod]:
        pods = (pod for pod in self.cluster.pods() if self.is_in(pod, group))
        return [pod for pod in pods if pod.node_name and pod.deleted_at is None]

    def domain(self, level: str | None, name: str) -> str | None:
        node = next((node for node in self.cluster.nodes() if node.name == name), None)
        if node is None:
            return None
        return node.name if level == HOST else node.labels.get(level or "")

    def domains(self, group: PodGroup) -> set[str | None]:
        assert group.topology is not None
        level = group.topology.key
        return {self.domain(level, pod.node_name or "") for pod in self.running(group)} - {None}

    def places(self, group: PodGroup) -> Iterator[list[str]]:
        """Yield the nodes of each domain in which a group may start, or grow."""
        nodes = [node.name for node in self.cluster.nodes()]
        if group.topology is None:
            yield list(nodes)
            return
        level = group.topology.key
        found = {self.domain(level, name) for name in nodes} - {None}
        for domain in found & self.domains(group) if self.running(group) else found:
            yield [name for name in nodes if self.domain(level, name) == domain]

    def free(self, name: str) -> float:
        node = next(node for node in self.cluster.nodes() if node.name == name)
        on = (pod for pod in self.cluster.pods() if pod.node_name == name)
        return float(node.allocatable["cpu"] - sum(pod.requests["cpu"] for pod in on))

    # Steps ----------------------------------------------------------------------------------

    def put(self, number: int, cpu: int, rack: str) -> None:
        """Add a node, or give it other labels and another size."""
        self.tell(self.changed(number, cpu, rack))

    def miss(self, number: int, cpu: int, rack: str) -> None:
        """Do so while the scheduler is down; it is restored then, and reads the cluster."""
        before = json.loads(json.dumps(self.scheduler.snapshot()))
        self.cluster.apply(self.changed(number, cpu, rack))
        self.scheduler = self.make(self.cluster)
        self.scheduler.restore(before)
        self._perform(self.scheduler.rebuild(now=self.now))

    def changed(self, number: int, cpu: int, rack: str) -> Event:
        labels = {"rack": rack} if rack else {}
        node = make_node(f"n{number}", cpu=cpu, labels=labels)
        is_known = any(each.name == node.name for each in self.cluster.nodes())
        return NodeUpdated(node) if is_known else NodeAdded(node)

    def drop(self, number: int) -> None:
        if any(node.name == f"n{number}" for node in self.cluster.nodes()):
            self.tell(NodeDeleted(f"n{number}"))

    def member(self, group: str, cpu: int) -> None:
        self.count += 1
        name = f"{group}-{self.count}"
        self.add(make_pod(name, group=group, cpu=cpu, priority=5, created_at=self.now))

    def low(self, cpu: int) -> None:
        self.count += 1
        self.add(make_pod(f"low-{self.count}", cpu=cpu, created_at=self.now))

    def end(self, number: int) -> None:
        pods = sorted(self.cluster.pods(), key=lambda pod: pod.name)
        if pods:
            self.delete(pods[number % len(pods)].name)

    def evict(self) -> None:
        """Let the evicted pods be gone."""
        self.delete(*[pod.name for pod in self.cluster.pods() if pod.deleted_at is not None])

    def respecify(self, group: str, minimum: int, how: str) -> None:
        key = GroupKey(f"default/{group}")
        is_known = self.cluster.pod_group(key) is not None
        if how == "deleted":
            self.tell(*([PodGroupDeleted(key)] if is_known else []))
            return
        spec = self.group(group, minimum, names=how == "bundled")
        self.tell(PodGroupUpdated(spec) if is_known else PodGroupAdded(spec))

    def replaced(self, way: Way) -> None:
        self.way = way
        self.interrupt()


def fits(pods: tuple[Pod, ...], free: list[float]) -> bool:
    """Return whether pods fit on nodes, in any order, each on the first that takes it."""
    for order in permutations(pods):
        left = list(free)
        for pod in order:
            cpu = float(pod.requests["cpu"])
            slot = next((n for n, amount in enumerate(left) if amount >= cpu), None)
            if slot is None:
                break
            left[slot] -= cpu
        else:
            return True
    return False


def step(name: str, *arguments: Any) -> Any:
    return st.tuples(st.just(name), *arguments)


numbers, sizes = st.integers(0, 2), st.integers(1, 2)
racks = st.sampled_from(["a", "b", "b", ""])
puts = step("put", numbers, st.integers(1, 4), racks)
adds = step("member", st.sampled_from(GROUPS), sizes)
hows = st.sampled_from(["bundled", "not bundled", "deleted"])
steps = st.one_of(
    *[puts] * 4,
    *[adds] * 4,
    step("miss", numbers, st.integers(1, 4), racks),
    step("drop", numbers),
    step("low", st.integers(1, 3)),
    step("end", st.integers(0, 9)),
    step("evict"),
    step("respecify", st.sampled_from(GROUPS), st.integers(1, 2), hows),
    step("replaced", st.sampled_from(Way)),
)
RELABELLED: Final[list[Any]] = [("put", 1, 4, "b"), ("member", "alone", 1), ("put", 0, 3, "b")]


@one_in(2)
@given(
    st.sampled_from(LEVELS),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["gang", "coscheduling"]),
    st.integers(2, 4),
    st.lists(steps, min_size=2, max_size=14),
)
@example("rack", False, False, "gang", 3, RELABELLED)
def test_members_start_in_the_domain_of_those_that_run_and_none_waits_that_could(
    level: str, preempts: bool, holds: bool, preset: str, cpu: int, history: list[Any]
) -> None:
    preemption = Preemption(elastic_members=True, grace=GRACE) if preempts else None
    story = Relabelled(
        partial(GANG_PRESETS[preset], preemption=preemption), holds_evictions=holds, level=level
    )
    story.begin(minimum=1)
    story.put(0, cpu, "a")
    for group in GROUPS:
        story.member(group, 1)
    for name, *arguments in history:
        getattr(story, name)(*arguments)
        story.run(until=story.now + 1)
    story.evict()
    story.run(until=story.now + 1000)
    story.evict()
    story.run(until=story.now + 1000)
    story.check_none_waits_that_could_start()
