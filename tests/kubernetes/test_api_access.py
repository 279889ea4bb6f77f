"""The client, the reflectors and the readers on a real API server."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("aiohttp", reason="the extra kubernetes is not installed")
pytest.importorskip("httptools", reason="the extra kubernetes-fast is not installed")
pytest.importorskip("kubernetes_asyncio", reason="the extra kubernetes is not installed")

from gangsched.events import NodeAdded, PodAdded, PodGroupAdded
from gangsched.kubernetes import read_event, read_notification
from gangsched.kubernetes._api import MERGE_PATCH, Api, ConnectionLost
from gangsched.kubernetes._client import TransportName, connect
from gangsched.kubernetes._counted import close_stream
from gangsched.kubernetes._decode import GroupDecoder, GroupFacts, NodeDecoder, PodDecoder, PodFacts
from gangsched.kubernetes._discovery import Dialect, discover, watch_dialects
from gangsched.kubernetes._events import read_event_line
from gangsched.kubernetes._reflector import Delta, Reflector, ReflectorState, Resource
from support.control_plane import Account, ControlPlane, Rule
from support.definitions import CRDS, definition, remove_definitions
from support.patience import HANG, until_on_loop
from support.scripted_api import run

pytestmark = pytest.mark.once("makes no scheduler")

each_transport = pytest.mark.parametrize("transport", ["aiohttp", "httptools"])

READS = [Rule(["get", "list", "watch"], ["pods", "nodes"])]
SPEC: dict[str, Any] = {
    "schedulerName": "nothing",
    "containers": [
        {
            "name": "c",
            "image": "x",
            "resources": {
                "requests": {"cpu": "100m", "memory": "1Gi"},
                "limits": {"memory": "2Gi"},
            },
            "ports": [{"containerPort": 80}],
            "env": [{"name": "A", "value": "b"}],
        }
    ],
    "initContainers": [
        {
            "name": "i",
            "image": "x",
            "restartPolicy": "Always",
            "resources": {"requests": {"cpu": "1"}},
        }
    ],
    "nodeSelector": {"zone": "a"},
    "tolerations": [{"key": "gpu", "operator": "Exists"}],
    "schedulingGates": [{"name": "example.org/quota"}],
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"a": "b"}},
        }
    ],
    "volumes": [{"name": "v", "emptyDir": {}}],
}


@asynccontextmanager
async def client(
    control_plane: ControlPlane, transport: TransportName = "auto", token: str | None = None
) -> AsyncIterator[Api]:
    kubeconfig = control_plane.kubeconfig("client", token)
    api = await connect(kubeconfig=str(kubeconfig), transport=transport)
    try:
        yield api
    finally:
        await api.aclose()


class Watched:
    """What a reflector of the pods of one namespace told."""

    def __init__(self, api: Api, namespace: str, **options: Any) -> None:
        self.pods: dict[str, PodFacts] = {}
        self.kinds: list[str] = []
        self.states: list[ReflectorState] = []
        self.reflector: Reflector[PodFacts] = Reflector(
            api,
            Resource(f"/api/v1/namespaces/{namespace}/pods", "Pod"),
            PodDecoder(),
            self.sink,
            on_state=self.states.append,
            **options,
        )

    def sink(self, deltas: list[Delta[PodFacts]]) -> None:
        for delta in deltas:
            self.kinds.append(delta.kind)
            if delta.identity is None:
                continue
            if delta.value is not None:
                self.pods[delta.identity.key] = delta.value
            elif delta.kind == "deleted":
                del self.pods[delta.identity.key]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.ensure_future(self.reflector.run())
        try:
            await until_on_loop(lambda: self.reflector.synced)
            yield
        finally:
            task.cancel()
            (ended,) = await asyncio.gather(task, return_exceptions=True)
            assert isinstance(ended, asyncio.CancelledError), ended

    def names(self) -> list[str]:
        return sorted(key.partition("/")[2] for key in self.pods)


def restart(control_plane: ControlPlane) -> None:
    control_plane.apiserver.kill()
    start_again(control_plane)


def start_again(control_plane: ControlPlane) -> None:
    control_plane.admin.close()
    control_plane.start_apiserver()


async def create(api: Api, namespace: str, name: str, **spec: Any) -> dict[str, Any]:
    body = {
        "metadata": {"name": name, "labels": {"index": name}},
        "spec": {"schedulerName": "nothing", "containers": [{"name": "c", "image": "x"}], **spec},
    }
    path = f"/api/v1/namespaces/{namespace}/pods"
    answer = await api.request("POST", path, body=json.dumps(body).encode())
    assert answer.status == 201, answer
    return dict(json.loads(answer.body))


async def delete(api: Api, namespace: str, name: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods/{name}?gracePeriodSeconds=0"
    assert (await api.request("DELETE", path)).is_success


async def bind(api: Api, namespace: str, name: str, uid: str, node: str) -> int:
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "uid": uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/binding"
    return (await api.request("POST", path, body=json.dumps(body).encode(), lane="binds")).status


@each_transport
def test_client_reads_writes_and_patches(
    control_plane: ControlPlane, namespace: str, transport: TransportName
) -> None:
    async def story() -> None:
        async with client(control_plane, transport) as api:
            made = await create(api, namespace, "p")
            path = f"/api/v1/namespaces/{namespace}/pods/p"
            patch = json.dumps({"metadata": {"labels": {"a": "b"}}}).encode()
            patched = await api.request("PATCH", path, body=patch, content_type=MERGE_PATCH)
            assert patched.status == 200
            assert json.loads(patched.body)["metadata"]["labels"]["a"] == "b"
            uid = made["metadata"]["uid"]
            assert await bind(api, namespace, "p", "another", "n") == 409
            assert await bind(api, namespace, "p", uid, "n") == 201
            assert await bind(api, namespace, "p", uid, "n") == 409
            assert (await api.request("GET", f"{path}-absent")).status == 404

    run(story())


@each_transport
def test_api_server_is_verified(
    control_plane: ControlPlane, tmp_path: Any, transport: TransportName
) -> None:
    pytest.importorskip("trustme", reason="trustme is not installed")
    import trustme

    other = tmp_path / "other.crt"
    trustme.CA().cert_pem.write_to_path(str(other))
    text = control_plane.kubeconfig("wrong").read_text(encoding="utf-8")
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(text.replace(str(control_plane.ca), str(other)), encoding="utf-8")

    async def story() -> None:
        api = await connect(kubeconfig=str(kubeconfig), transport=transport)
        try:
            problem = ""
            async with asyncio.timeout(HANG):
                while "certificate" not in problem:  # on a slow machine there is no answer in time
                    with pytest.raises(ConnectionLost) as lost:
                        await api.request("GET", "/version", timeout=3.0)
                    assert not lost.value.sent
                    problem = str(lost.value).lower()
        finally:
            await api.aclose()

    run(story())
    assert ssl.OPENSSL_VERSION


@each_transport
@pytest.mark.parametrize("streaming", [True, False])
def test_reflector_follows_creation_binding_and_deletion(
    control_plane: ControlPlane, namespace: str, transport: TransportName, streaming: bool
) -> None:
    async def story() -> None:
        async with client(control_plane, transport) as api:
            for name in ("a", "b", "c"):
                await create(api, namespace, name)
            # a stream that is given up on a slow machine would be another listing
            one = Watched(api, namespace, streaming=streaming, page=2, first_event=HANG)
            async with one.running():
                assert one.names() == ["a", "b", "c"]
                assert one.kinds == ["added", "added", "added", "synced"]
                made = await create(api, namespace, "d")
                await bind(api, namespace, "d", made["metadata"]["uid"], "n7")
                await delete(api, namespace, "a")
                await until_on_loop(lambda: one.names() == ["b", "c", "d"])
                await until_on_loop(lambda: one.pods[f"{namespace}/d"].pod.node_name == "n7")
            # the streamed listing is followed by its own watch; a listing by one of its own
            names = [state.name for state in one.states]
            assert names == ["listing", "watching"]

    run(story())


def test_readers_agree_with_the_slow_reader_on_what_the_api_server_sends(
    control_plane: ControlPlane, namespace: str
) -> None:
    groups = f"/apis/scheduling.k8s.io/v1beta1/namespaces/{namespace}/podgroups"
    control_plane.admin.create(
        groups,
        {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}},
    )
    offers = {"cpu": "1", "memory": "1Gi", "pods": "10"}
    control_plane.admin.create(
        "/api/v1/nodes",
        {
            "metadata": {"name": f"node-{namespace}", "labels": {"zone": "a"}},
            "spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]},
            "status": {"allocatable": offers},
        },
    )

    async def lines(api: Api, path: str) -> list[bytes]:
        """Return the events of what is there; a bookmark comes after them."""
        query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        found: list[bytes] = []
        watch = api.watch(f"{path}?{query}&allowWatchBookmarks=true", timeout=HANG)
        try:
            async for batch in watch:
                for line in filter(None, batch):
                    if b"k8s.io/initial-events-end" in line:
                        return found
                    found.append(line)
        finally:
            await close_stream(watch)
        raise AssertionError(f"the watch of {path} ended after {found}")

    async def story() -> None:
        async with client(control_plane) as api:
            for number in range(3):
                await create(api, namespace, f"p{number}", **SPEC)
            made = await create(api, namespace, "q", schedulingGroup={"podGroupName": "g"})
            await bind(api, namespace, "q", made["metadata"]["uid"], "n7")
            decode_pod, decode_node = PodDecoder(), NodeDecoder()
            found = await lines(api, f"/api/v1/namespaces/{namespace}/pods")
            assert len(found) == 4
            for line in [*found, *found]:
                # the decoder reads pods of every scheduler, and leaves the choice to its user
                slow = read_notification(json.loads(line), scheduler_names=["nothing"]).event
                assert isinstance(slow, PodAdded)
                assert decode_pod(read_event_line(line).object).pod == slow.pod
            assert (decode_pod.slow, decode_pod.fast) == (2, 6)
            for line in await lines(api, "/api/v1/nodes"):
                node = read_event(json.loads(line))
                assert isinstance(node, NodeAdded)
                assert decode_node(read_event_line(line).object).node == node.node
            dialect = next(
                each for each in await discover(api) if each.group == "scheduling.k8s.io"
            )
            assert dialect.status_subresource
            (line,) = await lines(api, groups)
            group = read_event(json.loads(line))
            assert isinstance(group, PodGroupAdded)
            assert GroupDecoder(dialect)(read_event_line(line).object).group == group.group

    run(story())
    control_plane.admin.delete(f"/api/v1/nodes/node-{namespace}")


def test_expired_version_lists_again_and_sweeps(
    control_plane: ControlPlane, namespace: str
) -> None:
    async def story() -> None:
        async with client(control_plane) as api:
            for name in ("a", "b"):
                await create(api, namespace, name)
            one = Watched(api, namespace)
            async with one.running():
                pass
            await delete(api, namespace, "a")
            await create(api, namespace, "c")
            # an API server that has just started remembers no older versions
            await asyncio.to_thread(restart, control_plane)
            one.kinds.clear()
            task = asyncio.ensure_future(one.reflector.run())
            await until_on_loop(lambda: "synced" in one.kinds)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert one.kinds == ["added", "deleted", "synced"]
            assert one.names() == ["b", "c"]

    run(story())


@each_transport
def test_reflector_survives_a_restart_of_the_api_server(
    control_plane: ControlPlane, namespace: str, transport: TransportName
) -> None:
    async def story() -> None:
        async with client(control_plane, transport) as api:
            await create(api, namespace, "a")
            one = Watched(api, namespace)
            async with one.running():
                await asyncio.to_thread(control_plane.apiserver.kill)
                await until_on_loop(lambda: one.reflector.state.name == "waiting")
                with pytest.raises(ConnectionLost):
                    await api.request("GET", "/version", timeout=0.3)
                restarted = asyncio.ensure_future(asyncio.to_thread(start_again, control_plane))
                # a write that was not sent waits for the server
                path = f"/api/v1/namespaces/{namespace}/pods"
                spec = {"containers": [{"name": "c", "image": "x"}]}
                body = json.dumps({"metadata": {"name": "b"}, "spec": spec}).encode()
                made = await api.request("POST", path, body=body, timeout=HANG)
                await restarted
                # for a moment after a restart, the API server does not know the rules yet
                async with asyncio.timeout(HANG):
                    while made.status == 403:
                        await asyncio.sleep(0.05)
                        made = await api.request("POST", path, body=body, timeout=HANG)
                assert made.status == 201, made
                await until_on_loop(lambda: one.names() == ["a", "b"])
            assert one.kinds.count("deleted") == 0

    run(story())


def test_expired_token_is_replaced(control_plane: ControlPlane, tmp_path: Any) -> None:
    account = Account.create(control_plane.admin, "rotating", READS)
    token = tmp_path / "token"
    token.write_text("an expired token", encoding="utf-8")
    document = json.loads(control_plane.kubeconfig("rotating").read_text(encoding="utf-8"))
    document["users"][0]["user"] = {"tokenFile": str(token)}
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(json.dumps(document), encoding="utf-8")

    async def story() -> None:
        api = await connect(kubeconfig=str(kubeconfig))
        try:
            token.write_text(account.token, encoding="utf-8")
            assert (await api.request("GET", "/api/v1/pods?limit=1")).status == 200
            assert (await api.request("GET", "/api/v1/namespaces")).status == 403
        finally:
            await api.aclose()

    run(story())


def test_reflector_without_rights_waits_for_them(
    control_plane: ControlPlane, namespace: str
) -> None:
    account = Account.create(control_plane.admin, "late", [Rule(["get"], ["nodes"])])

    async def story() -> None:
        async with client(control_plane, token=account.token) as api:
            one = Watched(api, namespace)
            task = asyncio.ensure_future(one.reflector.run())
            await until_on_loop(lambda: one.reflector.state.name == "waiting")
            assert "403" in str(one.reflector.state.problem)
            await asyncio.to_thread(Account.create, control_plane.admin, "late", READS)
            await until_on_loop(lambda: one.reflector.synced)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    run(story())


def test_api_of_groups_that_is_installed_later_is_discovered_and_watched(
    control_plane: ControlPlane, namespace: str
) -> None:
    groups = definition("scheduling.volcano.sh/v1beta1", "PodGroup", "podgroups")
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"minMember": 3},
    }

    async def story() -> None:
        async with client(control_plane) as api:
            before = await discover(api)
            assert [each.group for each in before] == ["scheduling.k8s.io"]
            found: list[tuple[Dialect, ...]] = []

            async def changed(dialects: tuple[Dialect, ...]) -> None:
                found.append(dialects)

            looking = asyncio.ensure_future(watch_dialects(api, before, changed, interval=0.2))
            await asyncio.to_thread(control_plane.admin.create, CRDS, groups)
            await until_on_loop(lambda: bool(found))
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
            (dialect,) = (each for each in found[-1] if each not in before)
            assert dialect.version == "v1beta1"
            assert dialect.status_subresource
            deltas: list[Delta[GroupFacts]] = []
            reflector = Reflector(
                api, Resource(dialect.path, "PodGroup"), GroupDecoder(dialect), deltas.extend
            )
            task = asyncio.ensure_future(reflector.run())
            await until_on_loop(lambda: reflector.synced)
            path = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups"
            await asyncio.to_thread(control_plane.admin.create, path, group)
            await until_on_loop(lambda: [each.kind for each in deltas] == ["synced", "added"])
            facts = deltas[-1].value
            assert facts is not None
            assert facts.group.min_available == 3
            name = groups["metadata"]["name"]
            await asyncio.to_thread(remove_definitions, control_plane.admin, name)
            await until_on_loop(lambda: "deleted" in [each.kind for each in deltas])
            assert len(reflector) == 0
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    run(story())
