"""What a process that runs for months does with memory that is free."""

from __future__ import annotations

import gc

from gangsched.cli._process_memory import freeze, give_back


class Cycle:
    def __init__(self) -> None:
        self.own = self


def test_what_was_frozen_is_collected_when_memory_is_given_back() -> None:
    frozen_before = gc.get_freeze_count()
    cycle = Cycle()
    freeze()
    try:
        assert gc.get_freeze_count() > frozen_before
        del cycle
        give_back()
        assert gc.get_freeze_count() == 0
        assert not any(isinstance(each, Cycle) for each in gc.get_objects())
    finally:
        gc.freeze()  # as the other tests found it
