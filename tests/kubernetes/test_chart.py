"""The Helm chart on a real API server: applied, run under its own rights, upgraded, uninstalled."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gangsched.kubernetes import Settings, read_settings, run
from gangsched.kubernetes._client import connect
from gangsched.manifests.restarts import RESTARTING_UNTIL, RESTARTS
from support.api_trees import create_tree, delete_trees
from support.chart import (
    CHART,
    MANIFEST,
    NAMESPACE,
    Helm,
    Installed,
    Right,
    path_of,
    plain_manifest,
    rights,
    rules,
)
from support.cluster_objects import (
    CLASSES,
    VOLUMES,
    claim_json,
    class_of,
    group_json,
    node_json,
    pod_json,
    storage_class_json,
    uses_claim,
    volume_json,
)
from support.control_plane import ApiError, ControlPlane
from support.control_plane.audit import Request, requests_of
from support.control_plane.cluster import TREE_FEATURES
from support.control_plane.fixtures import need_control_plane
from support.control_plane.processes import free_ports
from support.definitions import CRDS, defined, definition, remove_definitions
from support.faulty_api import FaultyApi
from support.memory_api import Fault, lost_after, refused
from support.patience import HANG, eventually, saw, until
from support.priority_class import urgent_class
from support.strangers import Stranger
from support.without_watch_list import WithoutWatchList

yaml = pytest.importorskip("yaml")
pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

GROUPS = "/apis/scheduling.k8s.io/v1beta1"
NODES_OF_A_STORY = ("lost", "failed", "full", "small")
LABELS = {
    "scheduling.x-k8s.io": "scheduling.x-k8s.io/pod-group",
    "scheduling.sigs.k8s.io": "pod-group.scheduling.sigs.k8s.io",
}
RESTARTED = {
    "scheduling.k8s.io": "v1beta1",
    "scheduling.x-k8s.io": "v1alpha1",
    "scheduling.sigs.k8s.io": "v1alpha1",
    "scheduling.volcano.sh": "v1beta1",
    "scheduling.run.ai": "v2alpha2",
}
ANNOTATIONS = {
    "scheduling.volcano.sh": "scheduling.volcano.sh/group-name",
    "scheduling.run.ai": "pod-group-name",
}
SHIPPED = "podgroups.scheduling.x-k8s.io"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/gangsched"
Object = dict[str, Any]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane that writes down what service accounts ask for."""
    need_control_plane("helm")
    with ControlPlane(
        tmp_path_factory.mktemp("audited"), features=TREE_FEATURES, audited=True
    ) as started:
        yield started


@pytest.fixture(scope="module")
def helm(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(tmp_path_factory.mktemp("helm"), plane.kubeconfig("helm"))


@pytest.fixture
def installed(plane: ControlPlane, helm: Helm) -> Iterator[Installed]:
    helm.install()
    found = Installed(plane)
    yield found
    for process in found.started:
        process.stop()
    helm.uninstall()


def gone(plane: ControlPlane, base: str, path: str) -> None:
    """Delete an object if it is there."""
    try:
        plane.admin.delete(base + path)
    except ApiError as error:
        if error.status != 404:
            raise


def server_side(plane: ControlPlane, thing: Object, **query: object) -> Object:
    """Apply an object as kubectl apply --server-side does, and refuse unknown fields."""
    query = {"fieldManager": "test", "fieldValidation": "Strict", **query}
    return plane.admin.patch(path_of(thing), thing, "apply", **query)


# Files ------------------------------------------------------------------------------------------


def test_chart_passes_the_strict_lint(helm: Helm) -> None:
    helm("lint", "--strict", str(CHART))


def test_plain_manifest_is_what_the_chart_makes(helm: Helm) -> None:
    assert plain_manifest(helm.home) == MANIFEST.read_text("utf-8")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"replica": 3}, "replica"),
        ({"replicas": "two"}, "replicas"),
        ({"configuration": {"profiles": []}}, "configuration"),
        ({"schedulerName": "Not A Name"}, "schedulerName"),
        ({"terminationGracePeriodSeconds": 0}, "terminationGracePeriodSeconds"),
        ({"terminationGracePeriodSeconds": 24}, "at least 5 more than .*drainSeconds"),
        (
            {"terminationGracePeriodSeconds": 60, "configuration": {"drainSeconds": "1m"}},
            "which is 1m, got 60",
        ),
        ({"configuration": {"leaderElection": {"leaderElect": False}}}, "replicas: more than 1"),
        ({"serving": {"insecure": "yes"}}, "insecure"),
        ({"serving": {"insecure": True, "secretName": "x"}}, "serving.insecure: expected false"),
        ({"metrics": {"readers": [{"kind": "Prometheus", "name": "p"}]}}, "kind"),
        ({"networkPolicy": {"form": []}}, "form"),
        ({"prometheusRule": {"oldestPendingSeconds": 0}}, "oldestPendingSeconds"),
        ({"extraArgs": "-v=2"}, "extraArgs"),
        ({"extraEnv": [{"value": "no name"}]}, "name"),
        ({"extraVolumeMounts": [{"name": "no path"}]}, "mountPath"),
    ],
)
def test_values_that_are_no_values_are_refused(helm: Helm, values: Object, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        helm.template(values=values)


@pytest.mark.parametrize(
    ("drain", "seconds"),
    [
        (0, 0),
        (2.5, 3),
        (90, 90),
        ("500ms", 1),
        ("0.5s", 1),
        ("45s", 45),
        ("2m", 120),
        ("1m30s", 90),
        ("1h1m1s1ms", 3662),
    ],
)
def test_pods_get_more_time_to_end_than_any_drain_takes(
    helm: Helm, drain: float | str, seconds: int
) -> None:
    objects = helm.template(values={"configuration": {"drainSeconds": drain}})
    (deployment,) = [each for each in objects if each["kind"] == "Deployment"]
    spec = deployment["spec"]["template"]["spec"]
    assert spec["terminationGracePeriodSeconds"] == seconds + 20


def test_configuration_of_the_values_reaches_scheduler_and_role(helm: Helm) -> None:
    election = {"resourceName": "other", "leaseDuration": "30s"}
    preemption = {"name": "DefaultPreemption", "args": {"graceSeconds": 5}}
    objects = helm.template(
        values={
            "schedulerName": "mine",
            "configuration": {"leaderElection": election, "partialGangSeconds": 3},
            "pluginConfig": [preemption],
        }
    )
    by_kind = {each["kind"]: each for each in objects if is_main(each)}
    settings = read_settings(yaml.safe_load(by_kind["ConfigMap"]["data"]["config.yaml"]))
    assert settings.profile.scheduler_names == ("mine",)
    assert settings.profile.args["DefaultPreemption"] == {"graceSeconds": 5}
    assert settings.partial_bound == 3.0
    assert settings.leader_election.lease_duration == 30.0
    assert settings.leader_election.resource_name == "other"
    named = [rule["resourceNames"] for rule in by_kind["Role"]["rules"] if "resourceNames" in rule]
    assert named == [["other"]]


def is_main(thing: Object) -> bool:
    """Return whether an object has the name of the release alone."""
    return bool(thing["metadata"]["name"] == "gangsched")


def test_certificate_and_what_the_chart_lacks_reach_the_container(helm: Helm) -> None:
    added = {"name": "added", "emptyDir": {}}
    objects = helm.template(
        values={
            "serving": {"secretName": "served"},
            "extraArgs": ["--ignore=spec.resourceClaims"],
            "extraEnv": [{"name": "TZ", "value": "UTC"}],
            "extraVolumes": [added],
            "extraVolumeMounts": [{"name": "added", "mountPath": "/added"}],
            "deploymentAnnotations": {"a": "b"},
            "serviceAnnotations": {"c": "d"},
        }
    )
    by_kind = {each["kind"]: each for each in objects if is_main(each)}
    deployment = by_kind["Deployment"]
    spec = deployment["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert "--serve-cert=/etc/gangsched-serving/tls.crt" in container["args"]
    assert "--serve-key=/etc/gangsched-serving/tls.key" in container["args"]
    assert container["args"][-1] == "--ignore=spec.resourceClaims"
    assert container["env"] == [{"name": "TZ", "value": "UTC"}]
    assert {"name": "serving", "secret": {"secretName": "served"}} in spec["volumes"]
    assert added in spec["volumes"]
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert mounts["serving"] == "/etc/gangsched-serving"
    assert mounts["added"] == "/added"
    assert deployment["metadata"]["annotations"] == {"a": "b"}
    assert by_kind["Service"]["metadata"]["annotations"] == {"c": "d"}


def test_plain_http_is_served_only_if_the_values_say_so(helm: Helm) -> None:
    for insecure in (False, True):
        objects = helm.template(values={"serving": {"insecure": insecure}})
        (deployment,) = (each for each in objects if each["kind"] == "Deployment")
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        assert ("--insecure-serve" in container["args"]) is insecure


def test_alerts_of_the_chart_ask_for_metrics_that_are_exported(helm: Helm) -> None:
    pytest.importorskip("prometheus_client")
    objects = helm.template(values={"prometheusRule": {"enabled": True}})
    (rule,) = (each for each in objects if each["kind"] == "PrometheusRule")
    ((group,),) = (rule["spec"].values(),)
    alerts = {each["alert"]: each["expr"] for part in group for each in part["rules"]}
    assert {"GangschedNoLeader", "GangschedQueueAge", "GangschedPartlyRunning"} <= alerts.keys()
    assert {"GangschedBindsRefused", "GangschedUnreadableObjects"} <= alerts.keys()
    known = exported_metrics()
    for name, expression in alerts.items():
        for metric, labels in re.findall(r"([a-z_]+)\{([^}]*)\}", expression):
            assert metric in known, f"{name}: {metric}"
            assert 'job="gangsched",namespace="gangsched-system"' in labels


def exported_metrics() -> set[str]:
    """Return the names of the metrics of a scheduler, with the series of histograms."""
    from gangsched import InMemoryCluster, Scheduler
    from gangsched.kubernetes._measure import Measures
    from gangsched.presets import coscheduling_profile

    measures = Measures(Settings())
    watched = measures.watch(Scheduler(InMemoryCluster(), coscheduling_profile()))
    text = measures.pages(list)["/metrics"]().body.decode()
    assert watched is not None
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    buckets = {f"{name}_bucket" for name, kind in types.items() if kind == "histogram"}
    return types.keys() | buckets


# On the API server ------------------------------------------------------------------------------


@pytest.fixture
def monitors(plane: ControlPlane) -> Iterator[None]:
    """Serve what the Prometheus operator defines."""
    api = "monitoring.coreos.com/v1"
    monitor = definition(api, "ServiceMonitor", "servicemonitors")
    with defined(plane.admin, monitor, definition(api, "PrometheusRule", "prometheusrules")):
        yield


def test_everything_is_applied_with_every_option_on(
    plane: ControlPlane, helm: Helm, monitors: None
) -> None:
    plane.admin.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    objects = helm.template(
        "--include-crds",
        values={
            "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
            "dashboard": {"enabled": True},
            "tolerations": [{"key": "dedicated", "operator": "Exists"}],
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "podAnnotations": {"a": "b"},
            "podLabels": {"c": "d"},
            "imagePullSecrets": [{"name": "registry"}],
            "serviceAccount": {"name": "own", "annotations": {"e": "f"}},
            "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
            "networkPolicy": {"from": [{"namespaceSelector": {}}]},
            "serving": {"secretName": "served"},
            "metrics": {"readers": [{"kind": "ServiceAccount", "name": "p", "namespace": "m"}]},
            "extraArgs": ["--ignore=spec.resourceClaims"],
            "extraEnv": [{"name": "TZ", "value": "UTC"}],
            "extraVolumes": [{"name": "added", "emptyDir": {}}],
            "extraVolumeMounts": [{"name": "added", "mountPath": "/added"}],
            "deploymentAnnotations": {"g": "h"},
            "serviceAnnotations": {"i": "j"},
        },
    )
    kinds = {each["kind"] for each in objects}
    assert {"ServiceMonitor", "CustomResourceDefinition", "PodDisruptionBudget"} <= kinds
    objects.sort(key=lambda each: each["kind"] != "CustomResourceDefinition")
    for each in objects:
        until(partial(is_applied, plane, each))
    for each in reversed(objects):
        plane.admin.delete(path_of(each))
    remove_definitions(plane.admin, SHIPPED)


def is_applied(plane: ControlPlane, thing: Object) -> bool:
    """Apply an object; return False while its definition is not served yet."""
    try:
        server_side(plane, thing)
    except ApiError as error:
        if error.status != 404:
            raise
        return False
    return True


def test_plain_manifest_is_applied_and_applying_it_again_changes_nothing(
    plane: ControlPlane,
) -> None:
    objects = [each for each in yaml.safe_load_all(MANIFEST.read_text("utf-8")) if each]
    try:
        first = [server_side(plane, each)["metadata"] for each in objects]
        second = [server_side(plane, each)["metadata"] for each in objects]
    finally:
        for each in reversed(objects[1:]):
            plane.admin.delete(path_of(each))
    # the API server itself changes the namespace, when it publishes what each namespace has
    for before, after in zip(first[1:], second[1:], strict=True):
        assert before["resourceVersion"] == after["resourceVersion"]


# Rights -----------------------------------------------------------------------------------------


NO_PROVISIONER = "kubernetes.io/no-provisioner"


class Story:
    """Pods for whose sake a scheduler must use all of its rights."""

    def __init__(self, installed: Installed, name: str) -> None:
        self.installed = installed
        self.admin = installed.plane.admin
        self.name = name
        self.log_begins = len(installed.plane.audit.read_text("utf-8"))

    def settings(self) -> Settings:
        """Return the settings of the ConfigMap, with what a short story needs."""
        document = self.installed.configuration()
        plugins = ("DefaultPreemption", "PodTopologySpread")
        document["profiles"][0]["pluginConfig"] = [{"name": name} for name in plugins]
        document["respectDisruptionBudgets"] = True
        return read_settings(document)

    def seen(self) -> set[Right]:
        """Return what the scheduler has asked for."""
        return {Right(each.verb, each.group, each.resource) for each in self.requests()}

    def requests(self) -> list[Request]:
        plane = self.installed.plane
        return list(requests_of(plane, NAMESPACE, "gangsched", since=self.log_begins))

    def requests_by_status(self) -> str:
        """Return what was asked for, and how often it was answered with each status."""
        found = Counter((each.verb, each.resource, each.status) for each in self.requests())
        return "\n".join(f"{count} times {key}" for key, count in sorted(found.items()))

    def forbidden(self) -> set[Right]:
        """Return what it was not allowed to."""
        found = [each for each in self.requests() if each.is_forbidden]
        return {Right(each.verb, each.group, each.resource) for each in found}

    def begin(self) -> None:
        """Create everything: three gangs and a node for each, and victims."""
        # a Lease that was deleted by hand is created again, which needs a right
        gone(self.installed.plane, "", LEASE)
        self.admin.create("/api/v1/namespaces", {"metadata": {"name": self.name}})
        for kind in NODES_OF_A_STORY:
            node = node_json(f"{self.name}-{kind}", gpu=2)
            node["metadata"]["labels"]["story"] = f"{self.name}-{kind}"
            self.admin.create("/api/v1/nodes", node)
        for n in range(2):
            on: Object = {"scheduler": "other", "nodeName": f"{self.name}-full"}
            self._pod(f"victim-{n}", "full", **on, terminationGracePeriodSeconds=0)
        self._gang("lost", "lost")
        self._gang("failed", "failed", terminationGracePeriodSeconds=0)
        self._gang("strong", "full", priorityClassName=urgent_class(self.admin))
        self._gang("large", "small", cpu=30)
        for group in LABELS:
            self._foreign_gang(group)
        for group, version in RESTARTED.items():
            self._restarted_gang(group, version)
        create_tree(self.admin, self.name, "tree", "child")
        self._pod("child-0", "small", group="child", gpu=0)
        self._add_claims()

    def _add_claims(self) -> None:
        """Create a pod whose volume exists, and one whose volume is to be provisioned."""
        for kind, provisioner in (("static", NO_PROVISIONER), ("dynamic", "csi.example.com")):
            name = f"{self.name}-{kind}"
            self.admin.create(CLASSES, storage_class_json(name, provisioner=provisioner))
            claim = claim_json(kind, namespace=self.name, storageClassName=name)
            path = f"/api/v1/namespaces/{self.name}/persistentvolumeclaims"
            self.admin.create(path, claim)
            self._pod(f"uses-{kind}", "small", volumes=uses_claim(kind))
        volume = volume_json(self.name, storageClassName=f"{self.name}-static")
        self.admin.create(VOLUMES, volume)
        # as the volume controller does, which does not run here
        available = {"status": {"phase": "Available"}}
        self.admin.patch(f"{VOLUMES}/{self.name}/status", available)

    def _gang(self, group: str, node: str, **pod: Any) -> None:
        for n in range(2):
            self._pod(f"{group}-{n}", node, group=group, **pod)
        path = f"{GROUPS}/namespaces/{self.name}/podgroups"
        self.admin.create(path, group_json(group, 2, namespace=self.name, **class_of(pod)))

    def _foreign_gang(self, group: str) -> None:
        """Create a gang of another API, if it is served: its status is written."""
        name = group.split(".")[1]
        body = {"apiVersion": f"{group}/v1alpha1", "kind": "PodGroup", "spec": {"minMember": 2}}
        body["metadata"] = {"name": name}
        path = f"/apis/{group}/v1alpha1/namespaces/{self.name}/podgroups"
        try:
            self.admin.create(path, body)
        except ApiError as error:
            if error.status != 404:
                raise
            return
        self._pod(f"{name}-0", "small", labels={LABELS[group]: name})

    def _restarted_gang(self, group: str, version: str) -> None:
        """Create a gang of one pod that was being restarted: this is taken back when it runs."""
        name = f"again-{group.split('.')[1]}"
        notes = {RESTARTS: "1", RESTARTING_UNTIL: "1767225600"}
        body: Object = {"apiVersion": f"{group}/{version}", "kind": "PodGroup"}
        body["spec"] = {"minMember": 1}
        if group == "scheduling.k8s.io":
            body["spec"] = {"schedulingPolicy": {"gang": {"minCount": 1}}}
        body["metadata"] = {"name": name, "annotations": notes}
        path = f"/apis/{group}/{version}/namespaces/{self.name}/podgroups"
        try:
            self.admin.create(path, body)
        except ApiError as error:
            if error.status != 404:
                raise
            return
        named = {LABELS[group]: name} if group in LABELS else {}
        own = {"group": name} if group == "scheduling.k8s.io" else {}
        told = {ANNOTATIONS[group]: name} if group in ANNOTATIONS else {}
        self._pod(f"{name}-0", "small", labels=named, annotations=told, gpu=0, **own)

    def _pod(
        self,
        name: str,
        node: str,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        **pod: Any,
    ) -> None:
        spec = pod_json(name, namespace=self.name, **pod)
        spec["metadata"]["labels"] = dict(labels or {})
        spec["metadata"]["annotations"] = dict(annotations or {})
        spec["spec"]["nodeSelector"] = {"story": f"{self.name}-{node}"}
        del spec["status"]
        self.admin.create(f"/api/v1/namespaces/{self.name}/pods", spec)

    def go_on(self) -> None:
        """Replace members: of a gang that does not fit, and one of which the bind is unsure.

        The first fails again, as before. Whether the second is looked at depends on what is faster,
        the look or the watch.
        """
        pods = f"/api/v1/namespaces/{self.name}/pods"
        self.admin.delete(f"{pods}/large-1", gracePeriodSeconds=0)
        self._pod("large-1", "small", group="large", cpu=30)
        if self.admin.get(f"{pods}/lost-0")["spec"].get("nodeName"):
            self.admin.delete(f"{pods}/lost-0", gracePeriodSeconds=0)
            self._pod("lost-0", "lost", group="lost")

    def end(self) -> None:
        pods = f"/api/v1/namespaces/{self.name}/pods"
        self.admin.delete(pods, gracePeriodSeconds=0)
        self.admin.delete(f"{GROUPS}/namespaces/{self.name}/podgroups")
        delete_trees(self.admin, self.name)
        for kind in NODES_OF_A_STORY:
            self.admin.delete(f"/api/v1/nodes/{self.name}-{kind}")
        self.admin.delete(f"/api/v1/namespaces/{self.name}/persistentvolumeclaims")
        for kind in ("static", "dynamic"):
            self.admin.delete(f"{CLASSES}/{self.name}-{kind}")
        self.admin.delete(f"{VOLUMES}/{self.name}")

    def faults(self) -> Callable[[str, str], Fault | None]:
        """Return faults: of some binds the answer is lost, one fails for good."""
        left = ["/failed-1/binding"]

        def decide(_method: str, path: str) -> Fault | None:
            if path.endswith("/lost-0/binding"):
                return lost_after()
            found = next((end for end in left if path.endswith(end)), None)
            if found is None:
                return None
            left.remove(found)
            return refused(422)

        return decide

    async def run(self, is_done: Callable[[], bool]) -> None:
        """Run two replicas under the token of the ServiceAccount until something is true."""
        token = await asyncio.to_thread(self.installed.token)
        file = str(self.installed.plane.kubeconfig(self.name, token))
        async with AsyncExitStack() as stack:
            for _replica in range(2):
                await stack.enter_async_context(self._replica(file))
            await asyncio.to_thread(self.begin)

            def is_done_or_goes_on() -> bool:
                if is_done():
                    return True
                self.go_on()
                return False

            await eventually(is_done_or_goes_on, self.requests_by_status, step=0.5)

    @asynccontextmanager
    async def _replica(self, kubeconfig: str) -> AsyncIterator[None]:
        api = FaultyApi(WithoutWatchList(await connect(kubeconfig=kubeconfig)), self.faults())
        (port,) = free_ports(1)
        replica = asyncio.create_task(run(self.settings(), api=api, serve=("0.0.0.0", port)))
        # which makes the scheduler ask the API server who that is, and what it may do
        asker = Stranger(port, await asyncio.to_thread(self.installed.token))
        await eventually(lambda: asker.status("/metrics") == 403)
        try:
            yield
        finally:
            # not stopped: what it may not do is repeated for half a minute
            replica.cancel()
            done, _running = await asyncio.wait({replica}, timeout=HANG)
            assert done, "a replica that is cancelled does not end"
            if not replica.cancelled():
                replica.result()
            await api.aclose()


def is_served(plane: ControlPlane, path: str) -> bool:
    return plane.admin.raw("GET", path)[0] == 200


def serves_own_definition(plane: ControlPlane) -> bool:
    """Return whether the chart's definition is served; create it if another test deleted it."""
    if is_served(plane, "/apis/scheduling.x-k8s.io/v1alpha1"):
        return True
    (file,) = (CHART / "crds").glob("*.yaml")
    with suppress(ApiError):
        plane.admin.create(CRDS, yaml.safe_load(file.read_text("utf-8")))
    return False


@pytest.fixture
def all_dialects(plane: ControlPlane) -> Iterator[None]:
    """Serve the PodGroups of every API that is read; Helm installs the definition of one."""
    groups = ("scheduling.sigs.k8s.io", *ANNOTATIONS)
    others = [definition(f"{g}/{RESTARTED[g]}", "PodGroup", "podgroups") for g in groups]
    with defined(plane.admin, *others):
        until(partial(serves_own_definition, plane))
        yield


def test_scheduler_uses_every_right_of_its_roles_and_no_other(
    installed: Installed, all_dialects: None
) -> None:
    given = rights(rules("cluster-role")) | rights(rules("role"))
    story = Story(installed, "all-rights")

    def are_all_needed() -> bool:
        saw(f"no request needed {sorted(given - story.seen())}")
        return given <= story.seen()

    try:
        asyncio.run(story.run(are_all_needed))
    finally:
        story.end()
    assert story.forbidden() == set()
    assert story.seen() - given == set()


SAMPLE = [
    Right("get", "", "pods"),
    Right("create", "", "pods/eviction"),
    Right("patch", "events.k8s.io", "events"),
    Right("watch", "scheduling.k8s.io", "podgroups"),
    Right("update", "coordination.k8s.io", "leases"),
]


@pytest.mark.parametrize("missing", SAMPLE, ids=lambda right: f"{right.verb}-{right.resource}")
def test_right_that_is_taken_away_is_missed(installed: Installed, missing: Right) -> None:
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    for kind, path in (
        ("cluster-role", f"{rbac}/clusterroles/gangsched"),
        ("role", f"{rbac}/namespaces/{NAMESPACE}/roles/gangsched"),
    ):
        left = list(without(rules(kind), missing))
        assert missing not in rights(left)
        installed.plane.admin.patch(path, {"rules": left})
    story = Story(installed, f"no-{missing.verb}-{missing.resource.replace('/', '-')}")
    try:
        asyncio.run(story.run(lambda: missing in story.forbidden()))
    finally:
        story.end()
    assert story.forbidden() == {missing}


def without(given: list[Object], missing: Right) -> Iterator[Object]:
    """Yield rules that allow the same, but for one right."""
    for rule in given:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                verbs = [v for v in rule["verbs"] if Right(v, group, resource) != missing]
                if verbs:
                    found = {"apiGroups": [group], "resources": [resource], "verbs": verbs}
                    names = rule.get("resourceNames")
                    yield found if names is None else {**found, "resourceNames": names}


# The life of a release --------------------------------------------------------------------------


class Waiting:
    """Gangs that wait for a node, in a namespace of their own."""

    def __init__(self, plane: ControlPlane, name: str) -> None:
        self.admin = plane.admin
        self.name = name
        self.admin.create("/api/v1/namespaces", {"metadata": {"name": name}})

    def gang(self, group: str) -> None:
        path = f"{GROUPS}/namespaces/{self.name}/podgroups"
        self.admin.create(path, group_json(group, 2, namespace=self.name))
        for n in range(2):
            spec = pod_json(f"{group}-{n}", group=group, namespace=self.name)
            spec["spec"]["nodeSelector"] = {"for": self.name}
            del spec["status"]
            self.admin.create(f"/api/v1/namespaces/{self.name}/pods", spec)

    def node(self, name: str) -> None:
        node = node_json(f"{self.name}-{name}", gpu=2)
        node["metadata"]["labels"]["for"] = self.name
        self.admin.create("/api/v1/nodes", node)

    def pods(self, group: str) -> list[Object]:
        found = self.admin.items(f"/api/v1/namespaces/{self.name}/pods")
        return [pod for pod in found if pod["metadata"]["name"].startswith(f"{group}-")]

    def is_reported(self, group: str) -> bool:
        return all(
            any(each["reason"] == "Unschedulable" for each in pod["status"].get("conditions", []))
            for pod in self.pods(group)
        )

    def is_bound(self, group: str) -> bool:
        return all(pod["spec"].get("nodeName") for pod in self.pods(group))


def test_upgrade_loses_no_wait_and_uninstall_leaves_only_the_definition(
    plane: ControlPlane, helm: Helm, installed: Installed, tmp_path: Path
) -> None:
    # a Lease that is not given up keeps the next replica waiting for longer than any wait here
    election = {"leaseDuration": "3600s", "renewDeadline": "60s"}
    helm.install(values={"configuration": {"leaderElection": election}})
    waiting = Waiting(plane, "upgrade")
    old, pages = installed.start(sys.executable, tmp_path)
    waiting.gang("first")
    time.sleep(1.1)  # the instant of creation, by which gangs are ordered, has whole seconds
    waiting.gang("second")
    until(lambda: waiting.is_reported("first") and waiting.is_reported("second"))
    assert b"leader_election_master_status" in pages.raw("GET", "/metrics")[1]

    changed = {"leaderElection": election, "podMaxBackoffSeconds": 5}
    helm.install(values={"configuration": changed})
    assert installed.configuration()["podMaxBackoffSeconds"] == 5
    new, _pages = installed.start(sys.executable, tmp_path)
    assert old.stop(timeout=HANG) == 0
    waiting.node("a")
    until(lambda: waiting.is_bound("first"))
    assert not any(pod["spec"].get("nodeName") for pod in waiting.pods("second"))
    waiting.node("b")
    until(lambda: waiting.is_bound("second"))
    assert new.stop(timeout=HANG) == 0
    for replica in (old, new):
        log = replica.log.read_text("utf-8")
        assert "forbidden" not in log.lower()
        assert '"level": "error"' not in log

    helm.uninstall()
    try:
        left = list(of_the_chart(plane, helm))
        assert left == []
        assert plane.admin.get(f"{CRDS}/{SHIPPED}")["metadata"]["name"] == SHIPPED
    finally:
        helm.install()  # for the fixture, which uninstalls it
    for pod in (*waiting.pods("first"), *waiting.pods("second")):
        assert pod["spec"].get("nodeName")  # what runs goes on
    plane.admin.delete("/api/v1/namespaces/upgrade/pods", gracePeriodSeconds=0)
    for name in ("a", "b"):
        plane.admin.delete(f"/api/v1/nodes/upgrade-{name}")


def of_the_chart(plane: ControlPlane, helm: Helm) -> Iterator[str]:
    """Yield the paths of the chart's objects that are there."""
    for each in helm.template():
        try:
            plane.admin.get(path_of(each))
        except ApiError as error:
            if error.status != 404:
                raise
        else:
            yield path_of(each)


def test_second_replica_takes_over_when_the_leader_is_killed(
    plane: ControlPlane, helm: Helm, installed: Installed, tmp_path: Path
) -> None:
    short = {"leaseDuration": "5s", "renewDeadline": "4s", "retryPeriod": "500ms"}
    helm.install(values={"configuration": {"leaderElection": short}})
    waiting = Waiting(plane, "killed")
    leader, _pages = installed.start(sys.executable, tmp_path)
    other, _pages = installed.start(sys.executable, tmp_path)
    waiting.gang("g")
    until(lambda: waiting.is_reported("g"))
    leader.kill()
    waiting.node("a")
    until(lambda: waiting.is_bound("g"))
    assert other.is_running
    plane.admin.delete("/api/v1/namespaces/killed/pods", gracePeriodSeconds=0)
    plane.admin.delete("/api/v1/nodes/killed-a")
