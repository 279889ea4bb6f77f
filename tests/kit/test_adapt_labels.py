"""``adapt`` gives the pods of test cases the labels that a plugin reads."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gangsched import InvalidValueError, Outcome, Pod, Scheduler, Success, Unschedulable, presets
from gangsched.protocols import ClusterState, CycleView
from gangsched.testing import (
    AddNode,
    LawViolation,
    PlainPod,
    Settle,
    SubmitPods,
    adapt,
    check_steps,
)

LABEL = "example.com/tenant"


class RefusesRed:
    name = "RefusesRed"

    def pre_filter(self, state: CycleView, pod: Pod, *, now: float) -> Outcome:
        return Unschedulable("red") if pod.labels.get(LABEL) == "red" else Success()


def make(cluster: ClusterState) -> Scheduler:
    return presets.gang(cluster, plugins=[RefusesRed()])


STEPS = (
    AddNode(name="n", capacity={"gpu": 2}),
    SubmitPods(
        pods=tuple(
            PlainPod(uid=f"u{n}", group="g", min_available=2, requests={"gpu": 1}) for n in range(2)
        )
    ),
    Settle(),
)


@pytest.mark.parametrize("tenant", ["blue", "red"])
def test_plugin_sees_the_labels_of_pods(tenant: str) -> None:
    def labels(pod: PlainPod) -> Mapping[str, str]:
        return {LABEL: tenant}

    if tenant == "blue":
        check_steps(adapt(make, labels=labels), *STEPS)
        return
    with pytest.raises(LawViolation) as caught:
        check_steps(adapt(make, labels=labels), *STEPS)
    assert caught.value.law == 5


def test_label_of_a_group_is_refused() -> None:
    key = "pod-group.scheduling.sigs.k8s.io/name"
    adapter = adapt(make, labels=lambda pod: {key: "other"})()

    with pytest.raises(InvalidValueError, match=r"labels.*pod-group"):
        adapter.submit(PlainPod(uid="u"))


def test_labels_do_not_hide_the_group() -> None:
    adapter = adapt(make, labels=lambda pod: {LABEL: pod.uid})()
    adapter.submit(PlainPod(uid="u", group="g", min_available=2))

    (pod,) = adapter.cluster.pods()
    assert pod.labels[LABEL] == "u"
    assert pod.labels["pod-group.scheduling.sigs.k8s.io/name"] == "g"
