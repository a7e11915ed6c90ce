"""The directory of a `barnabas up` cluster, and the files of its brokers.

    DIR/cluster.properties   the cluster's id and number of brokers, which never change
    DIR/N.properties         broker N's settings, for `barnabas serve --config` too; rewritten at each start
    DIR/N/                   broker N's data, locked by N/.lock while it runs

DIR itself is locked while `barnabas up` runs. Nothing is written before it is certain that no other `barnabas up` uses
DIR, and that none of its brokers runs, however it was started.

`barnabas/_cluster_settings.py` has the settings themselves, `barnabas/_settings_files.py` writes them. The ports of the
controllers' listeners may change between starts.
"""

import errno
import fcntl
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from socket import socket
from struct import Struct
from typing import NamedTuple

from barnabas import _settings_files
from barnabas._cluster_settings import Address, NodeAddresses, new_cluster_id
from barnabas._settings_files import PRIVATE_DIRECTORY
from barnabas.commands._output import WrongCall, amount_of

IDENTITY = "cluster.properties"

_FLOCK = Struct("@qqihh" if sys.platform == "darwin" else "@hhqqi4x")
"""`struct flock`: start, length, process, kind, whence on macOS; kind, whence, start, length, process elsewhere."""


class NodeFiles(NamedTuple):
    """One broker: its addresses, files, and bound sockets by listener name."""

    addresses: NodeAddresses
    data_dir: str
    settings_file: str
    sockets: Mapping[str, socket]

    @property
    def node_id(self) -> int:
        """Return the broker's id."""
        return self.addresses.node_id

    @property
    def address(self) -> Address:
        """Return the address for clients."""
        return self.addresses.clients


@contextmanager
def held(directory: str, brokers: int, *, private: bool = False) -> Iterator[None]:
    """Lock the cluster's directory; create it, for this user only if `private`; remove it at the end if it is empty.

    WrongCall if another `barnabas up` has locked it, or one of its brokers is running.
    """
    new = not os.path.isdir(directory)
    try:
        os.makedirs(directory, PRIVATE_DIRECTORY if private else 0o777, exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY)
    except OSError as error:
        raise _unusable(directory, error) from error
    try:
        if not _lock(descriptor):
            raise WrongCall(
                f"{directory} is in use by another `barnabas up`: stop that first, or choose another directory with "
                "--data-dir DIR"
            )
        for node_id in range(1, brokers + 1):
            try:
                holder = lock_holder(os.path.join(directory, str(node_id)))
            except OSError as error:
                raise _unusable(directory, error) from error
            if holder is not None:
                raise WrongCall(
                    f"broker {node_id} of {directory} runs already as process {holder.process}: stop it first"
                )
        yield
    finally:
        os.close(descriptor)
        if new:
            with suppress(OSError):  # it is not empty
                os.rmdir(directory)


class LockHolder(NamedTuple):
    """The process that has locked a broker's data."""

    process: int
    is_broker: bool
    """Whether it wrote its id to the lock file, as brokers do and `log repair` does not."""


def lock_holder(data_dir: str) -> LockHolder | None:
    """Return the process that has locked a broker's data; None if none has. The lock is only queried, never taken."""
    try:
        with open(os.path.join(data_dir, ".lock"), encoding="utf-8") as file:
            found = fcntl.fcntl(file.fileno(), fcntl.F_GETLK, _FLOCK.pack(*_flock(fcntl.F_WRLCK)))
            kind, process = _kind_and_process(_FLOCK.unpack(found))
            return None if kind == fcntl.F_UNLCK else LockHolder(process, file.read().strip() == str(process))
    except FileNotFoundError:
        return None


def _flock(kind: int) -> tuple[int, ...]:
    """Return the fields of `struct flock` for a lock of the whole file."""
    return (0, 0, 0, kind, os.SEEK_SET) if sys.platform == "darwin" else (kind, os.SEEK_SET, 0, 0, 0)


def _kind_and_process(fields: tuple[int, ...]) -> tuple[int, int]:
    return (fields[3], fields[2]) if sys.platform == "darwin" else (fields[0], fields[4])


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _unusable(directory: str, error: OSError) -> WrongCall:
    remedies = {errno.EACCES: "give this user write access to it, or ", errno.EROFS: "mount it for writing, or "}
    remedy = f"{remedies.get(error.errno or 0, '')}choose another directory with --data-dir DIR"
    return WrongCall(f"{error.filename or directory}: {(error.strerror or str(error)).lower()}; {remedy}")


def identity(directory: str, brokers: int) -> str:
    """Return the cluster id of the directory, a new one if the directory is empty.

    WrongCall if the directory holds other files, or a cluster with another number of brokers.
    """
    path = os.path.join(directory, IDENTITY)
    try:
        found = _read(path)
        if found is None and os.listdir(directory):
            raise WrongCall(
                f"{directory} is not empty and has no {IDENTITY}, the file that identifies a cluster: choose another "
                "directory with --data-dir DIR"
            )
    except OSError as error:
        raise _unusable(directory, error) from error
    if found is None:
        return new_cluster_id()
    if not (found.keys() >= {"cluster.id", "brokers"} and found["brokers"].isdecimal()):
        raise WrongCall(f"{path} lacks cluster.id or brokers: restore it, or choose another directory")
    if found["brokers"] != str(brokers):
        known = int(found["brokers"])
        raise WrongCall(
            f"{directory} holds a cluster of {amount_of(known, 'broker')}: use --brokers {known}, or choose another "
            "directory with --data-dir DIR"
        )
    return found["cluster.id"]


def write_identity(directory: str, cluster_id: str, brokers: int) -> None:
    """Write the cluster's identity file; WrongCall if that fails."""
    write_settings(os.path.join(directory, IDENTITY), {"cluster.id": cluster_id, "brokers": str(brokers)})


def _read(path: str) -> dict[str, str] | None:
    try:
        with open(path, encoding="utf-8") as file:
            pairs = [line.strip().partition("=") for line in file if not line.startswith("#")]
    except FileNotFoundError:
        return None
    return {name: value for name, _, value in pairs}


def write_settings(path: str, settings: Mapping[str, str], *, secret: bool = False) -> None:
    """Write a settings file, for no other user to read if `secret`; WrongCall if that fails."""
    try:
        _settings_files.write_settings(path, settings, secret=secret)
    except OSError as error:
        raise _unusable(path, error) from error


def make_private(directory: str) -> None:
    """Create a directory that no other user can enter; one that exists keeps its mode. WrongCall if that fails."""
    try:
        with suppress(FileExistsError):
            os.mkdir(directory, PRIVATE_DIRECTORY)
    except OSError as error:
        raise _unusable(directory, error) from error
