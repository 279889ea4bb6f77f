"""``kubectl gang`` with a running scheduler that can be asked, and without.

The first half asks pages that a test writes, the second half a scheduler that runs.
"""

from __future__ import annotations

import asyncio
import json
import math
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import pytest
import yaml
from attrs import evolve, frozen

pytest.importorskip("msgspec", reason="the extra kubernetes is not installed")
pytest.importorskip("cryptography")

from gangsched.cli import _ask_scheduler, _kubectl
from gangsched.cli._time_limit import within
from gangsched.configuration import Settings, read_settings
from gangsched.kubernetes._api import Response
from gangsched.kubernetes._ask import AtUrl, NotAnsweredError
from gangsched.kubernetes._self_signed import self_signed_context
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json, put_gang
from support.control_plane.processes import free_ports
from support.memory_api import MemoryApi, refused
from support.patience import HANG, eventually, saw
from support.running import ALONE, on_a_loop, running, until
from support.scraping import fetch, sample

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

LEASES = "/apis/coordination.k8s.io/v1/leases"
POD = "gangsched-7d4-x2x"
WHERE = f"kube-system/{POD}:10259"
BY_LISTING = "by listing and the default configuration; the running scheduler was not asked: "
FILE = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
NAME = "pod-group.scheduling.sigs.k8s.io/name"
MINIMUM = "pod-group.scheduling.sigs.k8s.io/min-available"
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
        "tree": [],
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


QUOTAS: list[Document] = [
    {
        "name": "company",
        "parent": None,
        "used": {"memory": "1Gi", "nvidia.com/gpu": "4"},
        "nominal": {"nvidia.com/gpu": "4"},
        "hard": {"cpu": "0"},
        "weight": 1.0,
        "share": 0.0,
        "pastShare": 0.0,
        "pending": 2,
    },
    {
        "name": "lab",
        "parent": "company",
        "used": {"nvidia.com/gpu": "4"},
        "nominal": {},
        "hard": {},
        "weight": 2.0,
        "share": 0.5,
        "pastShare": 0.75,
        "pending": 0,
    },
    {
        "name": "idle",
        "parent": "company",
        "used": {},
        "nominal": None,
        "hard": {},
        "weight": 0.0,
        "share": None,
        "pastShare": None,
        "pending": 2,
    },
]


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

    def __init__(self) -> None:
        super().__init__()
        self.pages: dict[str, Document | bytes | Response] = {}
        self.asked: list[str] = []
        self.accounts = {"kube-system/gangsched-ask", "ops/gangsched-ask", "ops/gpus-ask"}
        self.accounts_asked: list[str] = []
        self.tokens: list[str] = []
        self.audiences: list[str] = []
        self.pause = 0.0
        self.answer: Callable[[dict[str, str]], Document] | None = None

    async def request(self, method: str, path: str, **named: Any) -> Response:
        if "/proxy/" not in path and not path.endswith("/token"):
            return await super().request(method, path, **named)
        fault = self.fault(method, path)
        if fault is not None and fault.response is not None:
            return fault.response
        assert method == "POST"
        body = json.loads(named["body"])
        rest = path.partition("/namespaces/")[2]
        if path.endswith("/token"):
            account = rest.removesuffix("/token").replace("/serviceaccounts/", "/")
            self.accounts_asked.append(account)
            if account not in self.accounts:
                return absent(f'serviceaccounts "{account}"')
            self.audiences = body["spec"]["audiences"]
            return Response(201, {}, json.dumps({"status": {"token": f"of {account}"}}).encode())
        self.tokens.append(body["token"])
        pod, page = rest.replace("/pods/https:", "/").split("/proxy/")
        self.asked.append(f"{pod}/{page}")
        await asyncio.sleep(self.pause)
        key = pod.partition(":")[0]
        if self.get(PODS, key) is None:
            return absent(f'pods "{key.partition("/")[2]}"')
        found: Document | bytes | Response = self.pages.get(
            f"{pod}/{page.partition('?')[0]}", Response(404, {}, b"not found\n")
        )
        if self.answer is not None:
            found = self.answer(dict(parse_qsl(page.partition("?")[2])))
        if isinstance(found, Response):
            return found
        return Response(200, {}, found if isinstance(found, bytes) else json.dumps(found).encode())

    def leads(
        self, holder: str, namespace: str = "kube-system", name: str = "gangsched", pod: str = ""
    ) -> None:
        """Let an identity hold a Lease; it is that of a *pod*, if one is named."""
        lease = {"metadata": {"name": name, "namespace": namespace}}
        self.put(LEASES, {**lease, "spec": {"holderIdentity": holder}})
        if pod:
            made = pod_json(pod, namespace=namespace, scheduler="default-scheduler", gpu=0)
            self.put(PODS, made)


def absent(what: str) -> Response:
    return Response(404, {}, json.dumps({"message": f"{what} not found"}).encode())


class Printed(NamedTuple):
    code: int
    out: str
    err: str


Kubectl = Callable[..., Printed]


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> Server:
    """An empty cluster."""
    found = Server()
    found.be_connected_to(monkeypatch)
    return found


@pytest.fixture
def api(bare: Server) -> Server:
    """A cluster with a gang that lacks a GPU."""
    bare.put(NODES, node_json("a", gpu=1))
    put_gang(bare, "train", 2)
    return bare


@pytest.fixture
def leader(api: Server) -> Server:
    """The same with a scheduler in a pod that holds the Lease."""
    api.leads(f"{POD}_1_0a1b2c3d", pod=POD)
    api.pages[f"{WHERE}/gangs"] = said("GangList", row())
    api.pages[f"{WHERE}/why"] = said("GangList", row())
    api.pages[f"{WHERE}/queue"] = said("QueueList", WAITS)
    api.pages[f"{WHERE}/quotas"] = said("QuotaList", *QUOTAS)
    return api


@pytest.fixture
def kubectl(bare: Server, capsys: pytest.CaptureFixture[str]) -> Kubectl:
    def run(*arguments: str) -> Printed:
        timeout = () if "--request-timeout" in arguments else ("--request-timeout", "5s")
        code = _kubectl.main([*arguments, *timeout])
        printed = capsys.readouterr()
        return Printed(code, printed.out, printed.err)

    return run


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "scheduler.yaml"
    file.write_text(FILE, encoding="utf-8")
    return str(file)


def is_listed(printed: Printed) -> bool:
    """Return whether an answer is by listing, and says so."""
    listed = (printed.code, "nvidia.com/gpu" in printed.out) == (0, True)
    return listed and printed.err.startswith(BY_LISTING)


# Where an answer comes from ---------------------------------------------------------------------


def test_gangs_are_those_of_the_scheduler_and_nothing_is_listed(
    leader: Server, kubectl: Kubectl
) -> None:
    printed = kubectl("get")
    assert "said by the scheduler" in printed.out
    assert printed.err == f"by the scheduler at kube-system/{POD}, 2026-11-23T10:00:00.000000Z\n"
    assert leader.asked == [f"{WHERE}/gangs?namespace=default"]
    assert [path.partition("?")[0] for _method, path in leader.requests] == [LEASES]
    kubectl("get", "-A")
    assert leader.asked[1:] == [f"{WHERE}/gangs"]


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
    leader.accounts |= {"default/gangsched-ask", "team/reads"}
    commands = ("get", "why other/train", "get -A", "get --scheduler-account team/reads")
    for command in commands:
        kubectl(*command.split())
    assert leader.tokens == [
        "of default/gangsched-ask",
        "of kube-system/gangsched-ask",
        "of kube-system/gangsched-ask",
        "of team/reads",
    ]


def test_queue_is_that_of_the_scheduler(leader: Server, kubectl: Kubectl) -> None:
    table = kubectl("queue").out.splitlines()[1].split("   ")
    assert [cell.strip() for cell in table if cell.strip()] == [
        *("3", "default/train", "gang", "7", "2", "2", "60s", "said by the scheduler")
    ]
    assert json.loads(kubectl("queue", "-o", "json").out)["items"] == [WAITS]


def test_quotas_are_the_tree_of_the_scheduler_whatever_the_namespace_is(
    leader: Server, kubectl: Kubectl
) -> None:
    leader.accounts.add("default/gangsched-ask")
    printed = kubectl("quotas")
    assert printed.out.splitlines() == [
        "QUOTA     USED                          NOMINAL            HARD    SHARE         PENDING",
        "company   memory=1Gi,nvidia.com/gpu=4   nvidia.com/gpu=4   cpu=0   0.00          2",
        "  lab     nvidia.com/gpu=4              -                  -       0.50 (0.75)   0",
        "  idle    -                             -                  -       inf           2",
    ]
    assert json.loads(kubectl("quotas", "-n", "ml", "-o", "json").out) == {
        "apiVersion": "gangsched.kubectl/v1",
        "kind": "QuotaList",
        "items": QUOTAS,
    }
    assert yaml.safe_load(kubectl("quotas", "-o", "yaml").out)["items"] == QUOTAS
    assert kubectl("quotas", "-o", "wide").out == printed.out
    assert leader.asked == [f"{WHERE}/quotas"] * 4
    assert set(leader.tokens) == {"of kube-system/gangsched-ask"}
    leader.pages[f"{WHERE}/quotas"] = said("QuotaList")
    assert kubectl("quotas").out == "there are no quotas in the configuration\n"


def test_quotas_of_further_pages_are_below_their_parents(leader: Server, kubectl: Kubectl) -> None:
    pages = {"": QUOTAS[:1], "1": QUOTAS[1:]}
    leader.answer = lambda query: said("QuotaList", *pages[query.get("skip", "")], total=3)
    assert [line.split("   ")[0] for line in kubectl("quotas").out.splitlines()[1:]] == [
        "company",
        "  lab",
        "  idle",
    ]


def test_why_is_that_of_the_scheduler_and_what_would_help_is_listed(
    leader: Server, kubectl: Kubectl
) -> None:
    lines = kubectl("why", "train").out.splitlines()
    assert lines[1].startswith("why: backing off until")
    assert lines[2].startswith("what would help: 1 more node")
    assert leader.asked == [f"{WHERE}/why?group=default%2Ftrain"]
    known = (LEASES, "/proxy/", "/token")
    leader.fault = lambda _method, path: (
        None if any(each in path for each in known) else refused(403, "not yours")
    )
    printed = kubectl("why", "train", "--request-timeout", "1s")
    assert printed.code == 0
    assert "said by the scheduler" in printed.out
    assert "what would help: not known: not listed" in printed.err


def test_gangs_that_are_named_are_chosen_from_what_the_scheduler_answers(
    leader: Server, kubectl: Kubectl
) -> None:
    rows = [row(), row("other"), row(namespace="ml")]
    leader.pages[f"{WHERE}/gangs"] = said("GangList", *rows)
    printed = kubectl("get", "train", "ml/train", "-o", "json")
    assert json.loads(printed.out)["items"] == [rows[0], rows[2]]
    assert leader.asked == [f"{WHERE}/gangs?groups=default%2Ftrain%2Cml%2Ftrain"]
    printed = kubectl("get", *(f"g-{n}" for n in range(2000)))
    assert printed.code != 0
    assert leader.asked[1:] == [f"{WHERE}/gangs?namespace=default"]


@pytest.mark.parametrize(("command", "page"), [("get", "gangs"), ("queue", "queue")])
def test_rows_of_all_pages_of_an_answer_are_shown(
    command: str, page: str, leader: Server, kubectl: Kubectl
) -> None:
    make = (lambda n: row(f"g-{n}")) if page == "gangs" else (lambda n: {**WAITS, "name": f"d/{n}"})
    rows = [make(n) for n in range(5)]
    kind = "GangList" if page == "gangs" else "QueueList"
    pages = {"": rows[:2], "2": rows[1:3], "3": rows[3:]}  # one has moved to the second page
    leader.answer = lambda query: said(kind, *pages[query.get("skip", "")], total=5)
    printed = kubectl(command, "-A", "-o", "json")
    assert json.loads(printed.out)["items"] == rows
    assert "the first" not in printed.err
    assert len(leader.asked) == 3
    assert len(leader.accounts_asked) == 1  # one token is good for all


def test_scheduler_answers_first_and_what_would_help_has_a_time_limit(
    leader: Server,
    kubectl: Kubectl,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def too_slow(seconds: float, _compute: object) -> None:
        assert capsys.readouterr().out.count("said by the scheduler") == (not first)
        first.append(seconds)
        raise TimeoutError

    first = list[float]()

    monkeypatch.setattr(_kubectl, "within", too_slow)
    printed = kubectl("why", "train")
    assert (printed.code, printed.out) == (0, "")  # printed before
    assert "what would help: not known: no answer within 5 s; see --request-timeout" in printed.err
    document = json.loads(kubectl("why", "train", "-o", "json").out)
    assert "said by the scheduler" in document["items"][0]["reason"]


def test_computation_is_given_up_when_its_time_is_over() -> None:
    def fail() -> None:
        raise KeyError("why")

    never = threading.Event()
    with pytest.raises(TimeoutError):
        within(0.01, never.wait)
    never.set()
    assert within(HANG, lambda: 3) == 3
    with pytest.raises(KeyError, match="why"):
        within(HANG, fail)


def test_scheduler_is_not_asked_if_that_is_said(
    leader: Server, kubectl: Kubectl, config: str
) -> None:
    printed = kubectl("get", "--ask-scheduler", "never")
    assert "nvidia.com/gpu" in printed.out
    assert printed.err == ""
    never = kubectl("get", "--config", config, "--ask-scheduler", "never")
    assert never == (0, printed.out, f"by listing and the configuration {config}\n")
    assert leader.asked == []


def test_json_is_the_same_document_from_both(leader: Server, kubectl: Kubectl) -> None:
    asked, listed = (
        json.loads(kubectl("get", "-o", "json", "--ask-scheduler", how).out)
        for how in ("always", "never")
    )
    assert asked.keys() == listed.keys()
    assert asked["items"] == [row()]
    assert asked["items"][0].keys() == listed["items"][0].keys()


@pytest.mark.parametrize("command", ["pods", "demand", "what-if --add-nodes 1 --like a"])
@pytest.mark.parametrize("is_configured", [True, False, "yes"])
def test_commands_that_list_say_that_the_scheduler_has_another_configuration(
    is_configured: object, command: str, leader: Server, kubectl: Kubectl, config: str
) -> None:
    answer = said("Configuration", {"isConfigured": is_configured})
    leader.pages[f"{WHERE}/configuration"] = answer
    expected = (
        "by the default configuration, and the scheduler has another one: "
        "name its file with --config\n"
    )
    assert kubectl(*command.split()).err == (expected if is_configured is True else "")
    assert leader.asked == [f"{WHERE}/configuration?namespace=default"]
    assert kubectl(*command.split(), "--config", config).err == ""
    assert len(leader.asked) == 1


# How the scheduler is found ---------------------------------------------------------------------


def test_pod_may_be_in_another_namespace_than_its_lease(leader: Server, kubectl: Kubectl) -> None:
    leader.remove(PODS, f"kube-system/{POD}")
    leader.put(PODS, pod_json(POD, namespace="ops", scheduler="default-scheduler", gpu=0))
    leader.pages[f"ops/{POD}:10259/gangs"] = said("GangList", row())
    printed = kubectl("get")
    assert "said by the scheduler" in printed.out
    assert f"at ops/{POD}" in printed.err


def test_lease_is_named_by_an_option_or_the_configuration(
    api: Server, kubectl: Kubectl, tmp_path: Path
) -> None:
    for name in ("gpus", "gangsched"):
        api.leads(f"{name}-0_1_2", "ops", name, pod=f"{name}-0")
    for port in (10259, 8080):
        api.pages[f"ops/gpus-0:{port}/gangs"] = said("GangList", row())
    file = tmp_path / "scheduler.yaml"
    election = "leaderElection: {resourceName: gpus, resourceNamespace: ops}\n"
    file.write_text(FILE + election, encoding="utf-8")
    for options in (f"--config {file}", "--lease ops/gpus --scheduler-port 8080"):
        assert "at ops/gpus-0" in kubectl("get", *options.split()).err


def proxy(status: int, body: bytes) -> Callable[[Server], None]:
    return lambda api: api.pages.update({f"{WHERE}/gangs": Response(status, {}, body)})


ANSWERS = {"is forbidden": 403, "not found": 404, "trying to reach service": 503}


def happen(api: Server, what: str) -> None:
    """Let something be so: who holds which Lease, what must not be read, what the pod answers."""
    word, _, rest = what.partition(" ")
    match word:
        case "no-lease":
            api.remove(LEASES, "kube-system/gangsched")
        case "no-accounts":
            api.accounts.clear()
        case "forbid":
            api.fault = lambda _method, path: refused(403, "not yours") if rest in path else None
        case "holds":
            holder, _, namespace = rest.partition(" ")
            api.leads(holder.strip("-"), namespace or "kube-system")
        case "answers":
            proxy(ANSWERS[rest], f"{rest}\n".encode())(api)


# what is so; the options; the reason to list; the remedy
REASONS = """
no-lease             |                       | there is no Lease gangsched in any    | --scheduler-url http://HOST:PORT
holds other-0_1_2 el |                       | several Leases: el/gangsched, kube-sy | name one with --lease NAMESPACE/NAME
holds -              |                       | nothing holds its Lease               | kubectl get lease gangsched --namespace=kube-system
holds laptop         |                       | is no pod                             | name its address with --scheduler-url http://HOST:PORT
holds gone-0_1_2     |                       | there is no pod with the name gone-0  | name its address with --scheduler-url http://HOST:PORT
-                    | --lease ops/typo      | not found                             | --lease NAMESPACE/NAME; kubectl get leases --all-namespaces
no-accounts          |                       | there is no token to ask it with:     | --resource=serviceaccounts/token --resource-name=gangsched-ask
forbid leases?       |                       | not yours                             | kubectl create clusterrole gangsched-ask --verb=get,list --resource=leases
forbid ops/leases/   | --lease ops/gangsched | not yours                             | kubectl create role gangsched-ask --namespace=ops --verb=get --resource=leases
answers is forbidden |                       | is forbidden                          | kubectl create role gangsched-proxy --namespace=kube-system --verb=create --resource=pods/proxy
answers not found    |                       | not found                             | run the scheduler without --no-answers
answers trying to reach service |            | trying to reach service               | --scheduler-port; 10259 was
-                    | --scheduler-url https://localhost:1 | refused                  | --serve of gangsched
"""  # noqa: E501


@pytest.mark.parametrize("reason", REASONS.strip().splitlines())
def test_reason_to_list_is_followed_by_what_to_type(
    reason: str, leader: Server, kubectl: Kubectl
) -> None:
    what, options, problem, remedy = (each.strip() for each in reason.split("|"))
    happen(leader, what)
    printed = kubectl("get", *options.split())
    assert is_listed(printed)
    assert problem in printed.err
    assert remedy in printed.err.splitlines()[1].removeprefix("to ask it: ")


def test_right_to_find_the_pod_of_the_holder_that_is_missing_is_named(
    leader: Server, kubectl: Kubectl
) -> None:
    happen(leader, "holds moved-0_1_2")
    happen(leader, "forbid metadata.name%3Dmoved-0")
    assert "the right to list pods" in kubectl("get").err


def test_scheduler_that_must_answer_and_does_not_is_an_error(api: Server, kubectl: Kubectl) -> None:
    api.leads("laptop")
    printed = kubectl("get", "--ask-scheduler", "always")
    assert (printed.code, printed.out) == (2, "")
    assert "is no pod; to ask it: name its address with --scheduler-url" in printed.err


def test_listing_names_the_file_of_its_configuration(
    api: Server, kubectl: Kubectl, config: str
) -> None:
    assert kubectl("get", "--config", config).err.startswith(
        f"by listing and the configuration {config}; the running scheduler was not asked: "
    )


# What is answered -------------------------------------------------------------------------------


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
    answer: Document | bytes, leader: Server, kubectl: Kubectl
) -> None:
    leader.pages[f"{WHERE}/gangs"] = answer
    assert is_listed(kubectl("get"))


def test_queue_that_is_malformed_means_listing(leader: Server, kubectl: Kubectl) -> None:
    leader.pages[f"{WHERE}/queue"] = said("QueueList", {**WAITS, "place": "first"})
    assert kubectl("queue").err.startswith(BY_LISTING)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": 1},
        {"parent": ["company"]},
        {"used": "4"},
        {"used": {"nvidia.com/gpu": "many"}},
        {"nominal": {"nvidia.com/gpu": None}},
        {"hard": None},
        {"weight": None},
        {"share": "most"},
        {"share": math.nan},
        {"share": 10**400},
        {"pastShare": -1},
        {"pending": None},
    ],
)
def test_quotas_that_are_malformed_are_not_shown(
    wrong: Document, leader: Server, kubectl: Kubectl
) -> None:
    leader.pages[f"{WHERE}/quotas"] = said("QuotaList", {**QUOTAS[0], **wrong})
    printed = kubectl("quotas")
    assert (printed.code, printed.out) == (2, "")
    assert printed.err.startswith(f"{BY_LISTING}kube-system/{POD}: ")
    assert " must be " in printed.err.splitlines()[0]


def test_quotas_are_listed_by_the_configuration_alone(
    api: Server, kubectl: Kubectl, tmp_path: Path
) -> None:
    printed = kubectl("quotas")
    assert (printed.code, printed.out) == (2, "")
    assert "--config: expected the configuration of the scheduler" in printed.err
    file = tmp_path / "scheduler.yaml"
    quotas = 'quotas: [{name: team, namespaces: [default], hard: {nvidia.com/gpu: "4"}}]\n'
    file.write_text(FILE + quotas, encoding="utf-8")
    gang(api, "runs", 2, nodeName="a")
    printed = kubectl("quotas", "--config", str(file))
    assert printed.out.splitlines()[1].split() == [
        *("team", "cpu=2,memory=2Gi,nvidia.com/gpu=2", "-", "nvidia.com/gpu=4", "0.00", "1")
    ]


def test_gang_that_the_scheduler_does_not_know_is_looked_for(
    leader: Server, kubectl: Kubectl
) -> None:
    del leader.pages[f"{WHERE}/why"]
    printed = kubectl("why", "train")
    assert printed.err.startswith(BY_LISTING)
    assert "why: pod default/train-" in printed.out


def test_scheduler_that_is_busy_needs_no_other_port(leader: Server, kubectl: Kubectl) -> None:
    body = {"apiVersion": "gangsched.kubectl/v1", "kind": "Problem", "message": "it is busy"}
    proxy(503, json.dumps(body).encode())(leader)
    printed = kubectl("get")
    assert "it is busy\n" in printed.err
    assert "to ask it" not in printed.err


def test_scheduler_of_other_pods_is_not_believed(leader: Server, kubectl: Kubectl) -> None:
    assert "by the scheduler" in kubectl("get", "--scheduler", "gangsched").err
    printed = kubectl("get", "--scheduler", "theirs")
    assert printed.err.startswith(BY_LISTING)
    assert "it does not place the pods of theirs" in printed.err


def test_scheduler_that_is_slow_does_not_hold_the_answer_back(
    leader: Server, kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_ask_scheduler, "_PATIENCE", 0.05)
    leader.pause = 30.0
    printed = kubectl("get")
    assert is_listed(printed)
    assert "no answer within" in printed.err
    assert kubectl("demand")[::2] == (0, "")


def test_rows_that_were_left_out_are_counted_and_names_are_printable(
    leader: Server, kubectl: Kubectl
) -> None:
    answer = said("GangList", row("x\x1b[31m"), at="\x1b[2J", total=5000)  # knows no pages
    leader.pages[f"{WHERE}/gangs"] = answer
    printed = kubectl("get")
    assert "the first 1 of 5000" in printed.err
    assert "\x1b" not in printed.out + printed.err


# At an address ----------------------------------------------------------------------------------


@pytest.fixture
def at() -> Iterator[Callable[..., str]]:
    """Return a function that serves one page at an address, and returns that."""
    servers: list[tuple[HTTPServer, threading.Thread]] = []

    def serve(status: int, answer: Document) -> str:
        class Pages(BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # the name is http.server's
                known = self.path.partition("?")[0] == "/gangs"
                self.send_response(status if known else 404)
                self.end_headers()
                self.wfile.write(json.dumps(answer).encode() if known else b"no")

            def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
                """Say nothing."""

        server = HTTPServer(("127.0.0.1", 0), Pages)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        servers.append((server, thread))
        return f"http://127.0.0.1:{server.server_port}"

    yield serve
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.server_close()


def test_scheduler_is_asked_at_an_address(
    api: Server, kubectl: Kubectl, at: Callable[..., str]
) -> None:
    url = at(200, said("GangList", row()))
    printed = kubectl("get", "--scheduler-url", f"{url}/")
    assert "said by the scheduler" in printed.out
    assert printed.err.startswith(f"by the scheduler at {url}/, ")
    assert not [path for _method, path in api.requests if path.startswith(LEASES)]
    assert "status 404: no" in kubectl("queue", "--scheduler-url", url).err


def test_leader_is_asked_in_its_pod_if_the_replica_at_an_address_does_not_lead(
    leader: Server, kubectl: Kubectl, at: Callable[..., str]
) -> None:
    problem = {"kind": "Problem", "message": f"{POD}_1_0a1b2c3d leads"}
    url = ("--scheduler-url", at(503, {"apiVersion": "gangsched.kubectl/v1", **problem}))
    assert kubectl("get", *url).err.startswith(f"by the scheduler at kube-system/{POD}, ")
    proxy(503, b'{"message": "no endpoints"}')(leader)
    printed = kubectl("get", *url)
    assert "train" in printed.out
    assert printed.err.startswith(
        "by listing and the default configuration, which may not be the scheduler's; "
    )
    assert " leads; and of the leader: " in printed.err
    assert "no endpoints" in printed.err
    printed = kubectl("get", *url, "--ask-scheduler", "always")
    assert (printed.code, printed.out) == (2, "")
    assert " leads; and of the leader: " in printed.err


@pytest.mark.parametrize(
    "options",
    [
        "--scheduler-url file:///etc/passwd",
        "--scheduler-url 127.0.0.1:10259",
        "--lease gangsched",
        "--lease a/b/c",
        "--scheduler-account reads",
        "--scheduler-port 0",
        "--scheduler-port 65536",
        "--ask-scheduler always --watch",
    ],
)
def test_option_that_is_malformed_is_named(options: str, api: Server, kubectl: Kubectl) -> None:
    printed = kubectl("get", *options.split())
    assert printed.code == 2
    assert options.partition(" ")[0] in printed.err


def test_certificate_that_nothing_vouches_for_gets_no_token_but_a_remedy(tmp_path: Path) -> None:
    sent: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            sent.append(self.headers.get("Authorization", ""))
            self.send_error(401)

    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.socket = self_signed_context(["localhost"]).wrap_socket(server.socket, server_side=True)
    serving = threading.Thread(target=server.serve_forever, args=(0.01,))
    serving.start()
    token = tmp_path / "token"
    token.write_text("secret", encoding="ascii")
    scheduler = AtUrl(f"https://localhost:{server.server_port}", HANG, token=token)
    try:
        with pytest.raises(NotAnsweredError) as caught:
            asyncio.run(scheduler.ask("gangs", {}))
    finally:
        server.shutdown()
        serving.join(HANG)
        server.server_close()
    assert "self-signed certificate" in caught.value.problem
    assert "--scheduler-ca FILE" in caught.value.remedy
    assert "--serve-cert" in caught.value.remedy
    assert sent == []


# A scheduler that runs --------------------------------------------------------------------------


@frozen
class Asking:
    """Asks a scheduler that runs."""

    kubectl: Kubectl
    port: int

    def __call__(self, *arguments: str, how: str = "always") -> str:
        url = ("--scheduler-url", f"http://127.0.0.1:{self.port}", "--ask-scheduler", how)
        printed = self.kubectl(*arguments, *url)
        return printed.out if printed.code == 0 else printed.err

    async def until(self, text: str, *arguments: str) -> str:
        """Ask until the answer has a text; return the answer."""

        def answer() -> str:
            found = self(*arguments)
            saw(found)
            return found if text in found else ""

        return await eventually(answer)

    async def page(self, target: str, true: Callable[[Document], object]) -> Document:
        """Read a page until something is true of it; return it."""

        def read() -> Document | None:
            text = fetch(self.port, target)
            found: Document = json.loads(text) if text.startswith("{") else {}
            saw(text)
            return found if true(found) else None

        found = await eventually(read)
        assert found is not None
        return found


Serving = Callable[..., AbstractAsyncContextManager[Asking]]


@pytest.fixture
def serving(bare: Server, kubectl: Kubectl) -> Serving:
    @asynccontextmanager
    async def serve(settings: Settings = ALONE) -> AsyncIterator[Asking]:
        (port,) = free_ports(1)
        async with running(bare, settings, serve=("127.0.0.1", port)):
            yield Asking(kubectl, port)

    return serve


def gang(api: MemoryApi, name: str, size: int, minimum: object = None, **pod: Any) -> None:
    """Add a gang that only labels describe."""
    for n in range(size):
        found = pod_json(f"{name}-{n}", **pod)
        found["metadata"]["labels"] = {NAME: name, MINIMUM: str(minimum or size)}
        api.put(PODS, found)


def queued_gang(api: MemoryApi, name: str, queue: str) -> None:
    """Add a pod as a gang of its own that names a queue."""
    found = pod_json(f"{name}-0")
    found["metadata"]["labels"] = {NAME: name, MINIMUM: "1", "gangsched.io/queue": queue}
    api.put(PODS, found)


def configured(**more: Any) -> Settings:
    return evolve(read_settings(more), leader_election=ALONE.leader_election)


@pytest.mark.parametrize("has_object", [False, True])
@on_a_loop
async def test_scheduler_that_the_pods_name_is_printed_if_another_one_is_asked(
    has_object: bool, bare: Server, serving: Serving
) -> None:
    bare.put(NODES, node_json("a", gpu=4))
    gang(bare, "right", 2)
    gang(bare, "typo", 2, scheduler="typo-sched")
    if has_object:
        bare.put(GROUPS, group_json("typo", 2))
    async with serving() as asking:
        await until(lambda: bare.pods()["default/right-1"])
        answer = await asyncio.to_thread(asking, "why", "typo", how="auto")
    assert "its pods name the scheduler typo-sched, which is not gangsched" in answer


@on_a_loop
async def test_scheduler_that_answers_is_not_said_to_be_another_one(
    bare: Server, serving: Serving
) -> None:
    bare.put(NODES, node_json("a", gpu=1))
    gang(bare, "g", 2, scheduler="gpus")
    settings = configured(profiles=[{"schedulerName": "gpus"}])
    async with serving(settings) as asking:
        answer = await asking.until("is short", "why", "g")
    assert "what would help: 1 more node" in answer
    assert "its pods name" not in answer


@on_a_loop
async def test_deleted_gang_is_in_no_list_and_why_says_that_it_has_no_pods(
    bare: Server, serving: Serving
) -> None:
    for name in ("large", "stays"):
        gang(bare, name, 3)
    bare.put(GROUPS, group_json("empty", 3))
    async with serving() as asking:
        await asking.until("large", "get")
        await asking.page("/configuration", lambda page: page["items"] == [{"isConfigured": False}])
        for n in range(3):
            bare.remove(PODS, f"default/large-{n}")
        answer = await asking.until("it has no pods", "why", "large")
        assert "why: it has no pods with the schedulerName gangsched\n" in answer
        await eventually(lambda: "large" not in asking("get"))
        await eventually(lambda: "large" not in asking("queue"))
        assert "stays" in await asyncio.to_thread(asking, "get")
        assert "no pod with the schedulerName gangsched is a member" in await asking.until(
            "empty", "get"
        )


async def measured(asking: Asking) -> tuple[dict[str, float], float]:
    """Return how many groups are in each state that has any, and how many binds are refused."""
    shown = await asyncio.to_thread(fetch, asking.port, "/metrics")
    names = ("incomplete", "pending", "binding", "started", "partly_running")
    counts = {name: sample(shown, "gangsched_groups", f'state="{name}"') for name in names}
    refusals = sample(shown, "gangsched_kubernetes_refused_binds")
    return {name: count for name, count in counts.items() if count}, refusals


@on_a_loop
async def test_why_and_metrics_of_a_gang_whose_binds_are_refused_say_so(
    bare: Server, serving: Serving
) -> None:
    bare.put(NODES, node_json("a", gpu=4))
    gang(bare, "g", 2)
    bare.fault = lambda method, path: (
        refused(403, "pods/binding is forbidden")
        if method == "POST" and path.endswith("/binding")
        else None
    )
    async with serving() as asking:
        answer = await asking.until("is forbidden", "why", "g")
        assert "why: 2 members are being bound; the API server says: pods/binding is" in answer
        assert "fits now" not in answer
        assert "starts now" not in answer
        await asking.until("pods/binding is forbidden", "get")
        assert await measured(asking) == ({"binding": 1}, 2)
        bare.fault = lambda _method, _path: None
        await until(lambda: bare.pods()["default/g-1"])
        assert "why:" not in await asking.until("2 hold a node", "why", "g")
        assert await measured(asking) == ({"started": 1}, 0)


@on_a_loop
async def test_running_gang_whose_podgroup_is_deleted_runs_and_lacks_its_podgroup(
    bare: Server, serving: Serving
) -> None:
    bare.put(NODES, node_json("a", gpu=4))
    put_gang(bare, "g", 2)
    async with serving() as asking:
        await until(lambda: bare.pods()["default/g-1"])
        for n in range(2):
            found = bare.get(PODS, f"default/g-{n}") or {}
            bare.put(PODS, {**found, "status": {"phase": "Running"}})
        await asking.until("default/g: Running", "why", "g")  # pods and groups are two watches
        bare.remove(GROUPS, "default/g")
        answer = await asking.until("there is no PodGroup", "why", "g")
        head, why, helps = answer.splitlines()
    assert head.startswith("pod group default/g: Running: 2 members are there; the minimum is")
    assert why == "why: 2 members hold nodes; there is no PodGroup g of scheduling.k8s.io"
    assert helps.startswith("what would help: create a PodGroup g of scheduling.k8s.io")


@on_a_loop
async def test_gang_that_waits_for_a_quota_is_not_said_to_start(
    bare: Server, serving: Serving
) -> None:
    quotas = [{"name": "team-a", "namespaces": ["default"], "hard": {"nvidia.com/gpu": "2"}}]
    bare.put(NODES, node_json("a", gpu=8))
    gang(bare, "first", 2, priority=5)
    async with serving(configured(quotas=quotas)) as asking:
        await until(lambda: bare.pods()["default/first-1"])
        gang(bare, "second", 2)
        answer = await asking.until("exceeded quota", "why", "second")
        assert "why: not admitted: exceeded quota team-a: requested" in answer
        helps = "other pods of the quota team-a end, or the quota is raised"
        assert f"what would help: {helps}\n" in answer
        assert "starts now" not in answer
        gang(bare, "third", 3)
        answer = await asking.until("more than the whole quota", "why", "third")
        helps = "the quota team-a is raised, or the gang requests less"
        assert f"what would help: {helps}\n" in answer


@on_a_loop
async def test_gang_in_a_wrong_queue_is_told_what_helps(bare: Server, serving: Serving) -> None:
    quotas = [{"name": "org"}, {"name": "team", "parent": "org", "nominal": {"cpu": 1}}]
    for name, queue in (("lost", "lab"), ("above", "org")):
        queued_gang(bare, name, queue)
    async with serving(configured(quotas=quotas)) as asking:
        answer = await asking.until("queue lab does not exist", "why", "lost")
        helps = "a queue lab is made, or the pods name one that exists"
        assert f"what would help: {helps}\n" in answer
        answer = await asking.until("queue org has queues below it", "why", "above")
        assert "what would help: the pods name a queue below it\n" in answer


@on_a_loop
async def test_gang_in_a_queue_of_another_project_that_is_closed_is_told_why(
    bare: Server, serving: Serving
) -> None:
    bare.served |= {"scheduling.volcano.sh/v1beta1"}
    closed = {"metadata": {"name": "team"}, "spec": {}, "status": {"state": "Closed"}}
    bare.put("/apis/scheduling.volcano.sh/v1beta1/queues", closed)
    queued_gang(bare, "g", "team")
    async with serving(configured(quotas={"from": "volcano"})) as asking:
        answer = await asking.until("queue team does not exist", "why", "g")
    helps = "the pods name another queue, since those of team are held: status.state is Closed"
    assert f"what would help: {helps}\n" in answer


@on_a_loop
async def test_quotas_of_a_running_scheduler_are_a_tree(bare: Server, serving: Serving) -> None:
    gpus = "nvidia.com/gpu"
    quotas = [
        {"name": "company"},
        {"name": "team", "parent": "company", "namespaces": ["default"], "nominal": {gpus: 1}},
        {"name": "other", "parent": "company", "nominal": {gpus: 3}, "weight": 2},
        {"name": "guests", "parent": "company", "nominal": {}, "weight": 0},
    ]
    bare.put(NODES, node_json("a", gpu=8))
    gang(bare, "first", 2, priority=5)
    gang(bare, "second", 4)
    async with serving(configured(quotas=quotas)) as asking:
        table = await asking.until("gpu=2   nvidia.com/gpu=1", "quotas")
        await asking.page("/quotas", lambda page: page["items"][1]["pending"] == 1)
        document = json.loads(await asyncio.to_thread(asking, "quotas", "-o", "json"))
    assert [line.split()[0] for line in table.splitlines()] == [
        *("QUOTA", "company", "team", "other", "guests")
    ]
    assert document["items"][1] == {
        "name": "team",
        "parent": "company",
        "used": {"cpu": "2", "memory": "2Gi", gpus: "2"},
        "nominal": {gpus: "1"},
        "hard": {},
        "weight": 1.0,
        "share": 0.25,
        "pastShare": 0.25,
        "pending": 1,
    }
    assert [each["weight"] for each in document["items"]] == [1.0, 1.0, 2.0, 0.0]


@on_a_loop
async def test_reservation_is_shown_with_the_gang_that_has_it_and_with_others(
    bare: Server, serving: Serving
) -> None:
    bare.put(NODES, node_json("a", gpu=4))
    gang(bare, "runs", 2)
    backfill = {"pluginConfig": [{"name": "Backfill", "args": {}}]}
    settings = configured(profiles=[{"schedulerName": "gangsched", **backfill}])
    async with serving(settings) as asking:
        await until(lambda: bare.pods()["default/runs-1"])
        gang(bare, "large", 4, priority=5)
        reserved = "1 node is drained for pod group default/large"
        queue = await asking.until(reserved, "queue")
        assert reserved in next(line for line in queue.splitlines() if "large" in line)
        await asking.page("/configuration", lambda page: page["items"] == [{"isConfigured": True}])
        gang(bare, "small", 2)
        answer = await asking.until("reserved:", "why", "small")
        assert f"reserved: {reserved}\n" in answer
        assert "starts now" not in answer
        assert "what would help: no more nodes: pod group default/small fits" in answer


@on_a_loop
async def test_nothing_is_listed_for_what_would_help_a_gang_that_runs(
    bare: Server, serving: Serving
) -> None:
    """It has started, so no number of nodes would start it."""
    bare.put(NODES, node_json("a", gpu=2))
    gang(bare, "train", 2, nodeName="a")
    gang(bare, "train", 3, minimum=2)
    for n in range(2):
        bare.objects[PODS][f"default/train-{n}"]["spec"]["nodeName"] = "a"
    runs = "runs: 2 of 3 members hold nodes, and its minimum of 2 is met; 1 waits: "
    async with serving() as asking:
        await asking.until(runs, "get")
        before = len(bare.requests)
        answer = await asking.until(f"why: {runs}", "why", "train")
        assert "what would help" not in answer
        assert not [path for _method, path in bare.requests[before:] if "/nodes" in path]


@on_a_loop
async def test_group_is_refused_until_its_malformed_pods_are_corrected_or_gone(
    bare: Server, serving: Serving
) -> None:
    bare.put(NODES, node_json("a"))
    gang(bare, "zero", 2, minimum="0")
    gang(bare, "gone", 1, minimum="0")
    async with serving() as asking:
        gangs = await asking.page("/gangs", lambda page: len(page.get("items", ())) == 2)
        item = gangs["items"][1]
        assert (item["phase"], item["have"], item["needed"]) == ("Refused", 2, None)
        sentence = f"refused: pod default/zero-0: {MINIMUM} must be an int >= 1, got '0'"
        assert sentence in item["reason"]
        why = await asking.page("/why?group=default/zero", lambda page: "items" in page)
        assert sentence in why["items"][0]["why"]
        assert why["items"][0]["helps"] == f"pods whose {MINIMUM} is an int >= 1"
        await asking.page("/gangs?namespace=x", lambda page: page.get("items") == [])
        bare.remove(PODS, "default/gone-0")
        for n in range(2):
            pod = bare.get(PODS, f"default/zero-{n}")
            assert pod is not None
            pod["metadata"]["labels"][MINIMUM] = "2"
            bare.put(PODS, pod)

        def is_corrected(page: Document) -> bool:
            rows = [(each["name"], each["held"], each["reason"]) for each in page.get("items", ())]
            return rows == [("zero", 2, "")]

        await asking.page("/gangs", is_corrected)
        await asking.page("/why?group=default/gone", lambda page: page.get("kind") == "Problem")


@on_a_loop
async def test_running_scheduler_says_what_to_do_about_an_unknown_minimum(
    bare: Server, serving: Serving
) -> None:
    pod = pod_json("g-0")
    pod["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "g"}
    bare.put(PODS, pod)
    async with serving() as asking:
        (item,) = (await asking.page("/why?group=default/g", lambda page: "items" in page))["items"]
    assert "scheduling.x-k8s.io, the API of its PodGroup, was not found" in item["reason"]
    assert item["helps"].startswith("install the CRD of scheduling.x-k8s.io")
