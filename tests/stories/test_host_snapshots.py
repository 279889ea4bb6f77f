"""A host is stopped, and another one goes on with its jobs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    HostClosedError,
    InvalidValueError,
    Node,
    NodeAdded,
    NodeDeleted,
    NodeName,
    PluginError,
    Pod,
    PodDeleted,
    Preemption,
    RestartPolicy,
    Scheduler,
    gang,
    presets,
)
from gangsched.drivers.host import JobState
from gangsched.protocols import ClusterState
from support.hosts import Starts, both, run
from support.patience import until_on_loop

TRAIN = gang("train", workers=2, cpu=1)
ON_A = {"train-0": "a", "train-1": "a"}
NEXT = Pod(name="next", requests={"cpu": 2})
LATE = Pod(name="late", requests={"cpu": 2})


def node(cpu: int, name: str = "a") -> NodeAdded:
    return NodeAdded(Node(name=name, allocatable={"cpu": cpu}))


def kept(host: Any) -> Any:
    """Return the snapshot of a host as a file gives it back."""
    return json.loads(json.dumps(host.snapshot(), allow_nan=False, sort_keys=True))


@both
def test_next_host_goes_on_with_the_jobs_of_the_one_before(kind: Any) -> None:
    async def story(host: Any, starts: Starts) -> None:
        async with host:
            host.tell(node(2))
            await host.submit(TRAIN).started()
            host.submit(NEXT)
            host.submit(LATE)
        async with kind(start=starts.start, snapshot=kept(host)) as after:
            jobs = after.jobs()
            assert list(jobs) == ["default/train", "default/next", "default/late"]
            states = [job.state for job in jobs.values()]
            assert states == [JobState.STARTED, JobState.PENDING, JobState.PENDING]
            assert await jobs["default/train"].started() == ON_A == jobs["default/train"].places
            assert "does not fit" in str(await after.why(jobs["default/next"]))
            with pytest.raises(InvalidValueError, match="key must be unused"):
                after.submit(TRAIN)
            await after.finish(jobs["default/train"])
            assert await jobs["default/next"].started() == {"next": "a"}
            assert await after.cancel(jobs["default/next"]) == {"next": "a"}
            assert await jobs["default/late"].started() == {"late": "a"}
        assert sorted(starts.tried) == ["late", "next", "train-0", "train-1"]

    run(kind, story)


@both
def test_start_under_way_is_called_again_by_the_next_host_and_no_other(kind: Any) -> None:
    async def story(host: Any, starts: Starts) -> None:
        await host.start()
        host.tell(node(2))
        job = host.submit(TRAIN)
        await starts.begun.wait()
        await until_on_loop(lambda: dict(job.places) == {"train-0": "a"})
        data = kept(host)
        again = Starts()
        async with kind(start=again.start, snapshot=data) as after:
            assert await after.jobs()["default/train"].started() == ON_A
        assert again.tried == ["train-1"]
        starts.let_go.set()
        await host.stop()

    run(kind, story, Starts("train-1"))


@both
def test_snapshot_has_what_was_handed_in_after_the_stop(kind: Any) -> None:
    async def story(host: Any, starts: Starts) -> None:
        async with host:
            host.tell(node(2))
            job = host.submit(TRAIN)
            await job.started()
            host.submit(NEXT)
        await host.finish(job)
        async with kind(start=starts.start, snapshot=kept(host)) as after:
            assert list(after.jobs()) == ["default/next"]
            assert await after.jobs()["default/next"].started() == {"next": "a"}

    run(kind, story)


@both
@pytest.mark.parametrize("call", ["submit", "finish"])
def test_snapshot_has_a_call_that_has_not_reached_the_driver(
    kind: Any, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(host: Any, starts: Starts) -> None:
        taken: list[Any] = []
        async with host:
            host.tell(node(2))
            job = host.submit(TRAIN)
            await job.started()
            inner = getattr(host, "host", host).driver
            tell = inner.tell

            def tell_late(*events: Any) -> None:
                taken.append(kept(host))
                tell(*events)

            monkeypatch.setattr(inner, "tell", tell_late)
            if call == "finish":
                await host.finish(job)
            host.submit(NEXT)
            monkeypatch.undo()
        async with kind(start=starts.start, snapshot=taken[0]) as after:
            if call == "finish":
                assert after.jobs() == {}
                after.submit(NEXT)
            else:
                await after.finish(after.jobs()["default/train"])
            assert await after.jobs()["default/next"].started() == {"next": "a"}

    run(kind, story)


@both
def test_snapshot_has_the_end_of_an_evicted_pod_that_has_not_reached_the_driver(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(host: Any, starts: Starts) -> None:
        taken: list[Any] = []
        low, high = (
            Pod(name=name, requests={"cpu": 2}, priority=priority)
            for name, priority in (("low", 0), ("high", 1))
        )
        async with host:
            host.tell(node(2))
            await host.submit(low).started()
            inner = getattr(host, "host", host).driver
            tell = inner.tell

            def tell_late(*events: Any) -> None:
                if isinstance(events[0], PodDeleted):
                    taken.append(kept(host))
                tell(*events)

            monkeypatch.setattr(inner, "tell", tell_late)
            await host.submit(high).started()
        again = Starts()
        options: dict[str, Any] = {"start": again.start, "evict": again.evict, "make": make}
        async with kind(**options, snapshot=taken[0]) as after:
            assert await after.jobs()["default/high"].started() == {"high": "a"}
        assert (again.tried, again.ended) == (["high"], [])

    def make(cluster: ClusterState) -> Scheduler:
        return presets.gang(cluster, preemption=Preemption())

    starts = Starts()
    run(kind, story, starts, evict=starts.evict, make=make)


@both
def test_next_host_restarts_a_job_that_loses_its_machine(kind: Any) -> None:
    async def story(host: Any, starts: Starts) -> None:
        policy = RestartPolicy(max_restarts=2, backoff=0.01)
        job = evolve(TRAIN, group=evolve(TRAIN.group, restart=policy))
        async with host:
            host.tell(node(1, "a"), node(1, "b"))
            await host.submit(job).started()
        with pytest.raises(InvalidValueError, match="a host with evict"):
            kind(start=starts.start, snapshot=kept(host))
        options: dict[str, Any] = {"start": starts.start, "evict": starts.evict}
        async with kind(**options, snapshot=kept(host)) as after:
            after.tell(NodeDeleted(NodeName("a")), node(1, "c"))
            places = after.jobs()["default/train"]
            await until_on_loop(lambda: sorted(places.places.values()) == ["b", "c"])
        assert len(starts.ended) == 1
        assert len(starts.tried) == 4

    starts = Starts()
    run(kind, story, starts, evict=starts.evict)


@both
def test_snapshot_that_is_malformed_is_refused(kind: Any) -> None:
    async def story(host: Any, starts: Starts) -> None:
        async with host:
            host.tell(node(2))
            await host.submit(TRAIN).started()
        data = kept(host)
        wrong: list[tuple[str, Any]] = [
            ("snapshot must be an object", []),
            (r"snapshot\.format must be gangsched\.host/1", data["scheduler"]),
            (r"snapshot\.cluster must be present", {"format": data["format"]}),
            (r"snapshot\.more must be absent", {**data, "more": 1}),
            (r"snapshot\.jobs must be jobs with pods", {**data, "jobs": [_without_pods(data)]}),
            ("key must be unused", {**data, "jobs": data["jobs"] * 2}),
        ]
        for expected, one in wrong:
            with pytest.raises(InvalidValueError, match=expected):
                kind(start=starts.start, snapshot=one)
        with pytest.raises(InvalidValueError, match="unit must be pod"):
            kind(start=starts.start, make=presets.coscheduling, snapshot=data)

    run(kind, story)


def _without_pods(data: Any) -> Any:
    (job,) = data["jobs"]
    return {**job, "added": job["added"][:1]}


@both
def test_host_that_an_error_ended_gives_no_snapshot(kind: Any) -> None:
    class Broken:
        name = "Broken"

        def filter(self, *_given: object) -> None:
            raise KeyError("oops")

    async def story(host: Any, _starts: Starts) -> None:
        await host.start()
        host.tell(node(2))
        job = host.submit(NEXT)
        await until_on_loop(lambda: job.state is JobState.CANCELLED)
        with pytest.raises(HostClosedError, match=r"snapshot was refused: .*oops"):
            host.snapshot()
        with pytest.raises(PluginError):
            await host.stop()

    def make(cluster: ClusterState) -> Scheduler:
        return presets.gang(cluster, plugins=[Broken()])

    run(kind, story, make=make)
