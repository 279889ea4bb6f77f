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


@pytest.mark.parametrize(
    ("version", "sight"),
    [
        ("9", Sight.STALE),
        ("10", Sight.STALE),
        ("11", Sight.CHANGED),
        ("100", Sight.CHANGED),  # versions are compared as numbers
        ("a", Sight.CHANGED),  # and what is no number counts as newer
        ("", Sight.CHANGED),
        ("²", Sight.CHANGED),
    ],
)
def test_object_is_new_once_and_changed_by_a_newer_version(version: str, sight: Sight) -> None:
    known = Known()
    assert known.see(one(10)) is Sight.NEW
    assert known.see(one(version)) is sight


def test_recreated_object_replaces_the_old_one_whose_late_events_are_stale() -> None:
    known = listed(one(1, "old"))
    assert known.see(one(5, "new")) is Sight.REPLACED
    assert known.see(one(4, "old")) is Sight.STALE
    assert known.remove(one(4, "old")) is None
    assert known.get("team/p") == one(5, "new")


def test_deletion_is_told_once_and_older_events_do_not_undo_it() -> None:
    known = listed(one(1))
    assert known.remove(one(3)) == one(1)
    assert known.remove(one(3)) is None
    assert known.see(one(2)) is Sight.STALE
    assert known.see(one(4, "new")) is Sight.NEW


def test_listing_sweeps_what_it_does_not_show() -> None:
    known = listed(one(1, key="a"), one(1, key="b"))
    known.begin()
    known.see(one(1, key="b"))
    known.begin()  # it begins again
    assert known.see(one(1, key="a")) is Sight.STALE
    assert known.end() == [one(1, key="b")]
    assert len(known) == 1


def test_listing_from_a_restored_etcd_replaces_newer_versions_and_deletions() -> None:
    known = listed(one(100), one(100, key="gone"))
    known.remove(one(101, key="gone"))
    known.begin()
    assert known.see(one(5)) is Sight.CHANGED
    assert known.see(one(4)) is Sight.STALE
    assert known.see(one(50, "new", "gone")) is Sight.NEW


def test_memory_of_deletions_is_bounded() -> None:
    known = Known()
    for number in range(5000):
        known.remove(one(9, key=f"k{number}"))
    assert known.see(one(1, key="k0")) is Sight.NEW, "forgotten"
    assert known.see(one(1, key="k4999")) is Sight.STALE


KEYS = ("a", "b", "c")
HISTORY = st.lists(
    st.tuples(st.sampled_from(KEYS), st.sampled_from(["put", "delete", "recreate"])), max_size=12
)


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


def tell(known: Known, event: tuple[str, Identity]) -> None:
    kind, seen = event
    _ = known.see(seen) if kind == "PUT" else known.remove(seen)


def objects(known: Known) -> dict[str, Identity]:
    found = {key: known.get(key) for key in KEYS}
    assert len(known) == sum(each is not None for each in found.values())
    return {key: each for key, each in found.items() if each is not None}


@given(history=HISTORY, data=st.data())
def test_duplicates_and_late_events_change_nothing(
    history: list[tuple[str, str]], data: st.DataObject
) -> None:
    plain, disturbed = Known(), Known()
    events = versions(history)
    for index, event in enumerate(events):
        again = data.draw(st.lists(st.integers(0, index), max_size=2))
        for each in (event, *(events[number] for number in again)):
            tell(disturbed, each)
        tell(plain, event)
        assert objects(disturbed) == objects(plain)


@given(before=HISTORY, after=HISTORY)
def test_a_listing_ends_with_what_it_showed(
    before: list[tuple[str, str]], after: list[tuple[str, str]]
) -> None:
    known = Known()
    for event in versions(before):
        tell(known, event)
    old = objects(known)
    shown = {seen.key: seen for kind, seen in versions(after) if kind == "PUT"}
    known.begin()
    for seen in shown.values():
        known.see(seen)
    assert {each.key for each in known.end()} == old.keys() - shown.keys()
    found = objects(known)
    assert found.keys() == shown.keys()
    assert all(found[key].uid == seen.uid for key, seen in shown.items())
