"""A real Kubernetes control plane on loopback, built from Go modules, for tests and benchmarks.

``programs`` builds the programs once and keeps them in a cache, ``processes`` starts and stops one
program, ``cluster`` puts them together, ``client`` talks to the API server, ``accounts`` makes
users with limited rights, and ``fixtures`` has what tests ask for.
"""

from __future__ import annotations

from support.control_plane.accounts import Account, Rule
from support.control_plane.client import ApiError, Client
from support.control_plane.cluster import ControlPlane
from support.control_plane.processes import Process, ProgramFailed
from support.control_plane.programs import PROGRAMS, NoToolchain, programs

__all__ = [
    "PROGRAMS",
    "Account",
    "ApiError",
    "Client",
    "ControlPlane",
    "NoToolchain",
    "Process",
    "ProgramFailed",
    "Rule",
    "programs",
]
