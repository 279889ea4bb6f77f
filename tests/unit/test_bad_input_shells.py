"""Bad input to drivers: refused where it is handed in, before the loop takes it in."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from gangsched import (
    Bind,
    BindFailed,
    Event,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    PodAdded,
    PodDeleted,
    PodGroupDeleted,
    PodUID,
    presets,
)
from gangsched.drivers import aio, blocking
from gangsched.errors import GangschedError, InvalidValueError, ManifestError
from gangsched.kubernetes import read_event
from gangsched.testing import make_pod
from support.fingerprint import fingerprint
from support.refusals import NAN, check_refusal, row

# The drivers ----------------------------------------------------------------------------------

NOBODY: Any = None
NO_EVENTS: list[Any] = [None, 5, "stop", [], PodAdded]


def tells(given: Any, field: str, value: Any) -> Any:
    name = f"the fact {given!r:.30}"
    return row(name, lambda tell: tell(given), InvalidValueError, field=field, value=value)


FACTS = [
    *[tells(x, "event", x) for x in NO_EVENTS],
    tells(PodAdded(NOBODY), "pod", None),
    tells(PodDeleted(NOBODY), "uid", None),
    tells(PodGroupDeleted(NOBODY), "key", None),
    tells(BindFailed(PodUID("default/p"), NOBODY, "why"), "attempt", None),
]


def blocked() -> tuple[Callable[[Event], None], Callable[[], None], InMemoryCluster]:
    cluster = InMemoryCluster()
    driver = blocking.Driver(
        presets.coscheduling(cluster), apply=cluster.apply, bind=lambda _bind: None
    )

    def finish() -> None:
        driver.stop()
        driver.run()

    return driver.tell, finish, cluster


def awaited() -> tuple[Callable[[Event], None], Callable[[], None], InMemoryCluster]:
    async def bind(_bind: Bind) -> None:
        return

    cluster = InMemoryCluster()
    driver = aio.Driver(presets.coscheduling(cluster), apply=cluster.apply, bind=bind)

    def finish() -> None:
        driver.stop()
        asyncio.run(driver.run())

    return driver.tell, finish, cluster


@pytest.mark.parametrize("made", [blocked, awaited])
@pytest.mark.parametrize(("call", "error", "fields"), FACTS)
def test_tell_refuses_a_value_that_is_no_event_and_the_loop_goes_on(
    made: Callable[[], tuple[Callable[[Event], None], Callable[[], None], InMemoryCluster]],
    call: Callable[..., object],
    error: type[GangschedError],
    fields: dict[str, object],
) -> None:
    """None is not an event either: it does not stop the loop."""
    tell, finish, cluster = made()
    before = fingerprint(cluster)
    check_refusal(lambda: call(tell), error, fields)
    assert fingerprint(cluster) == before
    tell(NodeAdded(Node(name=NodeName("n"))))
    tell(PodAdded(make_pod("p")))
    finish()
    assert [pod.uid for pod in cluster.pods_on(NodeName("n"))] == ["default/p"]


class Far:
    """A scheduler with nothing to do until an instant beyond what a lock can wait for."""

    def next_deadline(self) -> float:
        return 1e300

    def schedule_one(self, *, now: float) -> None:
        return


def test_thread_sleeps_towards_a_deadline_beyond_the_limit_of_locks() -> None:
    far: Any = Far()
    driver = blocking.Driver(far, apply=lambda _event: None, bind=lambda _bind: None)
    stop = threading.Timer(0.05, driver.stop)
    stop.start()
    driver.run()
    stop.join()


def test_task_sleeps_towards_a_deadline_beyond_any_event_loop() -> None:
    async def bind(_bind: Bind) -> None:
        return

    async def run() -> None:
        far: Any = Far()
        driver = aio.Driver(far, apply=lambda _event: None, bind=bind)
        asyncio.get_running_loop().call_later(0.05, driver.stop)
        await driver.run()

    asyncio.run(run())


# What a watch says ----------------------------------------------------------------------------

CREATED = "2026-01-31T12:00:00Z"


def pod(**given: Any) -> dict[str, Any]:
    metadata = {"name": "p", "namespace": "team", "creationTimestamp": CREATED}
    whole = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c"}]}}
    return {**whole, "metadata": {**metadata, **given}}


def says(name: str, change: Any, field: str) -> Any:
    return row(
        name, lambda: read_event(change), ManifestError, file="watch", document=1, field=field
    )


NO_CHANGES: list[Any] = [None, 5, "ADDED", [], {}, True]
NO_TYPES: list[Any] = [None, [], "added", 5]
NO_OBJECTS: list[Any] = [5, [], "x"]
NO_PODS: dict[str, list[Any]] = {
    "name": [None, "", 5, 1.5, "a/b", NAN],
    "namespace": ["a/b", 5, []],
    "uid": [5, {}],
    "labels": [5, "ab", ["a"]],
    "creationTimestamp": [5, 1.5, "soon", "2026-01-31", "2026-01-31T12:00:00"],
    "deletionTimestamp": [5, NAN, "soon"],
}
CHANGES = [
    *[says(f"the change {x!r}", x, "type" if x == {} else "") for x in NO_CHANGES],
    *[says(f"a change of type {x!r}", {"type": x, "object": pod()}, "type") for x in NO_TYPES],
    *[says(f"the object {x!r}", {"type": "ADDED", "object": x}, "") for x in NO_OBJECTS],
    says("no object", {"type": "ADDED"}, "apiVersion"),
    says("an error of nothing", {"type": "ERROR", "object": None}, ""),
    *[
        says(
            f"a pod {field} {x!r}",
            {"type": "MODIFIED", "object": pod(**{field: x})},
            f"metadata.{field}",
        )
        for field, values in NO_PODS.items()
        for x in values
    ],
    says(
        "a label that is a number",
        {"type": "ADDED", "object": pod(labels={"a": 1})},
        "metadata.labels.a",
    ),
]


@pytest.mark.parametrize(("call", "error", "fields"), CHANGES)
def test_malformed_watch_event_is_refused_by_its_place(
    call: Callable[[], object], error: type[GangschedError], fields: dict[str, object]
) -> None:
    """F51."""
    check_refusal(call, error, fields)
