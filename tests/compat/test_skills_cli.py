# SPDX-License-Identifier: Apache-2.0
"""The published CLI's skills and ours, side by side: the same places, the same words about what happened. Their texts differ."""
import json
import subprocess
import sys

import pytest

pytest.importorskip("opensandbox_cli", reason="needs the packages of tests/compat/requirements.txt")

from conftest import BIN, clean_environment  # noqa: E402

SKILLS = ["sandbox-troubleshooting", "sandbox-lifecycle", "command-execution", "file-operations", "network-egress"]


class Side:
    def __init__(self, command, folder):
        self.command, self.home = command, folder / "home"
        self.project = self.home / "project"
        self.project.mkdir(parents=True)

    def run(self, *args):
        """Status and, of a success, the JSON; paths below the home are told without it."""
        done = subprocess.run([*self.command, "skills", *args, "-o", "json"], cwd=self.project, env=clean_environment(self.home), capture_output=True,
                              text=True, timeout=60, check=False)
        return done.returncode, json.loads(done.stdout.replace(str(self.home), "~")) if done.returncode == 0 else None

    def files(self):
        return sorted(str(p.relative_to(self.home)) for p in self.home.rglob("*") if p.is_file())


@pytest.fixture
def both(tmp_path):
    return Side([sys.executable, "-m", "opensandbox_cli"], tmp_path / "theirs"), Side([str(BIN / "osb")], tmp_path / "ours")


def test_lists_have_the_same_shape(both):
    theirs, ours = (side.run("list")[1] for side in both)
    assert [s["slug"] for s in theirs["skills"]] == [s["slug"] for s in ours["skills"]][:5]
    for a, b in zip(theirs["skills"], ours["skills"]):
        assert list(a) == list(b)
        assert [a[k] for k in ("slug", "package_file", "title", "marker_id", "area")] == [b[k] for k in ("slug", "package_file", "title", "marker_id", "area")]
    for a, b in zip(theirs["targets"], ours["targets"]):
        b["skills"] = b["skills"][:5]
        assert a == b


@pytest.mark.parametrize("target, scope", [("all", "project"), ("all", "global"), ("cline", "project")])  # theirs takes a second each time
def test_the_same_steps_lead_to_the_same_places(both, target, scope):
    where = ["--target", target, "--scope", scope]
    steps = [["install", SKILLS[0], *where], ["install", SKILLS[3], *where], ["install", SKILLS[3], *where, "--force"], ["uninstall", *where],
             ["uninstall", *where], ["install", *where], ["uninstall", SKILLS[3], *where]]
    for step in steps:
        theirs, ours = (side.run(*step) for side in both)
        assert theirs == ours, step
        assert both[0].files() == both[1].files(), step


def test_the_same_mistakes_are_refused(both):
    for args in (["show"], ["show", "x"], ["install", "x", "--target", "claude", "--scope", "project"], ["install", SKILLS[0], "--target", "claude"],
                 ["install", SKILLS[0], "--scope", "project"], ["uninstall"], ["install", SKILLS[0], "--target", "x", "--scope", "project"],
                 ["install", SKILLS[0], "--all-builtins", "--target", "claude", "--scope", "project"]):
        theirs, ours = (side.run(*args) for side in both)
        assert theirs == ours, args


@pytest.mark.parametrize("slug", SKILLS)
def test_a_skill_is_shown_with_the_same_keys(both, slug):
    theirs, ours = (side.run("show", slug)[1] for side in both)
    assert list(theirs) == list(ours) and (theirs["skill"], theirs["title"], theirs["area"]) == (ours["skill"], ours["title"], ours["area"])
