"""A driver when something raises, and when it is stopped: no effect is lost."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from gangsched import (
    Bind,
    BindFailed,
    Bound,
    ClusterStateError,
    Coscheduling,
    Effect,
    Event,
    Evict,
    GroupScheduled,
    InMemoryCluster,
    InvalidValueError,
    Node,
    NodeAdded,
    NodeName,
    PluginError,
    Pod,
    PodAdded,
    PodDeleted,
    PodUID,
    Profile,
    Scheduler,
    WhenBindFails,
    presets,
)
from gangsched.drivers._evictions import Evictions
from gangsched.outcomes import SUCCESS
from gangsched.plugins import DefaultBinder, NodeResources
from gangsched.testing import FakeClock, make_pod
from support.patience import HANG
from support.shells import SHELLS, Aio, Blocking, Shell

both = pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell.__name__.lower())


def node(cpu: int) -> Event:
    return NodeAdded(Node(name=NodeName("n0"), allocatable={"cpu": cpu}))


def gang(name: str, size: int) -> list[Event]:
    return [
        PodAdded(make_pod(f"{name}-{n}", group=name, min_available=size, cpu=1))
        for n in range(size)
    ]


class Around:
    """A scheduler, some of whose calls are preceded by one of ``before``."""

    def __init__(self, inner: Scheduler, **before: Any) -> None:
        self.inner = inner
        self.before = before

    def __getattr__(self, name: str) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            self.before.get(name, lambda *_given: None)(*given)
            return getattr(self.inner, name)(*given, **named)

        return call


# Binds, events and observers --------------------------------------------------------------------


@both
def test_pod_that_is_deleted_during_its_bind_ends_nothing(shell: type[Shell]) -> None:
    """The cluster state no longer shows the pod when its bind is reported."""

    def bind(effect: Bind) -> None:
        if effect.uid == "default/a-0":
            run.cluster.apply(PodDeleted(effect.uid))
            run.tell(PodDeleted(effect.uid))

    run = shell(bind=bind)
    run.run(node(2), *gang("a", 2), *gang("b", 1))
    assert [type(what) for what, _error in run.errors] == [Bound]
    assert isinstance(run.errors[0][1], ClusterStateError)
    run.run(*gang("c", 1))  # the node that the deleted pod had is free
    assert len(run.placed()) == 2
    run.scheduler._check()


@both
def test_event_that_is_refused_is_dropped_and_the_others_are_taken_in(shell: type[Shell]) -> None:
    cluster = InMemoryCluster()

    def apply(event: Event) -> None:
        if isinstance(event, PodDeleted):
            raise OSError("no such row")
        cluster.apply(event)

    run = shell(cluster=cluster, apply=apply)
    ghost = Bound(PodUID("ghost"), NodeName("n0"), 1)
    run.run(node(1), PodDeleted(PodUID("x")), ghost, *gang("a", 1))
    assert [what for what, _error in run.errors] == [PodDeleted(PodUID("x")), ghost]
    assert str(run.errors[0][1]) == "no such row"
    assert list(run.placed()) == ["default/a-0"]


@both
def test_exception_that_is_no_error_of_a_bind_ends_run(shell: type[Shell]) -> None:
    class Killed(BaseException):
        pass

    def bind(effect: Bind) -> None:
        if effect.uid == "default/a-0" and not killed:
            killed.append(True)
            raise Killed

    killed: list[bool] = []
    run = shell(bind=bind, max_binds=1)
    with pytest.raises(Killed):
        run.run(node(2), *gang("a", 2))
    run.run_on()
    assert "default/a-1" in run.placed()
    run.scheduler._check()


@both
@pytest.mark.parametrize("kind", [GroupScheduled, Bind])
def test_observe_that_raises_ends_run_after_the_gang_is_bound(
    shell: type[Shell], kind: type
) -> None:
    def observe(effect: Effect) -> None:
        if isinstance(effect, kind):
            raise RuntimeError("disk full")

    run = shell(observe=observe)
    with pytest.raises(RuntimeError, match="disk full"):
        run.run(node(3), *gang("a", 3))
    assert len(run.placed()) == 3
    run.scheduler._check()


@both
@pytest.mark.parametrize("method", ["event", "effects", "settled"])
def test_observer_that_raises_once_ends_run_and_the_next_run_goes_on(
    shell: type[Shell], method: str
) -> None:
    class Raises:
        calls = 0

        def __getattr__(self, name: str) -> Any:
            return lambda *_given: self.count() if name == method else None

        def count(self) -> None:
            self.calls += 1
            if self.calls == 1:
                raise RuntimeError("disk full")

    run = shell(observers=(Raises(),))
    run.tell(node(3), *gang("a", 3))
    if method != "settled":
        run.driver.stop()
    with pytest.raises(RuntimeError, match="disk full"):
        run.run_on()
    if method == "settled":
        run.driver.stop()
    run.run_on()
    assert len(run.placed()) == 3


# The scheduler ----------------------------------------------------------------------------------


class Broken:
    """A plugin that raises until it is mended."""

    name = "Broken"
    is_mended = False

    def pre_filter(self, state: Any, pod: Pod, *, now: float) -> Any:
        if not self.is_mended and pod.name.startswith("b"):
            raise OSError("gone")
        return SUCCESS


@both
def test_run_may_be_called_again_after_a_plugin_raised(shell: type[Shell]) -> None:
    plugin = Broken()
    profile = Profile(Coscheduling(), NodeResources(), plugin, DefaultBinder())
    run = shell(lambda cluster: Scheduler(cluster, profile))
    for _turn in range(2):
        with pytest.raises(PluginError, match="gone"):
            run.run(node(3), *gang("a", 1), *gang("b", 2))
    plugin.is_mended = True
    run.run_on()
    assert len(run.placed()) == 3


@both
def test_report_that_the_scheduler_refused_is_repeated(shell: type[Shell]) -> None:
    """A report of a failed bind is in no cluster state, so ``rebuild`` alone cannot find it."""
    failed, stumbled = list[str](), list[bool]()

    def bind(effect: Bind) -> None:
        if not failed:
            failed.append(effect.uid)
            raise OSError("no route")

    def stumble(*events: Event) -> None:
        if any(isinstance(event, BindFailed) for event in events) and not stumbled:
            stumbled.append(True)
            raise TimeoutError("the cluster state does not answer")

    cluster, clock = InMemoryCluster(), FakeClock()
    scheduler = Around(presets.gang(cluster), handle=stumble)
    run = shell(cluster=cluster, bind=bind, scheduler=scheduler, clock=clock)
    with pytest.raises(TimeoutError):
        run.run(node(1), *gang("a", 1))
    run.run_on()
    clock.advance(60.0)
    run.run()
    assert list(run.placed()) == ["default/a-0"]
    scheduler.inner._check()


@both
def test_driver_that_runs_cannot_be_run_a_second_time(shell: type[Shell]) -> None:
    raised: list[str] = []

    def bind(_bind: Bind) -> Any:
        async def again() -> None:
            with pytest.raises(RuntimeError) as caught:
                await run.driver.run()
            raised.append(str(caught.value))

        if shell is Aio:
            return again()
        with pytest.raises(RuntimeError) as caught:
            run.driver.run()
        raised.append(str(caught.value))
        return None

    run = shell(bind=bind)
    run.run(node(1), *gang("a", 1))
    assert raised == ["the driver is running already"]


@pytest.mark.parametrize("another", [False, True], ids=["same driver", "new driver"])
def test_binds_of_a_cancelled_task_are_reported_or_begun_anew(another: bool) -> None:
    """F42. One bind of three has ended, one is cancelled, and one was not begun."""
    clock, called = FakeClock(), list[str]()

    async def bind(effect: Bind) -> None:
        called.append(effect.uid[-3:])
        if len(called) == 2:
            await asyncio.sleep(3600)

    async def story() -> Shell:
        run = Aio(bind=bind, clock=clock, max_binds=1)
        run.tell(node(3), *gang("a", 3))
        run.driver.stop()
        task = asyncio.create_task(run.driver.run())
        while len(called) < 2:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        if another:
            run = Aio(bind=bind, clock=clock, max_binds=1, cluster=run.cluster)
            run.driver.stop()
        await asyncio.wait_for(run.driver.run(), HANG)
        clock.advance(60.0)
        run.driver.stop()
        await asyncio.wait_for(run.driver.run(), HANG)
        return run

    run = asyncio.run(story())
    assert called == ["a-0", "a-1", *(("a-1", "a-2") if another else ("a-2", "a-1"))]
    assert len(run.placed()) == 3
    run.scheduler._check()


def test_bind_for_which_no_thread_can_be_started_has_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Exhausted:
        def __init__(self, *_given: Any, **_named: Any) -> None:
            return

        def submit(self, *_given: Any) -> None:
            raise RuntimeError("can't start new thread")

        def shutdown(self, **_given: Any) -> None:
            return

    pool = "gangsched.drivers.blocking.concurrent.futures.ThreadPoolExecutor"
    monkeypatch.setattr(pool, Exhausted)
    run = Blocking(clock=lambda: 0.0)
    run.run(node(1), *gang("a", 1))
    assert run.placed() == {}
    assert "can't start new thread" in str(run.scheduler.why(PodUID("default/a-0")))


# Evictions --------------------------------------------------------------------------------------


def releasing(cluster: InMemoryCluster) -> Scheduler:
    return presets.gang(cluster, when_bind_fails=WhenBindFails.RELEASE_GROUP)


def second_fails(effect: Bind) -> None:
    if effect.uid == "default/a-1":
        raise OSError("no route")


@both
def test_error_of_several_events_that_is_of_none_of_them_ends_run(shell: type[Shell]) -> None:
    """Each is handled by itself once more, and nothing is wrong then: a plugin raised amid them."""

    def stumble(*events: Event) -> None:
        if len(events) > 1:
            raise TimeoutError("a plugin does not answer")

    cluster = InMemoryCluster()
    run = shell(cluster=cluster, scheduler=Around(presets.gang(cluster), handle=stumble))
    with pytest.raises(TimeoutError, match="a plugin does not answer"):
        run.run(node(2), *gang("a", 2))
    assert run.errors == []


@both
def test_eviction_without_a_function_that_evicts_ends_run(shell: type[Shell]) -> None:
    run = shell(releasing, bind=second_fails)
    with pytest.raises(InvalidValueError) as raised:
        run.run(node(2), *gang("a", 2))
    assert raised.value.field == "evict"
    assert "asks to evict default/a-0" in raised.value.expected


@both
def test_eviction_that_fails_is_repeated_until_it_succeeds(
    shell: type[Shell], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gangsched.drivers._evictions._FIRST_DELAY", 0.01)
    tried: list[str] = []

    def evict(effect: Evict) -> None:
        tried.append(effect.uid)
        if len(tried) < 3:
            raise OSError("no route")
        run.tell(PodDeleted(effect.uid))
        run.driver.stop()

    run = shell(releasing, bind=second_fails, evict=evict)
    run.tell(node(2), *gang("a", 2))
    run.run_on()
    assert tried == ["default/a-0"] * 3
    assert [(type(what), str(error)) for what, error in run.errors] == [(Evict, "no route")] * 2
    assert run.cluster.pod(PodUID("default/a-0")) is None


@both
def test_eviction_of_a_pod_that_is_gone_is_not_repeated(shell: type[Shell]) -> None:
    clock, tried = FakeClock(), list[str]()

    def evict(effect: Evict) -> None:
        tried.append(effect.uid)
        run.tell(PodDeleted(effect.uid))
        clock.advance(100.0)
        raise OSError("not found")

    run = shell(releasing, bind=second_fails, evict=evict, clock=clock, max_binds=1)
    run.run(node(2), *gang("a", 2))
    clock.advance(100.0)
    run.run()
    assert tried == ["default/a-0"]


def test_delays_between_evictions_double_up_to_a_minute() -> None:
    evictions, evict = Evictions(), Evict(PodUID("p"), NodeName("n"), "why")
    evictions.begin(evict)
    now, delays = 0.0, list[float]()
    for _turn in range(8):
        assert evictions.failed(evict, now=now)
        when = evictions.next_deadline()
        assert when is not None
        assert evictions.due(now=when - 0.5) == []
        assert evictions.due(now=when) == [evict]
        delays.append(when - now)
        now = when
    assert delays == [1, 2, 4, 8, 16, 32, 60, 60]
    evictions.end(evict.uid)
    assert not evictions.failed(evict, now=now)
    assert (len(evictions), evictions.next_deadline()) == (0, None)


# A driver that is stopped at once decides nothing more, and ends the binds that it has begun ------


def stopped_in(
    shell: type[Shell], method: str, number: int, **given: Any
) -> tuple[Shell, list[str]]:
    """Return a driver that is stopped in a call of its scheduler, with 200 pods to place."""
    calls: list[str] = []

    def note(call: str) -> None:
        calls.append(call)
        if (call, calls.count(call)) == (method, number):
            run.driver.stop(at_once=True)

    cluster = InMemoryCluster()
    scheduler = Around(
        presets.gang(cluster),
        handle=lambda *events: note("report" if isinstance(events[0], Bound) else "handle"),
        schedule_one=lambda: note("schedule_one"),
    )
    run = shell(cluster=cluster, scheduler=scheduler, **given)
    run.tell(node(1000), *(PodAdded(make_pod(f"p{n}", cpu=1)) for n in range(200)))
    run.run_on()
    return run, calls


@both
@pytest.mark.parametrize("most", [1, 64])
def test_no_event_and_no_decision_follows_the_decision_under_way(
    shell: type[Shell], most: int
) -> None:
    run, calls = stopped_in(shell, "schedule_one", 5, max_binds=most)
    assert calls.count("schedule_one") == 5
    assert "handle" not in calls[calls.index("schedule_one") :]
    assert len(run.placed()) == 5
    assert 1 <= calls.count("report") <= 5


@both
def test_run_that_was_stopped_in_an_event_goes_on_with_the_events_that_were_kept(
    shell: type[Shell],
) -> None:
    run, calls = stopped_in(shell, "handle", 2)
    assert calls.count("handle") == 2
    assert calls[-1] != "schedule_one"
    assert len(run.placed()) < 200
    run.run()
    assert len(run.placed()) == 200


@both
def test_binds_that_wait_for_their_turn_are_performed_and_reported(shell: type[Shell]) -> None:
    """A gang of 20 was decided, of which two binds at once are under way."""
    run = shell(bind=lambda _bind: run.driver.stop(at_once=True), max_binds=2)
    run.tell(node(20), *gang("g", 20))
    run.run_on()
    assert len(run.placed()) == 20


def test_thread_that_sleeps_ends_when_it_is_stopped_at_once() -> None:
    run = Blocking()
    thread = threading.Thread(target=run.run_on)
    thread.start()
    run.driver.stop(at_once=True)
    thread.join(HANG)
    assert not thread.is_alive()


def test_task_that_sleeps_ends_when_it_is_stopped_at_once() -> None:
    async def stopped() -> None:
        run = Aio()
        task = asyncio.create_task(run.driver.run())
        await asyncio.sleep(0.01)
        run.driver.stop(at_once=True)
        await asyncio.wait_for(task, HANG)

    asyncio.run(stopped())
