"""A PostgreSQL server of its own on a free port, from the system's package (Debian: `postgresql`)."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.broker_process import free_address
from tests.setups import require_file
from tests.typed import present

USER = "postgres"
READY = "ready to accept connections"


def programs() -> Path:
    """Return the directory of the newest installed server's programs; skip the test without one."""
    found = [Path(name).parent for name in (shutil.which("initdb"),) if name]
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    require_file("postgresql", found[-1] / "postgres" if found else Path("/usr/lib/postgresql"))
    return found[-1]


@contextmanager
def server() -> Iterator[str]:
    """Run a server, not as root, which it refuses; yield the URL of its database, without `jdbc:`."""
    bin_, root = programs(), os.getuid() == 0
    within = ["runuser", "-u", USER, "--"] if root else []
    with tempfile.TemporaryDirectory(prefix="postgres-", ignore_cleanup_errors=True) as made:
        if root:
            account = pwd.getpwnam(USER)
            os.chown(made, account.pw_uid, account.pw_gid)
        data, port = f"{made}/data", free_address().rpartition(":")[2]
        initdb = [*within, str(bin_ / "initdb"), "-D", data, "-U", USER, "-A", "trust", "--no-sync"]
        subprocess.run(initdb, capture_output=True, check=True, cwd=made)
        command = [*within, str(bin_ / "postgres"), "-D", data, "-h", "127.0.0.1", "-p", port, "-k", made, "-F"]
        with subprocess.Popen(command, cwd=made, stderr=subprocess.PIPE, text=True) as running:
            try:
                log = present(running.stderr)
                if not any(READY in line for line in log):
                    pytest.fail("PostgreSQL did not start")
                yield f"postgresql://127.0.0.1:{port}/{USER}?user={USER}"
            finally:
                # `runuser` passes SIGTERM on; it would end a waiting server only when all clients have gone.
                subprocess.run([*within, str(bin_ / "pg_ctl"), "stop", "-D", data, "-m", "immediate"], check=False)
