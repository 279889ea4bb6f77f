"""The forms of a snapshot: how its rows are written as plain data, and read.

Rules:
  R1  each class of rows has a form with all its fields;
  R2  a form checks the type of a value and its bounds. Whether rows agree with each other and with
      the cluster is checked by ``read``;
  R3  every number is bounded, so that arithmetic with it cannot overflow later.
"""

from __future__ import annotations

import math
from typing import Any, Final

from gangsched.core.records.charges import Charge
from gangsched.core.records.gang import QueuePlace
from gangsched.core.snapshot.kept_rows import (
    BackfillRow,
    NominatedPodRow,
    NominationRow,
    ReservationRow,
    ReservedRow,
)
from gangsched.core.snapshot.rows import (
    ErrorRow,
    GainRow,
    GangRecordRow,
    PodGroupInfoRow,
    PodRecordRow,
    RestartRow,
    SnapshotRow,
    WaitRow,
)
from gangsched.errors import InvalidValueError
from gangsched.explain import Diagnosis, SearchBudgetExhausted, Shortage, UnschedulableMember
from gangsched.options.scheduling_unit import SchedulingUnit
from gangsched.primitives.counters import MemberState
from gangsched.quantity import is_seconds
from gangsched.values.form_table import EFFECT, GROUP, POD, ROLE
from gangsched.values.forms import (
    BOOL,
    INT,
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

__all__ = ["SNAPSHOT"]

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
    texts = [f'"{SECONDS.write(each)}"' for each in endless]
    expected = " or ".join(["a finite number of seconds", *texts])

    def read(value: Any, path: str) -> float:
        given: float = SECONDS.read(value, path)
        if not is_seconds(given) and given not in endless:
            raise InvalidValueError(path, value, expected)
        return given

    return Form(SECONDS.write, read)


_COUNT: Final = _int(0)
_POSITIVE: Final = _int(1)
_STEP: Final = _int(-1)
_INSTANT: Final = _instant()
_PAST_OR_NEVER: Final = _instant(-math.inf)
_MAYBE_INSTANT: Final = optional(_INSTANT)
_COUNTS: Final = many(row(STR, _COUNT))
_STRS: Final = many(STR)

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
    copy_requests=optional(RESOURCES),
    each_within=STR,
    of_slices=BOOL,
    apart=STR,
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
    group=optional(STR),
)
_GROUP: Final = Record(
    PodGroupInfoRow,
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
    started_by=_COUNT,
    is_binding=BOOL,
    collected=many(row(STR, _POSITIVE)),
    kept_until=_MAYBE_INSTANT,
)


def _read_minimum(value: Any, path: str) -> Any:
    return (ROLE if isinstance(value, dict) else _POSITIVE).read(value, path)


_RESTART: Final = Record(
    RestartRow,
    group=STR,
    path=STR,
    restarts=_COUNT,
    until=_PAST_OR_NEVER,
    is_held=BOOL,
    minimum=optional(_POSITIVE),
    roles=many(row(STR, Form(ROLE.write, _read_minimum))),
    short_since=optional(_PAST_OR_NEVER),
    failed_at=_PAST_OR_NEVER,
    due_at=_MAYBE_INSTANT,
)
_CHARGE: Final = Record(Charge, key=STR, amounts=RESOURCES)
_POD: Final = Record(
    PodRecordRow,
    uid=STR,
    seq=_POSITIVE,
    state=by_name(MemberState),
    group=optional(STR),
    role=optional(STR),
    priority=INT,
    node=optional(STR),
    requests=RESOURCES,
    pod=optional(POD.form),
    is_outgrown=BOOL,
    cycle=many(row(STR, JSON)),
    attempt=_COUNT,
    round=_STEP,
    reason=STR,
    told=STR,
    bind_failures=_COUNT,
    started_at=_MAYBE_INSTANT,
    is_evicted=BOOL,
    is_overruled=BOOL,
)
_GANG: Final = Record(
    GangRecordRow,
    key=STR,
    seq=_POSITIVE,
    groups=_STRS,
    place=choice(QueuePlace),
    queued_at=_INSTANT,
    failures=_COUNT,
    backoff_until=_PAST_OR_NEVER,
    round=_COUNT,
    began=_COUNT,
    is_whole=BOOL,
    giving_way=STR,
    lacks_since=_MAYBE_INSTANT,
    reason=STR,
    denial=STR,
    refused=optional(_UNSCHEDULABLE.form),
    blocked_at=_COUNT,
    demand=STR,
    leads=BOOL,
)
_WAIT: Final = Record(
    WaitRow, uid=STR, attempt=_COUNT, since=_INSTANT, deadline=_INSTANT, plugins=_STRS
)
_NOMINATED: Final = Record(NominatedPodRow, uid=STR, node=STR, since=_COUNT, pod_class=STR)
_NOMINATION: Final = Record(
    NominationRow,
    gang=STR,
    group=optional(STR),
    priority=_int(-_MOST),
    pods=many(_NOMINATED.form),
    required=many(row(_STRS, _COUNT)),
    specs=many(row(STR, optional(GROUP.form))),
    awaited=_STRS,
    deadline=_INSTANT,
    is_new=BOOL,
    is_tried=BOOL,
)
_RESERVED: Final = Record(
    ReservedRow, node=STR, since=_COUNT, wanted=many(row(STR, _COUNT)), returning=_STRS
)
_RESERVATION: Final = Record(
    ReservationRow,
    gang=STR,
    since=_INSTANT,
    starts_at=_instant(math.inf),
    deadline=_INSTANT,
    ends=many(row(STR, _instant(math.inf))),
    reserved=many(_RESERVED.form),
    planned=many(row(STR, STR)),
    drained=_STRS,
    has_refused=BOOL,
    departed=_STRS,
)
_BACKFILL: Final = Record(
    BackfillRow,
    qualified=_STRS,
    drain_timeouts=_COUNTS,
    infeasible=_STRS,
    failed=_COUNTS,
    reservation=optional(_RESERVATION.form),
    is_contested=BOOL,
    is_stale=BOOL,
    is_drain_paused=BOOL,
    has_no_candidate=BOOL,
    no_candidate_until=_instant(math.inf, -math.inf),
    altered=_COUNT,
    node_changes=_COUNT,
)
_ERROR: Final = Record(ErrorRow, plugin=STR, point=STR, subject=STR, problem=STR)

_GAIN: Final = Record(GainRow, gained_at=_COUNT, taken_at=_COUNT)

SNAPSHOT: Final = Record(
    SnapshotRow,
    unit=choice(SchedulingUnit),
    plugins=_STRS,
    plugin_states=many(row(STR, JSON)),
    now=_PAST_OR_NEVER,
    listed=BOOL,
    step=_POSITIVE,
    gains=many(_GAIN.form),
    arrivals=_COUNT,
    attempt_floor=_COUNT,
    nodes_digest=STR,
    labels=_STRS,
    groups=many(_GROUP.form),
    group_arrivals=_COUNT,
    restarts=many(_RESTART.form),
    charges=many(_CHARGE.form),
    over_quota=many(row(STR, STR)),
    past_usage=many(row(STR, SECONDS, many(row(STR, SECONDS)))),
    gangs=many(_GANG.form),
    pods=many(_POD.form),
    waiting=many(_WAIT.form),
    nominations=many(_NOMINATION.form),
    spares=many(row(STR, STR, RESOURCES, _COUNT)),
    overdue=_STRS,
    no_plans=_STRS,
    takers=many(row(STR, _COUNT, BOOL)),
    held=_STRS,
    retry_at=_MAYBE_INSTANT,
    backfill=optional(_BACKFILL.form),
    effects=many(EFFECT),
    errors=many(_ERROR.form),
)
"""The form of a snapshot without its header."""
