"""The scripts, in the shells that are installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.commands.completion import SCRIPTS
from tests.setups import require
from tests.unit.barnabas.conftest import Command


@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_shell_accepts_its_script(call: Command, shell: str, tmp_path: Path) -> None:
    said = call("completion", shell)
    assert (said.status, said.err) == (0, "")
    require(shell)
    path = tmp_path / "script"
    path.write_text(said.out)
    subprocess.run([shell, "-n", path], check=True)


def test_bash_completes_with_it(call: Command, tmp_path: Path) -> None:
    require("bash")
    (tmp_path / "script").write_text(call("completion", "bash").out)
    lines = """
        source ./script
        COMP_WORDS=(barnabas topic de) COMP_CWORD=2 COMP_LINE='barnabas topic de' COMP_POINT=17
        _barnabas
        echo "${COMPREPLY[@]}"
    """
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", lines],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("describe delete\n", "")


def test_an_unknown_shell_is_a_wrong_call(call: Command) -> None:
    status, _, err = call("completion", "tcsh")
    assert status == 2
    assert "invalid choice: 'tcsh'" in err
