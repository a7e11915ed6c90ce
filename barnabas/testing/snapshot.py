"""Snapshots of a cluster's data: a directory, or one file for a repository.

    SNAPSHOT/snapshot.json     the format, the number of brokers, and the shared files with their sizes and times
    SNAPSHOT/1, 2, ...         the data of each broker, as it was at one moment: the brokers were paused

Deleted logs, whose files brokers remove after a minute, are left out. Files are copied, since brokers append to them in
place (a file system that can, shares their blocks). Only large segments that nothing is appended to any more are hard
links, and only in a snapshot that lives in the cluster's own directory. A broker might still truncate one of them, as a
follower of a new leader: a restore compares sizes and times, and refuses such a snapshot.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from stat import S_IMODE
from typing import NamedTuple

from barnabas.testing.errors import ClusterError

MANIFEST = "snapshot.json"
_FORMAT = 1
_OTHERS = 0o077  # the permissions of other users
_LOCK = ".lock"
_DELETED = "-delete"
"""The end of the name of a deleted log's directory, whose files a broker removes later."""
_SEGMENT = ".log"
_LARGE_BYTES = 1 << 20
_ARCHIVES = (".tar.gz", ".tgz")


class ClusterSnapshot(NamedTuple):
    """A snapshot of the data of all brokers."""

    directory: Path
    brokers: int
    links: dict[str, list[int]]
    """The files that are shared with a cluster, by their paths in the snapshot, with size and time in ns."""


def take(data_dirs: Sequence[Path], target: Path, *, link: bool) -> ClusterSnapshot:
    """Copy the data of paused brokers to a new directory or archive; with `link`, share large rolled segments."""
    if is_archive(target):
        directory = target.with_name(f"{target.name}.tmp")
        shutil.rmtree(directory, ignore_errors=True)
        made = take(data_dirs, directory, link=False)
        _pack(directory, target)
        shutil.rmtree(directory)
        return made._replace(directory=target)
    if target.exists() and any(target.iterdir()):
        raise ClusterError(f"{target} is not empty: choose another place for the snapshot, or delete it first")
    links: dict[str, list[int]] = {}
    for number, data_dir in enumerate(data_dirs, 1):
        for path in _copied(data_dir, target / str(number), link=link):
            status = path.stat()
            links[str(path.relative_to(target))] = [status.st_size, status.st_mtime_ns]
    made = ClusterSnapshot(target, len(data_dirs), links)
    manifest = {"format": _FORMAT, "brokers": made.brokers, "links": links}
    (target / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
    return made


def read(path: Path, scratch: Path) -> ClusterSnapshot:
    """Return the snapshot in a directory or an archive, unpacked below `scratch`; ClusterError if there is none."""
    if not path.exists():
        raise ClusterError(f"there is no snapshot {path}: one that was taken without a path ends with its cluster")
    directory = path
    if is_archive(path) and path.is_file():
        directory = scratch / f"unpacked-{path.stat().st_mtime_ns}"
        if not directory.exists():
            _unpack(path, directory)
    try:
        manifest = json.loads((directory / MANIFEST).read_text())
    except OSError:
        raise ClusterError(f"{path} is no snapshot: it has no {MANIFEST}") from None
    except ValueError as error:
        raise ClusterError(f"{path} is no snapshot: its {MANIFEST} is damaged: {error}") from None
    found = manifest.get("format") if isinstance(manifest, dict) else None
    if found != _FORMAT:
        raise ClusterError(
            f"{path} is a snapshot of another version of Barnabas, with format {found}; this version reads format "
            f"{_FORMAT}: take the snapshot again with this version"
        )
    missing = sorted({"brokers", "links"} - manifest.keys())
    if missing:
        raise ClusterError(f"{path} is no snapshot: its {MANIFEST} has no {missing[0]}")
    return ClusterSnapshot(directory, manifest["brokers"], manifest["links"])


def place(snapshot: ClusterSnapshot, data_dirs: Sequence[Path]) -> None:
    """Replace the data of stopped brokers by a snapshot's; ClusterError if that was changed."""
    if len(data_dirs) != snapshot.brokers:
        raise ClusterError(
            f"the snapshot has the data of {snapshot.brokers} brokers, the cluster has {len(data_dirs)}: use it in a "
            f"cluster with brokers={snapshot.brokers}, which is the default for Cluster(snapshot=...)"
        )
    for name in (*map(str, range(1, snapshot.brokers + 1)), *snapshot.links):
        if not (snapshot.directory / name).exists():
            raise ClusterError(f"{name} is missing in the snapshot {snapshot.directory}: take the snapshot again")
    for name, known in snapshot.links.items():
        status = (snapshot.directory / name).stat()
        if [status.st_size, status.st_mtime_ns] != known:
            raise ClusterError(
                f"a broker has truncated {name} of the snapshot {snapshot.directory}: "
                "take snapshots of such tests with a path, which shares no files"
            )
    for number, data_dir in enumerate(data_dirs, 1):
        shutil.rmtree(data_dir, ignore_errors=True)
        for _ in _copied(snapshot.directory / str(number), data_dir, link=bool(snapshot.links)):
            pass


def is_archive(path: Path) -> bool:
    """Return whether a snapshot at `path` is one file."""
    return path.name.endswith(_ARCHIVES)


def _copied(source: Path, target: Path, *, link: bool) -> Iterator[Path]:
    """Copy a broker's data; yield the files that are links instead."""
    os.makedirs(target, S_IMODE(source.stat().st_mode))
    with os.scandir(source) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    last = max((entry.name for entry in found if entry.name.endswith(_SEGMENT)), default="")
    for entry in found:
        place = target / entry.name
        if entry.name.endswith(_DELETED):
            continue
        if entry.is_dir():
            yield from _copied(Path(entry.path), place, link=link)
        elif link and entry.name.endswith(_SEGMENT) and entry.name != last and entry.stat().st_size >= _LARGE_BYTES:
            os.link(entry.path, place)
            yield place
        elif entry.name != _LOCK:
            _copy(entry.path, place)


def _copy(source: str, target: Path) -> None:
    with open(source, "rb") as old, open(target, "wb") as new:
        if hasattr(os, "copy_file_range"):
            try:
                while os.copy_file_range(old.fileno(), new.fileno(), 1 << 30):
                    pass
            except OSError:  # between file systems, or unknown to this one
                old.seek(new.tell())
            else:
                return
        shutil.copyfileobj(old, new)


def _pack(directory: Path, archive: Path) -> None:
    """Write an archive that depends on the content only; other users cannot read that of data that they cannot."""
    import gzip
    import tarfile

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.mtime = member.uid = member.gid = 0
        member.uname = member.gname = ""
        return member

    partial = archive.with_name(f"{archive.name}.part")
    partial.unlink(missing_ok=True)
    mode = 0o666 if S_IMODE((directory / "1").stat().st_mode) & _OTHERS else 0o600
    with (
        open(partial, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as packed,
    ):
        packed.add(directory, "", filter=plain)
    os.replace(partial, archive)


def _unpack(archive: Path, directory: Path) -> None:
    import tarfile

    try:
        directory.mkdir(0o700)
        with tarfile.open(archive) as packed:
            packed.extraction_filter = getattr(tarfile, "data_filter", None)  # from Python 3.11.4 on
            packed.extractall(directory)  # noqa: S202 - of the user, and filtered
    except (OSError, EOFError, tarfile.TarError) as error:
        shutil.rmtree(directory, ignore_errors=True)
        raise ClusterError(f"{archive} is no snapshot: {error}") from error
