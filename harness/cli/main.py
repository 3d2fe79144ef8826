"""The console command ``empathy-transfer``: parse, dispatch, and turn errors into one line and an exit code."""

from __future__ import annotations

import errno
import importlib.util
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TextIO, cast

LONGEST = 2000  # characters of a message; a longer one repeats what a file holds
OURS = ("tasks", "adapters_store", "analysis")
REFUSED = (  # what a place can be to blame for
    *(errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP),
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE, errno.EFBIG),
)


def main(arguments: list[str] | None = None) -> int:
    """Run one command; 0 done, 1 some cells failed, 2 bad input (one line on stderr), 130 interrupted."""
    if foreign := _foreign_package():
        return _refuse(foreign)
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that spin on a busy machine cost several times over
    from adapters_store import StoreError
    from harness.cli.parser import parser
    from harness.cli.terminal import Plain, listen
    from tasks.errors import BadInput, harmless

    options = parser().parse_args(arguments)
    listen()
    try:
        with redirect_stdout(cast("TextIO", Plain(sys.stdout))):
            code = int(options.command(options))
            sys.stdout.flush()
        return code
    except (BadInput, StoreError) as problem:
        return _refuse(harmless(" ".join(str(problem).split())))
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; finished cells are in the store, and the same command continues\n")
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except OSError as problem:
        if problem.errno not in REFUSED:
            raise
        place = problem.filename or "a file that is read or written"
        return _refuse(f"{place}: {os.strerror(problem.errno)}; mend it, or name another place")


def _refuse(message: str) -> int:
    if len(message) > LONGEST:
        message = f"{message[: LONGEST // 2]} ... {message[-LONGEST // 2 :]}"
    sys.stderr.write(f"empathy-transfer: {message}\n")
    return 2


def _foreign_package() -> str | None:
    """A line about a file of somebody else's that stands where one of our packages should, or None."""
    root = Path(__file__).resolve().parents[2]
    for name in OURS:
        spec = importlib.util.find_spec(name)
        origin = Path(spec.origin).resolve() if spec and spec.origin else None
        if origin is None or origin.parent != root / name:
            return (
                f"the package {name!r} of this program is hidden by {origin or 'nothing'}; it should be {root / name}. "
                "Rename that file or take its folder out of PYTHONPATH"
            )
    return None


if __name__ == "__main__":
    sys.exit(main())
