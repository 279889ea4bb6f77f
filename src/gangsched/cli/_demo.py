"""``gangsched demo``: one job of the library's examples, with and without gang scheduling."""

from __future__ import annotations

import argparse
from importlib import resources
from typing import Any

from gangsched.cli._command import INTERRUPTED
from gangsched.cli._options import default_settings
from gangsched.cli._simulate import print_as, run
from gangsched.cli._workload import Source
from gangsched.simulation import Workload
from gangsched.simulation.manifests import load_manifests

__all__ = ["add_demo", "example"]


def add_demo(commands: Any) -> None:
    """Add the command."""
    demo = commands.add_parser("demo", help="show one job with and without gang scheduling")
    demo.set_defaults(run=_demo)


def _demo(_options: argparse.Namespace) -> int:
    start = example()
    grown = start + _load("scale-up.yaml", at=60.0)
    settings = {"policy": "pod_by_pod", "seed": 0, "until": 60.0}
    print("A job of 1 server and 4 workers with 2 GPUs each, on 2 nodes with 2 GPUs each.\n")
    print("WITHOUT GANG SCHEDULING  gangsched simulate cluster.yaml tf-smoke-gpu.yaml", end="")
    print(" --policy pod_by_pod --until 60\n")
    if not _run(start, settings):
        return INTERRUPTED
    print("\nWITH IT  gangsched simulate cluster.yaml tf-smoke-gpu.yaml", end="")
    print(" --at 60 scale-up.yaml --until 120\n")
    settings = {**default_settings(), "seed": 0, "until": 120.0}
    return 0 if _run(grown, settings) else INTERRUPTED


def _run(workload: Workload, settings: dict[str, Any]) -> bool:
    """Run a workload and print its report; return whether the run came to its end."""
    result, is_whole = run(Source(workload), settings, name="demo", detail="all")
    print_as(result, "text")
    return is_whole


def example() -> Workload:
    """Return the job of the demonstration, and the nodes that exist from the start."""
    return _load("cluster.yaml") + _load("tf-smoke-gpu.yaml")


def _load(name: str, *, at: float = 0.0) -> Workload:
    examples = resources.files("gangsched.simulation") / "examples"
    return load_manifests((examples / name).read_text(encoding="utf-8"), file=name, at=at)
