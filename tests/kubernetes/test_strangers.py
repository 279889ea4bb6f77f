"""What a scheduler on a real API server answers to strangers, to tenants and to those with rights.

It runs with the rights that the documentation names, and RBAC is on.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from attrs import frozen

from gangsched.kubernetes import Serving
from gangsched.kubernetes._client import connect
from support.cluster_objects import group_json, pod_json
from support.control_plane import Account, Rule
from support.control_plane.processes import free_ports
from support.patience import HANG, until
from support.running import on_a_loop, running
from support.scheduled_cluster import GROUPS, Cluster, cluster, documented_rights, eventually
from support.strangers import PAGES, Stranger, allow_metrics

__all__ = ["cluster"]

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

LIST_PODS = Rule(["list"], ["pods"])
_RBAC = "/apis/rbac.authorization.k8s.io/v1"


@frozen
class Served:
    """A scheduler that is served to others, in a cluster with two tenants.

    Attributes:
        cluster: The cluster; its namespace is that of the first tenant.
        port: The port.
        other: The namespace of the second tenant.
    """

    cluster: Cluster
    port: int
    other: str

    async def ask(self, what: Callable[[], Any]) -> Any:
        """Ask off the loop, which serves the answer."""
        return await asyncio.to_thread(what)

    def account(self, name: str, rules: list[Rule]) -> Stranger:
        """Return an asker with rights on all namespaces."""
        made = Account.create(self.cluster.plane.admin, f"{self.cluster.namespace}-{name}", rules)
        return Stranger(self.port, made.token)

    def tenant(self, namespace: str) -> Stranger:
        """Return an asker that may list the pods of one namespace."""
        admin, name = self.cluster.plane.admin, f"{self.cluster.namespace}-of-{namespace}"
        made = Account.create(admin, name, [])
        subject = {"kind": "ServiceAccount", "name": name, "namespace": made.namespace}
        role = {"metadata": {"name": "reads"}, "rules": [LIST_PODS.as_object()]}
        ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reads"}
        admin.create(f"{_RBAC}/namespaces/{namespace}/roles", role)
        binding = {"metadata": {"name": "reads"}, "roleRef": ref, "subjects": [subject]}
        admin.create(f"{_RBAC}/namespaces/{namespace}/rolebindings", binding)
        # the API server reads roles from watches, and the scheduler keeps what it answers for 10 s
        pods = f"/api/v1/namespaces/{namespace}/pods"
        with self.cluster.plane.client(made.token) as client:
            until(lambda: client.raw("GET", pods)[0] == 200)
        return Stranger(self.port, made.token)


@asynccontextmanager
async def served(cluster: Cluster, **serving: Any) -> AsyncGenerator[Served, None]:
    """Run a scheduler with a gang of each of two tenants that waits."""
    (port,) = free_ports(1)
    found = Served(cluster, port, f"{cluster.namespace}-other")
    admin = cluster.plane.admin
    admin.create("/api/v1/namespaces", {"metadata": {"name": found.other}})
    cluster.add_gang("waits", 2)
    body = group_json("secret", 2, namespace=found.other)
    admin.create(f"{GROUPS}/namespaces/{found.other}/podgroups", body)
    for n in range(2):
        given: Any = {"namespace": found.other, "scheduler": cluster.name, "group": "secret"}
        pod = pod_json(f"secret-{n}", **given)
        del pod["status"]
        admin.create(f"/api/v1/namespaces/{found.other}/pods", pod)
    account = Account.create(admin, "documented", documented_rights())
    api = await connect(kubeconfig=str(cluster.plane.kubeconfig("serves", account.token)))
    try:
        async with running(api, cluster.settings(), serve=Serving("0.0.0.0", port, **serving)):
            yield found
    finally:
        await api.aclose()
        admin.delete(f"/api/v1/namespaces/{found.other}/pods", gracePeriodSeconds=0)


def names(items: list[dict[str, Any]]) -> set[str]:
    return {each["name"].rpartition("/")[2] for each in items}


@on_a_loop
async def test_strangers_get_nothing_but_the_health(cluster: Cluster) -> None:
    (health,) = free_ports(1)
    async with served(cluster, health=("127.0.0.1", health)) as scheduler:
        none, wrong = Stranger(scheduler.port), Stranger(scheduler.port, "wrong")
        without = await scheduler.ask(lambda: scheduler.account("without", []))
        await eventually(lambda: none.status("/readyz") == 200)
        for page in PAGES:
            assert await scheduler.ask(partial(none.status, page)) == 401, page
            assert await scheduler.ask(partial(wrong.status, page)) == 401, page
            status, body = await scheduler.ask(partial(without.get, page))
            assert status == 403, page
            assert b"secret" not in body
            assert await scheduler.ask(partial(answered, health, page)) == 404, page
        for page in ("/healthz", "/livez", "/readyz"):
            assert await scheduler.ask(partial(none.status, page)) == 200, page
            assert await scheduler.ask(partial(answered, health, page)) == 200, page
        # what speaks plain HTTP to the port of HTTPS gets no answer at all
        assert await scheduler.ask(lambda: plain(scheduler.port, "/metrics")) == 0


def plain(port: int, page: str) -> int:
    """Return the status of a page over plain HTTP; 0 without an answer."""
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANG)
    try:
        connection.request("GET", page)
        return connection.getresponse().status
    except (http.client.HTTPException, OSError):
        return 0
    finally:
        connection.close()


def answered(port: int, page: str) -> int:
    """Do the same until there is an answer: a busy scheduler may give none in time."""
    return until(lambda: plain(port, page), step=0.1)


@on_a_loop
async def test_token_of_a_tenant_sees_its_namespace_only(cluster: Cluster) -> None:
    async with served(cluster) as scheduler:
        tenant = await scheduler.ask(lambda: scheduler.tenant(cluster.namespace))
        everything = await scheduler.ask(lambda: scheduler.account("all", [LIST_PODS]))
        await eventually(lambda: {"waits", "secret"} <= names(everything.items("/gangs")))
        for page in ("/gangs", "/queue"):
            for query in ("", f"?namespace={cluster.namespace}"):
                status, body = await scheduler.ask(partial(tenant.get, page + query))
                document = json.loads(body)
                assert (status, names(document["items"])) == (200, {"waits"})
                assert document["total"] == 1
                assert b"secret" not in body
            at = f"{page}?namespace={scheduler.other}"
            assert await scheduler.ask(partial(tenant.status, at)) == 403
        own = await scheduler.ask(lambda: tenant.get(f"/why?group={cluster.namespace}/waits"))
        assert own[0] == 200
        assert b"secret" not in own[1]
        # an answer does not say whether it exists
        theirs = await scheduler.ask(lambda: tenant.get(f"/why?group={scheduler.other}/secret"))
        absent = await scheduler.ask(lambda: tenant.get(f"/why?group={scheduler.other}/absent"))
        assert theirs == absent
        assert theirs[0] == 403
        configured = f"/configuration?namespace={cluster.namespace}"
        assert await scheduler.ask(lambda: tenant.status(configured)) == 200
        of_own = f"/quotas?namespace={cluster.namespace}"
        assert await scheduler.ask(lambda: tenant.status(of_own)) == 403
        assert await scheduler.ask(lambda: tenant.status("/metrics")) == 403


@on_a_loop
async def test_token_with_all_rights_sees_everything(cluster: Cluster) -> None:
    async with served(cluster) as scheduler:
        asker = await scheduler.ask(lambda: scheduler.account("all", [LIST_PODS]))
        await eventually(lambda: {"waits", "secret"} <= names(asker.items("/gangs")))
        assert {"waits", "secret"} <= names(await scheduler.ask(lambda: asker.items("/queue")))
        why = f"/why?group={scheduler.other}/secret"
        assert await scheduler.ask(lambda: asker.status(why)) == 200
        assert await scheduler.ask(lambda: asker.status("/configuration")) == 200
        assert await scheduler.ask(lambda: asker.status("/quotas")) == 200
        assert await scheduler.ask(lambda: asker.status("/metrics")) == 403
        scrapes = await scheduler.ask(lambda: scheduler.account("scrapes", []))
        name = f"{cluster.namespace}-scrapes"
        await scheduler.ask(lambda: allow_metrics(cluster.plane.admin, name))
        status, body = await scheduler.ask(lambda: scrapes.get("/metrics"))
        assert status == 200
        assert b"gangsched_ready" in body
        assert await scheduler.ask(lambda: scrapes.status("/gangs")) == 403


@on_a_loop
async def test_token_for_this_program_alone_is_accepted_here_and_nowhere_else(
    cluster: Cluster,
) -> None:
    async with served(cluster) as scheduler:
        admin, namespace = cluster.plane.admin, "kube-system"
        name = f"{cluster.namespace}-own"
        await scheduler.ask(lambda: scheduler.account("own", [LIST_PODS]))
        spec = {"audiences": ["gangsched"], "expirationSeconds": 600}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        answer = await scheduler.ask(lambda: admin.create(path, {"spec": spec}))
        token = answer["status"]["token"]
        asker = Stranger(scheduler.port, token)
        await eventually(lambda: "waits" in names(asker.items("/gangs")))
        # the API server takes the header out of what it passes on, so the body may have it
        status, body = await scheduler.ask(lambda: asker.post("/gangs"))
        assert status == 200
        assert b"waits" in body
        with cluster.plane.client(token) as client:
            assert await scheduler.ask(lambda: client.raw("GET", cluster.path())[0]) == 401
        spec["audiences"] = ["another"]
        answer = await scheduler.ask(lambda: admin.create(path, {"spec": spec}))
        foreign = Stranger(scheduler.port, answer["status"]["token"])
        assert await scheduler.ask(lambda: foreign.status("/gangs")) == 401


@on_a_loop
async def test_scheduler_that_may_not_review_answers_nobody(cluster: Cluster) -> None:
    (port,) = free_ports(1)
    rules = [rule for rule in documented_rights() if "tokenreviews" not in rule.resources]
    account = Account.create(cluster.plane.admin, "reviews-not", rules)
    api = await connect(kubeconfig=str(cluster.plane.kubeconfig("reviews-not", account.token)))
    asker = Stranger(port, account.token)
    try:
        async with running(api, cluster.settings(), serve=("0.0.0.0", port)):
            await eventually(lambda: asker.status("/readyz") == 200)
            status, body = await asyncio.to_thread(lambda: asker.get("/metrics"))
    finally:
        await api.aclose()
    assert status == 503
    assert b"create tokenreviews" in body
