"""A Slurm of three logical nodes on this machine, on loopback, in a folder of its own; needs root and the programs."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from harness.engines.status import is_alive

NODES = ("n1", "n2", "n3")
PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch")
PATIENCE_SECONDS = 600  # until what must happen is taken for never happening; a free machine needs a tenth of it

CONF = """
ClusterName=test
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={root}/run/munge.sock,cred_expire=5
SlurmctldPort={ports[0]}
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool/%n
SlurmctldPidFile={root}/run/slurmctld.pid
SlurmdPidFile={root}/run/slurmd.%n.pid
SlurmctldLogFile={root}/log/slurmctld.log
SlurmdLogFile={root}/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=30
SlurmctldTimeout=120
MessageTimeout=60
BatchStartTimeout=60
InactiveLimit=0
MinJobAge=600
KillWait=30
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
GresTypes=gpu
PartitionName=low Nodes=ALL Default=YES PriorityTier=1 PreemptMode=REQUEUE GraceTime=60 MaxTime=INFINITE State=UP
PartitionName=high Nodes=ALL PriorityTier=10 PreemptMode=OFF MaxTime=INFINITE State=UP
"""
NODE = (
    "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=4 Boards=1 SocketsPerBoard=1 "
    "CoresPerSocket=4 ThreadsPerCore=1 RealMemory=4000 Gres=gpu:2 State=UNKNOWN\n"
)


def is_possible() -> bool:
    """Whether this user of this machine can bring the cluster up."""
    return os.geteuid() == 0 and all(shutil.which(name) for name in PROGRAMS)


def until(what: str, is_true: Callable[[], object], every: float = 0.2) -> None:
    """Wait until something is true; the test fails if it never is."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not is_true():
        assert time.monotonic() < end, f"waited {PATIENCE_SECONDS} s in vain until {what}"
        time.sleep(every)


class Cluster:
    """Controller and nodes; ``env`` is what a command needs to speak with them, ``guests`` end when it goes down."""

    def __init__(self, root: Path, **settings: object) -> None:
        """Make its folder; ``settings`` come in place of those of ``CONF``."""
        self.root, host = root, socket.gethostname().split(".")[0]
        self.env = os.environ | {"SLURM_CONF": str(root / "slurm.conf")}
        self.guests: list[subprocess.Popen[bytes]] = []
        for name in ("state", "log", "run", *(f"spool/{node}" for node in NODES)):
            (root / name).mkdir(parents=True)
        ports = _free_ports(1 + len(NODES))
        nodes = [NODE.format(name=name, host=host, port=port) for name, port in zip(NODES, ports[1:], strict=True)]
        conf = CONF.format(root=root, host=host, ports=ports)
        kept = [line for line in conf.splitlines() if line.partition("=")[0] not in settings]
        changed = [f"{name}={value}" for name, value in settings.items()]
        (root / "slurm.conf").write_text("".join(nodes) + "\n".join([*kept, *changed, ""]))
        for name in ("gpu0", "gpu1"):  # nothing of Slurm's looks into a device
            (root / name).touch()
        (root / "gres.conf").write_text(f"NodeName=n[1-3] Name=gpu File={root}/gpu[0-1]\n")
        key = root / "run" / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)

    def up(self) -> None:
        run, files = self.root / "run", {"seed-file": "munge.seed", "pid-file": "munged.pid", "key-file": "munge.key"}
        told = [f"--{option}={run / name}" for option, name in files.items()]
        # --force: as root, below a folder that others may write to
        self.command("munged", "--force", f"--socket={run}/munge.sock", f"--log-file={self.root}/log/munged.log", *told)
        self.start_controller()
        for node in NODES:
            self.start_node(node)
        until("all nodes are idle", lambda: self.states() == ["idle"] * len(NODES))

    def start_controller(self) -> None:
        self.command("slurmctld", "-f", self.env["SLURM_CONF"])

    def kill_controller(self) -> None:
        """End the controller as a power cut would; its nodes and their jobs go on."""
        pid = int((self.root / "run" / "slurmctld.pid").read_text())
        self._kill(pid)
        until("the controller is gone", lambda: not is_alive(pid))

    def start_node(self, node: str) -> None:
        self.command("slurmd", "-f", self.env["SLURM_CONF"], "-N", node)

    def states(self) -> list[str]:
        return self.command("sinfo", "-h", "-N", "-p", "low", "-o", "%T").split()

    def command(self, *command: str) -> str:
        """What a command says; those that start daemons say nothing."""
        quiet = command[0] in PROGRAMS and command[0] != "sbatch"
        out = subprocess.DEVNULL if quiet else subprocess.PIPE  # a daemon would keep a pipe open
        return subprocess.run(command, env=self.env, check=True, text=True, stdout=out).stdout or ""

    def show(self, job: str, field: str) -> str:
        """A field of what scontrol shows of a job."""
        words = self.command("scontrol", "show", "job", "-o", job).split()
        return next(word.partition("=")[2] for word in words if word.startswith(f"{field}="))

    def kill_node(self, node: str) -> None:
        """End a node as a power cut would: its daemon, then all that runs on it."""
        self._kill(int((self.root / "run" / f"slurmd.{node}.pid").read_text()))
        mine = [pid for pid in _processes() if self._is_on(pid, node)]
        above = {parent for pid in mine if (parent := _parent(pid)) and _name(parent).startswith("slurmstepd")}
        for pid in (*above, *mine):
            self._kill(pid)

    def _is_on(self, pid: int, node: str) -> bool:
        try:
            told = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return False
        return f"SLURM_CONF={self.env['SLURM_CONF']}".encode() in told and f"SLURMD_NODENAME={node}".encode() in told

    def _kill(self, pid: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def down(self) -> None:
        for guest in self.guests:
            guest.kill()
        subprocess.run(["scancel", "-u", "root"], env=self.env, timeout=60)
        for node in NODES:
            with suppress(OSError, ValueError):
                self.kill_node(node)
        for name in ("slurmctld", "munged"):
            with suppress(OSError, ValueError):
                self._kill(int((self.root / "run" / f"{name}.pid").read_text()))


def _free_ports(count: int) -> list[int]:
    open_now = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in open_now]
    for one in open_now:
        one.close()
    return ports


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]


def _name(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text()
    return ""


def _parent(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0
