"""The gang policy, as a plugin.

How a group gets its nodes, pod by pod. ``pre_enqueue`` keeps its members out of the queue until
enough of them exist. Each member that finds a node is assumed there and waits at ``permit``. The
member that completes the quorum gets ``Success``, and the scheduler releases it with its waiting
siblings. If a member finds no node, ``post_filter`` computes whether the members still to be tried
suffice for the quorum. If they do not, ``when_blocked`` decides how long the waiting members keep
their nodes. A member that loses its node before release is reported by ``unreserve``: without it
the attempt cannot succeed, so the whole group is rejected.

Rules:
  R1  the plugin keeps no state: the scheduler shows it the group, and carries out its verdicts;
  R2  an incomplete group is not admitted to the queue and gets no backoff. Only a group whose
      attempt was rejected does;
  R3  a released group survives what happens to single members later, unless ``match_policy`` or
      ``when_bind_fails`` says otherwise;
  R4  an attempt has one deadline, set when its first member waits. Each member that joins waits for
      the remaining time, so a failed attempt holds nodes for one timeout.

Source: the 2020 coscheduling proposal (kubernetes/enhancements#1463); what differs is in
``docs/explanation/differences-from-the-proposal.md``.
"""

from __future__ import annotations

import enum
from collections.abc import Collection
from typing import Any, NoReturn, assert_never, final

from attrs import field, frozen

from gangsched.errors import InvalidValueError
from gangsched.model import NodeName, Pod, Resources
from gangsched.outcomes import (
    SKIP,
    SUCCESS,
    EvictGroup,
    HoldGroup,
    Outcome,
    RejectGroup,
    Success,
    Unschedulable,
    Verdict,
)
from gangsched.primitives import quorum
from gangsched.primitives.ordering import Order, sort_key
from gangsched.primitives.quorum import MatchPolicy
from gangsched.primitives.standing import Standing
from gangsched.protocols import CycleView, EntityView, GroupView, QueueSortKey
from gangsched.values.fields import check_count, check_seconds, refuse_choice

__all__ = ["Coscheduling", "WhenBindFails", "WhenBlocked"]


class WhenBlocked(enum.Enum):
    """How long waiting members keep their nodes when the group cannot be completed at present."""

    UNTIL_OTHERS_TURN = "until_others_turn"
    """Until the scheduling cycle of another entity begins: capacity may become free before."""
    UNTIL_TIMEOUT = "until_timeout"
    """Until the deadline of the attempt."""
    AT_ONCE = "at_once"
    """Members do not keep waiting, unless few are missing: see ``reject_percentage``."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        refuse_choice(cls, "when_blocked", value)


class WhenBindFails(enum.Enum):
    """What happens to a released group if a bind fails and leaves fewer members than the quorum.

    In these names *release* means that the group gives its nodes back: the opposite of the release
    in which its members are permitted together.
    """

    RELEASE_AFTER_RETRIES = "release_after_retries"
    """The member is tried again. If its retries fail too, or if no node takes it any more, the
    others are evicted, and the group starts anew when it is complete again. A host that does not
    evict tries the member for ever; ``GroupPartlyBound`` says so each time."""
    RETRY_MEMBER = "retry_member"
    """The others stay. The member is tried again, alone if the match policy allows it."""
    RELEASE_GROUP = "release_group"
    """The others are evicted at once, and the group starts anew when it is complete again. The
    member stays if its bind takes effect though it was reported as failed, as if others had bound
    it."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        refuse_choice(cls, "when_bind_fails", value)


def _check_percentage(_owner: object, _attribute: object, value: int) -> None:
    if type(value) is not int or not 0 <= value <= 100:
        raise InvalidValueError("reject_percentage", value, "an int from 0 to 100")


def _check_minima(owner: Any, _attribute: object, value: bool) -> None:
    if type(value) is not bool:
        raise InvalidValueError("minima_first", value, "True or False")
    if value and owner.match_policy is MatchPolicy.ONLY_WAITING:
        expected = "False if match_policy is only_waiting: elastic members would need a new quorum"
        raise InvalidValueError("minima_first", value, expected)


@final
@frozen(kw_only=True)
class Coscheduling:
    """Start the members of a group together, or none of them.

    Attributes:
        permit_timeout: The longest wait on permit in an attempt, in seconds, for a group without
            a timeout of its own; finite and >= 0.
        order: Which of the two published queue orders.
        when_blocked: How long waiting members keep their nodes when the group cannot be completed.
        reject_percentage: With ``at_once``, the percentage of the minimum that may be missing
            while waiting members still keep their nodes until the deadline: 0 to 100.
        match_policy: Which members count for the quorum.
        when_bind_fails: What happens to a released group if a bind fails.
        minima_first: Whether elastic members of started gangs are queued behind the minima of other
            gangs of their priority; otherwise a gang gets as many members as fit at once. An
            elastic member may still go first while the other gang backs off. Not with
            ``only_waiting``.
        bind_retries: With ``release_after_retries``, how often a bind is retried before the other
            members are evicted; an int >= 0.
    """

    permit_timeout: float = field(default=10.0, validator=check_seconds)
    order: Order = field(default=Order.LAST_FAILURE, converter=Order)
    when_blocked: WhenBlocked = field(default=WhenBlocked.UNTIL_OTHERS_TURN, converter=WhenBlocked)
    reject_percentage: int = field(default=0, validator=_check_percentage)
    match_policy: MatchPolicy = field(default=MatchPolicy.ONCE_SATISFIED, converter=MatchPolicy)
    when_bind_fails: WhenBindFails = field(
        default=WhenBindFails.RELEASE_AFTER_RETRIES, converter=WhenBindFails
    )
    minima_first: bool = field(default=False, validator=_check_minima)
    bind_retries: int = field(default=3, validator=check_count)

    @property
    def name(self) -> str:
        """``Coscheduling``."""
        return "Coscheduling"

    @property
    def group_wide(self) -> Collection[str]:
        """The points at which the answer for one member holds for all of them."""
        return ("pre_filter", "reserve", "permit")

    def queue_sort(self, entity: EntityView) -> QueueSortKey:
        """Return the sort key of the published order; see *minima_first* for what goes before it.

        The key of a group changes when its members get or lose nodes. The scheduler reads it anew
        whenever it queues the group.
        """
        key = sort_key(entity, order=self.order)
        if not self.minima_first:
            return key
        return (key[0], int(self._has_its_minimum(entity.group)), *key[1:])

    def pre_enqueue(self, pod: Pod, group: GroupView | None, *, now: float) -> Outcome:
        """Admit the members of a group once it is complete."""
        return self._complete(group)

    def pre_filter(self, state: CycleView, pod: Pod, *, now: float) -> Outcome:
        """End the cycle of a member of an incomplete group. O(1)."""
        return self._complete(state.group)

    def group_requests(self, group: GroupView) -> Resources:
        """Return the total request that the group states."""
        return group.min_resources

    def post_filter(
        self, state: CycleView, pod: Pod, reason: str, *, now: float
    ) -> Outcome | Verdict:
        """Decide how long waiting members keep their nodes after *pod* found none. O(1)."""
        group = state.group
        if group is None:
            return SKIP
        if state.bind_failures and self._gives_up(state, group):
            why = f"the bind of pod {pod.name} failed, and it cannot be placed again: {reason}"
            return EvictGroup(group.key, why)
        minimum, missing = group.min_available, quorum.members_needed(group, self.match_policy)
        if minimum is None or missing is None:
            return Unschedulable(reason)
        if not quorum.is_lost(group, quorum.stands(group, self.match_policy)):
            return Unschedulable(reason)
        why = f"pod {pod.name} cannot be placed: {reason}"
        match self.when_blocked:
            case WhenBlocked.AT_ONCE:
                if missing * 100 <= self.reject_percentage * minimum:
                    return Unschedulable(why)
                return RejectGroup(group.key, why)
            case WhenBlocked.UNTIL_OTHERS_TURN:
                return HoldGroup(group.key, why)
            case WhenBlocked.UNTIL_TIMEOUT:
                return Unschedulable(why)
            case _:
                assert_never(self.when_blocked)

    def reserve(self, state: CycleView, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        """Take nothing: the scheduler itself counts the member as assumed."""
        return SUCCESS

    def unreserve(
        self, state: CycleView, pod: Pod, node: NodeName, *, cause: str, now: float
    ) -> RejectGroup | EvictGroup | None:
        """Decide whether the group is rejected after *pod* gave its node back. O(1)."""
        group = None if cause == "rejected" else state.group
        minimum = None if group is None else group.min_available
        if group is None or minimum is None:
            return None  # a group that is being rejected needs no verdict
        if cause == "bind_failed":
            if self._retries(state):
                return None
            needed = quorum.members_needed(group, MatchPolicy.WAITING_AND_RUNNING)
            if needed is None or needed <= 0:
                return None
            return EvictGroup(group.key, f"the bind of pod {pod.name} failed")
        needed = quorum.members_needed(group, self.match_policy)
        if needed is None or needed <= 0:
            return None
        found = quorum.stands(group, self.match_policy)
        if cause in ("deleted", "changed") and found.is_complete:
            return None
        held = _held(found, minimum, and_this=cause in ("timeout", "refused"))
        match cause:
            case "timeout":
                return RejectGroup(group.key, f"timed out waiting on permit: {held}")
            case "deleted":
                return RejectGroup(group.key, f"pod {pod.name} was deleted: {held}")
            case "changed":
                return RejectGroup(group.key, f"pod {pod.name} has changed: {held}")
            case "node_gone":
                return RejectGroup(group.key, f"node {node} of pod {pod.name} is gone: {held}")
            case _:
                return RejectGroup(group.key, f"pod {pod.name} was refused: {held}")

    def _has_its_minimum(self, group: GroupView | None) -> bool:
        """Return whether the pending members of a group are elastic. O(roles)."""
        if group is None:
            return False
        needed = quorum.members_needed(group, MatchPolicy.WAITING_AND_RUNNING)
        return needed is not None and needed <= 0

    def _retries(self, state: CycleView) -> bool:
        """Return whether a member whose bind failed is tried again while the others stay.

        Failures are counted until a bind of the pod succeeds. A group that is evicted and starts
        anew gets as many retries as at its first start, so not every failure since counts.
        """
        match self.when_bind_fails:
            case WhenBindFails.RETRY_MEMBER:
                return True
            case WhenBindFails.RELEASE_GROUP:
                return False
            case WhenBindFails.RELEASE_AFTER_RETRIES:
                return not state.can_evict or state.bind_failures % (self.bind_retries + 1) != 0
            case _:
                assert_never(self.when_bind_fails)

    def _gives_up(self, state: CycleView, group: GroupView) -> bool:
        """Return whether the others are evicted if a member whose bind failed fits nowhere.

        Its node went to another pod meanwhile. Gangs that keep part of their nodes and wait for
        those of each other would wait for ever.
        """
        if self.when_bind_fails is not WhenBindFails.RELEASE_AFTER_RETRIES or not state.can_evict:
            return False
        needed = quorum.members_needed(group, MatchPolicy.WAITING_AND_RUNNING)
        return needed is not None and needed > 0

    def permit(self, state: CycleView, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        """Release the group if it has its quorum, else let *pod* wait for the others. O(1)."""
        group = state.group
        if group is None:
            return SUCCESS
        minimum = group.min_available
        if minimum is None:
            if group.was_scheduled and self.match_policy is MatchPolicy.ONCE_SATISFIED:
                return SUCCESS
            return Unschedulable(f"pod group {group.key} does not exist", resolvable=False)
        needed = quorum.members_needed(group, self.match_policy)
        if needed is None or needed <= 0:
            return SUCCESS
        own = group.schedule_timeout
        timeout = self.permit_timeout if own is None else own
        if group.attempt_started_at is not None:
            timeout = max(0.0, group.attempt_started_at + timeout - now)
        return quorum.decide(quorum.stands(group, self.match_policy), timeout)

    def _complete(self, group: GroupView | None) -> Success | Unschedulable:
        if group is None:
            return SUCCESS
        if self.match_policy is MatchPolicy.ONCE_SATISFIED and group.was_scheduled:
            return SUCCESS
        if group.min_available is None:
            return Unschedulable(
                f"pod group {group.key} does not exist yet, and its members give no minimum",
                resolvable=False,
            )
        return quorum.complete(quorum.stands(group, self.match_policy))


def _held(found: Standing, minimum: int, *, and_this: bool) -> str:
    """Return how many members hold a node; or held one, with that which gave its own back."""
    lacking = [f"{more} {role}" for role, more in found.lacking.items() if role and more > 0]
    missing = f"; missing: {', '.join(lacking)}" if lacking else ""
    held = "held" if and_this else "hold"
    return f"{found.rows[''].held + and_this} of {minimum} members {held} a node{missing}"
