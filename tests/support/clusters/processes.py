"""What /proc tells of processes: who belongs to a session, and where they listen."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

LISTENING = "0A"


def session_of(leader: int) -> list[int]:
    """The processes of the session that a process has begun, also when it is gone itself."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):
                state, _, _, session, *_ = (folder / "stat").read_text().rpartition(")")[2].split()
                if session == str(leader) and state != "Z":
                    found.append(int(folder.name))
    return found


def listened_to(processes: Iterable[int]) -> set[str]:
    """The addresses of sockets where processes wait for connections, as the kernel writes them: hexadecimal."""
    sockets = set()
    for pid in processes:
        for path in Path(f"/proc/{pid}/fd").glob("*"):
            with suppress(OSError):
                sockets.add(str(path.readlink()))
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return {row[1].partition(":")[0] for row in rows if row[3] == LISTENING and f"socket:[{row[9]}]" in sockets}
