"""`barnabas log verify`: check files against their formats and against each other, and list the findings."""

import json
import sys
from collections.abc import Iterator

from broker.log_tool.request import Request, Target, shown, targets
from protocol.plural import count_of
from storage.disk import Disk, is_locked
from storage.inspection import kinds
from storage.inspection.directory import check_directory, check_log, check_small_file
from storage.inspection.findings import Finding
from storage.inspection.kinds import Kind

_SMALL = (Kind.SNAPSHOT, Kind.META, Kind.CLEAN_STOP, Kind.OFFSETS)


def verify(disk: Disk, request: Request) -> int:
    """Print the findings; return 1 if there are any."""
    found: list[Finding] = []
    for target in targets(disk, request):
        data = target.path if target.kind == "data" else data_directory_of(target)
        if is_locked(f"{data}/.lock"):
            sys.stderr.write(
                f"barnabas log verify: {shown(data)} is in use: files that are being written may look damaged\n"
            )
        for finding in check(disk, target):
            found.append(finding)
            if not request.json:
                sys.stdout.write(f"{finding._replace(path=shown(finding.path))}\n")
    if request.json:
        json.dump([finding._asdict() for finding in found], sys.stdout, indent=2, ensure_ascii=False)
        sys.stdout.write("\n")
    else:
        sys.stdout.write(f"{_count_of_wrong(len(found))}\n" if found else "nothing is wrong\n")
    return 1 if found else 0


def check(disk: Disk, target: Target) -> Iterator[Finding]:
    """Yield the findings of a target."""
    if target.kind == "data":
        return check_directory(disk, target.path)
    if target.kind == "log":
        return check_log(disk, target.path)
    directory, _, name = target.path.rpartition("/")
    if kinds.kind_of(name) in _SMALL:
        return check_small_file(disk, target.path)
    # A log's file is checked together with the rest of the log.
    return (finding for finding in check_log(disk, directory or ".") if finding.path == target.path)


def data_directory_of(target: Target) -> str:
    """Return the data directory that contains a log's directory or a file."""
    parent = target.path.rpartition("/")[0] or "."
    if target.kind == "file" and kinds.is_log_directory(parent.rpartition("/")[2]):
        parent = parent.rpartition("/")[0] or "."
    return parent


def _count_of_wrong(number: int) -> str:
    """Return "1 thing is wrong" or "2 things are wrong"."""
    return f"{count_of(number, 'thing')} {'is' if number == 1 else 'are'} wrong"
