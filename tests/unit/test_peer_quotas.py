"""Quotas that objects of other projects state, and which of them a pod or a pod group is in."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from attrs import evolve

from gangsched import Pod, PodGroup, Quota
from gangsched.cli import main
from gangsched.configuration import make_scheduler, read_settings
from gangsched.configuration.settings import PEERS_WITH_QUOTAS
from gangsched.errors import InvalidValueError, ManifestError
from gangsched.manifests import Field, PriorityClasses, Source, read_group_of, read_manifest
from gangsched.manifests.peer_quotas import (
    CONFIG_MAPS,
    QUOTA_PEERS,
    PeerQuotas,
    is_quota_object,
    read_quotas,
)
from gangsched.memory import InMemoryCluster
from gangsched.options.quota import ReclaimFrom
from gangsched.simulation.documents import read_one_document
from support.root import ROOT

GPU: Final = "nvidia.com/gpu"
KUEUE: Final = "kueue.x-k8s.io/v1beta2"


def document(
    api: str, kind: str, name: str, spec: Any = None, namespace: str = "", **also: Any
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, **({"namespace": namespace} if namespace else {})}
    metadata |= also.pop("metadata", {})
    given: dict[str, Any] = {} if spec is None else spec
    return {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": given, **also}


def read(peer: str, *objects: dict[str, Any]) -> PeerQuotas:
    documents = [Field(Source("f", n), "", each) for n, each in enumerate(objects, 1)]
    return read_quotas(peer, documents, read_one_document)


def by_name(found: PeerQuotas) -> dict[str, Quota]:
    return {quota.name: quota for quota in found.quotas}


def pod(namespace: str = "team", queue: str | None = None, **changed: Any) -> Pod:
    return Pod(name="p", namespace=namespace, queue=queue, **changed)


# Kueue --------------------------------------------------------------------------------------------


def flavor(name: str = "h100", /, **resources: Any) -> dict[str, Any]:
    each = [{"name": GPU if r == "gpu" else r, **given} for r, given in resources.items()]
    return {"name": name, "resources": each}


def has(*flavors: dict[str, Any]) -> dict[str, Any]:
    return {"resourceGroups": [{"flavors": list(flavors)}]}


def cluster_queue(name: str, *flavors: dict[str, Any], **spec: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"namespaceSelector": {}, **has(*flavors), **spec}
    return document(KUEUE, "ClusterQueue", name, given)


def local_queue(name: str, target: str, namespace: str = "team", **spec: Any) -> dict[str, Any]:
    return document(KUEUE, "LocalQueue", name, {"clusterQueue": target, **spec}, namespace)


def test_cohorts_and_cluster_queues_of_kueue_are_a_tree() -> None:
    limited = {"nominalQuota": 32, "borrowingLimit": "16", "lendingLimit": 8}
    found = read(
        "kueue",
        document(KUEUE, "Cohort", "org", {"fairSharing": {"weight": "500m"}}),
        document(
            KUEUE, "Cohort", "a", {"parentName": "org", **has(flavor(gpu={"nominalQuota": 8}))}
        ),
        cluster_queue("a", flavor(gpu=limited), cohortName="a", fairSharing={"weight": 2}),
        cluster_queue(
            "b",
            flavor(gpu={"nominalQuota": 0}),
            cohort="other",
            preemption={"reclaimWithinCohort": "LowerPriority"},
        ),
        cluster_queue("c", flavor(cpu={"nominalQuota": "1500m"})),
    )
    assert by_name(found) == {
        "cohort:org": Quota(name="cohort:org", weight=0.5),
        "cohort:a": Quota(name="cohort:a", parent="cohort:org", nominal={GPU: 8}),
        "cohort:other": Quota(name="cohort:other"),
        "a": Quota(
            name="a",
            parent="cohort:a",
            nominal={GPU: 32},
            borrow={GPU: 16},
            lend={GPU: 8},
            weight=2,
            reclaim_from=ReclaimFrom.NEVER,
        ),
        "b": Quota(
            name="b", parent="cohort:other", nominal={GPU: 0}, reclaim_from=ReclaimFrom.LOWER
        ),
        "c": Quota(name="c", nominal={"cpu": "1500m"}, reclaim_from=ReclaimFrom.NEVER),
    }
    assert found.notes == ()


def test_flavors_of_one_resource_are_added_up_with_a_note() -> None:
    first = {"nominalQuota": 8, "borrowingLimit": 2, "lendingLimit": 1}
    found = read(
        "kueue", cluster_queue("a", flavor("x", gpu=first), flavor("y", gpu={"nominalQuota": 4}))
    )
    (quota,) = found.quotas
    assert quota == Quota(
        name="a", nominal={GPU: 12}, lend={GPU: 5}, reclaim_from=ReclaimFrom.NEVER
    )
    assert found.notes == (
        f"f: document 1: ClusterQueue a: its 2 flavors of {GPU} are added up: a quota knows no"
        " flavors",
    )


def test_cluster_queue_takes_nothing_of_what_only_others_cover() -> None:
    found = by_name(
        read(
            "kueue",
            cluster_queue("a", flavor(gpu={"nominalQuota": 8}), cohortName="x"),
            cluster_queue("b", flavor(cpu={"nominalQuota": 8}), cohortName="x"),
        )
    )
    assert (found["a"].hard, found["b"].hard) == ({"cpu": 0}, {GPU: 0})
    assert found["cohort:x"].hard == {}


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"stopPolicy": "Hold"}, "spec.stopPolicy is Hold"),
        ({"admissionChecks": ["budget"]}, "spec.admissionChecks is not modelled"),
        ({"resourceGroups": []}, "spec.resourceGroups is empty"),
        ({"namespaceSelector": None}, "spec.namespaceSelector of the ClusterQueue a does not"),
        ({"namespaceSelector": {"matchLabels": {"x": "y"}}}, "does not match team"),
    ],
)
def test_pods_of_a_cluster_queue_that_takes_none_are_held(spec: dict[str, Any], why: str) -> None:
    found = read(
        "kueue", cluster_queue("a", flavor(gpu={"nominalQuota": 8}), **spec), local_queue("q", "a")
    )
    assert found.leads == {}
    assert why in " ".join(found.notes)
    assert why in found.held["team/q"]
    named = found.queued(pod(labels={"kueue.x-k8s.io/queue-name": "q"}))
    assert named.queue == "team/q"  # which does not exist
    assert found.quotas


def test_namespace_is_selected_by_the_labels_of_its_object() -> None:
    chosen = {"matchLabels": {"x": "y"}}
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "team", "labels": {"x": "y"}},
    }
    queue = cluster_queue("a", flavor(gpu={"nominalQuota": 8}), namespaceSelector=chosen)
    assert read("kueue", queue, namespace, local_queue("q", "a")).leads == {"team/q": "a"}


def test_cohorts_in_a_circle_are_left_out_with_all_below() -> None:
    found = read(
        "kueue",
        document(KUEUE, "Cohort", "x", {"parent": "y"}),
        document(KUEUE, "Cohort", "y", {"parent": "x"}),
        cluster_queue("a", flavor(gpu={"nominalQuota": 8}), cohortName="x"),
    )
    assert [quota.name for quota in found.quotas] == ["kueue:none"]
    assert len(found.notes) == 3


def test_pods_are_in_the_cluster_queue_of_their_local_queue() -> None:
    found = read(
        "kueue",
        cluster_queue("a", flavor(gpu={"nominalQuota": 8})),
        local_queue("q", "a"),
        local_queue("default", "a"),
        local_queue("stopped", "a", stopPolicy="Hold"),
    )
    label = "kueue.x-k8s.io/queue-name"
    assert found.queued(pod(labels={label: "q"})).queue == "a"
    assert found.queued(pod(labels={"kueue.x-k8s.io/local-queue-name": "q"})).queue == "a"
    assert found.queued(pod("other", labels={label: "q"})).queue == "other/q"
    assert found.queued(pod(labels={label: "stopped"})).queue == "team/stopped"
    assert found.queued(pod()).queue == "a"  # the local queue of those that name none
    assert found.queued(pod("other")).queue is None
    assert found.queued(pod(queue="b", labels={label: "q"})).queue == "b"
    assert PeerQuotas().queued(pod(labels={label: "q"})).queue is None
    owner = Field(Source("f", 1), "metadata", {"labels": {label: "q"}})
    assert found.queued(pod(), owner).queue == "a"


def test_what_has_no_meaning_here_gives_a_note() -> None:
    found = read(
        "kueue",
        cluster_queue(
            "a",
            flavor(gpu={"nominalQuota": 8}),
            queueingStrategy="StrictFIFO",
            fancy=1,
            preemption={
                "withinClusterQueue": "LowerOrNewerEqualPriority",
                "borrowWithinCohort": {"policy": "LowerPriority"},
            },
        ),
    )
    said = [note.split(": ", 3)[-1].split(" has no")[0] for note in found.notes]
    assert sorted(said) == [
        "spec.fancy",
        "spec.preemption.borrowWithinCohort",
        "spec.preemption.withinClusterQueue",
        "spec.queueingStrategy",
    ]


# KAI Scheduler ------------------------------------------------------------------------------------


def kai_queue(name: str, parent: str = "", **resources: Any) -> dict[str, Any]:
    none: dict[str, Any] = {"limit": -1, "overQuotaWeight": 1}
    given: dict[str, Any] = {"gpu": none, "cpu": none, "memory": none, **resources}
    spec = {"parentQueue": parent, "resources": given}
    return document("scheduling.run.ai/v2", "Queue", name, spec)


def test_quota_of_a_parent_of_kai_is_what_its_children_leave() -> None:
    weighted = {"quota": 4, "limit": 6, "overQuotaWeight": 3}
    found = by_name(
        read(
            "kai",
            kai_queue("org", gpu={"quota": 10, "limit": -1}),
            kai_queue("a", "org", gpu=weighted, cpu={"quota": 1500, "limit": -1}),
            kai_queue("b", "org", gpu={"quota": 5, "limit": -1}, memory={"quota": 2, "limit": 3}),
        )
    )
    assert found["kai:root"] == Quota(name="kai:root")
    assert found["org"].parent == "kai:root"
    assert found["org"].nominal == Quota(name="x", nominal={GPU: 1, "cpu": 0, "memory": 0}).nominal
    assert found["a"] == Quota(
        name="a",
        parent="org",
        nominal={GPU: 4, "cpu": "1500m", "memory": 0},
        hard={GPU: 6},
        weight=3,
    )
    assert found["b"].hard == Quota(name="x", hard={"memory": "3M"}).hard


def test_weight_of_a_queue_of_kai_is_that_of_the_first_resource_it_may_use() -> None:
    unstated = {"quota": 1, "limit": -1}
    found = read(
        "kai",
        kai_queue("gpus", gpu={**unstated, "overQuotaWeight": 5}),
        kai_queue("unstated", gpu=unstated),
        kai_queue("cpus", gpu={}, cpu={"limit": -1, "overQuotaWeight": 2}),
        kai_queue("fancy", gpu={**unstated, "lendingLimit": 1, "overQuotaWeight": 1}),
    )
    quotas = by_name(found)
    weights = {name: quotas[name].weight for name in ("gpus", "unstated", "cpus", "fancy")}
    assert weights == {"gpus": 5, "unstated": 0, "cpus": 2, "fancy": 1}
    said = [note.split(": ", 2)[-1] for note in found.notes]
    assert said == [
        "Queue gpus: overQuotaWeight is 5 for all resources here",
        "Queue unstated: overQuotaWeight is 0 for all resources here",
        "Queue cpus: overQuotaWeight is 2 for all resources here",
        "Queue fancy: spec.resources.gpu.lendingLimit has no meaning here",
    ]


def test_unlimited_quota_of_kai_is_left_out_with_a_note() -> None:
    found = read("kai", kai_queue("a", gpu={"quota": -1, "limit": -1}))
    assert by_name(found)["a"].nominal == {"cpu": 0, "memory": 0}
    assert "spec.resources.gpu.quota is unlimited" in found.notes[0]


def test_queue_of_kai_without_resources_takes_none_and_without_its_parent_is_held() -> None:
    bare = document("scheduling.run.ai/v2", "Queue", "a", {"preemptMinRuntime": "4m"})
    found = read("kai", bare, kai_queue("b", "gone"))
    quotas = by_name(found)
    assert quotas["a"].hard == {GPU: 0, "cpu": 0, "memory": 0}
    assert "b" not in quotas
    said = " ".join(found.notes)
    assert "spec.preemptMinRuntime has no meaning here" in said
    assert "gone, which is above it, does not exist or is held" in said


@pytest.mark.parametrize("quota", [-2, "4", True])
def test_malformed_quota_of_kai_is_an_error(quota: Any) -> None:
    with pytest.raises(ManifestError, match=r"spec\.resources\.gpu\.quota: expected a number"):
        read("kai", kai_queue("a", gpu={"quota": quota}))


# Volcano ------------------------------------------------------------------------------------------


DEFAULTS_OF_VOLCANO: Final = {"weight": 1, "reclaimable": True, "dequeueStrategy": "traverse"}


def volcano_queue(name: str, **spec: Any) -> dict[str, Any]:
    return document("scheduling.volcano.sh/v1beta1", "Queue", name, spec)


def test_deserved_capability_and_guarantee_of_volcano() -> None:
    found = by_name(
        read(
            "volcano",
            volcano_queue("org", deserved={GPU: 10}, capability={GPU: 12}),
            volcano_queue("a", parent="org", deserved={GPU: 6}, guarantee={"resource": {GPU: "2"}}),
            volcano_queue("b", parent="org"),
            volcano_queue("alone", weight=4, capability={"cpu": "8"}),
        )
    )
    assert found["root"] == Quota(name="root")
    assert found["org"] == Quota(name="org", parent="root", nominal={GPU: 4}, hard={GPU: 12})
    assert found["a"] == Quota(name="a", parent="org", nominal={GPU: 6}, lend={GPU: 4})
    assert found["b"] == Quota(name="b", parent="org", nominal={})
    assert found["alone"] == Quota(name="alone", parent="root", hard={"cpu": 8})


def test_closed_queue_of_volcano_is_left_out_and_the_rest_is_noted() -> None:
    closed = volcano_queue("a") | {"status": {"state": "Closed"}}
    found = read(
        "volcano",
        closed,
        volcano_queue("b", affinity={"nodeGroupAffinity": {}}),
        volcano_queue("c", weight=2, reclaimable=False, priority=7, dequeueStrategy="fifo"),
    )
    assert set(by_name(found)) == {"root", "c"}
    said = " ".join(found.notes)
    for part in ("state is Closed", "spec.affinity is not", "weight", "reclaimable", "priority"):
        assert part in said
    assert "spec.dequeueStrategy has no meaning here" in said


@pytest.mark.parametrize("state", ["Closed", "Closing", "Unknown"])
def test_queue_of_volcano_takes_pods_only_if_it_is_open(state: str) -> None:
    """Its state is written by its controller: without one, it is taken to be open."""
    queue = volcano_queue("a")
    found = read("volcano", queue | {"status": {"state": state}}, volcano_queue("b", parent="a"))
    assert set(by_name(found)) == {"root", "volcano:none"}
    lost = "a, which is above it, does not exist or is held"
    assert found.held == {"a": f"status.state is {state}", "b": lost}
    assert read("volcano", queue | {"status": {"state": "Open"}}).held == {}


def test_what_the_api_of_volcano_puts_in_by_itself_gives_no_note() -> None:
    assert read("volcano", volcano_queue("a", **DEFAULTS_OF_VOLCANO)).notes == ()


@pytest.mark.parametrize(
    ("peer", "queue", "name"),
    [
        ("volcano", volcano_queue("default"), "default"),
        ("kai", kai_queue("default-queue"), "default-queue"),
    ],
)
def test_pod_that_names_no_queue_is_in_the_default_if_there_is_one(
    peer: str, queue: dict[str, Any], name: str
) -> None:
    assert read(peer, queue).queued(pod()).queue == name
    assert read(peer).queued(pod()).queue is None
    label = {"volcano": "volcano.sh/queue-name", "kai": "kai.scheduler/queue"}[peer]
    assert read(peer, queue).queued(pod(labels={label: "lost"})).queue == "lost"


def test_wrong_name_of_a_queue_holds_a_pod_whatever_the_name_is() -> None:
    """Only the API of Volcano puts ``default`` in where nothing is named."""
    named = pod(labels={"kai.scheduler/queue": "default"})
    assert read("kai", kai_queue("a")).queued(named).queue == "default"


def group(peer: str, api: str, queue: str | None = None, **labels: str) -> PodGroup:
    spec: dict[str, Any] = {"minMember": 2, **({} if queue is None else {"queue": queue})}
    metadata = {"labels": labels}
    root = Field(
        Source("f", 1), "", document(api, "PodGroup", "g", spec, "team", metadata=metadata)
    )
    manifest = read_manifest(root, at=0.0, classes=PriorityClasses(), queues_from=peer)
    return read_group_of(api.partition("/")[0], manifest)


@pytest.mark.parametrize(
    ("peer", "api"),
    [("volcano", "scheduling.volcano.sh/v1beta1"), ("kai", "scheduling.run.ai/v2alpha2")],
)
def test_queue_of_a_group_is_read_only_if_its_quota_is(peer: str, api: str) -> None:
    read_on = group(peer, api, "a")
    assert (read_on.queue, read_on.unmodelled) == ("a", ())
    other = group("kueue", api, "a")
    assert (other.queue, other.unmodelled) == (None, ("spec.queue",))
    assert group(peer, api, "a", **{"gangsched.io/queue": "b"}).queue == "b"
    default = group(peer, api)
    assert default.queue == ("default" if peer == "volcano" else None)


def test_default_queue_that_does_not_exist_holds_no_group() -> None:
    default = group("volcano", "scheduling.volcano.sh/v1beta1")
    assert read("volcano", volcano_queue("a")).queued_group(default).queue is None
    assert read("volcano", volcano_queue("default")).queued_group(default).queue == "default"
    lost = evolve(default, queue="lost")
    assert read("volcano", volcano_queue("a")).queued_group(lost).queue == "lost"


def test_group_is_in_the_cluster_queue_of_its_local_queue() -> None:
    found = read(
        "kueue", cluster_queue("a", flavor(gpu={"nominalQuota": 8})), local_queue("q", "a")
    )
    labelled = group("kueue", "scheduling.x-k8s.io/v1alpha1", **{"kueue.x-k8s.io/queue-name": "q"})
    assert labelled.queue == "team/q"
    assert found.queued_group(labelled).queue == "a"
    assert PeerQuotas().queued_group(labelled) is labelled


# YuniKorn -----------------------------------------------------------------------------------------

QUEUES: Final = """
partitions:
- name: default
  queues:
  - name: root
    submitacl: "*"
    queues:
    - name: Team
      resources: {guaranteed: {vcore: 10, memory: 4Gi}, max: {vcore: "20"}}
      properties: {preemption.policy: fence, application.sort.policy: fair}
      queues:
      - {name: a, resources: {guaranteed: {vcore: 500m}}, properties: {preemption.policy: disabled}}
      - {name: b, maxapplications: 3}
    - {name: capped, resources: {max: {nvidia.com/gpu: 4}}}
  preemption: {enabled: false}
- {name: second}
"""


def config_map(text: str, name: str = "yunikorn-configs") -> dict[str, Any]:
    return document("v1", "ConfigMap", name, data={"queues.yaml": text})


def test_queues_of_yunikorn_have_full_names() -> None:
    pytest.importorskip("yaml")
    found = read("yunikorn", config_map(QUEUES), config_map("partitions: 1", "yunikorn-defaults"))
    same, team = ReclaimFrom.LOWER_OR_EQUAL, "root.team"
    assert by_name(found) == {
        "root": Quota(name="root"),
        team: Quota(
            name=team,
            parent="root",
            nominal={"cpu": "9500m", "memory": "4Gi"},
            hard={"cpu": 20},
            reclaim_from=same,
        ),
        "root.team.a": Quota(
            name="root.team.a",
            parent=team,
            nominal={"cpu": "500m"},
            reclaim_from=ReclaimFrom.NEVER,
        ),
        "root.team.b": Quota(name="root.team.b", parent=team, nominal={}, reclaim_from=same),
        "root.capped": Quota(name="root.capped", parent="root", hard={GPU: 4}, reclaim_from=same),
    }
    said = " ".join(found.notes)
    for part in (
        "second",
        "preemption has no meaning",
        "fence",
        "application.sort.policy",
        "maxapplications",
        "reclaim nothing",
    ):
        assert part in said.replace("preemption.policy of root.team has", "fence has")


def test_malformed_queues_of_yunikorn_are_an_error() -> None:
    pytest.importorskip("yaml")
    with pytest.raises(ManifestError, match=r"f: data\[queues\.yaml\]"):
        read("yunikorn", config_map("{"))
    twice = "partitions: [{queues: [{name: a}, {name: A}]}]"
    with pytest.raises(ManifestError, match="a name that no other queue has"):
        read("yunikorn", config_map(twice))


@pytest.mark.parametrize(
    "named",
    [
        {"labels": {"queue": "Team"}},
        {"labels": {"yunikorn.apache.org/queue": "root.team"}},
        {"annotations": {"yunikorn.apache.org/queue": "root.team"}},
    ],
)
def test_pod_names_its_queue_of_yunikorn(named: dict[str, Any]) -> None:
    assert PeerQuotas("yunikorn").queued(pod(**named)).queue == "root.team"


def test_annotation_of_yunikorn_counts_before_its_old_label() -> None:
    key = "yunikorn.apache.org/queue"
    found, note = PeerQuotas("yunikorn"), {key: "root.a"}
    assert found.queued(pod(labels={"queue": "old"}, annotations=note)).queue == "root.a"
    labels = {"queue": "old", key: "root.b"}
    assert found.queued(pod(labels=labels, annotations=note)).queue == "root.b"


def test_pod_without_a_queue_of_yunikorn_is_in_the_default_queue() -> None:
    pytest.importorskip("yaml")
    found = read("yunikorn", config_map("partitions: [{queues: [{name: default}]}]"))
    assert found.queued(pod()).queue == "root.default"


# Koordinator --------------------------------------------------------------------------------------

PREFIX: Final = "quota.scheduling.koordinator.sh/"


def elastic_quota(
    name: str, least: Any, most: Any, namespace: str = "quotas", **given: Any
) -> dict[str, Any]:
    labels = {PREFIX + key.replace("_", "-"): value for key, value in given.items()}
    annotations = {key: labels.pop(key) for key in [*labels] if "weight" in key or "spaces" in key}
    return document(
        "scheduling.sigs.k8s.io/v1alpha1",
        "ElasticQuota",
        name,
        {"min": least, "max": most},
        namespace,
        metadata={"labels": labels, "annotations": annotations},
    )


def test_elastic_quotas_of_koordinator_are_a_tree() -> None:
    found = read(
        "koordinator",
        elastic_quota("org", {"cpu": 10}, {"cpu": 20}, is_parent="true"),
        elastic_quota(
            "a", {"cpu": 4}, {"cpu": 8}, "team", parent="org", shared_weight='{"cpu": 3}'
        ),
        elastic_quota("b", {"cpu": 4}, {}, "b", parent="org", allow_lent_resource="false"),
        elastic_quota("c", None, {"cpu": 1}, namespaces='["x", "b"]', is_root="true"),
        elastic_quota("koordinator-system-quota", {}, {}),
        elastic_quota("koordinator-default-quota", None, {"cpu": "1844674407370955161"}),
    )
    root, default = "koordinator-root-quota", "koordinator-default-quota"
    assert by_name(found) == {
        root: Quota(name=root),
        "org": Quota(name="org", parent=root, nominal={"cpu": 2}, hard={"cpu": 20}, weight=20),
        "a": Quota(name="a", parent="org", nominal={"cpu": 4}, hard={"cpu": 8}, weight=3),
        "b": Quota(name="b", parent="org", namespaces=["b"], nominal={"cpu": 4}, lend={"cpu": 0}),
        "c": Quota(name="c", namespaces=["x"], nominal={}, hard={"cpu": 1}),
        default: Quota(name=default, parent=root, hard={"cpu": 1844674407370955161}),
    }
    assert found.notes == ()
    assert found.queued(pod(labels={f"{PREFIX}name": "a"})).queue == "a"
    assert found.queued(pod()).queue == default
    assert found.queued(pod("x")).queue is None  # the scheduler finds it by the namespace


def test_weights_of_koordinator_are_those_of_a_resource_that_all_quotas_weigh() -> None:
    several = '{"memory": "1Gi", "cpu": 3}'
    found = read(
        "koordinator",
        elastic_quota("a", {"cpu": 4}, {}, shared_weight=several),
        elastic_quota("b", {"cpu": 4}, {"cpu": 6, GPU: 1}),
        elastic_quota("c", {"cpu": 4}, {}),
    )
    weights = {quota.name: quota.weight for quota in found.quotas if quota.name in "abc"}
    assert weights == {"a": 3, "b": 6, "c": 1}
    (note,) = found.notes
    assert "a queue has one weight here, and of " in note
    assert note.endswith("shared-weight that of cpu counts")


def test_weight_of_koordinator_that_is_no_json_is_an_error() -> None:
    with pytest.raises(ManifestError, match="expected JSON"):
        read("koordinator", elastic_quota("a", {"cpu": 4}, {}, shared_weight="{"))


# All ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("peer", ["kueue", "kai", "volcano", "yunikorn", "koordinator"])
def test_without_objects_there_is_a_queue_so_that_others_do_not_exist(peer: str) -> None:
    (quota,) = read(peer).quotas
    assert (quota.name, quota.is_queue) == (f"{peer}:none", True)


def test_there_is_a_queue_if_all_cluster_queues_are_held() -> None:
    """The cohort alone is none, and without any queue names of queues would mean nothing."""
    held = cluster_queue("a", flavor(gpu={"nominalQuota": 8}), cohortName="x", stopPolicy="Hold")
    found = read("kueue", document(KUEUE, "Cohort", "x", {}), held, local_queue("q", "a"))
    assert any(quota.is_queue for quota in found.quotas)


def test_two_queues_of_one_name_are_an_error() -> None:
    with pytest.raises(ManifestError, match="a name that no other queue has"):
        read("volcano", volcano_queue("a"), volcano_queue("a"))


def test_only_objects_of_the_project_state_quotas() -> None:
    assert is_quota_object("kueue", "kueue.x-k8s.io", "LocalQueue", "x")
    assert is_quota_object("yunikorn", "", "ConfigMap", "yunikorn-configs")
    assert not is_quota_object("yunikorn", "", "ConfigMap", "other")
    assert not is_quota_object("kai", "scheduling.volcano.sh", "Queue", "x")
    assert not is_quota_object("", "", "ConfigMap", "yunikorn-configs")


# Configuration ------------------------------------------------------------------------------------


def test_configuration_names_each_project_whose_quotas_can_be_read() -> None:
    assert tuple(QUOTA_PEERS) == PEERS_WITH_QUOTAS
    for peer in QUOTA_PEERS:
        settings = read_settings({"quotas": {"from": peer}})
        assert (settings.quotas_from, settings.quotas) == (peer, ())
    assert read_settings({"quotas": [{"name": "a"}]}).quotas_from == ""


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"from": "slurm"}, "quotas.from"),
        ({}, "quotas.from"),
        ({"from": "kueue", "x": 1}, "quotas.x"),
        ("kueue", "quotas"),
    ],
)
def test_wrong_source_of_quotas_is_named(given: object, path: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        read_settings({"quotas": given})
    assert caught.value.field == path


@pytest.mark.once("reads files")
def test_chart_gives_the_right_to_list_the_objects_of_each_project() -> None:
    yaml = pytest.importorskip("yaml")
    chart = ROOT / "charts" / "gangsched"
    rules = yaml.safe_load((chart / "files" / "quotas.yaml").read_text("utf-8"))
    for peer, apis in QUOTA_PEERS.items():
        wanted = [api for api in apis if api.kind != "Namespace"]  # which the scheduler watches
        rule = {
            "apiGroups": [wanted[0].group],
            "resources": [api.plural for api in wanted],
            "verbs": ["list"],
        }
        if peer == "yunikorn":
            rule["resourceNames"] = [*CONFIG_MAPS]
        assert rules.pop(peer) == rule
    assert not rules
    schema = json.loads((chart / "values.schema.json").read_text("utf-8"))
    quotas = schema["definitions"]["configuration"]["properties"]["quotas"]["oneOf"]
    assert quotas[1]["properties"]["from"]["enum"] == list(QUOTA_PEERS)


def test_quotas_that_the_caller_has_not_read_are_not_taken_for_none() -> None:
    with pytest.raises(InvalidValueError, match="quotas must be a list of quotas: objects of"):
        make_scheduler(read_settings({"quotas": {"from": "kueue"}}), InMemoryCluster())


# Simulations --------------------------------------------------------------------------------------


def config(tmp_path: Any, name: str, quotas: Any) -> str:
    file = tmp_path / name
    text = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "quotas": quotas,
    }
    file.write_text(json.dumps(text), encoding="utf-8")
    return str(file)


def workload(tmp_path: Any, *objects: dict[str, Any]) -> str:
    yaml = pytest.importorskip("yaml")
    file = tmp_path / "w.yaml"
    file.write_text(yaml.safe_dump_all(objects), encoding="utf-8")
    return str(file)


def job(name: str, queue: str, gpus: int) -> dict[str, Any]:
    request = {"requests": {GPU: gpus}}
    template = {"spec": {"containers": [{"name": "c", "resources": request}]}}
    label = {"labels": {"kueue.x-k8s.io/queue-name": queue}}
    return document("batch/v1", "Job", name, {"template": template}, "team", metadata=label)


OF_KUEUE: Final = (
    cluster_queue("a", flavor("x", gpu={"nominalQuota": 4}), flavor("y", gpu={"nominalQuota": 1})),
    local_queue("q", "a"),
)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("large", f"exceeded quota a: requested {GPU}=6, used {GPU}=4, limited {GPU}=5"),
        ("lost", "queue team/gone does not exist"),
        ("small", "on node-000"),
    ],
)
def test_explain_reads_quotas_from_the_objects_in_its_files(
    name: str, why: str, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = [job("small", "q", 4), job("large", "q", 6), job("lost", "gone", 1)]
    given = [workload(tmp_path, *OF_KUEUE, *jobs), "--nodes", "2x8"]
    given += ["--config", config(tmp_path, "c.json", {"from": "kueue"})]
    assert main(["explain", f"team/{name}-0", *given]) == 0
    shown = capsys.readouterr()
    assert why in shown.out
    assert "its 2 flavors of nvidia.com/gpu are added up" in shown.err
    assert "queue-name" not in shown.err


def test_simulation_reads_quotas_from_the_objects_in_its_files(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [workload(tmp_path, *OF_KUEUE, job("a", "q", 4), job("b", "q", 4)), "--nodes", "2x8"]
    kueue = config(tmp_path, "c.json", {"from": "kueue"})
    assert main(["simulate", *given, "--config", kueue, "--output", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert "exceeded quota a" in json.dumps(shown)
    assert "is of an unknown kind" not in json.dumps(shown["skipped"])
    own = config(tmp_path, "own.json", [{"name": "b", "nominal": {"cpu": 1}}])
    assert main(["compare", *given, "--config", kueue, "--config", own]) == 2
    assert "expected quotas from kueue in each file with quotas" in capsys.readouterr().err
    kai = config(tmp_path, "kai.json", {"from": "kai"})
    assert main(["compare", *given, "--config", kueue, "--config", kai]) == 2
    assert "expected quotas from one project, got kai and kueue" in capsys.readouterr().err


def test_check_of_a_configuration_with_quotas_of_another_project(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("msgspec")
    assert main(["run", "--check", "--config", config(tmp_path, "c.json", {"from": "kai"})]) == 0
    assert main(["run", "--check", "--config", config(tmp_path, "d.json", {"from": "x"})]) == 2
    assert "quotas.from" in capsys.readouterr().err
