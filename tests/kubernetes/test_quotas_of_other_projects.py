"""The queues of Kueue and Volcano on an API server, which validates and defaults them as there."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import pytest
from attrs import frozen

from gangsched.kubernetes import Serving, _peers
from gangsched.kubernetes._client import connect
from support.control_plane import Account
from support.control_plane.processes import free_ports
from support.definitions import defined
from support.peer_queues import PEERS, PeerQueues
from support.running import on_a_loop, running
from support.scheduled_cluster import Cluster, cluster, documented_rights, eventually
from support.strangers import Stranger

__all__ = ["cluster"]

pytest.importorskip("yaml")
pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

RECLAIMS: Final[dict[str, Any]] = {"args": {"DefaultPreemption": {"reclaim": "Nominal"}}}


@frozen
class Queued:
    """A cluster with queues of another project.

    Attributes:
        cluster: The cluster.
        queues: The queues.
    """

    cluster: Cluster
    queues: PeerQueues

    def create(self, gpus: int) -> None:
        """Create two queues with some GPUs each."""
        self.queues.create(self.cluster.plane.admin, self.cluster.namespace, gpus)

    def add_gang(self, name: str, size: int, queue: str) -> None:
        """Create a gang of pods with a GPU each."""
        self.cluster.add_group(name, size)
        for n in range(size):
            pod = self.cluster.pod(f"{name}-{n}", group=name)
            self.queues.put_into(pod, queue)
            self.cluster.plane.admin.create(self.cluster.path(), pod)

    def bound(self) -> set[str]:
        """Return the gangs that have a node."""
        placed = self.cluster.placed().items()
        return {name.partition("-")[0] for name, node in placed if node}

    def why(self, name: str) -> str:
        """Return why the first pod of a gang waits."""
        found = self.cluster.condition(f"{name}-0", "PodScheduled") or {}
        return str(found.get("message", ""))

    def account(self, *, may_list: bool) -> Account:
        """Return an account with the rights of the chart, with or without that to list queues."""
        rules = [*documented_rights(), *([self.queues.right()] if may_list else [])]
        name = f"{self.cluster.namespace}-{self.queues}"
        return Account.create(self.cluster.plane.admin, name, rules)

    @asynccontextmanager
    async def scheduling(
        self, *, may_list: bool = True, **named: Any
    ) -> AsyncGenerator[None, None]:
        """Run a scheduler that reads the queues."""
        token = self.account(may_list=may_list).token
        file = self.cluster.plane.kubeconfig(self.cluster.namespace, token)
        api = await connect(kubeconfig=str(file))
        settings = self.cluster.settings(quotas_from=self.queues.peer, profile=RECLAIMS)
        try:
            async with running(api, settings, **named):
                yield
        finally:
            await api.aclose()


@pytest.fixture(params=PEERS, ids=str)
def queued(
    request: pytest.FixtureRequest, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Queued]:
    """A cluster that serves the queues of a project."""
    monkeypatch.setattr(_peers, "_LOOK_AT_QUOTAS", 0.2)
    queues: PeerQueues = request.param
    with defined(cluster.plane.admin, *queues.definitions):
        yield Queued(cluster, queues)


@on_a_loop
async def test_queue_takes_back_what_another_one_has_borrowed(
    queued: Queued, caplog: pytest.LogCaptureFixture
) -> None:
    queued.cluster.add_nodes(1, gpu=4)
    queued.create(gpus=2)
    with caplog.at_level(logging.WARNING, "gangsched.kubernetes"):
        async with queued.scheduling():
            queued.add_gang("own", 2, "blue")
            await eventually(lambda: queued.bound() == {"own"})
            queued.add_gang("borrowed", 2, "blue")
            await eventually(lambda: queued.bound() == {"own", "borrowed"})
            queued.add_gang("more", 1, "blue")
            await eventually(lambda: "exceeded quota blue: " in queued.why("more"))
            queued.add_gang("asks", 2, "red")
            victim = partial(queued.cluster.condition, "borrowed-0", "DisruptionTarget")
            await eventually(lambda: "reclaimed by pod group" in str(victim()))
            for n in range(2):  # as the kubelet does when the grace period is over
                path = queued.cluster.path(f"borrowed-{n}")
                queued.cluster.plane.admin.delete(path, gracePeriodSeconds=0)
            await eventually(lambda: queued.bound() == {"own", "asks"})
    assert queued.cluster.condition("own-0", "DisruptionTarget") is None
    # what the API server puts in by default is nothing to be told about
    assert "has no meaning here" not in caplog.text


@on_a_loop
async def test_scheduler_follows_the_queues(queued: Queued) -> None:
    queued.cluster.add_nodes(1, gpu=4)
    queued.create(gpus=1)
    async with queued.scheduling():
        queued.add_gang("large", 3, "blue")
        await eventually(lambda: "exceeded quota blue: " in queued.why("large"))
        queued.queues.resize(queued.cluster.plane.admin, "blue", 3)
        await eventually(lambda: queued.bound() == {"large"})
        queued.add_gang("closed", 2, "red")
        await eventually(lambda: "exceeded quota red: " in queued.why("closed"))
        queued.queues.close(queued.cluster.plane.admin, "red")
        held = queued.queues.held.format(namespace=queued.cluster.namespace)
        await eventually(lambda: held in queued.why("closed"))
    assert queued.bound() == {"large"}


def is_said(page: Stranger, text: str) -> tuple[int, str] | None:
    """Return the status and what is said, once a text is in it."""
    status, body = page.get("/readyz")
    return (status, body.decode()) if text in body.decode() else None


@on_a_loop
async def test_without_the_right_to_list_queues_nothing_is_placed_and_readyz_says_why(
    queued: Queued,
) -> None:
    queued.cluster.add_nodes(1, gpu=4)
    queued.create(gpus=2)
    queued.cluster.add_gang("free", 1)
    queued.add_gang("g", 2, "red")
    (port,) = free_ports(1)
    page = Stranger(port)
    said = f"the quotas of {queued.queues} are not read: "
    async with queued.scheduling(may_list=False, serve=Serving("0.0.0.0", port)):
        answer = await eventually(lambda: is_said(page, said))
        assert answer is not None
        status, why = answer
        assert (status, "is forbidden" in why) == (503, True)
        assert queued.bound() == set()
        queued.account(may_list=True)
        await eventually(lambda: queued.bound() == {"free", "g"})
        await eventually(lambda: page.get("/readyz")[0] == 200)
