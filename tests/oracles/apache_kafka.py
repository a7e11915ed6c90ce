"""The jars of Apache Kafka 4.3.1: its command-line tools as clients, and its file readers as oracles."""

from collections.abc import Sequence
from pathlib import Path

from tests.setups import prepared, require, run

POM = Path(__file__).parent / "java" / "pom.xml"

# A tool runs for about a second: the C2 compiler and a parallel collector would cost more than they save.
JVM = ("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m")


def kafka_classpath() -> str:
    """Download Apache Kafka's jars with Maven (once) and return a classpath of all of them; skip without Java."""
    require("java", "mvn")

    def fetch(folder: Path) -> None:
        target = f"-DoutputDirectory={folder}"
        run("mvn", "-q", "-B", "-f", POM, "dependency:copy-dependencies", target, "-DincludeScope=runtime")

    return f"{prepared('apache-kafka', [POM], fetch, cache_of='maven')}/*"


def kafka_tool(class_name: str, *arguments: str) -> Sequence[str]:
    """Return the command line of one of Apache Kafka's tools."""
    return (*JVM, "-cp", kafka_classpath(), class_name, *arguments)
