# SPDX-License-Identifier: Apache-2.0
"""Rules of the house that a machine can check."""
import ast
import collections
import io
import re
import subprocess
import sys
import tokenize

import pytest

from conftest import BIN, ROOT

RANK = {"base": 0, "sys": 1, "net": 2, "access": 3, "image": 4, "box": 4, "client": 4, "cli": 6}
PROGRAM = 5
# Within the server; rooms with the same number do not know each other.
ROOM_RANK = {"runtime": 0, "config": 1, "store": 1, "images": 2, "native": 3, "model": 3, "http": 4, "proxy": 5, "api": 6, "boot": 7}
SOURCES = sorted(p for p in (ROOT / "src").rglob("*.[ch]"))
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)


def folder(path):
    return path.relative_to(ROOT / "src").parts[0]


@pytest.mark.smoke
def test_includes_point_downwards():
    wrong = []
    for path in SOURCES:
        here = folder(path)
        for name in INCLUDE.findall(path.read_text()):
            there = name.split("/")[0]
            assert (ROOT / "src" / name).exists(), f"{path}: {name}"
            if there == here:
                continue
            up = RANK.get(there, PROGRAM) >= RANK.get(here, PROGRAM)
            if up:
                wrong.append(f"{path.relative_to(ROOT)} includes {name}")
    assert not wrong


def test_rooms_of_the_server_include_downwards():
    """But for what only tests include."""
    wrong = []
    for path in (ROOT / "src/server").glob("*/*.[ch]"):
        if path.stem.endswith("_test") or path.name.startswith("test_"):
            continue
        for name in INCLUDE.findall(path.read_text()):
            parts = name.split("/")
            there = parts[1] if parts[0] == "server" else path.parent.name
            if there != path.parent.name and ROOM_RANK[there] >= ROOM_RANK[path.parent.name]:
                wrong.append(f"{path.relative_to(ROOT)} includes {name}")
    assert not wrong


# What only tests (and benchmarks) call, and why it is there all the same.
FOR_TESTS = {
    "seccomp_judge": "F4: filters are run in a simulator",
    "seccomp_simulate": "F4",
}


def symbols():
    """Per source: the names that it offers to others, and those that it takes from others."""
    objects = {p: ROOT / "src" / p.relative_to(BIN.parent / "obj").with_suffix(".c") for p in (BIN.parent / "obj").rglob("*.o")}
    objects = {p: source for p, source in objects.items() if source.exists()}
    text = subprocess.run(["nm", "-A", *objects], capture_output=True, text=True, check=True).stdout
    names = {"gives": collections.defaultdict(set), "takes": collections.defaultdict(set)}
    sources = {str(p): source for p, source in objects.items()}
    for line in text.splitlines():
        path, _, rest = line.partition(":")
        kind, name = rest.split()[-2:]
        if kind in "TDRBU":
            names["takes" if kind == "U" else "gives"][sources[path]].add(name)
    return names["gives"], names["takes"]


@pytest.mark.skipif(not (BIN.parent / "obj").exists(), reason="there are no objects beside the programs")
def test_every_name_in_a_header_is_used():
    """By another file; or by its own file and by a test of it. Everything else is static, or is not there."""
    gives, takes = symbols()
    taken = set().union(*(names for source, names in takes.items() if not source.stem.endswith("_test")))
    tests = "\n".join(p.read_text() for pattern in ("src/**/*_test.c", "src/**/*_test.h", "src/**/test_*.h", "tests/**/*.c", "fuzz/*.c", "bench/*.c")
                      for p in ROOT.glob(pattern))
    tested = set(re.findall(r"\w+", tests))
    wrong = []
    for source, names in gives.items():
        if source.stem.endswith("_test"):
            continue
        words = collections.Counter(re.findall(r"\w+", re.sub(r"/\*.*?\*/", "", source.read_text(), flags=re.S)))
        for name in names - taken - FOR_TESTS.keys():
            if name == "main" or name.startswith(("osb_", "__")) or (words[name] > 1 and name in tested):
                continue
            wrong.append(f"{source.relative_to(ROOT)}: {name}" + ("" if words[name] < 2 else ": make it static"))
    assert not wrong
    given = set().union(*gives.values())
    stale = [f"{name}: {'a program calls it' if name in taken else 'there is none'}" for name in FOR_TESTS if name in taken or name not in given]
    assert not stale, "excuses that are not needed"


def test_only_tls_knows_openssl():
    wrong = [p.name for p in SOURCES if "#include <openssl" in p.read_text() and not p.name.startswith("tls")]
    assert not wrong


def test_only_the_reader_of_archives_knows_libarchive():
    wrong = [p.name for p in SOURCES if "#include <archive" in p.read_text() and p not in (ROOT / "src/image/tar.c", ROOT / "src/image/decompress.c")]
    assert not wrong


@pytest.mark.smoke
def test_every_source_names_its_licence_and_bans_the_banned():
    for pattern in ("src/**/*.[ch]", "fuzz/*.c", "bench/*.c", "tests/**/*.c"):
        for path in ROOT.glob(pattern):
            text = path.read_text()
            assert text.startswith("// SPDX-License-Identifier: Apache-2.0\n"), path
            if path.suffix == ".c":
                assert INCLUDE.findall(text)[-1] == "base/banned.h", path
    for path in [*(p for p in ROOT.glob("tools/**/*") if p.is_file() and p.suffix != ".pyc"), *ROOT.glob("tests/**/*.py"), *ROOT.glob("bench/*.py"), ROOT / "Makefile"]:
        if path.suffix != ".txt":
            assert "# SPDX-License-Identifier: Apache-2.0" in path.read_text()[:200], path


ROOMS = "client compat conformance egress execd faults images ingress lib mcp osb peers security server vm warden".split()


def test_tests_stand_in_the_folder_of_what_they_are_about():
    """Helpers stand in tests/lib; a test by itself there, or beside the folders, would be found by nobody."""
    python = [p.relative_to(ROOT / "tests") for p in (ROOT / "tests").rglob("*.py")]
    assert {p.name for p in python if len(p.parts) == 1} == {"conftest.py", "test_check.py", "test_structure.py", "test_readme.py"}
    assert {p.parts[0] for p in python if p.name.startswith("test_") and len(p.parts) > 1} == {*ROOMS} - {"lib"}
    names = collections.Counter(p.name for p in python if p.name.startswith("test_") and p.parts[0] != "compat")
    assert [n for n in names if names[n] > 1] == [], "pytest knows files by their names alone"


def test_files_that_take_long_are_there():
    assert [name for name in (ROOT / "tests/slow.txt").read_text().split() if not (ROOT / "tests" / name).exists()] == []


def test_no_file_is_too_long_to_read():
    long = [(p.name, n) for p in SOURCES if (n := len(p.read_text().splitlines())) > 800]
    assert not long


def test_every_fuzz_target_has_seeds():
    for path in (ROOT / "fuzz").glob("*.c"):
        if path.stem != "replay":
            assert len(list((ROOT / "fuzz/corpus" / path.stem).iterdir())) >= 5, path


def test_every_folder_of_sources_has_a_readme():
    assert [p.name for p in (ROOT / "src").iterdir() if p.is_dir() and not (p / "README.md").exists()] == []


def test_links_in_documents_resolve():
    """To files of the repository."""
    dead = []
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/**/*.md")]:
        for target in re.findall(r"\]\(([^)#\s]+)", path.read_text()):
            if "://" not in target and not (path.parent / target).exists():
                dead.append(f"{path.relative_to(ROOT)}: {target}")
    assert not dead


CITED = re.compile(r"(?<![A-Za-z0-9_\"'])((?:TB|[GPNCFRDVOLAWISKTBE])[1-9]\d?b?)(?![A-Za-z0-9_\"'])")


def prose(path):
    """Comments of C; comments, docstrings and names of tests of Python. Not data, which may look like an id."""
    text = path.read_text()
    if path.suffix != ".py":
        return "\n".join(re.findall(r"/\*.*?\*/|//[^\n]*", text, re.S))
    words = [t.string for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type == tokenize.COMMENT]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            words += [ast.get_docstring(node) or "", getattr(node, "name", "").replace("_", " ")]
    return "\n".join(words)


def test_every_requirement_that_is_cited_is_in_the_threat_model():
    defined = re.findall(r"^- \*\*([A-Z]+\d+b?)\*\* ", (ROOT / "docs/threat-model.md").read_text(), re.M)
    assert len(defined) == len(set(defined))
    paths = [*SOURCES, *(p for p in (ROOT / "tests").rglob("*.py") if "node_modules" not in p.parts)]
    cited = collections.defaultdict(set)
    for path in paths:
        for name in CITED.findall(prose(path)):
            cited[name].add(str(path.relative_to(ROOT)))
    assert len(cited) > 100 and {name: cited[name] for name in cited.keys() - set(defined)} == {}


STATIC = ROOT / "build/musl/bin/static-probe"


@pytest.mark.parametrize("variant", ["musl", pytest.param("aarch64-musl", marks=pytest.mark.alone("built beside other tests"))])
def test_what_runs_in_a_sandbox_needs_no_libraries(variant):
    execd = ROOT / "build" / variant / "bin/execd"
    if not execd.exists():
        pytest.skip(f"build/{variant} is not built: make V={variant} musl")
    headers = subprocess.run(["readelf", "-lWd", execd], check=True, capture_output=True, text=True).stdout
    assert "INTERP" not in headers and "NEEDED" not in headers
    assert "GNU_STACK" in headers and "RWE" not in headers


def test_what_runs_in_a_sandbox_works():
    if not STATIC.exists():
        pytest.skip("build/musl is not built: make musl")
    assert subprocess.run([STATIC], check=True, capture_output=True, text=True, timeout=10).stdout == "ok\n"


def test_release_programs_are_hardened():
    program = ROOT / "build/release/bin/opensandbox-server"
    if not program.exists():
        pytest.skip("build/release is not built: make")
    headers = subprocess.run(["readelf", "-hlWd", program], check=True, capture_output=True, text=True).stdout
    assert "DYN (Position-Independent Executable" in headers
    assert "BIND_NOW" in headers and "GNU_RELRO" in headers and "RWE" not in headers
    symbols = subprocess.run(["nm", "-D", program], check=True, capture_output=True, text=True).stdout
    assert "__stack_chk_fail" in symbols and "_chk@" in symbols


@pytest.mark.smoke
def test_no_two_archives_define_the_same_name():
    """The linker would take whichever comes first, without a word."""
    archives = sorted((ROOT / "build/asan").glob("lib*.a"))
    if not archives:
        pytest.skip("nothing is built")
    names = subprocess.run(["nm", "-g", "--defined-only", *archives], capture_output=True, text=True, check=True).stdout
    seen = re.findall(r"^[0-9a-f]+ T (\w+)$", names, re.M)
    assert len(seen) > 500 and sorted({n for n in seen if seen.count(n) > 1}) == []


@pytest.mark.parametrize("letter, last", [("W", 11), ("E", 31)])
def test_every_requirement_and_weak_spot_of_networks_has_a_test_that_names_it(letter, last):
    """In the name of the test, or beside it."""
    lines = [line for p in (ROOT / "tests").rglob("test_*.py") for line in p.read_text().splitlines() if line.startswith("def test_")]
    named = {n for line in lines for n in re.findall(rf"(?<![A-Za-z0-9]){letter}(\d+)(?![0-9])", line.replace("_", " "))}
    assert {str(i) for i in range(1, last + 1)} - named == set()


@pytest.mark.parametrize("target, group", [("run", "build"), ("check", "test"), ("test", "test"), ("soak", "test"), ("bench", "bench"), ("lint", "lint"), ("fuzz", "lint")])
def test_targets_install_what_they_need(target, group):
    plan = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert f"tools/deps {group}\n" in plan


def packages(group):
    """What `tools/deps GROUP` installs."""
    text = (ROOT / "tools/deps").read_text()
    lists = dict(re.findall(r'^(\w+)="(.*)"$', text, re.M))
    return set(re.sub(r"\$(\w+)", lambda m: lists[m[1]], lists[group]).split())


def benches():
    """The benchmarks, and those modules of the tests that they import, one through another."""
    todo, seen = [*(ROOT / "bench").rglob("*.py")], set()
    while todo:
        path = todo.pop()
        if path in seen or not path.exists():
            continue
        seen.add(path)
        todo += [ROOT / "tests/lib" / f"{name}.py" for name in re.findall(r"^(?:import|from) (\w+)", path.read_text(), re.M)]
    return seen


def test_what_benches_start_is_installed_for_them():
    """Programs of packages that only tests install, as words of their own ("ab" is also a way to open a file)."""
    only_tests, missing = packages("test") - packages("bench"), set()
    listed = {p: subprocess.run(["dpkg", "-L", p], capture_output=True, text=True, check=False).stdout.split() for p in only_tests}
    programs = {path.rsplit("/", 1)[1]: p for p, paths in listed.items() for path in paths if re.search(r"/s?bin/[\w.-]+$", path)}
    assert programs, "none is installed here"
    for path in benches():
        words = re.findall(r"""["'](?:[\w./-]*/)?([\w.-]+)["']""", path.read_text())
        missing |= {f"{path.relative_to(ROOT)}: {word} is of {programs[word]}" for word in words if word in programs and len(word) > 2}
        modules = set(re.findall(r"^(?:import|from) (\w+)", path.read_text(), re.M)) - {*sys.stdlib_module_names, "jupyter_client"}  # kernels.py makes a place for that one
        foreign = {name for name in modules if not any((folder / f"{name}.py").exists() for folder in (ROOT / "tests/lib", ROOT / "bench/lib"))}
        missing |= {f"{path.relative_to(ROOT)}: {name}" for name in foreign if f"python3-{name}" not in packages("bench")}
    assert not missing
