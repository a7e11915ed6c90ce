"""The completion scripts, in the installed shells."""

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
    shown = call("completion", shell)
    assert (shown.status, shown.err) == (0, "")
    require(shell)
    path = tmp_path / "script"
    path.write_text(shown.out)
    subprocess.run([shell, "-n", path], check=True)


@pytest.mark.parametrize(
    ("words", "line", "completed"),
    [
        ("barnabas topic de", "barnabas topic de", "describe delete"),
        # split as bash splits them
        ("barnabas group -b 127.0.0.1 : 1 describe --mem", "barnabas group -b 127.0.0.1:1 describe --mem", "--members"),
        ("barnabas topic list -b 127.0.0.1 : 1 --js", "barnabas topic list -b 127.0.0.1:1 --js", "--json"),
        ("barnabas produce t -b 127.0.0.1 : 1 -z z", "barnabas produce t -b 127.0.0.1:1 -z z", "zstd"),
    ],
)
def test_bash_completes_with_it(call: Command, tmp_path: Path, words: str, line: str, completed: str) -> None:
    require("bash")
    (tmp_path / "script").write_text(call("completion", "bash").out)
    lines = f"""
        source ./script
        COMP_WORDS=({words}) COMP_CWORD={len(words.split()) - 1} COMP_LINE='{line}' COMP_POINT={len(line)}
        _barnabas
        echo "${{COMPREPLY[@]}}"
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
    assert (done.stdout, done.stderr) == (f"{completed}\n", "")


def test_an_unknown_shell_is_a_wrong_call(call: Command) -> None:
    status, _, err = call("completion", "tcsh")
    assert status == 2
    assert err.endswith("'tcsh': write one of bash, zsh, fish\n")
