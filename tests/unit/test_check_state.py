"""What a scheduler's ``_check`` is for: whatever disagrees in its memory is seen, and named."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gangsched import GroupKey, NodeName, Pod, PodUID
from gangsched._core._counters import MemberState
from gangsched.errors import InternalError
from gangsched.framework.nodes.pod_class import PodClass
from gangsched.framework.nodes.reserved_capacity import ReservedCapacity
from gangsched.framework.state.nomination import NominatedPod, Nomination
from gangsched.framework.state.pods import Member
from gangsched.framework.state.role_count import RoleCount
from gangsched.framework.state.scheduler_state import State
from support.busy import busy_scheduler
from support.entities import a_pod

GHOST = Pod(name="ghost")
NOWHERE = NodeName("nowhere")
W, INCOMPLETE, EMPTY = (GroupKey(f"default/{name}") for name in ("w", "incomplete", "empty"))
LARGE = "(Resources({'cpu': '9'}),)"


def the(state: State, name: str) -> Member:
    return state.pods.members[PodUID(f"default/{name}")]


def waiting(state: State) -> Member:
    return next(
        member for member in state.pods.members.values() if member.state is MemberState.WAITING
    )


# Changes by mistake ---------------------------------------------------------------------------


def tell_only_its_group(state: State) -> None:
    group = the(state, "i-0").group
    assert group is not None
    group.members.set(the(state, "i-0").pod.uid, MemberState.GATED)


def give_one_a_role_that_its_group_does_not_know(state: State) -> None:
    the(state, "i-0").role = "ps"


def let_one_wait_no_more(state: State) -> None:
    state.pods.waiting.remove(waiting(state).pod.uid)


def let_a_bound_one_wait(state: State) -> None:
    state.pods.waiting.wait(the(state, "bound").pod.uid, node=NodeName("n1"), timeout=1.0, now=0.0)


def forget_what_one_holds(state: State) -> None:
    del state.nodes.assumed[waiting(state).pod.uid]


def assume_who_is_assigned(state: State) -> None:
    pod = the(state, "done").pod
    state.nodes.assumed[pod.uid] = (NOWHERE, pod)


def take_the_node_of_one_that_is_being_bound(state: State) -> None:
    the(state, "binding").node = None


def take_one_out_of_its_entity(state: State) -> None:
    the(state, "active-0").entity.discard(the(state, "active-0").pod.uid)


def leave_one_in_its_entity(state: State) -> None:
    the(state, "active-0").state = MemberState.GATED


def assume_a_stranger(state: State) -> None:
    state.nodes.assumed[GHOST.uid] = (NOWHERE, GHOST)


def evict_a_stranger(state: State) -> None:
    state.pods.evicted.add(GHOST.uid)


def let_a_stranger_wait(state: State) -> None:
    state.pods.waiting.wait(GHOST.uid, node=NOWHERE, timeout=1.0, now=0.0)


def take_one_out_of_the_queue(state: State) -> None:
    state.queue.remove(the(state, "active-0").entity, now=3.0)


def queue_a_stranger(state: State) -> None:
    state.queue.activate(a_pod(99), now=3.0)


def forget_that_a_group_holds_nodes(state: State) -> None:
    del state.attempts.waiting_since[W]


def take_a_group_as_holding(state: State) -> None:
    state.attempts.waiting_since[INCOMPLETE] = 1


def let_a_group_yield_that_holds_nothing(state: State) -> None:
    state.attempts.giving_way[INCOMPLETE] = "why"


def take_one_as_tried_under_another_number(state: State) -> None:
    state.attempts.tried[99] = the(state, "w-0").entity


def forget_when_one_was_tried(state: State) -> None:
    the(state, "w-0").entity.tried_step = -1


def try_a_stranger(state: State) -> None:
    state.attempts.tried[99] = stranger = a_pod(99)
    stranger.tried_step = 1


def swap_the_entities_of_two_groups(state: State) -> None:
    entities = state.pods.entities
    entities[W], entities[INCOMPLETE] = entities[INCOMPLETE], entities[W]


def keep_the_entity_of_a_group_that_nobody_knows(state: State) -> None:
    state.pods.entities[GroupKey("default/gone")] = a_pod(99)


def keep_the_entity_of_a_group_without_members(state: State) -> None:
    info = state.pods.registry.get(EMPTY)
    state.pods.entities[EMPTY] = stranger = a_pod(99)
    stranger.group = info


def miscount_a_class(state: State) -> None:
    the(state, "large").pod_class.users += 1


def keep_a_class_that_nobody_is_of(state: State) -> None:
    state.pod_classes.by_signature["nobody"] = PodClass("nobody", GHOST)


def keep_a_class_whose_one_pod_is_gone(state: State) -> None:
    state.pod_classes.by_signature["gone"] = PodClass("gone", GHOST)
    state.pod_classes.by_signature["gone"].users = 1


def forget_a_class(state: State) -> None:
    del state.pod_classes.by_signature[the(state, "large").pod_class.signature]


def nominated(state: State) -> Nomination:
    member = the(state, "large")
    entry = ReservedCapacity(member.entity.seq, NodeName("n1"), 0, member.requests)
    pod = NominatedPod(member.seq, member.pod.uid, None, None, entry)
    return Nomination(
        member.entity, 0, {member.pod.uid: pod}, (RoleCount(None, None, 1),), (), [], 99.0
    )


def nominate_without_reserving(state: State) -> None:
    made = nominated(state)
    state.reservations.nominations[made.entity.seq] = made


def reserve_without_nominating(state: State) -> None:
    state.nodes.reserve(nominated(state).reserved)


def leave_reserved_capacity_out(state: State) -> None:
    made = nominated(state)
    state.reservations.nominations[made.entity.seq] = made
    state.nodes.reserve(made.reserved)
    state.nodes.leave_out(made.reserved)


def miscount_a_priority(state: State) -> None:
    state.pods.priorities[9] = 2


def withhold_what_is_not_reserved(state: State) -> None:
    info = state.nodes.infos[NodeName("n1")]
    info.withheld = {"cpu": 5}
    info.shift(info.withheld, -1, state.nodes._total)


SABOTAGE: list[tuple[Callable[[State], None], str]] = [
    (tell_only_its_group, "default/i-0 is UNSCHEDULED, its group counts it otherwise"),
    (
        give_one_a_role_that_its_group_does_not_know,
        "default/i-0 has the role ps, its group counts it otherwise",
    ),
    (let_one_wait_no_more, "default/w-0 is WAITING, the waiting map disagrees"),
    (let_a_bound_one_wait, "default/bound is ASSIGNED, the waiting map disagrees"),
    (
        forget_what_one_holds,
        "default/w-0 is WAITING with no eviction requested, and is not assumed",
    ),
    (
        assume_who_is_assigned,
        "default/done is SUCCEEDED with no eviction requested, and is assumed",
    ),
    (take_the_node_of_one_that_is_being_bound, "default/binding is BINDING, and holds None"),
    (take_one_out_of_its_entity, "default/active-0 is UNSCHEDULED, its entity disagrees"),
    (leave_one_in_its_entity, "default/active-0 is GATED, its entity disagrees"),
    (assume_a_stranger, "['default/ghost'] are not known pods"),
    (evict_a_stranger, "['default/ghost'] are not known pods"),
    (let_a_stranger_wait, "['default/ghost'] are not known pods"),
    (
        take_one_out_of_the_queue,
        "entities without pending pods are queued: []; entities with pending pods are not: [26]",
    ),
    (
        queue_a_stranger,
        "entities without pending pods are queued: [99]; entities with pending pods are not: []",
    ),
    (
        forget_that_a_group_holds_nodes,
        "default/w: 2 members wait, waiting_since is None",
    ),
    (
        take_a_group_as_holding,
        "default/incomplete: 0 members wait, waiting_since is 1",
    ),
    (
        let_a_group_yield_that_holds_nothing,
        "default/incomplete gives way, and no member of it waits on permit",
    ),
    (take_one_as_tried_under_another_number, "entity 22 is kept as tried under 99"),
    (forget_when_one_was_tried, "entity 22: tried_step is -1, the current step is 11"),
    (try_a_stranger, "entity 99 is noted as tried, but no known pod belongs to it"),
    (swap_the_entities_of_two_groups, "the entity of default/incomplete has another group"),
    (keep_the_entity_of_a_group_that_nobody_knows, "the entity of default/gone has another group"),
    (keep_the_entity_of_a_group_without_members, "the entity of default/empty has another group"),
    (miscount_a_class, f"pod class {LARGE}: users is 3, expected 2"),
    (keep_a_class_that_nobody_is_of, "pod class nobody miscounts its users"),
    (keep_a_class_whose_one_pod_is_gone, "pod class gone: users is 1, expected 0"),
    (forget_a_class, f"pod classes [{LARGE}] are not known"),
    (
        nominate_without_reserving,
        "capacity is nominated or promised, and not reserved: [(16, 'n1')]",
    ),
    (
        reserve_without_nominating,
        "the ledger has 1 entries, the nominations and the reservation have 0",
    ),
    (leave_reserved_capacity_out, "n1: the ledger has other entries than are withheld"),
    (
        miscount_a_priority,
        "pods by priority: {9: 1, 8: 1, 0: 2}, counted as {9: 2, 8: 1, 0: 2}",
    ),
    (withhold_what_is_not_reserved, "n1: {'cpu': 5} is withheld, not {}"),
]


@pytest.mark.parametrize(
    ("sabotage", "says"),
    [pytest.param(sabotage, says, id=sabotage.__name__) for sabotage, says in SABOTAGE],
)
def test_scheduler_sees_what_is_wrong_and_says_what(
    sabotage: Callable[[State], None], says: str
) -> None:
    _cluster, scheduler = busy_scheduler()
    scheduler._check()
    sabotage(scheduler._state)
    with pytest.raises(InternalError) as caught:
        scheduler._check()
    assert caught.value.invariant == says
