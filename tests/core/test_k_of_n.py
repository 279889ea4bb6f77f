"""Trees with k of n, against every placement that there is.

Each case is played by one group whose role consists of copies, or by a family of groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

from attrs import evolve, frozen
from hypothesis import event, given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    BindFailed,
    GroupKey,
    InMemoryCluster,
    MatchPolicy,
    Node,
    NodeAdded,
    NodeDeleted,
    NodeName,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodUID,
    Resources,
    Role,
    Topology,
    gang,
    presets,
)
from gangsched.events import Bound
from gangsched.explain import BackingOff, NoNodeFits, Shortage
from gangsched.gangs import Gang
from support.examples import one_in

RACK = "rack"


@frozen
class Case:
    """A cluster and a job.

    Attributes:
        nodes: Each with its cpu and its rack.
        job: One group: ``decode`` with copies, and maybe ``router``.
        policy: Which members count.
        wanted: Of a family, how many of these two the root wants; 0 for one group.
    """

    nodes: tuple[tuple[int, str], ...]
    job: Gang
    policy: MatchPolicy
    wanted: int

    @property
    def events(self) -> Iterator[PodGroupAdded | PodAdded]:
        """Its events: those of one group, or of a family."""
        if not self.wanted:
            yield from self.job.events()
            return
        roles = self.job.group.roles
        decode, router = roles["decode"], roles.get("router", 0)
        assert isinstance(decode, Role)
        assert isinstance(router, int)
        yield PodGroupAdded(PodGroup(name="serve", min_groups=self.wanted))
        root, middle = GroupKey("default/serve"), GroupKey("default/decode")
        yield PodGroupAdded(PodGroup(name="decode", min_groups=decode.needed, parent=root))
        if router:
            yield PodGroupAdded(PodGroup(name="router", min_available=router, parent=root))
        for number in range(decode.count):
            child = PodGroup(
                name=f"decode-{number}", roles=decode.roles, topology=decode.topology, parent=middle
            )
            yield PodGroupAdded(child)
        yield from map(PodAdded, self.pods)

    @property
    def pods(self) -> tuple[Pod, ...]:
        """Its pods."""
        if not self.wanted:
            return self.job.pods
        return tuple(
            [
                evolve(pod, pod_group=copy_of(pod).replace("/", "-"), role=_last(pod))
                for pod in self.job.pods
            ]
        )


@st.composite
def cases(draw: Any) -> Case:
    """Draw up to three nodes, and a job of up to nine pods with copies of a role."""
    few = st.integers(1, 4)
    nodes = draw(st.lists(st.tuples(st.integers(0, 6), st.sampled_from(["a", "b"])), max_size=3))
    inner = {"leader": 1} | ({"worker": draw(st.integers(1, 2))} if draw(st.booleans()) else {})
    count = draw(st.integers(1, 8 // sum(inner.values())))
    topology = draw(st.sampled_from([None, None, Topology(RACK), Topology(RACK, required=False)]))
    decode = Role(
        min(count, 4), draw(st.integers(1, min(count, 4))), roles=inner, topology=topology
    )
    roles: dict[str, int | Role] = {"decode": decode}
    if draw(st.booleans()):
        number = draw(st.integers(1, 2))
        roles["router"] = Role(number, draw(st.integers(1, number)))
    job = gang("serve", roles=roles, cpu=1)
    if draw(st.booleans()):
        more = draw(st.integers(job.group.min_available, len(job.pods)))
        job = evolve(job, group=evolve(job.group, min_available=more))
    is_like = draw(st.booleans())
    sizes = {role: draw(few) for role in ("leader", "worker", "router")}

    def size(pod: Pod) -> int:
        assert pod.role is not None
        size: int = sizes[pod.role.rpartition("/")[2]] if is_like else draw(few)
        return size

    pods = [evolve(pod, requests=Resources({"cpu": size(pod)})) for pod in job.pods]
    policies = (MatchPolicy.ONCE_SATISFIED, MatchPolicy.WAITING_AND_RUNNING)
    policy, wanted = draw(st.sampled_from(policies)), draw(st.sampled_from([0, 0, 1, 2]))
    return Case(tuple(nodes), evolve(job, pods=tuple(pods)), policy, min(wanted, len(roles)))


def _last(pod: Pod) -> str:
    return (pod.role or "").rpartition("/")[2]


def copy_of(pod: Pod) -> str:
    """Return what is one copy with the others of a pod; its role if that has no copies."""
    if pod.pod_group != "serve":
        return pod.pod_group or ""
    assert pod.role is not None
    return pod.role.rpartition("/")[0] or pod.role


def is_copy(path: str) -> bool:
    """Return whether a path names a copy, or a group that stands for one."""
    return path.startswith("decode")


def by_copy(pods: Sequence[Pod]) -> dict[str, list[Pod]]:
    """Return pods by their copy."""
    found: dict[str, list[Pod]] = {}
    for pod in pods:
        found.setdefault(copy_of(pod), []).append(pod)
    return found


def fits(case: Case, pods: Sequence[Pod], free: Mapping[int, int]) -> bool:
    """Return whether pods fit, those of a copy in one rack if that is required."""
    decode = case.job.group.roles["decode"]
    assert isinstance(decode, Role)
    is_bound = decode.topology is not None and decode.topology.required
    for slots in product(free, repeat=len(pods)):
        used = dict(free)
        racks: dict[str, set[str]] = {}
        for pod, slot in zip(pods, slots, strict=True):
            used[slot] -= pod.requests["cpu"] // 1000
            racks.setdefault(copy_of(pod), set()).add(case.nodes[slot][1])
        together = all(len(some) == 1 for copy, some in racks.items() if is_copy(copy))
        if all(left >= 0 for left in used.values()) and (together or not is_bound):
            return True
    return False


def minima(case: Case) -> Iterator[list[Pod]]:
    """Yield every least set of pods with which the job may start."""
    copies = by_copy(case.pods)
    router = copies.pop("router", [])
    roles = case.job.group.roles
    decode = roles["decode"]
    assert isinstance(decode, Role)
    least = roles.get("router", 0)
    assert isinstance(least, int)
    if case.wanted == 1 and least:
        yield from (list(some) for some in combinations(router, least))
        least = 0
    for copy_count in range(decode.needed, decode.count + 1):
        for number in range(least, len(router) + 1):
            for chosen in combinations(copies.values(), copy_count):
                for routers in combinations(router, number):
                    found = [*(pod for some in chosen for pod in some), *routers]
                    if case.wanted or len(found) >= case.job.group.min_available:
                        yield found


def check_proof(case: Case, why: object, free: Mapping[int, int]) -> None:
    """Require that no more copies fit than an answer says, and as many if it says so."""
    assert isinstance(why, NoNodeFits | BackingOff)
    assert why.unschedulable_member is not None
    proof = why.unschedulable_member.proof
    if not isinstance(proof, Shortage) or not proof.is_of_copies:
        return
    event("says how many copies fit")
    copies = [pods for path, pods in by_copy(case.job.pods).items() if "/" in path]

    def some_fit(number: int) -> bool:
        chosen = combinations(copies, number)
        return any(fits(case, [pod for pods in some for pod in pods], free) for some in chosen)

    assert not some_fit(proof.fits + 1)
    assert some_fit(proof.fits) or not proof.exact


class World:
    """A scheduler with a host that binds at once, and what holds nodes."""

    def __init__(self, case: Case) -> None:
        self.cluster = InMemoryCluster()
        self.scheduler = presets.gang(self.cluster, match_policy=case.policy)
        self.pods: dict[PodUID, Pod] = {}
        self.on: dict[PodUID, int] = {}
        self.fails: set[str] = set()
        self.now = 0.0

    def tell(self, *events: Any) -> None:
        """Hand in events, decide all, and bind; no copy starts by half."""
        for each in events:
            self.cluster.apply(each)
        calls = [self.scheduler.handle(*events, now=self.now)]
        while (effects := self.scheduler.schedule_one(now=self.now)) is not None:
            calls.append(effects)
        for effects in calls:
            self._carry_out(effects)

    def _carry_out(self, effects: Sequence[Any]) -> None:
        self.scheduler._check()
        binds = [each for each in effects if isinstance(each, Bind)]
        before = {copy_of(self.pods[uid]) for uid in self.on}
        for bind in binds:
            self.on[bind.uid] = int(bind.node[1:])
        for path in {copy_of(self.pods[bind.uid]) for bind in binds} - before:
            running = [self.pods[uid] for uid in self.on if copy_of(self.pods[uid]) == path]
            assert not is_copy(path) or len(running) == self.sizes[path], f"{path} starts by half"
        for bind in binds:
            if self.pods[bind.uid].name in self.fails:
                self.fails.discard(self.pods[bind.uid].name)
                del self.on[bind.uid]
                self.tell(BindFailed(bind.uid, bind.attempt, "refused"))
            else:
                self.tell(Bound(bind.uid, bind.node, bind.attempt))

    def add(self, *pods: Pod) -> None:
        """Add pods."""
        self.pods |= {pod.uid: pod for pod in pods}
        self.tell(*map(PodAdded, pods))

    sizes: Mapping[str, int]


def start(case: Case) -> World:
    """Let the job arrive."""
    world = World(case)
    world.sizes = {path: len(pods) for path, pods in by_copy(case.pods).items()}
    for number, (cpu, rack) in enumerate(case.nodes):
        name, labels = NodeName(f"n{number}"), {RACK: rack}
        world.tell(NodeAdded(Node(name=name, labels=labels, allocatable={"cpu": cpu, "pods": 99})))
    world.pods = {pod.uid: pod for pod in case.pods}
    world.tell(*case.events)
    return world


@one_in(1)
@given(cases())
def test_job_starts_exactly_if_some_choice_of_copies_fits(case: Case) -> None:
    world = start(case)
    free = {n: cpu for n, (cpu, _rack) in enumerate(case.nodes)}
    assert bool(world.on) == any(fits(case, pods, free) for pods in minima(case))
    event("starts" if world.on else "waits")
    if not world.on:
        if not case.wanted:
            check_proof(case, world.scheduler.why(case.job.group), free)
        return
    for uid, slot in world.on.items():
        free[slot] -= world.pods[uid].requests["cpu"] // 1000
    assert min(free.values()) >= 0
    runs = {is_copy(copy_of(world.pods[uid])) for uid in world.on}
    for path, pods in by_copy(case.pods).items():
        if is_copy(path) not in runs:
            continue  # a child that the root does not want: it starts as a whole, or not at all
        left = [pod for pod in pods if pod.uid not in world.on]
        units = [left] if is_copy(path) else [[pod] for pod in left]
        assert not any(unit and fits(case, unit, free) for unit in units), f"{path} has room"


@one_in(1)
@given(cases(), st.data())
def test_no_copy_ever_starts_by_half(case: Case, data: st.DataObject) -> None:
    world, number = start(case), 0
    for _step in range(data.draw(st.integers(1, 6))):
        world.now += data.draw(st.sampled_from([0, 1, 100]))
        kind = data.draw(st.sampled_from(["lose", "node", "fail", "gone", "restore"]))
        if kind in ("lose", "fail") and world.pods:
            pod = world.pods[data.draw(st.sampled_from(sorted(world.pods)))]
            number += 1
            if kind == "fail":
                world.fails.add(pod.name)
            world.on.pop(pod.uid, None)
            del world.pods[pod.uid]
            world.tell(PodDeleted(pod.uid))
            world.add(evolve(pod, uid=PodUID(f"{pod.name}-{number}")))
        elif kind == "node":
            n = data.draw(st.integers(0, 2))
            node = Node(
                name=NodeName(f"n{n}"), labels={RACK: "a"}, allocatable={"cpu": 8, "pods": 99}
            )
            world.tell(NodeAdded(node))
        elif kind == "gone" and case.nodes:
            n = data.draw(st.integers(0, len(case.nodes) - 1))
            if world.cluster.node(NodeName(f"n{n}")) is not None and n not in world.on.values():
                world.tell(NodeDeleted(NodeName(f"n{n}")))
        elif kind == "restore":
            fresh = presets.gang(world.cluster, match_policy=case.policy)
            fresh.restore(world.scheduler.snapshot())
            world.scheduler = fresh
