"""What an incomplete gang waits for: what holds it, and members without a role."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gangsched import InMemoryCluster, explain, presets
from gangsched.cli import main
from gangsched.events import PodAdded, PodGroupAdded
from gangsched.model import GroupKey, Pod, PodGroup

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

KEY: Final = GroupKey("default/g")


def why(group: PodGroup, *pods: Pod, **policy: Any) -> explain.NotEnoughMembers:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster, **policy)
    cluster.apply(PodGroupAdded(group))
    scheduler.handle(PodGroupAdded(group), now=0.0)
    for pod in pods:
        cluster.apply(PodAdded(pod))
        scheduler.handle(PodAdded(pod), now=0.0)
    found = scheduler.why(KEY)
    assert isinstance(found, explain.NotEnoughMembers)
    return found


def member(name: str, **more: Any) -> Pod:
    return Pod(name=name, pod_group="g", **more)


def test_constraint_of_the_group_that_holds_its_members_is_named() -> None:
    group = PodGroup(name="g", min_available=2, unmodelled=("spec.queue",))
    found = why(group, member("a"), member("b"))
    assert found.held == ("spec.queue",)
    expected = "waiting for 2 more members: 0 of 2 exist, 2 more gated; not modelled: spec.queue"
    assert str(found) == expected


def test_constraint_of_a_member_that_is_held_is_named() -> None:
    group = PodGroup(name="g", min_available=2)
    found = why(group, member("a"), member("b", unmodelled=("spec.resourceClaims",)))
    assert (found.present, found.held) == (1, ("spec.resourceClaims",))
    assert str(found).endswith(", 1 more gated; not modelled: spec.resourceClaims")


def test_member_with_a_scheduling_gate_names_no_constraint() -> None:
    group = PodGroup(name="g", min_available=1)
    found = why(group, member("a", scheduling_gates=("wait",)))
    assert found.held == ()
    assert str(found) == "1 of 1 members is gated: wait"


def test_members_without_a_role_are_counted_if_a_role_lacks_members() -> None:
    group = PodGroup(name="g", min_available=3, roles={"ps": 1})
    found = why(group, member("a"), member("b"), member("c", role="worker"))
    assert found.without_role == 2
    assert str(found) == "waiting for 1 more ps: 0 of 1 exist, 2 members have no role"


def test_refused_member_is_not_counted_as_one_without_a_role() -> None:
    group = PodGroup(name="g", min_available=3, roles={"ps": 1}, priority=0)
    pods = (member("a"), member("b", role="worker"), member("odd", priority=5))
    found = why(group, *pods, strict_priorities=True)
    assert [pod.uid for pod in found.refused] == [pods[2].uid]
    assert found.without_role == 1


def test_role_as_a_label_of_volcano_is_reported_as_no_role(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("yaml")
    text = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: g}
spec: {minMember: 1, minTaskMember: {ps: 1}, queue: research}
---
apiVersion: v1
kind: Pod
metadata:
  name: p
  annotations: {scheduling.k8s.io/group-name: g}
  labels: {volcano.sh/task-spec: ps}
spec: {containers: [{name: c}]}
"""
    file = tmp_path / "g.yaml"
    file.write_text(text, encoding="utf-8")
    assert main(["explain", "g", str(file)]) == 0
    said = capsys.readouterr().out
    assert (
        "1 more ps: 0 of 1 exist, 1 more gated, 1 member has no role; not modelled: spec.queue"
        in said
    )
