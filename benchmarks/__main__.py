"""`python -m benchmarks [NAME [OPTION...]]`: run a benchmark; without a name, the comparison with Apache Kafka."""

import importlib
import pkgutil
import sys

import benchmarks


def main() -> None:
    """Run the benchmark that the command line names."""
    names = sorted(found.name for found in pkgutil.iter_modules(benchmarks.__path__) if not found.name.startswith("_"))
    name, *options = sys.argv[1:] or ["beside_kafka"]
    if name not in names:
        raise SystemExit(f"no such benchmark: {name}; there are: {', '.join(names)}")
    importlib.import_module(f"benchmarks.{name}").main(options)


main()
