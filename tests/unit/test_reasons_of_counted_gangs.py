"""Why a gang does not start of which a plugin counts the pods on nodes: every cause is named."""

from __future__ import annotations

from gangsched import (
    InMemoryCluster,
    Node,
    NodeAdded,
    Pod,
    Role,
    Scheduler,
    gang,
    presets,
)
from gangsched.explain import SearchBudgetExhausted, Shortage
from gangsched.outcomes import Outcome, Success, Unschedulable
from gangsched.protocols import CycleView, NodeView

GPU = "nvidia.com/gpu"


class GpuQuota:
    """The pods with GPUs use at most two of them; no signature, so each pod is a kind."""

    name = "GpuQuota"
    limit = 2

    def reads_pods(self, pod: Pod) -> bool:
        return True

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        pods = [each for view in state.nodes.values() for each in view.pods]
        used = sum(each.requests.amount(GPU) for each in pods)
        if used + pod.requests.amount(GPU) <= 1000 * self.limit:
            return Success()
        return Unschedulable(f"the lab may use {self.limit} GPUs", resolvable=False)

    def pod_signature(self, pod: Pod) -> int:
        return pod.requests.amount(GPU)

    def node_signature(self, node: NodeView) -> None:
        return None


class Wide(GpuQuota):
    limit = 12


def tried(plugin: object, workers: int, *, nodes: int, budget: int = 10_000) -> Scheduler:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster, plugins=[plugin], search_budget=budget)
    for number in range(nodes):
        node = Node(name=f"n{number}", allocatable={GPU: 4})
        scheduler.handle(cluster.apply(NodeAdded(node)), now=0.0)
    for event in gang("g", roles={"worker": Role(workers)}, gpu=1).events():
        scheduler.handle(cluster.apply(event), now=0.0)
    while scheduler.schedule_one(now=0.0) is not None:
        pass
    return scheduler


def test_shortage_is_named_where_members_alone_fill_every_node() -> None:
    """The nodes are free again when the reason is made: no member is refused by all of them."""
    why = str(tried(Wide(), 20, nodes=1).why("default/g"))
    assert "at most 4 of 20 members" in why
    assert "nvidia.com/gpu is short" in why


def test_search_that_is_cut_short_names_the_quota_that_stopped_it() -> None:
    scheduler = tried(Wide(), 20, nodes=9, budget=200)
    why = scheduler.why("default/g")
    proof = getattr(why, "unschedulable_member").proof  # noqa: B009
    assert isinstance(proof, SearchBudgetExhausted)
    assert "not decided within 200 steps: 12 of 20 members fit, and more may" in str(why)
    assert "the lab may use 12 GPUs" in str(why)


def test_bound_that_is_not_exact_is_no_count() -> None:
    proof = Shortage(20, 19, exact=False)
    assert str(proof) == "not all of 20 members fit at once"
    assert str(Shortage(20, 15, exact=False)) == "15 or fewer of 20 members fit at once"
    assert str(Shortage(20, 12, exact=True)) == "at most 12 of 20 members fit at once"
    within = Shortage(3, 2, exact=False, role="ps", within="rack=r1", resource="cpu")
    assert str(within) == "not all of 3 members of role ps fit within rack=r1: cpu is short"
