"""Schedulers as processes of their own, which are killed and started again.

Their leases are short, so that a test does not wait for 15 seconds after each kill.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from support.control_plane import Process
from support.control_plane.processes import free_ports
from support.fault_proxy import FaultProxy
from support.patience import saw, until

__all__ = ["Replicas"]

_PROGRAM: Final = Path(__file__).with_name("skewed_scheduler.py")
_WATCHED: Final = {"/api/v1/nodes", "/api/v1/pods"}


class Replicas:
    """The replicas of one scheduler.

    Args:
        folder: Where configurations and logs are written.
        kubeconfigs: How each replica reaches the API server. Two or more elect a leader.
        scheduler_name: The ``schedulerName`` of its pods; also the name of the Lease.

    Attributes:
        running: The processes.
    """

    def __init__(
        self, folder: Path, kubeconfigs: Sequence[Path], scheduler_name: str = "gangsched"
    ) -> None:
        self._folder: Final = folder
        self._kubeconfigs: Final = [*kubeconfigs]
        self._stem: Final = f"{kubeconfigs[0].stem}-{scheduler_name}"
        election = {
            "leaderElect": len(kubeconfigs) > 1,
            "leaseDuration": "5s",
            "renewDeadline": "4s",
            "retryPeriod": "300ms",
            "resourceName": scheduler_name,
        }
        configuration = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": election,
            "profiles": [{"schedulerName": scheduler_name}],
        }
        self._configuration: Final = folder / f"{self._stem}.json"
        self._configuration.write_text(json.dumps(configuration), encoding="utf-8")
        self.running: Final = [self._start(number) for number in range(len(kubeconfigs))]

    def wait_until_watching(self, proxy: FaultProxy) -> None:
        """Return once one of them watches; faults may keep it from that for some time."""

        def is_watching() -> bool:
            self.revive()
            saw(f"watched: {sorted(proxy.plan.watched)}")
            return proxy.plan.watched >= _WATCHED

        until(is_watching, lambda: self.running[0].log_tail())

    def kill(self, number: int) -> None:
        """Kill one, and start another in its place."""
        self.running[number].kill()
        self.running[number] = self._start(number)

    def stop(self) -> None:
        """Stop all."""
        for process in self.running:
            process.stop()

    def set_clock(self, number: int, error: float) -> None:
        """Let the wall clock of one be wrong by some seconds, from now on."""
        file = self._clock(number)
        file.with_suffix(".new").write_text(str(error), encoding="ascii")
        file.with_suffix(".new").replace(file)  # so that it is never seen empty

    def revive(self) -> None:
        """Start again what ended by itself, as a supervisor does."""
        for number, process in enumerate(self.running):
            if not process.is_running:
                self.running[number] = self._start(number)

    def _clock(self, number: int) -> Path:
        return self._folder / f"{self._stem}-{number}.clock"

    def _start(self, number: int) -> Process:
        (port,) = free_ports(1)
        if not self._clock(number).exists():
            self.set_clock(number, 0.0)
        command = [str(_PROGRAM), str(self._clock(number)), "run"]
        command += [f"--kubeconfig={self._kubeconfigs[number]}"]
        command += [f"--config={self._configuration}", f"--serve=127.0.0.1:{port}"]
        return Process(Path(sys.executable), command, self._folder / f"{self._stem}-{number}.log")
