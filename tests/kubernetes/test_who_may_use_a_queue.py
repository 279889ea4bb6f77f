"""The admission policy of the page about queues: which namespaces may name a queue."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import pytest

from support.cluster_objects import group_json, pod_json
from support.control_plane import ApiError, ControlPlane
from support.definitions import Object
from support.patience import until
from support.root import ROOT

yaml = pytest.importorskip("yaml")
pytestmark = pytest.mark.once("makes no scheduler")

POLICIES: Final = "/apis/admissionregistration.k8s.io/v1"
PAGE: Final = ROOT / "docs" / "how-to" / "share-a-cluster.md"
QUEUE: Final = "gangsched.io/queue"


def is_refused(plane: ControlPlane, path: str, body: Object) -> bool:
    """Return whether the API server would refuse an object for its queue."""
    try:
        plane.admin.create(path, body, dryRun="All")
    except ApiError as error:
        if error.status != 403 or "may not use queue" not in str(error):
            raise
        return True
    return False


def queued_pod(queue: str, name: str = "p") -> Object:
    pod = pod_json(name)
    del pod["status"], pod["metadata"]["namespace"]
    pod["metadata"]["labels"] = {QUEUE: queue} if queue else {}
    return pod


@pytest.fixture
def pods(control_plane: ControlPlane, namespace: str) -> Iterator[str]:
    """The path of the pods of a namespace, in a cluster with the policy."""
    block = re.search(
        r"<!-- manifest: who may use a queue -->\n```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL
    )
    assert block is not None
    admin, path = control_plane.admin, f"/api/v1/namespaces/{namespace}/pods"
    plurals = {"ValidatingAdmissionPolicy": "validatingadmissionpolicies"}
    plurals["ValidatingAdmissionPolicyBinding"] = "validatingadmissionpolicybindings"
    documents: list[Any] = list(yaml.safe_load_all(block[1]))
    made = [f"{POLICIES}/{plurals[each['kind']]}" for each in documents]
    for collection, each in zip(made, documents, strict=True):
        admin.create(collection, each)
    # policies are read from a watch
    until(partial(is_refused, control_plane, path, queued_pod("red")))
    yield path
    for collection, each in zip(made, documents, strict=True):
        admin.delete(f"{collection}/{each['metadata']['name']}")
    until(lambda: not is_refused(control_plane, path, queued_pod("red")))


def test_namespace_uses_only_the_queues_that_its_labels_name(
    control_plane: ControlPlane, namespace: str, pods: str
) -> None:
    admin = control_plane.admin
    groups = f"/apis/scheduling.k8s.io/v1beta1/namespaces/{namespace}/podgroups"
    group = group_json("g", 1, namespace=namespace)
    group["metadata"]["labels"] = {QUEUE: "red"}
    assert is_refused(control_plane, groups, group)
    assert not is_refused(control_plane, pods, queued_pod(""))
    admin.create(pods, queued_pod("", "changes"))
    change = {"metadata": {"labels": {QUEUE: "red"}}}
    with pytest.raises(ApiError, match=f"namespace {namespace} may not use queue red"):
        admin.patch(f"{pods}/changes", change)

    label = "queue.example.com/red"
    admin.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {label: ""}}})
    until(lambda: not is_refused(control_plane, pods, queued_pod("red")))
    assert not is_refused(control_plane, groups, group)
    assert is_refused(control_plane, pods, queued_pod("blue"))
    admin.create(pods, queued_pod("red", "stays"))

    admin.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {label: None}}})
    until(partial(is_refused, control_plane, pods, queued_pod("red")))
    # a pod that was let in can be changed otherwise, as controllers do
    admin.patch(f"{pods}/stays", {"metadata": {"labels": {"step": "2"}}})
