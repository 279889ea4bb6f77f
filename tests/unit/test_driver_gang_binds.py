"""A driver that binds a whole gang in one call: one call of ``bind_gang``, one outcome."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched import (
    Bind,
    BindFailed,
    Bound,
    Event,
    InMemoryCluster,
    InvalidValueError,
    Node,
    NodeAdded,
    NodeName,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodUID,
    Release,
    presets,
)
from gangsched.drivers import aio, blocking
from gangsched.testing import make_pod
from support.shells import SHELLS, Shell

both = pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell.__name__.lower())


def node(cpu: int) -> Event:
    return NodeAdded(Node(name=NodeName("n0"), allocatable={"cpu": cpu}))


def gang(name: str, size: int, minimum: int | None = None) -> list[Event]:
    return [
        PodAdded(make_pod(f"{name}-{n}", group=name, min_available=minimum or size, cpu=1))
        for n in range(size)
    ]


class Calls:
    """What the driver calls, and the reports that it takes in; a gang can be made to fail."""

    def __init__(self, *, failures: int = 0) -> None:
        self.single: list[str] = []
        self.gangs: list[tuple[str, ...]] = []
        self.reports: list[Bound | BindFailed] = []
        self._failures = failures

    def bind(self, bind: Bind) -> None:
        self.single.append(bind.uid)

    def bind_gang(self, binds: tuple[Bind, ...]) -> None:
        assert all(isinstance(bind, Bind) for bind in binds)
        self.gangs.append(tuple(bind.uid for bind in binds))
        if self._failures:
            self._failures -= 1
            raise RuntimeError("the transaction was rolled back")

    def event(self, event: Event, now: float) -> None:
        if isinstance(event, Bound | BindFailed):
            self.reports.append(event)

    def effects(self, effects: object, now: float) -> None:
        pass

    def settled(self, now: float) -> None:
        pass


def shell_of(shell: type[Shell], calls: Calls, **given: Any) -> Shell:
    options: dict[str, Any] = {"bind": calls.bind, "bind_gang": calls.bind_gang, **given}
    return shell(observers=[calls], **options)


@both
@pytest.mark.parametrize("most", [1, 8])
def test_members_of_a_release_are_bound_in_one_call_and_others_one_by_one(
    shell: type[Shell], most: int
) -> None:
    calls = Calls()
    run = shell_of(shell, calls, max_binds=most)
    alone = PodAdded(make_pod("alone", cpu=1))
    late = PodAdded(make_pod("a-9", group="a", min_available=3, cpu=1))
    run.run(node(9), *gang("a", 3), alone, *gang("b", 2))
    run.run(late)

    assert sorted(calls.gangs) == [
        ("default/a-0", "default/a-1", "default/a-2"),
        ("default/b-0", "default/b-1"),
    ]
    assert sorted(calls.single) == ["default/a-9", "default/alone"]
    assert len(run.placed()) == 7
    for release in (each for each in run.effects if isinstance(each, Release)):
        assert tuple(release.members) in calls.gangs or len(release.members) == 1


@both
def test_each_group_of_a_bundle_is_bound_in_a_call_of_its_own(shell: type[Shell]) -> None:
    calls = Calls()
    run = shell_of(shell, calls)
    groups = [
        PodGroupAdded(PodGroup(name=name, min_available=2, bundle=(f"default/{other}",)))
        for name, other in ("ab", "ba")
    ]
    run.run(node(4), *groups, *gang("a", 2), *gang("b", 2))
    assert sorted(calls.gangs) == [
        ("default/a-0", "default/a-1"),
        ("default/b-0", "default/b-1"),
    ]
    assert calls.single == []


@both
def test_all_binds_of_a_gang_fail_with_the_reason_of_the_call_and_are_retried(
    shell: type[Shell],
) -> None:
    calls = Calls(failures=1)
    run = shell_of(shell, calls)
    run.run(node(3), *gang("a", 3))
    assert [type(each) for each in calls.reports] == [BindFailed] * 3
    assert {each.reason for each in calls.reports if isinstance(each, BindFailed)} == {
        "the transaction was rolled back"
    }
    assert run.placed() == {}

    again = presets.gang(run.cluster)
    second = shell_of(shell, calls, scheduler=again, cluster=run.cluster)
    second.run()
    assert calls.gangs == [("default/a-0", "default/a-1", "default/a-2")] * 2
    assert len(second.placed()) == 3


@both
def test_member_that_is_deleted_during_the_call_is_the_only_one_that_is_not_bound(
    shell: type[Shell],
) -> None:
    calls, cluster = Calls(), InMemoryCluster()

    def bind_gang(binds: tuple[Bind, ...]) -> None:
        calls.bind_gang(binds)
        cluster.apply(PodDeleted(PodUID("default/a-1")))

    run = shell_of(shell, calls, bind_gang=bind_gang, cluster=cluster, max_binds=1)
    run.run(node(3), *gang("a", 3))
    assert set(run.placed()) == {"default/a-0", "default/a-2"}
    assert len(run.errors) == 1


@both
def test_gang_counts_as_one_bind_and_its_reports_come_in_order(shell: type[Shell]) -> None:
    calls = Calls()
    run = shell_of(shell, calls, max_binds=2)
    run.run(node(8), *gang("a", 4), *gang("b", 4))
    by_gang = {"a": list[str](), "b": list[str]()}
    for report in calls.reports:
        by_gang[report.uid[8]].append(report.uid)
    assert by_gang == {name: [f"default/{name}-{n}" for n in range(4)] for name in "ab"}


@both
def test_only_bind_gang_binds_single_pods_too(shell: type[Shell]) -> None:
    calls = Calls()
    run = shell_of(shell, calls, bind=None)
    run.run(node(3), PodAdded(make_pod("alone", cpu=1)), *gang("a", 2))
    assert sorted(calls.gangs) == [("default/a-0", "default/a-1"), ("default/alone",)]


@both
def test_only_bind_binds_members_one_by_one(shell: type[Shell]) -> None:
    calls = Calls()
    run = shell_of(shell, calls, bind_gang=None)
    run.run(node(2), *gang("a", 2))
    assert sorted(calls.single) == ["default/a-0", "default/a-1"]


@both
@pytest.mark.parametrize("failures", [0, 1])
def test_binds_of_a_group_that_a_restored_scheduler_repeats_are_one_call(
    shell: type[Shell], failures: int
) -> None:
    cluster = InMemoryCluster()
    first = presets.gang(cluster)
    alone = [PodAdded(make_pod(name, cpu=1)) for name in ("alone", "other")]
    for event in (node(9), *gang("a", 3), *alone, *gang("b", 2)):
        first.handle(cluster.apply(event), now=0.0)
    decided = [effect for _n in range(4) for effect in first.schedule_one(now=0.0) or ()]
    done = next(e for e in decided if isinstance(e, Bind) and e.uid == "default/b-0")
    cluster.apply(Bound(done.uid, done.node, done.attempt))

    calls, again = Calls(failures=failures), presets.gang(cluster)
    again.restore(first.snapshot())
    run = shell_of(shell, calls, scheduler=again, cluster=cluster, clock=lambda: 1.0)
    run.driver.rebuild()
    run.run()
    assert calls.gangs == [("default/a-0", "default/a-1", "default/a-2")]
    assert sorted(calls.single) == ["default/alone", "default/b-1", "default/other"]
    assert len(run.placed()) == 7 - 3 * failures


@both
@pytest.mark.parametrize("name", ["apply", "bind", "bind_gang", "evict", "observe"])
def test_function_that_cannot_be_called_is_refused(shell: type[Shell], name: str) -> None:
    cluster = InMemoryCluster()
    given: dict[str, Any] = {"apply": cluster.apply, "bind": print, name: 3}
    with pytest.raises(InvalidValueError, match=f"^{name} must be a function, got 3$"):
        shell.module.Driver(presets.gang(cluster), **given)


@both
def test_driver_without_any_bind_is_refused(shell: type[Shell]) -> None:
    with pytest.raises(InvalidValueError, match="bind must be a function, unless bind_gang is one"):
        shell(bind=None)


def test_function_of_the_wrong_kind_is_refused() -> None:
    cluster = InMemoryCluster()

    async def bind_gang(_binds: tuple[Bind, ...]) -> None: ...

    with pytest.raises(InvalidValueError, match="bind_gang must be a plain function"):
        blocking.Driver(presets.gang(cluster), apply=cluster.apply, bind_gang=bind_gang)
    driver: Any = aio.Driver
    run = driver(presets.gang(cluster), apply=cluster.apply, bind_gang=lambda _binds: None)
    run.tell(node(2), *gang("a", 2))
    run.stop()
    import asyncio

    with pytest.raises(InvalidValueError, match="bind_gang must be a function that returns an"):
        asyncio.run(run.run())
