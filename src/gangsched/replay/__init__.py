"""Runs written down as decision logs, and run again.

A scheduler's answers follow from its calls and from what the cluster showed at each of them. A
decision log has both, one JSON line a call, so that whoever has it can make the calls again.
"""

from __future__ import annotations

from gangsched.replay.log import FORMAT, Call, Header, Log, read_log
from gangsched.replay.recipe import Recipe
from gangsched.replay.recording import DecisionLog, RecordedScheduler
from gangsched.replay.replaying import Divergence, Replay, replay

__all__ = [
    "FORMAT",
    "Call",
    "DecisionLog",
    "Divergence",
    "Header",
    "Log",
    "Recipe",
    "RecordedScheduler",
    "Replay",
    "read_log",
    "replay",
]
