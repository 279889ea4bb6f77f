"""Ports of a node that a pod takes for itself."""

from __future__ import annotations

from typing import Any, ClassVar, Final, final

from attrs import field, frozen

from gangsched.errors import InvalidValueError
from gangsched.values.reprs import short_repr

__all__ = ["HostPort"]

_EVERY_ADDRESS: Final = "0.0.0.0"


def _address(given: str) -> str:
    # as in kube-scheduler: no address means every address
    return _EVERY_ADDRESS if isinstance(given, str) and not given else given


def _check_port(_owner: object, _attribute: object, value: Any) -> None:
    if type(value) is not int or not 1 <= value <= 65535:
        raise InvalidValueError("host_port", value, "an int from 1 to 65535")


def _check_protocol(owner: HostPort, _attribute: object, value: Any) -> None:
    if value not in owner.PROTOCOLS:
        raise InvalidValueError("protocol", value, "one of " + ", ".join(owner.PROTOCOLS))


def _check_address(_owner: object, _attribute: object, value: Any) -> None:
    if not isinstance(value, str):
        expected = "an IP address as a string, or an empty string for every address"
        raise InvalidValueError("host_ip", value, expected)


@final
@frozen
class HostPort:
    """A port of a node.

    Attributes:
        host_port: The number of the port, 1 to 65535.
        protocol: One of ``PROTOCOLS``.
        host_ip: The address of the node; ``0.0.0.0``, the default, for every address.
    """

    PROTOCOLS: ClassVar[tuple[str, ...]] = ("TCP", "UDP", "SCTP")

    host_port: int = field(validator=_check_port)
    protocol: str = field(default="TCP", validator=_check_protocol)
    host_ip: str = field(default=_EVERY_ADDRESS, converter=_address, validator=_check_address)

    def conflicts_with(self, other: HostPort) -> bool:
        """Return whether two pods with these ports cannot be on one node.

        Ports conflict if number and protocol are equal, and the addresses are equal or one of them
        stands for every address.
        """
        return (
            self.host_port == other.host_port
            and self.protocol == other.protocol
            and (self.host_ip == other.host_ip or _EVERY_ADDRESS in (self.host_ip, other.host_ip))
        )

    def __repr__(self) -> str:
        return short_repr(self)
