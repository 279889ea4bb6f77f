"""Views for plugins, built by hand with ``gangsched.testing``."""

from __future__ import annotations

from typing import Final

from gangsched.model import GroupKey
from gangsched.testing import FakeEntity, FakeGroup, FakeNode, cycle, node_view

__all__ = ["KEY", "FakeEntity", "FakeGroup", "FakeNode", "cycle", "node_view"]

KEY: Final = GroupKey("ns/g")
