"""Faults that are planted in distinct places of a configuration file are all named, and no other.

The file has each section and each field that an entry needs. A place has its own faults, each with
the path that its sentence begins with. So a reader that ends with the first fault of a section, or
a fault that follows from another one, fails here.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched.cli import main
from gangsched.cli._configuration import read_checked
from gangsched.cli._files import BadInputError

pytest.importorskip("yaml")
pytestmark = pytest.mark.once("reads files")

ABSENT: Final = object()
TIMES: Final = ("5 minutes", True, -1)
FILE: Final[dict[str, Any]] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "podInitialBackoffSeconds": 5,
    "podMaxBackoffSeconds": "5s",
    "drainSeconds": 0,
    "leaderElection": {
        "leaderElect": True,
        "leaseDuration": "45s",
        "renewDeadline": "30s",
        "retryPeriod": "12s",
        "resourceName": "a",
    },
    "clientConnection": {"bindConnections": 3, "transport": "auto"},
    "profiles": [
        {
            "schedulerName": "mine",
            "plugins": {
                "multiPoint": {
                    "enabled": [{"name": "ImageLocality", "weight": 2}],
                    "disabled": [{"name": "VolumeZone"}],
                },
                "filter": {"disabled": [{"name": "NodePorts"}]},
            },
            "pluginConfig": [
                {"name": "Coscheduling", "args": {"placement": "pack", "searchBudget": 9}},
                {
                    "name": "NodeResourcesFit",
                    "args": {
                        "scoringStrategy": {
                            "type": "MostAllocated",
                            "resources": [{"name": "cpu", "weight": 1}, {"name": "memory"}],
                        }
                    },
                },
                {
                    "name": "PodTopologySpread",
                    "args": {
                        "defaultingType": "List",
                        "defaultConstraints": [
                            {
                                "maxSkew": 2,
                                "topologyKey": "rack",
                                "whenUnsatisfiable": "ScheduleAnyway",
                                "nodeTaintsPolicy": "Honor",
                            }
                        ],
                    },
                },
                {"name": "DefaultPreemption", "args": {"graceSeconds": 5}},
                {"name": "Backfill", "args": {"leastMembers": 2, "afterSeconds": 3}},
            ],
        }
    ],
    "quotas": [
        {"name": "a", "namespaces": ["x", "y"], "hard": {"cpu": 1, "memory": "1Gi"}},
        {"name": "b", "namespaces": ["z"], "hard": {"pods": 3}},
    ],
    "ignoredConstraints": ["spec.resourceClaims", "spec.workloadRef"],
}
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
    arg(4, "Backfill", "leastMembers", 0),
    arg(4, "Backfill", "afterSeconds", -1),
    place("quotas[0].name", "", "A", ABSENT),
    place("quotas[0].namespaces[0]", "", 3),
    place("quotas[0].namespaces[1]", ""),
    place("quotas[0].hard.cpu", "lots", -1),
    place("quotas[0].hard.memory", "1GiB", None),
    place("quotas[0].hard.cpus", 1, named="quotas[0].hard"),
    place("quotas[1].name", "", 3, ABSENT),
    place("quotas[1].namespaces", [], "z", None, ABSENT),
    place("quotas[1].namespace", ["z"]),
    place("quotas[1].hard", {}, ABSENT),
    place("ignoredConstraints[0]", "", 3, "no path"),
    place("ignoredConstraints[1]", "spec.nodeSelector", named="ignoredConstraints"),
)


def planted(faults: list[tuple[Place, Any]]) -> dict[str, Any]:
    document = copy.deepcopy(FILE)
    for at, value in faults:
        held: Any = document
        for key in at.keys[:-1]:
            held = held[key]
        if value is ABSENT:
            del held[at.keys[-1]]
        else:
            held[at.keys[-1]] = value
    return document


def named_by(file: Path) -> list[str]:
    try:
        read_checked(str(file))
    except BadInputError as error:
        return [one.removeprefix(f"{file}: ").split(" must ")[0] for one in error.sentences()]
    return []


@st.composite
def some_faults(draw: st.DrawFn) -> list[tuple[Place, Any]]:
    numbers = st.sets(st.integers(0, len(PLACES) - 1), min_size=1, max_size=12)
    faults = [(PLACES[n], draw(st.sampled_from(PLACES[n].wrong))) for n in sorted(draw(numbers))]
    # a field that is absent beside one that is unknown is the one that was meant: one fault
    unknown = {at.keys[:-1] for at, _wrong in faults if at.keys[-1] in MISSPELT}
    return [
        (at, wrong) for at, wrong in faults if wrong is not ABSENT or at.keys[:-1] not in unknown
    ]


def test_file_without_a_fault_is_valid(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(json.dumps(FILE), encoding="utf-8")
    assert named_by(file) == []


@given(some_faults())
def test_all_planted_faults_are_named_and_no_other(
    tmp_path_factory: pytest.TempPathFactory, faults: list[tuple[Place, Any]]
) -> None:
    file = tmp_path_factory.getbasetemp() / "planted.yaml"
    file.write_text(json.dumps(planted(faults)), encoding="utf-8")
    # an amount is named by its resource, or by "hard" if no pod can request the resource
    assert sorted(named_by(file)) == sorted(at.path for at, _wrong in faults)


def test_a_fault_in_every_place_is_named(tmp_path: Path) -> None:
    faults = [(at, at.wrong[0]) for at in PLACES]
    file = tmp_path / "config.yaml"
    file.write_text(json.dumps(planted(faults)), encoding="utf-8")
    assert sorted(named_by(file)) == sorted(at.path for at, _wrong in faults)


@pytest.mark.parametrize("command", [["run"], ["extender"], ["simulate", *WORKLOAD]])
def test_every_command_with_a_configuration_names_all_malformed_fields(
    command: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(TRACE, encoding="utf-8")
    paths = ("drainSeconds", "quotas[0].name", "quotas[0].hard.cpu", "quotas[1].namespaces")
    faults = [(at, at.wrong[0]) for at in PLACES if at.path in paths]
    Path("c.yaml").write_text(json.dumps(planted(faults)), encoding="utf-8")
    assert main([*command, "--config", "c.yaml"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(" must ")[0] for line in said] == [
        f"gangsched: c.yaml: {path}" for path in paths
    ]


def test_simulation_names_all_faulty_arguments_of_plugins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(TRACE, encoding="utf-8")
    faults = [(at, at.wrong[0]) for at in PLACES if "[Backfill]" in at.path]
    Path("c.yaml").write_text(json.dumps(planted(faults)), encoding="utf-8")
    assert main(["simulate", *WORKLOAD, "--config", "c.yaml"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == len(faults) == 2
