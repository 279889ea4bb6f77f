"""Configuration files of the command: each fault is named by its path, in the words of the file."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched.cli import _configuration
from gangsched.configuration import LeaderElection, ProfileSettings, read_settings, settings
from gangsched.errors import InvalidValueError
from support.documents import run_command
from support.examples import one_in
from support.root import ROOT

yaml = pytest.importorskip("yaml")
pytestmark = pytest.mark.once("reads files")

HEAD: Final = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
ENABLED: Final = "profiles[0].plugins.multiPoint.enabled"
DISABLED: Final = "profiles[0].plugins.filter.disabled[1].name must be "
ELECTION: Final = "leaderElection.renewDeadline must be less than leaseDuration, which is 5 s"
BACKOFF: Final = "podMaxBackoffSeconds must be at least podInitialBackoffSeconds, which is 20"
KUBECONFIG: Final = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
"""
OWN: Final = """
class Own:
    name = "Own"

class Needs:
    name = "Needs"

    def __init__(self, size):
        self.size = size
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_plugins.py").write_text(OWN, encoding="utf-8")
    return tmp_path


def check(text: str, command: str = "run") -> list[str]:
    """Return what ``--check`` says of a file, without the name of the file."""
    Path("c.yaml").write_text(text, encoding="utf-8")
    code, printed = run_command(command, "--check", "--config", "c.yaml")
    if code == 0:
        assert printed == "c.yaml: valid\n"
        return []
    assert code == 2
    lines = printed.splitlines()
    assert all(line.startswith("gangsched: c.yaml: ") for line in lines), printed
    return [line.removeprefix("gangsched: c.yaml: ") for line in lines]


def listed(*names: str, point: str = "multiPoint", verb: str = "enabled") -> str:
    entries = ", ".join(f'{{name: "{name}"}}' for name in names)
    return f"{HEAD}profiles: [{{plugins: {{{point}: {{{verb}: [{entries}]}}}}}}]\n"


def disabled(name: str) -> str:
    return listed("NodePorts", name, point="filter", verb="disabled")


def weight(name: str, off: str) -> str:
    score = f"score: {{enabled: [{{name: {name}, weight: 2}}], disabled: {off}}}"
    return f"{HEAD}profiles: [{{plugins: {{{score}}}}}]\n"


def argued(name: str) -> str:
    return f'{HEAD}profiles: [{{pluginConfig: [{{name: "{name}", args: {{a: 1}}}}]}}]\n'


NOT_ENABLED: Final = "the name of an enabled plugin: enable it under plugins.multiPoint first"
WEIGHT: Final = "profiles[0].plugins.score.enabled[0].weight must be absent:"

# each file has one fault; "..." stands for any text
SENTENCES: Final = [
    *(
        (text, "the file is empty: expected kind: KubeSchedulerConfiguration...")
        for text in ("", "# leaderElection:\n", "---\n", "null\n")
    ),
    ("apiVersion: v1\nkind: ConfigMap\na: b\n", "kind must be KubeSch..., got 'ConfigMap'"),
    # plugins
    (
        listed("NodePorts", "NodeResourceFit"),
        f"{ENABLED}[1].name must be one of Coscheduling, ...or MODULE:NAME for a plugin of your"
        " own (did you mean NodeResourcesFit?), got 'NodeResourceFit'",
    ),
    (
        listed("NodePorts", "NodePorts"),
        f"{ENABLED}[1].name must be a plugin that no other entry names, got 'NodePorts'",
    ),
    (
        listed("NodePorts", "absent_module:Own"),
        f"{ENABLED}[1].name: absent_module:Own: ModuleNotFoundError: No module named"
        " 'absent_module'",
    ),
    (
        listed("NodePorts", "own_plugins:Other"),
        f"{ENABLED}[1].name: own_plugins:Other: AttributeError: module 'own_plugins' has no"
        " attribute 'Other'",
    ),
    (disabled("NodePort"), f"{DISABLED}one of ...(did you mean NodePorts?)..."),
    (disabled("*"), f"{DISABLED}the name of..."),
    *(
        (
            disabled(name),
            f"{DISABLED}the name of a plugin that can be absent: no other has the point {point},"
            f" got {name!r}",
        )
        for name, point in (("Coscheduling", "queue_sort"), ("DefaultBinder", "bind"))
    ),
    (weight("NodePorts", "[]"), f"{WEIGHT} NodePorts has no score, got 2"),
    (
        weight("NodeAffinity", "[{name: NodeAffinity}]"),
        f"{WEIGHT} NodeAffinity is disabled, got 2",
    ),
    *(
        (argued(name), f"profiles[0].pluginConfig[0].name must be {NOT_ENABLED}, got {name!r}")
        for name in ("own_plugins:Own", "ImageLocality")
    ),
    (
        argued("Coschedulin"),
        "profiles[0].pluginConfig[0].name must be one of Backfill, Coscheduling, ..."
        "(did you mean Coscheduling?), got 'Coschedulin'",
    ),
    (
        f"{HEAD}profiles: [{{pluginConfig: [{{name: Backfill, args: {{afterAttempt: 1}}}}]}}]",
        "profiles[0].pluginConfig[Backfill].args.afterAttempt must be absent: ..., got 1",
    ),
    # quotas and constraints
    (
        f"{HEAD}quotas: {{}}",
        "quotas.from must be kueue or kai or volcano or yunikorn or koordinator, got None",
    ),
    (
        f"{HEAD}quotas: [{{name: team, namespaces: [a]}}]\n",
        "quotas[0].hard must be at least one resource with its largest amount, such as {cpu: 64},"
        " as it has namespaces without nominal, parent or weight, got None",
    ),
    (
        "quotas: [{name: a, namespaces: a, hard: {cpu: 1}}]",
        "quotas[0].namespaces must be a list of at least one non-empty string...",
    ),
    (
        "quotas: [{name: a, reclaimFrom: Lower}]",
        "quotas[0].reclaimFrom must be Any or LowerOrEqualPriority or LowerPriority or Never, got"
        " 'Lower'",
    ),
    ("quotas: [{name: a, weight: .inf}]", "quotas[0].weight must be a finite number >= 0, got inf"),
    (
        "quotas: [{name: a, nominal: {cpu: -1}}]",
        "quotas[0].nominal.cpu must be an amount >= 0, got -1",
    ),
    # quotas that make up no tree; what follows from the repair of a field is no fault
    (
        "quotas: [{name: lab, parent: orgs}, {name: org}]",
        "quotas[0].parent must be the name of a quota (did you mean org?), got 'orgs'",
    ),
    (
        "quotas: [{name: a, parent: b}, {name: b, parent: c}, {name: c, parent: b}]",
        "quotas[1].parent must be no quota below it: b < c < b, got 'c'",
    ),
    (
        "quotas: [{name: a, parent: b}, {name: b, namespaces: [x], nominal: {cpu: 1}}]",
        "quotas[1].namespaces must be empty, as it is the parent of a: pods are in queues below it,"
        " got ['x']",
    ),
    (
        "quotas: [{name: a, namespaces: [x], weight: 2}, {name: b, namespaces: [y, x], weight: 2}]",
        "quotas[1].namespaces[1] must be a namespace that no other queue has: a has it, got 'x'",
    ),
    *(
        (f"quotas: [{{name: a, namespaces: [x], {field}: {wrong}}}]", f"quotas[0].{field} must...")
        for field, wrong in (("parent", "b"), ("weight", "heavy"), ("nominal", 3))
    ),
    (
        f"{HEAD}ignoredConstraints: [spec.resourceClaims, 3]\n",
        "ignoredConstraints[1] must be a non-empty string, got 3",
    ),
    # durations that contradict each other are shown as in the file
    (
        "leaderElection: {leaseDuration: 5s, renewDeadline: 10s}",
        f"{ELECTION}, got '10s'",
    ),
    (
        "leaderElection: {leaseDuration: 5s}",
        f"{ELECTION}; it is not given, and its default is 10, got None",
    ),
    (
        "leaderElection: {retryPeriod: 12}",
        "leaderElection.retryPeriod must be less than renewDeadline, which is 10 s, got 12",
    ),
    ("podInitialBackoffSeconds: 20\npodMaxBackoffSeconds: 10", f"{BACKOFF}, got 10"),
    (
        "podInitialBackoffSeconds: 20",
        f"{BACKOFF}; it is not given, and its default is 10, got None",
    ),
    # text that strict decoding refuses
    (
        "podMaxBackoffSeconds: 5\npodMaxBackoffSeconds: 9\n",
        "expected YAML: line 2, column 1: the key 'podMaxBackoffSeconds' is given twice in one"
        " mapping",
    ),
    (
        "quotas:\n- {name: a, name: b, namespaces: [x], hard: {cpu: 1}}\n",
        "expected YAML: line 2, column 13: the key 'name' is given twice in one mapping",
    ),
    ("a: [\n", "expected YAML: line 2, column 1: did not find expected node content"),
    ("a: 1\n---\nb: 2\n", "expected YAML: line 2, column 1: but found another document"),
    ("{[a]: 1}\n", "expected YAML: line 1, column 2: found unhashable key"),
    ("profiles: &a [*a]\n", "expected YAML: Circular reference detected"),
    (
        "parallelism: 4",
        "parallelism must be absent, because no setting has this name here, got 4",
    ),
    (
        f"{HEAD}profiles: [{{schedulerName: a}}, {{schedulerName: b}}]",
        "profiles...run a second process with a file...",
    ),
    ("- 1", "configuration must be a mapping, got [1]"),
]


@pytest.mark.parametrize(("text", "said"), SENTENCES)
def test_fault_is_one_sentence_that_names_the_path_and_the_value(text: str, said: str) -> None:
    (found,) = check(text)
    pattern = ".*".join(re.escape(part) for part in said.split("..."))
    assert re.fullmatch(pattern, found), found


def test_plugin_that_cannot_be_disabled_is_not_offered() -> None:
    (found,) = check(listed("Typo", point="filter", verb="disabled"))
    assert " Coscheduling," not in found


def test_aliases_and_equal_keys_of_different_mappings_are_no_error() -> None:
    text = "quotas:\n- {name: a, namespaces: &n [x], hard: {cpu: 1}}\n"
    assert check(text + "- {name: b, namespaces: *n, hard: {cpu: 1}}\n") == []


def test_transport_that_is_not_installed_is_refused_with_its_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_configuration, "find_spec", lambda _name: None)
    (found,) = check("clientConnection: {transport: httptools}")
    assert found.startswith("clientConnection.transport must be auto or aiohttp")
    assert "gangsched[kubernetes-fast]" in found
    assert check("clientConnection: {transport: auto}") == []


def test_durations_are_read_into_their_own_fields() -> None:
    given = {"leaseDuration": "30s", "renewDeadline": "20s", "retryPeriod": "3s"}
    found = read_settings({"leaderElection": given}).leader_election
    assert found == LeaderElection(lease_duration=30, renew_deadline=20, retry_period=3)


def test_profiles_that_differ_in_paths_alone_are_equal() -> None:
    """The running scheduler compares its profile with the default one."""
    first, second = (
        read_settings(
            {"profiles": [{"plugins": {point: {"enabled": [{"name": "ImageLocality"}]}}}]}
        ).profile
        for point in ("multiPoint", "score")
    )
    assert first == second == ProfileSettings(enabled=("ImageLocality",))
    assert first.enabled_at != second.enabled_at


# The schema of the chart ------------------------------------------------------------------------

SCHEMA: Final = json.loads(
    (ROOT / "charts" / "gangsched" / "values.schema.json").read_text(encoding="utf-8")
)


def known(path: str) -> set[str]:
    """Return the fields that the reader of the configuration takes at a path."""
    source = Path(str(settings.__file__)).read_text(encoding="utf-8")
    begin, end, name = {
        "": ("def read_settings", "def _quotas", "root"),
        "leaderElection": ("def _leader_election", "def _client", "given"),
        "clientConnection": ("def _client", "def _profile", "given"),
        "quotas": ("def _quotas", "def _leader_election", "each"),
    }[path]
    text = source[source.index(begin) : source.index(end)]
    found = set(re.findall(rf'{name}\.(?:\w+)\("(\w+)"', text))
    return found | set(re.findall(r'^    name = "(\w+)"', text, re.MULTILINE))


def schema(path: str) -> dict[str, Any]:
    found: dict[str, Any] = SCHEMA["definitions"]["configuration"]
    for name in filter(None, path.split(".")):
        found = found["properties"][name]
    listed: dict[str, Any] = next(iter(found.get("oneOf", [found])))  # or what states them
    items: dict[str, Any] = listed.get("items", listed)
    return items


def test_configuration_of_the_chart_has_its_schema() -> None:
    assert SCHEMA["properties"]["configuration"] == {"$ref": "#/definitions/configuration"}


@pytest.mark.parametrize("path", ["", "leaderElection", "clientConnection", "quotas"])
def test_schema_of_the_chart_has_the_fields_that_are_read_and_no_other(path: str) -> None:
    found = schema(path)
    set_by_the_chart = {"apiVersion", "kind", "profiles"} if not path else set[str]()
    assert set(found["properties"]) == known(path) - set_by_the_chart
    assert len(found["properties"]) >= 3
    assert found["additionalProperties"] is False


@pytest.mark.parametrize(
    "text", ["5s", "1m30s", "500ms", "1h", "2.5s", "1h2m3s4ms", "5", "s", "", "5d"]
)
def test_schema_takes_the_durations_that_are_read(text: str) -> None:
    rule = SCHEMA["definitions"]["duration"]["anyOf"][1]
    taken = len(text) >= rule["minLength"] and bool(re.search(rule["pattern"], text))
    try:
        read_settings({"drainSeconds": text})
        reads = True
    except InvalidValueError:
        reads = False
    assert taken == reads


# All faults of a file at once -------------------------------------------------------------------


def test_fault_of_decoding_or_of_a_plugin_of_ones_own_hides_no_fault_of_others() -> None:
    found = check("""
profiles:
- schedulerName: gangsched
  schedulerName: other
  plugins: {multiPoint: {enabled: [{name: "own_plugins:Needs"}, {name: absent:Own}]}}
  pluginConfig:
  - {name: "own_plugins:Needs", args: {sizes: 1}}
  - {name: Backfill, args: {leastMembers: 0}}
""")
    assert [line.partition(" must")[0] for line in found] == [
        "expected YAML: line 4, column 3: the key 'schedulerName' is given twice in one mapping",
        "profiles[0].plugins.multiPoint.enabled[1].name: absent:Own: ModuleNotFoundError: No module"
        " named 'absent'",
        "profiles[0].pluginConfig[own_plugins:Needs].args",
        "profiles[0].pluginConfig[Backfill].args.leastMembers",
    ]


# The file has each section and each field that an entry needs. A place has its own faults, each
# with the path that its sentence begins with. So a reader that ends with the first fault of a
# section, or a fault that follows from another one, fails here.

ABSENT: Final = object()
TIMES: Final = ("5 minutes", True, -1)
WHOLE_FILE: Final[dict[str, Any]] = yaml.safe_load("""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
podInitialBackoffSeconds: 5
podMaxBackoffSeconds: 5s
drainSeconds: 0
history: 24h
leaderElection:
  {leaderElect: true, leaseDuration: 45s, renewDeadline: 30s, retryPeriod: 12s, resourceName: a}
clientConnection: {bindConnections: 3, transport: auto}
profiles:
- schedulerName: mine
  plugins:
    multiPoint:
      enabled: [{name: ImageLocality, weight: 2}]
      disabled: [{name: VolumeZone}]
    filter: {disabled: [{name: NodePorts}]}
  pluginConfig:
  - {name: Coscheduling, args: {placement: pack, searchBudget: 9}}
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        {type: MostAllocated, resources: [{name: cpu, weight: 1}, {name: memory}]}
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints:
      - {maxSkew: 2, topologyKey: rack, whenUnsatisfiable: ScheduleAnyway, nodeTaintsPolicy: Honor}
  - {name: DefaultPreemption, args: {graceSeconds: 5}}
  - {name: Backfill, args: {leastMembers: 2, afterSeconds: 3}}
quotas:
- {name: a, namespaces: [x, "y"], hard: {cpu: 1, memory: 1Gi}}
- {name: b, namespaces: [z], hard: {pods: 3}}
- {name: org, nominal: {cpu: 8}, weight: 2}
- name: team
  namespaces: [w]
  parent: org
  nominal: {cpu: 4}
  borrow: {cpu: 2}
  lend: {cpu: 1}
  reclaimFrom: LowerPriority
ignoredConstraints: [spec.resourceClaims, spec.workloadRef]
""")
PROFILE: Final = "profiles[0]"
WORKLOAD: Final = ("--trace", "t.csv", "--nodes", "2x4")
TRACE: Final = "job,submit_s,workers,gpus_per_worker,duration_s\na,0,1,1,100\n"
MISSPELT: Final = ("drainSecond", "namespace", "retryPeriods", "wieght")


class Place(NamedTuple):
    """A place of the file: its keys, what may be wrong there, and the path that is named."""

    keys: tuple[str | int, ...]
    wrong: tuple[Any, ...]
    path: str


def place(path: str, *wrong: Any, named: str | None = None) -> Place:
    keys = tuple(
        int(part) if part.isdigit() else part
        for part in path.replace("]", "").replace("[", ".").split(".")
    )
    return Place(keys, wrong, named or path)


def arg(number: int, plugin: str, path: str, *wrong: Any) -> Place:
    config = f"{PROFILE}.pluginConfig"
    return place(f"{config}[{number}].args.{path}", *wrong, named=f"{config}[{plugin}].args.{path}")


STRATEGY: Final = "scoringStrategy"
SPREAD: Final = "defaultConstraints[0]"
PLACES: Final = (
    place("podInitialBackoffSeconds", *TIMES),
    place("podMaxBackoffSeconds", *TIMES),
    place("drainSeconds", *TIMES),
    place("drainSecond", 1),
    place("history", 0, *TIMES),
    place("leaderElection.leaderElect", "yes"),
    place("leaderElection.leaseDuration", *TIMES),
    place("leaderElection.renewDeadline", *TIMES),
    place("leaderElection.retryPeriod", *TIMES),
    place("leaderElection.retryPeriods", "1s"),
    place("leaderElection.resourceName", "My Lease"),
    place("clientConnection.bindConnections", 0, "3"),
    place("clientConnection.transport", "quic"),
    place(f"{PROFILE}.schedulerName", "Not A Name"),
    place(f"{PROFILE}.plugins.multiPoint.enabled[0].weight", -1, "2"),
    place(f"{PROFILE}.plugins.multiPoint.disabled[0].name", "VolumeZones", ABSENT),
    place(f"{PROFILE}.plugins.filter.disabled[0].name", "Coscheduling", 3),
    arg(0, "Coscheduling", "placement", "packed"),
    arg(0, "Coscheduling", "searchBudget", -1),
    arg(1, "NodeResourcesFit", f"{STRATEGY}.type", "Least", ABSENT),
    arg(1, "NodeResourcesFit", f"{STRATEGY}.resources[0].name", "", 3, ABSENT),
    arg(1, "NodeResourcesFit", f"{STRATEGY}.resources[0].weight", 0, 101),
    arg(1, "NodeResourcesFit", f"{STRATEGY}.resources[1].name", "", ABSENT),
    arg(1, "NodeResourcesFit", f"{STRATEGY}.resources[1].wieght", 3),
    arg(2, "PodTopologySpread", "defaultingType", "Lists"),
    arg(2, "PodTopologySpread", f"{SPREAD}.maxSkew", 0, ABSENT),
    arg(2, "PodTopologySpread", f"{SPREAD}.topologyKey", "", ABSENT),
    arg(2, "PodTopologySpread", f"{SPREAD}.whenUnsatisfiable", "DoNotSchedule", ABSENT),
    arg(2, "PodTopologySpread", f"{SPREAD}.nodeTaintsPolicy", "Honour"),
    arg(3, "DefaultPreemption", "graceSeconds", "1m"),
    arg(3, "DefaultPreemption", "reclaim", "All", 1),
    arg(4, "Backfill", "leastMembers", 0),
    arg(4, "Backfill", "afterSeconds", -1),
    place("quotas[0].name", "", "A", ABSENT),
    place("quotas[0].namespaces[0]", "", 3),
    place("quotas[0].namespaces[1]", ""),
    place("quotas[0].hard.cpu", "lots", -1),
    place("quotas[0].hard.memory", "1GiB", None),
    place("quotas[0].hard.cpus", 1, named="quotas[0].hard"),
    place("quotas[1].name", "", 3, ABSENT),
    place("quotas[1].namespaces", "z", {}),
    place("quotas[1].namespace", ["z"]),
    place("quotas[1].hard", {}, ABSENT),
    place("quotas[2].nominal.cpu", "lots", -1),
    place("quotas[2].nominal.cpus", 1, named="quotas[2].nominal"),
    place("quotas[2].weight", -1, "2", True),
    place("quotas[3].namespaces", "w"),
    place("quotas[3].parent", "orgs", "", "Org", 3),
    place("quotas[3].nominal", 4, []),
    place("quotas[3].borrow.cpu", "many"),
    place("quotas[3].lend", 1),
    place("quotas[3].reclaimFrom", "Anybody", 1),
    place("ignoredConstraints[0]", "", 3, "no path"),
    place("ignoredConstraints[1]", "spec.nodeSelector", named="ignoredConstraints"),
)


def planted(faults: list[tuple[Place, Any]]) -> dict[str, Any]:
    document = copy.deepcopy(WHOLE_FILE)
    for at, value in faults:
        held: Any = document
        for key in at.keys[:-1]:
            held = held[key]
        if value is ABSENT:
            del held[at.keys[-1]]
        else:
            held[at.keys[-1]] = value
    return document


def paths_named(faults: list[tuple[Place, Any]]) -> list[str]:
    return sorted(line.split(" must ")[0] for line in check(json.dumps(planted(faults))))


def paths_of(faults: list[tuple[Place, Any]]) -> list[str]:
    return sorted(at.path for at, _wrong in faults)


@st.composite
def some_faults(draw: st.DrawFn) -> list[tuple[Place, Any]]:
    numbers = st.sets(st.integers(0, len(PLACES) - 1), min_size=1, max_size=12)
    faults = [(PLACES[n], draw(st.sampled_from(PLACES[n].wrong))) for n in sorted(draw(numbers))]
    # a field that is absent beside one that is unknown is the one that was meant: one fault
    unknown = {at.keys[:-1] for at, _wrong in faults if at.keys[-1] in MISSPELT}
    return [
        (at, wrong) for at, wrong in faults if wrong is not ABSENT or at.keys[:-1] not in unknown
    ]


def test_file_without_a_fault_is_valid_and_a_fault_in_every_place_is_named() -> None:
    assert paths_named([]) == []
    faults = [(at, at.wrong[0]) for at in PLACES]
    assert paths_named(faults) == paths_of(faults)
    in_place = [(at, at.wrong[0]) for at in PLACES if at.keys[-1] not in MISSPELT]
    lines = check(json.dumps(planted(in_place)), "extender")
    assert [line.split(" must ")[0] for line in lines] == [at.path for at, _wrong in in_place]


@one_in(4)
@given(some_faults())
def test_all_planted_faults_are_named_and_no_other(faults: list[tuple[Place, Any]]) -> None:
    # an amount is named by its resource, or by "hard" if no pod can request the resource
    assert paths_named(faults) == paths_of(faults)


GENERAL: Final = ("drainSeconds", "quotas[0].name", "quotas[0].hard.cpu", "quotas[1].namespaces")
ARGUMENTS: Final = tuple(at.path for at in PLACES if "[Backfill]" in at.path)


@pytest.mark.parametrize(
    ("command", "paths"),
    [
        (["run", "--kubeconfig", "kubeconfig", "--serve", ""], GENERAL),
        (["extender", "--kubeconfig", "kubeconfig", "--serve", ""], GENERAL),
        (["simulate", *WORKLOAD], GENERAL),
        (["extender", "--kubeconfig", "kubeconfig", "--serve", ""], ARGUMENTS),
        (["simulate", *WORKLOAD], ARGUMENTS),
    ],
)
def test_every_command_with_a_configuration_names_all_malformed_fields(
    command: list[str], paths: tuple[str, ...]
) -> None:
    Path("t.csv").write_text(TRACE, encoding="utf-8")
    Path("kubeconfig").write_text(KUBECONFIG, encoding="utf-8")
    faults = [(at, at.wrong[0]) for at in PLACES if at.path in paths]
    Path("c.yaml").write_text(json.dumps(planted(faults)), encoding="utf-8")
    code, printed = run_command(*command, "--config", "c.yaml")
    assert code == 2
    found = [line.partition(" must ")[0] for line in printed.splitlines()]
    assert found == [f"gangsched: c.yaml: {path}" for path in paths]
