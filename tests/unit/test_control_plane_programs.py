"""Programs of the test control plane: what is built, under which name it is kept, and when."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("fcntl", reason="the control plane needs a POSIX system")

from support.control_plane import NoToolchain, programs
from support.control_plane.programs import MODULES, PROGRAMS, cache_folder


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def toolchain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for go, which notes its arguments and writes what it should build."""
    folder = tmp_path / "bin"
    folder.mkdir()
    calls = tmp_path / "calls"
    go = folder / "go"
    go.write_text(
        "#!/bin/sh\n"
        f'echo "$@" >> {calls}\n'
        '[ "$1" = env ] && echo go1.26 && exit 0\n'
        'while [ "$1" != -o ]; do shift; done\n'
        '[ -n "$FAILS" ] && echo "no such module" >&2 && exit 1\n'
        'echo built > "$2"\n',
        encoding="utf-8",
    )
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return calls


def builds(calls: Path) -> list[str]:
    """Return the packages that were built."""
    lines = calls.read_text(encoding="utf-8").splitlines()
    return [line.split()[-1] for line in lines if line.startswith("build")]


def test_program_is_built_once_and_then_found(toolchain: Path, cache: Path) -> None:
    found = programs(["etcd"])
    assert programs(["etcd"]) == found
    assert found["etcd"].read_text(encoding="utf-8") == "built\n"
    assert found["etcd"].is_relative_to(cache_folder())
    assert cache_folder().is_relative_to(cache)
    assert builds(toolchain) == ["go.etcd.io/etcd/server/v3"]


def test_only_missing_programs_of_a_module_are_built(toolchain: Path) -> None:
    programs(["kube-scheduler"])
    programs(["kube-apiserver", "kube-scheduler"])
    assert builds(toolchain) == [
        "k8s.io/kubernetes/cmd/kube-scheduler",
        "k8s.io/kubernetes/cmd/kube-apiserver",
    ]


def test_programs_of_kubernetes_are_linked_with_their_version(toolchain: Path) -> None:
    programs(["kube-apiserver"])
    built = toolchain.read_text(encoding="utf-8")
    assert "-X k8s.io/component-base/version.gitVersion=v1.37.2" in built
    assert "-X k8s.io/component-base/version.gitMinor=37" in built


def test_failed_build_leaves_nothing_in_the_cache(
    toolchain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAILS", "1")
    with pytest.raises(NoToolchain, match="no such module"):
        programs(["etcd"])
    assert not [path for path in cache_folder().rglob("etcd") if path.is_file()]
    assert not list(cache_folder().rglob(".build-*"))


def test_missing_toolchain_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(NoToolchain, match="go is not on the PATH"):
        programs(["etcd"])


def test_module_files_name_no_host_and_no_machine() -> None:
    for program in PROGRAMS.values():
        text = (MODULES / program.module / "go.mod").read_text(encoding="utf-8")
        assert "://" not in text
        # a replacement is by another module, and never by a folder
        replaced = [line.partition("=>")[2].strip() for line in text.splitlines() if "=>" in line]
        assert all(not name.startswith((".", "/")) for name in replaced)
        assert (MODULES / program.module / "go.sum").is_file()
