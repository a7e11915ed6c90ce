"""File descriptor limits, in a separate process: a lowered hard limit cannot be raised again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from broker.network.connection_limits import connections_within, segments_within

ROOT = Path(__file__).parents[4]
PROGRAM = """
import resource
from broker.network.connection_limits import raise_open_file_limit
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
print(raise_open_file_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(("soft", "hard", "raised"), [(100, 200, 200), (200, 200, 200)])
def test_soft_limit_is_raised_to_the_hard_limit(soft: int, hard: int, raised: int) -> None:
    program = PROGRAM.format(soft=soft, hard=hard)
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(raised), str(raised), str(hard)]


@pytest.mark.parametrize(("limit", "connections"), [(256, 128), (1_024, 512), (20_000, 10_000), (1 << 20, 1_038_576)])
def test_connections_get_the_fd_limit_less_half_or_a_reserve(limit: int, connections: int) -> None:
    assert connections_within(limit) == connections


@pytest.mark.parametrize(("limit", "segments"), [(2, 1), (256, 96), (1_024, 384), (1 << 20, 7_500)])
def test_segments_get_most_of_the_fds_not_left_to_clients(limit: int, segments: int) -> None:
    assert segments_within(limit) == segments
