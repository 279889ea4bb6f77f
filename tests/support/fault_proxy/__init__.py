"""A proxy in front of an API server that injects faults, by a seed or on order.

``faults`` says what goes wrong and when, ``http1`` reads and writes messages, and ``proxy`` is the
server in between.
"""

from __future__ import annotations

from support.fault_proxy.faults import Fault, Order, Rates, Request
from support.fault_proxy.proxy import FaultProxy

__all__ = ["Fault", "FaultProxy", "Order", "Rates", "Request"]
