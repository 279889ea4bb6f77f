"""How many members fit at most is looked for only for one minimum, and only for its reason."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from gangsched.framework.placement import sibling_search


@pytest.mark.parametrize(("asks", "explains"), [(2, True), (1, False), (2, False)])
def test_no_number_is_looked_for_without_need(asks: int, explains: bool) -> None:
    proof: Any = object()
    task = SimpleNamespace(asks=range(asks), explains=explains)
    run = cast("Any", SimpleNamespace(task=task))
    assert sibling_search._refined(run, proof, 1000) is proof
