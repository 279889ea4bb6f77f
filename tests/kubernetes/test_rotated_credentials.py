"""Credentials that are replaced while the scheduler runs, on an API server that refuses old ones.

The old credential stops being valid in the middle: the API server trusts its authority no longer,
and the token's Secret is deleted. The test sees that the API server refuses it, and then asks for
more.
"""

from __future__ import annotations

import json
import ssl
import sys
import time
from collections.abc import Iterator
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import trustme

from support.control_plane import Account, ControlPlane, Process
from support.control_plane.fixtures import need_control_plane
from support.control_plane.processes import free_ports
from support.patience import HANG, until
from support.scheduled_cluster import Cluster, documented_rights

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_USER = "gangsched-by-certificate"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    need_control_plane()
    folder = tmp_path_factory.mktemp("rotation")
    with ControlPlane(folder, client_ca=trustme.CA().cert_pem.bytes()) as running:
        yield running


def cluster_of(plane: ControlPlane, namespace: str) -> Cluster:
    plane.admin.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    found = Cluster(plane, namespace)
    found.add_nodes(2)
    return found


def start(cluster: Cluster, user: dict[str, Any]) -> Process:
    """Start the command with a kubeconfig whose user is as given."""
    folder, plane = cluster.plane.folder, cluster.plane
    path = plane.kubeconfig(cluster.name)
    content = json.loads(path.read_text(encoding="utf-8"))
    content["users"][0]["user"] = user
    path.write_text(json.dumps(content), encoding="utf-8")
    configuration = folder / f"{cluster.name}.json"
    configuration.write_text(
        json.dumps(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "leaderElection": {"leaderElect": False},
                "profiles": [{"schedulerName": cluster.name}],
            }
        ),
        encoding="utf-8",
    )
    (port,) = free_ports(1)
    command = ["-m", "gangsched.cli", "run", f"--kubeconfig={path}", f"--config={configuration}"]
    command.append(f"--serve=127.0.0.1:{port}")
    process = Process(Path(sys.executable), command, folder / f"{cluster.name}.log")
    plane.beside(process)
    return process


def status_with(plane: ControlPlane, *, token: str = "", certificate: Path | None = None) -> int:
    """Return the status with which the API server answers a credential."""
    context = ssl.create_default_context(cafile=str(plane.ca))
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if certificate is not None:
        context.load_cert_chain(certificate)
    parts = urlsplit(plane.url)
    connection = HTTPSConnection(parts.hostname or "", parts.port, timeout=HANG, context=context)
    try:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        connection.request("GET", "/api/v1/nodes?limit=1", headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


def replace(path: Path, content: bytes) -> None:
    """Replace a file as a whole, as an agent that rotates credentials does."""
    new = path.with_suffix(".new")
    new.write_bytes(content)
    new.replace(path)


def test_client_certificate_is_replaced_while_gangs_are_placed(
    plane: ControlPlane, tmp_path: Path
) -> None:
    cluster = cluster_of(plane, "by-certificate")
    certificate, key, old = tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "old.pem"
    authorities = trustme.CA(), trustme.CA()
    first, later = (each.issue_cert("gangsched.test", common_name=_USER) for each in authorities)
    old.write_bytes(first.private_key_and_cert_chain_pem.bytes())
    replace(plane.client_ca, b"".join(each.cert_pem.bytes() for each in authorities))
    until(lambda: status_with(plane, certificate=old) == 403)  # known, and it may do nothing yet
    role = {"metadata": {"name": _USER}, "rules": [r.as_object() for r in documented_rights()]}
    plane.admin.create(f"{_RBAC}/clusterroles", role)
    named = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": _USER}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": _USER}
    binding = {"metadata": {"name": _USER}, "roleRef": named, "subjects": [subject]}
    plane.admin.create(f"{_RBAC}/clusterrolebindings", binding)
    replace(key, first.private_key_pem.bytes())
    replace(certificate, first.cert_chain_pems[0].bytes())
    process = start(cluster, {"client-certificate": str(certificate), "client-key": str(key)})
    cluster.add_gang("before", 2)
    until(lambda: cluster.all_bound(2))
    # between the two files the key does not match the certificate
    replace(certificate, later.cert_chain_pems[0].bytes())
    time.sleep(0.5)
    replace(key, later.private_key_pem.bytes())
    replace(plane.client_ca, authorities[1].cert_pem.bytes())
    until(lambda: status_with(plane, certificate=old) == 401)
    cluster.add_gang("after", 2)
    until(lambda: cluster.all_bound(4))
    assert process.is_running


def test_token_file_is_replaced_after_the_old_token_was_refused(
    plane: ControlPlane, tmp_path: Path
) -> None:
    cluster = cluster_of(plane, "by-token")
    account = Account.create(plane.admin, "rotated", documented_rights())
    old, later = (_token_of_a_secret(plane, account, name) for name in ("old", "later"))
    file = tmp_path / "token"
    replace(file, old.encode())
    process = start(cluster, {"tokenFile": str(file)})
    cluster.add_gang("before", 2)
    until(lambda: cluster.all_bound(2))
    plane.admin.delete("/api/v1/namespaces/kube-system/secrets/old")
    until(lambda: status_with(plane, token=old) == 401)  # accepted from a cache until then
    cluster.add_gang("after", 2)
    time.sleep(2.0)
    assert not cluster.all_bound(4)
    replace(file, later.encode())
    until(lambda: cluster.all_bound(4))
    assert process.is_running


def _token_of_a_secret(plane: ControlPlane, account: Account, name: str) -> str:
    """Return a token that is valid until the Secret of a name is deleted."""
    namespace = f"/api/v1/namespaces/{account.namespace}"
    made = plane.admin.create(f"{namespace}/secrets", {"metadata": {"name": name}})
    bound = {"kind": "Secret", "apiVersion": "v1", "name": name, "uid": made["metadata"]["uid"]}
    spec = {"expirationSeconds": 3600, "boundObjectRef": bound}
    path = f"{namespace}/serviceaccounts/{account.name}/token"
    token: str = plane.admin.create(path, {"spec": spec})["status"]["token"]
    return token
