"""Runs transcripts of the pure state machines: `*.txt` files beside the test that uses the `script` fixture.

A transcript is a list of steps, each a command, optional input lines, a rule of dashes and the expected output:

    # A comment is for the reader.
    join group=g member=? session=10s
    ----
    ok: member m1, generation 1

The expected output ends at the first empty line (or the end of the file). A command's arguments are `key=value`, a
bare `flag` (value "true"), or `key=(a, b)` for lists. The test gives `script.run` a function from `Step` to text:

    def test_groups(script):
    machine = Machine()
    script.run(lambda step: getattr(machine, step.command)(step))

`REWRITE=1 pytest tests/scripts` writes the actual output into the transcripts; review the diff.
The format is that of etcd/raft's tests.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

_ARGUMENT = re.compile(r"([\w.-]+)(?:=(\([^)]*\)|\S+))?")


@dataclass
class Step:
    """One command of a transcript."""

    line: int
    command: str
    arguments: dict[str, str]
    input: list[str]
    expected: str
    text: list[str] = field(repr=False)

    def get(self, name: str, default: str = "") -> str:
        return self.arguments.get(name, default)

    def required(self, name: str) -> str:
        if name not in self.arguments:
            raise AssertionError(f"line {self.line}: {self.command} needs {name}=")
        return self.arguments[name]

    def int(self, name: str, default: int | None = None) -> int:
        return int(self.required(name)) if default is None else int(self.arguments.get(name, default))

    def flag(self, name: str) -> bool:
        return self.arguments.get(name) == "true"

    def list(self, name: str) -> list[str]:
        return [item.strip() for item in self.get(name).strip("()").split(",") if item.strip()]


def parse(text: str) -> list[Step | str]:
    """Split a transcript into steps and, kept for rewriting, the comments and empty lines between them."""
    parts: list[Step | str] = []
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        line = lines[at]
        if not line.strip() or line.startswith("#"):
            parts.append(line)
            at += 1
            continue
        start = at
        while at < len(lines) and lines[at] != "----":
            if not lines[at].strip():
                raise AssertionError(f"line {at + 1}: a command without its ----")
            at += 1
        if at == len(lines):
            raise AssertionError(f"line {start + 1}: a command without its ----")
        head = lines[start:at]
        at += 1
        output = at
        while at < len(lines) and lines[at].strip():
            at += 1
        command, _, rest = head[0].partition(" ")
        arguments = {name: value or "true" for name, value in _ARGUMENT.findall(rest)}
        parts.append(Step(start + 1, command, arguments, head[1:], "\n".join(lines[output:at]), head))
    return parts


class Script:
    """A transcript file that can be run."""

    def __init__(self, path: str) -> None:
        self.path = path

    def run(self, handle: Callable[[Step], str]) -> None:
        """Run every step through `handle` and compare its output with the transcript."""
        with open(self.path, encoding="utf-8") as file:
            parts = parse(file.read())
        rewrite = os.environ.get("REWRITE") == "1"
        out: list[str] = []
        steps = 0
        for part in parts:
            if isinstance(part, str):
                out.append(part)
                continue
            steps += 1
            actual = handle(part).strip("\n")
            if "\n\n" in actual:
                raise AssertionError(f"{self.path}:{part.line}: {part.command} printed an empty line")
            if not rewrite:
                assert actual == part.expected, f"{self.path}:{part.line}: {part.text[0]}"
            out += [*part.text, "----", *actual.splitlines()]
        assert steps, f"{self.path} has no steps"
        if rewrite:
            with open(self.path, "w", encoding="utf-8") as file:
                file.write("\n".join(out) + "\n")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "script" in metafunc.fixturenames:
        folder = metafunc.definition.path.parent
        paths = sorted(folder.glob("*.txt"))
        assert paths, f"no transcripts in {folder}"
        metafunc.parametrize("script", [Script(str(path)) for path in paths], ids=[path.stem for path in paths])
