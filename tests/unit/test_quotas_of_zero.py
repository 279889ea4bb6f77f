"""A quota may limit a resource to zero, as a ResourceQuota of Kubernetes."""

from __future__ import annotations

import copy
import json
import pickle

import pytest
from attrs import evolve

from gangsched import InMemoryCluster, NodeAdded, PodAdded, Quota, Resources, presets
from gangsched.explain import NotAdmitted
from gangsched.replay.recipe import Recipe
from gangsched.testing import make_node, make_pod

GPU = "nvidia.com/gpu"
NO_GPU = Quota(name="q", namespaces=["default"], hard={GPU: 0, "cpu": 8})


def why(quota: Quota, *, gpu: int) -> object:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster, quotas=[quota])
    scheduler.handle(cluster.apply(NodeAdded(make_node("n", cpu=8, gpu=4))), now=0.0)
    for n in range(2):
        pod = make_pod(f"g-{n}", group="g", min_available=2, cpu=1, gpu=gpu)
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    while scheduler.schedule_one(now=0.0) is not None:
        pass
    return scheduler.why("default/g")


@pytest.mark.parametrize("hard", [{GPU: 0, "cpu": 8}, {GPU: "0"}, {GPU: 0}])
def test_gang_that_requests_what_is_limited_to_zero_is_not_admitted(
    hard: dict[str, str | int],
) -> None:
    answer = why(evolve(NO_GPU, hard=hard), gpu=1)
    assert isinstance(answer, NotAdmitted)
    assert f"requested {GPU}=2, used {GPU}=0, limited {GPU}=0" in str(answer)


def test_gang_without_a_request_for_it_is_admitted() -> None:
    assert not isinstance(why(NO_GPU, gpu=0), NotAdmitted)


def test_limit_of_zero_is_kept_by_copies_and_text() -> None:
    for other in (
        evolve(NO_GPU, name="q"),
        copy.deepcopy(NO_GPU),
        pickle.loads(pickle.dumps(NO_GPU)),
        eval(repr(NO_GPU)),
    ):
        assert other == NO_GPU
        assert dict(other.hard) == {GPU: 0, "cpu": 8000}


def test_limit_of_zero_is_in_the_recipe_of_a_decision_log() -> None:
    recipe = Recipe("gang", quotas=[NO_GPU])
    read = Recipe.from_json(json.loads(json.dumps(recipe.to_json())))
    assert read.arguments["quotas"] == (NO_GPU,)


def test_requests_of_zero_are_not_named_still() -> None:
    assert dict(Resources({GPU: 0, "cpu": 1})) == {"cpu": 1000}
    assert dict(pickle.loads(pickle.dumps(Resources({GPU: 0, "cpu": 1})))) == {"cpu": 1000}
