from __future__ import annotations

import os
import sys
import time
from typing import Never

import pytest

from broker.monitoring.process import Process
from storage.disk import OsDisk
from tests.typed import present


class NoProc(OsDisk):
    def read_file(self, path: str) -> Never:
        raise FileNotFoundError(path)


def test_cpu_time_and_limits_are_available_on_every_system() -> None:
    found = Process(NoProc(), time.time())
    assert found.cpu_s > 0
    assert found.max_files > 0
    assert found.resident_bytes is found.started_s is found.open_files is None


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
def test_other_process_metrics_are_available_on_linux() -> None:
    now = time.time()
    found = Process(OsDisk(), now)
    assert 1 << 20 < present(found.resident_bytes) < present(found.virtual_bytes)
    assert now - 7200 < present(found.started_s) < now
    with open(os.devnull) as _:
        assert Process(OsDisk(), now).open_files == present(found.open_files) + 1
