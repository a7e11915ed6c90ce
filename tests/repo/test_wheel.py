"""The wheel and source distribution: built, inspected, and run in an empty environment outside the checkout."""

import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from email.message import Message
from pathlib import Path, PurePosixPath

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from barnabas import __version__
from tests.repo.tree import ROOT, files, modules
from tests.setups import run
from tests.typed import present

SERVER = ("broker", "controller", "protocol", "simulation", "storage")
INSTALLERS = ("pip", "setuptools")
HOSTILE = "raise SystemExit('a module of the user reached the broker')"


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (built,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path_factory.mktemp("wheel")))
    return Path(built)


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (built,) = SdistBuilder(str(ROOT)).build(directory=str(tmp_path_factory.mktemp("sdist")))
    return Path(built)


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the programs' folder of an environment with the wheel and its pinned requirements."""
    environment = tmp_path_factory.mktemp("installed") / "venv"
    uv = shutil.which("uv")
    venv.create(environment, with_pip=uv is None)
    python = environment / "bin" / "python"
    install: list[str | Path] = [uv, "pip", "install", "--python", python] if uv else [python, "-m", "pip", "install"]
    run(*install, "--quiet", "--require-hashes", "-r", ROOT / "requirements/run.txt", cwd=environment)
    run(*install, "--quiet", "--no-deps", wheel, cwd=environment)
    return environment / "bin"


def contents(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def say(*command: str | Path, shown: str = "", cwd: Path, env: dict[str, str]) -> str:
    return subprocess.run(command, input=shown, cwd=cwd, env=env, capture_output=True, text=True, check=True).stdout


def test_the_wheel_has_the_jobs_and_one_package_with_the_server_inside(wheel: Path) -> None:
    in_wheel = {name for name in contents(wheel) if ".dist-info/" not in name}
    server = {f"barnabas/_server/{module}" for module in modules(*SERVER)}
    definitions = {str(path.relative_to(ROOT)) for path in (ROOT / "barnabas").rglob("*.json")}
    assert in_wheel == {"barnabas/py.typed", *definitions, *modules("barnabas"), *modules("spark_jobs"), *server}


def test_wheel_metadata_is_complete(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        about = f"barnabas-{__version__}.dist-info"
        metadata = email.message_from_bytes(archive.read(f"{about}/METADATA"))
        licence = archive.read(f"{about}/licenses/LICENSE").decode()
        scripts = archive.read(f"{about}/entry_points.txt").decode()
    assert (metadata["Name"], metadata["Version"], metadata["Requires-Python"]) == ("barnabas", __version__, ">=3.11")
    assert (metadata["License-Expression"], licence) == ("Apache-2.0", (ROOT / "LICENSE").read_text())
    assert (
        scripts
        == "[console_scripts]\nbarnabas = barnabas.__main__:main\n\n[pytest11]\nbarnabas = barnabas.testing.plugin\n"
    )


def metadata_of(folder: Path) -> Message:
    (built,) = WheelBuilder(str(ROOT)).build(directory=str(folder))
    with zipfile.ZipFile(built) as archive:
        return email.message_from_bytes(archive.read(f"barnabas-{__version__}.dist-info/METADATA"))


def test_links_of_the_description_work_on_a_package_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = re.compile(r"\]\((?!https?://|#)")
    assert link.search((ROOT / "README.md").read_text(encoding="utf-8"))
    monkeypatch.delenv("BARNABAS_PROJECT_URL", raising=False)
    unpublished = metadata_of(tmp_path / "unpublished")
    assert not link.search(str(unpublished.get_payload()))
    assert "docs/OPERATIONS.md covers settings" in unpublished.get_payload()
    assert "beside-kafka" not in unpublished.get_payload()
    monkeypatch.setenv("BARNABAS_PROJECT_URL", "https://example.org/o/barnabas/")
    published = metadata_of(tmp_path / "published")
    assert not link.search(str(published.get_payload()))
    assert "(https://example.org/o/barnabas/blob/main/docs/OPERATIONS.md)" in published.get_payload()
    assert "(https://example.org/o/barnabas/raw/main/docs/beside-kafka.svg)" in published.get_payload()
    assert published.get_all("Project-URL") == [
        "Repository, https://example.org/o/barnabas",
        "Documentation, https://example.org/o/barnabas/blob/main/docs/ARCHITECTURE.md",
        "Changelog, https://example.org/o/barnabas/blob/main/docs/CHANGELOG.md",
        "Issues, https://example.org/o/barnabas/issues",
    ]


def test_installed_requirements_take_less_than_32_mb(installed: Path) -> None:
    (packages,) = installed.parent.glob("lib/python*/site-packages")
    sources = (path for path in packages.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    sizes = {path: path.stat().st_size for path in sources if path.relative_to(packages).parts[0] not in INSTALLERS}
    assert sum(sizes.values()) < 32_000_000


def test_the_source_distribution_has_every_file_and_nothing_else(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        found = {str(PurePosixPath(*PurePosixPath(name).parts[1:])) for name in archive.getnames()}
    assert found - {"PKG-INFO"} == {str(path.relative_to(ROOT)) for path in files()}


def test_the_source_distribution_builds_the_same_wheel(sdist: Path, wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    (built,) = WheelBuilder(str(source)).build(directory=str(tmp_path))
    assert contents(Path(built)) == contents(wheel)


@pytest.mark.parametrize("package", [*SERVER, "tests", "docs"])
def test_nothing_but_barnabas_and_the_jobs_can_be_imported(installed: Path, package: str) -> None:
    done = subprocess.run([installed / "python", "-c", f"import {package}"], cwd="/", capture_output=True, check=False)
    assert b"ModuleNotFoundError" in done.stderr


def test_modules_of_the_user_do_not_affect_the_broker(installed: Path, tmp_path: Path) -> None:
    for name in SERVER:
        (tmp_path / f"{name}.py").write_text(HOSTILE)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    barnabas = installed / "barnabas"
    command: list[str | Path] = [
        barnabas,
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        "data",
        "--topic",
        "letters:2",
    ]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as broker:
        try:
            ready = present(broker.stdout).readline()
            assert ready.startswith("ready: 127.0.0.1:")
            environment["BARNABAS_BROKERS"] = ready.split()[1]
            say(barnabas, "produce", "letters", shown="alpha\nbeta\n", cwd=tmp_path, env=environment)
            consumed = say(barnabas, "consume", "letters", "--exit", cwd=tmp_path, env=environment)
        finally:
            broker.terminate()
    assert broker.returncode == 0
    assert sorted(consumed.splitlines()) == ["alpha", "beta"]
    assert (tmp_path / "data" / "letters-1" / "00000000000000000000.log").exists()


def test_an_installed_package_simulates_beside_modules_of_the_user(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "storage.py").write_text("mine = True\n")
    (tmp_path / "program.py").write_text(
        "import storage\nfrom barnabas.testing import simulate\n\n\n"
        "async def main(cluster):\n    await cluster.topic('orders')\n    return cluster.bootstrap\n\n\n"
        "if __name__ == '__main__':\n    print([run.result for run in simulate(main, seed=(1, 2))])\n"
        "    import storage as again\n    print(again is storage, storage.mine)\n"
    )
    for hash_seed in ("0", "random"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        printed = say(installed / "python", "program.py", cwd=tmp_path, env=environment)
        assert printed == f"{['b1:9092,b2:9092,b3:9092'] * 2}\nTrue True\n"


def test_the_installed_commands_write_and_read_every_codec(installed: Path, tmp_path: Path) -> None:
    barnabas = installed / "barnabas"
    serve: list[str | Path] = [barnabas, "serve", "--listen", "127.0.0.1:0", "--ephemeral"]
    with subprocess.Popen(serve, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as broker:
        try:
            environment = {**os.environ, "BARNABAS_BROKERS": present(broker.stdout).readline().split()[1]}
            lines = {codec: f"{codec * 100}\n" for codec in ("gzip", "snappy", "lz4", "zstd")}
            for codec, line in lines.items():
                say(barnabas, "produce", "words", "-z", codec, shown=line, cwd=tmp_path, env=environment)
            assert say(barnabas, "consume", "words", "--exit", cwd=tmp_path, env=environment) == "".join(lines.values())
        finally:
            broker.terminate()


def test_wheel_serves_every_api_of_the_checkout(installed: Path) -> None:
    (server,) = installed.parent.glob("lib/python*/site-packages/barnabas/_server")
    count = "from broker.routes import served_apis; print(*sorted(served_apis('broker')))"
    from_wheel = run(installed / "python", "-c", count, cwd=server)
    assert from_wheel == run(sys.executable, "-c", count, cwd=ROOT)
    assert len(from_wheel.split()) > 10
