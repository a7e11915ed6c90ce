"""Files of settings and secrets of a cluster on one machine: written atomically and durably, private if asked to be."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress

PRIVATE_DIRECTORY = 0o700
PRIVATE_FILE, PUBLIC_FILE = 0o600, 0o644


def write_file(path: str, text: str, mode: int | None = None) -> None:
    """Write a file atomically and durably, with `mode` or that of the umask; OSError if that fails.

    Until the text is complete, only this user can read a file that has a mode.
    """
    temporary = f"{path}.tmp"
    with suppress(FileNotFoundError):
        os.unlink(temporary)  # of an interrupted start: others may have opened it
    with open(temporary, "x", encoding="utf-8", opener=None if mode is None else _private) as file:
        file.write(text)
        file.flush()
        if mode is not None:
            os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())
    os.replace(temporary, path)


def write_settings(path: str, settings: Mapping[str, str], *, secret: bool = False) -> None:
    """Write a .properties file, for no other user to read if `secret`; OSError if that fails."""
    text = "".join(f"{name}={_escaped(value)}\n" for name, value in settings.items())
    write_file(path, text, PRIVATE_FILE if secret else None)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, PRIVATE_FILE)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\")
