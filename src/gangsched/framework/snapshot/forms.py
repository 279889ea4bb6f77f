"""The forms of a snapshot: how its rows are written as plain data, and read.

Rules:
  R1  each class of rows has a form with all its fields;
  R2  a form checks the type of a value and its bounds. Whether rows agree with each other is
      checked by ``read``;
  R3  every number is bounded, so that arithmetic with it cannot overflow later.
"""

from __future__ import annotations

import math
from typing import Any, Final

from gangsched._core._counters import MemberState
from gangsched._core._entity import REFUSED_BY_PLUGIN
from gangsched._core._quotas import Charge
from gangsched._forms import (
    BOOL,
    JSON,
    RESOURCES,
    SECONDS,
    STR,
    Form,
    Record,
    by_name,
    choice,
    many,
    optional,
    row,
    union,
)
from gangsched._values import EFFECT, GROUP, NODE, POD, TOPOLOGY
from gangsched.errors import InvalidValueError
from gangsched.explain import Diagnosis, SearchBudgetExhausted, Shortage, UnschedulableMember
from gangsched.framework.snapshot.rows import (
    AssumedRow,
    BackfillRow,
    EntityRow,
    EquivalenceClassRow,
    EquivalenceQueueRow,
    ErrorRow,
    GroupRow,
    MemberRow,
    NodeRow,
    NominatedPodRow,
    NominationRow,
    ReservationRow,
    ReservedNodeRow,
    RestartRow,
    SnapshotRow,
    WaitRow,
)
from gangsched.framework.state.role_count import RoleCount
from gangsched.options.scheduling_unit import SchedulingUnit
from gangsched.quantity import is_seconds

__all__ = ["ROWS", "SNAPSHOT"]

_MOST: Final = 1 << 62


def _int(least: int) -> Form[Any]:
    """Return the form of an int from *least* up to ``_MOST``."""

    def read(value: Any, path: str) -> int:
        if type(value) is not int or not least <= value <= _MOST:
            raise InvalidValueError(path, value, f"an int from {least} to 2**62")
        return value

    return Form(lambda value: value, read)


def _instant(*endless: float) -> Form[Any]:
    """Return the form of an instant: finite, or one of *endless*."""
    expected = " or ".join(
        ["a finite number of seconds", *('"Infinity"' if n > 0 else '"-Infinity"' for n in endless)]
    )

    def read(value: Any, path: str) -> float:
        given: float = SECONDS.read(value, path)
        if not is_seconds(given) and given not in endless:
            raise InvalidValueError(path, value, expected)
        return given

    return Form(SECONDS.write, read)


_COUNT: Final = _int(0)
_POSITIVE: Final = _int(1)
_STEP: Final = _int(-1)
_REFUSAL: Final = _int(REFUSED_BY_PLUGIN)
_PRIORITY: Final = _int(-_MOST)
_INSTANT: Final = _instant()
_PAST_OR_NEVER: Final = _instant(-math.inf)
_EVER_OR_NEVER: Final = _instant(math.inf)
_COUNTS: Final = many(row(STR, _COUNT))
_ROLE_COUNT: Final = Record(RoleCount, group=optional(STR), role=optional(STR), count=_COUNT)
_NUMBERS: Final = many(_POSITIVE)
_STRS: Final = many(STR)
_MAYBE_INSTANT: Final = optional(_INSTANT)

_DIAGNOSIS: Final = Record(Diagnosis, nodes=_COUNT, reasons=_COUNTS, refusal=STR)
_SHORTAGE: Final = Record(
    Shortage,
    needed=_COUNT,
    fits=_COUNT,
    exact=BOOL,
    role=STR,
    resource=optional(STR),
    in_pieces=BOOL,
    within=STR,
    group=optional(STR),
    beside_others=BOOL,
)
_EXHAUSTED: Final = Record(SearchBudgetExhausted, needed=_COUNT, placed=_COUNT, steps=_COUNT)
_UNSCHEDULABLE: Final = Record(
    UnschedulableMember,
    uid=STR,
    pod=STR,
    reason=STR,
    diagnosis=optional(_DIAGNOSIS.form),
    proof=optional(union(_SHORTAGE, _EXHAUSTED)),
    victim_steps=_COUNT,
)
_NODE_ROW: Final = Record(
    NodeRow, node=NODE.form, index=_POSITIVE, pods=_STRS, others=many(POD.form)
)
_ASSUMED: Final = Record(AssumedRow, uid=STR, pod=optional(POD.form))
_GROUP_ROW: Final = Record(
    GroupRow,
    key=STR,
    number=_POSITIVE,
    spec=optional(GROUP.form),
    first_seen_at=_MAYBE_INSTANT,
    claims=_STRS,
    attempts=_COUNT,
    attempt_started_at=_MAYBE_INSTANT,
    last_failure_at=_MAYBE_INSTANT,
    failures=_COUNT,
    backoff_until=_PAST_OR_NEVER,
    failure=STR,
    complete_at=_MAYBE_INSTANT,
    was_scheduled=BOOL,
    is_binding=BOOL,
    collected=many(row(STR, _POSITIVE)),
)
_RESTART: Final = Record(
    RestartRow,
    group=STR,
    restarts=_COUNT,
    until=_PAST_OR_NEVER,
    is_held=BOOL,
    minimum=optional(_POSITIVE),
    roles=many(row(STR, _POSITIVE)),
    short_since=_MAYBE_INSTANT,
    failed_at=_PAST_OR_NEVER,
    due_at=_MAYBE_INSTANT,
)
_CHARGE: Final = Record(Charge, key=STR, amounts=RESOURCES, was_forced=BOOL)
_ENTITY: Final = Record(
    EntityRow,
    seq=_POSITIVE,
    group=optional(STR),
    pod=optional(STR),
    queued_at=_INSTANT,
    failures=_COUNT,
    backoff_until=_PAST_OR_NEVER,
    tried_step=_STEP,
    failed_step=_REFUSAL,
    event_step=_STEP,
    round_step=_STEP,
    refused_at=_REFUSAL,
    reason=STR,
    denial=STR,
    unschedulable_member=optional(_UNSCHEDULABLE.form),
    tried=_STRS,
)
_MEMBER: Final = Record(
    MemberRow,
    pod=POD.form,
    seq=_POSITIVE,
    state=by_name(MemberState),
    node=optional(STR),
    attempt=_COUNT,
    cycle=optional(many(row(STR, JSON))),
    reason=STR,
    told=STR,
    bind_failures=_COUNT,
    started_at=_MAYBE_INSTANT,
)
_WAIT: Final = Record(
    WaitRow,
    uid=STR,
    attempt=_COUNT,
    since=_INSTANT,
    deadline=_INSTANT,
    plugins=_STRS,
)
_PART: Final[Form[Any]] = Form(
    lambda value: _CLASS.write(value), lambda value, path: _CLASS.read(value, path)
)
_SAMPLE: Final[Form[Any]] = Form(
    lambda value: value if isinstance(value, str) else POD.write(value),
    lambda value, path: value if isinstance(value, str) else POD.read(value, path),
)
_CLASS: Final[Record[Any]] = Record(
    EquivalenceClassRow,
    needed=_POSITIVE,
    runs=many(row(_SAMPLE, _POSITIVE)),
    floor=RESOURCES,
    role_counts=many(_ROLE_COUNT.form),
    roles=_STRS,
    topology=optional(TOPOLOGY.form),
    parts=many(_PART),
    reach=optional(row(_PRIORITY, BOOL)),
    affected=_STRS,
)
_NUMBER_OR_CLASS: Final[Form[Any]] = Form(
    lambda value: value if isinstance(value, int) else _CLASS.write(value),
    lambda value, path: (
        _POSITIVE.read(value, path) if isinstance(value, int) else _CLASS.read(value, path)
    ),
)
_QUEUE: Final = Record(
    EquivalenceQueueRow,
    asked=_NUMBER_OR_CLASS,
    blocked=BOOL,
    blocked_at=_STEP,
    opened_at=_STEP,
    helped_at=_STEP,
    leader=optional(_POSITIVE),
    entities=_NUMBERS,
)
_NOMINATED: Final = Record(
    NominatedPodRow,
    seq=_POSITIVE,
    uid=STR,
    node=STR,
    requests=RESOURCES,
    group=optional(STR),
    role=optional(STR),
)
_NOMINATION: Final = Record(
    NominationRow,
    entity=_POSITIVE,
    priority=_PRIORITY,
    pods=many(_NOMINATED.form),
    required=many(_ROLE_COUNT.form),
    specs=many(row(STR, optional(GROUP.form))),
    awaited=_STRS,
    deadline=_INSTANT,
)
_RESERVED: Final = Record(
    ReservedNodeRow, node=STR, priority=_PRIORITY, pods=_COUNT, requests=RESOURCES, returning=_STRS
)
_RESERVATION: Final = Record(
    ReservationRow,
    entity=_POSITIVE,
    since=_INSTANT,
    starts_at=_EVER_OR_NEVER,
    deadline=_EVER_OR_NEVER,
    ends=many(row(STR, _INSTANT)),
    nodes=many(_RESERVED.form),
    planned=many(row(STR, STR)),
    drained=_STRS,
    has_refused=BOOL,
)
_BACKFILL: Final = Record(
    BackfillRow,
    qualified=_STRS,
    drain_timeouts=_COUNTS,
    infeasible=_COUNTS,
    reservation=optional(_RESERVATION.form),
    failed=many(row(_NUMBER_OR_CLASS, _COUNT)),
    gained=BOOL,
    is_contested=BOOL,
    is_stale=BOOL,
    is_drain_paused=BOOL,
    has_no_candidate=BOOL,
    no_candidate_until=_EVER_OR_NEVER,
    altered=_COUNT,
)
_ERROR: Final = Record(ErrorRow, plugin=STR, point=STR, subject=STR, problem=STR)

SNAPSHOT: Final = Record(
    SnapshotRow,
    unit=choice(SchedulingUnit),
    plugins=_STRS,
    plugin_states=many(row(STR, JSON)),
    now=_PAST_OR_NEVER,
    listed=BOOL,
    step=_COUNT,
    arrivals=_COUNT,
    attempt_floor=_COUNT,
    exhausted_searches=_COUNT,
    nodes=many(_NODE_ROW.form),
    node_arrivals=_COUNT,
    node_changes=_COUNT,
    departed=_STRS,
    unread=_STRS,
    assumed=many(_ASSUMED.form),
    groups=many(_GROUP_ROW.form),
    group_arrivals=_COUNT,
    groups_left=many(row(STR, _INSTANT)),
    restarts=many(_RESTART.form),
    charges=many(_CHARGE.form),
    over_quota=many(row(STR, STR)),
    entities=many(_ENTITY.form),
    members=many(_MEMBER.form),
    waiting=many(_WAIT.form),
    active=_NUMBERS,
    backoff=_NUMBERS,
    gated=_NUMBERS,
    queues=many(_QUEUE.form),
    evicted=_STRS,
    overdue=_STRS,
    nominations=many(_NOMINATION.form),
    backfill=optional(_BACKFILL.form),
    waiting_since=many(row(STR, _COUNT)),
    giving_way=many(row(STR, STR)),
    effects=many(EFFECT),
    errors=many(_ERROR.form),
)
"""The form of a snapshot without its header."""

ROWS: Final[tuple[Record[Any], ...]] = (
    *(
        SNAPSHOT,
        _NODE_ROW,
        _ASSUMED,
        _GROUP_ROW,
        _RESTART,
        _CHARGE,
        _ENTITY,
        _MEMBER,
        _WAIT,
        _CLASS,
        _QUEUE,
    ),
    *(_NOMINATED, _NOMINATION, _RESERVED, _RESERVATION, _BACKFILL, _ERROR),
    *(_UNSCHEDULABLE, _DIAGNOSIS, _SHORTAGE, _EXHAUSTED),
)
"""The form of every row, and of what they are made of."""
