"""What installs the scheduler agrees with itself: chart, plain manifest, page, image, dashboard."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

import gangsched
from gangsched.kubernetes import read_settings
from support.documents import ROOT

yaml = pytest.importorskip("yaml")
if not (ROOT / "charts").is_dir():
    pytest.skip("an installed copy: the chart is not here", allow_module_level=True)

from support.chart import CHART, MANIFEST, NAMESPACE, rules  # noqa: E402

PAGE = ROOT / "docs" / "reference" / "rights.md"
DOCKERFILE = ROOT / "Dockerfile"


def manifest() -> list[dict[str, Any]]:
    """Return the objects of the plain manifest."""
    return [each for each in yaml.safe_load_all(MANIFEST.read_text("utf-8")) if each]


def one(kind: str, name: str = "gangsched") -> dict[str, Any]:
    """Return the object of a kind and a name in the plain manifest."""
    of_kind = [each for each in manifest() if each["kind"] == kind]
    (found,) = [each for each in of_kind if each["metadata"]["name"] == name]
    return found


# Rights -----------------------------------------------------------------------------------------


def test_page_and_manifest_have_the_rules_of_the_chart() -> None:
    block = re.search(r"<!-- manifest: rights -->\n```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert block is not None
    cluster, own = yaml.safe_load_all(block[1])
    assert (cluster["kind"], own["kind"]) == ("ClusterRole", "Role")
    assert cluster["rules"] == one("ClusterRole")["rules"] == rules("cluster-role")
    assert own["rules"] == one("Role")["rules"] == rules("role")


def test_no_rule_has_a_wildcard_or_secrets() -> None:
    for rule in [*rules("cluster-role"), *rules("role")]:
        for field in ("verbs", "resources", "apiGroups"):
            assert "*" not in rule[field]
        assert not {"secrets", "configmaps", "serviceaccounts"} & set(rule["resources"])


def test_account_that_askers_use_may_list_pods_and_nothing_else() -> None:
    assert one("ClusterRole", "gangsched-ask")["rules"] == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
    ]
    account = one("ServiceAccount", "gangsched-ask")
    assert account["automountServiceAccountToken"] is False
    assert one("ClusterRole", "gangsched-metrics")["rules"] == [
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
    ]


# The manifest -----------------------------------------------------------------------------------


def test_configuration_is_read_and_names_the_lease_of_the_role() -> None:
    settings = read_settings(yaml.safe_load(one("ConfigMap")["data"]["config.yaml"]))
    election = settings.leader_election
    assert election.leader_elect
    assert election.resource_namespace == NAMESPACE == one("Role")["metadata"]["namespace"]
    (named,) = [rule for rule in one("Role")["rules"] if "resourceNames" in rule]
    assert named["resourceNames"] == [election.resource_name]


def test_pods_have_no_rights_on_their_node() -> None:
    spec = one("Deployment")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    for context in (spec["securityContext"], container["securityContext"]):
        assert context["runAsNonRoot"]
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert not container["securityContext"]["allowPrivilegeEscalation"]
    assert not spec.keys() & {"hostNetwork", "hostPID", "hostIPC"}


def test_pods_get_more_time_to_end_than_a_drain_takes() -> None:
    settings = read_settings(yaml.safe_load(one("ConfigMap")["data"]["config.yaml"]))
    grace = one("Deployment")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace > settings.drain + 3.0


def test_two_replicas_are_spread_and_one_stays_when_a_node_is_drained() -> None:
    deployment, budget = one("Deployment")["spec"], one("PodDisruptionBudget")["spec"]
    assert deployment["replicas"] == 2
    assert budget["maxUnavailable"] == 1
    labels = deployment["template"]["metadata"]["labels"]
    for selector in (deployment["selector"], budget["selector"]):
        assert selector["matchLabels"].items() <= labels.items()
    (spread,) = deployment["template"]["spec"]["topologySpreadConstraints"]
    assert spread["topologyKey"] == "kubernetes.io/hostname"


def test_versions_are_those_of_the_library() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert chart["version"] == chart["appVersion"] == gangsched.__version__
    image = one("Deployment")["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image == f"gangsched:{gangsched.__version__}"


def test_every_value_of_the_chart_is_in_its_schema() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    assert values.keys() == schema["properties"].keys() - {"global"}
    for name, value in values.items():
        fields = schema["properties"][name].get("properties")
        if fields is not None:
            assert value.keys() == fields.keys()


# The dashboard ----------------------------------------------------------------------------------


def exported() -> set[str]:
    """Return the names of the metrics that a scheduler on a cluster exports."""
    pytest.importorskip("prometheus_client")
    pytest.importorskip("msgspec")
    from gangsched.kubernetes import Settings
    from gangsched.kubernetes._measure import Measures
    from gangsched.memory import InMemoryCluster
    from gangsched.presets import coscheduling_profile
    from gangsched.scheduler import Scheduler

    measures = Measures(Settings())
    # the driven scheduler is referred to weakly, and a family without samples has no names
    watched = measures.watch(Scheduler(InMemoryCluster(), coscheduling_profile()))
    measures.request("GET", 200)
    pages = measures.pages(list)
    lines = pages["/metrics"]().body.decode().splitlines()
    names = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    assert watched is not None
    return names | {line.partition(" ")[0].partition("{")[0] for line in lines if line[:1] != "#"}


def expressions(value: object) -> Iterator[str]:
    """Yield the queries of a dashboard."""
    match value:
        case dict():
            if isinstance(value.get("expr"), str):
                yield value["expr"]
            for each in value.values():
                yield from expressions(each)
        case list():
            for each in value:
                yield from expressions(each)
        case _:
            pass


def test_dashboard_asks_for_metrics_that_are_exported() -> None:
    dashboard = json.loads((CHART / "dashboards" / "gangsched.json").read_text("utf-8"))
    names = exported()
    histograms = {f"{name}{end}" for name in names for end in ("_bucket", "_sum", "_count")}
    found = list(expressions(dashboard))
    assert len(found) >= 10
    for expression in found:
        asked = re.findall(r"([a-z_:]+)\{", expression)
        assert asked
        assert set(asked) <= names | histograms, expression


def test_panels_of_the_dashboard_do_not_overlap() -> None:
    panels = json.loads((CHART / "dashboards" / "gangsched.json").read_text("utf-8"))["panels"]
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(at["x"] + dx, at["y"] + dy) for dx in range(at["w"]) for dy in range(at["h"])}
        assert not cells & taken
        assert all(x < 24 for x, _y in cells)
        taken |= cells
    assert len({panel["id"] for panel in panels}) == len(panels)


# The image --------------------------------------------------------------------------------------


def steps() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile, each with its arguments on one line."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text("utf-8"), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [
        (word, " ".join(rest.split()))
        for word, _, rest in (s.partition(" ") for s in lines)
        if word
    ]


def test_image_runs_without_root_a_shell_and_a_package_manager() -> None:
    last = [n for n, (word, _rest) in enumerate(steps()) if word == "FROM"][-1]
    final = steps()[last:]
    assert final[0] == ("FROM", "gcr.io/distroless/python3-debian12:nonroot")
    assert not [rest for word, rest in final if word == "RUN"]
    (user,) = [rest for word, rest in final if word == "USER"]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    pod = one("Deployment")["spec"]["template"]["spec"]["securityContext"]
    assert user == f"{pod['runAsUser']}:{pod['runAsGroup']}"


def test_image_pins_its_bases_and_copies_what_exists_and_is_sent() -> None:
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    for word, rest in steps():
        assert word != "ADD"
        if word == "FROM":
            assert re.fullmatch(r"[\w./-]+:[\w.-]+( AS \w+)?", rest)
            assert ":latest" not in rest
        if word == "COPY" and not rest.startswith("--from="):
            for source in rest.split()[:-1]:
                # where the tests run on an installed copy, there is no src
                assert source == "src" or (ROOT / source).exists()
                assert f"!{source}" in ignored
        if word in ("ENTRYPOINT", "CMD"):
            assert isinstance(json.loads(rest), list)
        if word == "RUN" and "apt-get install" in rest:
            assert "--no-install-recommends" in rest
            assert "rm -rf /var/lib/apt/lists" in rest


def test_both_stages_of_the_image_have_the_same_python() -> None:
    bases = [rest.split()[0] for word, rest in steps() if word == "FROM"]
    assert bases == ["debian:12-slim", "gcr.io/distroless/python3-debian12:nonroot"]


def test_container_listens_where_the_probes_ask() -> None:
    (exposed,) = [rest for word, rest in steps() if word == "EXPOSE"]
    pages, health = map(int, exposed.split())
    (container,) = one("Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["ports"] == [
        {"name": "pages", "containerPort": pages},
        {"name": "health", "containerPort": health},
    ]
    assert f"--serve=0.0.0.0:{pages}" in container["args"]
    assert f"--health=0.0.0.0:{health}" in container["args"]
    for probe in ("livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] == "health"


def test_network_policy_lets_nothing_in_but_the_ports_of_the_container() -> None:
    (container,) = one("Deployment")["spec"]["template"]["spec"]["containers"]
    policy = one("NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress"]
    ports = {port["port"] for rule in policy["ingress"] for port in rule["ports"]}
    assert ports == {each["name"] for each in container["ports"]}
    labels = one("Deployment")["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()


def test_container_serves_no_plain_http_but_the_health() -> None:
    (container,) = one("Deployment")["spec"]["template"]["spec"]["containers"]
    assert not [each for each in container["args"] if each.startswith("--insecure")]


def test_arguments_of_the_container_are_those_of_the_command() -> None:
    pytest.importorskip("rich")
    from gangsched.cli import _parser

    (container,) = one("Deployment")["spec"]["template"]["spec"]["containers"]
    options = _parser().parse_args(container["args"])
    assert options.config == "/etc/gangsched/config.yaml"
    assert options.log_json
