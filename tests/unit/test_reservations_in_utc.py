"""A reservation on a real cluster names its start as a date."""

from __future__ import annotations

from gangsched import NodeName, Reservation
from support.backfill_host import BIG

NODES = (NodeName("a"), NodeName("b"))


def test_start_of_a_reservation_is_a_date_in_utc() -> None:
    made = Reservation(BIG, 1795370000.0, 1795370060.25, NODES)
    expected = "2 nodes are reserved for pod group default/big, starts by 2026-11-22T17:54:20.25Z"
    assert made.in_utc() == expected


def test_reservation_of_drained_nodes_has_no_start_in_utc() -> None:
    made = Reservation(BIG, 1795370000.0, None, NODES[:1])
    assert made.in_utc() == str(made) == "1 node is drained for pod group default/big"
