"""``kubectl gang`` with a running scheduler that can be asked, and without."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, NamedTuple

import pytest

from gangsched.cli import _ask_scheduler, _kubectl
from gangsched.kubernetes import _client
from gangsched.kubernetes._api import Response
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json
from support.memory_api import MemoryApi, refused

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

LEASES = "/apis/coordination.k8s.io/v1/leases"
ABSENT = Response(404)
Document = dict[str, Any]


def row(name: str = "train", **given: Any) -> Document:
    """Return a gang as a scheduler answers it."""
    return {
        "namespace": "default",
        "name": name,
        "phase": "Scheduling",
        "needed": 2,
        "have": 2,
        "held": 0,
        "running": 0,
        "succeeded": 0,
        "failed": 0,
        "restarts": 0,
        "reason": "backing off until 2026-11-23T10:00:00Z after 3 attempts: said by the scheduler",
        "priority": 0,
        "api": "scheduling.k8s.io/v1beta1",
        "message": "",
        "age": 7,
        "nodes": [],
        **given,
    }


WAITS = {
    "name": "default/train",
    "gang": True,
    "place": 3,
    "priority": 7,
    "pods": 2,
    "needed": 2,
    "age": 60,
    "state": "said by the scheduler",
}


def said(kind: str, *items: Document, **more: Any) -> Document:
    return {
        "apiVersion": "gangsched.kubectl/v1",
        "kind": kind,
        "schedulerNames": ["gangsched"],
        "at": "2026-11-23T10:00:00.000000Z",
        "total": len(items),
        "items": list(items),
        **more,
    }


class Server(MemoryApi):
    """An API server that passes requests on to pods.

    ``pages`` has what pods answer, by ``namespace/pod:port/page``; ``asked`` what was asked.
    """

    namespace = "default"

    def __init__(self) -> None:
        super().__init__()
        self.pages: dict[str, Document | bytes] = {}
        self.asked: list[str] = []
        self.accounts = {"kube-system/gangsched-ask", "ops/gangsched-ask", "ops/gpus-ask"}
        self.accounts_asked: list[str] = []
        self.tokens: list[str] = []
        self.audiences: list[str] = []
        self.pause = 0.0

    async def request(self, method: str, path: str, **named: Any) -> Response:
        if "/proxy/" not in path and not path.endswith("/token"):
            return await super().request(method, path, **named)
        fault = self.fault(method, path)
        if fault is not None and fault.response is not None:
            return fault.response
        assert method == "POST"
        body = json.loads(named["body"])
        _, _, rest = path.partition("/namespaces/")
        if path.endswith("/token"):
            account = rest.removesuffix("/token").replace("/serviceaccounts/", "/")
            self.accounts_asked.append(account)
            if account not in self.accounts:
                return refused(404, f'serviceaccounts "{account}" not found').response or ABSENT
            self.audiences = body["spec"]["audiences"]
            return Response(201, {}, json.dumps({"status": {"token": f"of {account}"}}).encode())
        namespace, _, rest = rest.partition("/pods/https:")
        self.tokens.append(body["token"])
        pod, _, page = rest.partition("/proxy/")
        self.asked.append(f"{namespace}/{pod}/{page}")
        await asyncio.sleep(self.pause)
        name = pod.partition(":")[0]
        if self.get(PODS, f"{namespace}/{name}") is None:
            return refused(404, f'pods "{name}" not found').response or Response(404)
        body = self.pages.get(f"{namespace}/{pod}/{page.partition('?')[0]}")
        if body is None:
            return Response(404, {}, b"not found\n")
        return Response(200, {}, body if isinstance(body, bytes) else json.dumps(body).encode())

    def leads(self, pod: str, *, namespace: str = "kube-system", name: str = "gangsched") -> None:
        """Let a pod hold a Lease."""
        self.put(
            LEASES,
            {
                "metadata": {"name": name, "namespace": namespace},
                "spec": {"holderIdentity": f"{pod}_1_0a1b2c3d" if pod else ""},
            },
        )

    def has_pod(self, name: str, namespace: str = "kube-system") -> None:
        """Let a pod exist that is no member of a gang."""
        self.put(PODS, pod_json(name, namespace=namespace, scheduler="default-scheduler", gpu=0))


class Printed(NamedTuple):
    code: int
    out: str
    err: str


Kubectl = Callable[..., Printed]


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Server:
    found = Server()

    async def connect_client(**_named: Any) -> Server:
        return found

    monkeypatch.setattr(_client, "connect_client", connect_client)
    found.put(NODES, node_json("a", gpu=1))
    found.put(GROUPS, group_json("train", 2))
    for n in range(2):
        found.put(PODS, pod_json(f"train-{n}", group="train"))
    return found


@pytest.fixture
def leader(api: Server) -> Server:
    """An API server with a scheduler in a pod that holds the Lease."""
    api.leads("gangsched-7d4-x2x")
    api.has_pod("gangsched-7d4-x2x")
    where = "kube-system/gangsched-7d4-x2x:10259"
    api.pages[f"{where}/gangs"] = said("GangList", row())
    api.pages[f"{where}/why"] = said("GangList", row())
    api.pages[f"{where}/queue"] = said("QueueList", WAITS)
    return api


@pytest.fixture
def kubectl(api: Server, capsys: pytest.CaptureFixture[str]) -> Kubectl:
    def run(*arguments: str) -> Printed:
        code = _kubectl.main([*arguments, "--request-timeout", "5s"])
        printed = capsys.readouterr()
        return Printed(code, printed.out, printed.err)

    return run


BY_LISTING = "by listing and the default configuration; the running scheduler was not asked: "


# Where an answer comes from ---------------------------------------------------------------------


def test_gangs_are_those_of_the_scheduler_and_nothing_is_listed(
    leader: Server, kubectl: Kubectl
) -> None:
    printed = kubectl("get")
    assert "said by the scheduler" in printed.out
    assert printed.err == (
        "by the scheduler at kube-system/gangsched-7d4-x2x, 2026-11-23T10:00:00.000000Z\n"
    )
    assert leader.asked == ["kube-system/gangsched-7d4-x2x:10259/gangs?namespace=default"]
    assert [path.partition("?")[0] for _method, path in leader.requests] == [LEASES]


def test_scheduler_gets_a_token_that_is_good_for_nothing_else(
    leader: Server, kubectl: Kubectl
) -> None:
    kubectl("get")
    assert leader.accounts_asked == ["default/gangsched-ask", "kube-system/gangsched-ask"]
    assert leader.tokens == ["of kube-system/gangsched-ask"]
    assert leader.audiences == ["gangsched"]


def test_account_of_the_namespace_comes_before_that_of_the_scheduler(
    leader: Server, kubectl: Kubectl
) -> None:
    leader.accounts.add("default/gangsched-ask")
    kubectl("get")
    kubectl("why", "other/train")
    kubectl("get", "-A")
    assert leader.tokens == [
        "of default/gangsched-ask",
        "of kube-system/gangsched-ask",
        "of kube-system/gangsched-ask",
    ]


def test_account_can_be_named(leader: Server, kubectl: Kubectl) -> None:
    leader.accounts.add("team/reads")
    kubectl("get", "--scheduler-account", "team/reads")
    assert leader.tokens == ["of team/reads"]
    refused_name = kubectl("get", "--scheduler-account", "reads")
    assert "--scheduler-account: expected NAMESPACE/NAME, got 'reads'" in refused_name.err


def test_cluster_is_listed_without_a_token_and_the_right_is_named(
    leader: Server, kubectl: Kubectl
) -> None:
    leader.accounts.clear()
    printed = kubectl("get")
    assert printed.err.startswith(f"{BY_LISTING}there is no token to ask it with: ")
    assert "--resource=serviceaccounts/token --resource-name=gangsched-ask" in printed.err
    assert "nvidia.com/gpu" in printed.out
    assert leader.asked == []


def test_all_namespaces_are_asked_for_without_a_name(leader: Server, kubectl: Kubectl) -> None:
    kubectl("get", "-A")
    assert leader.asked == ["kube-system/gangsched-7d4-x2x:10259/gangs"]


def test_queue_is_that_of_the_scheduler(leader: Server, kubectl: Kubectl) -> None:
    table = kubectl("queue").out.splitlines()[1].split("   ")
    assert [cell.strip() for cell in table if cell.strip()] == [
        *("3", "default/train", "gang", "7", "2", "2", "60s", "said by the scheduler")
    ]
    assert json.loads(kubectl("queue", "-o", "json").out)["items"] == [WAITS]


def test_why_is_that_of_the_scheduler_and_what_would_help_is_listed(
    leader: Server, kubectl: Kubectl
) -> None:
    lines = kubectl("why", "train").out.splitlines()
    assert lines[1].startswith("why: backing off until")
    assert lines[2].startswith("what would help: 1 more node")
    assert leader.asked == ["kube-system/gangsched-7d4-x2x:10259/why?group=default%2Ftrain"]


def test_why_needs_no_right_to_list(leader: Server, kubectl: Kubectl) -> None:
    leader.fault = lambda _method, path: (
        None
        if path.startswith(LEASES) or "/proxy/" in path or path.endswith("/token")
        else refused(403, "not yours")
    )
    printed = kubectl("why", "train")
    assert printed.code == 0
    assert "said by the scheduler" in printed.out
    assert "what would help: not known: not listed" in printed.err


def test_scheduler_is_not_asked_if_that_is_said(leader: Server, kubectl: Kubectl) -> None:
    printed = kubectl("get", "--ask-scheduler", "never")
    assert "nvidia.com/gpu" in printed.out
    assert printed.err == ""
    assert leader.asked == []


@pytest.mark.parametrize(
    "command", [["pods"], ["demand"], ["what-if", "--add-nodes", "1", "--like", "a"]]
)
def test_other_commands_list(command: list[str], leader: Server, kubectl: Kubectl) -> None:
    assert kubectl(*command).err == ""
    assert leader.asked == ["kube-system/gangsched-7d4-x2x:10259/configuration?namespace=default"]


def test_json_is_the_same_document_from_both(leader: Server, kubectl: Kubectl) -> None:
    asked, listed = (
        json.loads(kubectl("get", "-o", "json", "--ask-scheduler", how).out)
        for how in ("always", "never")
    )
    assert asked.keys() == listed.keys()
    assert asked["items"] == [row()]
    assert asked["items"][0].keys() == listed["items"][0].keys()


# How the scheduler is found ---------------------------------------------------------------------


def test_pod_may_be_in_another_namespace_than_its_lease(leader: Server, kubectl: Kubectl) -> None:
    leader.remove(PODS, "kube-system/gangsched-7d4-x2x")
    leader.has_pod("gangsched-7d4-x2x", "ops")
    leader.pages["ops/gangsched-7d4-x2x:10259/gangs"] = said("GangList", row())
    printed = kubectl("get")
    assert "said by the scheduler" in printed.out
    assert "at ops/gangsched-7d4-x2x" in printed.err


def test_lease_and_port_can_be_named(api: Server, kubectl: Kubectl) -> None:
    for name in ("gpus", "gangsched"):
        api.leads(f"{name}-0", namespace="ops", name=name)
        api.has_pod(f"{name}-0", "ops")
    api.pages["ops/gpus-0:8080/gangs"] = said("GangList", row())
    printed = kubectl("get", "--lease", "ops/gpus", "--scheduler-port", "8080")
    assert "at ops/gpus-0" in printed.err


def test_configuration_names_the_lease(api: Server, kubectl: Kubectl, tmp_path: Any) -> None:
    api.leads("gpus-0", namespace="ops", name="gpus")
    api.has_pod("gpus-0", "ops")
    api.pages["ops/gpus-0:10259/gangs"] = said("GangList", row())
    file = tmp_path / "scheduler.yaml"
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "leaderElection: {resourceName: gpus, resourceNamespace: ops}\n",
        encoding="utf-8",
    )
    assert "at ops/gpus-0" in kubectl("get", "--config", str(file)).err


def test_several_leases_are_not_guessed_at(leader: Server, kubectl: Kubectl) -> None:
    leader.leads("other-0", namespace="ops")
    printed = kubectl("get")
    assert "there are several Leases: kube-system/gangsched, ops/gangsched" in printed.err
    assert "--lease" in printed.err
    assert "at kube-system/" in kubectl("get", "--lease", "kube-system/gangsched").err


@pytest.mark.parametrize(
    ("holder", "problem"),
    [
        ("", "nothing holds its Lease"),
        ("someone", "is no pod"),
        ("gone-0_1_2", "there is no pod with the name gone-0"),
    ],
)
def test_lease_without_a_pod_means_listing(
    holder: str, problem: str, api: Server, kubectl: Kubectl
) -> None:
    lease = {"metadata": {"name": "gangsched", "namespace": "ops"}}
    api.put(LEASES, {**lease, "spec": {"holderIdentity": holder}})
    printed = kubectl("get")
    assert printed.err.startswith(BY_LISTING)
    assert problem in printed.err
    assert "nvidia.com/gpu" in printed.out


# When there is no answer ------------------------------------------------------------------------


def test_cluster_is_listed_if_there_is_no_lease(api: Server, kubectl: Kubectl) -> None:
    printed = kubectl("get")
    assert printed.err.splitlines()[0] == (
        f"{BY_LISTING}there is no Lease gangsched in any namespace"
    )
    assert printed.out == kubectl("get", "--ask-scheduler", "never").out


def test_scheduler_that_must_answer_and_does_not_is_an_error(api: Server, kubectl: Kubectl) -> None:
    printed = kubectl("get", "--ask-scheduler", "always")
    assert (printed.code, printed.out) == (2, "")
    assert "no Lease gangsched" in printed.err


def test_right_that_is_missing_is_named(leader: Server, kubectl: Kubectl) -> None:
    forbidden = 'pods "gangsched-7d4-x2x" is forbidden: cannot get resource "pods/proxy"'
    leader.fault = lambda _method, path: refused(403, forbidden) if "/proxy/" in path else None
    printed = kubectl("get")
    assert printed.err.startswith(BY_LISTING)
    assert "pods/proxy" in printed.err
    assert "nvidia.com/gpu" in printed.out


def lacks(name: str) -> Document:
    found = row()
    del found[name]
    return found


@pytest.mark.parametrize(
    "answer",
    [
        b"<html>",
        b"[" * 100_000,
        b"[]",
        {},
        said("QueueList"),
        said("GangList", apiVersion="v9"),
        said("GangList", items="x"),
        {**said("GangList"), "items": ["x"]},
        said("GangList", row(needed="two")),
        said("GangList", row(nodes="a")),
        said("GangList", lacks("reason")),
    ],
)
def test_answer_that_is_malformed_means_listing(
    answer: Any, leader: Server, kubectl: Kubectl
) -> None:
    leader.pages["kube-system/gangsched-7d4-x2x:10259/gangs"] = answer
    printed = kubectl("get")
    assert printed.code == 0
    assert printed.err.startswith(BY_LISTING)
    assert "nvidia.com/gpu" in printed.out


def test_queue_that_is_malformed_means_listing(leader: Server, kubectl: Kubectl) -> None:
    answer = said("QueueList", {**WAITS, "place": "first"})
    leader.pages["kube-system/gangsched-7d4-x2x:10259/queue"] = answer
    assert kubectl("queue").err.startswith(BY_LISTING)


def test_gang_that_the_scheduler_does_not_know_is_looked_for(
    leader: Server, kubectl: Kubectl
) -> None:
    del leader.pages["kube-system/gangsched-7d4-x2x:10259/why"]  # answers 404
    printed = kubectl("why", "train")
    assert printed.err.startswith(BY_LISTING)
    assert "why: pod default/train-" in printed.out


def test_scheduler_of_other_pods_is_not_believed(leader: Server, kubectl: Kubectl) -> None:
    assert "by the scheduler" in kubectl("get", "--scheduler", "gangsched").err
    printed = kubectl("get", "--scheduler", "theirs")
    assert printed.err.startswith(BY_LISTING)
    assert "it does not place the pods of theirs" in printed.err


def test_scheduler_that_is_slow_does_not_hold_the_answer_back(
    leader: Server, kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_ask_scheduler, "_PATIENCE", 0.05)
    leader.pause = 3.0
    printed = kubectl("get")
    assert printed.err.startswith(f"{BY_LISTING}no answer within")
    assert "nvidia.com/gpu" in printed.out


def test_rows_that_were_left_out_are_counted(leader: Server, kubectl: Kubectl) -> None:
    answer = said("GangList", row(), total=5000)
    leader.pages["kube-system/gangsched-7d4-x2x:10259/gangs"] = answer
    assert "the first 1 of 5000" in kubectl("get").err


def test_names_from_the_scheduler_are_printed_without_control_characters(
    leader: Server, kubectl: Kubectl
) -> None:
    answer = said("GangList", row("x\x1b[31m"), at="\x1b[2J")
    leader.pages["kube-system/gangsched-7d4-x2x:10259/gangs"] = answer
    printed = kubectl("get")
    assert "\x1b" not in printed.out + printed.err


# At an address ----------------------------------------------------------------------------------


@pytest.fixture
def url() -> Iterator[str]:
    """A scheduler at an address, which answers one page."""

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the name is http.server's
            known = self.path.partition("?")[0] == "/gangs"
            self.send_response(200 if known else 404)
            self.end_headers()
            self.wfile.write(json.dumps(said("GangList", row())).encode() if known else b"no")

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Pages) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_scheduler_is_asked_at_an_address(api: Server, kubectl: Kubectl, url: str) -> None:
    printed = kubectl("get", "--scheduler-url", f"{url}/")
    assert "said by the scheduler" in printed.out
    assert printed.err.startswith(f"by the scheduler at {url}/, ")
    assert not [path for _method, path in api.requests if path.startswith(LEASES)]


def test_address_without_an_answer_means_listing(api: Server, kubectl: Kubectl, url: str) -> None:
    assert "status 404: no" in kubectl("queue", "--scheduler-url", url).err
    assert "refused" in kubectl("get", "--scheduler-url", "http://127.0.0.1:1").err


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--scheduler-url", "file:///etc/passwd"], "--scheduler-url"),
        (["--scheduler-url", "127.0.0.1:10259"], "--scheduler-url"),
        (["--lease", "gangsched"], "--lease"),
        (["--lease", "a/b/c"], "--lease"),
        (["--scheduler-port", "0"], "--scheduler-port"),
        (["--scheduler-port", "65536"], "--scheduler-port"),
        (["--watch", "--ask-scheduler", "always"], "--ask-scheduler"),
    ],
)
def test_option_that_is_malformed_is_named(
    options: list[str], named: str, api: Server, kubectl: Kubectl
) -> None:
    printed = kubectl("get", *options)
    assert printed.code == 2
    assert f"{named}" in printed.err
