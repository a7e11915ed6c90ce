import subprocess
import sys

import pytest

from protocol.checksum import crc32c


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        # RFC 3720, appendix B.4
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)
def test_published_check_values(data: bytes, expected: int) -> None:
    assert crc32c(data) == expected


def test_views_are_read_where_they_are() -> None:
    buffer = bytearray(b"..123456789..")
    assert crc32c(memoryview(buffer)[2:-2]) == crc32c(b"123456789")


def test_the_librarys_command_line_is_not_imported() -> None:
    program = "import sys, protocol.checksum; print('importlib.metadata' in sys.modules, 'argparse' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
