"""Decision logs: runs that are written down, and run again.

The results of a scheduler follow from its calls and from what the cluster showed at each call. A
decision log has both, with one JSON line for each call. So the calls can be made again elsewhere.
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
