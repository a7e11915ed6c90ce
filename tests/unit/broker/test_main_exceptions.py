"""How the program handles otherwise unhandled exceptions."""

from __future__ import annotations

import asyncio
from errno import EIO

import pytest

from broker.__main__ import _exception_handler
from protocol.errors import ErrorCode, InvariantError, KafkaError
from storage.disk import OsDisk
from storage.log_directory import LogDirectory


@pytest.mark.parametrize("follows", [True, False])
def test_broken_invariant_is_logged_unless_failed_disk_is_its_cause(
    follows: bool, caplog: pytest.LogCaptureFixture
) -> None:
    directory = LogDirectory(OsDisk(), "/data")
    directory.give_up(OSError(EIO, "Input/output error"))
    error = InvariantError("the epoch went back")
    error.__cause__ = directory.offline() if follows else KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "by itself")
    loop = asyncio.new_event_loop()
    stop = loop.create_future()
    handle = _exception_handler(directory, stop)
    for _ in range(2):
        handle(loop, {"message": "The controller failed", "exception": error})
    loop.close()
    assert stop.result() == 1
    logged = [(record.getMessage().splitlines()[0], bool(record.exc_info)) for record in caplog.records]
    stopping = (
        "Stopping: log directory /data, which has the metadata, failed: Input/output error; find the cause with dmesg, "
        "and repair or replace the disk, then start the broker again"
    )
    assert logged == [(stopping, False), *([] if follows else [("The controller failed", True)] * 2)]
