"""A PyFlink job with Kafka's exactly-once sink, killed and restored from its checkpoint."""

import shutil
import sys
from collections import Counter, defaultdict
from pathlib import Path
from random import Random

from tests import proofs
from tests.applications.jvm import Process
from tests.applications.topics import Reader, create_topics, produce
from tests.chaos.cluster import Cluster
from tests.setups import prepared, require, run

FLINK = Path(__file__).parent / "flink"
WORDS = 4000
VOCABULARY = [f"word{number}" for number in range(50)]
# One JVM has client, master and worker.
JVM_OPTIONS = "-Xmx640m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def flink() -> tuple[Path, Path]:
    """Return a Python that has PyFlink, and its Kafka connector; the first call installs them."""
    # PyFlink has no wheels for later versions.
    require("java", "mvn", *([] if sys.version_info < (3, 13) else ["python3.12"]))

    def build(folder: Path) -> None:
        base = sys.executable if sys.version_info < (3, 13) else shutil.which("python3.12") or ""
        python = folder / "python" / "bin" / "python"
        if shutil.which("uv"):
            run("uv", "venv", "--python", base, folder / "python")
            run("uv", "pip", "install", "--python", python, "--require-hashes", "-r", FLINK / "requirements.txt")
        else:
            run(base, "-m", "venv", folder / "python")
            run(python, "-m", "pip", "install", "-q", "--require-hashes", "-r", FLINK / "requirements.txt")
        target = f"-DoutputDirectory={folder / 'lib'}"
        run("mvn", "-q", "-B", "-f", FLINK / "pom.xml", "dependency:copy-dependencies", target, "-DexcludeTransitive")

    built = prepared("flink", [FLINK / "pom.xml", FLINK / "requirements.txt"], build, cache_of="maven")
    (connector,) = (built / "lib").glob("*.jar")
    return built / "python" / "bin" / "python", connector


def job(bootstrap: str, checkpoints: Path, *restored: Path) -> Process:
    """Return the job, not started yet, with its logs beside the checkpoints."""
    python, connector = flink()
    command: list[str | Path] = [python, FLINK / "job.py", bootstrap, checkpoints, connector, *restored]
    environment = {"FLINK_ENV_JAVA_OPTS": JVM_OPTIONS, "FLINK_LOG_DIR": str(checkpoints.parent)}
    return Process(command, checkpoints.parent / "flink.log", environment)


def newest_checkpoint(checkpoints: Path) -> Path:
    """Return the last complete checkpoint."""
    complete = [metadata.parent for metadata in checkpoints.glob("*/chk-*/_metadata")]
    return max(complete, key=lambda folder: folder.stat().st_mtime)


def test_counts_are_exact_though_the_job_is_killed_and_restored_from_its_checkpoint(
    cluster: Cluster, tmp_path: Path
) -> None:
    bootstrap, checkpoints, random = cluster.bootstrap, tmp_path / "checkpoints", Random(7)
    create_topics(bootstrap, ["words", "counts"], partitions=2)
    expected: Counter[str] = Counter()

    def give() -> None:
        words = random.choices(VOCABULARY, k=WORDS)
        expected.update(words)
        produce(bootstrap, "words", ((word, word) for word in words))

    with Reader(bootstrap, "counts") as reader:
        give()
        with Reader(bootstrap, "counts", isolation="read_uncommitted") as early, job(bootstrap, checkpoints) as running:
            reader.check = early.check = running.check
            reader.read_until(lambda records: len(records["counts"]) >= WORDS, "the first words counted")
            early.read_to_end()
            give()
            early.read_more("counts", "counts in an open transaction")
            running.kill()
        assert len(reader.read_to_end()["counts"]) < 2 * WORDS
        with job(bootstrap, checkpoints, newest_checkpoint(checkpoints)) as running:
            reader.check = running.check
            give()
            reader.read_until(lambda records: len(records["counts"]) >= 3 * WORDS, "the rest counted")
        records = reader.read_to_end()["counts"]
    counts: dict[str | None, list[int]] = defaultdict(list)
    for record in records:
        counts[record.key].append(int(record.value or ""))
    assert counts == {word: list(range(1, count + 1)) for word, count in expected.items()}
    proofs.count("records that Flink processed exactly once", expected.total())
