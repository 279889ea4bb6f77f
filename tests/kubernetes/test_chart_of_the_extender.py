"""The chart with ``mode: extender`` on a real API server, asked by kube-scheduler 1.37 over TLS.

The replicas run under the ServiceAccount of the chart, with RBAC on. What they may do is compared
with what they ask for, by the audit log of the API server.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from gangsched.kubernetes import read_settings
from gangsched.kubernetes._client import connect
from gangsched.kubernetes.extender import run_extender
from gangsched.kubernetes.extender._leader_label import LEADS
from support.chart import CHART, NAMESPACE, Helm, Installed, Right, path_of, rights, rules
from support.control_plane import ApiError, ControlPlane
from support.control_plane.audit import requests_of
from support.control_plane.cluster import TREE_FEATURES
from support.control_plane.fixtures import need_control_plane
from support.control_plane.processes import free_ports
from support.definitions import defined, definition
from support.extended_cluster import extended_configuration
from support.extender_release import (
    SECRET,
    VALUES,
    Replica,
    Workload,
    create_pod,
    create_secret,
    start,
)
from support.extender_tls import TlsFiles
from support.faulty_api import FaultyApi
from support.memory_api import Fault, lost_after, refused
from support.patience import HANG, eventually, saw, until, until_on_loop
from support.strangers import Stranger
from support.without_watch_list import WithoutWatchList

pytestmark = pytest.mark.once("the gangs are placed through kube-scheduler")

LEASE: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/gangsched"
OTHERS: Final = {
    "scheduling.sigs.k8s.io": "v1alpha1",
    "scheduling.volcano.sh": "v1beta1",
    "scheduling.run.ai": "v2alpha2",
}
Object = dict[str, Any]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    need_control_plane("helm")
    with ControlPlane(
        tmp_path_factory.mktemp("audited"), features=TREE_FEATURES, audited=True
    ) as started:
        yield started


@pytest.fixture(scope="module")
def helm(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(tmp_path_factory.mktemp("helm"), plane.kubeconfig("helm"))


@pytest.fixture
def tls(tmp_path: Path) -> TlsFiles:
    return TlsFiles(tmp_path / "tls")


@pytest.fixture
def installed(plane: ControlPlane, helm: Helm, tls: TlsFiles) -> Iterator[Installed]:
    helm.install(values=VALUES)
    found = Installed(plane)
    create_secret(found, tls)
    yield found
    for process in found.started:
        process.stop()
    helm.uninstall()
    for path in (f"/api/v1/namespaces/{NAMESPACE}/secrets/{SECRET}", LEASE):
        with suppress(ApiError):
            plane.admin.delete(path)
    plane.admin.delete(f"/api/v1/namespaces/{NAMESPACE}/pods", gracePeriodSeconds=0)


# Files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tls", [True, False])
def test_chart_of_the_extender_passes_the_strict_lint(helm: Helm, tls: bool) -> None:
    secure = f"extender.tls.enabled={str(tls).lower()},extender.tls.secretName=x"
    helm("lint", "--strict", str(CHART), "--set", f"mode=extender,{secure}")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"mode": "both"}, "mode"),
        ({"mode": "extender"}, "extender.tls.secretName: expected the name of a Secret"),
        ({"extender": {"tls": {"secret": "x"}}}, "secret"),
        ({"extender": {"holdTimeout": "soon"}}, "holdTimeout"),
        ({"extender": {"schedulerNames": ["A B"]}}, "schedulerNames"),
    ],
)
def test_values_of_the_extender_that_are_no_values_are_refused(
    helm: Helm, values: Object, said: str
) -> None:
    with pytest.raises(AssertionError, match=said):
        helm.template(values=values)


def test_scheduler_has_nothing_of_the_extender(helm: Helm) -> None:
    text = helm.text(values={"extender": {"tls": {"secretName": "x"}}})
    assert text == helm.text()
    assert "extender" not in text


def test_service_selects_the_leader_and_has_the_address_that_is_wanted(helm: Helm) -> None:
    given = {**VALUES["extender"], "service": {"clusterIP": "10.0.0.9", "port": 443}}
    objects = helm.template(values={**VALUES, "extender": given})
    (service,) = (
        each["spec"]
        for each in objects
        if each["metadata"]["name"] == "gangsched-extender" and each["kind"] == "Service"
    )
    (deployment,) = (each["spec"] for each in objects if each["kind"] == "Deployment")
    labels = deployment["template"]["metadata"]["labels"]
    assert service["clusterIP"] == "10.0.0.9"
    assert service["ports"] == [{"name": "verbs", "port": 443, "targetPort": "verbs"}]
    assert service["selector"].pop(LEADS) == "true"
    assert service["selector"].items() <= labels.items()
    (container,) = deployment["template"]["spec"]["containers"]
    assert {"name": "verbs", "containerPort": 8888} in container["ports"]


def test_every_object_of_the_extender_is_applied(plane: ControlPlane, helm: Helm) -> None:
    with suppress(ApiError):
        plane.admin.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    objects = helm.template(values={**VALUES, "dashboard": {"enabled": True}})
    query = {"fieldManager": "test", "fieldValidation": "Strict"}
    try:
        for each in objects:
            plane.admin.patch(path_of(each), each, "apply", **query)
    finally:
        for each in reversed(objects):
            with suppress(ApiError):
                plane.admin.delete(path_of(each))


# The replicas that the chart runs ---------------------------------------------------------------


def leads(plane: ControlPlane, replica: Replica) -> bool:
    """Return whether the selector of the Service finds the pod of a replica."""
    service = plane.admin.get(f"/api/v1/namespaces/{NAMESPACE}/services/gangsched-extender")
    labels = plane.admin.get(replica.pod)["metadata"]["labels"]
    selector: Object = service["spec"]["selector"]
    return bool(selector.items() <= labels.items())


def start_scheduler(plane: ControlPlane, url: str, tls: TlsFiles | None) -> Any:
    secure = None if tls is None else tls.of_scheduler()
    configuration = extended_configuration(url, ["gangsched"], secure)
    return plane.start_scheduler(configuration, features={})


def test_gangs_are_bound_by_the_chart_s_extender_and_its_second_replica_takes_over(
    plane: ControlPlane, helm: Helm, installed: Installed, tls: TlsFiles, tmp_path: Path
) -> None:
    """Both replicas are ready, so a Deployment is rolled out; the Service selects one of them."""
    # a busy leader does not lose the Lease, and the next one gets it only because it is given up
    election = {"leaseDuration": "3600s", "renewDeadline": "60s"}
    helm.install(values={**VALUES, "configuration": {"leaderElection": election}})
    first = start(installed, "replica-0", tmp_path)
    until(lambda: leads(plane, first))
    second = start(installed, "replica-1", tmp_path)
    assert second.is_ready
    assert not leads(plane, second)
    scheduler = start_scheduler(plane, first.url, tls)
    workload = Workload(plane.admin, "taken-over")
    try:
        workload.begin()
        until(lambda: bound(plane, "taken-over", "lost"))
        assert first.process.stop(timeout=HANG) == 0
        until(lambda: leads(plane, second))
        assert not leads(plane, first)
        scheduler.stop()  # what the Service does: it leads to the other replica from now on
        scheduler = start_scheduler(plane, second.url, tls)
        workload.add_late_node()
        until(lambda: bound(plane, "taken-over", "late"))
    finally:
        scheduler.stop()
        workload.end()
    for replica in (first, second):
        log = replica.process.log.read_text("utf-8")
        assert "forbidden" not in log.lower()
        assert '"level": "error"' not in log


def bound(plane: ControlPlane, namespace: str, gang: str) -> bool:
    pods = plane.admin.items(f"/api/v1/namespaces/{namespace}/pods")
    found = [pod for pod in pods if pod["metadata"]["name"].startswith(f"{gang}-")]
    return bool(found) and all(pod["spec"].get("nodeName") for pod in found)


# Rights -----------------------------------------------------------------------------------------


class Story:
    """Two replicas in this process, and a kube-scheduler that asks the one that leads."""

    def __init__(self, installed: Installed, name: str) -> None:
        self._installed = installed
        self._plane = installed.plane
        self._workload = Workload(installed.plane.admin, name)
        self._begins = len(installed.plane.audit.read_text("utf-8"))

    def seen(self, *, forbidden: bool = False) -> set[Right]:
        """Return what was asked for; with *forbidden*, what was refused of it."""
        found = requests_of(self._plane, NAMESPACE, "gangsched", since=self._begins)
        return {
            Right(each.verb, each.group, each.resource)
            for each in found
            if each.is_forbidden or not forbidden
        }

    async def run(self, is_done: Callable[[], bool]) -> None:
        """Run until something is true."""
        with suppress(ApiError):  # a Lease that is there is not created, which needs a right
            await asyncio.to_thread(self._plane.admin.delete, LEASE)
        async with AsyncExitStack() as stack:
            port = await stack.enter_async_context(self._replica("replica-0"))
            await eventually(lambda: self._holder(), step=0.1)  # before the other one begins
            await stack.enter_async_context(self._replica("replica-1"))
            url = f"http://127.0.0.1:{port}"
            scheduler = await asyncio.to_thread(start_scheduler, self._plane, url, None)
            stack.push_async_callback(asyncio.to_thread, self._workload.end)
            stack.push_async_callback(asyncio.to_thread, scheduler.stop)
            await asyncio.to_thread(self._workload.begin)
            await eventually(lambda: self._workload.is_refused("late"), step=0.2)
            await asyncio.to_thread(self._workload.add_late_node)

            def is_done_or_goes_on() -> bool:
                if is_done():
                    return True
                self._workload.replace_a_member()
                return False

            await eventually(is_done_or_goes_on, step=0.5)

    def _holder(self) -> str:
        status, body = self._plane.admin.raw("GET", LEASE)
        spec: Object = json.loads(body)["spec"] if status == 200 else {}
        return str(spec.get("holderIdentity") or "")

    def _faults(self) -> Callable[[str, str], Fault | None]:
        """Return faults: of one bind the answer is lost, another fails for good."""
        left: dict[str, Callable[[], Fault]] = {
            "/lost-0/binding": lost_after,
            "/failed-1/binding": lambda: refused(422),
        }

        def decide(_method: str, path: str) -> Fault | None:
            found = next((end for end in left if path.endswith(end)), None)
            return None if found is None else left.pop(found)()

        return decide

    @asynccontextmanager
    async def _replica(self, name: str) -> AsyncIterator[int]:
        installed = self._installed
        pod = await asyncio.to_thread(create_pod, installed, name)
        token = await asyncio.to_thread(installed.token)
        document = installed.configuration()
        plugins = ("DefaultPreemption", "PodTopologySpread")
        document["profiles"][0]["pluginConfig"] = [{"name": name} for name in plugins]
        document["respectDisruptionBudgets"] = True
        kubeconfig = str(self._plane.kubeconfig(name, token))
        api = FaultyApi(WithoutWatchList(await connect(kubeconfig=kubeconfig)), self._faults())
        ports: list[int] = []
        (pages,) = free_ports(1)
        work = run_extender(
            read_settings(document),
            listen=("127.0.0.1", 0),
            api=api,
            listening=ports.append,
            pod=f"{NAMESPACE}/{name}",
            serve=("0.0.0.0", pages),
        )
        replica = asyncio.create_task(work)
        try:
            await until_on_loop(lambda: ports)
            # which makes the extender ask the API server who that is, and what it may do
            asker = Stranger(pages, token)
            await eventually(lambda: asker.status("/metrics") == 403)
            yield ports[0]
        finally:
            # not stopped: what it may not do is repeated for half a minute
            replica.cancel()
            with suppress(asyncio.CancelledError):
                await replica
            await api.aclose()
            await asyncio.to_thread(partial(self._plane.admin.delete, pod, gracePeriodSeconds=0))


@pytest.fixture
def all_dialects(plane: ControlPlane) -> Iterator[None]:
    """Serve the PodGroups of every API that is read; Helm installs the definition of one."""
    others = [definition(f"{group}/{n}", "PodGroup", "podgroups") for group, n in OTHERS.items()]
    with defined(plane.admin, *others):
        until(lambda: plane.admin.raw("GET", "/apis/scheduling.x-k8s.io/v1alpha1")[0] == 200)
        yield


def given() -> set[Right]:
    names = ("extender-cluster-role", "role", "extender-role")
    return {right for name in names for right in rights(rules(name))}


def test_extender_uses_every_right_of_its_roles_and_no_other(
    installed: Installed, all_dialects: None
) -> None:
    story = Story(installed, "all-rights")

    def are_all_needed() -> bool:
        saw(f"no request needed {sorted(given() - story.seen())}")
        return given() <= story.seen()

    asyncio.run(story.run(are_all_needed))
    assert story.seen(forbidden=True) == set()
    assert story.seen() - given() == set()


@pytest.mark.parametrize(
    "missing",
    [
        Right("patch", "", "pods"),
        Right("create", "", "pods/binding"),
        Right("patch", "", "pods/status"),
    ],
    ids=lambda right: f"{right.verb}-{right.resource}",
)
def test_right_of_the_extender_that_is_taken_away_is_missed(
    installed: Installed, missing: Right
) -> None:
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    paths = {
        "extender-cluster-role": f"{rbac}/clusterroles/gangsched",
        "extender-role": f"{rbac}/namespaces/{NAMESPACE}/roles/gangsched-extender",
    }
    for name, path in paths.items():
        left: list[Object] = []
        for rule in rules(name):
            for resource in rule["resources"]:
                groups = rule["apiGroups"]
                verbs = [
                    verb
                    for verb in rule["verbs"]
                    if missing not in {Right(verb, group, resource) for group in groups}
                ]
                if verbs:
                    left.append({"apiGroups": groups, "resources": [resource], "verbs": verbs})
        installed.plane.admin.patch(path, {"rules": left})
    story = Story(installed, f"no-{missing.verb}-{missing.resource.replace('/', '-')}")
    asyncio.run(story.run(lambda: missing in story.seen(forbidden=True)))
    assert story.seen(forbidden=True) == {missing}
