"""Jobs of batch systems as text: they start an agent, and hold no key."""

from pathlib import Path

import pytest

from loadstone.campaign.schema.hosts import Hosts
from loadstone.errors import HostError, InputError
from loadstone.hosts.launchers.jobs import HTCondor, Slurm

pytest.importorskip("dask_jobqueue")
JOB = {"cores": 4, "memory": "2GiB"}


def hosts(launch: str, **values: object) -> Hosts:
    return Hosts.model_validate({"launch": launch, "count": 2, "listen": "10.0.0.1", **values})


def test_a_job_of_htcondor_starts_an_agent() -> None:
    launcher = HTCondor(hosts("htcondor", job={**JOB, "disk": "1GiB"}), {})
    text = launcher.job("job1", Path("/shared/0.invitation")).job_script()
    assert "loadstone agent --join /shared/0.invitation" in text
    assert "RequestCpus = MY.DaskWorkerCores" in text
    assert "MY.DaskWorkerCores = 4" in text
    assert text.rstrip().endswith("Queue")
    assert "dask_worker" not in text
    assert "distributed" not in text


def test_a_job_of_slurm_starts_an_agent_on_its_node() -> None:
    job = {**JOB, "walltime": "00:10:00", "queue": "load"}
    named = Hosts.model_validate(
        {"launch": "slurm", "names": ["n1"], "listen": "10.0.0.1", "job": job}
    )
    text = Slurm(named, {}).job("n1", Path("/a b/0.invitation")).job_script()
    assert "#SBATCH --nodelist=n1" in text
    assert "#SBATCH -p load" in text
    assert "#SBATCH -t 00:10:00" in text
    assert "loadstone agent --join '/a b/0.invitation'" in text
    assert "distributed" not in text


@pytest.mark.parametrize("name", ["colour", "worker_command", "scheduler"])
def test_a_setting_that_jobs_do_not_have_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=name):
        Slurm(hosts("slurm", job={**JOB, name: "x"}), {}).job("job1", Path("/x"))


def test_missing_keys_of_a_job_are_named() -> None:
    with pytest.raises(HostError, match=r"\bcores\b.*\bmemory\b"):
        Slurm(hosts("slurm"), {}).job("job1", Path("/x"))
