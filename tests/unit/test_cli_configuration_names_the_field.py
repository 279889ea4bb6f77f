"""What is wrong with a configuration file is named by its path, in the words of the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from gangsched.cli import main
from gangsched.configuration import LeaderElection, ProfileSettings, read_settings

pytest.importorskip("yaml")
pytestmark = pytest.mark.once("reads files")

HEAD: Final = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
ENABLED: Final = "profiles[0].plugins.multiPoint.enabled[1].name"
KUBECONFIG: Final = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
"""
PLUGIN: Final = """
class Own:
    name = "Own"
"""

Check = Callable[[str], str]


@pytest.fixture
def check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Check:
    """Return what ``gangsched run --check`` says of a file that it refuses."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_plugins.py").write_text(PLUGIN, encoding="utf-8")

    def run(text: str) -> str:
        (tmp_path / "c.yaml").write_text(text, encoding="utf-8")
        assert main(["run", "--check", "--config", "c.yaml"]) == 2
        return capsys.readouterr().err.removeprefix("gangsched: c.yaml: ").rstrip("\n")

    return run


def enabled(*names: str, point: str = "multiPoint", verb: str = "enabled") -> str:
    listed = ", ".join(f'{{name: "{name}"}}' for name in names)
    return f"{HEAD}profiles: [{{plugins: {{{point}: {{{verb}: [{listed}]}}}}}}]\n"


@pytest.mark.parametrize("text", ["", "\n", "# leaderElection:\n", "---\n", "null\n"])
def test_empty_file_is_refused(text: str, check: Check) -> None:
    assert check(text).startswith("the file is empty: expected kind: KubeSchedulerConfiguration")


def test_misspelt_plugin_is_named_by_its_path_and_the_nearest_name(check: Check) -> None:
    said = check(enabled("NodePorts", "NodeResourceFit"))
    assert said.startswith(f"{ENABLED} must be one of Coscheduling, ")
    assert said.endswith(
        "or MODULE:NAME for a plugin of your own (did you mean NodeResourcesFit?),"
        " got 'NodeResourceFit'"
    )


def test_misspelt_plugin_that_is_disabled_is_named_by_its_path(check: Check) -> None:
    said = check(enabled("NodePorts", "NodePort", point="filter", verb="disabled"))
    assert said.startswith("profiles[0].plugins.filter.disabled[1].name must be one of ")
    assert "(did you mean NodePorts?)" in said


def test_plugin_that_cannot_be_disabled_is_named_by_its_path(check: Check) -> None:
    said = check(enabled("NodePorts", "*", point="score", verb="disabled"))
    assert said.startswith("profiles[0].plugins.score.disabled[1].name must be the name of")


@pytest.mark.parametrize(
    ("name", "point"), [("Coscheduling", "queue_sort"), ("DefaultBinder", "bind")]
)
def test_only_plugin_of_a_point_cannot_be_disabled(name: str, point: str, check: Check) -> None:
    said = check(enabled("NodePorts", name, point="filter", verb="disabled"))
    expected = f"the name of a plugin that can be absent: no other has the point {point}"
    assert said == f"profiles[0].plugins.filter.disabled[1].name must be {expected}, got {name!r}"
    assert f" {name}," not in check(enabled("Typo", point="filter", verb="disabled"))


def test_plugin_is_listed_once_in_a_point(check: Check) -> None:
    said = check(enabled("NodePorts", "NodePorts"))
    assert said == f"{ENABLED} must be a plugin that no other entry names, got 'NodePorts'"


@pytest.mark.parametrize(
    ("name", "disabled", "why"),
    [
        ("NodePorts", "[]", "has no score"),
        ("NodeAffinity", "[{name: NodeAffinity}]", "is disabled"),
    ],
)
def test_weight_of_a_plugin_that_scores_nothing_is_named_by_its_path(
    name: str, disabled: str, why: str, check: Check
) -> None:
    points = f"score: {{enabled: [{{name: {name}, weight: 2}}], disabled: {disabled}}}"
    said = check(f"{HEAD}profiles: [{{plugins: {{{points}}}}}]\n")
    path = "profiles[0].plugins.score.enabled[0].weight"
    assert said == f"{path} must be absent: {name} {why}, got 2"


def test_quota_without_amounts_says_what_to_write(check: Check) -> None:
    said = check(f"{HEAD}quotas: [{{name: team, namespaces: [a]}}]\n")
    expected = "at least one resource with its largest amount, such as {cpu: 64}"
    assert said == f"quotas[0].hard must be {expected}, got None"


def test_text_of_a_list_is_named_by_its_place(check: Check) -> None:
    said = check(f"{HEAD}ignoredConstraints: [spec.resourceClaims, 3]\n")
    assert said == "ignoredConstraints[1] must be a non-empty string, got 3"


@pytest.mark.parametrize("command", ["run", "extender"])
def test_malformed_configuration_is_named_by_its_file_without_check_too(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, kubeconfig = tmp_path / "c.yaml", tmp_path / "kubeconfig"
    file.write_text(enabled("NodePort"), encoding="utf-8")
    kubeconfig.write_text(KUBECONFIG, encoding="utf-8")
    given = ["--config", str(file), "--kubeconfig", str(kubeconfig), "--serve", ""]
    assert main([command, *given]) == 2
    start = f"gangsched: {file}: profiles[0].plugins.multiPoint.enabled[0].name must be one of"
    assert capsys.readouterr().err.startswith(start)


def test_plugin_that_two_points_name_is_reported_at_the_first(check: Check) -> None:
    points = "multiPoint: {enabled: [{name: Typo}]}, score: {enabled: [{name: Typo}]}"
    said = check(f"{HEAD}profiles: [{{plugins: {{{points}}}}}]\n")
    assert said.startswith("profiles[0].plugins.multiPoint.enabled[0].name ")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("absent_module:Own", "ModuleNotFoundError: No module named 'absent_module'"),
        ("own_plugins:Other", "AttributeError: module 'own_plugins' has no attribute 'Other'"),
    ],
)
def test_plugin_that_cannot_be_imported_is_named_by_its_path(
    name: str, problem: str, check: Check
) -> None:
    assert check(enabled("NodePorts", name)) == f"{ENABLED}: {name}: {problem}"


@pytest.mark.parametrize("name", ["own_plugins:Own", "ImageLocality"])
def test_arguments_of_a_plugin_that_is_not_enabled_say_to_enable_it(
    name: str, check: Check
) -> None:
    said = check(f'{HEAD}profiles: [{{pluginConfig: [{{name: "{name}", args: {{a: 1}}}}]}}]\n')
    expected = "the name of an enabled plugin: enable it under plugins.multiPoint first"
    assert said == f"profiles[0].pluginConfig[0].name must be {expected}, got {name!r}"


def test_arguments_of_a_misspelt_plugin_name_the_nearest(check: Check) -> None:
    said = check(f"{HEAD}profiles: [{{pluginConfig: [{{name: Coschedulin}}]}}]\n")
    assert "one of Backfill, Coscheduling, " in said
    assert said.endswith("(did you mean Coscheduling?), got 'Coschedulin'")


def test_document_of_another_kind_is_named_by_its_kind(check: Check) -> None:
    said = check("apiVersion: v1\nkind: ConfigMap\n")
    assert said == "kind must be KubeSchedulerConfiguration, got 'ConfigMap'"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "leaderElection: {leaseDuration: 5s, renewDeadline: 10s}",
            "leaderElection.renewDeadline must be less than leaseDuration, which is 5 s, got '10s'",
        ),
        (
            "leaderElection: {retryPeriod: 12}",
            "leaderElection.retryPeriod must be less than renewDeadline, which is 10 s, got 12",
        ),
        (
            "leaderElection: {leaseDuration: 5s}",
            "leaderElection.renewDeadline must be less than leaseDuration, which is 5 s;"
            " it is not given, and its default is 10, got None",
        ),
        (
            "podInitialBackoffSeconds: 20\npodMaxBackoffSeconds: 10",
            "podMaxBackoffSeconds must be at least podInitialBackoffSeconds, which is 20, got 10",
        ),
        (
            "podInitialBackoffSeconds: 20",
            "podMaxBackoffSeconds must be at least podInitialBackoffSeconds, which is 20;"
            " it is not given, and its default is 10, got None",
        ),
    ],
)
def test_duration_that_contradicts_another_is_shown_as_in_the_file(
    text: str, said: str, check: Check
) -> None:
    assert check(f"{HEAD}{text}\n") == said


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
    assert first == second
    assert first.enabled_at != second.enabled_at
    assert first == ProfileSettings(enabled=("ImageLocality",))
