"""Bad input to the state machines: each is refused, and nothing changes.

The fingerprint of the whole machine is compared before and after.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gangsched import (
    GroupKey,
    MemberState,
    NodeName,
    Pod,
    PodGroup,
    PodGroupCounters,
    PodGroupRegistry,
    PodUID,
    WaitingMap,
    WaitingPod,
)
from gangsched.errors import GangschedError, InvalidPodGroupError, InvalidValueError
from support.fingerprint import fingerprint
from support.groups import claim_of, grouped, key
from support.refusals import NAN, NO_SECONDS, check_refusal, row

NODE, G = NodeName("n"), GroupKey("ns/g")


def bad(name: str, call: Callable[..., object], field: str, value: object, **more: Any) -> Any:
    return row(name, call, InvalidValueError, field=field, value=value, **more)


def check_unchanged(
    machine: Any,
    call: Callable[[Any], object],
    error: type[GangschedError],
    fields: dict[str, object],
) -> None:
    before = fingerprint(machine)
    check_refusal(lambda: call(machine), error, fields)
    assert fingerprint(machine) == before
    machine._check()


# The waiting map ------------------------------------------------------------------------------


def waiting_map() -> WaitingMap:
    made = WaitingMap()
    for number in range(3):
        group = None if number == 2 else G
        made.wait(PodUID(f"u{number}"), node=NODE, timeout=5 - number, now=10.0, group=group)
    return made


def waits(**given: Any) -> Callable[[WaitingMap], object]:
    every: dict[str, Any] = {"uid": PodUID("new"), "node": NODE, "timeout": 1, "now": 10.0}
    return lambda waiting: waiting.wait(**{**every, "group": G, **given})


def puts(**given: Any) -> Callable[[WaitingMap], object]:
    every: dict[str, Any] = {"uid": "new", "group": G, "node": NODE, "attempt": 1}
    every |= {"since": 10.0, "deadline": 11.0}
    return lambda waiting: waiting.put(WaitingPod(**{**every, **given}))


NO_ATTEMPTS: list[Any] = [-1, None, "x", 1.0, True, NAN]
WAITING = [
    *[
        bad(f"a timeout of {x!r:.8}", waits(timeout=x), "timeout", x)
        for x in (-1, -1e-300, *NO_SECONDS)
    ],
    *[bad(f"{uid} again", waits(uid=uid), "uid", uid) for uid in ("u0", "u1", "u2")],
    bad("again, in another group", waits(uid="u0", group="ns/h"), "uid", "u0"),
    bad("again, on another node", waits(uid="u2", node="m"), "uid", "u2"),
    *[bad(f"now of {x!r:.8}", waits(now=x), "now", x) for x in NO_SECONDS],
    bad("a deadline beyond all numbers", waits(timeout=1.7e308, now=1.7e308), "timeout", 1.7e308),
    bad(
        "a deadline beyond all whole numbers",
        waits(timeout=17 * 10**307, now=17 * 10**307),
        "timeout",
        17 * 10**307,
    ),
    *[
        bad(f"a {field} of {x!r}", waits(**{field: x}), field, x)
        for field in ("uid", "node", "group")
        for x in (["g"], 5)
    ],
    *[bad(f"attempt {x!r:.8}", waits(attempt=x), "attempt", x) for x in NO_ATTEMPTS],
    *[
        bad(f"putting {x!r}", lambda waiting, x=x: waiting.put(x), "pod", x)
        for x in (None, "new", Pod(name="new"))
    ],
    *[
        bad(f"putting one with a {field} of {x!r:.8}", puts(**{field: x}), field, x)
        for field, faulty in (
            ("uid", (None, 5)),
            ("group", (5, ["g"])),
            ("node", (None, 5)),
            ("attempt", NO_ATTEMPTS),
            ("since", NO_SECONDS),
            ("deadline", NO_SECONDS),
        )
        for x in faulty
    ],
    *[
        bad(f"expire at {x!r:.8}", lambda waiting, x=x: waiting.expire(now=x), "now", x)
        for x in NO_SECONDS
    ],
]


@pytest.mark.parametrize(("call", "error", "fields"), WAITING)
def test_refused_wait_changes_nothing(
    call: Callable[[WaitingMap], object], error: type[GangschedError], fields: dict[str, object]
) -> None:
    """F28."""
    waiting = waiting_map()
    check_unchanged(waiting, call, error, fields)
    waits(attempt=0)(waiting)
    assert [pod.uid for pod in waiting.expire(now=99.0)] == ["new", "u2", "u1", "u0"]


# The registry ---------------------------------------------------------------------------------


def registry() -> PodGroupRegistry:
    """Return a registry with a group ``s`` with specification, and a group ``g`` without."""
    made = PodGroupRegistry(grace=10.0)
    made.set_spec(PodGroup(name="s", namespace="ns", min_available=2, priority=5))
    first = grouped("first", minimum=3, priority=1)
    made.join(first, claim_of(first))
    left = grouped("left", group="left", minimum=2)
    made.join(left, claim_of(left))
    made.leave(key("left"), left.uid, now=1.0)
    return made


def joins(**given: Any) -> Callable[[PodGroupRegistry], object]:
    pod = grouped("p", **given)
    return lambda groups: groups.join(pod, claim_of(pod))


def contradicts(name: str, field: str, value: object, **given: Any) -> Any:
    call, subject = joins(**given), "pod ns/p"
    return row(name, call, InvalidPodGroupError, subject=subject, field=field, value=value)


def departs(now: Any) -> Callable[[PodGroupRegistry], object]:
    return lambda groups: groups.leave(G, PodUID("ns/first"), now=now)


REGISTRY = [
    contradicts("a larger minimum", "min_available", 4, minimum=4, priority=1),
    contradicts("a smaller minimum", "min_available", 1, minimum=1, priority=1),
    contradicts("a higher priority", "priority", 2, minimum=3, priority=2),
    contradicts("a lower priority", "priority", 0, priority=0),
    contradicts("not the priority of the specification", "priority", 4, group="s", priority=4),
    row(
        "a gated member is bound by what was said, too",
        lambda groups: groups.join(
            grouped("p", minimum=9), claim_of(grouped("p", minimum=9)), MemberState.GATED
        ),
        InvalidPodGroupError,
        subject="pod ns/p",
        field="min_available",
        value=9,
    ),
    *[
        bad(
            f"leave at {x!r:.8}",
            departs(x),
            "now",
            x,
        )
        for x in (None, "1", NAN)
    ],
    *[
        bad(f"{what} at {x!r:.8}", call, "now", x)
        for x in NO_SECONDS
        for what, call in (
            ("delete_spec", lambda groups, x=x: groups.delete_spec(key("s"), now=x)),
            (
                "delete_spec of an unknown group",
                lambda groups, x=x: groups.delete_spec(key("nobody"), now=x),
            ),
            ("expire", lambda groups, x=x: groups.expire(now=x)),
        )
    ],
    *[
        bad(f"declaring {x!r}", lambda groups, x=x: groups.set_spec(x), "group", x)
        for x in (None, "ns/s", Pod(name="s"))
    ],
]


@pytest.mark.parametrize(("call", "error", "fields"), REGISTRY)
def test_refused_registry_call_changes_nothing(
    call: Callable[[PodGroupRegistry], object],
    error: type[GangschedError],
    fields: dict[str, object],
) -> None:
    """F23: the first member decides, and a contradicting member is refused."""
    groups = registry()
    check_unchanged(groups, call, error, fields)
    assert joins(minimum=3, priority=1)(groups) is groups.get(G)
    groups._check()


def test_query_of_unknown_uid_changes_nothing() -> None:
    """F41: queries never create."""
    groups, stranger = registry(), grouped("p", group="nobody")
    before = fingerprint(groups)
    assert groups.get(key("nobody")) is None
    assert groups.conflict(stranger, claim_of(stranger)) is None
    groups.leave(key("nobody"), stranger.uid, now=2.0)
    groups.delete_spec(key("nobody"), now=2.0)
    assert fingerprint(groups) == before


# The counters ---------------------------------------------------------------------------------


def counters() -> PodGroupCounters:
    made = PodGroupCounters()
    for number, state in enumerate(MemberState):
        made.set(PodUID(f"u{number}"), state)
    return made


NO_STATES: list[Any] = ["waiting", 99, -1, None, []]
COUNTERS = [
    *[
        bad(
            f"{uid} in state {x!r}",
            lambda members, uid=uid, x=x: members.set(uid, x),
            "state",
            x,
        )
        for uid in ("u1", "new")
        for x in ("waiting", 99, -1, None, 1.5, True)
    ],
    *[
        bad(f"how many are in {x!r}", lambda members, x=x: members.count(x), "state", x)
        for x in NO_STATES
    ],
]


@pytest.mark.parametrize(("call", "error", "fields"), COUNTERS)
def test_refused_state_changes_no_count(
    call: Callable[[PodGroupCounters], object],
    error: type[GangschedError],
    fields: dict[str, object],
) -> None:
    check_unchanged(counters(), call, error, fields)
