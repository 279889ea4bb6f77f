"""Default spread constraints: which pods are counted for a pod, and where it goes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    Coscheduling,
    Event,
    InMemoryCluster,
    LabelSelector,
    LabelSelectorRequirement,
    Node,
    NodeAdded,
    ObjectChanged,
    ObjectDeleted,
    OverlayCluster,
    Pod,
    PodAdded,
    ProfileError,
    Scheduler,
    SchedulingUnit,
    TopologySpreadConstraint,
    presets,
)
from gangsched.cluster_objects import (
    ClusterObject,
    ObjectStore,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
    services_of,
)
from gangsched.framework.runtime import pod_readers
from gangsched.membership import ungrouped
from gangsched.plugins import (
    SYSTEM_DEFAULT_CONSTRAINTS,
    DefaultBinder,
    PrioritySort,
    ScoringPodTopologySpread,
)
from gangsched.plugins._default_selector import default_selector
from gangsched.profile import Profile
from gangsched.replay.recorded_reads import RecordedClusterState

T = TypeVar("T")

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
WEB: Final = {"app": "web"}
SERVICE: Final = Service(name="web", selector=WEB)
IN_WEB: Final = LabelSelectorRequirement("app", "In", ("web",))


def stored(*objects: ClusterObject) -> ObjectStore:
    store = ObjectStore()
    for each in objects:
        store.put(each)
    return store


def web(name: str = "p", **more: Any) -> Pod:
    given: dict[str, Any] = {"name": name, "labels": WEB, **more}
    return Pod(**given)


# The selector -----------------------------------------------------------------------------------

REV: Final = {"rev": "1"}
RELEASED: Final = web(labels={**WEB, **REV}, controller="apps/v1/ReplicaSet/set")
OF_SET: Final = ReplicaSet(name="set", selector=LabelSelector(REV))

SELECTORS: Final[dict[str, tuple[Pod, tuple[ClusterObject, ...], LabelSelector | None]]] = {
    "nothing": (web(), (), None),
    "service": (web(), (SERVICE,), LabelSelector(WEB)),
    "service of another namespace": (
        web(),
        (Service(name="s", namespace="x", selector=WEB),),
        None,
    ),
    "service without a selector": (web(), (Service(name="s"),), None),
    "service with a label that the pod lacks": (
        web(),
        (Service(name="s", selector={**WEB, **REV}),),
        None,
    ),
    "two services": (
        RELEASED,
        (SERVICE, Service(name="r", selector=REV)),
        LabelSelector({**WEB, **REV}),
    ),
    "replica set": (RELEASED, (OF_SET,), LabelSelector(REV)),
    "service and replica set": (RELEASED, (SERVICE, OF_SET), LabelSelector({**WEB, **REV})),
    "replica set of another name": (
        web(controller="apps/v1/ReplicaSet/other"),
        (ReplicaSet(name="set", selector=LabelSelector(WEB)),),
        None,
    ),
    "replica set of another version": (
        web(controller="apps/v1beta2/ReplicaSet/set"),
        (ReplicaSet(name="set", selector=LabelSelector(WEB)),),
        None,
    ),
    "replica set of another namespace": (
        web(controller="apps/v1/ReplicaSet/set"),
        (ReplicaSet(name="set", namespace="x", selector=LabelSelector(WEB)),),
        None,
    ),
    "stateful set": (
        web(controller="apps/v1/StatefulSet/set"),
        (StatefulSet(name="set", selector=LabelSelector({}, (IN_WEB,))),),
        LabelSelector({}, (IN_WEB,)),
    ),
    "stateful set of the name of a replica set": (
        web(controller="apps/v1/StatefulSet/set"),
        (ReplicaSet(name="set", selector=LabelSelector(WEB)),),
        None,
    ),
    "stateful set without a selector": (
        web(controller="apps/v1/StatefulSet/set"),
        (StatefulSet(name="set"), SERVICE),
        LabelSelector(WEB),
    ),
    "stateful set that selects every pod": (
        web(controller="apps/v1/StatefulSet/set"),
        (StatefulSet(name="set", selector=LabelSelector()),),
        None,
    ),
    "replication controller": (
        Pod(name="p", controller="v1/ReplicationController/set"),
        (ReplicationController(name="set", selector=WEB),),
        LabelSelector(WEB),
    ),
    "replication controller that contradicts a service": (
        web(controller="v1/ReplicationController/set"),
        (SERVICE, ReplicationController(name="set", selector={"app": "db"})),
        LabelSelector({"app": "db"}),
    ),
    "replica set that contradicts a service": (
        web(controller="apps/v1/ReplicaSet/set"),
        (SERVICE, ReplicaSet(name="set", selector=LabelSelector({"app": "db"}))),
        LabelSelector(WEB, (LabelSelectorRequirement("app", "In", ("db",)),)),
    ),
    "job": (web(controller="batch/v1/Job/set"), (OF_SET,), None),
}


@pytest.mark.parametrize("name", SELECTORS)
def test_selector_has_the_conditions_of_services_and_of_the_controller(name: str) -> None:
    pod, objects, expected = SELECTORS[name]
    assert default_selector(stored(*objects), pod) == expected


# Services by label ------------------------------------------------------------------------------

_LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xy"), max_size=3)
_NAMESPACES = st.sampled_from(("default", "other"))
_SERVICES = st.builds(
    Service, name=st.sampled_from(("s0", "s1", "s2")), namespace=_NAMESPACES, selector=_LABELS
)
_CHANGES = st.lists(
    st.builds(ObjectChanged, _SERVICES)
    | _SERVICES.map(lambda one: ObjectDeleted("Service", one.key)),
    max_size=10,
)


class Plain:
    """A view of objects with the two methods that each view has."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def get(self, kind: type[T], key: str, /) -> T | None:
        return self._store.get(kind, key)

    def all(self, kind: type[T], /) -> Iterable[T]:
        return self._store.all(kind)


@given(below=_CHANGES, above=_CHANGES, namespace=_NAMESPACES, labels=_LABELS)
def test_services_of_a_pod_are_found_by_its_labels(
    below: list[Event], above: list[Event], namespace: str, labels: dict[str, str]
) -> None:
    cluster = InMemoryCluster()
    for event in below:
        cluster.apply(event)
    overlay = OverlayCluster(cluster)
    for event in above:
        overlay.apply(event)
    for each in (cluster, overlay):
        store = each.objects
        assert isinstance(store, ObjectStore)
        store._check()
        expected = {one for one in store.all(Service) if one.selects(namespace, labels)}
        found = services_of(store, namespace, labels)
        assert set(found) == expected
        assert len(found) == len(expected)
        assert set(services_of(Plain(store), namespace, labels)) == expected


def test_service_that_is_gone_before_its_event_is_recorded() -> None:
    known = InMemoryCluster()
    known.apply(ObjectChanged(SERVICE))
    recorded = RecordedClusterState(InMemoryCluster(), known)
    assert services_of(recorded.objects, "default", WEB) == ()
    assert recorded.take() == (ObjectDeleted("Service", SERVICE.key),)


@given(shown=_CHANGES, logged=_CHANGES, namespace=_NAMESPACES, labels=_LABELS)
def test_services_that_were_read_are_recorded(
    shown: list[Event], logged: list[Event], namespace: str, labels: dict[str, str]
) -> None:
    cluster, known, replayed = InMemoryCluster(), InMemoryCluster(), InMemoryCluster()
    for event in shown:
        cluster.apply(event)
    for event in logged:
        known.apply(event)
        replayed.apply(event)
    recorded = RecordedClusterState(cluster, known)
    read = services_of(recorded.objects, namespace, labels)
    for event in recorded.take():
        replayed.apply(event)
    assert set(read) == set(services_of(cluster.objects, namespace, labels))
    assert set(services_of(replayed.objects, namespace, labels)) == set(read)
    services_of(recorded.objects, namespace, labels)
    assert recorded.take() == ()


def test_lookup_reads_no_service_that_is_filed_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    others = (Service(name=f"s{n}", selector={"app": f"app-{n}"}) for n in range(1000))
    store = stored(SERVICE, *others)
    asked: list[str] = []
    selects = Service.selects

    def counted(self: Service, *given: Any) -> bool:
        asked.append(self.name)
        return selects(self, *given)

    monkeypatch.setattr(Service, "selects", counted)
    assert services_of(store, "default", WEB) == (SERVICE,)
    assert asked == ["web"]


# Placement --------------------------------------------------------------------------------------


class Host:
    """A scheduler with the profile of kube-scheduler, on nodes of three zones."""

    def __init__(self, nodes: int = 3) -> None:
        self.cluster = InMemoryCluster()
        for n in range(nodes):
            labels = {HOSTNAME: f"n{n}", ZONE: f"z{n % 3}"}
            offered: dict[str, str | int] = {"cpu": 64, "memory": "64Gi", "pods": 110}
            self.cluster.apply(NodeAdded(Node(name=f"n{n}", allocatable=offered, labels=labels)))
        self.scheduler = presets.kube_default(self.cluster)
        self.scheduler.rebuild(now=0.0)

    def tell(self, event: Event) -> tuple[object, ...]:
        return self.scheduler.handle(self.cluster.apply(event), now=0.0)

    def place(self, pod: Pod) -> str:
        self.tell(PodAdded(pod))
        effects = self.scheduler.schedule_one(now=0.0) or ()
        return next(each.node for each in effects if isinstance(each, Bind))


def emptiest(host: Host) -> None:
    """Let n0 be the node that all other scores prefer."""
    for n in (1, 2):
        for each in range(3):
            busy = Pod(name=f"busy-{n}-{each}", node_name=f"n{n}", requests={"cpu": 6})
            host.tell(PodAdded(busy))


def test_pods_of_a_service_are_spread_over_nodes_and_zones() -> None:
    host = Host()
    emptiest(host)
    host.tell(ObjectChanged(SERVICE))
    for n in range(2):
        host.tell(PodAdded(web(f"r{n}", node_name="n0", requests={"cpu": 1})))
    assert host.place(web("a", requests={"cpu": 1})) != "n0"
    # a pod that states no label of the service goes to the emptiest node
    assert host.place(Pod(name="b", requests={"cpu": 1})) == "n0"


def test_deleted_service_spreads_no_pod() -> None:
    host = Host()
    emptiest(host)
    host.tell(ObjectChanged(SERVICE))
    for n in range(2):
        host.tell(PodAdded(web(f"r{n}", node_name="n0", requests={"cpu": 1})))
    host.tell(ObjectDeleted("Service", SERVICE.key))
    assert host.place(web("a", requests={"cpu": 1})) == "n0"


def test_pod_that_states_a_constraint_has_no_default_constraints() -> None:
    host = Host()
    emptiest(host)
    host.tell(ObjectChanged(SERVICE))
    for n in range(2):
        host.tell(PodAdded(web(f"r{n}", node_name="n0", requests={"cpu": 1})))
    own = TopologySpreadConstraint(
        max_skew=9, topology_key=ZONE, when_unsatisfiable="DoNotSchedule", label_selector=None
    )
    pod = web("a", requests={"cpu": 1}, topology_spread_constraints=[own])
    assert host.place(pod) == "n0"


def test_gang_of_a_service_is_spread_in_one_decision() -> None:
    host = Host(4)
    host.tell(ObjectChanged(SERVICE))
    host.scheduler = presets.kube_default(
        host.cluster, policy=Coscheduling(), unit=SchedulingUnit.GROUP
    )
    host.scheduler.rebuild(now=0.0)
    for n in range(4):
        pod = web(f"g{n}", pod_group="g", min_available=4, requests={"cpu": 1})
        host.tell(PodAdded(pod))
    effects = host.scheduler.schedule_one(now=0.0) or ()
    nodes = [each.node for each in effects if isinstance(each, Bind)]
    assert sorted(nodes) == ["n0", "n1", "n2", "n3"]


def test_question_with_a_service_sees_the_pods_spread() -> None:
    host = Host()
    emptiest(host)
    for n in range(2):
        host.tell(PodAdded(web(f"r{n}", node_name="n0", requests={"cpu": 1})))
    host.tell(PodAdded(web("a", requests={"cpu": 1})))
    without, spread = (
        [
            each.node
            for each in host.scheduler.what_if(*events, now=0.0).effects
            if isinstance(each, Bind)
        ]
        for events in ((), (ObjectChanged(SERVICE),))
    )
    assert without == ["n0"]
    assert len(spread) == 1
    assert spread != ["n0"]


# What it costs ----------------------------------------------------------------------------------


def test_pod_without_a_service_is_scored_by_classes_of_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = Host()
    host.tell(ObjectChanged(SERVICE))
    made: list[str] = []
    begin = pod_readers.NodeCheck.__init__

    def noted(self: Any, settings: Any, nodes: Any, cycle: Any, pod: Pod, **more: Any) -> None:
        made.append(pod.name)
        begin(self, settings, nodes, cycle, pod, **more)

    monkeypatch.setattr(pod_readers.NodeCheck, "__init__", noted)
    host.place(Pod(name="labelled", labels={"app": "other"}))
    host.place(web("job", labels={"job": "train"}, controller="batch/v1/Job/train"))
    assert made == []
    host.place(web("served"))
    assert made == ["served"]


def test_change_of_a_service_requeues_no_pod() -> None:
    host = Host()
    host.tell(PodAdded(web("large", requests={"cpu": 100})))
    assert host.scheduler.schedule_one(now=0.0)
    assert host.scheduler.schedule_one(now=0.0) is None
    before = host.scheduler.pending()
    host.tell(ObjectChanged(SERVICE))
    host.tell(ObjectChanged(ReplicaSet(name="set", selector=LabelSelector(WEB))))
    assert host.scheduler.schedule_one(now=0.0) is None
    assert host.scheduler.pending() == before


def test_plugin_names_the_objects_that_only_its_scores_depend_on() -> None:
    kinds = {Service, ReplicationController, ReplicaSet, StatefulSet}
    assert set(ScoringPodTopologySpread(SYSTEM_DEFAULT_CONSTRAINTS).objects_scored()) == kinds
    assert tuple(ScoringPodTopologySpread().objects_scored()) == ()
    by_host = ScoringPodTopologySpread(SYSTEM_DEFAULT_CONSTRAINTS, lambda _pod: None)
    assert tuple(by_host.objects_scored()) == ()


def test_plugin_that_names_no_class_of_objects_is_refused() -> None:
    class Wrong:
        name = "Wrong"

        def score(self, state: Any, pod: Pod, node: Any) -> int:
            return 0

        def normalize_score(self, state: Any, pod: Pod, scores: Any) -> Any:
            return scores

        def objects_scored(self) -> Any:
            return (Service, "Pod")

    with pytest.raises(ProfileError, match="objects_scored: 'Wrong' returned"):
        Profile(PrioritySort(), Wrong(), DefaultBinder())


def test_system_defaults_are_those_of_kube_scheduler() -> None:
    found = [(one.max_skew, one.topology_key, one.is_hard) for one in SYSTEM_DEFAULT_CONSTRAINTS]
    assert found == [(3, HOSTNAME, False), (5, ZONE, False)]


def test_match_label_keys_of_a_default_constraint_are_not_read() -> None:
    keyed = TopologySpreadConstraint(
        max_skew=1,
        topology_key=HOSTNAME,
        when_unsatisfiable="ScheduleAnyway",
        match_label_keys=["rev"],
        label_selector=LabelSelector({"app": "db"}),
    )
    cluster = InMemoryCluster()
    for n in range(2):
        cluster.apply(NodeAdded(Node(name=f"n{n}", labels={HOSTNAME: f"n{n}"})))
    cluster.apply(ObjectChanged(SERVICE))
    cluster.apply(PodAdded(web("r", labels={**WEB, "rev": "1"}, node_name="n0")))
    profile = Profile(PrioritySort(), ScoringPodTopologySpread((keyed,)), DefaultBinder())
    scheduler = Scheduler(cluster, profile, membership=ungrouped)
    scheduler.rebuild(now=0.0)
    scheduler.handle(cluster.apply(PodAdded(web("p", labels={**WEB, "rev": "2"}))), now=0.0)
    effects = scheduler.schedule_one(now=0.0) or ()
    assert [each.node for each in effects if isinstance(each, Bind)] == ["n1"]
