# SPDX-License-Identifier: Apache-2.0
"""What starts machines and reads their results (tests/vm), with a QEMU that is a script: one that dies or hangs is never a success."""
import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from netns import Netns  # noqa: E402

import debian  # noqa: E402
import machine  # noqa: E402
import run  # noqa: E402

CONSOLE = 'for w in "$@"; do case $w in file:*) c=${w#file:};; esac; done\n'


@pytest.fixture
def start(tmp_path, monkeypatch):
    """start(script) -> (Machine of which SCRIPT is the QEMU, its Results); $c is the file of the console."""
    monkeypatch.setenv("OPENSANDBOX_VM_CACHE", str(tmp_path / "cache"))
    made = []

    def go(script):
        program = tmp_path / "qemu"
        program.write_text("#!/bin/sh\n" + CONSOLE + script)
        program.chmod(0o755)
        monkeypatch.setattr(machine, "QEMU", str(program))
        monkeypatch.setattr(machine, "accelerator", lambda folder: machine.EMULATED)
        made.append(machine.Machine(tmp_path, tmp_path / "payload", tmp_path / "console"))
        return made[-1], run.Results("bookworm", out=io.StringIO())

    yield go
    for m in made:
        m.close()


def test_lines_of_the_guest_are_results(start):
    m, results = start(r"""printf 'NOTE Linux 6.1\nBEGIN a\nPASS a: b (1.0 s)\r\nBEGIN c\nFAIL c: d\t"two\\nlines"\nsomething else\nEND\n'""")
    run.follow(m, results, 60)
    text = results.out.getvalue()
    assert (results.passed, results.failed) == (1, 1)
    assert "ok   bookworm: a: b (1.0 s)\n" in text and "FAIL bookworm: c: d\ntwo\nlines\n" in text and "Linux 6.1" in text


@pytest.mark.parametrize("script, why", [
    ("echo PASS a; echo BEGIN b; echo last words >$c", "it ended early"),
    ("echo BEGIN b; echo last words >$c; exec sleep 60", "not said anything"),
    ("echo BEGIN b; echo last words; Kernel panic - not syncing >$c; exec sleep 60".replace("words;", "words >$c; echo"), "panicked"),
], ids=["dies", "hangs", "panics"])
def test_a_machine_that_stops_has_failed_with_its_last_words(start, script, why):
    m, results = start(script)
    run.follow(m, results, 60, silence_s=3)
    text = results.out.getvalue()
    assert results.failed == 1 and "FAIL bookworm: b\n" in text and why in text, text
    assert "Kernel panic" in text or "last words" in text


def test_what_cannot_be_had_is_skipped_but_never_in_an_automated_run(monkeypatch, capsys):
    def nothing(suite):
        raise debian.Unavailable("no archive here")

    monkeypatch.setattr(debian, "machine", nothing)
    monkeypatch.delenv("CI", raising=False)
    assert run.main(["bookworm"]) == 0
    assert capsys.readouterr().out == "skip bookworm: no archive here\n0 passed, 0 failed, 1 skipped\n"
    monkeypatch.setenv("CI", "1")
    assert run.main(["bookworm"]) == 1
    assert capsys.readouterr().out == "FAIL bookworm: no archive here\n0 passed, 1 failed, 0 skipped\n"


def test_what_was_made_is_made_anew_only_when_its_recipe_changes(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENSANDBOX_VM_CACHE", str(tmp_path))
    made = []

    def make(folder):
        made.append(folder)
        (folder / "disk").touch()

    first = debian.cached("suite", ("a", 1), make)
    assert debian.cached("suite", ("a", 1), make) == first and (first / "disk").exists() and len(made) == 1
    second = debian.cached("suite", ("a", 2), make)
    assert second != first and not first.exists() and len(made) == 2


def test_a_build_that_was_cut_off_is_begun_again(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENSANDBOX_VM_CACHE", str(tmp_path))

    def cut(folder):
        (folder / "half").touch()
        raise debian.Unavailable("the archive went away")

    with pytest.raises(debian.Unavailable):
        debian.cached("suite", "recipe", cut)
    whole = debian.cached("suite", "recipe", lambda folder: (folder / "disk").touch())
    assert sorted(p.name for p in whole.iterdir()) == ["disk"]


def test_a_kvm_that_runs_nothing_is_found_out_once(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENSANDBOX_VM_CACHE", str(tmp_path))
    monkeypatch.setattr(machine.os, "access", lambda path, mode: True)
    tries = []

    def hang(*words, **more):
        tries.append(words)
        raise subprocess.TimeoutExpired("qemu", 1)

    monkeypatch.setattr(machine.subprocess, "run", hang)
    assert machine.accelerator(tmp_path) == machine.accelerator(tmp_path) == machine.EMULATED
    assert len(tries) == 1


COUNT = "import sys; sys.path.insert(0, sys.argv[1]); import census, json; print(json.dumps(census.network()))"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make a network")
@pytest.mark.parametrize("words, counted", [
    (["address", "add", "10.9.8.7/32", "dev", "lo", "label", "lo:left"], "address lo lo:left #.#.#.#/32"),
    (["rule", "add", "to", "10.9.0.0/17", "lookup", "main"], "rule -4 "),
    (["-6", "rule", "add", "to", "fd00::/64", "lookup", "main"], "rule -6 "),
    (["route", "add", "unreachable", "10.9.0.0/17"], "route -4 unreachable "),
    (["route", "add", "unreachable", "10.9.0.0/17", "table", "4711"], "route -4 unreachable "),
])
def test_the_guests_census_counts_what_is_in_the_network(words, counted):
    with contextlib.ExitStack() as stack:
        net = Netns("census")
        stack.callback(net.remove)
        before, again = [json.loads(net.run(sys.executable, "-c", COUNT, str(HERE / "guest"))) for _ in range(2)]
        net.ip(*words)
        after = json.loads(net.run(sys.executable, "-c", COUNT, str(HERE / "guest")))
    assert before == again and before
    assert any(name.startswith(counted) and after[name] == before.get(name, 0) + 1 for name in after), (before, after)
