"""What plugins declare about their methods: which declarations count, and which are malformed.

A declaration counts only for the method that it was written for: if a subclass overrides that
method alone, the subclass has declared nothing.
"""

from __future__ import annotations

from typing import Any

from gangsched.errors import ProfileError

__all__ = ["is_about", "signs_node_alone"]


def signs_node_alone(plugin: Any) -> bool:
    """Return whether pods do not change what a plugin signs of a node.

    Raises:
        ProfileError: The plugin declares something else than a bool.
    """
    given: object = getattr(plugin, "signs_node_alone", False)
    if type(given) is not bool:
        problem = f"{plugin.name!r} has {given!r}, expected True or False"
        raise ProfileError("signs_node_alone", problem)
    return given and is_about(plugin, "signs_node_alone", "node_signature")


def is_about(plugin: object, declaration: str, method: str) -> bool:
    """Return whether no subclass overrides a method without a declaration of its own."""
    for each in type(plugin).__mro__:
        if declaration in vars(each):
            return True
        if method in vars(each):
            return False
    return True  # both are attributes of the plugin itself
