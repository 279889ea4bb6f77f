"""The kit finds faults that are planted around schedulers of gangsched."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import frozen

from gangsched.testing import (
    AddNode,
    BindFails,
    CancelPods,
    LawViolation,
    PlainParent,
    PlainPod,
    PutParent,
    ScheduleOne,
    Settle,
    Step,
    SubmitPods,
    Tick,
    adapt,
    check_scheduler,
    check_steps,
)
from kit.variants import VARIANTS
from support.examples import FINDS
from support.faults import (
    AnyChild,
    BacksOffNever,
    Faulty,
    ForgetsToRequeue,
    GivesBackTwice,
    HoldsOneMember,
    OneShort,
    ReleasesLate,
    RoleOneShort,
    faulty,
)

LONGEST = 12


def pod(uid: str, gpu: int = 1, **fields: Any) -> PlainPod:
    """Return a pod."""
    return PlainPod(uid=uid, requests={"gpu": gpu}, **fields)


def gang(*uids: str, needs: int, **fields: Any) -> SubmitPods:
    """Return a step that submits members of gang ``g``."""
    return SubmitPods(tuple(pod(uid, group="g", min_available=needs, **fields) for uid in uids))


def family(needs: int, **members: tuple[str, ...]) -> tuple[Step, ...]:
    """Return steps that put parent ``p``, and submit the gangs below it: each needs 2 members."""
    pods = [
        pod(uid, group=name, min_available=2, parent="p")
        for name, uids in members.items()
        for uid in uids
    ]
    return PutParent(PlainParent(name="p", min_groups=needs)), SubmitPods(tuple(pods))


def node(gpu: int, **fields: Any) -> AddNode:
    """Return a step that adds node ``n1``."""
    return AddNode("n1", {"gpu": gpu}, **fields)


_OF_ROLES: dict[str, Any] = {"group": "g", "min_available": 2, "roles": {"ps": 1}}


def _worker(uid: str) -> PlainPod:
    return pod(uid, role="worker", **_OF_ROLES)


@frozen
class Planted:
    """A planted fault and the steps that reveal it.

    Attributes:
        fault: The fault.
        variant: The variant in which the fault shows.
        law: The law that it breaks.
        steps: Steps that break the law.
        also: Laws that it breaks by other steps.
        is_searched: Whether a test finds it with ``check_scheduler`` too, which takes seconds.
    """

    fault: type[Faulty]
    variant: str
    law: int
    steps: tuple[Step, ...]
    is_searched: bool = False
    also: tuple[int, ...] = ()


FAULTS = {
    "a quorum is one short": Planted(
        OneShort,
        variant="pod",
        law=1,
        steps=(node(2), gang("u1", "u2", "u3", needs=3), Tick()),
        is_searched=True,
    ),
    "a role is one short": Planted(
        RoleOneShort,
        variant="pod, until timeout",
        law=1,
        steps=(
            node(2),
            SubmitPods((pod("u1", 3, role="ps", **_OF_ROLES), *map(_worker, ("u2", "u3")))),
            Tick(),
        ),
    ),
    "a released gang waits": Planted(
        ReleasesLate,
        variant="group",
        law=6,
        steps=(
            node(2),
            SubmitPods((_worker("u1"), pod("u3", role="ps", **_OF_ROLES))),
            Tick(),
            Tick(1.0),
        ),
    ),
    "a quorum is one short after a refusal": Planted(
        OneShort,
        variant="group, some refused",
        law=1,
        steps=(
            node(3),
            gang("u1", "u2", "u3", needs=3, role="worker", roles={"worker": 1}),
            Tick(),
        ),
    ),
    "a family starts with one of two children": Planted(
        AnyChild,
        variant="pod",
        law=1,
        steps=(node(3), *family(2, g=("u1", "u2"), h=("u3", "u4")), Tick()),
        is_searched=True,
    ),
    "a child by half starts beside a sibling": Planted(
        OneShort,
        variant="group",
        law=1,
        steps=(
            node(3),
            *family(1, g=("u1", "u2")),
            Tick(),
            *family(1, h=("u3", "u4"))[1:],
            Tick(),
        ),
    ),
    "a member of a rejected group keeps its node": Planted(
        HoldsOneMember,
        variant="pod",
        law=2,
        steps=(
            node(4),
            gang("u1", "u2", "u3", "u4", "u5", needs=5),
            Tick(),
            CancelPods(("u1",)),
        ),
    ),
    "a rejection requeues no gang": Planted(
        ForgetsToRequeue,
        variant="pod",
        law=5,
        steps=(
            node(2),
            gang("u1", "u2", "u3", needs=3),
            *(ScheduleOne(), ScheduleOne()),
            SubmitPods((pod("u4", priority=1), pod("u5", priority=1))),
            Settle(),
        ),
    ),
    "a failed pod gets no backoff": Planted(
        BacksOffNever,
        variant="pod",
        law=5,
        steps=(node(1), SubmitPods((pod("u1"),)), Tick(), BindFails("u1"), Settle()),
        is_searched=True,
        also=(8,),  # a scheduler that starts anew does not know of other binds under way
    ),
    "a node is given back twice when a bind fails": Planted(
        GivesBackTwice,
        variant="group",
        law=8,
        steps=(
            node(1, labels={"zone": "a"}),
            SubmitPods((pod("u1"),)),
            Tick(),
            BindFails("u1"),
            gang("u2", "u3", needs=2, topology_key="zone"),
            Tick(),
        ),
    ),
    "a node is given back twice when a pod goes": Planted(
        GivesBackTwice,
        variant="pod",
        law=8,
        steps=(
            node(3),
            SubmitPods((pod("u1"), pod("u2", 2, priority=1), pod("u3", 2))),
            Tick(),
            SubmitPods((pod("u4"),)),
            CancelPods(("u2",)),
            Tick(1.0),
        ),
    ),
}


@pytest.mark.parametrize("what", FAULTS)
def test_planted_fault_breaks_its_law_by_known_steps(what: str) -> None:
    planted = FAULTS[what]
    variant = VARIANTS[planted.variant]
    check_steps(adapt(variant.make), *planted.steps, spec=variant.spec)

    with pytest.raises(LawViolation) as found:
        check_steps(adapt(faulty(planted.fault, variant.make)), *planted.steps, spec=variant.spec)

    assert found.value.law == planted.law


@pytest.mark.parametrize("what", [what for what, fault in FAULTS.items() if fault.is_searched])
def test_planted_fault_is_searched_with_few_steps(what: str) -> None:
    planted = FAULTS[what]
    variant = VARIANTS[planted.variant]
    with pytest.raises(LawViolation) as found:
        check_scheduler(
            adapt(faulty(planted.fault, variant.make)), spec=variant.spec, settings=FINDS
        )

    assert found.value.law in (planted.law, *planted.also)
    assert len(found.value.steps) <= LONGEST
