"""``--check`` names all faults of a configuration file at once, in the order of the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from gangsched.cli import main
from gangsched.cli._faults import Fault, faults_of
from gangsched.configuration import read_settings
from gangsched.errors import InvalidValueError

pytest.importorskip("yaml")
pytestmark = pytest.mark.once("reads files")

PLUGIN: Final = """
class Needs:
    name = "Needs"

    def __init__(self, size):
        self.size = size
"""

FILE: Final = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
podMaxBackoffSeconds: 5 minutes
leaderElection:
  leaseDuration: 5s
  retryPeriods: 2s
  resourceName: My Lease
clientConnection: {bindConnections: 0, transport: quic}
drainSecond: 10
profiles:
- schedulerName: gangsched
  schedulerName: other
  plugins:
    multiPoint:
      enabled: [{name: ImageLocalty}, {name: absent:Own}, {name: ImageLocality, weight: -1}]
      disabled: [{name: NodePort}, {name: Coscheduling}]
  pluginConfig:
  - {name: Backfill, args: {afterAttempt: 1, leastMembers: 0}}
  - {name: Backfil, args: {}}
  - {name: DefaultPreemption, args: {graceSeconds: 1m, searchBudget: many}}
quotas:
- {name: a, namespaces: [x], hard: {cpus: 1, requests.memory: 1}}
- {name: b, namespace: [x], hard: {cpu: 1}}
ignoredConstraints: [spec.nodeSelector, spec.resourceClaims, spec.resourceClaim]
"""

FOUND: Final = [
    "podMaxBackoffSeconds must be a number of seconds",
    "leaderElection.renewDeadline must be less than leaseDuration, which is 5 s",
    "leaderElection.retryPeriods must be absent",
    "leaderElection.resourceName must be a name of lower-case letters",
    "clientConnection.bindConnections must be a whole number >= 1, got 0",
    "clientConnection.transport must be auto or aiohttp or httptools, got 'quic'",
    "drainSecond must be absent, because no setting has this name here (did you mean drainSeconds?",
    "expected YAML: line 12, column 3: the key 'schedulerName' is given twice in one mapping",
    "profiles[0].plugins.multiPoint.enabled[0].name must be one of",
    "profiles[0].plugins.multiPoint.enabled[1].name: absent:Own: ModuleNotFoundError",
    "profiles[0].plugins.multiPoint.enabled[2].weight must be a whole number >= 0, got -1",
    "profiles[0].plugins.multiPoint.disabled[0].name must be one of",
    "profiles[0].plugins.multiPoint.disabled[1].name must be the name of a plugin that can be",
    "profiles[0].pluginConfig[Backfill].args.afterAttempt must be absent",
    "profiles[0].pluginConfig[Backfill].args.leastMembers must be a whole number >= 1, got 0",
    "profiles[0].pluginConfig[1].name must be one of",
    "profiles[0].pluginConfig[DefaultPreemption].args.graceSeconds must be a number of seconds",
    "profiles[0].pluginConfig[DefaultPreemption].args.searchBudget must be a whole number",
    "quotas[0].hard must be a resource that pods can request: cpu, memory",
    "quotas[0].hard must be a resource that pods can request: cpu, memory",
    "quotas[1].namespace must be absent",
    "ignoredConstraints must be a constraint that is not modelled",
    "ignoredConstraints must be one of spec.containers.resources.claims, ",
]


def said_by(command: str, folder: Path, capsys: pytest.CaptureFixture[str], text: str) -> list[str]:
    file = folder / "config.yaml"
    file.write_text(text, encoding="utf-8")
    assert main([command, "--check", "--config", str(file)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    begin = f"gangsched: {file}: "
    lines = printed.err.splitlines()
    assert all(line.startswith(begin) for line in lines)
    return [line.removeprefix(begin) for line in lines]


@pytest.mark.parametrize("command", ["run", "extender"])
def test_all_faults_are_named_in_the_order_of_the_file(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = said_by(command, tmp_path, capsys, FILE)
    assert len(said) == len(FOUND), "\n".join(said)
    for line, expected in zip(said, FOUND, strict=True):
        assert line.startswith(expected), "\n".join(said)


def test_document_of_another_kind_has_one_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = said_by("run", tmp_path, capsys, "apiVersion: v1\nkind: ConfigMap\ndata: {a: b}\n")
    assert said == ["kind must be KubeSchedulerConfiguration, got 'ConfigMap'"]


def test_plugin_that_lacks_an_argument_hides_no_fault_of_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "needs.py").write_text(PLUGIN, encoding="utf-8")
    text = """
profiles:
- plugins: {multiPoint: {enabled: [{name: "needs:Needs"}]}}
  pluginConfig:
  - {name: "needs:Needs", args: {sizes: 1}}
  - {name: Backfill, args: {leastMembers: 0}}
"""
    said = said_by("run", tmp_path, capsys, text)
    assert [line.partition(" must")[0] for line in said] == [
        "profiles[0].pluginConfig[needs:Needs].args",
        "profiles[0].pluginConfig[Backfill].args.leastMembers",
    ]


@pytest.mark.parametrize(
    ("document", "paths"),
    [
        ([], ["configuration"]),
        ({"profiles": 1, "quotas": {}}, ["profiles", "quotas"]),
        ({"profiles": [{"a": 1}, {}]}, ["profiles", "profiles[0].a"]),
        ({"podInitialBackoffSeconds": 60, "drainSeconds": "x"}, ["podMaxBackoffSeconds", "drain"]),
        ({"quotas": [{"name": "q", "namespaces": [""], "hard": {}}]}, ["quotas[0].namespaces[0]"]),
        ({"leaderElection": {"renewDeadline": "20s", "a": 1}}, ["leaderElection.renewDeadline"]),
    ],
)
def test_faults_of_one_field_follow_from_no_repair(document: Any, paths: list[str]) -> None:
    def check(given: object) -> Fault | None:
        try:
            read_settings(given)
        except InvalidValueError as error:
            return Fault.of(error)
        return None

    found = [fault.path for fault in faults_of(document, check)]
    assert len(found) == len(set(found))
    for path in paths:
        assert any(each.startswith(path) for each in found), found
    assert len(found) <= len(paths) + 1, found
