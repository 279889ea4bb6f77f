"""``kubectl gang`` says by which configuration it answers, and how the scheduler is asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gangsched.cli import _ask_scheduler, _kubectl
from gangsched.configuration import Settings, read_settings
from gangsched.kubernetes import _client
from gangsched.kubernetes._api import Response
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json
from support.control_plane.processes import free_ports
from support.memory_api import MemoryApi, refused
from support.running import ALONE, on_a_loop, running
from support.scraping import fetch

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

LEASES = "/apis/coordination.k8s.io/v1/leases"
FILE = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
OTHERWISE = (
    "by the default configuration, and the scheduler has another one: name its file with --config\n"
)
LISTING = [["pods"], ["demand"], ["what-if", "--add-nodes", "1", "--like", "a"]]


class Server(MemoryApi):
    """An API server with one pod that holds the Lease, and what that pod answers."""

    namespace = "default"
    answer = Response(404, {}, b"not found\n")
    pause = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def request(self, method: str, path: str, **named: Any) -> Response:
        if path.endswith("/token") and not self.fault(method, path):
            return Response(201, {}, b'{"status": {"token": "t"}}')
        if "/proxy/" not in path:
            return await super().request(method, path, **named)
        self.asked.append(path.rpartition("/proxy/")[2])
        await asyncio.sleep(self.pause)
        return self.answer

    def leads(self, holder: str, namespace: str = "ops") -> None:
        lease = {"metadata": {"name": "gangsched", "namespace": namespace}}
        self.put(LEASES, {**lease, "spec": {"holderIdentity": holder}})


class Printed(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def remedy(self) -> str:
        """The second line beside the answer."""
        return self.err.splitlines()[1].removeprefix("to ask it: ")


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
    found.leads("sched-0_1_2")
    found.put(PODS, pod_json("sched-0", namespace="ops", scheduler="default-scheduler", gpu=0))
    return found


@pytest.fixture
def kubectl(api: Server, capsys: pytest.CaptureFixture[str]) -> Kubectl:
    def run(*arguments: str) -> Printed:
        code = _kubectl.main([*arguments, "--request-timeout", "5s"])
        printed = capsys.readouterr()
        return Printed(code, printed.out, printed.err)

    return run


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "scheduler.yaml"
    file.write_text(FILE, encoding="utf-8")
    return str(file)


def configuration(*, is_configured: object) -> Response:
    document = {
        "apiVersion": "gangsched.kubectl/v1",
        "kind": "Configuration",
        "items": [{"isConfigured": is_configured}],
    }
    return Response(200, {}, json.dumps(document).encode())


# What to type so that the scheduler is asked ------------------------------------------------------


def test_absent_lease_names_the_options_that_find_the_scheduler(
    api: Server, kubectl: Kubectl
) -> None:
    api.remove(LEASES, "ops/gangsched")
    remedy = kubectl("get").remedy
    assert "--scheduler-url http://HOST:PORT" in remedy
    assert "--lease NAMESPACE/NAME" in remedy


def test_several_leases_are_told_apart_by_an_option(api: Server, kubectl: Kubectl) -> None:
    api.leads("other-0_1_2", "else")
    printed = kubectl("get")
    assert "there are several Leases: else/gangsched, ops/gangsched\n" in printed.err
    assert printed.remedy == "name one with --lease NAMESPACE/NAME"


def test_lease_without_a_holder_is_looked_at_by_its_name(api: Server, kubectl: Kubectl) -> None:
    api.leads("")
    assert "kubectl get lease gangsched --namespace=ops" in kubectl("get").remedy


@pytest.mark.parametrize("holder", ["laptop", "laptop_1_2"])
def test_holder_that_is_no_pod_is_asked_at_an_address(
    holder: str, api: Server, kubectl: Kubectl
) -> None:
    api.leads(holder)
    api.answer = Response(404, {}, b'{"message": "pods \\"laptop\\" not found"}')
    assert kubectl("get").remedy == "name its address with --scheduler-url http://HOST:PORT"


def test_lease_that_is_named_and_absent_asks_for_another(api: Server, kubectl: Kubectl) -> None:
    printed = kubectl("get", "--lease", "ops/typo")
    assert "--lease NAMESPACE/NAME; kubectl get leases --all-namespaces" in printed.remedy


@pytest.mark.parametrize(
    ("path", "arguments", "right"),
    [
        (f"{LEASES}?", (), "create clusterrole gangsched-ask --verb=get,list --resource=leases"),
        (
            "/namespaces/ops/leases/",
            ("--lease", "ops/gangsched"),
            "create role gangsched-ask --namespace=ops --verb=get --resource=leases",
        ),
    ],
)
def test_right_on_leases_that_is_missing_is_given_by_a_command(
    path: str, arguments: tuple[str, ...], right: str, api: Server, kubectl: Kubectl
) -> None:
    api.fault = lambda _method, asked: refused(403, "not yours") if path in asked else None
    assert f"kubectl {right}" in kubectl("get", *arguments).remedy


def test_right_on_pods_that_is_missing_is_named(api: Server, kubectl: Kubectl) -> None:
    api.leads("moved-0_1_2")
    api.answer = Response(404, {}, b'{"message": "pods \\"moved-0\\" not found"}')
    api.fault = lambda _method, path: (
        refused(403, "not yours") if "metadata.name%3Dmoved-0" in path else None
    )
    assert "the right to list pods" in kubectl("get").remedy


def test_right_on_the_proxy_that_is_missing_is_given_by_a_command(
    api: Server, kubectl: Kubectl
) -> None:
    api.answer = Response(403, {}, b'{"message": "cannot get resource pods/proxy"}')
    remedy = kubectl("get").remedy
    assert "kubectl create role gangsched-proxy --namespace=ops" in remedy
    assert "--verb=create --resource=pods/proxy" in remedy


@pytest.mark.parametrize(
    ("status", "body", "remedy"),
    [
        (404, b"not found\n", "run the scheduler without --no-answers"),
        (503, b"Error trying to reach service: connection refused", "--scheduler-port; 10259 was"),
    ],
)
def test_setting_of_the_scheduler_that_keeps_it_from_being_asked_is_named(
    status: int, body: bytes, remedy: str, api: Server, kubectl: Kubectl
) -> None:
    api.answer = Response(status, {}, body)
    assert remedy in kubectl("get").remedy


def test_scheduler_that_answers_itself_needs_no_other_port(api: Server, kubectl: Kubectl) -> None:
    body = {"apiVersion": "gangsched.kubectl/v1", "kind": "Problem", "message": "it is busy"}
    api.answer = Response(503, {}, json.dumps(body).encode())
    printed = kubectl("get")
    assert "it is busy\n" in printed.err
    assert "to ask it" not in printed.err


def test_address_that_is_not_served_is_that_of_the_option_serve(kubectl: Kubectl) -> None:
    (port,) = free_ports(1)
    remedy = kubectl("get", "--scheduler-url", f"http://127.0.0.1:{port}").remedy
    assert "--serve of gangsched run" in remedy


def test_remedy_is_in_the_error_if_the_scheduler_must_answer(api: Server, kubectl: Kubectl) -> None:
    api.leads("laptop")
    printed = kubectl("get", "--ask-scheduler", "always")
    assert printed.code == 2
    assert "is no pod; to ask it: name its address with --scheduler-url" in printed.err


# By which configuration ---------------------------------------------------------------------------


def test_listing_names_the_file_of_its_configuration(
    api: Server, kubectl: Kubectl, config: str
) -> None:
    printed = kubectl("get", "--config", config)
    assert printed.err.startswith(
        f"by listing and the configuration {config}; the running scheduler was not asked: "
    )
    never = kubectl("get", "--config", config, "--ask-scheduler", "never")
    assert never.err == f"by listing and the configuration {config}\n"
    assert never.out == printed.out


@pytest.mark.parametrize("command", LISTING)
def test_commands_that_list_say_that_the_scheduler_has_another_configuration(
    command: list[str], api: Server, kubectl: Kubectl
) -> None:
    api.answer = configuration(is_configured=True)
    assert kubectl(*command).err == OTHERWISE
    assert api.asked == ["configuration?namespace=default"]


@pytest.mark.parametrize("command", LISTING)
@pytest.mark.parametrize("answer", [False, None, "yes"])
def test_nothing_is_said_of_the_default_configuration(
    answer: object, command: list[str], api: Server, kubectl: Kubectl
) -> None:
    api.answer = configuration(is_configured=answer)
    assert kubectl(*command).err == ""


@pytest.mark.parametrize("command", LISTING)
def test_configuration_that_is_named_is_not_asked_for(
    command: list[str], api: Server, kubectl: Kubectl, config: str
) -> None:
    api.answer = configuration(is_configured=True)
    assert kubectl(*command, "--config", config).err == ""
    assert api.asked == []


def test_scheduler_that_is_slow_does_not_hold_a_listing_back(
    api: Server, kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_ask_scheduler, "_PATIENCE", 0.05)
    api.pause = 30.0
    printed = kubectl("demand")
    assert (printed.code, printed.err) == (0, "")


@pytest.mark.parametrize(
    ("settings", "is_configured"),
    [
        (ALONE, False),
        (
            read_settings(
                {
                    "leaderElection": {"leaderElect": False},
                    "profiles": [{"pluginConfig": [{"name": "DefaultPreemption"}]}],
                }
            ),
            True,
        ),
    ],
)
def test_running_scheduler_says_whether_it_is_configured(
    settings: Settings, is_configured: bool, api: Server
) -> None:
    @on_a_loop
    async def run() -> None:
        (port,) = free_ports(1)
        async with running(api, settings, serve=("127.0.0.1", port)):
            found: dict[str, Any] = {}
            while "items" not in found:
                await asyncio.sleep(0.02)
                body = await asyncio.to_thread(fetch, port, "/configuration")
                found = json.loads(body or "{}")
            assert found["kind"] == "Configuration"
            assert found["items"] == [{"isConfigured": is_configured}]

    run()


def test_request_timeout_of_nothing_is_refused_before_the_first_request(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert _kubectl.main(["get", "--request-timeout", "0"]) == 2
    assert "--request-timeout: expected more than 0 s" in capsys.readouterr().err
