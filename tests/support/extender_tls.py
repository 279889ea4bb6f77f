"""The certificates of an extender and of its kube-scheduler, as files."""

from __future__ import annotations

import os
import socket
import ssl
from pathlib import Path
from typing import Final

import trustme
from attrs import define, field

__all__ = ["SERVICE", "TlsFiles"]

SERVICE: Final = "gangsched-extender.gangsched-system.svc"
"""What the certificate of the extender is for: the name of the chart's Service, not an address."""


@define(eq=False)
class TlsFiles:
    """The files of both sides; those of the extender are links, as of a mounted Secret.

    Attributes:
        folder: An empty folder for them.
        authority: Issues the certificate of the extender.
        of_clients: Issues the certificate of kube-scheduler.
        count: How many certificates the extender has had.
    """

    folder: Path
    authority: trustme.CA = field(factory=trustme.CA)
    of_clients: trustme.CA = field(factory=trustme.CA)
    count: int = 0

    def __attrs_post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        self.renew()
        self.authority.cert_pem.write_to_path(self.folder / "ca.crt")
        ours = self.of_clients.issue_cert("kube-scheduler")
        ours.cert_chain_pems[0].write_to_path(self.folder / "client.crt")
        ours.private_key_pem.write_to_path(self.folder / "client.key")

    def renew(self) -> None:
        """Give the extender a new certificate, in place of the one before at once."""
        self.count += 1
        data = self.folder / f"set-{self.count}"
        data.mkdir()
        issued = self.authority.issue_cert(SERVICE)
        issued.cert_chain_pems[0].write_to_path(data / "tls.crt")
        issued.private_key_pem.write_to_path(data / "tls.key")
        self.of_clients.cert_pem.write_to_path(data / "ca.crt")
        link = self.folder / "new"
        link.symlink_to(data)
        os.replace(link, self.folder / "data")

    def arguments(self) -> list[str]:
        """Return the options of the extender."""
        data = self.folder / "data"
        files = {"tls-cert": "tls.crt", "tls-key": "tls.key", "client-ca": "ca.crt"}
        return [f"--{option}={data / name}" for option, name in files.items()]

    def of_scheduler(self) -> dict[str, str]:
        """Return the ``tlsConfig`` of kube-scheduler, which reaches the Service by an address."""
        return {
            "serverName": SERVICE,
            "caFile": str(self.folder / "ca.crt"),
            "certFile": str(self.folder / "client.crt"),
            "keyFile": str(self.folder / "client.key"),
        }

    def served(self, url: str) -> str:
        """Return the serial number of the certificate that a new connection to *url* gets."""
        context = ssl.create_default_context(cafile=str(self.folder / "ca.crt"))
        context.load_cert_chain(self.folder / "client.crt", self.folder / "client.key")
        host, _, port = url.removeprefix("https://").partition(":")
        with (
            socket.create_connection((host, int(port))) as plain,
            context.wrap_socket(plain, server_hostname=SERVICE) as secure,
        ):
            found = (secure.getpeercert() or {})["serialNumber"]
        assert isinstance(found, str)
        return found
