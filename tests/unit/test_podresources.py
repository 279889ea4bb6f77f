"""What a pod reserves in all, and up to what it may go."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched.errors import ManifestError
from gangsched.events import PodAdded
from gangsched.kubernetes import read_notification
from gangsched.manifests.fields import Field, Source
from gangsched.manifests.podresources import pod_limits, pod_requests
from gangsched.model import Pod, QOSClass, Resources
from gangsched.simulation import load_manifests
from support.calls import lines_for


def _spec(value: dict[str, Any]) -> Field:
    return Field(Source("f.yaml", 1), "spec", value)


def _asking(
    requests: dict[str, Any] | None = None, limits: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    return {"resources": {"requests": requests, "limits": limits}, **more}


def _sidecar(**requests: Any) -> dict[str, Any]:
    return _asking(requests, restartPolicy="Always")


def _requests(*containers: dict[str, Any], **more: Any) -> Resources:
    return pod_requests(_spec({"containers": list(containers), **more}))


def _limits(*containers: dict[str, Any], **more: Any) -> Resources:
    return pod_limits(_spec({"containers": list(containers), **more}))


def _qos(*containers: dict[str, Any], **more: Any) -> QOSClass:
    return Pod(
        name="p", requests=_requests(*containers, **more), limits=_limits(*containers, **more)
    ).qos_class


def test_containers_are_added_up() -> None:
    assert _requests(_asking({"cpu": "500m"}), _asking({"cpu": 1, "memory": "1Gi"}), {}) == (
        Resources({"cpu": "1500m", "memory": "1Gi"})
    )


@pytest.mark.parametrize("amount", [0.5, 0.1, 1e-7, 2.0, 1e15, 3, "500m"])
def test_notification_takes_a_quantity_as_a_manifest_does(amount: float | str) -> None:
    requests = {"cpu": amount, "memory": "1Gi"}
    metadata = {"name": "p", "namespace": "default", "uid": "default/p"}
    spec = {"containers": [{"name": "c", "resources": {"requests": requests}}]}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    event = read_notification({"type": "ADDED", "object": manifest}).event
    (arrival,) = load_manifests(json.dumps(manifest), file="f.json").arrivals
    assert isinstance(event, PodAdded)
    assert isinstance(arrival.event, PodAdded)
    assert event.pod.requests == arrival.event.pod.requests != Resources()


@pytest.mark.parametrize("amount", [math.inf, math.nan, -0.5, True, 1e30])
def test_notification_refuses_what_is_no_quantity(amount: float) -> None:
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": amount}}}]}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    with pytest.raises(ManifestError, match=r"requests.cpu: expected a (Kubernetes )?quantity"):
        read_notification({"type": "ADDED", "object": manifest})


def test_limit_is_the_default_of_the_request() -> None:
    container = _asking({"cpu": "1"}, {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": 2})
    assert _requests(container) == Resources({"cpu": 1, "memory": "1Gi", "nvidia.com/gpu": 2})
    assert _limits(container) == Resources({"cpu": 2, "memory": "1Gi", "nvidia.com/gpu": 2})


def test_init_containers_count_one_at_a_time_beyond_the_sum() -> None:
    init = [_asking({"cpu": 3}), _asking({"cpu": 2, "memory": "2Gi"})]
    main = _asking({"cpu": 1, "memory": "3Gi"})
    assert _requests(main, initContainers=init) == Resources({"cpu": 3, "memory": "3Gi"})


def test_sidecars_count_with_the_containers_and_with_init_containers_after_them() -> None:
    init = [_asking({"cpu": 6}), _sidecar(cpu=2), _asking({"cpu": 4}), _sidecar(cpu=1)]

    # 6 alone; 2 + 4 = 6; and 1 + 2 + 1 = 4 when all run.
    assert _requests(_asking({"cpu": 1}), initContainers=init) == Resources({"cpu": 6})
    # With 5 of its own: 5 + 2 + 1 = 8.
    assert _requests(_asking({"cpu": 5}), initContainers=init) == Resources({"cpu": 8})
    # The sidecar before an init container counts with it: 2 + 7 = 9.
    later = [_sidecar(cpu=2), _asking({"cpu": 7})]
    assert _requests(_asking({"cpu": 1}), initContainers=later) == Resources({"cpu": 9})
    # One that starts after it does not: 7.
    assert _requests(_asking({"cpu": 1}), initContainers=later[::-1]) == Resources({"cpu": 7})


def test_overhead_is_added_on_top() -> None:
    init = [_asking({"cpu": 3})]
    assert _requests(
        _asking({"cpu": 1}), initContainers=init, overhead={"cpu": "250m", "memory": "64Mi"}
    ) == Resources({"cpu": "3250m", "memory": "64Mi"})


def test_request_of_the_whole_pod_replaces_the_sum() -> None:
    asked = _requests(
        _asking({"cpu": 1, "nvidia.com/gpu": 1}),
        resources={
            "requests": {"cpu": 8, "hugepages-2Mi": "4Mi", "nvidia.com/gpu": 4},
            "limits": {"memory": "4Gi"},
        },
        overhead={"cpu": 1},
    )
    assert asked == Resources(
        {"cpu": 9, "hugepages-2Mi": "4Mi", "memory": "4Gi", "nvidia.com/gpu": 1}
    )


def test_limit_of_the_whole_pod_is_its_default_request() -> None:
    whole = {"limits": {"cpu": 8, "memory": "8Gi", "nvidia.com/gpu": 1}}
    assert _requests(_asking({"cpu": 1}), resources=whole) == Resources({"cpu": 1, "memory": "8Gi"})
    assert _limits(_asking({"cpu": 1}), resources=whole) == Resources({"cpu": 8, "memory": "8Gi"})


def test_pod_has_a_limit_only_if_each_container_has_one() -> None:
    one = _asking(None, {"cpu": 1, "memory": "1Gi"})
    two = _asking(None, {"cpu": 2})
    assert _limits(one, two) == Resources({"cpu": 3})
    assert _limits(one, initContainers=[two]) == Resources({"cpu": 2})
    assert _limits(one, {}) == Resources()
    assert _limits(one, overhead={"cpu": 1, "pods": 1}) == Resources({"cpu": 2, "memory": "1Gi"})


FULL = {"cpu": 1, "memory": "1Gi"}


@pytest.mark.parametrize(
    ("containers", "more", "expected"),
    [
        ([{}], {}, QOSClass.BEST_EFFORT),
        ([_asking({"nvidia.com/gpu": 1})], {}, QOSClass.BEST_EFFORT),
        ([_asking({"cpu": 1})], {}, QOSClass.BURSTABLE),
        ([_asking(None, FULL)], {}, QOSClass.GUARANTEED),
        ([_asking(None, FULL), {}], {}, QOSClass.BURSTABLE),
        ([_asking(None, FULL)], {"initContainers": [{}]}, QOSClass.BURSTABLE),
        ([_asking({"cpu": "500m"}, FULL)], {}, QOSClass.BURSTABLE),
        ([_asking(None, FULL)], {"overhead": {"cpu": 1}}, QOSClass.GUARANTEED),
        ([{}], {"resources": {"limits": FULL}}, QOSClass.GUARANTEED),
    ],
)
def test_qos_class_is_that_of_kubernetes(
    containers: list[dict[str, Any]], more: dict[str, Any], expected: QOSClass
) -> None:
    assert expected is _qos(*containers, **more)


@pytest.mark.parametrize(
    ("spec", "path", "problem"),
    [
        (
            {"containers": [{}, _asking({"cpu": 2}, {"cpu": "1500m"})]},
            "spec.containers[1].resources.requests.cpu",
            "expected a quantity <= its limit, 1500m, got 2",
        ),
        (
            {"containers": [_asking({"cpu": "1K"})]},
            "spec.containers[0].resources.requests.cpu",
            "such as 500m, 4Gi or 1e3, got '1K'",
        ),
        (
            {"containers": [_asking(None, {"memory": -1})]},
            "spec.containers[0].resources.limits.memory",
            "expected a quantity >= 0, got -1",
        ),
        (
            {"containers": [_asking(None, {"nvidia.com/gpu": "500m"})]},
            "spec.containers[0].resources.limits[nvidia.com/gpu]",
            "expected a whole quantity, got '500m'",
        ),
        (
            {"containers": [], "initContainers": [{"restartPolicy": "always"}]},
            "spec.initContainers[0].restartPolicy",
            "expected one of Always, OnFailure, Never, got 'always'",
        ),
        (
            {"containers": [], "overhead": {"cpu": True}},
            "spec.overhead.cpu",
            "got True",
        ),
        (
            {"containers": [{"resources": {"requests": []}}]},
            "spec.containers[0].resources.requests",
            "expected a mapping, got a list",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and value.startswith("spec.") else "-",
)
def test_malformed_field_is_refused_by_its_path(
    spec: dict[str, Any], path: str, problem: str
) -> None:
    with pytest.raises(ManifestError) as caught:
        pod_requests(_spec(spec))
    assert path == caught.value.field
    assert problem in caught.value.problem


_CPU = st.integers(0, 9)


@given(st.lists(_CPU, min_size=1, max_size=3), st.lists(st.tuples(_CPU, st.booleans()), max_size=5))
def test_pod_reserves_the_most_that_ever_runs_at_once(
    main: list[int], init: list[tuple[int, bool]]
) -> None:
    running, peak = 0, 0
    for cpu, sidecar in init:
        peak = max(peak, running + cpu)
        running += cpu if sidecar else 0
    peak = max(peak, running + sum(main))

    spec = {
        "initContainers": [_sidecar(cpu=c) if s else _asking({"cpu": c}) for c, s in init],
    }
    assert Resources({"cpu": peak}) == _requests(*(_asking({"cpu": cpu}) for cpu in main), **spec)


def test_cost_of_sidecars_grows_with_their_number() -> None:
    """Each sidecar may name a resource of its own: the sum of all is not copied for each."""

    def cost(count: int) -> int:
        init = [_sidecar(**{f"example.com/r{n}": 1}) for n in range(count)]
        return lines_for(lambda: _requests(_asking({"cpu": 1}), initContainers=init))

    assert cost(400) < 2.5 * cost(200)
