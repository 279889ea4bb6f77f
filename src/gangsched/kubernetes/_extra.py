"""What the extra ``kubernetes`` installs, and the error if it is not installed.

Rules:
  R1  ``gangsched.kubernetes`` can be imported without the extra; what talks to an API server
      cannot, and says which extra is missing.
"""

from __future__ import annotations

__all__ = ["missing"]


def missing(error: ModuleNotFoundError, *, extra: str = "kubernetes") -> ModuleNotFoundError:
    """Return the error that names the extra, for the module that *error* names."""
    return ModuleNotFoundError(
        f"talking to an API server needs {error.name}: pip install 'gangsched[{extra}]'",
        name=error.name,
    )
