"""`barnabas log dump`: print the contents of files, as tables or as one JSON object per line."""

import json
import sys
from typing import Any

from broker.log_tool.request import FOREVER, Request, files_of, shown, targets
from broker.log_tool.text import print_rows
from storage.disk import Disk
from storage.inspection import kinds
from storage.inspection.decoders import decoder_of
from storage.inspection.kinds import Kind
from storage.inspection.rows import DumpFilter, Row, rows


def dump(disk: Disk, request: Request) -> int:
    """Print the files; return 1 if any of them is damaged."""
    start, end = request.offset_range
    status = 0
    found_in = [(path, target.kind) for target in targets(disk, request) for path in files_of(disk, target)]
    for path, target_kind in found_in:
        directory, _, name = path.rpartition("/")
        if target_kind != "file" and _is_outside(disk, path, start, end):
            continue
        decoder = decoder_of(kinds.topic_of(directory)) if request.decoder == "auto" else request.decoder
        found = rows(disk, path, DumpFilter(decoder, request.records, start, end))
        if request.json:
            damaged = _print_json(path, found)
        else:
            kind = kinds.readable_as(name)
            damaged = print_rows(f"{shown(path)}: {kind}", found, is_log=kind in (Kind.LOG, Kind.SNAPSHOT))
        status = max(status, damaged)
    return status


def _print_json(path: str, found: Any) -> bool:
    damaged = False
    for row in found:
        json.dump({"file": path, **row}, sys.stdout, ensure_ascii=False)
        sys.stdout.write("\n")
        damaged = damaged or has_problem(row)
    return damaged


def has_problem(row: Row) -> bool:
    """Return whether a row, or a record in it, reports damage."""
    return "problem" in row or any("problem" in record for record in row.get("records", ()))


def _is_outside(disk: Disk, path: str, start: int, end: int) -> bool:
    """Return whether a file has no data of the requested offsets; only segments and indexes can have some."""
    directory, _, name = path.rpartition("/")
    if (start, end) == (0, FOREVER):
        return False
    if kinds.kind_of(name) not in (Kind.LOG, Kind.OFFSET_INDEX, Kind.TIME_INDEX, Kind.TXN_INDEX):
        return True
    base = kinds.base_offset(name)
    following = next((other for other in kinds.segment_bases(disk, directory) if other > base), None)
    return base >= end or (following is not None and following <= start)
