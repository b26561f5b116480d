"""Facts that a client host reports when it joins a run."""

import os
import resource

from loadstone import __version__
from loadstone.campaign.drivers import calibrated_drivers
from loadstone.execution.host import facts
from loadstone.execution.host.limits import read_limits
from loadstone.hosts.messages import Hello
from loadstone.results import calibration


def of_host() -> Hello:
    """Return the host's own facts, as records keep them, and what it can spare for a load."""
    fingerprint, versions = facts.fingerprint(), facts.versions()
    limits = read_limits()
    return Hello(
        loadstone=__version__,
        build=versions["load_generator"],
        python=versions["python"],
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=fingerprint.get("memory_bytes"),
        network=fingerprint.get("network") or {},
        descriptors=limits.descriptors,
        ports=limits.ports,
        rss_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        calibration=calibration.copy_for(
            fingerprint, versions["load_generator"], tuple(calibrated_drivers())
        ),
        fingerprint=fingerprint,
    )
