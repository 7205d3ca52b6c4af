# SPDX-License-Identifier: Apache-2.0
"""osb skills and osb mcp install: files of other programs, changed without a loss."""
import functools
import json
import os
import re
import subprocess

import pytest
import yaml

from conftest import BIN, ROOT, assert_clean, clean_environment

try:
    import tomllib
except ImportError:  # older than Python 3.11
    tomllib = None

OSB = BIN / "osb"
SKILLS = ["sandbox-troubleshooting", "sandbox-lifecycle", "command-execution", "file-operations", "network-egress", "credential-vault"]
OWN = {"claude": ".claude/skills/{}.md", "cursor": ".cursor/rules/{}.mdc", "codex": ".codex/skills/{}/SKILL.md", "opencode": ".agents/skills/{}/SKILL.md"}
SHARED = {"copilot": ".github/copilot-instructions.md", "windsurf": ".windsurfrules", "cline": ".clinerules"}
FRONT = {"claude", "codex", "opencode"}


class Osb:
    def __init__(self, folder):
        self.home, self.project = folder / "home", folder / "project"
        self.home.mkdir(), self.project.mkdir()

    def run(self, *args, status=0):
        done = subprocess.run([OSB, *args], cwd=self.project, env=clean_environment(self.home), capture_output=True, text=True, timeout=60,
                              stdin=subprocess.DEVNULL, check=False)
        assert_clean(done.stderr)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout if status == 0 else done.stderr

    def json(self, *args):
        return json.loads(self.run(*args, "-o", "json"))

    def folder(self, scope):
        return self.project if scope == "project" else self.home


@pytest.fixture
def osb(tmp_path):
    return Osb(tmp_path)


def text_of(slug):
    return (ROOT / f"skills/{slug}.md").read_text()


# ---- looking


@pytest.mark.smoke
def test_the_list_names_skills_and_places(osb):
    listed = osb.json("skills", "list")
    assert [s["slug"] for s in listed["skills"]] == SKILLS
    for skill in listed["skills"]:
        assert list(skill) == ["slug", "package_file", "title", "summary", "trigger_hint", "marker_id", "area", "source_path"]
        assert skill["marker_id"] == f"opensandbox-{skill['slug']}" and skill["trigger_hint"].startswith("Use when ")
    assert [s["area"] for s in listed["skills"]] == ["Troubleshooting", "Lifecycle", "Execution", "Files", "Network", "General"]
    assert [(t["target"], t["scope"]) for t in listed["targets"]] == [
        (t, s) for t in ("claude", "cursor", "codex", "copilot", "windsurf", "cline", "opencode") for s in ("project", "global")]
    paths = {(t["target"], t["scope"], s["skill"]): (s["status"], s["path"]) for t in listed["targets"] for s in t["skills"]}
    assert paths["codex", "global", "file-operations"] == ("not installed", f"{osb.home}/.codex/skills/file-operations/SKILL.md")
    assert paths["cline", "project", "file-operations"] == ("not installed", ".clinerules")
    assert "sandbox-lifecycle" in osb.run("skills", "list")
    assert yaml.safe_load(osb.run("skills", "list", "-o", "yaml")) == listed


@pytest.mark.parametrize("slug", SKILLS)
def test_a_skill_is_shown(osb, slug):
    shown = osb.json("skills", "show", slug)
    assert list(shown) == ["skill", "title", "area", "summary", "trigger_hint", "when_to_use", "quick_start", "json_shapes", "content"]
    assert shown["content"] == text_of(slug) == osb.run("skills", "show", slug)
    assert shown["quick_start"].count("```") >= 2
    front = yaml.safe_load(text_of(slug).split("---")[1])
    assert front == {"name": slug, "description": f"{shown['summary']} {shown['trigger_hint']}"}


def test_what_is_wrong_is_a_usage_error(osb):
    for args in (["show", "nope"], ["install", "nope", "--target", "claude", "--scope", "project"], ["install", "--target", "claude", "--scope", "project"],
                 ["install", "sandbox-lifecycle", "--target", "claude"], ["install", "sandbox-lifecycle", "--scope", "global"],
                 ["install", "sandbox-lifecycle", "--target", "vi", "--scope", "global"],
                 ["install", "sandbox-lifecycle", "--all-builtins", "--target", "claude", "--scope", "project"], ["uninstall"], ["show"]):
        assert osb.run("skills", *args, status=2)
    assert list(osb.project.iterdir()) == [] and list(osb.home.iterdir()) == []


# ---- installing


def operate(osb, what, slug, target, scope):
    args = ["--all-builtins"] if slug is None else [slug]
    done = osb.json("skills", what, *args, "--target", target, "--scope", scope)
    assert done["requires_restart"] is True
    return done["operations"]


@pytest.mark.parametrize("scope", ["project", "global"])
@pytest.mark.parametrize("target", OWN)
def test_a_file_of_its_own(osb, target, scope):
    slug, path = "file-operations", osb.folder(scope) / OWN[target].format("file-operations")
    [done] = operate(osb, "install", slug, target, scope)
    assert done["status"] == "installed" and done["skill"] == slug and done["scope"] == scope and done["target"] == target
    assert done["path"] == (OWN[target].format(slug) if scope == "project" else str(path))
    text = path.read_text()
    if target in FRONT:
        assert text == text_of(slug)
    else:
        assert text.startswith("# OpenSandbox File Operations\n\nRead, write") and "---\nname" not in text
    assert operate(osb, "install", slug, target, scope)[0]["status"] == "already_present"
    path.write_text("old")
    assert operate(osb, "install", slug, target, scope)[0]["status"] == "updated" and path.read_text() == text
    other = path.parent / "mine"
    if "SKILL" not in OWN[target]:
        other.write_text("mine")
    assert operate(osb, "uninstall", slug, target, scope)[0]["status"] == "removed"
    assert not path.exists() and path.parent.exists() == ("SKILL" not in OWN[target])
    assert operate(osb, "uninstall", slug, target, scope)[0]["status"] == "not_installed"


@pytest.mark.parametrize("before", [None, "", "# Mine\n\nkeep this", "# Mine\n"])
@pytest.mark.parametrize("scope", ["project", "global"])
@pytest.mark.parametrize("target", SHARED)
def test_a_block_in_a_shared_file(osb, target, scope, before):
    path = osb.folder(scope) / SHARED[target]
    path.parent.mkdir(exist_ok=True)
    if before is not None:
        path.write_text(before)
        path.chmod(0o600)
    for slug in SKILLS[:2]:
        assert operate(osb, "install", slug, target, scope)[0]["status"] == "installed"
        assert operate(osb, "install", slug, target, scope)[0]["status"] == "already_present"
    text = path.read_text()
    assert text.startswith(before or "<!-- BEGIN") and text.count("<!-- BEGIN opensandbox-") == text.count("<!-- END opensandbox-") == 2
    assert before is None or path.stat().st_mode & 0o777 == 0o600
    path.write_text(text.replace("Pending for long", "x") + "after\n")
    assert operate(osb, "install", SKILLS[0], target, scope)[0]["status"] == "updated"
    assert path.read_text() == text + "after\n"
    path.write_text(text)
    for slug in SKILLS[:2]:
        assert operate(osb, "uninstall", slug, target, scope)[0]["status"] == "removed"
        assert operate(osb, "uninstall", slug, target, scope)[0]["status"] == "not_installed"
    assert (path.read_text().strip() == before.strip()) if before else not path.exists()


def test_all_of_them_everywhere(osb):
    done = operate(osb, "install", None, "all", "project")
    assert len(done) == len(SKILLS) * 7 and {d["status"] for d in done} == {"installed"}
    listed = osb.json("skills", "list")
    assert all(s["status"] == "installed" for t in listed["targets"] if t["scope"] == "project" for s in t["skills"])
    assert all(s["status"] == "not installed" for t in listed["targets"] if t["scope"] == "global" for s in t["skills"])
    [done] = [d for d in osb.json("skills", "uninstall", "--target", "claude", "--scope", "project")["operations"]]
    assert done["skill"] == "sandbox-troubleshooting" and done["status"] == "removed"
    assert "already_present" in osb.run("skills", "install", "file-operations", "--target", "claude", "--scope", "project")


def test_links_are_followed_and_others_not_replaced(osb):
    (osb.project / "real").write_text("mine\n")
    (osb.project / ".clinerules").symlink_to("real")
    operate(osb, "install", "file-operations", "cline", "project")
    assert (osb.project / ".clinerules").is_symlink() and "BEGIN" in (osb.project / "real").read_text()
    (osb.project / ".windsurfrules").mkdir()
    osb.run("skills", "install", "file-operations", "--target", "windsurf", "--scope", "project", status=1)
    (osb.home / ".claude").write_text("a file")
    osb.run("skills", "install", "file-operations", "--target", "claude", "--scope", "global", status=1)


def test_links_out_of_a_project_are_not_followed(osb):
    profile = osb.home / ".profile"
    profile.write_text("mine\n")
    (osb.project / ".clinerules").symlink_to(profile)
    (osb.project / ".windsurfrules").symlink_to(osb.home / "not-there")
    (osb.project / ".claude").symlink_to(osb.home)
    (osb.project / ".mcp.json").symlink_to(osb.home / ".claude.json")
    (osb.home / ".claude.json").write_text("{}")
    for target in ("cline", "windsurf", "claude"):
        osb.run("skills", "install", "file-operations", "--target", target, "--scope", "project", status=1)
    assert "leads out" in osb.run("mcp", "install", "claude", "--scope", "project", "--write", status=1)
    assert profile.read_text() == "mine\n" and sorted(p.name for p in osb.home.iterdir()) == [".claude.json", ".profile"]
    (osb.home / "rules").write_text("mine\n")  # of one's own it is: links there are one's own, too
    (osb.home / ".clinerules").symlink_to(osb.home / "rules")
    osb.run("skills", "install", "file-operations", "--target", "cline", "--scope", "global")
    assert "BEGIN" in (osb.home / "rules").read_text()


LATER = {"run", "shell", "cp", "snapshot", "image"}  # looked at as soon as they are there


def test_commands_of_the_skills_exist(osb):
    """What a skill tells to run is a command of osb, with options that it has."""
    help_of = functools.cache(lambda *path: osb.run(*path, "--help"))
    for slug in SKILLS:
        for line in re.findall(r"`(osb [^`\n]+)`|^(osb [^#\n]+)", text_of(slug), re.M):
            for one in re.split(r"[;|]", line[0] or line[1]):
                words = one.split()
                if words[:1] != ["osb"] or (words[1] in LATER and f"\n    {words[1]}\n" not in help_of()):
                    continue
                path = []
                for word in words[1:4]:
                    commands = help_of(*path)
                    if not re.search(rf"^ +{re.escape(word)}(?: |$)", commands, re.M) or not word.islower():
                        break
                    path.append(word)
                help_text = help_of(*path)
                assert path and "\nCOMMANDS\n" not in help_text, (slug, one, path)
                before = words[: words.index("--")] if "--" in words else words
                for option in (w for w in before if w.startswith("--")):
                    assert option.split("=")[0] in help_text, (slug, one)


# ---- osb mcp install


CLIENTS = {
    "claude": (".mcp.json", ".claude.json", "mcpServers"), "cursor": (".cursor/mcp.json", ".cursor/mcp.json", "mcpServers"),
    "claude-desktop": (None, ".config/Claude/claude_desktop_config.json", "mcpServers"),
    "windsurf": (None, ".codeium/windsurf/mcp_config.json", "mcpServers"),
    "cline": (None, ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json", "mcpServers"),
    "opencode": ("opencode.json", ".config/opencode/opencode.json", "mcp"), "vscode": (".vscode/mcp.json", ".config/Code/User/mcp.json", "servers"),
    "codex": (".codex/config.toml", ".codex/config.toml", "mcp_servers"),
}


def load(path):
    if path.suffix == ".toml":
        if not tomllib:
            pytest.skip("Python has no reader of TOML")
        return tomllib.loads(path.read_text())
    return json.loads(path.read_text())


@pytest.mark.parametrize("scope", ["project", "global"])
@pytest.mark.parametrize("client", CLIENTS)
def test_an_entry_is_written_and_works(osb, client, scope):
    file = CLIENTS[client][scope == "global"]
    if not file:
        assert "global" in osb.run("mcp", "install", client, "--scope", scope, "--write", status=2)
        return
    path = osb.folder(scope) / file
    assert not path.exists() and osb.run("mcp", "install", client, "--scope", scope).count("opensandbox") >= 1 and not path.exists()
    osb.run("--domain", "127.0.0.1:1", "mcp", "install", client, "--scope", scope, "--write")
    entry = load(path)[CLIENTS[client][2]]["opensandbox"]
    command = entry["command"] if client == "opencode" else [entry["command"], *entry["args"]]
    assert command == [os.path.realpath(OSB), "--domain", "127.0.0.1:1", "mcp"]
    ping = subprocess.run(command, input='{"jsonrpc":"2.0","id":1,"method":"ping"}', capture_output=True, text=True, timeout=60, check=True,
                          env=clean_environment(osb.home))
    assert json.loads(ping.stdout) == {"jsonrpc": "2.0", "id": 1, "result": {}}
    written = path.read_text()
    osb.run("--domain", "127.0.0.1:1", "mcp", "install", client, "--scope", scope, "--write")
    assert path.read_text() == written and not path.with_name(path.name + ".bak").exists()


def test_what_was_there_stays_and_has_a_copy(osb):
    path = osb.home / ".claude.json"
    before = '{"numStartups": 12345678901234567890, "mcpServers": {"other": {"command": "x", "env": {"A": "\\u0041"}}},\n\t"last": 1.10}\n'
    path.write_text(before)
    path.chmod(0o600)
    osb.run("mcp", "install", "claude", "--write")
    after = path.read_text()
    assert '"numStartups": 12345678901234567890' in after and '"last": 1.10}\n' in after and '"\\u0041"' in after
    assert set(json.loads(after)["mcpServers"]) == {"other", "opensandbox"} and path.stat().st_mode & 0o777 == 0o600
    assert (osb.home / ".claude.json.bak").read_text() == before
    assert (osb.home / ".claude.json.bak").stat().st_mode & 0o777 == 0o600  # there may be secrets in it
    path.write_text('{ // why\n}')
    assert "by hand" in osb.run("mcp", "install", "claude", "--write", status=1)
    assert path.read_text() == '{ // why\n}'


def test_several_clients_and_unknown_ones(osb):
    printed = osb.run("mcp", "install", "cursor", "codex")
    assert "Cursor, in " in printed and "[mcp_servers.opensandbox]" in printed
    assert "vscode" in osb.run("mcp", "install", status=2) and "emacs" in osb.run("mcp", "install", "emacs", status=2)
    osb.run("mcp", "sing", status=2)
    osb.run("mcp", "--transport", "sse", status=2)
    osb.run("mcp", "--request-timeout-seconds", "soon", status=2)
