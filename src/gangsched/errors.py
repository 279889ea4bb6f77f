"""The exception tree.

Rules:
  R1  every exception of this package is a ``GangschedError``, and also the builtin that code
      without knowledge of this package would catch. A view that a plugin misuses raises a plain
      ``LookupError``, and a mapping or a heap the ``KeyError`` or ``IndexError`` of its kind;
  R2  each exception carries fields; the message is made from the fields, never parsed;
  R3  an unschedulable pod is an outcome, never an exception;
  R4  a message says what was wrong, the value, and what is expected:
      ``priority must be an int, got 'high'``. A long value is cut;
  R5  this module imports nothing from this package.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = [
    "ClusterStateError",
    "DecisionLogError",
    "GangRejectedError",
    "GangschedError",
    "HostClosedError",
    "InternalError",
    "InvalidPodGroupError",
    "InvalidValueError",
    "ManifestError",
    "PluginError",
    "ProfileError",
    "ReentrantCallError",
    "TraceError",
    "UnknownPodError",
]

_LONGEST_VALUE: Final = 512
"""The most characters of a value that a message has."""


class GangschedError(Exception):
    """The base of every exception that gangsched raises on purpose."""


class InvalidValueError(GangschedError, ValueError):
    """An argument or a field has a value that is not allowed.

    Attributes:
        field: The name of the argument or field; a path if it is nested, such as
            ``roles.worker`` or ``tolerations[0]``.
        value: The value, as given.
        expected: What is allowed, as a phrase that follows "must be".
    """

    def __init__(self, field: str, value: object, expected: str) -> None:
        super().__init__(field, value, expected)
        self.field = field
        self.value = value
        self.expected = expected

    def __str__(self) -> str:
        return f"{self.field} must be {self.expected}, got {_shown(self.value)}"


def _shown(value: object) -> str:
    """Return a value as a message has it: an annotation may have a quarter of a megabyte."""
    text = repr(value)
    if len(text) <= _LONGEST_VALUE:
        return text
    return f"{text[:_LONGEST_VALUE]}... ({len(text):,} characters)"


class InvalidPodGroupError(InvalidValueError):
    """A pod group, or the group labels of a pod, are malformed or contradict the group.

    Attributes:
        subject: The group (``namespace/name``) or the pod.
    """

    def __init__(self, subject: str, field: str, value: object, expected: str) -> None:
        super().__init__(field, value, expected)
        self.args: tuple[Any, ...] = (subject, field, value, expected)
        self.subject = subject

    def __str__(self) -> str:
        return f"{self.subject}: {super().__str__()}"


class UnknownPodError(GangschedError, LookupError):
    """A pod or pod group is not known to the scheduler.

    Attributes:
        subject: The UID or the group key that was looked up.
    """

    def __init__(self, subject: str) -> None:
        super().__init__(subject)
        self.subject = subject

    def __str__(self) -> str:
        return f"no pod or pod group {self.subject!r} is known"


class ProfileError(GangschedError, ValueError):
    """A profile is inconsistent, or does not support the call that was made.

    Attributes:
        point: The extension point that is misconfigured, or the call, such as ``what_if``.
        problem: What is wrong, with the names of the plugins.
    """

    def __init__(self, point: str, problem: str) -> None:
        super().__init__(point, problem)
        self.point = point
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.point}: {self.problem}"


class ClusterStateError(GangschedError):
    """The cluster state contradicts itself or an event.

    Attributes:
        subject: The pod, node or group.
        problem: What is wrong.
    """

    def __init__(self, subject: str, problem: str) -> None:
        super().__init__(subject, problem)
        self.subject = subject
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.subject}: {self.problem}"


class PluginError(GangschedError):
    """A plugin raised, or returned a value that its extension point does not allow.

    Attributes:
        plugin: The plugin's name.
        point: The extension point that was called.
        subject: The pod that it was called for.
        problem: What happened. The exception of the plugin is chained as the cause.
    """

    def __init__(self, plugin: str, point: str, subject: str, problem: str) -> None:
        super().__init__(plugin, point, subject, problem)
        self.plugin = plugin
        self.point = point
        self.subject = subject
        self.problem = problem

    def __str__(self) -> str:
        return f"plugin {self.plugin!r} at {self.point} for {self.subject}: {self.problem}"


class InternalError(GangschedError):
    """An invariant of this package is broken. Please report it.

    Attributes:
        invariant: The broken invariant.
    """

    def __init__(self, invariant: str) -> None:
        super().__init__(invariant)
        self.invariant = invariant

    def __str__(self) -> str:
        return f"broken invariant, please report: {self.invariant}"


class ReentrantCallError(GangschedError, RuntimeError):
    """A scheduler was called from inside one of its own calls; nothing has changed.

    Attributes:
        inner: The call that was refused.
        outer: The call that was under way.
    """

    def __init__(self, inner: str, outer: str) -> None:
        super().__init__(inner, outer)
        self.inner = inner
        self.outer = outer

    def __str__(self) -> str:
        return f"{self.inner} was called from inside {self.outer} of the same scheduler"


class GangRejectedError(GangschedError):
    """A gang was rejected while its start was awaited: what waits must not start.

    ``PermitGate`` raises it where a member waits, which must give its place back. ``Job.wait`` of
    the host raises it for a job that was withdrawn before it started. A return value could be
    ignored, and the member would start without its gang.

    Attributes:
        uid: The member, or the key of the job.
        reason: Why the gang was rejected.
    """

    def __init__(self, uid: str, reason: str) -> None:
        super().__init__(uid, reason)
        self.uid = uid
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.uid} must not start: {self.reason}"


class HostClosedError(GangschedError, RuntimeError):
    """A method of a host was called that has not been started, or has ended.

    An error that ended the host, such as a ``PluginError``, is chained as the cause.

    Attributes:
        call: The method.
        reason: Why the host does nothing.
    """

    def __init__(self, call: str, reason: str) -> None:
        super().__init__(call, reason)
        self.call = call
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.call} was refused: {self.reason}"


class ManifestError(GangschedError, ValueError):
    """A manifest document is malformed.

    Attributes:
        file: The file, as the caller named it.
        document: The number of the document in the file, from 1.
        field: The dotted path of the field; empty for the document as a whole.
        problem: What is wrong, with the value.
    """

    def __init__(self, file: str, document: int, field: str, problem: str) -> None:
        super().__init__(file, document, field, problem)
        self.file = file
        self.document = document
        self.field = field
        self.problem = problem

    def __str__(self) -> str:
        where = f"{self.file}: document {self.document}"
        return (
            f"{where}: {self.field}: {self.problem}" if self.field else f"{where}: {self.problem}"
        )


class TraceError(GangschedError, ValueError):
    """A line of a workload trace is malformed.

    Attributes:
        file: The file, as the caller named it.
        line: The number of the line in the file, from 1; the header is line 1.
        column: The name of the column; empty for the line as a whole.
        problem: What is wrong, with the value.
        others: The further faults of the file that are known, in the order of their lines.
        more: How many faults there are beyond those.
    """

    def __init__(
        self,
        file: str,
        line: int,
        column: str,
        problem: str,
        others: tuple[TraceError, ...] = (),
        more: int = 0,
    ) -> None:
        super().__init__(file, line, column, problem, others, more)
        self.file = file
        self.line = line
        self.column = column
        self.problem = problem
        self.others = others
        self.more = more

    def sentences(self) -> tuple[str, ...]:
        """Return one sentence for each fault, and one about those that are not shown."""
        column = f"{self.column}: " if self.column else ""
        own = f"{self.file}: line {self.line}: {column}{self.problem}"
        more = (f"{self.file}: and {self.more} more faults",) if self.more else ()
        return (own, *(line for other in self.others for line in other.sentences()), *more)

    def __str__(self) -> str:
        return "\n".join(self.sentences())


class DecisionLogError(GangschedError, ValueError):
    """A line of a decision log is malformed.

    Attributes:
        file: The file, as the caller named it.
        line: The number of the line in the file, from 1; the header is line 1.
        field: The dotted path of the field; empty for the line as a whole.
        problem: What is wrong; with the value, if one value is.
    """

    def __init__(self, file: str, line: int, field: str, problem: str) -> None:
        super().__init__(file, line, field, problem)
        self.file = file
        self.line = line
        self.field = field
        self.problem = problem

    def __str__(self) -> str:
        where = f"{self.file}: line {self.line}"
        return (
            f"{where}: {self.field}: {self.problem}" if self.field else f"{where}: {self.problem}"
        )
