"""The forms of a snapshot: how its rows are written as plain data, and read.

Rules:
  R1  each class of rows has a form with all its fields;
  R2  a form checks types only. Whether rows agree with each other is checked by ``read``.
"""

from __future__ import annotations

from typing import Any, Final, cast

from gangsched._core._counters import MemberState
from gangsched._core._waiting import WaitingPod
from gangsched._forms import (
    FLAG,
    PLAIN,
    RESOURCES,
    SECONDS,
    TEXT,
    WHOLE,
    Form,
    Record,
    at,
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
from gangsched.framework.config.scheduling_unit import SchedulingUnit
from gangsched.framework.snapshot.rows import (
    AssumedRow,
    EntityRow,
    ErrorRow,
    GroupRow,
    LineRow,
    MemberRow,
    NodeClassRow,
    NodeRow,
    NominatedPodRow,
    NominationRow,
    PodClassRow,
    ReservationRow,
    ReservedRow,
    ReservingRow,
    ShapeRow,
    SnapshotRow,
)

__all__ = ["ROWS", "SNAPSHOT"]

_AMOUNTS: Final = many(row(TEXT, WHOLE))
_EDGES: Final = many(row(RESOURCES, WHOLE))
_NUMBERS: Final = many(WHOLE)
_TEXTS: Final = many(TEXT)
_MAYBE_SECONDS: Final = optional(SECONDS)


def _write_key_part(part: Any) -> Any:
    if isinstance(part, str):
        return {"text": part}  # as "Infinity" stands for a number
    if isinstance(part, tuple):
        return [_write_key_part(one) for one in cast("tuple[object, ...]", part)]
    return SECONDS.write(part)


def _read_key_part(value: Any, path: str) -> Any:
    if isinstance(value, dict):
        given = cast("dict[object, Any]", value)
        if given.keys() != {"text"}:
            raise InvalidValueError(path, given, "a number, an object with text, or a list")
        return TEXT.read(given["text"], at(path, "text"))
    if isinstance(value, list):
        parts = cast("list[object]", value)
        return tuple(_read_key_part(one, f"{path}[{n}]") for n, one in enumerate(parts))
    return SECONDS.read(value, path)


_KEY_PART: Final[Form[Any]] = Form(_write_key_part, _read_key_part)
"""One part of a sort key: a number, a string or a tuple of parts."""

_DIAGNOSIS: Final = Record(Diagnosis, nodes=WHOLE, reasons=_AMOUNTS, refusal=TEXT)
_SHORTAGE: Final = Record(
    Shortage,
    needed=WHOLE,
    fits=WHOLE,
    exact=FLAG,
    role=TEXT,
    resource=optional(TEXT),
    in_pieces=FLAG,
    within=TEXT,
    group=optional(TEXT),
)
_UNDECIDED: Final = Record(SearchBudgetExhausted, needed=WHOLE, placed=WHOLE, steps=WHOLE)
_UNSCHEDULABLE: Final = Record(
    UnschedulableMember,
    uid=TEXT,
    pod=TEXT,
    reason=TEXT,
    diagnosis=optional(_DIAGNOSIS.form),
    proof=optional(union(_SHORTAGE, _UNDECIDED)),
)
_WAITING: Final = Record(
    WaitingPod,
    uid=TEXT,
    group=optional(TEXT),
    node=TEXT,
    attempt=WHOLE,
    since=SECONDS,
    deadline=SECONDS,
)
_NODE_ROW: Final = Record(
    NodeRow,
    node=NODE.form,
    index=WHOLE,
    free=_AMOUNTS,
    holders=many(row(TEXT, RESOURCES)),
    withheld=_AMOUNTS,
    withheld_pods=WHOLE,
    pods=many(POD.form),
)
_RESERVED: Final = Record(
    ReservedRow,
    owner=WHOLE,
    node=TEXT,
    priority=WHOLE,
    requests=RESOURCES,
    pods=WHOLE,
    returning=optional(_TEXTS),
)
_ASSUMED: Final = Record(AssumedRow, uid=TEXT, node=TEXT, pod=optional(POD.form))
_NODE_CLASS: Final = Record(
    NodeClassRow,
    number=WHOLE,
    node=NODE.form,
    free=_AMOUNTS,
    pods=WHOLE,
    alone=FLAG,
    labels=optional(_TEXTS),
    nodes=_NUMBERS,
    after=_EDGES,
    before=_EDGES,
    endless=_AMOUNTS,
)
_POD_CLASS: Final = Record(PodClassRow, sample=POD.form, known=FLAG)
_GROUP_ROW: Final = Record(
    GroupRow,
    key=TEXT,
    uid=WHOLE,
    spec=optional(GROUP.form),
    claimed_min=optional(WHOLE),
    claimed_priority=optional(WHOLE),
    first_seen_at=_MAYBE_SECONDS,
    claims=many(row(TEXT, optional(WHOLE), WHOLE)),
    members=_TEXTS,
    attempts=WHOLE,
    attempt_started_at=_MAYBE_SECONDS,
    last_failure_at=_MAYBE_SECONDS,
    failures=WHOLE,
    backoff_until=SECONDS,
    complete_at=_MAYBE_SECONDS,
    was_scheduled=FLAG,
)
_ENTITY: Final = Record(
    EntityRow,
    seq=WHOLE,
    group=optional(TEXT),
    queued_at=SECONDS,
    failures=WHOLE,
    backoff_until=SECONDS,
    rank=optional(many(_KEY_PART)),
    tried_step=WHOLE,
    failed_step=WHOLE,
    event_step=WHOLE,
    round_step=WHOLE,
    refused_at=WHOLE,
    reason=TEXT,
    unschedulable_member=optional(_UNSCHEDULABLE.form),
    pending=_TEXTS,
    tried=_TEXTS,
)
_MEMBER: Final = Record(
    MemberRow,
    pod=POD.form,
    seq=WHOLE,
    entity=WHOLE,
    pod_class=WHOLE,
    state=by_name(MemberState),
    node=optional(TEXT),
    attempt=WHOLE,
    cycle=optional(many(row(TEXT, PLAIN))),
    reason=TEXT,
    bind_failures=WHOLE,
    role=optional(TEXT),
    started_at=_MAYBE_SECONDS,
)
_PART: Final[Form[Any]] = Form(
    lambda value: _SHAPE.write(value), lambda value, path: _SHAPE.read(value, path)
)
_SHAPE: Final[Record[Any]] = Record(
    ShapeRow,
    needed=WHOLE,
    runs=many(row(WHOLE, WHOLE)),
    floor=RESOURCES,
    quotas=_AMOUNTS,
    roles=_TEXTS,
    topology=optional(TOPOLOGY.form),
    parts=many(_PART),
    reach=optional(row(WHOLE, FLAG)),
    affected=_TEXTS,
)


_NUMBER_OR_SHAPE: Final[Form[Any]] = Form(
    lambda value: value if isinstance(value, int) else _SHAPE.write(value),
    lambda value, path: value if type(value) is int else _SHAPE.read(value, path),
)
_LINE: Final = Record(
    LineRow,
    shape=_NUMBER_OR_SHAPE,
    blocked=FLAG,
    blocked_at=WHOLE,
    opened_at=WHOLE,
    helped_at=WHOLE,
    leader=optional(WHOLE),
    standing=_NUMBERS,
    resting=_NUMBERS,
)
_NOMINATED: Final = Record(
    NominatedPodRow,
    seq=WHOLE,
    uid=TEXT,
    group=optional(TEXT),
    role=optional(TEXT),
    reserved=WHOLE,
)
_NOMINATION: Final = Record(
    NominationRow,
    entity=WHOLE,
    priority=WHOLE,
    pods=many(_NOMINATED.form),
    required=many(row(optional(TEXT), TEXT, WHOLE)),
    specs=many(row(TEXT, optional(GROUP.form))),
    awaited=_TEXTS,
    deadline=SECONDS,
)
_RESERVATION: Final = Record(
    ReservationRow,
    entity=WHOLE,
    key=TEXT,
    since=SECONDS,
    starts_at=SECONDS,
    deadline=SECONDS,
    ends=many(row(TEXT, SECONDS)),
    capacity=_NUMBERS,
)
_RESERVING: Final = Record(
    ReservingRow,
    asking=_TEXTS,
    drain_timeouts=_AMOUNTS,
    infeasible=_AMOUNTS,
    reservation=optional(_RESERVATION.form),
    failed=many(row(_NUMBER_OR_SHAPE, WHOLE)),
    gained=FLAG,
    is_contested=FLAG,
    is_stale=FLAG,
    is_drain_paused=FLAG,
    has_no_candidate=FLAG,
    no_candidate_until=SECONDS,
    altered=WHOLE,
)
_ERROR: Final = Record(ErrorRow, plugin=TEXT, point=TEXT, subject=TEXT, problem=TEXT)

SNAPSHOT: Final = Record(
    SnapshotRow,
    unit=choice(SchedulingUnit),
    plugins=_TEXTS,
    plugin_states=many(row(TEXT, PLAIN)),
    now=SECONDS,
    listed=FLAG,
    step=WHOLE,
    numbers=WHOLE,
    attempt_floor=WHOLE,
    exhausted_searches=WHOLE,
    nodes=many(_NODE_ROW.form),
    indices=WHOLE,
    altered=WHOLE,
    reserved=many(_RESERVED.form),
    departed=_TEXTS,
    unread=_TEXTS,
    assumed=many(_ASSUMED.form),
    node_classes=many(_NODE_CLASS.form),
    node_classes_made=WHOLE,
    node_class_numbers=WHOLE,
    occupied=_NUMBERS,
    labels=_AMOUNTS,
    idle_label_changes=WHOLE,
    pod_classes=many(_POD_CLASS.form),
    groups=many(_GROUP_ROW.form),
    groups_left=many(row(TEXT, SECONDS)),
    group_numbers=WHOLE,
    entities=many(_ENTITY.form),
    members=many(_MEMBER.form),
    waiting=many(_WAITING.form),
    active=_NUMBERS,
    backoff=_NUMBERS,
    gated=_NUMBERS,
    lines=many(_LINE.form),
    evicted=_TEXTS,
    overdue=_TEXTS,
    nominations=many(_NOMINATION.form),
    reserving=optional(_RESERVING.form),
    holding=many(row(TEXT, WHOLE)),
    yielding=many(row(TEXT, TEXT)),
    tried=_NUMBERS,
    out=many(EFFECT),
    deferred=many(_ERROR.form),
)
"""The form of a snapshot, but for its header."""

ROWS: Final[tuple[Record[Any], ...]] = (
    *(SNAPSHOT, _NODE_ROW, _ASSUMED, _NODE_CLASS, _POD_CLASS, _GROUP_ROW, _ENTITY, _MEMBER),
    *(
        _NOMINATION,
        _NOMINATED,
        _RESERVED,
        _RESERVATION,
        _RESERVING,
        _LINE,
        _SHAPE,
        _ERROR,
        _WAITING,
        _UNSCHEDULABLE,
        _DIAGNOSIS,
        _SHORTAGE,
        _UNDECIDED,
    ),
)
"""The form of every row, and of what they are made of."""
