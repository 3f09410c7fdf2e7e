"""The batch scripts in slurm/, submitted to a real SLURM of one node that lives as long
as these tests."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from glob import glob
from pathlib import Path

import pytest
from support.command_line import ONE, REPOSITORY, argv, environment, position, succeed
from support.launches import find_mpi, ours

from nn.backends import TRAITS
from nn.backends.cuda import device
from nn.data.records import network_bytes
from nn.layers import parse
from nn.study import sweep

pytestmark = pytest.mark.slow  # they mostly wait for SLURM
TESTS = Path(__file__).parents[1]
BATCH_SCRIPTS = sorted((REPOSITORY / "slurm").glob("*.sbatch"))
SCRIPTS = [*BATCH_SCRIPTS, *sorted(TESTS.glob("*.sh"))]
OVER = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_shellcheck_finds_nothing(script):
    if not shutil.which("shellcheck"):
        pytest.skip("shellcheck is not installed")
    result = subprocess.run(["shellcheck", script], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_bash_and_slurm_reads_every_directive(script):
    """SLURM looks for #SBATCH only above the first command."""
    subprocess.run(["bash", "-n", script], check=True)
    lines = script.read_text().splitlines()
    first_command = next(
        i for i, line in enumerate(lines) if line and not line.startswith("#")
    )
    assert any(line.startswith("#SBATCH") for line in lines[:first_command]) == (
        script in BATCH_SCRIPTS
    )
    for line in lines[first_command:]:
        assert not line.startswith("#SBATCH")


ARRAY = REPOSITORY / "slurm" / "array.sbatch"


def entries_of(plan: str) -> list:
    return sweep.read_plan(str(REPOSITORY / plan))


def test_the_array_asks_for_the_entries_and_the_memory_of_its_plan():
    script = ARRAY.read_text()
    default = entries_of(re.search(r"plan=\$\{1:-(\S+)\}", script)[1])
    last = int(re.search(r"^#SBATCH --array=0-(\d+)", script, re.M)[1])
    assert last == len(default) - 1
    named = re.search(r"the (\d+) entries of (\S+)", script)
    assert len(entries_of(named[2])) == int(named[1])
    gigabytes = int(re.search(r"^#SBATCH --mem=(\d+)G", script, re.M)[1])
    most = max(map(needed_bytes, default))
    assert most < gigabytes << 30 < 2 * most


def needed_bytes(entry) -> int:
    """Return the bytes of a training: parameters, gradients, two moments, a batch, and
    the largest layer's weights as they are drawn, in float64."""
    layers = parse(entry.settings["layers"])
    largest = max(layer.parameters for layer in layers)
    rows = entry.settings["batch_number"]
    trained = network_bytes(layers, "float32", 4, rows)
    return trained + 8 * largest + TRAITS["omp"].base_bytes


def test_the_page_names_the_range_of_the_plan_that_it_submits():
    text = (REPOSITORY / "slurm" / "README.md").read_text()
    found = re.findall(r"--array=0-(\d+)\S* slurm/array.sbatch (\S+\.json)", text)
    assert found
    for last, plan in found:
        assert int(last) == len(entries_of(plan)) - 1, plan


class Slurm:
    """The cluster's commands, run in the folder of a project."""

    def __init__(self, env: dict, project: Path):
        self.env = env
        self.project = project

    def run(self, *command) -> str:
        done = subprocess.run(
            command,
            env=self.env,
            cwd=self.project,
            text=True,
            capture_output=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def submit(self, *arguments) -> str:
        """sbatch; the job's number."""
        return self.run("sbatch", "--parsable", *map(str, arguments)).strip()

    def facts(self, job: str) -> dict[str, str]:
        """What SLURM says of a job, or of the element of an array."""
        lines = self.run("scontrol", "-o", "show", "job", job).splitlines()
        words = lines[0].split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def wait(self, job: str, until, seconds: float = 60) -> dict[str, str]:
        """The job's facts, once `until` holds for them."""
        end = time.monotonic() + seconds
        while not until(facts := self.facts(job)):
            assert time.monotonic() < end, (facts, self.output(job))
            time.sleep(0.1)
        return facts

    def result(self, job: str) -> tuple[str, int, int]:
        """(state, exit code, restarts) of a job that is over."""
        facts = self.wait(job, lambda facts: facts["JobState"] in OVER)
        return (
            facts["JobState"],
            int(facts["ExitCode"].split(":")[0]),
            int(facts["Restarts"]),
        )

    def output(self, job: str) -> str:
        return "".join(path.read_text() for path in self.project.glob(f"*-{job}.out"))


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    for program in ("slurmctld", "slurmd", "sbatch"):
        if not shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin"):
            pytest.skip(
                f"{program} is not installed (Debian: slurmctld slurmd slurm-client munge)"
            )
    if os.geteuid() != 0:
        pytest.skip("only root can start this SLURM")
    folder = tmp_path_factory.mktemp("slurm")
    script = str(TESTS / "slurm-test-cluster.sh")
    env = {
        k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "SBATCH_"))
    }
    env["PORT"] = str(free_port())
    try:
        subprocess.run([script, "up", folder], env=env, check=True, timeout=60)
        yield Slurm(
            {**env, "SLURM_CONF": str(folder / "etc/slurm.conf")},
            project(folder / "project"),
        )
    finally:
        subprocess.run([script, "down", folder], env=env, timeout=60)


def free_port() -> int:
    """A port that is free, as is the next one."""
    while True:
        with socket.socket() as socket1, socket.socket() as socket2:
            socket1.bind(("127.0.0.1", 0))
            port = socket1.getsockname()[1]
            try:
                socket2.bind(("127.0.0.1", port + 1))
            except (OSError, OverflowError):
                continue
            return port


def project(folder: Path) -> Path:
    """What a user has who cloned the project and installed it into .venv, of the
    package under test."""
    shutil.copytree(REPOSITORY / "slurm", folder / "slurm")
    (folder / "datasets").mkdir()
    shutil.copy(REPOSITORY / "datasets" / "CC.csv", folder / "datasets")
    programs = folder / ".venv" / "bin"
    programs.mkdir(parents=True)
    command = programs / "nn"
    command.write_text(
        f'#!/bin/sh\nPYTHONPATH={environment()["PYTHONPATH"]} exec {sys.executable} -m nn "$@"\n'
    )
    command.chmod(0o755)
    (programs / "activate").write_text(f"PATH={programs}:$PATH\n")
    plan = {
        "data": {"path": "datasets/CC.csv"},
        "layers": ["30,4,1", "30,8,4,1", "30,9"],
        "epochs": 1,
    }
    (folder / "plan.json").write_text(json.dumps(plan))
    return folder


@pytest.fixture(scope="module")
def jobs(slurm):
    """The numbers of all jobs, which run side by side; `requeued` is told that its time
    is nearly over."""
    script = "slurm/slurm.sbatch"
    long = ["--networks", 1, "--epochs", 10**6, "--quiet"]
    requeued = slurm.submit(
        "--job-name=requeued", script, "--networks", 1, "--epochs", 3000, "--quiet"
    )
    slurm.wait(requeued, lambda _: (slurm.project / f"requeued-{requeued}.ck").exists())
    slurm.run("scancel", "--batch", "--signal=USR1", requeued)
    return {
        "requeued": requeued,
        "limit": slurm.submit(
            "--time=1", "--signal=B:USR1@60", "--job-name=limit", script, *long
        ),
        "usual": slurm.submit(script),
        "gpu": slurm.submit("--gpus=1", script, "--epochs", 1),
        "failing": slurm.submit(script, "--dataset", "none.csv"),
        "array": slurm.submit("--array=0-2%2", "slurm/array.sbatch", "plan.json"),
    }


def test_the_script_as_it_stands_trains_and_tests(slurm, jobs, monkeypatch):
    job = jobs["usual"]
    assert slurm.result(job) == ("COMPLETED", 0, 0), slurm.output(job)
    output = (slurm.project / f"nn-{job}.out").read_text()
    assert "effort standard" in output
    assert "F1 " in output
    monkeypatch.chdir(slurm.project)
    succeed("--train", "--dataset", "datasets/CC.csv", "--model", "here.bin")
    content = (slurm.project / f"nn-{job}.bin").read_bytes()
    assert content == (slurm.project / "here.bin").read_bytes()


def test_a_job_that_was_interrupted_queues_itself_and_ends_in_the_same_bytes(
    slurm, jobs, monkeypatch
):
    job = jobs["requeued"]
    assert slurm.result(job) == ("COMPLETED", 0, 1), slurm.output(job)
    output = slurm.output(job)
    assert "nn: stopped by SIGUSR1: the state is saved in" in output
    assert f"queueing job {job} again, restart 1" in output
    assert output.count("held-out rows") == 1  # only what is finished is tested
    monkeypatch.chdir(slurm.project)
    succeed(
        *ONE, *argv("--dataset datasets/CC.csv --epochs 3000 --model peace.bin --quiet")
    )
    model = slurm.project / f"requeued-{job}.bin"
    expected = (slurm.project / "peace.bin").read_bytes()
    assert model.read_bytes() == expected


def test_a_job_with_a_gpu_runs_and_a_failure_ends_it_with_its_code_and_no_restart(
    slurm, jobs
):
    assert slurm.result(jobs["gpu"]) == ("COMPLETED", 0, 0), slurm.output(jobs["gpu"])
    output = slurm.output(jobs["gpu"])
    assert "GPUs 0\n" in output
    assert "GPUs none\n" in slurm.output(jobs["usual"])
    assert "F1 " in output
    assert slurm.result(jobs["failing"]) == ("FAILED", 66, 0)
    lines = slurm.output(jobs["failing"]).splitlines()
    assert lines[-1].startswith("nn: none.csv: no such file")


def test_an_array_measures_each_network_of_a_plan(slurm, jobs):
    job = jobs["array"]
    for index in range(3):
        assert slurm.result(f"{job}_{index}")[:2] == ("COMPLETED", 0), slurm.output(
            f"{job}_{index}"
        )
    path = str(slurm.project / f"nn-sweep-{job}")
    rows = sweep.collect(path)
    indexes = sorted(row["index"] for row in rows)
    assert indexes == [0, 1, 2]
    states = {row["layers"].split(":")[0]: row["status"] for row in rows}
    assert states["30,4"] == states["30,8"] == "ok"
    assert states["30,9"] != "ok"


def test_the_time_limit_saves_and_restarts_and_cancelling_saves_and_does_not(
    slurm, jobs
):
    """SLURM warns up to a minute early, so that this job of a minute is told within
    half of it."""
    job = jobs["limit"]
    saved = slurm.project / f"limit-{job}.ck"
    # more where other tests took their time
    slurm.wait(job, lambda facts: int(facts["Restarts"]) >= 1)
    assert "nn: stopped by SIGUSR1: the state is saved in" in slurm.output(job)
    first_epoch = position(saved)["epoch"]
    slurm.wait(
        job,
        lambda facts: (
            facts["JobState"] == "RUNNING" and position(saved)["epoch"] > first_epoch
        ),
    )
    slurm.run("scancel", job)
    state, _, restarts = slurm.result(job)
    assert state == "CANCELLED"
    assert restarts >= 1
    assert "nn: stopped by SIGTERM: the state is saved in" in slurm.output(job)
    assert not saved.with_suffix(".bin").exists()


@pytest.mark.parametrize(
    "flag, given",
    [
        ("--gpus", ["--gpus=2", "slurm/slurm.sbatch"]),
        ("--backend cuda", ["--mem=500M", "slurm/gpus.sbatch"]),
    ],
)
def test_two_gpus_of_a_job_are_asked_for(flag, given, slurm):
    """SLURM believes in four, but nn finds none; the GPU's own tests train on two
    (tests/gpu)."""
    if device.missing() is None:
        pytest.skip("this machine has a GPU, or looks as if it had")
    job = slurm.submit(*given)
    assert slurm.result(job) == ("FAILED", 2, 0), slurm.output(job)
    output = slurm.output(job)
    assert "GPUs 0,1\n" in output
    assert f"nn: {flag}: {device.missing('')[:20]}" in output
    assert not list(slurm.project.glob(f"*{job}.bin"))


PMIX = "/usr/lib/*/pmix2/lib/libpmix.so"  # what Debian's SLURM loads
SHARED = [*ONE, "--dataset", "datasets/CC.csv", "--distribute", "mirrored", "--quiet"]
# of the cluster's one node
TWO = ["--nodes=1", "--ntasks-per-node=2", "--cpus-per-task=1", "--mem=500M"]


@pytest.fixture(scope="module", params=["--mpi=pmi2", "--mpi=pmix"])
def pmi(request) -> tuple[str, dict]:
    """srun's flag of each interface to MPI, and the variables that choose an MPI which
    speaks it."""
    if request.param == "--mpi=pmix" and not glob(PMIX):
        pytest.skip(f"SLURM finds no PMIx, {PMIX} (Debian: libpmix-dev)")
    return request.param, find_mpi(
        "mpich" if request.param == "--mpi=pmi2" else "openmpi"
    ).variables


def srun(slurm, *arguments, **variables):
    """srun on two processors; how it ended, without what srun itself says of the job,
    and after how many seconds."""
    began = time.monotonic()
    # nothing leaves this machine
    loopback = {
        "UCX_TLS": "self,sysv,posix",
        "UCX_NET_DEVICES": "lo",
        "FI_PROVIDER": "tcp",
    }
    env = {
        **slurm.env,
        **loopback,
        **variables,
        "PATH": f"{slurm.project}/.venv/bin:{os.environ['PATH']}",
    }
    done = subprocess.run(
        ["srun", "--ntasks=2", "--mem=500M", *map(str, arguments)],
        env=env,
        cwd=slurm.project,
        text=True,
        capture_output=True,
        timeout=120,
    )
    lines = done.stderr.splitlines(True)
    done.stderr = "".join(line for line in lines if not line.startswith("srun: "))
    return done, time.monotonic() - began


def test_srun_starts_ranks_that_train_one_model(slurm, pmi):
    interface, variables = pmi
    done, _ = srun(
        slurm,
        interface,
        "nn",
        *SHARED,
        "--epochs",
        3,
        "--model",
        "srun.bin",
        "--json",
        **variables,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["ranks"] == 2
    alone = [
        *ONE,
        "--dataset",
        slurm.project / "datasets/CC.csv",
        *argv("--epochs 3 --json --quiet"),
    ]
    output = succeed(*alone, "--model", slurm.project / "one.bin")
    expected = output.json["loss"]
    assert result["loss"] == pytest.approx(expected, rel=1e-4)


def test_srun_without_distribute_or_mpi_is_refused_with_the_fix(slurm):
    done, _ = srun(
        slurm, "nn", "--train", "--dataset", "datasets/CC.csv", "--model", "plain.bin"
    )
    assert done.returncode == 2
    assert "nn: srun started 2 trainings" in done.stderr
    find_mpi("mpich")  # skips without it
    done, seconds = srun(slurm, "nn", *SHARED, "--model", "plain.bin")
    assert done.returncode == 2
    assert seconds < 30
    # rank 0 speaks first; a second later the other one, unless srun has ended it: it
    # cannot know whether there is a rank 0
    lines = ours(done.stderr)
    assert 1 <= len(lines) <= 2
    for rank, line in enumerate(lines):
        begin = f"nn: srun started this process as rank {rank} of 2, but mpi4py's "
        assert line.startswith(begin)
        assert "srun --mpi=pmi2" in line
    assert not (slurm.project / "plain.bin").exists()


def test_a_rank_of_srun_that_does_not_come_is_not_waited_for(slurm, mpich):
    command = " ".join(map(str, ["exec nn", *SHARED, "--model", "late.bin"]))
    late = f"[ $SLURM_PROCID = 0 ] || exec sleep 6; NN_RENDEZVOUS_SECONDS=2 {command}"
    done, seconds = srun(slurm, "--mpi=pmi2", "--kill-on-bad-exit=1", "sh", "-c", late)
    assert done.returncode != 0
    assert seconds < 30
    (line,) = ours(done.stderr)
    assert line.startswith(
        "nn: rank 0 of 2: MPI did not start within 2 s: a rank is missing"
    )


def test_ranks_that_fail_together_end_by_themselves_though_srun_sees_the_first_fail(
    slurm, pmi
):
    """Else the code 75, by which a job queues itself again, would be lost."""
    interface, variables = pmi
    program = "import sys, time; from nn import cluster; rank = cluster.join().rank\n"
    program += "code = cluster.end(75, 'stopped'); time.sleep(rank); sys.exit(code)"
    done, _ = srun(
        slurm,
        interface,
        "--kill-on-bad-exit=1",
        sys.executable,
        "-c",
        program,
        **variables,
    )
    assert ours(done.stderr) == ["nn: stopped"]
    assert done.returncode == 75


def test_a_rank_of_srun_that_is_killed_ends_the_other(slurm, pmi):
    interface, variables = pmi
    (slurm.project / "k.ck").unlink(missing_ok=True)
    command = " ".join(
        map(
            str,
            [
                "nn",
                *SHARED,
                "--epochs",
                10**6,
                *argv("--model k.bin --checkpoint k.ck"),
            ],
        )
    )
    killed = f"{command} & until [ -e k.ck ]; do sleep 0.1; done; kill -9 $!; wait $!"
    killed = f"[ $SLURM_PROCID = 1 ] || exec {command}; {killed}"
    done, seconds = srun(
        slurm, interface, "--kill-on-bad-exit=1", "bash", "-c", killed, **variables
    )
    assert done.returncode != 0
    assert seconds < 60
    assert position(slurm.project / "k.ck")["step"] > 0
    assert not (slurm.project / "k.bin").exists()


def test_nodes_that_are_interrupted_queue_themselves_and_end_in_the_same_bytes(
    slurm, mpich
):
    given = [*TWO, "slurm/nodes.sbatch", "--networks", 1, "--epochs", 2000]
    job = slurm.submit("--job-name=again", *given, "--quiet")
    peace = slurm.submit("--job-name=peace", *given)
    saved = slurm.project / f"again-{job}.ck"
    slurm.wait(job, lambda _: saved.exists())
    slurm.run("scancel", "--batch", "--signal=USR1", job)
    assert slurm.result(job) == ("COMPLETED", 0, 1), slurm.output(job)
    assert "nn: stopped by SIGUSR1: the state is saved in" in slurm.output(job)
    assert slurm.result(peace) == ("COMPLETED", 0, 0), slurm.output(peace)
    output = slurm.output(peace)
    assert ", 2 ranks, 1 thread," in output
    assert output.count("epoch 2000/2000") == 1
    assert "F1 " in output
    models = [
        slurm.project / name for name in (f"again-{job}.bin", f"peace-{peace}.bin")
    ]
    expected = models[1].read_bytes()
    assert models[0].read_bytes() == expected


def test_nodes_that_are_cancelled_save_and_do_not_start_again(slurm, mpich):
    given = ["--networks", 1, "--epochs", 10**6, "--quiet"]
    job = slurm.submit("--job-name=cancelled", *TWO, "slurm/nodes.sbatch", *given)
    saved = slurm.project / f"cancelled-{job}.ck"
    slurm.wait(job, lambda _: saved.exists())
    slurm.run("scancel", job)
    assert slurm.result(job)[::2] == ("CANCELLED", 0)
    assert position(saved)["step"] > 0
    assert not saved.with_suffix(".bin").exists()
