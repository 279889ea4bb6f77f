"""Submit a job, wait until it has started, withdraw it: a host without an API server.

::

    with Host(start=run_on) as host:
        host.tell(*(NodeAdded(node) for node in nodes))
        job = host.submit(gang("train", workers=4, gpu=2))
        places = job.wait(timeout=60)       # {"train-0": "node-3", ...}
        ...
        host.finish(job)

A host stands on a driver, and the driver on the four calls of ``Scheduler``. Whatever the host does
not offer is done with its ``driver``.

``with`` is ``start`` and ``stop``, which may be called by themselves.

Rules:
  R1  ``start`` is called for each pod once the scheduler has decided about all that must start
      with it; a job has started when ``start`` has returned for its quorum;
  R2  ``finish`` and ``cancel`` both free what a job holds; ``cancel`` also ends the waits for it.
      ``state`` tells a finished job from a cancelled one;
  R3  a pod that a policy evicts is ended by ``evict``, and then queued again;
  R4  a job that can never start is no error: ask ``why``;
  R5  an error that ends the scheduler, such as one of a plugin, ends every wait. From then on each
      method but ``stop`` raises ``HostClosedError`` with that error as its cause.
"""

from __future__ import annotations

from gangsched.drivers._aio_host import AsyncHost, AsyncJob
from gangsched.drivers._blocking_host import Host, Job
from gangsched.drivers._submitted import JobState

__all__ = ["AsyncHost", "AsyncJob", "Host", "Job", "JobState"]
