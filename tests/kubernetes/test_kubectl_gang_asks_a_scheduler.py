"""``kubectl gang`` asks a real scheduler: at an address, and through a real API server's proxy."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import evolve

from gangsched.kubernetes import LeaderElection
from gangsched.kubernetes._client import connect
from support.control_plane import Account, Rule
from support.control_plane.fixtures import need_control_plane
from support.control_plane.processes import free_ports
from support.documents import ROOT
from support.kubectl_program import Kubectl, Printed, plugin_folder
from support.patience import saw
from support.running import on_a_loop, running
from support.scheduled_cluster import Cluster, cluster, documented_rights, eventually

__all__ = ["cluster"]

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

PAGE: Final = ROOT / "docs" / "reference" / "kubectl-gang.md"
LIST_PODS: Final = Rule(["list"], ["pods"])
_ASKED: Final = "by the scheduler at "
"""What is printed unless the cluster was listed, because there was no answer in time."""
_RIGHTS: Final = re.compile(r"<!-- manifest: rights to ask -->\n```yaml\n(.*?)```", re.DOTALL)


def rights_to_ask() -> Iterator[Rule]:
    """Yield the rules that the page names for those who ask the scheduler."""
    yaml = pytest.importorskip("yaml")
    block = _RIGHTS.search(PAGE.read_text(encoding="utf-8"))
    assert block is not None
    for role in yaml.safe_load_all(block[1]):
        for rule in role["rules"]:
            for group in rule["apiGroups"]:
                yield Rule(rule["verbs"], rule["resources"], group)


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    need_control_plane("kubectl")
    return plugin_folder(tmp_path / "bin")


def host_address() -> str:
    """Return an address of this machine that an API server passes requests on to.

    It refuses loopback addresses, whatever the pod says.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("198.51.100.1", 9))  # sends nothing; chooses a route
        except OSError:
            return ""
        address: str = probe.getsockname()[0]
    return "" if address.startswith("127.") else address


@asynccontextmanager
async def leading(cluster: Cluster, host: str) -> AsyncGenerator[int, None]:
    """Run a scheduler that holds a Lease of the test's namespace; yields its port."""
    (port,) = free_ports(1)
    election = LeaderElection(resource_namespace=cluster.namespace)
    account = Account.create(cluster.plane.admin, "documented", documented_rights())
    api = await connect(kubeconfig=str(cluster.plane.kubeconfig("leads", account.token)))
    settings = evolve(cluster.settings(), leader_election=election)
    try:
        async with running(api, settings, serve=(host, port)):
            yield port
    finally:
        await api.aclose()


async def as_user(kubectl: Kubectl, cluster: Cluster, *arguments: str) -> Printed:
    # not on the loop, which serves the answer
    return await asyncio.to_thread(
        kubectl.run, "gang", *arguments, "--namespace", cluster.namespace
    )


async def says(
    kubectl: Kubectl, cluster: Cluster, texts: tuple[str, ...], *arguments: str
) -> Printed:
    """Ask until all texts are printed; return the answer. A busy scheduler gives none in time."""
    printed: list[Printed] = []

    def has_it() -> bool:
        answer = kubectl.run("gang", *arguments, "--namespace", cluster.namespace)
        saw(f"{answer}")
        printed.append(answer)
        return all(text in answer.out + answer.err for text in texts)

    await eventually(has_it, step=0.2)
    return printed[-1]


@on_a_loop
async def test_scheduler_at_an_address_says_why_gangs_wait(cluster: Cluster, plugins: Path) -> None:
    cluster.add_nodes(1, gpu=4)
    cluster.add_gang("large", 5)
    cluster.add_gang("fits", 2)
    kubectl = Kubectl(cluster.plane.kubeconfig("person"), plugins)
    async with leading(cluster, "127.0.0.1") as port:
        at = ("--scheduler-url", f"http://127.0.0.1:{port}")
        # the scheduler sees its binds a moment after the API server
        seen = (_ASKED, "does not fit", '"held": 2')
        got = await says(kubectl, cluster, seen, "get", *at, "-o", "json")
        why = await says(kubectl, cluster, (_ASKED, "what would help: "), "why", "large", *at)
        queue = await says(kubectl, cluster, (_ASKED,), "queue", *at, "-o", "json")
    rows: dict[str, Any] = {each["name"]: each for each in json.loads(got.out)["items"]}
    assert {name: (row["have"], row["held"]) for name, row in rows.items()} == {
        "large": (5, 0),
        "fits": (2, 2),
    }
    assert got.err.startswith(f"by the scheduler at http://127.0.0.1:{port}, ")
    # the gang that fits may have taken its nodes since the attempt
    assert re.search(r"why: (as of \S+: )?pod", why.out), why.out
    assert [each["name"] for each in json.loads(queue.out)["items"]] == [
        f"{cluster.namespace}/large"
    ]


@on_a_loop
async def test_scheduler_is_asked_through_the_api_server_with_three_rights(
    cluster: Cluster, plugins: Path
) -> None:
    host = host_address()
    if not host:
        pytest.skip("this machine has no address but loopback, which API servers refuse")
    cluster.add_gang("waits", 2)
    admin, namespace = cluster.plane.admin, cluster.namespace
    async with leading(cluster, host) as port:
        # the pod that this process would run in, which no kubelet reports
        name = socket.gethostname()
        cluster.add_pod(name, scheduler="default-scheduler", gpu=0)
        admin.patch(f"{cluster.path(name)}/status", {"status": _at(host)})
        lease = ("--lease", f"{namespace}/gangsched", "--scheduler-port", str(port))
        # the account whose rights the answers have, which the chart creates
        Account.create(admin, "gangsched-ask", [LIST_PODS], namespace=namespace)
        must = ("--ask-scheduler", "always", *lease)
        asker = Account.create(admin, "asks", rights_to_ask())
        one = Kubectl(cluster.plane.kubeconfig("asks", asker.token), plugins)
        got = await says(one, cluster, (_ASKED, "does not fit"), "get", *must)
        why = await says(one, cluster, (_ASKED, "why: "), "why", "waits", *must)

        rules = [rule for rule in rights_to_ask() if "pods/proxy" not in rule.resources]
        other = Account.create(admin, "asks-not", rules)
        without = Kubectl(cluster.plane.kubeconfig("asks-not", other.token), plugins)
        refused = await says(without, cluster, ("pods/proxy",), "get", *must)

        admin.delete(cluster.path(name), {"gracePeriodSeconds": 0})
        person = Kubectl(cluster.plane.kubeconfig("person"), plugins)
        listed = await as_user(person, cluster, "get", *lease)
    assert got.err.startswith(f"by the scheduler at {namespace}/{name}, ")
    assert "why: " in why.out
    assert "what would help: not known: not listed" in why.err
    assert refused.code == 2
    assert "pods/proxy" in refused.err
    assert listed.err.startswith("by listing and the default configuration; ")
    assert "waits" in listed.out


def _at(address: str) -> dict[str, Any]:
    return {"podIP": address, "podIPs": [{"ip": address}], "hostIP": address, "phase": "Running"}
