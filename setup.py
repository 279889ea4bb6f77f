"""The optional extension; all else about the package is in ``pyproject.toml``.

Rules:
  R1  where the extension cannot be built, the package is installed without it, in Python;
  R2  ``GANGSCHED_NO_EXTENSIONS=1`` builds without it: a wheel for every platform;
  R3  ``GANGSCHED_REQUIRE_EXTENSIONS=1`` makes a build fail that would be without it;
  R4  for other interpreters than CPython, and for those without a global lock, it is built only
      when it is required, as it is for wheels, which are tested before they are published.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from glob import glob

from setuptools import Extension, setup


def is_set(name: str) -> bool:
    """Say whether a switch in the environment is on."""
    return os.environ.get(name, "0") not in ("", "0")


unwanted, required = is_set("GANGSCHED_NO_EXTENSIONS"), is_set("GANGSCHED_REQUIRE_EXTENSIONS")
if unwanted and required:
    sys.exit("GANGSCHED_NO_EXTENSIONS and GANGSCHED_REQUIRE_EXTENSIONS cannot both be set")

is_usual = sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED")
heap = Extension(
    "gangsched._core._heap._c",
    ["src/gangsched/_core/_heap/_c.pyx"],
    depends=glob("src/gangsched/_core/_heap/*.pxi"),
    extra_compile_args=["-g0"] if os.name == "posix" else [],  # a tenth of the size
    optional=not required,
)

setup(ext_modules=[heap] if required or (is_usual and not unwanted) else [])
