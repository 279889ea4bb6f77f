"""The kit finds faults that are planted in the schedulers of gangsched."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from attrs import frozen
from hypothesis import settings

from gangsched._core import _backoff, _quorum
from gangsched.core import attempt
from gangsched.core.pod_class import PodClass
from gangsched.core.queue import Queue
from gangsched.core.records import Records
from gangsched.framework.lifecycle import assume
from gangsched.framework.lifecycle import transition as lifecycle
from gangsched.framework.nodes import node_classes, node_info
from gangsched.testing import (
    AddNode,
    BindFails,
    CancelPods,
    LawViolation,
    PlainPod,
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
from support.planted_faults import ON_THE_CORE, plant

LONGEST = 12
_CI = settings.get_profile("ci")


def pod(uid: str, gpu: int = 1, **fields: Any) -> PlainPod:
    """Return a pod."""
    return PlainPod(uid=uid, requests={"gpu": gpu}, **fields)


def gang(*uids: str, needs: int, **fields: Any) -> SubmitPods:
    """Return a step that submits members of gang ``g``."""
    return SubmitPods(tuple(pod(uid, group="g", min_available=needs, **fields) for uid in uids))


def node(gpu: int, **fields: Any) -> AddNode:
    """Return a step that adds node ``n1``."""
    return AddNode("n1", {"gpu": gpu}, **fields)


_OF_ROLES: dict[str, Any] = {"group": "g", "min_available": 2, "roles": {"ps": 1}}


def _worker(uid: str) -> PlainPod:
    return pod(uid, role="worker", **_OF_ROLES)


@frozen
class Fault:
    """A planted fault and the steps that reveal it.

    Attributes:
        owner: The module or class of the changed function.
        name: The function.
        old: The replaced source.
        new: The source of the fault.
        variant: The variant in which the fault shows.
        law: The law that it breaks.
        steps: Steps that break the law.
        is_found: Whether ``check_scheduler`` finds it within the ``ci`` profile.
        raises: Whether a plugin may refuse the wrong numbers before the law is broken.
    """

    owner: ModuleType | type
    name: str
    old: str
    new: str
    variant: str
    law: int
    steps: tuple[Step, ...]
    is_found: bool = False
    raises: bool = False


FAULTS = {
    "a quorum is one short": Fault(
        *(_quorum, "members_needed", "missing = minimum", "missing = -1 + minimum"),
        variant="pod",
        law=1,
        steps=(node(2), gang("u1", "u2", "u3", needs=3), Tick()),
        is_found=True,
    ),
    "a role is one short in the permit decision": Fault(
        *(_quorum, "members_needed", "share.scheduled, 0)", "share.scheduled - 1, 0)"),
        variant="pod, until timeout",
        law=1,
        steps=(
            node(2),
            SubmitPods((pod("u1", 3, role="ps", **_OF_ROLES), *map(_worker, ("u2", "u3")))),
            Tick(),
        ),
    ),
    "a role is one short in the plan": Fault(
        *(_quorum, "roles_needed", "share.scheduled for", "share.scheduled - 1 for"),
        variant="group",
        law=6,
        steps=(
            node(2),
            SubmitPods((*map(_worker, ("u1", "u2")), pod("u3", 3, role="ps", **_OF_ROLES))),
            Tick(),
            Tick(1.0),
        ),
    ),
    "a quorum is one short after a refusal": Fault(
        *(_quorum, "roles_needed", '{"": group', '{"": -1 + group'),
        variant="group, some refused",
        law=1,
        steps=(
            node(3),
            gang("u1", "u2", "u3", needs=3, role="worker", roles={"worker": 1}),
            Tick(),
        ),
    ),
    "a member of a rejected group keeps its node": Fault(
        *(
            assume,
            "give_back_all",
            "in state.pods.waiting.of(info.key)",
            "in state.pods.waiting.of(info.key)[:1]",
        ),
        variant="pod",
        law=2,
        steps=(
            node(4),
            gang("u1", "u2", "u3", "u4", "u5", needs=5),
            Tick(),
            CancelPods(("u1",)),
        ),
    ),
    "a rejection requeues no entity": Fault(
        *(lifecycle, "_rejected", "if since is not None:", "if not since and since:"),
        variant="pod",
        law=5,
        steps=(
            node(1),
            gang("u1", "u2", needs=2),
            ScheduleOne(),
            SubmitPods((pod("u3", priority=1),)),
            Settle(),
        ),
    ),
    "a failed pod gets no backoff": Fault(
        *(_backoff.Backoff, "delay", "if failures < 1:", "if failures:"),
        variant="pod",
        law=5,
        steps=(node(1), SubmitPods((pod("u1"),)), Tick(), BindFails("u1"), Settle()),
        is_found=True,
    ),
    "a node is given back twice in the node table": Fault(
        *(node_info.NodeInfo, "give_back", "(uid), 1, total", "(uid), 2, total"),
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
    "a node is given back twice in the node classes": Fault(
        *(node_classes.NodeClasses, "giving_back", "requests, -1)", "requests, -2)"),
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
        is_found=True,
        raises=True,
    ),
}

if ON_THE_CORE:
    FAULTS.update(
        {
            "a member of a rejected group keeps its node": Fault(
                *(
                    attempt,
                    "reject",
                    "key=lambda each: each.seq)",
                    "key=lambda each: each.seq)[:1]",
                ),
                variant="pod",
                law=2,
                steps=(
                    node(4),
                    gang("u1", "u2", "u3", "u4", "u5", needs=5),
                    Tick(),
                    SubmitPods((pod("u6", priority=1),)),
                    Tick(),
                ),
            ),
            "a rejection requeues no entity": Fault(
                *(Queue, "wake", "self.unblock(demand)", "continue"),
                variant="group",
                law=5,
                steps=(
                    node(1),
                    gang("u1", "u2", needs=2),
                    Tick(),
                    AddNode("n2", {"gpu": 1}),
                    Settle(),
                ),
            ),
            "a node is given back twice in the node table": Fault(
                *(
                    Records,
                    "_leave",
                    "self.table.give(slot",
                    "self.table.give(slot, record.needs); self.table.give(slot",
                ),
                variant="group",
                law=8,
                steps=FAULTS["a node is given back twice in the node table"].steps,
            ),
        }
    )
    del FAULTS["a node is given back twice in the node classes"]
    FAULTS["a node takes a pod for which a part is free"] = Fault(
        *(PodClass, "_evaluate", "free[number] // amount", "-(-free[number] // amount)"),
        variant="pod",
        law=8,
        steps=(node(3), SubmitPods((pod("u1", 2), pod("u2", 2))), Tick()),
        is_found=True,
    )


@pytest.mark.parametrize("what", FAULTS)
def test_planted_fault_breaks_its_law_by_known_steps(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = FAULTS[what]
    variant = VARIANTS[fault.variant]
    check_steps(adapt(variant.make), *fault.steps, spec=variant.spec)

    plant(monkeypatch, fault.owner, fault.name, fault.old, fault.new)
    with pytest.raises(LawViolation) as found:
        check_steps(adapt(variant.make), *fault.steps, spec=variant.spec)

    assert found.value.law == fault.law


@pytest.mark.parametrize("what", [what for what, fault in FAULTS.items() if fault.is_found])
def test_planted_fault_is_found_with_few_steps(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = FAULTS[what]
    variant = VARIANTS[fault.variant]
    plant(monkeypatch, fault.owner, fault.name, fault.old, fault.new)
    with pytest.raises(LawViolation) as found:
        check_scheduler(adapt(variant.make), spec=variant.spec, settings=_CI)

    assert found.value.law == fault.law or (fault.raises and found.value.law is None)
    assert len(found.value.steps) <= LONGEST
