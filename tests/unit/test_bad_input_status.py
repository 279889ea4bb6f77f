"""Bad input to functions of pods: group status, membership, resource gap, queue keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gangsched import (
    GangMember,
    MemberState,
    PodGroup,
    PodGroupRegistry,
    QueuedPod,
    membership,
    pod_group_status,
    resource_gap,
)
from gangsched.errors import GangschedError, InvalidValueError, UnknownPodError
from support.fingerprint import fingerprint
from support.groups import claim_of, grouped
from support.refusals import NAN, check_refusal, row

GROUP, POD = PodGroup(name="g", min_available=2), grouped("p", "g")
CLAIM = claim_of(POD)
ODD: Any = {"cpu": "1"}
STATE = MemberState.UNSCHEDULED
EMPTY_LIST: Any = []
NOT_AN_OBJECT: tuple[Any, ...] = (None, "x", 1, NAN, EMPTY_LIST, {})


def bad(name: str, call: Callable[..., object], field: str, value: object) -> Any:
    return row(name, call, InvalidValueError, field=field, value=value)


def queued(**given: Any) -> QueuedPod:
    return QueuedPod(**{"pod": POD, "seq": 1, "queued_at": 0.0, **given})


FUNCTIONS = [
    *[bad(f"membership of {x!r}", lambda x=x: membership(x), "pod", x) for x in NOT_AN_OBJECT],
    *[
        bad(f"status of group {x!r}", lambda x=x: pod_group_status(x, [POD]), "group", x)
        for x in NOT_AN_OBJECT
    ],
    *[
        bad(f"status with pods {x!r}", lambda x=x: pod_group_status(GROUP, x), "pods", x)
        for x in (None, 1, NAN)
    ],
    *[
        bad(f"status with pod {x!r}", lambda x=x: pod_group_status(GROUP, [POD, x]), "pods[1]", x)
        for x in NOT_AN_OBJECT
    ],
    *[
        bad(
            f"status before {x!r}",
            lambda x=x: pod_group_status(GROUP, [POD], before=x),
            "before",
            x,
        )
        for x in NOT_AN_OBJECT[1:]
    ],
    *[
        bad(
            f"status by {x!r}",
            lambda x=x: pod_group_status(GROUP, [POD], membership=x),
            "membership",
            x,
        )
        for x in NOT_AN_OBJECT
    ],
    *[
        bad(f"gap of {x!r}", lambda x=x: resource_gap(x, [{}]), "wanted", x)
        for x in (None, "x", 1, NAN, EMPTY_LIST)
    ],
    *[
        bad(f"gap of an amount {x!r}", lambda x=x: resource_gap({"cpu": x}, [{}]), "wanted.cpu", x)
        for x in (None, "1", 0.5, True)
    ],
    *[
        bad(f"gap in {x!r}", lambda x=x: resource_gap({"cpu": 1}, x), "free", x)
        for x in (None, 1, NAN)
    ],
    *[
        bad(f"gap on node {x!r}", lambda x=x: resource_gap({"cpu": 1}, [{}, x]), "free[1]", x)
        for x in (None, "x", 1, NAN, EMPTY_LIST)
    ],
    bad("gap on an odd node", lambda: resource_gap({}, [ODD]), "free[0].cpu", "1"),
    *[bad(f"queued pod {x!r}", lambda x=x: queued(pod=x), "pod", x) for x in NOT_AN_OBJECT],
    *[bad(f"seq {x!r}", lambda x=x: queued(seq=x), "seq", x) for x in (None, "1", 1.0, True)],
    *[
        bad(f"queued at {x!r}", lambda x=x: queued(queued_at=x), "queued_at", x)
        for x in (None, "1", NAN)
    ],
    *[
        bad(f"place {x!r}", lambda x=x: GangMember(uid="u", group="g", place=x), "place", x)
        for x in (None, 1, EMPTY_LIST)
    ],
]


@pytest.mark.parametrize(("call", "error", "fields"), FUNCTIONS)
def test_function_refuses_value_of_wrong_type(
    call: Callable[[], object], error: type[GangschedError], fields: dict[str, object]
) -> None:
    check_refusal(call, error, fields)


def registry() -> PodGroupRegistry:
    made = PodGroupRegistry()
    made.join(POD, CLAIM)
    return made


REGISTRY = [
    *[bad(f"join of {x!r}", lambda r, x=x: r.join(x, CLAIM), "pod", x) for x in NOT_AN_OBJECT],
    *[bad(f"join by {x!r}", lambda r, x=x: r.join(POD, x), "claim", x) for x in NOT_AN_OBJECT],
    *[
        bad(f"conflict of {x!r}", lambda r, x=x: r.conflict(x, CLAIM), "pod", x)
        for x in NOT_AN_OBJECT
    ],
    *[
        bad(f"conflict by {x!r}", lambda r, x=x: r.conflict(POD, x), "claim", x)
        for x in NOT_AN_OBJECT
    ],
    *[
        bad(
            f"restated as {x!r}",
            lambda r, x=x: r.update_claim(POD, CLAIM, x),
            "state",
            x,
        )
        for x in NOT_AN_OBJECT
    ],
    row(
        "restated in an unknown group",
        lambda r: r.update_claim(grouped("p", "other"), claim_of(grouped("p", "other")), STATE),
        UnknownPodError,
        subject="ns/p",
    ),
    row(
        "restated before it joined",
        lambda r: r.update_claim(grouped("q", "g"), CLAIM, STATE),
        UnknownPodError,
        subject="ns/q",
    ),
]


@pytest.mark.parametrize(("call", "error", "fields"), REGISTRY)
def test_registry_refuses_value_of_wrong_type_and_keeps_its_state(
    call: Callable[[PodGroupRegistry], object],
    error: type[GangschedError],
    fields: dict[str, object],
) -> None:
    made = registry()
    before = fingerprint(made)
    check_refusal(lambda: call(made), error, fields)
    assert fingerprint(made) == before
    made._check()
