"""Metrics of this process from the operating system, with the names of Prometheus' client libraries."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from typing import TYPE_CHECKING

from broker.monitoring.exposition import counter, gauge, table

if TYPE_CHECKING:
    from broker.monitoring.monitored import MonitoredNode
    from storage.disk import Disk

_STARTED_FIELD, _VIRTUAL_FIELD, _RESIDENT_FIELD = 19, 20, 21  # of /proc/self/stat, after the process's name


class Process:
    """One sample of the process; unknown values are None."""

    def __init__(self, disk: Disk, now_s: float) -> None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        self.cpu_s = used.ru_utime + used.ru_stime
        self.max_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.virtual_bytes: int | None = None
        self.resident_bytes: int | None = None
        self.started_s: float | None = None
        self.open_files: int | None = None
        try:
            fields = disk.read_file("/proc/self/stat").decode().rpartition(")")[2].split()
            up_s = float(disk.read_file("/proc/uptime").split()[0])
            self.open_files = len(disk.list_dir("/proc/self/fd")) - 1
        except OSError:
            return  # not Linux
        self.started_s = round(now_s - up_s + int(fields[_STARTED_FIELD]) / os.sysconf("SC_CLK_TCK"), 2)
        self.virtual_bytes = int(fields[_VIRTUAL_FIELD])
        self.resident_bytes = int(fields[_RESIDENT_FIELD]) * os.sysconf("SC_PAGE_SIZE")


def _rows(node: MonitoredNode) -> Iterator[tuple[str, Process]]:
    yield "", Process(node.shared.disk, node.shared.now_ms() / 1000)


PROCESS = table(
    _rows,
    counter("process_cpu_seconds_total", "Processor time, user and system.", "cpu_s"),
    gauge("process_resident_memory_bytes", "Resident memory.", "resident_bytes"),
    gauge("process_virtual_memory_bytes", "Virtual memory.", "virtual_bytes"),
    gauge("process_start_time_seconds", "Start time of the process since 1970.", "started_s"),
    gauge("process_open_fds", "Open files and sockets.", "open_files"),
    gauge("process_max_fds", "Limit of open files and sockets.", "max_files"),
)
