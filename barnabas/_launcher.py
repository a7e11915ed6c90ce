"""Run a program of the server, its packages first on `sys.path`: LAUNCHER (serve | log | complete | fork-server) ...

Executed by path, never imported: a user's environment needs no importable `broker` or `storage`, and a user's module of
such a name never reaches the broker. In the wheel the server's packages are in `_server/` beside this file; in a
checkout they are the folders at the repository's root.
"""

import gc
import os.path
import sys

if __name__ == "__main__":
    gc.disable()  # imports allocate much and free little; `serve` enables collections when it is ready

    import _signal  # type: ignore[import-not-found]  # built in; `signal` imports enum first

    # Ctrl-C during the imports ends the process by the signal, without a traceback. `barnabas serve` blocks it until
    # here.
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, (_signal.SIGINT,))
    # Reopen closed standard streams: libuv aborts if a file or socket gets descriptor 0, 1 or 2.
    for _name, _mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, _name) is None:
            setattr(sys, _name, open(os.devnull, _mode, encoding="utf-8"))  # noqa: SIM115 - open to the end

_here = os.path.dirname(os.path.abspath(__file__))
_installed = os.path.join(_here, "_server")
_root = _installed if os.path.isdir(_installed) else os.path.dirname(_here)

if sys.flags.safe_path:
    sys.path.insert(0, _root)
else:
    sys.path[0] = _root  # replaces this folder, whose modules are not the server's

if sys.argv[1:2] == ["log"]:
    from broker.log_tool.program import main

    gc.enable()
elif sys.argv[1:2] == ["complete"]:
    from broker.startup.shell_completion import main

    gc.enable()
elif sys.argv[1:2] == ["fork-server"]:
    from broker.startup.fork_server import main
else:
    from broker.__main__ import main

if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        del sys.argv[1]  # leaves the options of `serve`
    sys.exit(main())
