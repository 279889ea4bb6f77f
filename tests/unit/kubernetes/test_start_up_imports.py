"""A scheduler on a cluster imports what it needs, and nothing before it needs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gangsched.cli import main
from gangsched.kubernetes import _load_access

_LOADER = Path(_load_access.__file__)
_WITH_COMMAND = """
import sys
from gangsched.cli import _parser
options = _parser("run").parse_args(["run", *sys.argv[1:]])
"""
_AFTER_CREDENTIALS = (
    _WITH_COMMAND
    + """
from gangsched.kubernetes import _run

def begin(credentials):
    print(*sorted(sys.modules))
    raise SystemExit

_run.Credentials.begin = begin
options.run(options)
"""
)


def modules_of(program: str, *arguments: str) -> set[str]:
    """Return the modules that a program has imported when it prints them."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False
    )
    assert done.stdout, done.stderr
    return set(done.stdout.split())


def test_run_asks_for_credentials_before_it_imports_the_scheduler(tmp_path: Path) -> None:
    configuration = tmp_path / "scheduler.yaml"
    configuration.write_text("kind: KubeSchedulerConfiguration\n", encoding="utf-8")
    loaded = modules_of(_AFTER_CREDENTIALS, "--config", str(configuration), "--serve", "")
    assert "gangsched.kubernetes._leases" in loaded
    # a configuration may have quotas, which need the model: 20 ms of the 400
    heavy = ("framework", "simulation", "events", "objects", "metrics", "plugins", "coscheduling")
    assert sorted(loaded & {f"gangsched.{name}" for name in heavy}) == []
    assert sorted(loaded & {"aiohttp", "kubernetes_asyncio", "matplotlib", "rich"}) == []


@pytest.mark.parametrize("command", ["simulate", "run"])
def test_named_command_is_the_only_one_that_is_imported(command: str) -> None:
    program = f"import sys; from gangsched.cli import _parser; _parser({command!r})"
    loaded = modules_of(program + "; print(*sys.modules)")
    others = {"_compare", "_explain", "_replay", "_cluster", "_completion"}
    own = {"_cluster" if command == "run" else f"_{command}"}
    assert sorted(loaded & {f"gangsched.cli.{each}" for each in others - own}) == []
    assert loaded & {f"gangsched.cli.{each}" for each in own}


def test_help_and_unknown_commands_know_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--help"], ["nonsense"]):
        with pytest.raises(SystemExit):
            main(arguments)
    printed = capsys.readouterr()
    for command in ("demo", "simulate", "compare", "explain", "replay", "run", "completion"):
        assert f"\n    {command}" in printed.out
        assert f"'{command}'" in printed.err


_WITH_LOADER = f"""
import runpy, sys
loader = runpy.run_path({str(_LOADER)!r})
"""


def test_configuration_is_read_without_the_models_of_the_api() -> None:
    loaded = modules_of(_WITH_LOADER + "loader['import_loader'](); print(*sys.modules)")
    assert "kubernetes_asyncio.config.kube_config" in loaded
    assert "kubernetes_asyncio.client.api_client" not in loaded


def test_loader_that_needs_the_models_gets_them() -> None:
    program = (
        _WITH_LOADER
        + """
class Refuse:
    \"\"\"As with a version whose configuration is elsewhere.\"\"\"
    armed = True
    def find_spec(self, name, path=None, target=None):
        if self.armed and name == "kubernetes_asyncio.client.configuration":
            self.armed = False
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
loader['import_loader']()
print(*sys.modules)
"""
    )
    assert "kubernetes_asyncio.client.api_client" in modules_of(program)


def test_loader_that_is_not_installed_is_named() -> None:
    program = f"""
import runpy, sys
sys.modules["kubernetes_asyncio"] = None
runpy.run_path({str(_LOADER)!r}, run_name="__main__")
"""
    asked: dict[str, Any] = {"kubeconfig": "/nowhere", "context": None, "service_account": None}
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=False,
    )
    assert json.loads(done.stdout)["missing"].startswith("kubernetes_asyncio"), done.stderr
