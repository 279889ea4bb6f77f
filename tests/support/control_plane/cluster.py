"""A control plane: etcd, kube-apiserver and, on request, the programs beside them.

Rules:
  R1  everything listens on loopback, at ports that were free; all files are in one folder;
  R2  it is for tests only: etcd does not write through to the disk, and the administrator's token
      stands in a file. Users with limited rights are made by ``accounts``;
  R3  no controller runs unless it is started. So nothing makes service accounts, taints nodes, or
      takes finalizers off claims and volumes; the admission plugins that rely on it are off.
"""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from support.control_plane.client import Client
from support.control_plane.processes import Process, ProgramFailed, free_ports
from support.control_plane.programs import programs

__all__ = ["GANG_FEATURES", "TREE_FEATURES", "ControlPlane"]

GANG_FEATURES: Final[Mapping[str, bool]] = {"GenericWorkload": True}
"""The feature gate of native pod groups in 1.37, for the API server and for kube-scheduler."""

TREE_FEATURES: Final[Mapping[str, bool]] = {
    "CompositePodGroup": True,
    "TopologyAwareWorkloadScheduling": True,
}
"""The further feature gates of groups of groups in 1.37: one depends on the other."""

_GROUPS: Final = "scheduling.k8s.io/v1beta1=true"
_COMPOSITES: Final = "scheduling.k8s.io/v1alpha3=true"
_LOOPBACK: Final = "127.0.0.1"
_WITHOUT: Final = "ServiceAccount,TaintNodesByCondition,StorageObjectInUseProtection"
_TRIES: Final = 3
_ORDER_OF_P256: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


class ControlPlane:
    """etcd and kube-apiserver, which run from ``start`` to ``stop``; also a context manager.

    Args:
        folder: An empty folder for data, logs and certificates.
        features: Feature gates of the API server beside ``GANG_FEATURES``.
        audited: Whether the API server writes what service accounts ask of it to ``audit``.
        client_ca: The authorities of client certificates, as PEM; None for none.

    Attributes:
        folder: The folder.
        url: The address of the API server.
        ca: The file with its certificate, which is also a proxy's that listens with ``key``.
        key: The file with the key of this certificate.
        client_ca: The file with the authorities; the API server reads it again when it changes.
        audit: The file with an audit event a line, by ``support.control_plane.audit``.
        admin: A client with all rights. The API server does not limit its requests, so figures
            are measured with an account.
        etcd: The running etcd.
        apiserver: The running API server.
    """

    etcd: Process
    apiserver: Process
    admin: Client

    def __init__(
        self,
        folder: Path,
        *,
        features: Mapping[str, bool] | None = None,
        audited: bool = False,
        client_ca: bytes | None = None,
    ) -> None:
        self.folder: Final = folder
        self.audit: Final = folder / "audit.jsonl"
        self.url = ""
        self.ca: Final = folder / "certificates" / "apiserver.crt"
        self.key: Final = self.ca.with_suffix(".key")
        self._features: Final = {**GANG_FEATURES, **(features or {})}
        self._audited: Final = audited
        self.client_ca: Final = folder / "client-ca.crt"
        self._authorities: Final = client_ca
        self._token: Final = secrets.token_hex(16)
        self._signing_key: Final = folder / "service-accounts.key"
        self._beside: Final[list[Process]] = []
        self._clients: Final[list[Client]] = []
        self._arguments: list[str] = []

    def __enter__(self) -> ControlPlane:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start both programs, and return once the API server is ready.

        Raises:
            NoToolchain: The programs cannot be built.
            ProgramFailed: A program ended early or did not become ready.
        """
        found = programs(["etcd", "kube-apiserver"])
        self.folder.mkdir(parents=True, exist_ok=True)
        self._signing_key.write_text(_private_key(), encoding="ascii")
        tokens = self.folder / "tokens.csv"
        tokens.write_text(f"{self._token},admin,admin,system:masters\n", encoding="ascii")
        for attempt in range(_TRIES):
            # a port that was free a moment ago may be taken by now
            clients, peers, port = free_ports(3)
            self.url = f"https://{_LOOPBACK}:{port}"
            try:
                self._start_etcd(found["etcd"], clients, peers)
                self._arguments = self._apiserver_arguments(clients, port, tokens)
                self.start_apiserver()
            except ProgramFailed:
                self.stop()
                if attempt == _TRIES - 1:
                    raise
            else:
                break
        self.admin = self.client(self._token)

    def stop(self) -> None:
        """Stop every program, the latest first, and close the clients."""
        for client in self._clients:
            client.close()
        for process in reversed(self._beside):
            process.stop()
        self._beside.clear()
        # an API server that ends by itself waits for its watches, and its data is not needed
        for name in ("apiserver", "etcd"):
            running: Process | None = getattr(self, name, None)
            if running is not None:
                running.kill()

    def start_apiserver(self) -> None:
        """Start the API server, again after a kill, and return once it is ready."""
        (program,) = programs(["kube-apiserver"]).values()
        self.apiserver = Process(program, self._arguments, self.folder / "kube-apiserver.log")
        # the file with its certificate appears while it starts
        with Client(self.url, self._token) as probe:
            self.apiserver.wait_until(lambda: probe.raw("GET", "/readyz")[0] == 200)

    def client(self, token: str) -> Client:
        """Return a client with the rights of a token; it is closed when everything stops."""
        client = Client(self.url, token, self.ca)
        self._clients.append(client)
        return client

    def kubeconfig(self, name: str, token: str | None = None, url: str | None = None) -> Path:
        """Write a kubeconfig and return its path.

        Args:
            name: The name of the file.
            token: The token of the user; None for the administrator's.
            url: The address to connect to, such as that of a proxy; None for the API server's.
        """
        cluster: dict[str, Any] = {"server": url or self.url}
        if cluster["server"].startswith("https"):
            cluster["certificate-authority"] = str(self.ca)
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": {"token": token or self._token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "current-context": "test",
        }
        return self._write(f"{name}.kubeconfig", content)

    def start_scheduler(
        self,
        configuration: Mapping[str, Any] | None = None,
        *,
        features: Mapping[str, bool] = GANG_FEATURES,
        verbosity: int = 2,
    ) -> Process:
        """Start kube-scheduler, and return it once it is ready.

        Args:
            configuration: Fields of its ``KubeSchedulerConfiguration``, such as ``profiles``.
            features: Its feature gates.
            verbosity: How much it logs.
        """
        (program,) = programs(["kube-scheduler"]).values()
        kubeconfig = str(self.kubeconfig("kube-scheduler"))
        content = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": kubeconfig, "qps": 5000, "burst": 5000},
            **(configuration or {}),
        }
        (port,) = free_ports(1)
        arguments = [
            f"--config={self._write('kube-scheduler.json', content)}",
            f"--bind-address={_LOOPBACK}",
            f"--secure-port={port}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            f"--v={verbosity}",
        ]
        if features:
            arguments.append(f"--feature-gates={_gates(features)}")
        return self._start_beside(program, arguments, f"https://{_LOOPBACK}:{port}", "/readyz")

    def start_controller_manager(
        self, controllers: str = "*,-nodelifecycle,-nodeipam", *others: str
    ) -> Process:
        """Start kube-controller-manager, and return it once it is ready.

        Args:
            controllers: Which controllers run.
            others: Further arguments of the program.
        """
        (program,) = programs(["kube-controller-manager"]).values()
        (port,) = free_ports(1)
        arguments = [
            f"--kubeconfig={self.kubeconfig('kube-controller-manager')}",
            f"--service-account-private-key-file={self._signing_key}",
            f"--controllers={controllers}",
            f"--bind-address={_LOOPBACK}",
            f"--secure-port={port}",
            "--leader-elect=false",
            *others,
        ]
        return self._start_beside(program, arguments, f"https://{_LOOPBACK}:{port}", "/healthz")

    def start_kwok(self, stages: Path) -> Process:
        """Start kwok as the kubelet of every node, with the stages of a file."""
        (program,) = programs(["kwok"]).values()
        (port,) = free_ports(1)
        arguments = [
            f"--kubeconfig={self.kubeconfig('kwok')}",
            "--manage-all-nodes=true",
            f"--config={stages}",
            f"--server-address={_LOOPBACK}:{port}",
        ]
        return self._start_beside(program, arguments, f"http://{_LOOPBACK}:{port}", "/readyz")

    def beside(self, process: Process) -> None:
        """Stop a program with the control plane, before what it depends on."""
        self._beside.append(process)

    def _start_beside(
        self, program: Path, arguments: list[str], url: str, ready_path: str
    ) -> Process:
        log = self.folder / f"{program.name}-{len(self._beside)}.log"
        process = Process(program, arguments, log, url=url)
        self._beside.append(process)
        with Client(url) as probe:
            process.wait_until(lambda: probe.raw("GET", ready_path)[0] == 200)
        return process

    def _start_etcd(self, program: Path, clients: int, peers: int) -> None:
        own, others = f"http://{_LOOPBACK}:{clients}", f"http://{_LOOPBACK}:{peers}"
        arguments = [
            f"--data-dir={self.folder / f'etcd-{clients}'}",
            f"--listen-client-urls={own}",
            f"--advertise-client-urls={own}",
            f"--listen-peer-urls={others}",
            f"--initial-advertise-peer-urls={others}",
            f"--initial-cluster=default={others}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]
        self.etcd = Process(program, arguments, self.folder / "etcd.log")
        with Client(own) as probe:
            self.etcd.wait_until(lambda: probe.raw("GET", "/readyz")[0] == 200)

    def _apiserver_arguments(self, etcd: int, port: int, tokens: Path) -> list[str]:
        return [
            f"--etcd-servers=http://{_LOOPBACK}:{etcd}",
            f"--bind-address={_LOOPBACK}",
            f"--secure-port={port}",
            f"--cert-dir={self.ca.parent}",
            f"--service-account-key-file={self._signing_key}",
            f"--service-account-signing-key-file={self._signing_key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.0.0.0/24",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            f"--disable-admission-plugins={_WITHOUT}",
            "--allow-privileged=true",
            "--max-requests-inflight=4000",
            "--max-mutating-requests-inflight=2000",
            f"--feature-gates={_gates(self._features)}",
            f"--runtime-config={self._versions()}",
            *self._audit_arguments(),
            *self._client_ca_arguments(),
        ]

    def _versions(self) -> str:
        return f"{_GROUPS},{_COMPOSITES}" if self._features.get("CompositePodGroup") else _GROUPS

    def _client_ca_arguments(self) -> list[str]:
        if self._authorities is None:
            return []
        self.client_ca.write_bytes(self._authorities)
        return [f"--client-ca-file={self.client_ca}"]

    def _audit_arguments(self) -> list[str]:
        if not self._audited:
            return []
        accounts = {"level": "Metadata", "userGroups": ["system:serviceaccounts"]}
        policy = {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [accounts, {"level": "None"}],
        }
        policy_file = self._write("audit-policy.json", policy)
        return [f"--audit-policy-file={policy_file}", f"--audit-log-path={self.audit}"]

    def _write(self, name: str, content: Mapping[str, Any]) -> Path:
        path = self.folder / name
        path.write_text(json.dumps(content, indent=1), encoding="utf-8")  # JSON is YAML
        path.chmod(0o600)
        return path


def _gates(features: Mapping[str, bool]) -> str:
    return ",".join(f"{name}={str(on).lower()}" for name, on in sorted(features.items()))


def _private_key() -> str:
    """Return a new private key on the curve P-256, as PEM of RFC 5915; it signs tokens.

    The public key, which is optional there, is left out: it follows from the private one.
    """
    secret = (1 + secrets.randbelow(_ORDER_OF_P256 - 1)).to_bytes(32, "big")
    curve = bytes.fromhex("a00a06082a8648ce3d030107")  # [0] { OID 1.2.840.10045.3.1.7 }
    content = b"\x02\x01\x01" + b"\x04\x20" + secret + curve
    der = bytes([0x30, len(content)]) + content
    text = base64.encodebytes(der).decode("ascii")
    return f"-----BEGIN EC PRIVATE KEY-----\n{text}-----END EC PRIVATE KEY-----\n"
