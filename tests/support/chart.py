"""The Helm chart of the repository, the plain manifest beside it, and Helm itself.

Helm is one of the programs of ``support.control_plane.programs``. What needs no Helm (the rules of
the roles, the files) is read with YAML alone.

``python -m support.chart`` in ``tests`` writes the plain manifest from the chart.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from attrs import define, field, frozen

from support.control_plane.client import ApiError, Client
from support.control_plane.cluster import ControlPlane
from support.control_plane.processes import Process, free_ports
from support.control_plane.programs import programs
from support.patience import until
from support.root import ROOT

__all__ = [
    "CHART",
    "MANIFEST",
    "NAMESPACE",
    "Helm",
    "Installed",
    "Right",
    "path_of",
    "plain_manifest",
    "rights",
    "rules",
]

Object = dict[str, Any]

CHART: Final = ROOT / "charts" / "gangsched"
MANIFEST: Final = ROOT / "deploy" / "gangsched.yaml"
NAMESPACE: Final = "gangsched-system"
"""The namespace of the plain manifest."""

_OF_HELM: Final = re.compile(r"# Source|\s+(?:app.kubernetes.io/managed-by|helm.sh/chart): ")
_HEAD: Final = """\
# The scheduler without Helm: kubectl apply --server-side -f deploy/gangsched.yaml
#
# Made from charts/gangsched with its defaults; a test compares them. Change the image, which is
# to be built from the Dockerfile. The PodGroups of scheduling.x-k8s.io, which Kubernetes lacks,
# are in charts/gangsched/crds.
"""
_PLURALS: Final = {
    "PodDisruptionBudget": "poddisruptionbudgets",
    "NetworkPolicy": "networkpolicies",
}


def rules(name: str) -> list[Object]:
    """Return the rules of ``cluster-role`` or of ``role``, as the chart has them."""
    found: list[Object] = yaml.safe_load((CHART / "files" / f"{name}.yaml").read_text("utf-8"))
    return found


@frozen(order=True)
class Right:
    """One verb on one resource of one API group."""

    verb: str
    group: str
    resource: str


def rights(given: Iterable[Mapping[str, Any]]) -> set[Right]:
    """Return what rules allow, one by one."""
    return {
        Right(verb, group, resource)
        for rule in given
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def path_of(thing: Mapping[str, Any]) -> str:
    """Return the path of an object at the API server."""
    version, kind = thing["apiVersion"], thing["kind"]
    base = f"/api/{version}" if "/" not in version else f"/apis/{version}"
    namespace = thing["metadata"].get("namespace")
    within = f"/namespaces/{namespace}" if namespace else ""
    plural = _PLURALS.get(kind) or kind.lower() + "s"
    return f"{base}{within}/{plural}/{thing['metadata']['name']}"


@define
class Helm:
    """Helm, with files of its own.

    Attributes:
        home: A folder for its cache and its configuration.
        kubeconfig: The cluster; None for commands that need none.
    """

    home: Path
    kubeconfig: Path | None = None

    def __call__(self, *arguments: str) -> str:
        """Run a command; return its output.

        Raises:
            AssertionError: It failed; the text has what it said.
        """
        (program,) = programs(["helm"]).values()
        environment = {**os.environ, "HOME": str(self.home), "HELM_NO_PLUGINS": "1"}
        environment.update(
            {f"HELM_{n}_HOME": str(self.home / n) for n in ("CACHE", "CONFIG", "DATA")}
        )
        if self.kubeconfig is not None:
            environment["KUBECONFIG"] = str(self.kubeconfig)
            self.kubeconfig.chmod(0o600)
        ran = subprocess.run(
            [program, *arguments], env=environment, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, f"helm {' '.join(arguments)}: {ran.stderr}{ran.stdout}"
        return ran.stdout

    def template(self, *more: str, values: Mapping[str, Any] | None = None) -> list[Object]:
        """Return the objects of the chart."""
        return list(_documents(self.text(*more, values=values)))

    def text(self, *more: str, values: Mapping[str, Any] | None = None) -> str:
        """Return the objects of the chart as YAML."""
        # built without the flags of a release, Helm takes every cluster for 1.20
        return self(*self._of_release("template", ("--kube-version", "1.37.2", *more), values))

    def install(self, *more: str, values: Mapping[str, Any] | None = None) -> None:
        """Install the chart, or upgrade it, into ``NAMESPACE``."""
        self(*self._of_release("upgrade", ("--install", "--create-namespace", *more), values))

    def uninstall(self) -> None:
        """Uninstall it."""
        self("uninstall", "gangsched", "--namespace", NAMESPACE)

    def _of_release(
        self, command: str, more: Iterable[str], values: Mapping[str, Any] | None
    ) -> list[str]:
        arguments = [command, "gangsched", str(CHART), "--namespace", NAMESPACE, *more]
        if values is not None:
            file = self.home / "values.json"
            file.write_text(json.dumps(values), encoding="utf-8")
            arguments += ["--values", str(file)]
        return arguments


def plain_manifest(home: Path) -> str:
    """Return the plain manifest: the chart's objects with its defaults, and the namespace."""
    lines = [line for line in Helm(home).text().splitlines() if not _OF_HELM.match(line)]
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    body = "\n".join(lines)
    return f"{_HEAD}---\n{yaml.safe_dump(namespace, sort_keys=False)}{body}\n"


def _documents(text: str) -> Iterator[Object]:
    for document in yaml.safe_load_all(text):
        if document:
            yield document


@define(eq=False)
class Installed:
    """What the chart has put into a cluster, read back from the API server.

    Attributes:
        plane: The control plane.
        name: The name of the release.
        started: The replicas that were started.
    """

    plane: ControlPlane
    name: str = "gangsched"
    started: list[Process] = field(factory=list)

    def get(self, kind: str, name: str | None = None) -> Object | None:
        """Return an object of the namespace by the path of its kind; None if it is absent."""
        try:
            return self.plane.admin.get(
                f"/{kind.replace('@', f'namespaces/{NAMESPACE}')}/{name or self.name}"
            )
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    def configuration(self) -> Object:
        """Return the configuration of the ConfigMap."""
        found = self.get("api/v1/@/configmaps")
        assert found is not None
        document: Object = yaml.safe_load(found["data"]["config.yaml"])
        return document

    def token(self) -> str:
        """Return a token of the ServiceAccount that the Deployment's pods have.

        The API server reads roles from watches, so it is asked until it grants their rules.
        """
        deployment = self.get("apis/apps/v1/@/deployments")
        assert deployment is not None
        account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
        until(lambda: self._are_granted(account), step=0.01)
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
        answer = self.plane.admin.create(path, {"spec": {"expirationSeconds": 3600}})
        token: str = answer["status"]["token"]
        return token

    def _are_granted(self, account: str) -> bool:
        """Return whether the API server grants an account what the roles in the cluster say."""
        rbac = "apis/rbac.authorization.k8s.io/v1"
        roles = (
            self.get(f"{rbac}/clusterroles"),
            self.get(f"{rbac}/@/roles"),
            self.get(f"{rbac}/@/roles", f"{self.name}-extender"),
        )
        return all(
            self._is_granted(account, right, *rule.get("resourceNames", ())[:1])
            for role in roles
            if role is not None
            for rule in role["rules"] or ()  # none if its last right was taken away
            for right in rights([rule])
        )

    def _is_granted(self, account: str, right: Right, name: str = "") -> bool:
        # the administrator asks, whose requests are not in the audit log
        resource, _, subresource = right.resource.partition("/")
        asked = {"namespace": NAMESPACE, "verb": right.verb, "group": right.group, "name": name}
        attributes = {**asked, "resource": resource, "subresource": subresource}
        user = f"system:serviceaccount:{NAMESPACE}:{account}"
        review = {"spec": {"user": user, "resourceAttributes": attributes}}
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        return bool(self.plane.admin.create(path, review)["status"]["allowed"])

    def start(self, python: str, folder: Path) -> tuple[Process, Client]:
        """Start what a pod of the Deployment runs; return it, and a client of its pages.

        The arguments are the container's, the configuration is the ConfigMap's, the rights are the
        ServiceAccount's. Only paths and addresses are those of this machine.
        """
        deployment = self.get("apis/apps/v1/@/deployments")
        assert deployment is not None
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        (port,) = free_ports(1)
        config = folder / f"config-{port}.yaml"
        config.write_text(yaml.safe_dump(self.configuration()), encoding="utf-8")
        (health,) = free_ports(1)
        here = {
            "--config=/etc/gangsched/config.yaml": f"--config={config}",
            "--serve=0.0.0.0:10259": f"--serve=127.0.0.1:{port}",
            "--health=0.0.0.0:10260": f"--health=127.0.0.1:{health}",
        }
        arguments = [here.pop(each, each) for each in container["args"]]
        assert not here, f"the container does not have the arguments {list(here)}"
        kubeconfig = self.plane.kubeconfig(f"replica-{port}", self.token())
        process = Process(
            Path(python),
            ["-m", "gangsched", *arguments],
            folder / f"replica-{port}.log",
            environment={**os.environ, "KUBECONFIG": str(kubeconfig)},
        )
        self.started.append(process)
        client = Client(f"http://127.0.0.1:{port}")
        ready = container["readinessProbe"]["httpGet"]["path"]
        with Client(f"http://127.0.0.1:{health}") as kubelet:
            process.wait_until(lambda: kubelet.raw("GET", ready)[0] == 200)
        return process, client


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        MANIFEST.write_text(plain_manifest(Path(folder)), encoding="utf-8")
