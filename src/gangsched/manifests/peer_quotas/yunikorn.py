"""Quotas of YuniKorn: the queues of ``queues.yaml`` in its ConfigMap.

Rules:
  R1  a queue has the full name, from ``root`` on: ``root.team.a``, in lower case;
  R2  ``guaranteed`` is what a queue has, with those below it, and ``max`` its limit;
  R3  of the ConfigMaps ``yunikorn-defaults`` and ``yunikorn-configs``, the second counts;
  R4  a victim has the same priority or a lower one there, and so it is here.

Source: ``pkg/common/configs`` of YuniKorn core 1.8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from gangsched.manifests.fields import Field
from gangsched.manifests.peer_quotas._draft import Draft, Drafts
from gangsched.manifests.scalars import Value
from gangsched.options.quota import ReclaimFrom

__all__ = ["CONFIG_MAPS", "ReadText", "full_name", "read_yunikorn"]

ReadText: TypeAlias = Callable[[str, str], Value]

CONFIG_MAPS: Final = ("yunikorn-defaults", "yunikorn-configs")
"""The ConfigMaps that are read; the last one that there is counts."""
_ROOT: Final = "root"
_TEXT: Final = "queues.yaml"
_NAMES: Final = {"vcore": "cpu"}
"""What YuniKorn calls a resource otherwise."""
_FENCE: Final = "preemption.policy"


def full_name(name: str) -> str:
    """Return the full name of a queue that a pod names."""
    lower = name.lower()
    return lower if lower == _ROOT or lower.startswith(f"{_ROOT}.") else f"{_ROOT}.{lower}"


def read_yunikorn(objects: Iterable[Field], read_text: ReadText) -> Drafts:
    """Return the queues.

    Args:
        objects: The ConfigMaps.
        read_text: Returns the value of a YAML text; its second argument names the text for errors.

    Raises:
        ManifestError: A field is malformed.
    """
    drafts = Drafts()
    maps = {each["metadata"]["name"].text(): each for each in objects}
    stating = [maps[name] for name in CONFIG_MAPS if name in maps and _text(maps[name]).given]
    if stating:
        _read(stating[-1], drafts, read_text)
    drafts.give_part()
    drafts.subtract_children()
    return drafts


def _text(document: Field) -> Field:
    return document["data"][_TEXT]


def _read(document: Field, drafts: Drafts, read_text: ReadText) -> None:
    text = _text(document)
    value = read_text(text.text(), f"{text.source.file}: {text.path}")
    root = Field(text.source, text.path, value)
    drafts.put(Draft(_ROOT, document))
    for partition in root["partitions"].elements():
        name = partition["name"].text("default")
        if name != "default":
            drafts.note(document, f"the partition {name} is not read")
            continue
        drafts.note_rest(partition, document, "name", "queues")
        for queue in partition["queues"].elements():
            if queue["name"].name().lower() == _ROOT:
                _put_resources(drafts.by_name[_ROOT], queue, drafts)
                for each in queue["queues"].elements():
                    _add(each, _ROOT, document, drafts)
            else:
                _add(queue, _ROOT, document, drafts)


def _add(queue: Field, parent: str, document: Field, drafts: Drafts) -> None:
    name = f"{parent}.{queue['name'].name().lower()}"
    if name in drafts.by_name:
        raise queue["name"].refuse("a name that no other queue has")
    draft = Draft(name, document, parent=parent, reclaim_from=ReclaimFrom.LOWER_OR_EQUAL)
    drafts.put(draft)
    _put_resources(draft, queue, drafts)
    for each in queue["queues"].elements():
        _add(each, name, document, drafts)


def _put_resources(draft: Draft, queue: Field, drafts: Drafts) -> None:
    document, resources = draft.document, queue["resources"]
    if resources["guaranteed"].value:
        draft.nominal = _amounts(resources["guaranteed"])
    draft.hard = _amounts(resources["max"])
    for name, each in queue["properties"].entries():
        if name == _FENCE and each.text() == "disabled":
            draft.reclaim_from = ReclaimFrom.NEVER
            sentence = f"{name} of {draft.name}: its pods reclaim nothing, and are reclaimed from"
            drafts.note(document, sentence)
        elif (name, each.text()) != (_FENCE, "default"):
            drafts.note(document, f"{name} of {draft.name} has no meaning here")
    drafts.note_rest(
        queue,
        document,
        *("name", "parent", "queues", "resources", "properties", "submitacl", "adminacl"),
    )


def _amounts(field: Field) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for name, each in field.entries():
        resource = _NAMES.get(name, name)
        amounts[resource] = each.quantity(resource)
    return amounts
