"""`python -m benchmarks [NAME [OPTION...]]`: run one benchmark, or all of them one after the other."""

import importlib
import pkgutil
import sys

import benchmarks


def main() -> None:
    """Run what the command line names."""
    names = sorted(found.name for found in pkgutil.iter_modules(benchmarks.__path__) if not found.name.startswith("_"))
    arguments = sys.argv[1:]
    if arguments and arguments[0] not in names:
        raise SystemExit(f"no such benchmark: {arguments[0]}; there are: {', '.join(names)}")
    for name in arguments[:1] or names:
        importlib.import_module(f"benchmarks.{name}").main(arguments[1:])


main()
