"""The kit is not blind to what could be wrong with our own scheduler: faults planted in it."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from attrs import frozen
from hypothesis import settings

from gangsched._core import _backoff, _quorum
from gangsched.framework.lifecycle import transition as lifecycle
from gangsched.framework.nodes import node_class, node_table
from gangsched.testing import (
    AddNode,
    Arrive,
    BindFails,
    DecideOnce,
    LawViolation,
    Leave,
    PlainPod,
    Rest,
    Step,
    Tick,
    adapt,
    check_scheduler,
    check_story,
)
from kit.ours import WAYS
from support.planting import plant

LONGEST = 12
_CI = settings.get_profile("ci")


def pod(uid: str, gpu: int = 1, **fields: Any) -> PlainPod:
    """Return a pod."""
    return PlainPod(uid=uid, requests={"gpu": gpu}, **fields)


def gang(*uids: str, needs: int, **fields: Any) -> Arrive:
    """Return the arrival of members of a gang."""
    return Arrive(tuple(pod(uid, group="g", min_available=needs, **fields) for uid in uids))


def node(gpu: int, **fields: Any) -> AddNode:
    """Return the arrival of a node."""
    return AddNode("n1", {"gpu": gpu}, **fields)


_OF_ROLES: dict[str, Any] = {"group": "g", "min_available": 2, "roles": {"ps": 1}}


def _worker(uid: str) -> PlainPod:
    return pod(uid, role="worker", **_OF_ROLES)


@frozen
class Fault:
    """A fault, where it is, and how it shows.

    Attributes:
        owner: The module or class.
        name: The function.
        old: What is there.
        new: What is there instead.
        way: In which way of ours it shows.
        law: Which law it breaks.
        story: How.
        is_found: Whether drawn stories find it within the ``ci`` profile.
    """

    owner: ModuleType | type
    name: str
    old: str
    new: str
    way: str
    law: int
    story: tuple[Step, ...]
    is_found: bool = False


FAULTS = {
    "a quorum is one short": Fault(
        *(_quorum, "members_needed", "missing = group", "missing = -1 + group"),
        way="pod",
        law=1,
        story=(node(2), gang("u1", "u2", "u3", needs=3), Tick()),
        is_found=True,
    ),
    "a role is one short where it is decided": Fault(
        *(_quorum, "members_needed", "share.scheduled, 0)", "share.scheduled - 1, 0)"),
        way="pod, until timeout",
        law=1,
        story=(
            node(2),
            Arrive((pod("u1", 3, role="ps", **_OF_ROLES), *map(_worker, ("u2", "u3")))),
            Tick(),
        ),
    ),
    "a role is one short where it is planned": Fault(
        *(_quorum, "roles_needed", "share.scheduled for", "share.scheduled - 1 for"),
        way="group",
        law=6,
        story=(
            node(2),
            Arrive((*map(_worker, ("u1", "u2")), pod("u3", role="ps", **_OF_ROLES))),
            Tick(),
            Tick(1.0),
        ),
    ),
    "a quorum is one short where members are turned down": Fault(
        *(_quorum, "roles_needed", '{"": group', '{"": -1 + group'),
        way="group, some turned down",
        law=1,
        story=(
            node(3),
            gang("u1", "u2", "u3", needs=3, role="worker", roles={"worker": 1}),
            Tick(),
        ),
    ),
    "one of a group that falls keeps its node": Fault(
        *(
            lifecycle,
            "_give_back_all",
            "in state.waiting.of(info.key)",
            "in state.waiting.of(info.key)[:1]",
        ),
        way="pod",
        law=2,
        story=(
            node(4),
            gang("u1", "u2", "u3", "u4", "u5", needs=5),
            Tick(),
            Leave(("u1",)),
        ),
    ),
    "nobody is woken by a fall": Fault(
        *(lifecycle, "_rejected", "if since is not None:", "if not since and since:"),
        way="pod",
        law=5,
        story=(
            node(1),
            gang("u1", "u2", needs=2),
            DecideOnce(),
            Arrive((pod("u3", priority=1),)),
            Rest(),
        ),
    ),
    "who failed does not rest": Fault(
        *(_backoff.Backoff, "delay", "if failures < 1:", "if failures:"),
        way="pod",
        law=5,
        story=(node(1), Arrive((pod("u1"),)), Tick(), BindFails("u1"), Rest()),
        is_found=True,
    ),
    "a node is given back twice, where nodes are counted": Fault(
        *(node_table.NodeInfo, "give_back", "(uid), 1, total", "(uid), 2, total"),
        way="group",
        law=8,
        story=(
            node(1, labels={"zone": "a"}),
            Arrive((pod("u1"),)),
            Tick(),
            BindFails("u1"),
            gang("u2", "u3", needs=2, within="zone"),
            Tick(),
        ),
    ),
    "a node is given back twice, where nodes are told apart": Fault(
        *(node_class.NodeClasses, "giving_back", "requests, -1)", "requests, -2)"),
        way="pod",
        law=8,
        story=(
            node(3),
            Arrive((pod("u1"), pod("u2", 2, priority=1), pod("u3", 2))),
            Tick(),
            Arrive((pod("u4"),)),
            Leave(("u2",)),
            Tick(1.0),
        ),
        is_found=True,
    ),
}


@pytest.mark.parametrize("what", FAULTS)
def test_a_fault_of_our_own_shows_in_a_story_that_we_pass_without_it(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = FAULTS[what]
    way = WAYS[fault.way]
    check_story(adapt(way.make), *fault.story, terms=way.terms)

    plant(monkeypatch, fault.owner, fault.name, fault.old, fault.new)
    with pytest.raises(LawViolation) as found:
        check_story(adapt(way.make), *fault.story, terms=way.terms)

    assert found.value.law == fault.law


@pytest.mark.parametrize("what", [what for what, fault in FAULTS.items() if fault.is_found])
def test_a_fault_of_our_own_is_found_and_its_story_is_short(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = FAULTS[what]
    way = WAYS[fault.way]
    plant(monkeypatch, fault.owner, fault.name, fault.old, fault.new)
    with pytest.raises(LawViolation) as found:
        check_scheduler(adapt(way.make), terms=way.terms, settings=_CI)

    assert found.value.law == fault.law
    assert len(found.value.steps) <= LONGEST
