"""What is written of pods and groups: gates, lapsed nominations, refused binds, long names."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from functools import partial
from typing import Any, Final

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("msgspec", reason="the extra kubernetes is not installed")
pytest.importorskip("prometheus_client", reason="the extra metrics is not installed")

import prometheus_client

from gangsched import (
    Bind,
    InMemoryCluster,
    InvalidValueError,
    Node,
    NodeAdded,
    NodeName,
    PodAdded,
    PodGroupAdded,
    PodUpdated,
    presets,
)
from gangsched.errors import InvalidPodGroupError
from gangsched.explain import NotEnoughMembers
from gangsched.kubernetes import Settings, read_settings
from gangsched.kubernetes._bind import Binder
from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._decode import PodDecoder
from gangsched.kubernetes._recorder import EventRecorder
from gangsched.kubernetes._reflector import Delta
from gangsched.kubernetes._requests import Requests
from gangsched.manifests.queues import QUEUE
from gangsched.membership import membership
from gangsched.metrics import Metrics
from gangsched.model import Pod, PodGroup
from gangsched.values.text import shortened
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json, put_gang
from support.extender_client import extending
from support.memory_api import Fault, MemoryApi, lost_before, refused
from support.patience import HANG
from support.running import on_a_loop, running, until
from support.stepped_loop import on_a_stepped_loop

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

GPU: Final = "nvidia.com/gpu"
EVENTS: Final = "/apis/events.k8s.io/v1/events"


def events(api: MemoryApi, reason: str = "") -> list[dict[str, Any]]:
    found = api.objects.get(EVENTS, {}).values()
    return [each for each in found if reason in ("", each["reason"])]


def conditions(api: MemoryApi, resource: str, key: str) -> list[str]:
    found = api.objects[resource][key].get("status", {})
    return [each["message"] for each in found.get("conditions", ())]


# A gang of which the members have scheduling gates is gated, not incomplete ---------------------

GATE: Final = "kueue.x-k8s.io/admission"


class Run:
    """A measured scheduler with one node."""

    def __init__(self) -> None:
        self.registry: Any = prometheus_client.CollectorRegistry()
        self.cluster = InMemoryCluster()
        self.scheduler = Metrics(self.registry).watch(presets.gang(self.cluster))
        self.tell(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 9})))

    def tell(self, event: Any) -> None:
        self.scheduler.handle(self.cluster.apply(event), now=0.0)

    def counts(self) -> tuple[float, float, float]:
        """Return how many groups are gated and incomplete, and how many pods are gated."""

        def sample(name: str, **labels: str) -> float:
            return float(self.registry.get_sample_value(name, {"profile": "gangsched", **labels}))

        gated, incomplete = (
            sample("gangsched_groups", state=state) for state in ("gated", "incomplete")
        )
        return gated, incomplete, sample("scheduler_pending_pods", queue="gated")

    def why(self) -> NotEnoughMembers:
        found = self.scheduler.scheduler.why("default/g")
        assert isinstance(found, NotEnoughMembers)
        return found


def member(name: str, minimum: int | None, *gates: str, role: str | None = None) -> Pod:
    return Pod(name=name, pod_group="g", min_available=minimum, role=role, scheduling_gates=gates)


def test_gang_whose_members_are_gated_is_counted_as_gated() -> None:
    run = Run()
    run.tell(PodAdded(Pod(name="p", scheduling_gates=(GATE,))))
    assert run.counts() == (0, 0, 1)
    pods = [member(name, 2, GATE) for name in ("a", "b")]
    run.tell(PodAdded(pods[0]))
    assert run.counts() == (0, 1, 2)
    assert str(run.why()) == "waiting for 2 more members: 0 of 2 exist, 1 more gated"
    run.tell(PodAdded(pods[1]))
    assert run.counts() == (1, 0, 3)
    run.tell(PodUpdated(evolve(pods[0], scheduling_gates=())))
    assert run.counts() == (1, 0, 3), "a is not admitted, b has a gate"
    run.tell(PodUpdated(evolve(pods[1], scheduling_gates=())))
    assert run.counts() == (0, 0, 1)


@pytest.mark.parametrize(("role", "is_gated"), [("ps", True), ("worker", False)])
def test_gated_members_count_for_the_minimum_of_their_role(role: str, is_gated: bool) -> None:
    run = Run()
    run.tell(PodGroupAdded(PodGroup(name="g", min_available=2, roles={"ps": 1})))
    run.tell(PodAdded(member("a", None, role="worker")))
    run.tell(PodAdded(member("b", None, GATE, role=role)))
    assert run.counts()[:2] == (is_gated, not is_gated)
    assert bool(run.why().gates) is is_gated


def test_why_names_each_gate_once_and_counts_the_members_that_have_none() -> None:
    run = Run()
    for name, gates in (("a", ()), ("b", (GATE,)), ("c", (GATE, "quota"))):
        run.tell(PodAdded(member(name, 3, *gates)))
    assert run.why().gates == (GATE, "quota")
    assert str(run.why()) == f"2 of 3 members are gated: {GATE}, quota"


def partly_gated(minimum: int, *, gated: int) -> MemoryApi:
    """Return a cluster with a native group of one pod without a gate, and some with one."""
    api = MemoryApi()
    api.put(NODES, node_json("n"))
    api.put(GROUPS, group_json("g", minimum))
    for n in range(1 + gated):
        gates = [{"name": "example.com/quota"}] if n else []
        api.put(PODS, pod_json(f"g-{n}", group="g", schedulingGates=gates))
    return api


def reasons_of(api: MemoryApi) -> dict[str, str]:
    """Return the reason of the condition of each pod that has one."""
    return {
        key: condition["reason"]
        for key, pod in api.objects[PODS].items()
        for condition in pod.get("status", {}).get("conditions", ())
    }


@pytest.mark.parametrize(
    ("minimum", "gated", "expected"),
    [
        (2, 1, ("Normal", "SchedulingGated", "1 of 2 members is gated: example.com/quota")),
        (
            4,
            2,
            (
                "Warning",
                "Incomplete",
                "waiting for 3 more members: 1 of 4 exist, 2 more gated",
            ),
        ),
        (2, 0, ("Warning", "Incomplete", "waiting for 1 more member: 1 of 2 exist")),
    ],
)
@on_a_stepped_loop
async def test_group_that_lacks_members_and_its_pods_say_which_gates_are_in_the_way(
    minimum: int, gated: int, expected: tuple[str, str, str]
) -> None:
    api = partly_gated(minimum, gated=gated)
    async with running(api):
        await until(lambda: len(events(api)) == gated + 2)
        await until(lambda: conditions(api, PODS, "default/g-0"))
        await until(lambda: conditions(api, GROUPS, "default/g"))
        # an autoscaler adds nodes for unschedulable pods, which do not help a gated one
        reasons = {f"default/g-{n}": "SchedulingGated" for n in range(1, 1 + gated)}
        await until(lambda: reasons_of(api) == {"default/g-0": "Unschedulable", **reasons})
    for event in events(api):
        assert (event["type"], event["reason"], event["note"]) == expected
    assert conditions(api, PODS, "default/g-0") == [expected[2]]
    assert conditions(api, GROUPS, "default/g") == [expected[2]]


@on_a_stepped_loop
async def test_gang_that_is_gated_as_a_whole_has_no_event() -> None:
    """Its controller has not admitted it: nothing has failed."""
    api = partly_gated(2, gated=2)
    api.remove(PODS, "default/g-0")
    async with running(api):
        await until(lambda: api.watchers.get(PODS))
        await asyncio.sleep(30.0)
    assert events(api) == []


# Quotas and queues ------------------------------------------------------------------------------


def with_quotas(**quota: Any) -> Settings:
    row = {"name": "team", **quota}
    return read_settings({"leaderElection": {"leaderElect": False}, "quotas": [row]})


@on_a_loop
async def test_regular_pod_that_waits_for_a_quota_says_so_until_another_one_ends() -> None:
    api = MemoryApi()
    api.put(NODES, node_json("n", gpu=9))
    api.put(PODS, pod_json("first", nodeName="n"))
    settings = with_quotas(namespaces=["default"], hard={GPU: 1})
    said = f"exceeded quota team: requested {GPU}=1, used {GPU}=1, limited {GPU}=1"
    async with asyncio.timeout(HANG), running(api, settings):
        api.put(PODS, pod_json("second"))
        await until(lambda: conditions(api, PODS, "default/second") == [said])
        await until(lambda: failures(api) == {"second": said})
        api.remove(PODS, "default/first")
        await until(lambda: api.pods()["default/second"])


@pytest.mark.parametrize("queue", ["other", "team"])
@on_a_loop
async def test_pods_in_a_queue_that_does_not_exist_are_held_with_the_reason(queue: str) -> None:
    api = MemoryApi()
    api.put(NODES, node_json("n", gpu=9))
    for name, group in (("single", None), ("g-0", "g")):
        pod = pod_json(name, group=group)
        pod["metadata"]["labels"] = {} if group else {QUEUE: queue}
        api.put(PODS, pod)
    group_of_one = group_json("g", 1)
    group_of_one["metadata"]["labels"] = {QUEUE: queue}
    api.put(GROUPS, group_of_one)
    said = ["queue other does not exist"]
    async with asyncio.timeout(HANG), running(api, with_quotas(nominal={GPU: 4})):
        if queue == "team":
            await until(lambda: all_bound(api))
            return
        await until(lambda: conditions(api, PODS, "default/single") == said)
        await until(lambda: conditions(api, PODS, "default/g-0") == said)
        await until(lambda: conditions(api, GROUPS, "default/g") == said)
        await until(lambda: failures(api) == dict.fromkeys(("single", "g-0"), said[0]))


# Lapsed nominations, and victims that take long to terminate ------------------------------------

GRACE: Final = 0.4


def preempting() -> Settings:
    preemption = {"name": "DefaultPreemption", "args": {"graceSeconds": GRACE}}
    profile = {"schedulerName": "gangsched", "pluginConfig": [preemption]}
    return read_settings({"leaderElection": {"leaderElect": False}, "profiles": [profile]})


def full(nodes: int) -> MemoryApi:
    """Return nodes of one GPU, each held by a pod of priority 0 that is never evicted."""
    api = MemoryApi()
    api.fault = lambda method, path: (
        refused(500)
        if "/pods/" in path and (method == "DELETE" or path.endswith("/eviction"))
        else None
    )
    for n in range(nodes):
        api.put(NODES, node_json(f"n{n}", gpu=1))
        api.put(PODS, pod_json(f"low-n{n}", nodeName=f"n{n}"))
    return api


@pytest.mark.parametrize("group", [None, "g"])
@on_a_loop
async def test_preemptor_whose_victims_stay_gets_an_event_and_names_no_node(
    group: str | None,
) -> None:
    api = full(1)

    def nominated() -> str | None:
        found: str | None = api.objects[PODS]["default/high"]["status"].get("nominatedNodeName")
        return found

    async with asyncio.timeout(HANG), running(api, preempting()):
        if group is not None:
            api.put(GROUPS, group_json("g", 1))
        api.put(PODS, pod_json("high", priority=5, group=group))
        await until(lambda: nominated() == "n0")
        await until(lambda: events(api, "NominationLapsed"))
        await until(lambda: nominated() is None)
        api.fault = lambda _method, _path: None
    found = events(api, "NominationLapsed")[0]
    kind = ("Pod", "high") if group is None else ("PodGroup", "g")
    assert (found["regarding"]["kind"], found["regarding"]["name"]) == kind
    assert found["type"] == "Warning"
    assert found["note"] == "Its nodes are nominated no longer: 1 pod did not terminate in time"


@on_a_loop
async def test_victim_that_may_still_terminate_is_counted_on_after_the_grace() -> None:
    """Its ``deletionTimestamp`` is to come: no other pod is evicted in its place."""
    api = full(2)
    async with asyncio.timeout(HANG), running(api, preempting()):
        api.put(PODS, pod_json("high", priority=5))
        await until(lambda: events(api, "Preempted"))
        (first,) = events(api, "Preempted")
        victim = api.get(PODS, f"default/{first['regarding']['name']}")
        assert victim is not None
        instant = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 600.0))
        victim["metadata"]["deletionTimestamp"] = instant
        api.put(PODS, victim)
        await asyncio.sleep(3 * GRACE)
        assert len(events(api, "Preempted")) == 1
        assert events(api, "NominationLapsed") == []
        api.fault = lambda _method, _path: None
        api.remove(PODS, f"default/{victim['metadata']['name']}")
        await until(lambda: api.pods()["default/high"])


# A pod whose bind is refused and repeated has its event at once, not when the repetition ends ---


def failing(answer: Fault, *, times: int = 1_000_000) -> MemoryApi:
    """Return a cluster with a gang of two, and an API server that refuses some binds."""
    api, left = MemoryApi(), [answer] * times
    api.put(NODES, node_json("n"))
    put_gang(api, "g", 2)
    api.fault = lambda _method, path: left.pop() if path.endswith("/binding") and left else None
    return api


def failures(api: MemoryApi) -> dict[str, str]:
    """Return the notes of the failures, by the name of their pod."""
    found = events(api, "FailedScheduling")
    return {
        each["regarding"]["name"]: each["note"]
        for each in found
        if each["regarding"]["kind"] == "Pod"
    }


@pytest.mark.parametrize(
    ("status", "problem"),
    [(401, "it must not"), (403, "it must not"), (500, "failed calling webhook")],
)
@on_a_loop
async def test_pod_whose_bind_is_refused_has_its_event_while_the_bind_is_repeated(
    status: int, problem: str
) -> None:
    api = failing(refused(status, problem))
    async with asyncio.timeout(HANG), running(api):
        await until(lambda: len(failures(api)) == 2)
        assert not any(api.pods().values())
        api.fault = lambda _method, _path: None  # the right is given: the bind itself goes on
        await until(lambda: len(events(api)) == 5)  # two failures, and what was placed: three
        assert all_bound(api)
    assert failures(api) == dict.fromkeys(("g-0", "g-1"), f"binding rejected: {problem}")


@on_a_loop
async def test_member_that_the_extender_may_not_bind_has_its_event() -> None:
    api = failing(refused(403, "it must not"))
    async with asyncio.timeout(HANG), extending(api) as asking:
        names = ("g-0", "g-1")
        nodes = {name: await asking.decided(name, ["n"]) for name in names}
        binds = [asyncio.create_task(asking.bind(name, node)) for name, node in nodes.items()]
        await until(lambda: len(failures(api)) == 2)
        assert not any(each.done() for each in binds)
        api.fault = lambda _method, _path: None
        assert await asyncio.gather(*binds) == ["", ""]
    assert failures(api) == dict.fromkeys(names, "binding rejected: it must not")


def all_bound(api: MemoryApi) -> bool:
    return all(api.pods().values())


@on_a_loop
async def test_bind_that_is_repeated_at_once_leaves_no_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorded: list[str] = []
    record = EventRecorder.record

    def seen(self: EventRecorder, regarding: Any, kind: str, reason: str, *more: str) -> None:
        recorded.append(reason)
        record(self, regarding, kind, reason, *more)

    monkeypatch.setattr(EventRecorder, "record", seen)
    for answer in (refused(429, "later"), refused(503, "it starts"), lost_before()):
        api = failing(answer, times=2)
        async with running(api):
            await until(partial(all_bound, api))
    assert "FailedScheduling" not in recorded
    assert "Scheduled" in recorded


@pytest.mark.parametrize("is_done", [False, True])
@on_a_loop
async def test_problem_of_a_bind_is_known_between_its_tries_and_forgotten_at_its_end(
    is_done: bool,
) -> None:
    """A bind that was done although the answer says otherwise is no failure."""
    api, cache, decode = MemoryApi(), Cache(["gangsched"]), PodDecoder()
    cache.cluster.apply(NodeAdded(Node(name="n")))
    facts = decode(json.dumps(api.put(PODS, pod_json("p"))).encode())
    assert facts is not None
    cache.pod(Delta("added", facts.identity, facts))
    refusal = refused(503, "later", retry_after="2") if is_done else refused(403, "not yours")
    faults = [evolve(refusal, done=is_done)]
    api.fault = lambda _method, _path: faults.pop() if faults else None
    repeated: list[str] = []
    seen: list[dict[str, str]] = []

    async def pause(_seconds: float) -> None:
        seen.append({str(uid): problem for uid, problem in cache.bind_problems.items()})

    binder = Binder(
        Requests(api, sleep=pause),
        cache,
        decode,
        lambda _event: None,
        repeated=lambda _bind, problem: repeated.append(problem),
    )
    await binder(Bind(facts.pod.uid, NodeName("n"), 1))
    (between,) = seen
    assert is_done or "not yours" in between[facts.pod.uid]
    assert bool(repeated) is not is_done
    assert cache.bind_problems == {}


# What users write may be a quarter of a megabyte long; what is told of it is not ----------------

MOST: Final = 1024


@given(st.text(), st.integers(3, 40))
def test_text_is_cut_at_bytes_and_says_so(text: str, most: int) -> None:
    cut, data = shortened(text, most), text.encode(errors="replace")
    if len(data) <= most:
        assert cut == text
        return
    assert cut.endswith("...")
    kept = cut[:-3].encode()
    assert data[: most - 3].startswith(kept)
    assert most - 3 - len(kept) < 4


@pytest.mark.parametrize(
    ("key", "length", "is_refused"),
    [
        ("scheduling.k8s.io/group-name", 253, False),
        ("scheduling.k8s.io/group-name", 254, True),
        ("gang.scheduling.koordinator.sh/name", 254, True),
        ("volcano.sh/task-spec", 253, False),
        ("volcano.sh/task-spec", 254, True),
    ],
)
def test_name_that_no_object_can_have_is_refused(key: str, length: int, is_refused: bool) -> None:
    pod = Pod(name="p", annotations={"scheduling.k8s.io/group-name": "g", key: "x" * length})
    if not is_refused:
        assert membership(pod) is not None
        return
    with pytest.raises(InvalidPodGroupError, match=r"a name of at most 253 characters") as error:
        membership(pod)
    assert error.value.field == key


def test_error_shows_the_beginning_of_a_long_value_and_its_length() -> None:
    error = str(InvalidValueError("field", "x" * 300_000, "short"))
    assert len(error) < 1000
    assert error.startswith("field must be short, got 'xxx")
    assert error.endswith("... (300,002 characters)")
    assert str(InvalidValueError("field", "x" * 500, "short")).endswith("x'")


@on_a_loop
async def test_long_names_are_cut_in_conditions_events_and_logs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "gangsched")
    api = MemoryApi()
    api.put(NODES, node_json("n", gpu=4))
    pod = pod_json("p")
    pod["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "ä" * 100_000}
    api.put(PODS, pod)
    selector = {"key": "v" * 63, **{f"k{n}": "v" * 63 for n in range(100)}}
    api.put(PODS, pod_json("q", nodeSelector=selector))

    def notes() -> dict[str, str]:
        return {each["regarding"]["name"]: each["note"] for each in events(api)}

    async with running(api):
        await until(lambda: {"p", "q"} <= set(notes()))
    assert "at most 253 characters" in notes()["p"]
    for name in ("p", "q"):
        for text in (notes()[name], *conditions(api, PODS, f"default/{name}")):
            assert len(text.encode()) <= MOST
    assert max(len(each.getMessage()) for each in caplog.records) < 4 * MOST
