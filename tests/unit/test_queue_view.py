"""The scheduling queue as users see it."""

from __future__ import annotations

from gangsched import InMemoryCluster, PodAdded, PodUID, Scheduler, presets
from gangsched.testing import make_pod


def queue_of_two() -> Scheduler:
    """Return a scheduler that tried a gang of 2, and not yet a pod of lower priority."""
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster)
    for name in ("g-0", "g-1"):
        pod = make_pod(name, group="g", min_available=2, cpu=1, priority=5, created_at=1.0)
        scheduler.handle(cluster.apply(PodAdded(pod)), now=2.0)
    scheduler.handle(cluster.apply(PodAdded(make_pod("alone", created_at=2.0))), now=3.0)
    scheduler.schedule_one(now=4.0)
    return scheduler


def test_entry_shows_its_gang() -> None:
    (entry,) = queue_of_two().queue.unschedulable
    assert entry.group is not None
    assert (entry.group.key, entry.seq, entry.priority) == ("default/g", 1, 5)
    assert [pod.name for pod in entry.pending] == ["g-0", "g-1"]
    assert (len(entry), bool(entry), entry.pod.name) == (2, True, "g-0")
    assert (entry.created_at, entry.queued_at, entry.failures) == (1.0, 4.0, 1)
    assert entry.backoff_until <= 4.0
    assert (entry.denial, entry.reason) == ("", "no nodes available to schedule pods")
    assert entry.unschedulable_member is not None
    assert entry.unschedulable_member.uid == PodUID("default/g-0")


def test_entries_are_equal_if_they_are_of_one_gang() -> None:
    queue = queue_of_two().queue
    (gang,), (alone,) = queue.unschedulable, queue.active
    assert (alone.pod.name, alone.group, len(queue)) == ("alone", None, 2)
    assert gang == queue.unschedulable[0]
    assert hash(gang) == hash(queue.unschedulable[0])
    assert gang != alone
    assert gang != "default/g"
    assert alone == queue.head()
