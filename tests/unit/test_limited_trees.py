"""Trees with k of n under quotas, and with members that plugins refuse."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from attrs import evolve

from gangsched import (
    GroupKey,
    MatchPolicy,
    NodeAdded,
    NodeDeleted,
    NodeName,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    PodUID,
    Quota,
    Role,
    gang,
    presets,
)
from gangsched.outcomes import SUCCESS, Outcome, Unschedulable
from gangsched.protocols import CycleView
from gangsched.testing import make_node, make_pod
from support.immediate_host import ImmediateHost

SERVE = gang("serve", roles={"copy": Role(3, minimum=2, roles={"a": 1, "b": 1})}, cpu=1)

LARGE = gang("serve", roles={"copy": Role(4, minimum=2, roles={"a": 1, "b": 1})}, cpu=1)


class Host(ImmediateHost):
    """A large node."""

    def __init__(
        self,
        *,
        limit: int | None = None,
        plugins: Iterable[object] = (),
        policy: MatchPolicy = MatchPolicy.ONCE_SATISFIED,
    ) -> None:
        super().__init__()
        quotas: list[Quota] = []
        if limit is not None:
            quotas.append(Quota(name="team", namespaces=["default"], hard={"cpu": limit}))
        self.scheduler = presets.gang(
            self.cluster, quotas=quotas, plugins=plugins, match_policy=policy
        )
        self.tell(NodeAdded(make_node("n", cpu=50)))

    def end_node(self, name: str) -> None:
        self.tell(NodeDeleted(NodeName(name)))

    def why(self, subject: str = "default/serve") -> str:
        return str(self.scheduler.why(subject))


# Quotas -----------------------------------------------------------------------------------------


def test_copy_that_exceeds_a_quota_keeps_no_single_member_waiting() -> None:
    host = Host(limit=5)
    copies = Role(2, minimum=1, roles={"w": 3})
    host.tell(*gang("serve", roles={"x": copies, "y": Role(2, minimum=1)}, cpu=1).events())
    assert "serve-y-1" in host.decide()
    assert "exceeded quota team: requested cpu=3, used cpu=5" in host.why()


def test_members_that_a_quota_keeps_out_start_once_it_has_room() -> None:
    host = Host(limit=8)
    host.end_node("n")
    host.tell(NodeAdded(make_node("z", cpu=2, labels={"only": "z"})))
    elsewhere = evolve(make_pod("z0", group="z", cpu=2), node_selector={"only": "z"})
    host.tell(PodGroupAdded(PodGroup(name="z", min_available=1)), PodAdded(elsewhere))
    host.decide()
    host.tell(*[NodeAdded(make_node(f"n{n}", cpu=cpu)) for n, cpu in enumerate((4, 2, 4))])
    root = PodGroup(name="root", min_groups=1)
    host.tell(PodGroupAdded(root))
    host.tell(PodGroupAdded(PodGroup(name="a", roles={"x": 1}, parent=root.key)))
    host.tell(PodGroupAdded(PodGroup(name="b", min_available=2, parent=root.key)))
    host.tell(*[PodAdded(make_pod(f"b{n}", group="b", cpu=2)) for n in range(2)])
    host.decide()
    host.tell(*[PodAdded(make_pod(f"a{n}", group="a", role="x", cpu=1)) for n in range(2)])
    host.tell(*[PodAdded(make_pod(f"c{n}", group="b", cpu=2)) for n in range(2)])
    host.decide()
    before = {pod.name for pod in host.cluster.pods() if pod.node_name}
    assert "exceeded quota team" in host.why("default/root")
    host.end("z0")
    host.decide()
    after = {pod.name for pod in host.cluster.pods() if pod.node_name}
    assert after - before, "the quota has room for 2 CPUs again, and the nodes do"


@pytest.mark.parametrize(("limit", "started"), [(3, 0), (4, 4), (5, 4), (6, 6)])
def test_quota_is_asked_for_the_copies_that_are_wanted_and_gives_no_half_one(
    limit: int, started: int
) -> None:
    host = Host(limit=limit)
    host.tell(*SERVE.events())
    assert len(host.decide()) == started
    if not started:
        assert "exceeded quota team: requested cpu=4" in host.why()


def test_surplus_copy_starts_once_its_quota_is_returned() -> None:
    host = Host(limit=6)
    host.tell(PodGroupAdded(PodGroup(name="other", min_available=1)))
    host.tell(PodAdded(make_pod("other-0", cpu=1, group="other")))
    assert host.decide() == ["other-0"]
    host.tell(*SERVE.events())
    assert len(host.decide()) == 4
    assert "exceeded quota team: requested cpu=2" in host.why()
    host.end("other-0")
    assert host.decide() == ["serve-copy-2-a-0", "serve-copy-2-b-0"]


@pytest.mark.parametrize(("limit", "started"), [(2, []), (3, ["c0-0"]), (4, ["c0-0", "c1-0"])])
def test_quota_is_asked_for_the_largest_group_that_a_root_wants(
    limit: int, started: list[str]
) -> None:
    """Either child may be the one that starts, so the larger one has to fit."""
    host = Host(limit=limit)
    host.tell(PodGroupAdded(PodGroup(name="serve", min_groups=1)))
    for name in ("c0", "c1"):
        parent = GroupKey("default/serve")
        host.tell(PodGroupAdded(PodGroup(name=name, min_available=1, parent=parent)))
    host.tell(*[PodAdded(make_pod(f"c{n}-0", cpu=c, group=f"c{n}")) for n, c in ((0, 1), (1, 3))])
    assert host.decide() == started


def child(host: Host, number: int, cpu: int) -> None:
    """Add a child of one member."""
    parent = GroupKey("default/serve")
    host.tell(PodGroupAdded(PodGroup(name=f"c{number}", min_available=1, parent=parent)))
    host.tell(PodAdded(make_pod(f"c{number}-0", cpu=cpu, group=f"c{number}")))


@pytest.mark.parametrize(("limit", "started"), [(3, []), (4, ["c0-0", "c1-0"])])
def test_quota_is_asked_for_all_groups_that_a_root_wants(limit: int, started: list[str]) -> None:
    host = Host(limit=limit)
    host.tell(PodGroupAdded(PodGroup(name="serve", min_groups=2)))
    child(host, 0, 1)
    child(host, 1, 3)
    assert sorted(host.decide()) == started


def test_surplus_group_that_waits_for_a_quota_is_in_no_others_way() -> None:
    host = Host(limit=2)
    host.tell(PodGroupAdded(PodGroup(name="serve", min_groups=1)))
    child(host, 0, 1)
    assert host.decide() == ["c0-0"]
    child(host, 1, 3)
    child(host, 2, 1)
    assert host.decide() == ["c2-0"]
    assert "exceeded quota team: requested cpu=3" in host.why("default/c1")


# Plugins ----------------------------------------------------------------------------------------


class Refuses:
    """Refuses a pod at one point."""

    name = "Refuses"

    def __init__(self, point: str, pod: str) -> None:
        self._pod = pod
        setattr(self, point, self._answer)
        if point == "reserve":
            self.unreserve = self._take_nothing_back

    def _answer(self, state: CycleView, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        return Unschedulable("not this one") if pod.name == self._pod else SUCCESS

    def _take_nothing_back(
        self, state: CycleView, pod: Pod, node: NodeName, *, cause: str, now: float
    ) -> None: ...


@pytest.mark.parametrize("policy", [MatchPolicy.ONCE_SATISFIED, MatchPolicy.WAITING_AND_RUNNING])
@pytest.mark.parametrize("point", ["reserve", "permit", "pre_bind"])
def test_copy_of_which_a_plugin_refuses_a_member_does_not_start_by_half(
    point: str, policy: MatchPolicy
) -> None:
    host = Host(plugins=[Refuses(point, "serve-copy-2-b-0")], policy=policy)
    late = [each for each in LARGE.pods if each.role and each.role[5] in "23"]
    host.tell(PodGroupAdded(LARGE.group), *[PodAdded(p) for p in LARGE.pods if p not in late])
    assert len(host.decide()) == 4
    host.tell(*map(PodAdded, late))
    assert host.decide() == ["serve-copy-3-a-0", "serve-copy-3-b-0"]
    assert "not this one" in str(host.scheduler.why(PodUID("default/serve-copy-2-b-0")))


def test_members_that_replace_lost_ones_of_a_copy_start_without_each_other() -> None:
    host = Host(plugins=[Refuses("reserve", "again-0")])
    job = gang("serve", roles={"copy": Role(1, roles={"a": 1, "b": 2})}, cpu=1)
    host.tell(*job.events())
    assert len(host.decide()) == 3
    host.end("serve-copy-0-b-0", "serve-copy-0-b-1")
    lost = [pod for pod in job.pods if pod.role == "copy/0/b"]
    again = [
        evolve(pod, uid=PodUID(f"default/again-{n}"), name=f"again-{n}")
        for n, pod in enumerate(lost)
    ]
    host.tell(*map(PodAdded, again))
    assert host.decide() == ["again-1"]
