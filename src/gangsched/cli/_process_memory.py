"""The memory of a process that runs for months: what is collected, and what is given back.

glibc keeps memory that was freed: it raises the size from which an allocation has pages of its own
up to 32 MB, and one block that lives holds all pages below it. A flood of TLS connections, or a
term of a leader, would cost its peak for ever. With other allocators, nothing is done here.
"""

from __future__ import annotations

import ctypes
import gc
from typing import Any, Final

__all__ = ["freeze", "give_back", "keep_little_memory"]

_TRIM_THRESHOLD: Final = -1
"""``M_TRIM_THRESHOLD`` of ``mallopt``; setting it turns the rising sizes off."""
_KEPT: Final = 128 * 1024


def freeze() -> None:
    """Leave what lives as long as the cluster out of garbage collections.

    Pods and nodes are freed by their reference counts. A full collection would visit them all, for
    a third of a second at 50,000 pods, while a gang waits.
    """
    gc.collect()
    gc.freeze()


def give_back() -> None:
    """Free what was frozen and is not used any more, and give its memory back."""
    gc.unfreeze()
    gc.collect()
    trim = _of_libc("malloc_trim")
    if trim is not None:
        trim(0)


def keep_little_memory() -> None:
    """Let the allocator give back what is freed from now on."""
    set_option = _of_libc("mallopt")
    if set_option is not None:
        set_option(_TRIM_THRESHOLD, _KEPT)


def _of_libc(name: str) -> Any:
    """Return a function of the C library; None if it has no such function."""
    try:
        return getattr(ctypes.CDLL(None), name, None)
    except (OSError, TypeError):  # a static build, or Windows
        return None
