from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from barnabas._settings_files import write_file, write_settings


def test_settings_are_written_as_java_reads_them(tmp_path: Path) -> None:
    place = tmp_path / "1.properties"
    write_settings(str(place), {"broker.rack": "a\\b", "node.id": "1"}, secret=True)
    assert place.read_text() == "broker.rack=a\\\\b\nnode.id=1\n"


def test_file_with_a_secret_is_readable_by_no_other_user_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, older = tmp_path / "1.properties", tmp_path / "1.properties.tmp"
    older.write_text("")
    modes = []
    monkeypatch.setattr(os, "fchmod", lambda file, mode: modes.append((stat.S_IMODE(os.fstat(file).st_mode), mode)))
    before = os.umask(0)
    try:
        with older.open() as opened_by_another_user:
            write_file(str(path), "secret", 0o600)
            assert opened_by_another_user.read() == ""
    finally:
        os.umask(before)
    assert modes == [(0o600, 0o600)]
    assert path.read_text() == "secret"
