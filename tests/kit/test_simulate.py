"""Simulated applications: wrong consumers are found, the mended one passes, and each seed repeats its run."""

import asyncio
import importlib
import os
import re
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from barnabas.testing import SimulatedCluster, SimulationRun, simulate
from tests.kit import payments
from tests.proofs import count

ROOT = Path(__file__).parents[2]
SEEDS = int(os.environ.get("BARNABAS_TEST_APPLICATION_SEEDS", "10"))
SEARCHED = 40
"""Of the first so many seeds, some find each wrong consumer, within a minute."""
FEW = 6
"""Of the first so many seeds, some find the wrong consumer of docs/TESTING.md."""


@pytest.mark.parametrize(
    "wrong", [payments.committing_first, payments.forgetting], ids=lambda one: one.args[0].__name__
)
def test_a_wrong_consumer_is_found_and_the_failure_replays(wrong: partial[object]) -> None:
    with pytest.raises(AssertionError, match="payments are missing") as found:
        simulate(wrong, seed=range(1, 1 + SEARCHED), fault_interval=1.0)  # type: ignore[arg-type]
    told = "\n".join(found.value.__notes__)
    [seed] = re.findall(r"replay: BARNABAS_SEED=(\d+) PYTHONHASHSEED=0 python -m pytest \S+", told)
    assert re.search(rf"seed {seed}, \d+\.\d+ s of simulated time; faults until then:\n", told)
    with pytest.raises(AssertionError) as again:
        simulate(wrong, seed=int(seed), fault_interval=1.0)  # type: ignore[arg-type]
    assert (str(again.value), again.value.__notes__[0]) == (str(found.value), found.value.__notes__[0])


def test_the_mended_consumer_passes() -> None:
    runs = simulate(payments.mended, seed=range(1, 1 + SEEDS), fault_interval=1.0)
    assert [run.seed for run in runs] == list(range(1, 1 + SEEDS))
    assert all(run.result > payments.PAYMENTS / 2 for run in runs)
    assert sum(run.faults.get("crash", 0) for run in runs) > SEEDS
    count("seeds of a simulated application", SEEDS)


def test_the_consumer_of_the_page_is_found_if_it_commits_before_its_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs/TESTING.md").read_text()
    [program] = re.findall(r"```python\n((?:(?!```).)*async def consume\(cluster.*?)```", page, re.DOTALL)
    work = re.search(r" +await asyncio.sleep\(0.02\).*\n +ledger.add\(record.value\)\n", program)
    commit = re.search(r" +await consumer.commit\(.*\n", program)
    assert work
    assert commit
    wrong = program.replace(commit[0], "").replace(work[0], commit[0] + work[0])
    assert wrong.count("consumer.commit(") == 1
    (tmp_path / "wrong_payments.py").write_text(wrong)
    monkeypatch.syspath_prepend(tmp_path)
    wrong_payments = importlib.import_module("wrong_payments")
    with pytest.raises(TimeoutError) as found:
        simulate(wrong_payments.main, seed=range(FEW), faults=["crash", "reset", "slow"])
    assert " crash p" in "\n".join(found.value.__notes__)


def test_a_seed_repeats_its_run_in_this_process_as_in_another() -> None:
    program = (
        "from barnabas.testing import simulate\nfrom tests.kit import payments\n"
        "for run in simulate(payments.mended, seed=(3, 2), fault_interval=1.0): print(run.seed, run.events, run.digest)"
    )
    environment = os.environ | {"PYTHONHASHSEED": "0"}
    here = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, check=True, text=True
    )
    apart: list[SimulationRun] = simulate(payments.mended, seed=(2, 3), fault_interval=1.0)
    assert sorted(here.stdout.split("\n")[:2]) == [f"{run.seed} {run.events} {run.digest}" for run in apart]


async def breaks_its_cluster(cluster: SimulatedCluster) -> int:
    """Kill, restart and cut off brokers by hand; return the number of records."""
    topic = await cluster.topic("orders", config={"min.insync.replicas": 2})
    producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, enable_idempotence=True, request_timeout_ms=5000)
    await producer.start()
    for broker, stop in zip(cluster.brokers, ("kill", "cut_off", "pause"), strict=True):
        getattr(broker, stop)()
        await producer.send_and_wait(topic, b"%d" % broker.node_id)
        broker.start()
        broker.reconnect()
        broker.resume()
    await cluster.brokers[0].restart()
    await cluster.heal()
    records = cluster.records(topic)
    assert {int(record.value) for record in records} == {1, 2, 3}
    return len(records)


def test_brokers_are_broken_by_hand() -> None:
    [run] = simulate(breaks_its_cluster, faults=False)
    assert run.result >= 3
    assert run.faults == {}


async def blocks(cluster: SimulatedCluster) -> float:
    """Return how much later the loop goes on after a callback that sleeps."""
    begun = asyncio.get_running_loop().time()
    time.sleep(2)  # noqa: ASYNC251 - that is what is tested
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return asyncio.get_running_loop().time() - begun


def test_a_callback_that_sleeps_stops_its_process() -> None:
    [run] = simulate(blocks, brokers=1, faults=False)
    assert run.result == pytest.approx(2, abs=0.01)
