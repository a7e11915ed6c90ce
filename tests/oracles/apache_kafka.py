"""Apache Kafka 4.3.1's own jars: its command-line tools as clients, and its readers of files as oracles."""

from collections.abc import Sequence
from pathlib import Path

from tests.setups import prepared, require, run

POM = Path(__file__).parent / "java" / "pom.xml"

# A tool lives for a second: the best compiler and a parallel collector would cost more than they bring.
JVM = ("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m")


def kafka_classpath() -> str:
    """Fetch Apache Kafka's jars by Maven (once) and return a classpath of them all; skip without Java."""
    require("java", "mvn")

    def fetch(folder: Path) -> None:
        target = f"-DoutputDirectory={folder}"
        run("mvn", "-q", "-B", "-f", POM, "dependency:copy-dependencies", target, "-DincludeScope=runtime")

    return f"{prepared('apache-kafka', [POM], fetch, cache_of='maven')}/*"


def kafka_tool(class_name: str, *arguments: str) -> Sequence[str]:
    """Return the command line of one of Apache Kafka's tools."""
    return (*JVM, "-cp", kafka_classpath(), class_name, *arguments)
