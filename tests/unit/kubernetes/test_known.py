"""Marks and sweeps, duplicates and late events."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("msgspec", reason="the extra kubernetes is not installed")

from gangsched.kubernetes._known import Identity, Known, Sight


def one(version: str | int, uid: str = "u", key: str = "team/p") -> Identity:
    return Identity(key, uid, str(version))


def listed(*objects: Identity) -> Known:
    known = Known()
    known.begin()
    for each in objects:
        known.see(each)
    known.end()
    return known


def test_object_is_new_once_and_changed_by_a_newer_version() -> None:
    known = Known()
    assert known.see(one(1)) is Sight.NEW
    assert known.see(one(1)) is Sight.STALE
    assert known.see(one(2)) is Sight.CHANGED


@pytest.mark.parametrize("late", ["9", "10"])
def test_late_or_repeated_event_is_stale(late: str) -> None:
    known = listed(one(10))
    assert known.see(one(late)) is Sight.STALE


def test_versions_are_compared_as_numbers() -> None:
    assert listed(one(9)).see(one(10)) is Sight.CHANGED


@pytest.mark.parametrize("version", ["a", "", "²"])
def test_version_that_is_no_number_counts_as_newer(version: str) -> None:
    assert listed(one(9)).see(one(version)) is Sight.CHANGED


def test_recreated_object_replaces_the_old_one() -> None:
    known = listed(one(1, "old"))
    assert known.see(one(5, "new")) is Sight.REPLACED
    assert known.get("team/p") == one(5, "new")


def test_late_event_of_the_old_object_does_not_replace_the_new_one() -> None:
    known = listed(one(5, "new"))
    assert known.see(one(4, "old")) is Sight.STALE
    assert known.remove(one(4, "old")) is None


def test_deleted_object_does_not_come_back_by_an_older_event() -> None:
    known = listed(one(1))
    assert known.remove(one(3)) == one(1)
    assert known.see(one(2)) is Sight.STALE
    assert known.see(one(4, "new")) is Sight.NEW


def test_deletion_that_arrives_twice_is_told_once() -> None:
    known = listed(one(1))
    assert known.remove(one(3)) is not None
    assert known.remove(one(3)) is None


def test_late_deletion_of_an_old_version_is_ignored() -> None:
    known = listed(one(5, "new"))
    assert known.remove(one(3, "old")) is None
    assert known.get("team/p") is not None


def test_listing_sweeps_what_it_does_not_show() -> None:
    known = listed(one(1, key="a"), one(1, key="b"))
    known.begin()
    assert known.see(one(1, key="a")) is Sight.STALE
    assert known.end() == [one(1, key="b")]
    assert len(known) == 1


def test_listing_that_begins_again_marks_anew() -> None:
    known = listed(one(1, key="a"), one(1, key="b"))
    known.begin()
    known.see(one(1, key="a"))
    known.begin()
    known.see(one(1, key="b"))
    assert known.end() == [one(1, key="a")]


def test_listing_from_a_restored_etcd_replaces_newer_versions() -> None:
    known = listed(one(100))
    known.begin()
    assert known.see(one(5)) is Sight.CHANGED
    assert known.see(one(4)) is Sight.STALE


def test_deletion_is_forgotten_at_the_next_listing() -> None:
    known = listed(one(100))
    known.remove(one(101))
    known.begin()
    assert known.see(one(50, "new")) is Sight.NEW


def test_memory_of_deletions_is_bounded() -> None:
    known = Known()
    for number in range(5000):
        known.remove(one(number, key=f"k{number}"))
    assert len(known._gone) <= 4096


KEYS = st.sampled_from(["a", "b", "c"])
HISTORY = st.lists(st.tuples(KEYS, st.sampled_from(["put", "delete", "recreate"])), max_size=12)


def versions(history: list[tuple[str, str]]) -> list[tuple[str, Identity]]:
    """Return the events that an API server sends for a history."""
    events: list[tuple[str, Identity]] = []
    alive: dict[str, str] = {}
    for version, (key, what) in enumerate(history, start=1):
        uid = alive.get(key)
        if what == "delete" or (what == "recreate" and uid is not None):
            if uid is not None:
                del alive[key]
                events.append(("DELETED", one(version, uid, key)))
            continue
        alive[key] = uid or f"u{version}"
        events.append(("PUT", one(version, alive[key], key)))
    return events


@given(history=HISTORY, data=st.data())
def test_duplicates_and_late_events_change_nothing(
    history: list[tuple[str, str]], data: st.DataObject
) -> None:
    plain, disturbed = Known(), Known()
    events = versions(history)
    for index, (kind, seen) in enumerate(events):
        again = data.draw(st.lists(st.integers(0, index), max_size=2))
        for what, which in [(kind, seen), *(events[each] for each in again)]:
            if what == "PUT":
                disturbed.see(which)
            else:
                disturbed.remove(which)
        _ = plain.see(seen) if kind == "PUT" else plain.remove(seen)
        assert disturbed._objects == plain._objects


@given(before=HISTORY, after=HISTORY)
def test_a_listing_ends_with_what_it_showed(
    before: list[tuple[str, str]], after: list[tuple[str, str]]
) -> None:
    known = Known()
    for kind, seen in versions(before):
        _ = known.see(seen) if kind == "PUT" else known.remove(seen)
    old = dict(known._objects)
    shown = {seen.key: seen for kind, seen in versions(after) if kind == "PUT"}
    known.begin()
    for seen in shown.values():
        known.see(seen)
    gone = {each.key for each in known.end()}
    assert gone == old.keys() - shown.keys()
    assert known._objects.keys() == shown.keys()
    assert all(known._objects[key].uid == seen.uid for key, seen in shown.items())
