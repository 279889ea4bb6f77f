"""Mutants: what one place of a source becomes."""

from __future__ import annotations

import ast

from support.mutants import mutants_of

SOURCE = '''
LIMIT: int = 3


class Queue:
    def first(self, gangs: list[int], least: int = 1) -> int | None:
        """Return the first."""
        if not gangs and least < 2:
            self.note(f"{least + 1}")
            return None
        assert least != 7, "checked"
        self.count += 1
        return gangs[0] + least

    def check(self) -> None:
        if self.count < 0:
            raise ValueError
'''


def test_each_place_in_a_function_that_decides_becomes_something_else() -> None:
    found = {f"{each.line} {each.before} -> {each.after}" for each in mutants_of("q.py", SOURCE)}
    assert found == {
        "8 not gangs and least < 2 -> (not gangs or least < 2)",
        "8 not gangs -> (gangs)",
        "8 least < 2 -> (least <= 2)",
        "8 2 -> 3",
        '9 self.note(f"{least + 1}") -> pass',
        "12 self.count += 1 -> self.count -= 1",
        "12 1 -> 2",
        "13 return gangs[0] + least -> return None",
        "13 gangs[0] + least -> (gangs[0] - least)",
        "13 0 -> 1",
    }


def test_a_mutant_is_the_source_with_one_place_changed() -> None:
    for each in mutants_of("q.py", SOURCE):
        changed = each.applied(SOURCE)
        ast.parse(changed)
        assert changed[: each.start] == SOURCE[: each.start]
        assert changed[each.start :] == each.after + SOURCE[each.end :]
        assert SOURCE[each.start : each.end] == each.before
