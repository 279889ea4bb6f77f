"""Trees with k of n, against every placement that there is.

Each case is played by one group with copies of roles, or by a family of groups that says the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from attrs import define, evolve, field, frozen
from hypothesis import assume, event, given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    BindFailed,
    Event,
    MatchPolicy,
    Node,
    NodeAdded,
    NodeDeleted,
    NodeName,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroupAdded,
    PodUID,
    Resources,
    Topology,
    gang,
    presets,
)
from gangsched.explain import BackingOff, NoNodeFits, Shortage
from gangsched.strategies import roles
from support.examples import one_in
from support.story import Story, Way
from support.trees import (
    RACK,
    Job,
    Nodes,
    Part,
    alone,
    as_family,
    fits,
    tree_of,
    units,
    unmet_units,
    ways,
)

MOST = 8


@frozen
class Case:
    """A cluster and a job.

    Attributes:
        nodes: The cpu and the rack of each node, by name.
        job: The job.
        policy: Which members count.
        bound: The node of each pod that runs already.
    """

    nodes: Nodes
    job: Job
    policy: MatchPolicy
    bound: Mapping[PodUID, str]

    @property
    def tree(self) -> Part:
        """What the job needs."""
        return tree_of(self.job.groups, self.job.pods)

    def cpu(self, uid: PodUID) -> int:
        """Return what a pod requests."""
        return next(pod.requests["cpu"] // 1000 for pod in self.job.pods if pod.uid == uid)

    def free(self, on: Mapping[PodUID, str]) -> dict[str, tuple[int, str]]:
        """Return what pods leave free."""
        free = {name: cpu for name, (cpu, _rack) in self.nodes.items()}
        for uid, name in on.items():
            free[name] -= self.cpu(uid)
        return {name: (free[name], rack) for name, (_cpu, rack) in self.nodes.items()}

    def fits(self, tree: Part, chosen: Collection[PodUID], on: Mapping[PodUID, str]) -> bool:
        """Return whether pods of the job fit beside those on nodes."""
        return fits(tree, chosen, self.cpu, self.free(on), on)


@st.composite
def cases(draw: Any, *, runs: bool = False) -> Case:
    """Draw up to three nodes, and a job of up to eight pods; *runs*: some of them run already."""
    racks = st.sampled_from(["a", "b"])
    few = st.integers(0, 4) if runs else st.integers(2, 9)
    drawn = draw(st.lists(st.tuples(few, racks), min_size=1, max_size=3))
    nodes = {f"n{number}": each for number, each in enumerate(drawn)}
    topologies = st.sampled_from([None, None, Topology(RACK), Topology(RACK, required=False)])
    job = gang("serve", roles=draw(roles(topologies=topologies, max_pods=MOST)), cpu=1)
    sizes = {pod.role: draw(st.integers(1, 3)) for pod in job.pods}
    is_like = draw(st.booleans())
    cpu = {p.name: sizes[p.role] if is_like else draw(st.integers(1, 3)) for p in job.pods}
    pods = [evolve(pod, requests=Resources({"cpu": cpu[pod.name]})) for pod in job.pods]
    top = draw(st.sampled_from([None, None, None, Topology(RACK)]))
    job = evolve(job, pods=tuple(pods), group=evolve(job.group, topology=top))
    spelling = draw(st.sampled_from(["group", "family", "deep family"]))
    if spelling == "group":
        least = draw(st.integers(job.group.min_available, len(pods)) | st.just(1))
        least = max(least, job.group.min_available)
        made = Job((evolve(job.group, min_available=least),), job.pods)
    else:
        wanted = draw(st.integers(1, len(job.group.roles)))
        made = as_family(job, deep=spelling != "family", wanted=wanted)
    event(f"{spelling} of {max((str(pod.role).count('/') for pod in job.pods), default=0)}")
    policies = (MatchPolicy.ONCE_SATISFIED, MatchPolicy.WAITING_AND_RUNNING)
    case = Case(nodes, made, draw(st.sampled_from(policies)), {})
    if runs:
        some = draw(st.sets(st.sampled_from(sorted(pod.uid for pod in pods)), min_size=1))
        bound = {uid: draw(st.sampled_from(sorted(nodes))) for uid in sorted(some)}
        # what runs has a place, and the drawn cpu is beside it
        beside = evolve(case, nodes={name: (0, rack) for name, (_cpu, rack) in nodes.items()})
        taken = {name: -cpu for name, (cpu, _rack) in beside.free(bound).items()}
        nodes = {name: (cpu + taken[name], rack) for name, (cpu, rack) in nodes.items()}
        case = evolve(case, bound=bound, nodes=nodes)
        assume(case.fits(case.tree, (), bound))
    return case


@define(eq=False)
class Trees(Story):
    """A story of one tree, in which no copy and no child starts by half.

    Attributes:
        case: What is played.
    """

    case: Case = field(kw_only=True)

    def __attrs_post_init__(self) -> None:
        self.make = partial(presets.gang, match_policy=self.case.policy)
        super().__attrs_post_init__()

    @property
    def on(self) -> dict[PodUID, NodeName]:
        """The node of each pod that is bound, or being bound."""
        bound = {p.uid: p.node_name for p in self.cluster.pods() if p.node_name is not None}
        return bound | {bind.uid: bind.node for bind in self.binds}

    @property
    def tree(self) -> Part:
        """What the job needs, with the pods that are there."""
        return tree_of(self.case.job.groups, list(self.cluster.pods()))

    def replace(self, pod: Pod, uid: PodUID) -> None:
        """Delete a pod, and add another one; if binds are held back, its next one fails."""
        self.tell(PodDeleted(pod.uid), PodAdded(evolve(pod, uid=uid, node_name=None)))
        self.decide()
        self.holds_binds = False
        for bind in [each for each in self.binds if each.uid == uid]:
            self.binds.remove(bind)
            self.tell(BindFailed(uid, bind.attempt, "refused"))
        self.finish_binds()
        self.decide()

    def _perform(self, effects: tuple[Any, ...]) -> None:
        self.scheduler._check()
        before = self.on
        started = {each.uid for each in effects if isinstance(each, Bind)} - set(before)
        for unit in units(self.tree) if started else ():
            if unit.pods & started and not unit.pods & set(before):
                assert unit.is_met(unit.pods & started), f"{unit.name} starts by half"
        super()._perform(effects)


def start(case: Case) -> Trees:
    """Let the job arrive."""
    story = Trees(presets.gang, case=case)
    nodes = [
        NodeAdded(
            Node(
                name=NodeName(name),
                labels={RACK: rack},
                allocatable={"cpu": cpu, "pods": 99},
            )
        )
        for name, (cpu, rack) in case.nodes.items()
    ]
    pods = [
        evolve(pod, node_name=NodeName(case.bound[pod.uid])) if pod.uid in case.bound else pod
        for pod in case.job.pods
    ]
    groups = map(PodGroupAdded, case.job.groups)
    events: list[Event] = [*nodes, *groups, *map(PodAdded, pods)]
    for each in events:
        story.cluster.apply(each)
    story._perform(story.scheduler.handle(*events, now=0.0))
    story.decide()
    return story


def check_start(case: Case, story: Trees) -> None:
    """Require that the job has started exactly if it could, and that nothing that fits waits."""
    tree, on = case.tree, story.on
    could = any(case.fits(tree, some, case.bound) for some in ways(tree, set(case.bound)))
    assert tree.is_met(on) == could
    event("starts" if could else "waits")
    if not could:
        assert on == case.bound, "something starts before a minimum"
        return
    assert min(cpu for cpu, _rack in case.free(on).values()) >= 0
    assert case.fits(tree, (), on), "a topology is broken"
    for unit in unmet_units(tree, on):
        # one of which a part runs gets the others together or one by one
        for some in () if unit.pods.intersection(on) else ways(unit, ()):
            assert not case.fits(tree, some, on), f"{unit.name} has room"
    for uid in alone(tree, frozenset(on)):
        assert not case.fits(tree, [uid], on), f"{uid} has room"


def check_proof(case: Case, story: Trees) -> None:
    """Require that no more copies fit than an answer says, and as many if it says so."""
    why = story.scheduler.why(case.job.groups[0])
    assert isinstance(why, NoNodeFits | BackingOff)
    assert why.unschedulable_member is not None
    proof = why.unschedulable_member.proof
    if not isinstance(proof, Shortage) or not proof.is_of_copies:
        return
    tree = case.tree
    role = next((each for each in tree.children if each.name == proof.role), None)
    if role is None:
        return  # it is a role of a copy
    event("says how many copies fit")

    def some_fit(number: int) -> bool:
        more = evolve(role, wanted=number)
        others = [more if each is role else each for each in tree.children]
        asked = evolve(tree, children=tuple(others), least=0) if proof.beside_others else more
        return any(case.fits(tree, some, {}) for some in ways(asked, set()))

    assert not some_fit(proof.fits + 1)
    assert some_fit(proof.fits) or not proof.exact


@one_in(1)
@given(cases())
def test_job_starts_exactly_if_some_choice_of_copies_fits(case: Case) -> None:
    story = start(case)
    check_start(case, story)
    if len(case.job.groups) == 1 and not story.on:
        check_proof(case, story)


@one_in(1)
@given(cases(runs=True))
def test_job_of_which_some_run_starts_exactly_if_the_rest_fits(case: Case) -> None:
    check_start(case, start(case))


@one_in(1)
@given(cases(), st.data())
def test_no_copy_ever_starts_by_half(case: Case, data: st.DataObject) -> None:
    story, number = start(case), 0
    for _step in range(data.draw(st.integers(1, 6))):
        story.run(story.now + data.draw(st.sampled_from([0, 1, 100])))
        kind = data.draw(st.sampled_from(["lose", "node", "fail", "gone", "restore", "rebuild"]))
        if kind in ("lose", "fail"):
            pod = data.draw(st.sampled_from(sorted(story.cluster.pods(), key=lambda p: p.uid)))
            number += 1
            story.holds_binds = kind == "fail"
            story.replace(pod, PodUID(f"{pod.name}-{number}"))
        elif kind == "node":
            name = NodeName(f"n{data.draw(st.integers(0, 2))}")
            node = Node(name=name, labels={RACK: "a"}, allocatable={"cpu": 8, "pods": 99})
            story.tell(NodeAdded(node))
        elif kind == "gone" and case.nodes:
            name = NodeName(data.draw(st.sampled_from(sorted(case.nodes))))
            if story.cluster.node(name) is not None and name not in story.on.values():
                story.tell(NodeDeleted(name))
        elif kind in ("restore", "rebuild"):
            story.way = Way.RESTORED if kind == "restore" else Way.REBUILT
            story.interrupt()
