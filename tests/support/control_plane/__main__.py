"""Build every program of the control plane that the cache lacks, one after the other.

``python -m support.control_plane`` in ``tests``. The script of the gate does so before the first
test, so that no test waits for a build, and no two builds share the processors.
"""

from __future__ import annotations

import sys
import time

from support.control_plane.programs import PROGRAMS, SOURCES, NoToolchain, module_folder, programs
from support.runs import begin_run


def main() -> int:
    """Build the programs; return the exit code."""
    begin_run()
    try:
        for name in PROGRAMS:
            began = time.monotonic()
            (path,) = programs([name]).values()
            print(f"{name}: {time.monotonic() - began:.0f} s, {path}", flush=True)
        for module in SOURCES:
            print(f"sources of {module}: {module_folder(module)}", flush=True)
    except NoToolchain as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
