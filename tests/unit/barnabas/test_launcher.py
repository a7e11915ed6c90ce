"""The launcher, run by its path, as `barnabas serve` does."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas import _launcher
from tests.broker_process import COMMAND

HOSTILE = "raise SystemExit('a module of the user was imported')"


def launch(*arguments: str, launcher: Path, python_path: Path, safe: bool = False) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *(["-P"] if safe else []), str(launcher), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(python_path)}
    return subprocess.run(
        command, cwd=python_path, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A user's folder with modules that have the names of the server's packages."""
    for name in ("broker", "controller", "protocol", "storage"):
        (tmp_path / f"{name}.py").write_text(HOSTILE)
    return tmp_path


@pytest.mark.parametrize("safe", [False, True])
def test_modules_of_the_user_are_not_imported_by_the_broker(hostile: Path, safe: bool) -> None:
    done = launch("serve", "--help", launcher=Path(_launcher.__file__), python_path=hostile, safe=safe)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: barnabas serve ")


@pytest.mark.parametrize("word", ["complete", "log"])
def test_serve_runs_no_other_program(word: str) -> None:
    done = subprocess.run([*COMMAND, "serve", word, "x"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"unexpected arguments: {word} x\n" in done.stderr


def test_packages_beside_the_launcher_come_before_those_of_a_checkout(tmp_path: Path) -> None:
    server = tmp_path / "barnabas" / "_server" / "broker"
    server.mkdir(parents=True)
    (server / "__init__.py").touch()
    (server / "__main__.py").write_text("def main(): print('installed'); return 7")
    launcher = tmp_path / "barnabas" / "_launcher.py"
    launcher.write_bytes(Path(_launcher.__file__).read_bytes())
    done = launch("serve", launcher=launcher, python_path=tmp_path)
    assert (done.returncode, done.stdout) == (7, "installed\n")


@pytest.mark.parametrize("ignored", [False, True])
def test_an_interrupt_during_the_imports_ends_as_a_signal_unless_it_is_ignored(tmp_path: Path, ignored: bool) -> None:
    server = tmp_path / "barnabas" / "_server" / "broker"
    server.mkdir(parents=True)
    (server / "__init__.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGINT)")
    (server / "__main__.py").write_text("def main(): return 7")
    launcher = tmp_path / "barnabas" / "_launcher.py"
    launcher.write_bytes(Path(_launcher.__file__).read_bytes())
    command = [*(["sh", "-c", 'trap "" INT; exec "$@"', "sh"] if ignored else []), sys.executable, str(launcher)]
    done = subprocess.run([*command, "serve"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (7 if ignored else -signal.SIGINT, "")


def test_an_interrupt_between_the_programs_is_delivered_to_the_second(tmp_path: Path) -> None:
    """`barnabas serve` blocks the signal until the launcher runs."""
    line = "import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT]); "
    line += "os.kill(os.getpid(), signal.SIGINT); os.execv(sys.executable, sys.argv[1:])"
    command = [sys.executable, "-c", line, sys.executable, _launcher.__file__, "serve", "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")
