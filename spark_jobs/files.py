"""Small files beside checkpoints and tables, in the file system of their URI, through Hadoop's client in Spark's JVM.

A path without a scheme is of Spark's default file system. `claim` records in a directory what writes to it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_jobs.errors import JobError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OWNER = "_barnabas_job.json"
COMPLETE = re.compile(r"^\.(.+)\.complete$")


class FileStatus(NamedTuple):
    """A file: its path in the folder, its length in bytes, and its modification time in milliseconds since 1970."""

    path: str
    size: int
    modified_ms: int


class Folder:
    """A directory of any file system that Spark reaches; it need not exist."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        path = jvm.org.apache.hadoop.fs.Path(uri)
        self._files: Any = path.getFileSystem(spark._jsc.hadoopConfiguration())
        self._path = path.makeQualified(self._files.getUri(), self._files.getWorkingDirectory())

    @property
    def uri(self) -> str:
        """The absolute URI."""
        return str(self._path.toString())

    def names(self) -> list[str]:
        """Return the names in the directory, empty if it does not exist."""
        if not self._files.exists(self._path):
            return []
        found = {str(status.getPath().getName()) for status in self._files.listStatus(self._path)}
        return sorted({COMPLETE.sub(r"\1", name) for name in found})

    def read(self, name: str) -> str | None:
        """Return the text of a file, None if it does not exist."""
        path = self._child(name)
        if not self._files.exists(path):
            path = self._beside(name, "complete")
            if not self._files.exists(path):
                return None
        stream = self._files.open(path)
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Write a file, in place of one with that name; the directory is created if it does not exist.

        Not every file system can rename a file in place of another one. The new file is therefore complete under
        another name, by which `read` finds it, before the former one is deleted.
        """
        unfinished = self._beside(name, "unfinished")
        stream = self._files.create(unfinished, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        path, complete = self._child(name), self._beside(name, "complete")
        if self._files.exists(path):
            self._files.delete(complete, False)
            self._rename(unfinished, complete)
            self._files.delete(path, False)
            self._rename(complete, path)
        else:
            self._rename(unfinished, path)
            self._files.delete(complete, False)

    def create(self, name: str, text: str) -> None:
        """Write a file, which appears complete or not at all; FileExistsError if there is one with that name."""
        hadoop = self._jvm.org.apache.hadoop.fs
        path, unfinished = self._child(name), self._beside(name, "unfinished")
        stream = self._files.create(unfinished, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        context = hadoop.FileContext.getFileContext(self._path.toUri(), self._files.getConf())
        options = self._jvm.java.lang.reflect.Array.newInstance(getattr(hadoop, "Options$Rename").NONE.getClass(), 0)
        try:
            context.rename(unfinished, path, options)
        except Exception as error:
            if "FileAlreadyExistsException" in str(error):
                raise FileExistsError(f"{self.uri}/{name}") from None
            raise

    def matching(self, pattern: str) -> list[FileStatus]:
        """Return the files that match a pattern of Hadoop's `globStatus`, with their paths from here."""
        return [
            FileStatus(
                str(found.getPath().toString()).removeprefix(f"{self.uri}/"),
                found.getLen(),
                found.getModificationTime(),
            )
            for found in self._files.globStatus(self._child(pattern)) or ()
        ]

    def move(self, name: str, to: str) -> None:
        """Rename a file; `to` does not exist, and its directory is created if it does not exist."""
        self._files.mkdirs(self._child(to).getParent())
        self._rename(self._child(name), self._child(to))

    def delete(self, name: str) -> None:
        """Delete a file or a directory with all that is in it; do nothing if it does not exist."""
        self._files.delete(self._beside(name, "complete"), False)
        self._files.delete(self._child(name), True)

    def _child(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._path, name)

    def _beside(self, name: str, state: str) -> Any:
        path = self._child(name)
        return self._jvm.org.apache.hadoop.fs.Path(path.getParent(), f".{path.getName()}.{state}")

    def _rename(self, path: Any, to: Any) -> None:
        if not self._files.rename(path, to):
            raise OSError(f"{path.toString()} was not renamed to {to.getName()}")


def query_id(spark: SparkSession, checkpoint: str) -> str:
    """Return the id of the query that a checkpoint belongs to; KeyError if no query has begun with it."""
    text = Folder(spark, checkpoint).read("metadata")
    if text is None:
        raise KeyError(checkpoint)
    return str(json.loads(text)["id"])


def has_begun(spark: SparkSession, checkpoint: str) -> bool:
    """Return whether a query has begun with a checkpoint."""
    return "metadata" in Folder(spark, checkpoint).names()


def has_results(spark: SparkSession, directory: str) -> bool:
    """Return whether an output directory has more than the record of which job writes it."""
    return any(name != OWNER and not name.startswith(".") for name in Folder(spark, directory).names())


def owner(spark: SparkSession, directory: str) -> str | None:
    """Return which job writes an output directory, None if none does."""
    text = Folder(spark, directory).read(OWNER)
    return None if text is None else str(json.loads(text)["job"])


def claim(spark: SparkSession, directory: str, job: str, checkpoint: str | None) -> None:
    """Record in an output directory which job and checkpoint write it; without a checkpoint, the job may have several.

    Raise JobError if another job or checkpoint writes it, or if it has files of something else.
    """
    folder = Folder(spark, directory)
    owner = {"job": job, "checkpoint": checkpoint and Folder(spark, checkpoint).uri}
    text = folder.read(OWNER)
    if text is None:
        if any(not name.startswith(".") for name in folder.names()):
            raise JobError(f"{directory} has files that no job wrote; choose an empty directory")
        folder.write(OWNER, json.dumps(owner))
    elif (found := json.loads(text)) != owner:
        by = f"{found['job']} with the checkpoint {found['checkpoint']}" if found["checkpoint"] else found["job"]
        raise JobError(f"{directory} is written by {by}; choose another directory, or start that job")


def claim_checkpoint(spark: SparkSession, checkpoint: str, job: str, fixed: Mapping[str, str]) -> None:
    """Record in a checkpoint which job begins with it, and the options that must stay the same.

    Raise JobError if the checkpoint is of another job, or was begun with other values of these options.
    """
    folder = Folder(spark, checkpoint)
    text = folder.read(OWNER)
    if text is None:
        if has_begun(spark, checkpoint):
            raise JobError(f"the checkpoint {checkpoint} is of another query: choose another --checkpoint")
        folder.write(OWNER, json.dumps({"job": job, "options": fixed}))
        return
    found = json.loads(text)
    if found["job"] != job:
        raise JobError(f"the checkpoint {checkpoint} is of the job {found['job']}: choose another --checkpoint")
    for name, value in fixed.items():
        if (begun := found["options"].get(name, value)) != value:
            flag = "--" + name.rstrip("_").replace("_", "-")
            raise JobError(
                f"the checkpoint {checkpoint} was begun with {flag} {begun!r}, not {value!r}: choose that, or another "
                "--checkpoint"
            )
