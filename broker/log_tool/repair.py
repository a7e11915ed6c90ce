"""`barnabas log repair`: print the steps that repair damaged files, and with `--execute` execute them."""

import json
import sys
from collections.abc import Iterator, Mapping

from broker.log_tool.request import Request, RequestError, Target, shown, targets
from broker.log_tool.verify import check, data_directory_of
from storage.checkpoint import TopicPartition
from storage.disk import AlreadyLocked, Disk, is_locked
from storage.inspection.directory import (
    check_offsets,
    check_own_files,
    check_topic_ids,
    log_directories,
    may_be_compacted,
    partition_check,
)
from storage.inspection.findings import Finding
from storage.inspection.partition import PartitionCheck
from storage.inspection.repair import Step, clamp_offsets, left_alone, repair_log, repair_small_file


def repair(disk: Disk, request: Request) -> int:
    """Print or execute the repairs; return 1 if damage is left."""
    wanted = list(targets(disk, request))
    if any(target.kind == "file" for target in wanted):
        raise RequestError("a single file cannot be repaired: name the directory of the log")
    locks = []
    for data in sorted({target.path if target.kind == "data" else data_directory_of(target) for target in wanted}):
        lock = f"{data}/.lock"
        if is_locked(lock):
            raise RequestError(f"{shown(data)} is in use by a broker: stop it first, or repair a copy")
        if request.execute and (disk.exists(lock) or disk.exists(f"{data}/meta.properties")):
            try:
                locks.append(disk.lock(lock, writes_pid=False))
            except AlreadyLocked:
                raise RequestError(f"{shown(data)} is in use by a broker: stop it first, or repair a copy") from None
    results = [_perform(step, request) for target in wanted for step in _steps(disk, target)]
    left = [step for step in results if step["left"]]
    if request.json:
        json.dump(results, sys.stdout, indent=2, ensure_ascii=False)
        sys.stdout.write("\n")
    elif not results:
        sys.stdout.write("nothing is wrong\n")
    elif not request.execute and len(left) < len(results):
        sys.stdout.write("nothing was written: repair with --execute\n")
    if request.execute:
        remaining = [finding for target in wanted for finding in check(disk, target)]
        for finding in remaining:
            sys.stderr.write(f"barnabas log repair: still wrong: {finding._replace(path=shown(finding.path))}\n")
        return 1 if remaining else 0
    return 1 if left else 0


def _perform(step: Step, request: Request) -> dict[str, object]:
    """Print a step, execute it if requested, and return it for the JSON output."""
    is_left = step.do is None
    if not request.json:
        mark = "left alone: " if is_left else "" if request.execute else "would be repaired: "
        sys.stdout.write(f"{mark}{shown(step.path)}: {step.what}\n")
        sys.stdout.flush()
    if step.do is not None and request.execute:
        step.do()
    return {"path": step.path, "what": step.what, "left": is_left, "done": request.execute and not is_left}


def _steps(disk: Disk, target: Target) -> Iterator[Step]:
    if target.kind == "log":
        yield from _log_steps(disk, partition_check(disk, target.path))
        return
    own: dict[str, list[Finding]] = {}
    for finding in check_own_files(disk, target.path):
        own.setdefault(finding.path, []).append(finding)
    for path, findings in own.items():
        yield from repair_small_file(disk, path, findings)
    ends: dict[TopicPartition, int] = {}
    lost: set[TopicPartition] = set()
    for path in log_directories(disk, target.path):
        check = partition_check(disk, path)
        yield from _log_steps(disk, check)
        ends[check.key] = check.end_offset
        if not check.knows_end:
            lost.add(check.key)
    yield from left_alone(list(check_topic_ids(disk, target.path)), ())
    wrong_offsets = [one for one in check_offsets(disk, target.path, ends) if one.path not in own]
    # Skip logs that are missing or unreadable: their end is unknown.
    yield from _offset_steps(disk, wrong_offsets, {key: end for key, end in ends.items() if key not in lost})


def _log_steps(disk: Disk, check: PartitionCheck) -> Iterator[Step]:
    findings = list(check.run())
    if findings:
        compacted = may_be_compacted(disk, check.directory)
        steps = list(repair_log(disk, check.directory, findings, compacted=compacted))
        yield from steps
        yield from left_alone(findings, steps)


def _offset_steps(disk: Disk, findings: list[Finding], ends: Mapping[TopicPartition, int]) -> Iterator[Step]:
    steps: list[Step] = []
    for path in sorted({finding.path for finding in findings if finding.field == "offset"}):
        steps += clamp_offsets(disk, path, ends)
    yield from steps
    yield from left_alone([finding for finding in findings if finding.field == "offset"], steps)
    yield from left_alone([finding for finding in findings if finding.field != "offset"], ())
