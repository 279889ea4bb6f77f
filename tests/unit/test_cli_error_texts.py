"""Errors of the command name the field, the value and what is expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from gangsched.cli import main
from gangsched.errors import InvalidValueError
from gangsched.simulation import FaultPlan
from support.documents import fails, run_command

pytest.importorskip("yaml")

HEADER = "job,submit_s,workers,gpus_per_worker,duration_s"
WORKLOAD = ("--trace", "trace.csv", "--nodes", "1x4")
LOG = "1 15 47 600 16 -1 -1 16 600 -1 1 4 1 1 1 1 -1 -1\n"
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: gangsched
  pluginConfig:
  - {name: Coscheduling, args: {}}
  - {name: Volcano, args: {}}
"""
QUOTA = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
quotas:
- {name: a, namespaces: [a], hard: {nvidia.com/gpu: "-1"}}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trace.csv").write_text(f"{HEADER}\nx,0,1,4,100\n")
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return what is printed of options that are refused."""
    with pytest.raises(SystemExit) as left:
        main(words)
    assert left.value.code == 2
    return capsys.readouterr().err


def test_negative_quota_is_named_by_its_path(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "c.yaml").write_text(QUOTA)
    text = fails(capsys, "simulate", *WORKLOAD, "--config", "c.yaml")
    assert "quotas[0].hard.nvidia.com/gpu must be " in text


def test_unknown_plugin_of_the_configuration_is_named_by_its_index(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "c.yaml").write_text(CONFIG)
    text = fails(capsys, "simulate", *WORKLOAD, "--config", "c.yaml")
    assert "profiles[0].pluginConfig[1].name must be one of " in text
    assert text.endswith(", got 'Volcano'\n")


@pytest.mark.parametrize("text", ["[]", "null", "3"])
def test_faults_that_are_no_object_are_refused_by_name(
    text: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "f.json").write_text(text)
    found = fails(capsys, "simulate", *WORKLOAD, "--faults", "f.json")
    assert found.startswith("gangsched: f.json: plan must be an object with faults and ahead, got ")
    with pytest.raises(InvalidValueError, match=r"^plan must be an object"):
        FaultPlan.from_json([])


def test_swf_without_a_header_is_recognised(folder: Path) -> None:
    (folder / "log.swf").write_text(LOG)
    (folder / "c.yaml").write_text(
        "{apiVersion: v1, kind: Node, metadata: {name: a1}, status: {allocatable: {cpu: 64}}}"
    )
    code, printed = run_command("simulate", "c.yaml", "--trace", "log.swf")
    assert code == 0
    assert "cpu used     25.0%" in printed


def test_file_of_no_known_format_is_refused_with_the_formats(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "log.csv").write_text("id,when\n1,2\n")
    text = fails(capsys, "simulate", "--trace", "log.csv", "--nodes", "1x4")
    for words in (
        "job and submit_s",
        "creation_time and num_gpu",
        "app and role",
        "[",
        "18 numbers",
    ):
        assert words in text


def test_table_that_lacks_one_column_is_refused_for_that_column(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "log.csv").write_text("job,submit_s,workers,duration_s\n")
    text = fails(capsys, "simulate", "--trace", "log.csv", "--nodes", "1x4")
    assert "gpus_per_worker" in text
    assert "openb" not in text
    assert "num_gpu" not in text


def test_misspelt_option_of_a_compared_policy_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = refused(capsys, "compare", *WORKLOAD, "--policy", "gang,backfil")
    assert "--backfil; did you mean --backfill?" in text


def test_options_of_a_policy_in_one_word_are_for_compare_only(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = refused(capsys, "simulate", *WORKLOAD, "--policy", "gang,backfill=2")
    assert "'gang,backfill=2'" in text
    assert "--policy gang --backfill=2" in text


def test_unknown_policy_is_refused_with_the_form_of_a_function(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = refused(capsys, "simulate", *WORKLOAD, "--policy", "gagn")
    assert "MODULE:FUNCTION" in text
    assert "did you mean gang?" in text


def test_one_job_without_processors_is_counted_in_the_singular(folder: Path) -> None:
    (folder / "log.swf").write_text(f"{LOG}{LOG.replace(' 16 ', ' -1 ')}")
    code, printed = run_command("simulate", "--trace", "log.swf", "--nodes", "1x4")
    assert code == 0
    assert "1 job has no number of processors (fields 5 and 8) and was left out" in printed
