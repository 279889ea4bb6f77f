"""The control plane that these tests run on."""

from __future__ import annotations

from support.control_plane.fixtures import control_plane, namespace

__all__ = ["control_plane", "namespace"]
