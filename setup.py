"""The optional extension, and the README of the package index; the rest is in ``pyproject.toml``.

Rules:
  R1  if the extension cannot be built, the package is installed without it, in Python;
  R2  ``GANGSCHED_NO_EXTENSIONS=1`` builds without it: a wheel for every platform;
  R3  with ``GANGSCHED_REQUIRE_EXTENSIONS=1`` a build fails if the extension cannot be built;
  R4  on interpreters other than CPython, and on those without a global lock, the extension is
      built only if it is required, as it is for wheels, which are tested before publication;
  R5  ``GANGSCHED_REPOSITORY`` is the address of the repository on its forge and
      ``GANGSCHED_REF`` a tag or branch there. With the first set, the README of the package has
      absolute links and pictures, and the package has project URLs. The package index cannot
      resolve the relative links that a checkout and the forge need;
  R6  with ``SOURCE_DATE_EPOCH`` the same source gives the same sdist, byte for byte. Wheels have
      that from setuptools, sdists have not.
"""

from __future__ import annotations

import gzip
import os
import re
import sys
import sysconfig
import tarfile
from glob import glob
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.sdist import sdist

LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")


def is_set(name: str) -> bool:
    """Return whether a switch in the environment is on."""
    return os.environ.get(name, "0") not in ("", "0")


def absolute(readme: str, repository: str, ref: str) -> str:
    """Return *readme* with its relative links and pictures made absolute."""

    def link(found: re.Match[str]) -> str:
        target = found["target"]
        if "://" in target or target.startswith("#"):
            return found[0]
        view = "raw" if found["image"] else "blob"
        return f"{found['image']}[{found['text']}]({repository}/{view}/{ref}/{target})"

    return LINK.sub(link, readme)


def project_urls(repository: str, ref: str) -> dict[str, str]:
    """Return the links that the package index shows beside the README."""
    return {
        "Source": repository,
        "Documentation": f"{repository}/blob/{ref}/docs/index.md",
        "Changelog": f"{repository}/blob/{ref}/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }


class ReproducibleSdist(sdist):
    """An sdist whose bytes depend on the source and on ``SOURCE_DATE_EPOCH`` alone."""

    def make_archive(
        self, base_name: Any, kind: str, root_dir: Any = None, base_dir: Any = None, **also: Any
    ) -> str:
        """Write the archive; with fixed times, owners and order if the epoch is set."""
        epoch = os.environ.get("SOURCE_DATE_EPOCH")
        if epoch is None or kind != "gztar":
            return super().make_archive(base_name, kind, root_dir, base_dir, **also)

        def fixed(member: tarfile.TarInfo) -> tarfile.TarInfo:
            member.mtime = int(epoch)
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            return member

        path = Path(f"{base_name}.tar.gz").resolve()
        top = Path(root_dir or ".")
        with (
            path.open("wb") as raw,
            gzip.GzipFile("", "wb", fileobj=raw, mtime=int(epoch)) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            # tarfile adds the content of a directory sorted by name
            archive.add(top / base_dir, arcname=str(base_dir), filter=fixed)
        return str(path)


unwanted, required = is_set("GANGSCHED_NO_EXTENSIONS"), is_set("GANGSCHED_REQUIRE_EXTENSIONS")
if unwanted and required:
    sys.exit("GANGSCHED_NO_EXTENSIONS and GANGSCHED_REQUIRE_EXTENSIONS cannot both be set")

is_usual = sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED")
heap = Extension(
    "gangsched.primitives.heap._c",
    ["src/gangsched/primitives/heap/_c.pyx"],
    depends=glob("src/gangsched/primitives/heap/*.pxi"),
    extra_compile_args=["-g0"] if os.name == "posix" else [],  # a tenth of the size
    optional=not required,
)

repository = os.environ.get("GANGSCHED_REPOSITORY", "").rstrip("/")
ref = os.environ.get("GANGSCHED_REF") or "main"
readme = Path(__file__).with_name("README.md").read_text(encoding="utf-8")

setup(
    cmdclass={"sdist": ReproducibleSdist},
    ext_modules=[heap] if required or (is_usual and not unwanted) else [],
    long_description=absolute(readme, repository, ref) if repository else readme,
    long_description_content_type="text/markdown",
    project_urls=project_urls(repository, ref) if repository else {},
)
