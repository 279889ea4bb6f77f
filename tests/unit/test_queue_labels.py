"""The label of pods and groups that names their queue; those of other projects are not read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gangsched import Pod, PodGroup, gang
from gangsched.errors import ManifestError
from gangsched.events import PodAdded, PodGroupAdded
from gangsched.kubernetes import read_notification
from gangsched.manifests import DIALECTS
from gangsched.manifests.queues import QUEUE
from gangsched.simulation.manifests import load_manifests

SPECS: dict[str, dict[str, Any]] = {
    "scheduling.k8s.io": {"schedulingPolicy": {"gang": {"minCount": 4}}},
}
POD: dict[str, Any] = {"containers": [{"name": "c"}]}
LABELS_OF_OTHERS = {
    "kueue.x-k8s.io/queue-name": "user-queue",
    "kai.scheduler/queue": "team",
    "queue": "root.team",
}


def read(api: str, kind: str, spec: dict[str, Any], **metadata: Any) -> Any:
    value = {
        "apiVersion": f"{api}/v1" if api else "v1",
        "kind": kind,
        "metadata": {"name": "x", "namespace": "team", "uid": "u", **metadata},
        "spec": spec,
    }
    return read_notification({"type": "ADDED", "object": value}).event


def group(api: str, kind: str = "PodGroup", /, **metadata: Any) -> PodGroup:
    event = read(api, kind, SPECS.get(api, {"minMember": 4}), **metadata)
    assert isinstance(event, PodGroupAdded)
    return event.group


def pod(spec: dict[str, Any] | None = None, **metadata: Any) -> Pod:
    event = read("", "Pod", {**POD, **(spec or {})}, **metadata)
    assert isinstance(event, PodAdded)
    return event.pod


@pytest.mark.parametrize("api", DIALECTS)
def test_group_of_each_dialect_is_in_the_queue_of_its_label(api: str) -> None:
    assert group(api, labels={QUEUE: "a"}).queue == "a"
    assert group(api).queue is None
    with pytest.raises(ManifestError, match=r"\[gangsched.io/queue\]: expected a non-empty"):
        group(api, labels={QUEUE: ""})


def test_group_of_groups_is_in_the_queue_of_its_label() -> None:
    spec = {"schedulingPolicy": {"gang": {"minGroupCount": 2}}}
    event = read("scheduling.k8s.io", "CompositePodGroup", spec, labels={QUEUE: "a"})
    assert event.group.queue == "a"


def test_pod_is_in_the_queue_of_its_label() -> None:
    assert pod(labels={QUEUE: "a"}).queue == "a"
    assert pod(labels={"app": "a"}, annotations={QUEUE: "a"}).queue is None
    assert pod().queue is None


def test_empty_queue_of_a_pod_is_refused_unless_it_is_bound() -> None:
    with pytest.raises(ManifestError, match=r"\[gangsched.io/queue\]: expected a non-empty"):
        pod(labels={QUEUE: ""})
    assert pod({"nodeName": "n"}, labels={QUEUE: ""}).queue is None


@pytest.mark.parametrize("api", DIALECTS)
def test_queue_of_another_project_is_not_read(api: str) -> None:
    notes = {"scheduling.volcano.sh/queue-name": "team"}
    assert group(api, labels=LABELS_OF_OTHERS, annotations=notes).queue is None
    assert pod(labels=LABELS_OF_OTHERS, annotations=notes).queue is None


def test_queue_in_the_specification_of_volcano_holds_the_group_as_before() -> None:
    event = read("scheduling.volcano.sh", "PodGroup", {"minMember": 2, "queue": "team"})
    assert (event.group.queue, event.group.unmodelled) == (None, ("spec.queue",))


def test_pods_of_a_job_have_the_queue_of_their_template() -> None:
    template = {"metadata": {"labels": {QUEUE: "a"}}, "spec": {**POD, "restartPolicy": "Never"}}
    document = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "job"},
        "spec": {"parallelism": 2, "completions": 2, "template": template},
    }
    work = load_manifests(json.dumps(document), file="f.yaml")
    events = [each.event for each in work.arrivals]
    assert [each.pod.queue for each in events if isinstance(each, PodAdded)] == ["a", "a"]


def test_gang_document_says_the_queue_of_its_group() -> None:
    def load(**spec: Any) -> PodGroup:
        document = {
            "apiVersion": "simulation.gangsched.io/v1alpha1",
            "kind": "Gang",
            "metadata": {"name": "train"},
            "spec": {"roles": {"w": 2}, "template": {"spec": POD}, **spec},
        }
        event = load_manifests(json.dumps(document), file="f.yaml").arrivals[0].event
        assert isinstance(event, PodGroupAdded)
        return event.group

    assert load(queue="a") == gang("train", roles={"w": 2}, queue="a").group
    assert load().queue is None
    with pytest.raises(ManifestError, match=r"spec.queue: expected a non-empty string, got ''"):
        load(queue="")
