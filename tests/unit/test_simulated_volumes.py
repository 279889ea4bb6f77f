"""Claims, volumes, classes and budgets of files: read, simulated, and honoured."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from gangsched import Preemption, presets
from gangsched.cluster_objects import PersistentVolume, PersistentVolumeClaim
from gangsched.errors import ManifestError
from gangsched.events import ObjectChanged, PodAdded
from gangsched.model import Pod
from gangsched.resources import Resources
from gangsched.simulation import Simulator, load_manifests
from gangsched.simulation.manifests import ParsedManifests, PriorityClasses
from support.cluster_objects import (
    claim_json,
    node_json,
    pod_json,
    storage_class_json,
    uses_claim,
    volume_json,
)


def load(*documents: dict[str, Any]) -> Any:
    return load_manifests(yaml.safe_dump_all(documents), file="f.yaml")


def simulated(*documents: dict[str, Any], **named: Any) -> Simulator:
    simulator = Simulator(load(*documents), lambda cluster: presets.gang(cluster, **named))
    simulator.run(until=1000.0)
    return simulator


def node_of(simulator: Simulator, name: str) -> str | None:
    (found,) = (pod.node_name for pod in simulator.cluster.pods() if pod.name == name)
    return found


def claim_of(simulator: Simulator, name: str) -> PersistentVolumeClaim:
    found = simulator.cluster.objects.get(PersistentVolumeClaim, f"default/{name}")
    assert found is not None
    return found


def uses(name: str, pod: str = "p") -> dict[str, Any]:
    return pod_json(pod, volumes=uses_claim(name))


NODES = (node_json("n0"), node_json("n1"))
LOCAL = storage_class_json("local", provisioner="kubernetes.io/no-provisioner")


def test_kinds_of_objects_are_read_without_a_note() -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    workload = load(namespace, storage_class_json(), volume_json("v"), claim_json("c"))
    assert workload.skipped == ()
    kinds = [
        type(arrival.event.value).__name__
        for arrival in workload.arrivals
        if isinstance(arrival.event, ObjectChanged)
    ]
    assert kinds == ["Namespace", "StorageClass", "PersistentVolume", "PersistentVolumeClaim"]


def test_object_that_is_given_twice_is_refused() -> None:
    with pytest.raises(ManifestError, match="PersistentVolume v is given twice"):
        load(volume_json("v"), volume_json("v"))


def test_claim_that_waits_is_bound_to_the_volume_of_the_chosen_node() -> None:
    volume = volume_json("v", nodes=("n1",), storageClassName="local")
    claim = claim_json("c", storageClassName="local")
    simulator = simulated(*NODES, LOCAL, volume, claim, uses("c"))
    assert node_of(simulator, "p") == "n1"
    assert claim_of(simulator, "c").is_fully_bound
    found = simulator.cluster.objects.get(PersistentVolume, "v")
    assert found is not None
    assert found.claim == "default/c"


@pytest.mark.parametrize("waits", [True, False])
def test_claim_is_provisioned_for_the_chosen_node_or_at_once(waits: bool) -> None:
    made = storage_class_json(waits=waits)
    simulator = simulated(*NODES, made, claim_json("c"), uses("c"), uses("c", "q"))
    assert node_of(simulator, "p") == node_of(simulator, "q")
    volume = simulator.cluster.objects.get(PersistentVolume, claim_of(simulator, "c").volume)
    assert volume is not None
    assert volume.claim == "default/c"


@pytest.mark.parametrize("late", [False, True], ids=["claim last", "volume last"])
def test_claim_that_does_not_wait_is_bound_when_both_are_there(late: bool) -> None:
    static = storage_class_json("now", provisioner="kubernetes.io/no-provisioner", waits=False)
    both = [
        volume_json("v", nodes=("n1",), storageClassName="now"),
        claim_json("c", storageClassName="now"),
    ]
    simulator = simulated(*NODES, static, *(reversed(both) if late else both), uses("c"))
    assert node_of(simulator, "p") == "n1"


def test_pod_is_bound_although_two_gangs_would_take_one_volume() -> None:
    volumes = [volume_json(f"v{n}", nodes=("n0",), storageClassName="local") for n in range(2)]
    claims = [claim_json(f"c{n}", storageClassName="local") for n in range(2)]
    pods = [uses(f"c{n}", f"p{n}") for n in range(2)]
    simulator = simulated(*NODES, LOCAL, *volumes, *claims, *pods)
    assert {claim_of(simulator, f"c{n}").volume for n in range(2)} == {"v0", "v1"}


def test_budget_of_a_file_protects_its_pods() -> None:
    lows = []
    for n in range(2):
        low = pod_json(f"low-{n}", nodeName=f"n{n}", gpu=8)
        low["metadata"]["labels"] = {"n": str(n)}
        lows.append(low)
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"n": "0"}}},
    }
    workload = load(budget)
    assert "status.disruptionsAllowed is absent" in workload.skipped[0]
    high = pod_json("high", gpu=8, priority=10)
    simulator = simulated(*NODES, *lows, budget, high, preemption=Preemption())
    assert node_of(simulator, "high") == "n1"


# Runtime classes --------------------------------------------------------------------------------


def runtime_class(name: str = "kata", **scheduling: Any) -> dict[str, Any]:
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": name},
        "handler": "kata",
        "overhead": {"podFixed": {"cpu": "250m"}},
        "scheduling": scheduling,
    }


def pod_in(workload: Any) -> Pod:
    (pod,) = (a.event.pod for a in workload.arrivals if isinstance(a.event, PodAdded))
    return pod


def test_pod_gets_what_its_runtime_class_adds() -> None:
    tolerations = [{"key": "kata", "operator": "Exists"}]
    kata = runtime_class(nodeSelector={"kata": "yes"}, tolerations=tolerations)
    pod = pod_in(load(pod_json("p", gpu=0, runtimeClassName="kata"), kata))
    assert pod.requests == Resources({"cpu": "1250m", "memory": "1Gi"})
    assert dict(pod.node_selector) == {"kata": "yes"}
    assert [each.key for each in pod.tolerations] == ["kata"]


def test_overhead_that_a_pod_states_is_not_added_twice() -> None:
    stated = pod_json("p", gpu=0, runtimeClassName="kata", overhead={"cpu": "250m"})
    assert pod_in(load(stated, runtime_class())).requests.amount("cpu") == 1250


def test_limit_grows_by_the_overhead() -> None:
    pod = pod_json("p", runtimeClassName="kata")
    pod["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "1"
    assert pod_in(load(pod, runtime_class())).limits.amount("cpu") == 1250


def test_node_selector_against_the_runtime_class_is_refused() -> None:
    pod = pod_json("p", runtimeClassName="kata", nodeSelector={"kata": "no"})
    with pytest.raises(ManifestError, match=r"nodeSelector.kata.*yes"):
        load(pod, runtime_class(nodeSelector={"kata": "yes"}))


def test_runtime_class_that_is_not_given_is_noted() -> None:
    workload = load(pod_json("p", runtimeClassName="kata"))
    assert "spec.runtimeClassName names the RuntimeClass 'kata'" in workload.skipped[0]


def test_runtime_class_of_another_file_counts() -> None:
    pods, classes = (
        ParsedManifests(yaml.safe_dump(each), file="f.yaml")
        for each in (pod_json("p", gpu=0, runtimeClassName="kata"), runtime_class())
    )
    workload = pods.workload(PriorityClasses(), runtime_classes=classes.runtime_classes())
    assert pod_in(workload).requests.amount("cpu") == 1250
