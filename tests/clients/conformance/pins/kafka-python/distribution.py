"""The scripts of an Apache Kafka distribution that kafka-python's fixtures call, with Barnabas behind them.

python distribution.py format ... -c PROPERTIES [--add-scram USER]
python distribution.py start PROPERTIES
"""

import os
import re
import sys
from pathlib import Path


def main(command: str, *arguments: str) -> None:
    if command == "format":
        properties = Path(arguments[arguments.index("-c") + 1])
        users = arguments[arguments.index("--add-scram") + 1 :] if "--add-scram" in arguments else ()
        scram_users(properties).write_text("".join(f"{user}\n" for user in users))
    else:
        (properties,) = map(Path, arguments)
        users = tuple(f"--add-scram={user}" for user in scram_users(properties).read_text().splitlines())
        launched = ("-m", "barnabas", "serve", "--config", str(translated(properties)), *users)
        os.execv(sys.executable, [sys.executable, *launched])


def scram_users(properties: Path) -> Path:
    return properties.with_name("scram-users")


def translated(properties: Path) -> Path:
    """Return a file with the settings, and with the text of the JAAS file that Java would be given as an option."""
    settings = properties.read_text()
    found = re.search(r"-Djava.security.auth.login.config=(\S+)", os.environ.get("KAFKA_OPTS", ""))
    if found:
        (listener,) = re.findall(r"^listeners=(\w+):", settings, re.MULTILINE)
        (mechanism,) = re.findall(r"^sasl.enabled.mechanisms=(\S+)", settings, re.MULTILINE)
        jaas = Path(found[1]).read_text().strip()
        settings += f"\nlistener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config={jaas}\n"
    path = properties.with_name("barnabas.properties")
    path.write_text(settings)
    return path


if __name__ == "__main__":
    main(*sys.argv[1:])
