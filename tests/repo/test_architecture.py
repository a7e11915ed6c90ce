"""Everything that ARCHITECTURE.md and DEVELOPING.md name exists: paths, commands, classes, methods, constants."""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import NamedTuple

import pytest

from tests.repo.tree import ROOT, files, modules, parsed

ARCHITECTURE = "docs/ARCHITECTURE.md"
PAGES = (ARCHITECTURE, "docs/DEVELOPING.md")
SERVER = ("protocol", "storage", "controller", "broker")
PRODUCT = (*SERVER, "simulation", "barnabas", "spark_jobs", "docs")

CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
PATH = re.compile(r"[A-Za-z_.][\w.*-]*(?:/[\w.*-]+)*/?")
FILE = re.compile(r"[\w-]+\.(?:py|md|txt|toml)")
CLASS = re.compile(r"(_?[A-Z]\w*[a-z]\w*)(?:\.(\w+))?")
CONSTANT = re.compile(r"_?[A-Z][A-Z_]+")
FUNCTION = re.compile(r"_?[a-z][a-z0-9]*_\w+")
PARTICIPANT = re.compile(r"^(participant|actor) (\w+)(?: as (.+))?$")
ARROW = re.compile(r"^(\w+)(->>|-->>|-\))(\w+): (.+)$")
# Tokens on the pages that are neither paths of this repository nor names in its code.
ELSEWHERE = {"GET", "NAME", "Random", "SEED", "barnabas/_server/"}
LONGEST_WORDS = 1_000


class Names(NamedTuple):
    """The names that a file defines: members by class, and all names with members and parameters."""

    classes: dict[str, set[str]]
    bases: dict[str, list[str]]
    functions: set[str]
    all: set[str]


class Drawing(NamedTuple):
    """A sequence diagram: the files of its participants, and the arrows."""

    files: dict[str, str]
    classes: dict[str, str]
    arrows: list[tuple[str, str, str, str]]


@cache
def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@cache
def names_in(module: str) -> Names:
    """Return the names that a module defines."""
    classes: dict[str, set[str]] = {}
    bases: dict[str, list[str]] = {}
    functions: set[str] = set()
    every: set[str] = set()
    tree = parsed(module)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            every.add(node.name)
            classes.setdefault(node.name, set()).update(members_of(node))
            bases.setdefault(node.name, []).extend(ast.unparse(base).rpartition(".")[2] for base in node.bases)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            every.add(node.name)
        elif isinstance(node, ast.Name):
            every.add(node.id)
        elif isinstance(node, ast.Attribute):
            every.add(node.attr)
        elif isinstance(node, ast.arg):
            every.add(node.arg)
    functions |= {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    return Names(classes, bases, functions, every)


def members_of(definition: ast.ClassDef) -> set[str]:
    """Return the methods and the annotated or assigned attributes of a class."""
    found: set[str] = set()
    for node in ast.walk(definition):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


@cache
def searched() -> tuple[str, ...]:
    """Return the modules to search for names: the product's, and those that the pages name."""
    listed = {str(path.relative_to(ROOT)) for path in files() if path.suffix == ".py"}
    named = {token for page in PAGES for token in PATH.findall(text_of(page)) if token in listed}
    return (*modules(*PRODUCT), *sorted(named - set(modules(*PRODUCT))))


def has_member(name: str, member: str, module: str | None = None) -> bool:
    """Return whether the class `name`, in any module or in `module`, has or inherits a member."""
    for place in searched() if module is None else (module,):
        found = names_in(place)
        if name in found.classes:
            inherited = (has_member(base, member) for base in found.bases[name] if base != name)
            if member in found.classes[name] or any(inherited):
                return True
    return False


def drawings() -> list[str]:
    return [text for language, text in FENCE.findall(text_of(ARCHITECTURE)) if language == "mermaid"]


def tokens(page: str) -> list[str]:
    """Return inline code, without the column of Kafka's names, and blocks that are not drawings."""
    text = text_of(page)
    blocks = [block for language, block in FENCE.findall(text) if language not in ("mermaid", "python")]
    if page == ARCHITECTURE:
        blocks = []  # the folders have their own test
        before, heading, table = text.partition("## Kafka's class -> ours\n")
        text = before + heading + re.sub(r"^\| .*? \|", "|", table, flags=re.MULTILINE)
    inline = CODE.findall(FENCE.sub("", text))
    return [*inline, *(line.strip() for block in blocks for line in block.splitlines())]


def exists(path: str) -> bool:
    """Return whether a path exists, or a pattern with NAME for any name has a match."""
    pattern = re.sub(r"NAME", "*", path.rstrip("/"))
    return (ROOT / path).exists() or ("*" in pattern and any(ROOT.glob(pattern)))


@pytest.mark.parametrize("page", PAGES)
def test_every_path_exists(page: str) -> None:
    tracked = {path.name for path in files()}
    missing = []
    for token in tokens(page):
        for word in token.split():
            if "://" in word or word.startswith(("/", "~", "-", "<")) or word in ELSEWHERE:
                continue
            is_path = "/" in word and PATH.fullmatch(word) is not None
            if (is_path and not exists(word)) or (FILE.fullmatch(word) and word not in tracked):
                missing.append(word)
    assert missing == []


def test_every_file_name_without_folder_exists() -> None:
    """Checks text and drawings."""
    named = {name for page in PAGES for name in FILE.findall(text_of(page)) if "NAME" not in name}
    assert named - {path.name for path in files()} == set()


@pytest.mark.parametrize("page", PAGES)
def test_every_command_exists(page: str) -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    commands = tokens(page)
    assert [
        make[1] for token in commands if (make := re.match(r"make ([a-z-]+)", token)) and make[1] not in targets
    ] == []
    run = {found for token in commands for found in re.findall(r"python -m ([\w.]+)", token)} - {"pytest"}
    paths = {name: ROOT / name.replace(".", "/") for name in run}
    assert [
        name
        for name, path in paths.items()
        if not (path.with_suffix(".py").exists() or (path / "__main__.py").exists())
    ] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_name_is_defined(page: str) -> None:
    apis = {"".join(part.capitalize() for part in name.split("/")[-1][:-3].split("_")) for name in modules("protocol")}
    classes = {name for module in searched() for name in names_in(module).classes}
    every = {name for module in searched() for name in names_in(module).all}
    stems = {path.stem for path in files()}
    unknown = []
    for token in tokens(page):
        name = re.sub(r"\(.*\)$", "", token)
        if name in ELSEWHERE:
            continue
        if found := CLASS.fullmatch(name):
            known = has_member(found[1], found[2]) if found[2] else found[1] in classes | apis | every
        elif CONSTANT.fullmatch(name) or FUNCTION.fullmatch(name):
            known = name in every | stems
        else:
            continue
        if not known:
            unknown.append(name)
    assert unknown == []


@pytest.mark.parametrize("page", PAGES)
def test_imports_of_programs_exist(page: str) -> None:
    programs = [
        ast.parse(re.sub("^   ", "", text, flags=re.MULTILINE))
        for kind, text in FENCE.findall(text_of(page))
        if kind == "python"
    ]
    for program in programs:
        for node in ast.walk(program):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tests."):
                defined = names_in(f"{node.module.replace('.', '/')}.py")
                assert {alias.name for alias in node.names} <= defined.functions | defined.classes.keys()


def rows() -> list[tuple[str, list[str], list[str]]]:
    """Return the rows of the table of Kafka's classes: first cell, our names, linked paths."""
    _, _, table = text_of(ARCHITECTURE).partition("## Kafka's class -> ours\n")
    table, _, _ = table.partition("\n## ")
    lines = [line.strip("|").split(" | ") for line in table.strip().splitlines()[2:]]
    return [
        (kafka.strip(), CODE.findall(ours), re.findall(r"\]\(\.\./([^)]+)\)", links)) for kafka, ours, links in lines
    ]


def test_table_of_kafka_classes_links_our_classes_and_files() -> None:
    assert len(rows()) > 40
    for kafka, ours, paths in rows():
        assert ours, kafka
        assert paths, kafka
        assert all((ROOT / path).exists() for path in paths), kafka
        found = [names_in(path) for path in paths if path.endswith(".py")]
        for name in ours:
            owner, _, member = name.partition(".")
            assert any(owner in one.classes or owner in one.functions for one in found), f"{name} is not in {paths}"
            assert not member or any(has_member(owner, member, path) for path in paths if path.endswith(".py")), name


def test_link_text_is_the_end_of_its_path() -> None:
    links = re.findall(r"\[`?([\w/.]+\.py)`?\]\(\.\./([^)]+)\)", text_of(ARCHITECTURE))
    assert links
    assert [shown for shown, path in links if not path.endswith(shown)] == []


def parse(drawing: str) -> Drawing:
    participants: dict[str, str] = {}
    classes: dict[str, str] = {}
    arrows = []
    for line in map(str.strip, drawing.splitlines()):
        if (found := PARTICIPANT.match(line)) and found[3]:
            first, *path = found[3].split("<br/>")
            participants[found[2]], classes[found[2]] = "".join(path), first
        elif found := ARROW.match(line):
            arrows.append((found[1], found[2], found[3], found[4]))
    return Drawing(participants, classes, arrows)


@pytest.mark.parametrize("drawing", drawings(), ids=["Produce", "Fetch", "CreateTopics"])
def test_drawing_shows_existing_calls(drawing: str) -> None:
    found = parse(drawing)
    assert len(found.arrows) > 10
    for participant, path in found.files.items():
        assert (ROOT / path).is_file(), participant
        title = found.classes[participant]
        assert title in names_in(path).classes or path.endswith(f"/{title}.py"), participant
    for caller, kind, called, label in found.arrows:
        if called not in found.files:
            continue
        for name in re.findall(r"(\w+)\(", label):
            title, place = found.classes[called], found.files[called]
            here = names_in(place)
            methods = {member for members in here.classes.values() for member in members}
            if title in here.classes:
                known = has_member(title, name, place) or name in here.functions
            else:
                known = name in here.functions | methods
            assert known, f"{called} has no {name}"
            # Open arrows are messages, callbacks and passed functions: the caller does not name them.
            if kind == "->>" and caller in found.files and not name.startswith("__"):
                assert name in names_in(found.files[caller]).all, f"{caller} does not call {name}"


def test_every_package_of_the_server_is_on_the_folder_map() -> None:
    [block] = [text for language, text in FENCE.findall(text_of(ARCHITECTURE)) if not language]
    top, room, drawn = "", "", set()
    for line in block.splitlines():
        for indent, name in re.findall(r"(^ *)?([a-z_]+)/(?=[ :])", line):
            if line.startswith(name):
                top, path = name, name
            elif line.strip().startswith(name) and indent == "  ":
                room = path = f"{top}/{name}"
            else:
                path = next(one for one in (f"{room}/{name}", f"{top}/{name}", name) if (ROOT / one).is_dir())
            assert (ROOT / path).is_dir(), path
            drawn.add(path)
    packages = {name.rpartition("/")[0] for name in modules(*SERVER)}
    assert packages - drawn == set()


def test_the_architecture_page_stays_short() -> None:
    text = FENCE.sub("", text_of(ARCHITECTURE))
    assert (
        len([word for line in text.splitlines() if not line.startswith("|") for word in line.split()]) <= LONGEST_WORDS
    )


def test_every_section_that_is_linked_exists() -> None:
    for page in (*PAGES, "docs/FILES.md", "CONTRIBUTING.md", "tests/README.md"):
        folder = (ROOT / page).parent
        for target, section in re.findall(r"\]\(([\w./-]*)#([\w-]+)\)", text_of(page)):
            text = (folder / target if target else ROOT / page).read_text(encoding="utf-8")
            titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
            slugs = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
            assert section in slugs, f"{page}: {target}#{section}"


def test_the_root_of_the_broker_has_at_most_a_dozen_modules() -> None:
    root = [module for module in modules("broker") if "/" not in module.removeprefix("broker/")]
    assert len(root) - len({"broker/__init__.py", "broker/__main__.py"} & set(root)) <= 12
