"""The tables of spellings in the documentation are those that the library reads."""

from __future__ import annotations

import re

import pytest

from gangsched.kubernetes._discovery import API_GROUPS
from gangsched.manifests.group_fields import DIALECTS
from gangsched.manifests.pod_fields import Treatment
from gangsched.membership import ADMISSION_SPELLINGS, ROLE_SPELLINGS, SPELLINGS
from support.page_tables import tables_of

pytestmark = pytest.mark.once("reads files")

PAGE = "reference/group-spellings.md"
TITLE = "# Labels and fields that name a group"


def test_table_of_groups_has_every_spelling_in_the_order_of_precedence() -> None:
    (table,) = tables_of(PAGE, TITLE)
    expected: list[list[str]] = []
    for number, spelling in enumerate((*SPELLINGS, *ADMISSION_SPELLINGS), 1):
        beside = spelling.minimum_source or spelling.source
        minimum = f"{beside.value} `{spelling.minimum}`"
        minimum = minimum if spelling.minimum else "in the `PodGroup`"
        expected.append([str(number), spelling.source.value, f"`{spelling.name}`", minimum])
    assert [[number, *rest] for number, _whose, *rest in table] == expected


def test_table_of_roles_has_every_spelling_in_the_order_of_precedence() -> None:
    (table,) = tables_of(PAGE, "## Roles")
    assert [[number, *rest] for number, _whose, *rest in table] == [
        [str(number), spelling.source.value, f"`{spelling.name}`"]
        for number, spelling in enumerate(ROLE_SPELLINGS, 1)
    ]


def test_table_of_pod_groups_has_every_field_of_every_dialect() -> None:
    (table,) = tables_of("reference/fields.md", "## PodGroups")
    shown = {row[0].strip("`"): (names(row[2]) | names(row[3]), names(row[4])) for row in table}
    assert shown == {
        group: (
            {name for name, how in fields.items() if how is Treatment.HONOURED},
            {name for name, how in fields.items() if how is Treatment.HELD},
        )
        for group, fields in DIALECTS.items()
    }
    assert {row[0].strip("`") for row in table[: len(API_GROUPS)]} == set(API_GROUPS)


def names(cell: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", cell))
