"""A scheduler extender: gangs for a stock kube-scheduler, which is asked by HTTP.

``_messages``, ``_reasons``, ``_plans``, ``_node_pauses`` and ``_answers`` are the protocol, without
I/O. The other modules are the shell around it. ``run_extender`` needs the extra ``kubernetes``, and
is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gangsched.kubernetes._certificates import server_context
    from gangsched.kubernetes.extender._run import run_extender
    from gangsched.kubernetes.extender._term import Holding

__all__ = ["Holding", "run_extender", "server_context"]


def __getattr__(name: str) -> Any:
    """Load what talks to an API server when it is first used."""
    match name:
        case "run_extender":
            from gangsched.kubernetes.extender._run import run_extender

            return run_extender
        case "server_context":
            from gangsched.kubernetes._certificates import server_context

            return server_context
        case "Holding":
            from gangsched.kubernetes.extender._term import Holding

            return Holding
        case _:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
