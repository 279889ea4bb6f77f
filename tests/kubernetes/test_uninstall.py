"""What the chart and the plain manifest leave in a real API server when they are uninstalled.

Every resource type is listed before and after. Nothing may be left but the definition of PodGroup.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from support.chart import CHART, MANIFEST, NAMESPACE, Helm, Installed, path_of
from support.control_plane import ApiError, ControlPlane
from support.control_plane.fixtures import need_control_plane
from support.control_plane.programs import programs
from support.every_object import every_object
from support.patience import HANG, until

yaml = pytest.importorskip("yaml")
pytestmark = pytest.mark.once("decides about no pod")

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/gangsched"
OWN = "podgroups.scheduling.x-k8s.io"
GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1"
GROUP = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup"}
RENEWED = 2.5
"""Seconds within which a leader renews its Lease."""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    need_control_plane("helm", "kubectl")
    with ControlPlane(tmp_path_factory.mktemp("uninstall")) as started:
        started.admin.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        # the API server makes the Service of itself some seconds after its start
        until(lambda: started.admin.items("/api/v1/services"))
        until(lambda: started.admin.items("/api/v1/endpoints"))
        until(lambda: started.admin.items("/apis/discovery.k8s.io/v1/endpointslices"))
        yield started


@pytest.fixture(scope="module")
def helm(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(tmp_path_factory.mktemp("helm"), plane.kubeconfig("helm"))


@pytest.fixture
def installed(plane: ControlPlane, helm: Helm) -> Iterator[Installed]:
    """What a test installs; the cluster is empty again at its end."""
    found = Installed(plane)
    yield found
    for process in found.started:
        process.kill()
    helm("uninstall", "gangsched", "--namespace", NAMESPACE, "--ignore-not-found")
    for path in (LEASE, f"{CRDS}/{OWN}"):
        with suppress(ApiError):
            plane.admin.delete(path)
    until(lambda: plane.admin.raw("GET", GROUPS)[0] == 404)
    # listed a little longer than it is served
    until(lambda: b'"scheduling.x-k8s.io"' not in plane.admin.raw("GET", "/apis")[1])


def lease(plane: ControlPlane) -> dict[str, Any]:
    found: dict[str, Any] = plane.admin.get(LEASE)
    return found


def holder(plane: ControlPlane) -> str:
    return str(lease(plane).get("spec", {}).get("holderIdentity") or "")


def left_by(plane: ControlPlane, before: set[str]) -> set[str]:
    """Return the types of what is there and was not, but for definitions and what serves them."""
    found = {each.split()[0] for each in every_object(plane.admin) - before}
    assert found >= {CRDS}, "the definition is kept"
    # the API server makes an APIService for each version of a definition
    return found - {CRDS, "/apis/apiregistration.k8s.io/v1/apiservices"}


def test_uninstalled_release_leaves_only_definitions_though_its_pods_still_run(
    plane: ControlPlane, helm: Helm, installed: Installed, tmp_path: Path
) -> None:
    before = every_object(plane.admin)
    helm.install()
    leader, _pages = installed.start(sys.executable, tmp_path)
    installed.start(sys.executable, tmp_path)
    until(lambda: holder(plane))
    helm.install(values={"replicas": 3})
    helm.uninstall()
    left = left_by(plane, before)
    time.sleep(RENEWED)  # the pods of a deleted Deployment end later, and try to renew
    leader.stop(timeout=HANG)
    for process in installed.started:
        process.kill()
    assert left == left_by(plane, before) == set()


def test_upgrade_keeps_the_holder_of_the_lease(
    plane: ControlPlane, helm: Helm, installed: Installed, tmp_path: Path
) -> None:
    helm.install()
    assert holder(plane) == ""
    installed.start(sys.executable, tmp_path)
    until(lambda: holder(plane))
    first = lease(plane)
    assert first["spec"]["leaseTransitions"] == 0
    assert first["metadata"]["labels"]["app.kubernetes.io/version"]
    # the chart of another version changes the labels of the Lease, so Helm patches it
    other = tmp_path / "chart"
    other.mkdir()
    for file in CHART.rglob("*"):
        if file.is_file():
            target = other / file.relative_to(CHART)
            target.parent.mkdir(parents=True, exist_ok=True)
            text = file.read_text("utf-8")
            target.write_text(text.replace("version: 0.1.0", "version: 0.1.9"), encoding="utf-8")
    helm("upgrade", "gangsched", str(other), "--namespace", NAMESPACE)
    after = lease(plane)
    assert after["metadata"]["labels"] != first["metadata"]["labels"]
    for name in ("holderIdentity", "acquireTime", "leaseTransitions"):
        assert after["spec"][name] == first["spec"][name]
    until(lambda: lease(plane)["spec"]["renewTime"] > after["spec"]["renewTime"])
    assert holder(plane) == first["spec"]["holderIdentity"]
    assert lease(plane)["spec"]["leaseTransitions"] == 0
    assert lease(plane)["metadata"]["labels"] == after["metadata"]["labels"]


def test_lease_that_is_deleted_by_hand_is_created_anew_and_still_uninstalled(
    plane: ControlPlane, helm: Helm, installed: Installed, tmp_path: Path
) -> None:
    before = every_object(plane.admin)
    helm.install()
    installed.start(sys.executable, tmp_path)
    plane.admin.delete(LEASE)
    until(lambda: plane.admin.raw("GET", LEASE)[0] == 200 and holder(plane))
    helm.install(values={"replicas": 3})
    assert holder(plane)
    helm.uninstall()
    assert left_by(plane, before) == set()


def test_deleted_objects_of_the_plain_manifest_leave_only_definitions(
    plane: ControlPlane, installed: Installed, tmp_path: Path
) -> None:
    """The namespace stays: the controllers that would empty and finalize it do not run here."""
    before = every_object(plane.admin)
    (definitions,) = (CHART / "crds").glob("*.yaml")
    text = MANIFEST.read_text("utf-8")
    objects = [each for each in yaml.safe_load_all(text) if each and each["kind"] != "Namespace"]
    query = {"fieldManager": "kubectl", "fieldValidation": "Strict"}
    for each in (*objects, yaml.safe_load(definitions.read_text("utf-8"))):
        plane.admin.patch(path_of(each), each, "apply", **query)
    installed.start(sys.executable, tmp_path)
    until(lambda: holder(plane))
    held = holder(plane)
    for each in objects:  # as an upgrade does
        plane.admin.patch(path_of(each), each, "apply", **query)
    assert holder(plane) == held
    for each in objects:
        try:
            plane.admin.delete(path_of(each))
        except ApiError as error:
            raise AssertionError(path_of(each)) from error
    time.sleep(RENEWED)
    assert left_by(plane, before) == set()


def test_lease_is_the_one_that_the_configuration_names(helm: Helm) -> None:
    def leases(**election: object) -> list[tuple[str, str]]:
        values = {"replicas": 1, "configuration": {"leaderElection": election}}
        objects = helm.template(values=values)
        found = [each["metadata"] for each in objects if each["kind"] == "Lease"]
        return [(each["namespace"], each["name"]) for each in found]

    assert leases() == [(NAMESPACE, "gangsched")]
    named = leases(resourceName="other", resourceNamespace="kube-system")
    assert named == [("kube-system", "other")]
    assert leases(leaderElect=False) == []
    assert [each for each in helm.template() if each["kind"] == "Lease" and "spec" in each] == []


def test_definition_shows_the_restarts_of_a_group_in_a_wide_table(
    plane: ControlPlane, installed: Installed
) -> None:
    (definitions,) = (CHART / "crds").glob("*.yaml")
    plane.admin.create(CRDS, yaml.safe_load(definitions.read_text("utf-8")))
    path = f"{GROUPS}/namespaces/{NAMESPACE}/podgroups"
    until(lambda: plane.admin.raw("GET", path)[0] == 200)
    until(lambda: plane.admin.raw("GET", GROUPS)[0] == 200)  # by which kubectl knows the kind
    for name, notes in (("never", {}), ("restarted", {"gangsched.io/restarts": "3"})):
        metadata = {"name": name, "annotations": notes}
        plane.admin.create(path, {"metadata": metadata, "spec": {"minMember": 1}, **GROUP})
    wide = kubectl(plane, "get", "podgroups.v1alpha1.scheduling.x-k8s.io", "-o", "wide")
    header, *lines = wide.splitlines()
    place = header.index("RESTARTS")
    shown = {line.split()[0]: (line[place:].split() or [""])[0] for line in lines}
    assert shown["restarted"] == "3"
    assert shown["never"] != "3"
    assert "RESTARTS" not in kubectl(plane, "get", "podgroups.v1alpha1.scheduling.x-k8s.io")


def kubectl(plane: ControlPlane, *arguments: str) -> str:
    """Run kubectl in the namespace of the release; return what it prints."""
    (program,) = programs(["kubectl"]).values()
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig("kubectl"))}
    command = [str(program), *arguments, "--namespace", NAMESPACE]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return ran.stdout


def test_two_releases_have_no_object_in_common(helm: Helm) -> None:
    values = ("--namespace", NAMESPACE, "--kube-version", "1.37.2", "--set", "schedulerName=ml")
    other = yaml.safe_load_all(helm("template", "ml", str(CHART), *values))
    theirs = {path_of(each) for each in other if each}
    ours = {path_of(each) for each in helm.template()}
    assert len(theirs) == len(ours) > 5
    assert not theirs & ours
