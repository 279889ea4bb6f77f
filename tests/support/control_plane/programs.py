"""The programs of a control plane: built from Go modules, and kept in a cache.

Rules:
  R1  versions are those of ``modules/*/go.mod`` and ``go.sum``, and of nothing else;
  R2  the folder of a program in the cache is named by a digest of everything that its build reads:
      module files, flags, version of Go. So another version never takes the place of this one;
  R3  a program appears in the cache complete or not at all: it is built beside and renamed;
  R4  of two processes that need the same program, one builds it and the other waits for it.

The first build takes some minutes; ``python -m support.control_plane`` in ``tests`` does it. ``go``
keeps its own cache of compiled packages, too.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from attrs import frozen

__all__ = ["PROGRAMS", "SOURCES", "NoToolchain", "cache_folder", "module_folder", "programs"]

MODULES: Final = Path(__file__).parent / "modules"
_KUBERNETES: Final = re.compile(
    r"^\s*(?:require )?k8s\.io/kubernetes v(\d+\.\d+\.\d+)", re.MULTILINE
)
_BUILD: Final = ".build-"
_VERSION_VARIABLES: Final = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


class NoToolchain(Exception):
    """The programs cannot be built on this machine; the text says why."""


@frozen
class _Program:
    module: str
    package: str


PROGRAMS: Final[Mapping[str, _Program]] = {
    "etcd": _Program("etcd", "go.etcd.io/etcd/server/v3"),
    "kube-apiserver": _Program("kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
    "kube-scheduler": _Program("kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
    "kube-controller-manager": _Program(
        "kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"
    ),
    "kubectl": _Program("kubernetes", "k8s.io/kubernetes/cmd/kubectl"),
    "kwok": _Program("kwok", "sigs.k8s.io/kwok/cmd/kwok"),
    "helm": _Program("helm", "helm.sh/helm/v3/cmd/helm"),
    "training-operator.v1": _Program(
        "training-operator", "github.com/kubeflow/training-operator/cmd/training-operator.v1"
    ),
}
"""By name, what can be built."""

SOURCES: Final[Mapping[str, str]] = {
    "kwok": "sigs.k8s.io/kwok",
    "training-operator": "github.com/kubeflow/training-operator",
}
"""By module folder, the Go modules whose other files are read too: stages, definitions."""


def cache_folder() -> Path:
    """Return where programs are kept: in ``$XDG_CACHE_HOME``, or in ``~/.cache``."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "gangsched" / "control-plane"


def programs(names: Iterable[str]) -> dict[str, Path]:
    """Return the paths of programs by name; build those that are not in the cache.

    Raises:
        NoToolchain: A program is missing from the cache, and Go is absent or cannot build it.
        KeyError: A name is not in ``PROGRAMS``.
    """
    by_module: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        by_module.setdefault(PROGRAMS[name].module, []).append(name)
    found: dict[str, Path] = {}
    for module, wanted in by_module.items():
        folder = cache_folder() / f"{module}-{_digest(module)}"
        missing = [name for name in wanted if not (folder / name).is_file()]
        if missing:
            with _locked(folder):
                _build(module, folder, [n for n in missing if not (folder / n).is_file()])
        found.update((name, folder / name) for name in wanted)
    return found


def module_folder(module: str) -> Path:
    """Return where the sources of a module of ``SOURCES`` are, of the version that is built.

    Raises:
        NoToolchain: Go is absent, or cannot download the module.
    """
    found = json.loads(_go("mod", "download", "-json", SOURCES[module], folder=MODULES / module))
    return Path(found["Dir"])


def _go(*arguments: str, folder: Path) -> str:
    go = shutil.which("go")
    if go is None:
        raise NoToolchain("go is not on the PATH; it builds the control plane")
    # the module files alone say what is built: flags of the user must not change that
    environment = {**os.environ, "GOFLAGS": "-mod=readonly", "GOWORK": "off"}
    ran = subprocess.run(
        [go, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if ran.returncode:
        problem = ran.stderr.strip()[-2000:]
        raise NoToolchain(f"go {arguments[0]} failed in {folder.name}: {problem}")
    return ran.stdout


def _link_flags(module: str) -> str:
    """Return flags for the linker: no symbols, and the version that the programs report.

    Without a version, kube-apiserver takes itself for 1.0 and enables its features by that.
    """
    flags = "-s -w"
    given = _KUBERNETES.search((MODULES / module / "go.mod").read_text(encoding="utf-8"))
    if given:
        version = given[1]
        major, minor, _patch = version.split(".")
        for variable in _VERSION_VARIABLES:
            flags += f" -X {variable}.gitVersion=v{version}"
            flags += f" -X {variable}.gitMajor={major} -X {variable}.gitMinor={minor}"
    return flags


def _digest(module: str) -> str:
    folder = MODULES / module
    parts = [(folder / name).read_bytes() for name in ("go.mod", "go.sum")]
    parts += [_link_flags(module).encode(), _go("env", "GOVERSION", folder=folder).encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # freed when the file is closed, also by a crash
        yield


def _build(module: str, folder: Path, names: list[str]) -> None:
    if not names:
        return
    packages = [PROGRAMS[name].package for name in names]
    for left in folder.glob(f"{_BUILD}*"):  # of a build that was killed
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_BUILD, dir=folder) as made:
        for name, package in zip(names, packages, strict=True):
            # one by one: the last part of a module path may be a version, not the program's name
            output = Path(made) / name
            flags = ("-trimpath", "-buildvcs=false", "-ldflags", _link_flags(module))
            _go("build", *flags, "-o", str(output), package, folder=MODULES / module)
            output.rename(folder / name)
