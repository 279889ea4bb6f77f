"""What an API server refuses for a while: tokens that are revoked, quotas, groups being deleted."""

from __future__ import annotations

import asyncio
import json
import stat
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gangsched.configuration import LeaderElection, ProfileSettings, Settings
from gangsched.kubernetes._client import connect
from support.cluster_objects import group_json, node_json, pod_json
from support.control_plane import Account, ApiError, Client, ControlPlane, Rule
from support.patience import eventually
from support.running import on_a_loop, running

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

_GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/{}/podgroups"
_PLUGIN = """#!{python}
import json, pathlib
token = pathlib.Path({token!r}).read_text()
pathlib.Path({calls!r}).open("a").write("called\\n")
status = {{"token": token, "expirationTimestamp": {expires!r}}}
print(json.dumps({{
    "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status,
}}))
"""


@asynccontextmanager
async def scheduling(plane: ControlPlane, name: str, kubeconfig: Path) -> AsyncIterator[None]:
    """Run a scheduler of a name, with two nodes that only its pods select."""
    for number in range(2):
        node = node_json(f"{name}-{number}")
        node["metadata"]["labels"]["test"] = name
        plane.admin.create("/api/v1/nodes", node)
    api = await connect(kubeconfig=str(kubeconfig))
    profile = ProfileSettings(scheduler_names=(name,))
    settings = Settings(leader_election=LeaderElection(leader_elect=False), profile=profile)
    try:
        async with running(api, settings):
            yield
    finally:
        await api.aclose()
        for number in range(2):
            plane.admin.delete(f"/api/v1/nodes/{name}-{number}")


def add_pod(admin: Client, namespace: str, name: str, group: str, **query: str) -> None:
    pod = pod_json(name, scheduler=namespace, namespace=namespace, group=group)
    pod["spec"]["nodeSelector"] = {"test": namespace}
    del pod["status"]
    admin.create(f"/api/v1/namespaces/{namespace}/pods", pod, **query)


def add_group(admin: Client, namespace: str, name: str, size: int) -> None:
    admin.create(_GROUPS.format(namespace), group_json(name, size, namespace=namespace))


def whole(admin: Client, namespace: str, size: int) -> Callable[[], bool]:
    def look() -> bool:
        pods = admin.items(f"/api/v1/namespaces/{namespace}/pods")
        return len(pods) == size and all(pod["spec"].get("nodeName") for pod in pods)

    return look


def account(plane: ControlPlane, name: str) -> str:
    return Account.create(plane.admin, name, [Rule(["*"], ["*"], "*")]).token


@on_a_loop
async def test_gang_starts_after_the_token_of_an_exec_plugin_was_revoked(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    admin = control_plane.admin
    token, calls, plugin = (tmp_path / name for name in ("token", "calls", "plugin"))
    old = account(control_plane, f"{namespace}-old")
    token.write_text(old, encoding="utf-8")
    expires = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    text = _PLUGIN.format(
        python=sys.executable, token=str(token), calls=str(calls), expires=expires
    )
    plugin.write_text(text, encoding="utf-8")
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    document: dict[str, Any] = json.loads(control_plane.kubeconfig(namespace).read_text())
    exec_plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": str(plugin),
        "interactiveMode": "Never",
    }
    document["users"][0]["user"] = {"exec": exec_plugin}
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(json.dumps(document), encoding="utf-8")
    async with scheduling(control_plane, namespace, kubeconfig):
        add_pod(admin, namespace, "g-0", "g")
        before = len(calls.read_text().splitlines())
        token.write_text(account(control_plane, f"{namespace}-new"), encoding="utf-8")
        # the API server refuses the token of an account that is gone
        admin.delete(f"/api/v1/namespaces/kube-system/serviceaccounts/{namespace}-old")
        # it remembers for 10 s that a token was good
        with control_plane.client(old) as holder:
            await eventually(lambda: holder.raw("GET", "/api/v1/nodes?limit=1")[0] == 401)
        add_pod(admin, namespace, "g-1", "g")
        add_group(admin, namespace, "g", 2)
        await eventually(whole(admin, namespace, 2))
    assert len(calls.read_text().splitlines()) > before


@on_a_loop
async def test_gang_waits_while_a_quota_refuses_its_last_member(
    control_plane: ControlPlane, namespace: str
) -> None:
    admin = control_plane.admin

    def is_admitted(name: str, **query: str) -> bool:
        try:
            add_pod(admin, namespace, name, "g", **query)
        except ApiError as error:
            if error.status != 403:
                raise
            return False
        return True

    quotas = f"/api/v1/namespaces/{namespace}/resourcequotas"
    hard = {"hard": {"pods": "2"}}
    admin.create(quotas, {"metadata": {"name": "q"}, "spec": hard})

    def write_used(count: str) -> None:  # no controller runs that would do it
        admin.patch(f"{quotas}/q/status", {"status": {**hard, "used": {"pods": count}}})

    # until the API server has seen the status it admits pods that it does not count
    write_used("2")
    await eventually(lambda: not is_admitted("g-0", dryRun="All"))
    write_used("0")
    kubeconfig = control_plane.kubeconfig(namespace, account(control_plane, namespace))
    async with scheduling(control_plane, namespace, kubeconfig):
        add_group(admin, namespace, "g", 3)
        # the API server refuses pods until it has seen that none is there
        for name in ("g-0", "g-1"):
            await eventually(partial(is_admitted, name))
        with pytest.raises(ApiError, match="exceeded quota"):
            add_pod(admin, namespace, "g-2", "g")
        await asyncio.sleep(1.0)
        pods = admin.items(f"/api/v1/namespaces/{namespace}/pods")
        assert [pod["spec"].get("nodeName") for pod in pods] == [None, None]
        admin.delete(f"{quotas}/q")
        # the API server sees some time later that the quota is gone
        await eventually(partial(is_admitted, "g-2"))
        await eventually(whole(admin, namespace, 3))


@on_a_loop
async def test_gang_starts_while_a_finalizer_keeps_its_deleted_group(
    control_plane: ControlPlane, namespace: str
) -> None:
    admin = control_plane.admin
    kubeconfig = control_plane.kubeconfig(namespace, account(control_plane, namespace))
    async with scheduling(control_plane, namespace, kubeconfig):
        add_group(admin, namespace, "g", 2)
        add_pod(admin, namespace, "g-0", "g")
        admin.delete(_GROUPS.format(namespace) + "/g")
        group = admin.get(_GROUPS.format(namespace) + "/g")
        assert group["metadata"]["deletionTimestamp"]
        assert group["metadata"]["finalizers"] == ["scheduling.k8s.io/podgroup-protection"]
        add_pod(admin, namespace, "g-1", "g")
        await eventually(whole(admin, namespace, 2))
    # no controller runs that would do it
    admin.patch(_GROUPS.format(namespace) + "/g", {"metadata": {"finalizers": []}})
