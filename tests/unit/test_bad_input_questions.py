"""Questions about unknown pods and groups, and that no question changes anything."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from gangsched import GroupKey, InMemoryCluster, Pod, PodGroup, PodUID, Profile, Scheduler
from gangsched.coscheduling import Coscheduling
from gangsched.errors import GangschedError, PluginError, UnknownPodError
from gangsched.events import PodAdded
from gangsched.plugins import DefaultBinder, NodeResources
from gangsched.testing import make_pod
from support.busy import NOW, busy_scheduler, tell
from support.faulty_plugin import FaultyPlugin
from support.fingerprint import fingerprint
from support.refusals import check_refusal, row

NO_SUBJECTS: list[Any] = [None, 5, [], {}, (1, 2), Pod]
UNKNOWN: list[tuple[Any, str]] = [
    (PodUID("nobody"), "nobody"),
    (GroupKey("default/nobody"), "default/nobody"),
    (PodUID(""), ""),
    (PodUID("w-0"), "w-0"),  # a name is no UID
    (Pod(name="nobody"), "default/nobody"),
    (PodGroup(name="nobody", min_available=1), "default/nobody"),
    (Pod(name="w", uid=PodUID("default/w")), "default/w"),  # the key of a group is no pod
    *[(x, str(x)) for x in NO_SUBJECTS],
]
ROWS = [
    row(
        f"{type(subject).__name__} {shown!r} {n}",
        lambda scheduler, subject=subject: scheduler.why(subject),
        UnknownPodError,
        subject=shown,
    )
    for n, (subject, shown) in enumerate(UNKNOWN)
]


@pytest.mark.parametrize(("call", "error", "fields"), ROWS)
def test_why_of_an_unknown_pod_is_empty(
    call: Any, error: type[GangschedError], fields: dict[str, object]
) -> None:
    cluster, scheduler = busy_scheduler()
    before = fingerprint(cluster, scheduler)
    check_refusal(lambda: call(scheduler), error, fields)
    assert fingerprint(cluster, scheduler) == before


def test_why_of_all_pods_changes_nothing() -> None:
    """F41."""
    cluster, scheduler = busy_scheduler()
    before = fingerprint(cluster, scheduler)
    for pod in cluster.pods():
        assert scheduler.why(pod) == scheduler.why(pod.uid)
    for group in scheduler.registry:
        scheduler.why(group.key)
    assert fingerprint(cluster, scheduler) == before


@pytest.mark.parametrize("subject", ["default/i-0", "default/incomplete", "default/w-2"])
def test_plugin_that_raises_when_it_is_asked_why_leaves_nothing_behind(subject: str) -> None:
    """Its error is raised to the asker, not to the next caller."""
    faulty = FaultyPlugin("pre_enqueue", "queue_sort")
    cluster = InMemoryCluster()
    coscheduling = Coscheduling()
    faulty.answers["queue_sort"] = coscheduling.queue_sort
    scheduler = Scheduler(cluster, Profile(faulty, NodeResources(), DefaultBinder()))
    for n in range(3):
        pod = make_pod(f"w-{n}", group="w", min_available=3)
        tell(cluster, scheduler, PodAdded(pod), now=NOW)
    tell(
        cluster, scheduler, PodAdded(make_pod("i-0", group="incomplete", min_available=4)), now=NOW
    )
    before = fingerprint(cluster, scheduler)
    faulty.answers["pre_enqueue"] = faulty.answers["queue_sort"] = ZeroDivisionError("oops")
    with contextlib.suppress(PluginError):
        scheduler.why(PodUID(subject))
    faulty.answers["queue_sort"] = coscheduling.queue_sort
    del faulty.answers["pre_enqueue"]
    assert fingerprint(cluster, scheduler) == before
    assert scheduler.advance(now=NOW) == ()
