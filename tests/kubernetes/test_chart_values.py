"""What the Helm chart refuses of its values, with name and value: what a scheduler would refuse.

A value that renders reaches the cluster: replicas of the new version end at once, and nothing says
so but their logs. These tests need Helm, and no API server.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest

from gangsched.cli._configuration import read_checked
from gangsched.cli._files import BadInputError
from gangsched.manifests.peer_levels import PEERS
from gangsched.manifests.peer_quotas import QUOTA_PEERS
from support.chart import Helm, Right, rights
from support.control_plane.fixtures import need_control_plane

pytest.importorskip("yaml")
pytestmark = pytest.mark.once("runs Helm")

Object = dict[str, Any]
RENEW: Final = "configuration.leaderElection.renewDeadline"
RETRY: Final = "configuration.leaderElection.retryPeriod"
QUANTITY: Final = "expected a Kubernetes quantity >= 0, such as 500m, 4Gi or 1e3"
PAGE: Final = "docs/how-to/alert-on-kubernetes.md"


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    need_control_plane("helm")
    return Helm(tmp_path_factory.mktemp("helm"))


def election(**durations: float | str) -> Object:
    return {"configuration": {"leaderElection": durations}}


def quota(**changed: Any) -> Object:
    entry = {"name": "a", "namespaces": ["x"], "hard": {"cpu": 1}, **changed}
    return {"configuration": {"quotas": [entry]}}


def tree(**changed: Any) -> Object:
    """Return values with an organization and two queues below it, the second one changed."""
    first: Object = {"name": "a", "parent": "org", "namespaces": ["x"], "nominal": {"cpu": 1}}
    second: Object = {"name": "b", "parent": "org", "nominal": {"cpu": "500m"}, "weight": 2}
    quotas = [{"name": "org", "hard": {"cpu": 9}}, first, {**second, **changed}]
    return {"configuration": {"quotas": quotas}}


QUEUE: Final = "configuration.quotas[2]"


REFUSED: list[tuple[Object, str]] = [
    (
        election(leaseDuration="5s"),
        f"{RENEW}: expected less than leaseDuration, which is 5s, got 10s",
    ),
    (
        election(leaseDuration="30s", renewDeadline="1m"),
        f"{RENEW}: expected less than leaseDuration, which is 30s, got 1m",
    ),
    (
        election(renewDeadline="1500ms", retryPeriod=1.5),
        f"{RETRY}: expected less than renewDeadline, which is 1500ms, got 1.5",
    ),
    (
        election(renewDeadline=2),
        f"{RETRY}: expected less than renewDeadline, which is 2, got 2s",
    ),
    ({"replicas": 0}, "/replicas"),
    ({"configuration": {"levels": {"from": "slurm"}}}, "/configuration/levels"),
    ({"configuration": {"quotas": {"from": "slurm"}}}, "/configuration/quotas"),
    (election(retryPeriod="0s"), "/configuration/leaderElection/retryPeriod"),
    (
        {"configuration": {"podInitialBackoffSeconds": "1m"}},
        "podMaxBackoffSeconds: expected at least podInitialBackoffSeconds, which is 1m, got 10",
    ),
    ({"pluginConfig": [{"name": "Backfil"}]}, "pluginConfig[0].name: expected one of Backfill, "),
    ({"pluginConfig": [{"name": "NodePorts"}]}, 'VolumeBinding, got "NodePorts"'),
    (
        {"pluginConfig": [{"name": "Backfill"}, {"name": "Backfill"}]},
        'pluginConfig[1].name: expected a plugin that no other entry names, got "Backfill"',
    ),
    (
        quota(hard={"cpu": "lots"}),
        f'configuration.quotas[0].hard.cpu: {QUANTITY}, got "lots"',
    ),
    (quota(hard={"memory": -1}), "configuration.quotas[0].hard.memory: expected a Kubernetes"),
    (quota(hard={"memory": "1GiB"}), 'got "1GiB"'),
    (quota(hard={"cpu": 1.5}), "configuration.quotas[0].hard.cpu: expected a whole number, or a"),
    (quota(hard={"cpus": 1}), "configuration.quotas[0].hard: expected a resource that pods can"),
    (quota(hard={"requests.cpu": 1}), 'got "requests.cpu"'),
    (quota(name="A"), "/configuration/quotas/0/name"),
    (quota(hard={}), "configuration.quotas[0].hard: expected at least one resource, as it has"),
    (quota(hard={}, weight=1), "configuration.quotas[0].hard: expected at least one resource"),
    (quota(weight=-1), "/configuration/quotas/0/weight"),
    (quota(reclaimFrom="Nobody"), "/configuration/quotas/0/reclaimFrom"),
    (tree(nominal={"cpu": "few"}), f'{QUEUE}.nominal.cpu: {QUANTITY}, got "few"'),
    (tree(lend={"cpus": 1}), f"{QUEUE}.lend: expected a resource that pods can"),
    (tree(borrow={"cpu": 0.5}), f"{QUEUE}.borrow.cpu: expected a whole number, or a"),
    (tree(parent="other"), f'{QUEUE}.parent: expected the name of a quota, got "other"'),
    (tree(parent="a"), f'{QUEUE}.parent: expected a quota without namespaces, got "a"'),
    (tree(parent="b"), f'{QUEUE}.parent: expected no quota below it, got "b"'),
    (tree(namespaces=["y", "x"]), f"{QUEUE}.namespaces: expected namespaces that no other queue"),
    (
        {"configuration": {"quotas": quota()["configuration"]["quotas"] * 2}},
        'configuration.quotas[1].name: expected a name that no other quota has, got "a"',
    ),
    (
        {"resources": {"requests": {"memory": "256Mb"}}},
        f'resources.requests.memory: {QUANTITY}, got "256Mb"',
    ),
    ({"resources": {"limits": {"cpu": "two"}}}, "resources.limits.cpu: expected a Kubernetes"),
    ({"prometheusRule": {"runbookUrl": "docs"}}, "/prometheusRule/runbookUrl"),
]


@pytest.mark.parametrize(("values", "said"), REFUSED, ids=[said[-40:] for _v, said in REFUSED])
def test_value_that_a_scheduler_would_refuse_is_refused_with_its_name(
    helm: Helm, values: Object, said: str
) -> None:
    with pytest.raises(AssertionError, match=re.escape(said)):
        helm.template(values=values)


def test_all_faults_of_the_values_are_named(helm: Helm) -> None:
    values = {
        "replicas": 2,
        "terminationGracePeriodSeconds": 20,
        "serving": {"insecure": True, "secretName": "certificate"},
        "configuration": {
            "drainSeconds": 100,
            "leaderElection": {"leaderElect": False, "renewDeadline": "20s"},
            "quotas": [{"name": "a", "namespaces": ["b"], "hard": {"cpu": "two", "cores": 1}}],
        },
        "pluginConfig": [{"name": "Unknown", "args": {}}],
    }
    with pytest.raises(AssertionError) as refused:
        helm.template(values=values)
    said = str(refused.value)
    named = ("replicas", "serving.insecure", "terminationGracePeriodSeconds", RENEW)
    quota = "configuration.quotas[0].hard"
    for field in (*named, f"{quota}.cpu", f"{quota}: expected a resource", "pluginConfig[0].name"):
        assert field in said, (field, said)


RENDERED: list[Object] = [
    {},
    election(leaseDuration="1h1m1s1ms", renewDeadline="1h1m1s", retryPeriod="1h1m"),
    election(leaseDuration=3, renewDeadline="2.5s", retryPeriod="2499ms"),
    election(renewDeadline="2.001s"),
    {"configuration": {"podInitialBackoffSeconds": 10}},
    {"configuration": {"drainSeconds": 0, "demandSeconds": "0s"}},
    quota(hard={"cpu": "500m", "memory": "2Ti", "nvidia.com/gpu": 64, "pods": "1e3"}),
    quota(hard={"cpu": 0, "hugepages-2Mi": "+1.5Gi", "ephemeral-storage": 100_000_000}),
    tree(),
    tree(borrow={"cpu": 1}, lend={"cpu": "0"}, weight=0.5, reclaimFrom="Never", namespaces=[]),
    quota(hard={}, weight=2),
    quota(namespaces=["x", "x"], nominal={}),
    {"configuration": {"history": "24h"}},
    {"configuration": {"levels": ["block", "rack"]}},
    {"configuration": {"levels": {"from": "kueue"}}},
    {"configuration": {"quotas": {"from": "kueue"}}},
    {"configuration": {"quotas": []}},
    {"pluginConfig": [{"name": "Backfill"}, {"name": "DefaultPreemption", "args": {}}]},
    {"resources": {"requests": {"cpu": 0.5, "memory": "1Gi"}, "limits": None}},
]


@pytest.mark.parametrize("values", RENDERED, ids=str)
def test_value_that_renders_is_valid_for_the_scheduler(
    helm: Helm, tmp_path: Path, values: Object
) -> None:
    read_checked(str(rendered(helm, tmp_path, values)))


@pytest.mark.parametrize("peer", PEERS)
def test_right_to_list_levels_of_another_project_follows_the_configuration(
    helm: Helm, peer: str
) -> None:
    def role(**values: Any) -> set[Right]:
        objects = helm.template(values={"configuration": values})
        roles = [each for each in objects if each["kind"] == "ClusterRole"]
        return rights(rule for each in roles for rule in each["rules"] if "resources" in rule)

    api = PEERS[peer]
    more = role(levels={"from": peer}) - role()
    assert more == {Right("list", api.group, api.plural)}
    assert role(levels=["block", "rack"]) == role()


@pytest.mark.parametrize("peer", QUOTA_PEERS)
def test_right_to_list_quotas_of_another_project_follows_the_configuration(
    helm: Helm, peer: str
) -> None:
    def rules(**values: Any) -> list[Object]:
        objects = helm.template(values={"configuration": values})
        roles = [each for each in objects if each["kind"] == "ClusterRole"]
        return [rule for each in roles for rule in each["rules"]]

    known = rules()
    (more,) = (rule for rule in rules(quotas={"from": peer}) if rule not in known)
    wanted = {Right("list", api.group, api.plural) for api in QUOTA_PEERS[peer]}
    assert rights([more]) == wanted - {Right("list", "", "namespaces")}
    assert ("resourceNames" in more) == (peer == "yunikorn")
    assert rules(quotas=[{"name": "a"}]) == known


def rendered(helm: Helm, folder: Path, values: Object) -> Path:
    """Return the file of the configuration that the chart makes."""
    objects = helm.template(values=values)
    (found,) = (each for each in objects if each["kind"] == "ConfigMap")
    file = folder / "config.yaml"
    file.write_text(found["data"]["config.yaml"], encoding="utf-8")
    return file


def test_chart_knows_the_plugins_with_arguments_that_the_scheduler_knows(
    helm: Helm, tmp_path: Path
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("profiles: [{pluginConfig: [{name: none}]}]\n", encoding="utf-8")
    with pytest.raises(BadInputError) as caught:
        read_checked(str(file))
    with pytest.raises(AssertionError) as refused:
        helm.template(values={"pluginConfig": [{"name": "none"}]})
    chart = listed(str(refused.value))
    assert listed(str(caught.value)) == chart
    assert len(chart) >= 6


def listed(error: str) -> set[str]:
    """Return the names that an error expects."""
    found = re.search(r"one of ([\w, ]+), got", error)
    assert found is not None, error
    return set(found[1].split(", "))


@pytest.mark.parametrize("base", ["", "https://docs.example.com/operate.html"])
def test_each_alert_has_a_link_to_its_place_on_the_page(helm: Helm, base: str) -> None:
    enabled = {"enabled": True, "runbookUrl": base}
    objects = helm.template(values={"prometheusRule": enabled})
    (rule,) = (each for each in objects if each["kind"] == "PrometheusRule")
    name, page = ("runbook_url", base) if base else ("runbook", PAGE)
    alerts = [each for group in rule["spec"]["groups"] for each in group["rules"]]
    assert len(alerts) >= 9
    for alert in alerts:
        assert alert["annotations"][name] == f"{page}#{alert['alert'].lower()}"
        assert set(alert["annotations"]) == {"summary", name}
