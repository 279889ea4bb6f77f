"""Default spread constraints: pods of one service or controller go where kube-scheduler puts them.

Services and controllers are drawn, and pods that state no spread constraint. The labels of pods and
the conditions of selectors come from one small pool, so that some select a pod and some contradict
its labels. Some pods name a controller that is not there, or one that kube-scheduler does not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from differential.draws import scenes
from differential.judge import Judge
from differential.lockstep import compare
from differential.profiles import WEIGHT, rank_and
from differential.scene import NAMESPACES, Object, Scene
from gangsched.model import TopologySpreadConstraint
from gangsched.plugins import SYSTEM_DEFAULT_CONSTRAINTS, ScoringPodTopologySpread
from support.examples import PROFILE

LISTED: Final = tuple(
    TopologySpreadConstraint(max_skew=1, topology_key=key, when_unsatisfiable="ScheduleAnyway")
    for key in ("topology.kubernetes.io/zone", "rack")
)
PLUGINS: Final[Mapping[str, ScoringPodTopologySpread]] = {
    "judge-spread": ScoringPodTopologySpread(SYSTEM_DEFAULT_CONSTRAINTS),
    "judge-spread-list": ScoringPodTopologySpread(LISTED, requires_labels=True),
}
"""By the name of kube-scheduler's profile, our plugin."""

_SCENES: Final = {"fast": 12, "ci": 25, "deep": 150}
_LABELS: Final = st.fixed_dictionaries(
    {}, optional={"app": st.sampled_from(("web", "db")), "rev": st.sampled_from(("1", "2"))}
)
_SOME_LABELS: Final = _LABELS.filter(bool)
_LABELS_OF_PODS: Final = st.sampled_from(
    ({"app": "web"}, {"app": "web", "rev": "1"}, {"app": "web", "rev": "2"}, {"app": "db"}, {})
)
_NAMES: Final = ("set-0", "set-1")
_CORE: Final = "/api/v1/namespaces"
_APPS: Final = "/apis/apps/v1/namespaces"
_KINDS: Final = {
    "replicationcontrollers": ("v1", "ReplicationController", _CORE),
    "replicasets": ("apps/v1", "ReplicaSet", _APPS),
    "statefulsets": ("apps/v1", "StatefulSet", _APPS),
}
_CONTROLLERS: Final = (
    *((version, kind) for version, kind, _path in _KINDS.values()),
    ("apps/v1beta2", "ReplicaSet"),
    ("batch/v1", "Job"),
)


@st.composite
def _services(draw: st.DrawFn) -> list[tuple[str, Object]]:
    found: list[tuple[str, Object]] = []
    first = next(iter(NAMESPACES))
    for number in range(draw(st.integers(0, 3))):
        namespace = draw(st.sampled_from((first, first, first, *NAMESPACES)))
        spec = {"clusterIP": "None", "selector": draw(_LABELS)}
        body = {"metadata": {"name": f"service-{number}"}, "spec": spec}
        found.append((f"{_CORE}/{namespace}/services", body))
    return found


@st.composite
def _controllers(draw: st.DrawFn) -> list[tuple[str, Object]]:
    """Draw controllers without replicas, whose selectors match their templates."""
    namespace = next(iter(NAMESPACES))
    found: list[tuple[str, Object]] = []
    for plural, (_version, kind, root) in _KINDS.items():
        for name in draw(st.lists(st.sampled_from(_NAMES), max_size=2, unique=True)):
            labels = draw(_SOME_LABELS)
            selector: Object = dict(labels)
            if kind != "ReplicationController":
                selector = {"matchLabels": labels}
                if draw(st.booleans()):
                    values = [*labels.values(), "other"]
                    one = {"key": next(iter(labels)), "operator": "In", "values": values}
                    selector = {"matchExpressions": [one]}
            container = {"name": "c", "image": "i"}
            template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
            spec: Object = {"replicas": 0, "selector": selector, "template": template}
            if kind == "StatefulSet":
                spec["serviceName"] = "service-0"
            found.append(
                (f"{root}/{namespace}/{plural}", {"metadata": {"name": name}, "spec": spec})
            )
    return found


@st.composite
def _owned(draw: st.DrawFn, pod: Object) -> Object:
    """Draw a pod without spread constraints, perhaps with a controller, from a pod."""
    metadata, spec = dict(pod["metadata"]), dict(pod["spec"])
    metadata["labels"] = draw(_LABELS_OF_PODS)
    if draw(st.sampled_from((True, True, True, False))):
        spec.pop("topologySpreadConstraints", None)
    if draw(st.booleans()):
        version, kind = draw(st.sampled_from(_CONTROLLERS))
        owner = {"apiVersion": version, "kind": kind, "uid": "owner"}
        owner["name"] = draw(st.sampled_from((*_NAMES, "absent")))
        is_controller = draw(st.sampled_from((True, True, True, False)))
        metadata["ownerReferences"] = [{**owner, "controller": is_controller}]
    return {**pod, "metadata": metadata, "spec": spec}


@st.composite
def owned_scenes(draw: st.DrawFn) -> Scene:
    """Draw a scene of pods with services and controllers."""
    kinds = frozenset({"spread", "node affinity"} if draw(st.booleans()) else {"spread"})
    scene = draw(scenes(kinds))
    return evolve(
        scene,
        running=tuple(evolve(each, pod=draw(_owned(each.pod))) for each in scene.running),
        pending=tuple(draw(_owned(pod)) for pod in scene.pending),
        others=(*draw(_services()), *draw(_controllers())),
    )


@pytest.mark.parametrize("name", PLUGINS)
@given(data=st.data())
@settings(max_examples=_SCENES[PROFILE])
def test_pods_of_services_and_controllers_are_spread_as_by_kube_scheduler(
    judge: Judge, name: str, data: st.DataObject
) -> None:
    plugin: Any = PLUGINS[name]
    compare(judge, data.draw(owned_scenes()), rank_and(plugin, WEIGHT), scheduler_name=name)
