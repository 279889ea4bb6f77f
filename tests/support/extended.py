"""A cluster of which the pods are placed by a stock kube-scheduler with the extender."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from attrs import define, field

from support.cluster_objects import class_of
from support.control_plane import ControlPlane, Process
from support.control_plane.client import Client
from support.control_plane.processes import free_ports
from support.extended_cluster import extended_configuration, start_extender
from support.extender_tls import TlsFiles
from support.patience import until
from support.priority_class import create_class

__all__ = ["SCHEDULER", "Extended"]

SCHEDULER: Final = "extended"
_GROUPS: Final = "/apis/scheduling.k8s.io/v1beta1/namespaces/{}/podgroups"
_COUNT: Final = r'gangsched_extender_requests_total\{code="(\d+)",verb="(\w+)"\} (\d+)'


@define(eq=False)
class Extended:
    """A cluster of which the pods are placed by a stock kube-scheduler with the extender.

    Attributes:
        plane: The control plane.
        namespace: Where the pods are.
        folder: Where the extender logs.
        tls: The certificates of both; None for plain HTTP.
        url: Where the extender is, once it was started.
        extender: The extender, once it was started.
        scheduler: kube-scheduler, once it was started.
    """

    plane: ControlPlane
    namespace: str
    folder: Path
    tls: TlsFiles | None = None
    url: str = ""
    extender: Process = field(init=False)
    scheduler: Process = field(init=False)
    _pages: int = 0

    def start(self, **args: Any) -> None:
        """Start both programs, with the arguments of plugins of kube-scheduler."""
        self.start_extender()
        self.start_scheduler(**args)

    def start_extender(self, *more: str, plugins: Mapping[str, Any] | None = None) -> None:
        """Start the extender.

        Args:
            more: Further arguments.
            plugins: By name, the arguments of plugins of the extender that are enabled by these.
        """
        given = [*more, *(self.tls.arguments() if self.tls else ())]
        if plugins is not None:
            config = [{"name": name, "args": args} for name, args in plugins.items()]
            file = self.folder / "extender.yaml"
            profile = {"schedulerName": SCHEDULER, "pluginConfig": config}
            file.write_text(yaml.safe_dump({"profiles": [profile]}), encoding="utf-8")
            given.append(f"--config={file}")
        (self._pages,) = free_ports(1)
        self.extender, self.url = start_extender(
            self.plane, self.folder, names=[SCHEDULER], more=given, pages=self._pages
        )

    def start_scheduler(
        self,
        *,
        tls: Mapping[str, str] | None = None,
        timeout: str | None = None,
        election: Mapping[str, Any] | None = None,
        **args: Any,
    ) -> None:
        """Start kube-scheduler.

        Args:
            tls: Its ``tlsConfig``; None for that which fits the extender.
            timeout: Its ``httpTimeout``; None for that of the example.
            election: Its ``leaderElection``; None for none.
            args: By name, the arguments of its plugins.
        """
        if tls is None and self.tls is not None:
            tls = self.tls.of_scheduler()
        configuration = extended_configuration(self.url, [SCHEDULER], tls)
        (profile,) = configuration["profiles"]
        profile["pluginConfig"] = [{"name": name, "args": each} for name, each in args.items()]
        if timeout is not None:
            configuration["extenders"][0]["httpTimeout"] = timeout
        if election is not None:
            configuration["leaderElection"] = dict(election)
        self.scheduler = self.plane.start_scheduler(configuration, features={})

    def stop(self) -> None:
        """Stop both programs."""
        for each in ("scheduler", "extender"):
            running: Process | None = getattr(self, each, None)
            if running is not None:
                running.stop()

    def requests(self) -> dict[tuple[str, int], int]:
        """Return how many requests of each verb the extender has answered, by the HTTP status."""
        with Client(f"http://127.0.0.1:{self._pages}") as client:
            _status, text = client.raw("GET", "/metrics")
        found = (m.groups() for m in re.finditer(_COUNT, text.decode("utf-8")))
        counts = {(verb, int(code)): int(count) for code, verb, count in found}
        return {key: count for key, count in counts.items() if count}  # each series begins with 0

    def add_class(self, name: str, value: int) -> None:
        """Add a priority class, if it is not there."""
        create_class(self.plane.admin, name, value)

    def add_node(self, name: str, labels: Mapping[str, str] | None = None, **offered: str) -> None:
        """Add a node."""
        offers = {"cpu": "8", "memory": "32Gi", "pods": "110", **offered}
        labels = {"kubernetes.io/hostname": name, **(labels or {})}
        status = {"allocatable": offers, "capacity": offers}
        body = {"metadata": {"name": name, "labels": labels}, "status": status}
        self.plane.admin.create("/api/v1/nodes", body)

    def add_group(self, name: str, size: int, **spec: Any) -> None:
        whole = {"schedulingPolicy": {"gang": {"minCount": size}}, **spec}
        body = {"metadata": {"name": name}, "spec": whole}
        self.plane.admin.create(_GROUPS.format(self.namespace), body)

    def add_pod(self, name: str, group: str | None = None, cpu: str = "1", **more: Any) -> None:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        spec: dict[str, Any] = {"schedulerName": SCHEDULER, "containers": [container], **more}
        if group is not None:
            spec["schedulingGroup"] = {"podGroupName": group}
        self.plane.admin.create(self._pods, {"metadata": {"name": name}, "spec": spec})

    def add_gang(self, name: str, size: int, **more: Any) -> None:
        self.add_group(name, size, **class_of(more))
        for number in range(size):
            self.add_pod(f"{name}-{number}", name, **more)

    def nodes(self, prefix: str = "") -> list[str | None]:
        """Return the node of each pod whose name begins so."""
        pods = self.plane.admin.items(self._pods)
        found = [pod for pod in pods if pod["metadata"]["name"].startswith(prefix)]
        return [pod["spec"].get("nodeName") for pod in found]

    def until(self, true: Callable[[], object]) -> None:
        until(true, lambda: f"{self.nodes()}\n{self.extender.log_tail()}")

    def until_bound(self, prefix: str = "") -> None:
        self.until(lambda: (nodes := self.nodes(prefix)) and all(nodes))

    def until_refused(self, name: str, text: str) -> None:
        def says() -> bool:
            pod = self.plane.admin.get(f"{self._pods}/{name}")
            found = pod["status"].get("conditions", [])
            return any(text in condition.get("message", "") for condition in found)

        self.until(says)

    @property
    def _pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"
