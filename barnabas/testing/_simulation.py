"""Where simulated seeds run: in a process of their own with PYTHONHASHSEED=0, or in this one if it has that.

The order of a set of strings depends on the interpreter's hash seed, so a seed replays only under the same one. The
process is started by multiprocessing's `spawn`, imports the module of `main`, and sends each run, or the failure, back.

The server's packages have common names (`storage`): while a seed runs they are first on `sys.path`, and modules of the
user with such names are set aside.
"""

from __future__ import annotations

import importlib
import inspect
import multiprocessing
import os
import pickle
import shlex
import sys
import traceback
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import module_from_spec, spec_from_file_location
from multiprocessing.connection import Connection
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

from barnabas.testing.errors import ClusterError, SimulationFailure

_PACKAGES = ("protocol", "storage", "controller", "broker", "simulation")
_HASH_SEED = "PYTHONHASHSEED"
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_INSTALLED = os.path.join(_PACKAGE, "_server")
_ROOT = _INSTALLED if os.path.isdir(_INSTALLED) else os.path.dirname(_PACKAGE)

SEED_VARIABLE = "BARNABAS_SEED"

_set_aside: dict[str, ModuleType] = {}
"""The server's modules between two runs of an installed package."""


Main: TypeAlias = Callable[[Any], Coroutine[Any, Any, Any]]


class SimulationRun(NamedTuple):
    """A run that did not fail."""

    seed: int
    result: Any
    """What `main` returned; None if it cannot be pickled."""
    seconds: float
    """The simulated time."""
    events: int
    """How many callbacks of event loops ran."""
    digest: str
    """A hash of all events: equal for equal runs."""
    faults: dict[str, int]
    """How often each fault was injected, by its name in `FAULTS`."""
    timeline: tuple[tuple[float, str], ...]
    """The faults in order: the simulated time in s, and the fault with its machine, as "kill b3"."""

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.seconds:.3f} s of simulated time, {_listed(self.faults)}"


class SimulationRuns(list[SimulationRun]):
    """The runs that `simulate` returns; as text, what was tried in each and in all."""

    @property
    def faults(self) -> dict[str, int]:
        """How often each fault was injected in all runs."""
        total: Counter[str] = Counter()
        for run in self:
            total.update(run.faults)
        return dict(sorted(total.items()))

    def __str__(self) -> str:
        seconds = sum(run.seconds for run in self)
        total = [f"{len(self)} seeds: {seconds:.3f} s of simulated time, {_listed(self.faults)}"]
        return "\n".join([*map(str, self), *(total if len(self) > 1 else [])])


def _listed(faults: Mapping[str, int]) -> str:
    """Return the number of faults, and of each kind."""
    number = sum(faults.values())
    if not number:
        return "no faults"
    kinds = ", ".join(f"{count} {name}" for name, count in faults.items())
    return f"{number} fault{'s' * (number > 1)}: {kinds}"


finished: deque[str] = deque(maxlen=100)
"""The runs of the last calls of `simulate`, as text for the report of a test; the pytest plugin empties it."""


class Simulation(NamedTuple):
    """What is run for each seed."""

    main: Main
    brokers: int
    faults: tuple[str, ...]
    fault_interval_s: float
    config: dict[str, object]
    limit_s: float


class _Job(NamedTuple):
    """The seeds for the other process; `simulation` is pickled, since its module has to be found first."""

    module: str
    file: str
    simulation: bytes
    seeds: list[int]


class _FailedSeed(NamedTuple):
    """What a seed has raised, pickled if that is possible, and as text."""

    seed: int
    error: bytes | None
    text: str


def run_seeds(simulation: Simulation, seeds: Sequence[int]) -> SimulationRuns:
    """Run the seeds in order; raise what the first failing one has raised, with notes that say how to replay it."""
    if not sys.flags.hash_randomization:
        return SimulationRuns(_run_here(simulation, seed) for seed in seeds)
    return SimulationRuns(_run_apart(simulation, seeds))


def _run_here(simulation: Simulation, seed: int) -> SimulationRun:
    try:
        return _run(simulation, seed)
    except BaseException as error:
        error.add_note(_replay(seed))
        raise


def _run(simulation: Simulation, seed: int) -> SimulationRun:
    with _server_packages():
        from simulation.application import ApplicationPlan, run_seed

        return SimulationRun(*run_seed(ApplicationPlan(*simulation), seed))


def _run_apart(simulation: Simulation, seeds: Sequence[int]) -> Iterator[SimulationRun]:
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(sender, _job(simulation, seeds)), daemon=True)
    with _hash_seed("0"):
        process.start()
    sender.close()
    try:
        for seed in seeds:
            try:
                outcome = receiver.recv()
            except EOFError:
                process.join()
                problem = f"seed {seed}: the process that ran it has ended with status {process.exitcode}"
                raise ClusterError(f"{problem}\n{_replay(seed)}") from None
            if isinstance(outcome, _FailedSeed):
                raise _rebuilt(outcome)
            yield SimulationRun(*outcome)
    finally:
        process.kill()
        process.join()
        receiver.close()


def _job(simulation: Simulation, seeds: Sequence[int]) -> _Job:
    function = getattr(simulation.main, "func", simulation.main)
    try:
        pickled = pickle.dumps(simulation)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise TypeError(
            f"main={simulation.main!r} cannot be sent to the process that runs the seeds: use a function of a module, "
            f"or run this one with {_HASH_SEED}=0 ({error})"
        ) from None
    return _Job(function.__module__, inspect.getsourcefile(function) or "", pickled, list(seeds))


@contextmanager
def _hash_seed(value: str) -> Iterator[None]:
    before = os.environ.get(_HASH_SEED)
    os.environ[_HASH_SEED] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[_HASH_SEED]
        else:
            os.environ[_HASH_SEED] = before


def _serve(sender: Connection, job: _Job) -> None:
    """Run the seeds in the other process, and send the outcomes, up to the first failure."""
    with suppress(KeyboardInterrupt, BrokenPipeError):
        seed = job.seeds[0] if job.seeds else 0
        try:
            _find_module(job.module, job.file)
            simulation = pickle.loads(job.simulation)  # noqa: S301 - from the process that started this one
            for seed in job.seeds:
                run = _run(simulation, seed)
                sender.send(tuple(run if _can_be_sent(run.result) else run._replace(result=None)))
        except Exception as error:
            formatted = traceback.TracebackException.from_exception(error)
            formatted.__notes__ = None  # they are sent with the exception
            text = "".join(formatted.format())
            sender.send(_FailedSeed(seed, pickle.dumps(error) if _can_be_sent(error) else None, text))


def _can_be_sent(value: object) -> bool:
    try:
        pickle.loads(pickle.dumps(value))  # noqa: S301 - its own
    except Exception:
        return False
    return True


def _find_module(name: str, file: str) -> None:
    """Import the module of `main`; by its file if it is not on the path, as with pytest's importlib mode."""
    if name in sys.modules:
        return
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise
        spec = spec_from_file_location(name, file)
        if spec is None or spec.loader is None:
            raise
        module = sys.modules[name] = module_from_spec(spec)
        spec.loader.exec_module(module)


def _rebuilt(failure: _FailedSeed) -> BaseException:
    """Return what was raised in the other process, with its traceback as a note."""
    if failure.error is None:
        error: BaseException = SimulationFailure(failure.text)
    else:
        error = pickle.loads(failure.error)  # noqa: S301 - from the process that this one started
        error.add_note(f"\nin the simulation:\n{failure.text}")
    error.add_note(_replay(failure.seed))
    return error


def _replay(seed: int) -> str:
    """Return the command that runs this seed again, in its own process."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    command = f"python -m pytest {shlex.quote(test)}" if test else shlex.join(["python", *sys.orig_argv[1:]])
    return f"replay: {SEED_VARIABLE}={seed} {_HASH_SEED}=0 {command}"


@contextmanager
def _server_packages() -> Iterator[None]:
    """Make the server's packages importable for the block, and the modules that they hide available after it."""
    users: dict[str, Any] = {}
    if _ROOT == _INSTALLED:
        users = {name: sys.modules.pop(name) for name in _of_packages()}
        sys.modules.update(_set_aside)
    sys.path.insert(0, _ROOT)
    try:
        yield
    finally:
        sys.path.remove(_ROOT)
        if _ROOT == _INSTALLED:
            _set_aside.update({name: sys.modules.pop(name) for name in _of_packages()})
            sys.modules.update(users)


def _of_packages() -> list[str]:
    return [name for name in sys.modules if name.partition(".")[0] in _PACKAGES]
