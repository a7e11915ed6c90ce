"""The `barnabas` command: `serve` becomes the broker, `log` reads its files, the other commands are Kafka clients.

`serve` replaces this process by the server's program without importing anything else, for a short start-up. The other
commands import kafka-python when they run, never for `--help`.
"""

import os
import sys

USAGE = """\
usage: barnabas COMMAND ...

  serve       run a broker in the foreground
{commands}

examples:
  barnabas serve --topic letters:3
  echo hello | barnabas produce letters
  barnabas consume letters --exit

`barnabas COMMAND --help` explains each, with examples; `barnabas --version` prints the version.
The commands connect to -b HOST:PORT,..., else to $BARNABAS_BROKERS, else to 127.0.0.1:9092.
"""

_INTERRUPTED = 130


def main() -> int:
    """Run a command and return its exit status."""
    try:
        try:
            return _run()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except KeyboardInterrupt:  # during the imports; later the commands handle it
        import signal

        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second one has no traceback
        return _INTERRUPTED
    except OSError as error:
        from barnabas.commands import NO_SPACE, forget_output

        if not isinstance(error, BrokenPipeError) and error.errno not in NO_SPACE:
            raise
        forget_output()
        if isinstance(error, BrokenPipeError):  # the reader of our output has exited
            return 0
        _write(f"barnabas: cannot write standard output: {error.strerror}\n", error=True)
        return 1


def _write(text: str, *, error: bool = False) -> None:
    """Write to standard output or error; do nothing if the caller has closed it."""
    stream = sys.stderr if error else sys.stdout
    if stream is not None:
        stream.write(text)


def _run() -> int:
    arguments = sys.argv[1:]
    if arguments[:1] == ["help"] and arguments[1:]:
        arguments = [*arguments[1:], "--help"]
    command = arguments[0] if arguments else ""
    if command == "serve":
        return _serve(arguments[1:])
    if command in ("-V", "--version", "version"):
        from barnabas import __version__

        _write(f"barnabas {__version__}\n")
        return 0
    from barnabas.commands._parser import COMMANDS, command_first, unknown_command

    arguments = command_first(arguments)
    command = arguments[0] if arguments else ""
    if command == "serve":
        return _serve(arguments[1:])
    if command in COMMANDS:
        from barnabas.commands import run_command

        return run_command(arguments)
    if command == "complete":  # called by the scripts of `completion`
        from barnabas.commands._complete import complete

        return complete(arguments[1:])
    usage = USAGE.format(commands="\n".join(f"  {name:<11} {about}" for name, about in COMMANDS.items()))
    if command in ("-h", "--help", "help"):
        _write(usage)
        return 0
    _write(unknown_command("barnabas", command, ["serve", *COMMANDS]) if command else usage, error=True)
    return 2


def _serve(arguments: list[str]) -> int:
    """Replace this process by the server's program; signals and standard streams stay as they are."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        from barnabas.commands import open_closed_streams

        open_closed_streams()
    if "--ephemeral" in arguments:
        from contextlib import suppress

        from barnabas._ephemeral import make_directory

        # On OSError (no shell) the broker makes its directory itself, and deletes it unless it is killed.
        with suppress(OSError):
            path, keeping, _ = make_directory()
            os.set_inheritable(keeping, True)
            arguments = [*arguments, "--ephemeral-dir", path]
    import _signal  # type: ignore[import-not-found]  # built in; `signal` imports enum first

    _signal.pthread_sigmask(_signal.SIG_BLOCK, (_signal.SIGINT,))  # until the launcher is past the interpreter's start
    launcher = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_launcher.py")
    os.execv(sys.executable, [sys.executable, launcher, "serve", *arguments])  # noqa: S606 - our own program, no shell


if __name__ == "__main__":
    sys.exit(main())
