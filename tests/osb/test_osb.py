# SPDX-License-Identifier: Apache-2.0
"""osb against a real server: every command, every format, every kind of error. What the published tool does the same way is
compared with it in tests/compat/test_cli_compare.py."""
import contextlib
import http.server
import json
import os
import re
import signal
import subprocess
import threading
import time

import pytest

from api import wait_for
from conftest import KEY, ROOT
from osb import PROGRAM, Osb

NO_ID = "00000000-0000-4000-8000-000000000000"
UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


@pytest.fixture(scope="module")
def osb(server, tmp_path_factory):
    return Osb(server, tmp_path_factory.mktemp("osb"))


@pytest.fixture(scope="module")
def nowhere(tmp_path_factory):
    """osb without a server."""
    return Osb(None, tmp_path_factory.mktemp("nowhere"))


@pytest.fixture(scope="module")
def sandbox(osb, api):
    """The id of one that all tests here use."""
    sandbox_id = osb.ok("sandbox", "create", "-i", "host", "-t", "none", "-o", "json", "-m", "kind=shared").json["id"]
    yield sandbox_id
    assert osb("sandbox", "kill", sandbox_id).status == 0


# ---- the program ----


@pytest.mark.smoke
def test_version_and_help_need_no_server(nowhere):
    assert re.fullmatch(r"opensandbox, version \d+\.\d+\.\d+\n", nowhere.ok("--version").stdout)
    root = nowhere.ok("--help").stdout
    assert re.match(r"OpenSandbox v\d", root)
    for group in ("sandbox", "command", "file", "egress", "credential-vault", "config", "diagnostics", "devops", "completion", "man"):
        assert f"\n    {group}\n" in root
    assert "osb command session run" in nowhere.ok("command", "session", "run", "-h").stdout
    assert "osb sandbox - " in nowhere.ok("sandbox").stdout
    bare = nowhere()
    assert bare.status == 2 and bare.stdout == "" and "osb - " in bare.stderr


def test_a_broken_settings_file_does_not_keep_help_away(nowhere, tmp_path):
    broken = tmp_path / "broken.toml"
    broken.write_text("[connection\n")
    assert nowhere.ok("--config", broken, "sandbox", "list", "--help").stdout
    done = nowhere("--config", broken, "sandbox", "list")
    assert done.status == 1 and "broken.toml: line 1:" in done.stderr
    assert nowhere.ok("--config", broken, "completion", "bash").stdout
    assert nowhere("--config", broken, "completion", "sandboxes").status == 1
    assert nowhere.ok("--config", broken, "config", "init", "--force").stdout


@pytest.mark.parametrize("words, hint", [
    (["snadbox", "list"], "did you mean 'sandbox'?"),
    (["sandbox", "lits"], "did you mean 'list'?"),
    (["sandbox", "list", "--stat", "x"], "did you mean '--state'?"),
    (["sandbox", "list", "-o", "xml"], "is not one of table, json, yaml"),
    (["sandbox", "get"], "missing operand: SANDBOX"),
    (["sandbox", "endpoint", "x"], "missing option '--port'"),
    (["sandbox", "endpoint", "x", "-p", "0"], "below 1"),
    (["sandbox", "create", "-i", "host", "-t", "1d"], "invalid duration '1d'"),
    (["sandbox", "create", "-i", "host", "-t", "0"], "cannot live for no time"),
    (["sandbox", "list", "--page", "0"], "below 1"),
    (["egress", "patch", "x", "--rule", "drop=y"], "allow or deny"),
    (["file", "chmod", "x", "/y", "--mode", "888"], "invalid mode '888'"),
    (["man", "nothing"], "there is no such command"),
    (["completion", "tcsh"], "bash, zsh and fish"),
])
def test_words_that_are_wrong_are_a_usage_error(nowhere, words, hint):
    done = nowhere(*words)
    assert done.status == 2 and done.stdout == ""
    assert hint in done.stderr and done.stderr.startswith("Usage: osb ") and "--help'." in done.stderr


# ---- errors say what to do ----


def test_no_server(nowhere):
    done = nowhere("sandbox", "list")
    assert done.status == 1 and "Sandbox Error" in done.stderr and "'osb up' starts one here" in done.stderr
    plain = nowhere("--no-color", "sandbox", "list", "-o", "json")
    assert plain.status == 1 and plain.stdout == "" and plain.stderr.startswith("ERROR [Sandbox Error]: ") and "HINT: " in plain.stderr


def test_no_key(osb):
    done = osb("sandbox", "list", env={"OPEN_SANDBOX_API_KEY": None})
    assert done.status == 1 and "osb config set connection.api_key" in done.stderr


@pytest.mark.parametrize("words", [["sandbox", "get"], ["sandbox", "kill"], ["sandbox", "pause"], ["sandbox", "health"], ["egress", "get"]])
def test_no_such_sandbox(osb, words):
    done = osb(*words, NO_ID)
    assert done.status == 1 and done.stdout == "" and "'osb sandbox list' shows" in done.stderr


def test_verbose_tells_the_request(osb):
    assert re.search(r"code '[A-Z:_]+', status 404, request '\w+'", osb("-v", "sandbox", "get", NO_ID).stderr)


# ---- formats ----


@pytest.mark.parametrize("words", [
    ["sandbox", "get", "{id}"], ["sandbox", "list", "-m", "kind=shared"], ["sandbox", "health", "{id}"],
    ["sandbox", "endpoint", "{id}", "-p", "8080"], ["egress", "get", "{id}"], ["diagnostics", "events", "{id}", "-s", "lifecycle"],
    ["file", "info", "{id}", "/tmp"], ["config", "show"],
])
def test_every_format_holds_the_same(osb, sandbox, words):
    words = [word.replace("{id}", sandbox) for word in words]
    as_json, as_yaml = osb.ok(*words, "-o", "json"), osb.ok(*words, "-o", "yaml")
    assert as_json.json == as_yaml.yaml
    assert as_json.stdout == json.dumps(as_json.json, indent=2, ensure_ascii=False) + "\n"
    assert "\033" not in as_json.stdout + as_yaml.stdout
    table = osb.ok(*words, "-o", "table").stdout
    assert ("╭" in table and "╯" in table) or "✅" in table


def test_results_have_the_names_of_the_sdks(osb, sandbox):
    info = osb.ok("sandbox", "get", sandbox, "-o", "json").json
    assert list(info) == ["id", "status", "entrypoint", "expires_at", "created_at", "image", "snapshot_id", "platform", "metadata"]
    assert info["id"] == sandbox and info["status"]["state"] == "Running" and info["expires_at"] is None
    listed = osb.ok("sandbox", "list", "-s", "running", "-m", "kind=shared", "-o", "json").json
    assert [item["id"] for item in listed["items"]] == [sandbox]
    assert listed["pagination"]["total_items"] == 1
    metrics = osb.ok("sandbox", "metrics", sandbox, "-o", "json").json
    assert set(metrics) == {"cpu_count", "cpu_used_percentage", "memory_total_in_mib", "memory_used_in_mib", "timestamp"}


def test_unicode_is_kept_or_escaped(osb, sandbox):
    osb.ok("file", "write", sandbox, "/tmp/é.txt", "-c", "x")
    words = ["file", "search", sandbox, "/tmp", "-p", "é*", "-o", "json"]
    assert "é.txt" in osb.ok(*words).stdout
    assert "\\u00e9.txt" in osb.ok("--no-color", *words).stdout


def test_what_a_sandbox_says_does_not_reach_the_terminal(osb, sandbox):
    """Names with escape sequences are shown, not obeyed."""
    osb.ok("command", "run", sandbox, "--", "sh", "-c", "touch \"$(printf '/tmp/evil-\\033]0;x\\007')\"")
    for form in ("table", "json", "yaml"):
        shown = osb.ok("file", "search", sandbox, "/tmp", "-p", "evil*", "-o", form).stdout
        assert "evil-" in shown and "\033" not in shown and "\007" not in shown


def test_plain_messages(osb, sandbox):
    assert osb.ok("--no-color", "file", "mkdir", sandbox, "/tmp/plain").stdout.count("created") == 1
    assert osb.ok("--no-color", "file", "write", sandbox, "/tmp/plain/x", "-c", "").stdout == "OK: Written: /tmp/plain/x\n"
    assert osb.ok("file", "write", sandbox, "/tmp/plain/x", "-c", "", "-o", "json").json == {"status": "ok", "message": "Written: /tmp/plain/x"}
    assert osb.ok("--no-color", "file", "search", sandbox, "/tmp/plain", "-p", "none").stdout == "INFO: No files found.\n"


# ---- a terminal ----


def test_colours_are_for_terminals(osb, sandbox):
    status, text = osb.on_terminal("sandbox", "list", "-m", "kind=shared", env={"COLUMNS": "200"})
    assert status == 0 and "\033[1;32m● Running\033[0m" in text
    status, text = osb.on_terminal("sandbox", "list", "-m", "kind=shared", env={"NO_COLOR": "1", "COLUMNS": "200"})
    assert status == 0 and "● Running" in text and "\033" not in text
    status, text = osb.on_terminal("--no-color", "sandbox", "get", NO_ID)
    assert status == 1 and "ERROR [Sandbox Error]" in text and "\033" not in text


def test_operations_that_are_watched_end_as_others(osb, tmp_path):
    """On a terminal osb does not wait inside of the library: a picture moves meanwhile."""
    wide = {"COLUMNS": "300"}
    status, text = osb.on_terminal("sandbox", "create", "-i", "host", env=wide)
    assert status == 0 and "✓ Sandbox Created" in text
    sandbox_id = re.search(UUID, text)[0]
    (tmp_path / "in").write_bytes(b"x" * 100_000)
    for words, want in [(["file", "upload", sandbox_id, tmp_path / "in", "/tmp/in"], "✅ Uploaded: "),
                        (["file", "download", sandbox_id, "/tmp/in", tmp_path / "out"], "✅ Downloaded: "),
                        (["command", "run", sandbox_id, "--", "echo", "it runs"], "it runs"),
                        (["sandbox", "renew", sandbox_id, "-t", "1h"], "Sandbox Renewed"),
                        (["sandbox", "metrics", sandbox_id], "cpu_count"),
                        (["sandbox", "kill", sandbox_id], "○ terminated")]:
        status, text = osb.on_terminal(*words, env=wide)
        assert status == 0 and want in text, text
    assert (tmp_path / "out").read_bytes() == b"x" * 100_000
    status, text = osb.on_terminal("sandbox", "kill", sandbox_id, env=wide)
    assert status == 1 and "Sandbox Error" in text and "osb sandbox list" in text


def test_a_table_fits_the_terminal(osb, sandbox):
    status, text = osb.on_terminal("sandbox", "get", sandbox, env={"COLUMNS": "60", "NO_COLOR": "1"})
    assert status == 0 and max(len(line) for line in text.splitlines()) <= 60


# ---- commands ----


def test_the_status_is_the_commands_own(osb, sandbox):
    for status in (0, 1, 3, 42, 255):
        done = osb("command", "run", sandbox, "--", "sh", "-c", f"echo out; echo err >&2; exit {status}")
        assert (done.status, done.stdout, done.stderr) == (status, "out\n", "err\n")


def test_lines_keep_their_ends(osb, sandbox):
    text = "one\n\n  two\nthree\n"
    assert osb.ok("command", "run", sandbox, "--", "printf", "%s", text).stdout == text
    many = osb.ok("command", "run", sandbox, "--", "seq", "20000").stdout
    assert many == "".join(f"{i}\n" for i in range(1, 20001))


def test_every_byte_comes_as_it_was_written(osb, sandbox):
    for text in ("no end", "progress\\rprogress\\n", "\\377\\000\\033[1m"):
        want = text.encode().decode("unicode_escape").encode("latin-1") if "377" not in text else b"\xff\x00\x1b[1m"
        assert osb.ok("command", "run", sandbox, "--", "printf", text, binary=True).stdout == want


def test_the_input_of_a_command_is_empty(osb, sandbox):
    assert osb.ok("command", "run", sandbox, "--", "cat", stdin=b"not for it").stdout == ""


def test_words_reach_the_command_as_they_are(osb, sandbox):
    words = ["a b", "it's", '"q"', "$HOME", "*", "-x", "--", "é"]
    got = osb.ok("command", "run", sandbox, "--", "printf", "%s\\n", *words).stdout
    assert got.splitlines() == words


def test_working_directory_and_timeout(osb, sandbox):
    assert osb.ok("command", "run", sandbox, "-w", "/usr", "--", "pwd").stdout == "/usr\n"
    began = time.monotonic()
    done = osb("command", "run", sandbox, "-t", "1s", "--", "sleep", "60")
    assert done.status == 124 and "in time" in done.stderr and time.monotonic() - began < 30
    assert osb("command", "run", sandbox, "--", "no-such-program").status == 127
    assert osb("command", "run", sandbox, "-w", "/nowhere", "--", "true").status == 1
    assert osb("file", "info", sandbox, "/nowhere").status == 1  # nobody has made it


def test_ctrl_c_ends_the_command_too(osb, sandbox):
    started = osb.start("command", "run", sandbox, "--", "sh", "-c", "echo begun; exec sleep 4242")
    assert started.stdout.readline() == b"begun\n"
    started.send_signal(signal.SIGINT)
    _, stderr = started.communicate(timeout=30)
    assert started.returncode == 130, stderr
    wait_for(lambda: osb("command", "run", sandbox, "--", "pgrep", "-fx", "sleep 4242").stdout == "", what="the end of the command")


def test_a_reader_that_leaves_is_no_reason_to_hang(osb, sandbox):
    started = osb.start("command", "run", sandbox, "--", "sh", "-c", "yes | head -c 50000000")
    started.stdout.read(10)
    started.stdout.close()
    assert started.wait(60) != 0
    started.stderr.close()


def test_background(osb, sandbox):
    begun = osb.ok("command", "run", sandbox, "-d", "-o", "json", "--", "sh", "-c", "echo a; echo b; exec sleep 4243").json
    assert begun["sandbox_id"] == sandbox and begun["mode"] == "background"
    execution = begun["execution_id"]
    status = osb.ok("command", "status", sandbox, execution, "-o", "json").json
    assert status["running"] is True and status["id"] == execution and status["exit_code"] is None
    wait_for(lambda: osb.ok("command", "logs", sandbox, execution, "-o", "raw").stdout == "a\nb\n\n", what="two lines")
    logs = osb.ok("command", "logs", sandbox, execution, "-o", "json").json
    assert logs["content"] == "a\nb\n"
    again = osb.ok("command", "logs", sandbox, execution, "--cursor", logs["cursor"], "-o", "json").json
    assert again["content"] == ""
    assert "Command Logs" in osb.ok("command", "logs", sandbox, execution).stdout
    osb.ok("command", "interrupt", sandbox, execution)
    wait_for(lambda: not osb.ok("command", "status", sandbox, execution, "-o", "json").json["running"], what="the end")


def test_sessions(osb, sandbox):
    session = osb.ok("command", "session", "create", sandbox, "-w", "/tmp", "-o", "json").json["session_id"]
    run = ["command", "session", "run", sandbox, session]
    assert osb.ok(*run, "--", "export", "KEPT=yes").stdout == ""
    assert osb.ok(*run, "--", "sh", "-c", "pwd; echo $KEPT").stdout == "/tmp\nyes\n"
    assert osb(*run, "--", "sh", "-c", "exit 9").status == 9
    assert osb.ok(*run, "-w", "/usr", "--", "pwd").stdout == "/usr\n"
    started = osb.start(*run, "--", "sh", "-c", "echo begun; exec sleep 4244")
    assert started.stdout.readline() == b"begun\n"
    started.send_signal(signal.SIGINT)
    assert started.communicate(timeout=30)[1] == b"Aborted!\n" and started.returncode == 1
    wait_for(lambda: osb("command", "run", sandbox, "--", "pgrep", "-fx", "sleep 4244").stdout == "", what="the end of the command")
    assert osb.ok(*run, "--", "sh", "-c", "echo $KEPT").stdout == "yes\n"  # it stays
    osb.ok("command", "session", "delete", sandbox, session)
    assert osb(*run, "--", "true").status == 1


# ---- files ----


def test_bytes_survive_the_way_in_and_out(osb, sandbox, tmp_path):
    content = os.urandom(3_000_000)
    (tmp_path / "in").write_bytes(content)
    osb.ok("file", "upload", sandbox, tmp_path / "in", "/tmp/bytes")
    assert osb.ok("file", "cat", sandbox, "/tmp/bytes", binary=True).stdout == content
    osb.ok("file", "download", sandbox, "/tmp/bytes", tmp_path / "a/b/out")
    assert (tmp_path / "a/b/out").read_bytes() == content
    assert [p.name for p in (tmp_path / "a/b").iterdir()] == ["out"]


def test_a_download_leaves_the_whole_file_or_none(osb, sandbox, tmp_path):
    done = osb("file", "download", sandbox, "/tmp/no-such-file", tmp_path / "x")
    assert done.status == 1 and list(tmp_path.iterdir()) == []
    (tmp_path / "old").write_text("old")
    assert osb("file", "download", sandbox, "/tmp/no-such-file", tmp_path / "old").status == 1
    assert (tmp_path / "old").read_text() == "old" and len(list(tmp_path.iterdir())) == 1
    assert osb("file", "download", sandbox, "/etc/passwd", tmp_path).status == 1  # a folder


def test_a_download_goes_through_links_and_into_pipes(osb, sandbox, tmp_path):
    osb.ok("file", "write", sandbox, "/tmp/new", "-c", "new")
    (tmp_path / "real").write_text("old")
    (tmp_path / "real").chmod(0o640)
    (tmp_path / "link").symlink_to("real")
    osb.ok("file", "download", sandbox, "/tmp/new", tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_text() == "new"
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o640
    assert osb.ok("--no-color", "file", "download", sandbox, "/tmp/new", "/dev/stdout").stdout.startswith("new")
    assert os.path.exists("/dev/stdout")


def test_write_from_standard_input_and_in_other_encodings(osb, sandbox):
    osb.ok("file", "write", sandbox, "/tmp/stdin", "--mode", "600", stdin="é\n".encode())
    assert osb.ok("file", "cat", sandbox, "/tmp/stdin").stdout == "é\n"
    assert osb.ok("file", "info", sandbox, "/tmp/stdin", "-o", "json").json[0]["mode"] == 600
    osb.ok("file", "write", sandbox, "/tmp/latin", "--encoding", "latin-1", "-c", "é")
    assert osb.ok("file", "cat", sandbox, "/tmp/latin", binary=True).stdout == b"\xe9"
    assert osb.ok("file", "cat", sandbox, "/tmp/latin", "--encoding", "latin-1").stdout == "é"
    assert "not known here" in osb("file", "cat", sandbox, "/tmp/latin", "--encoding", "klingon").stderr


def test_folders_moves_and_permissions(osb, sandbox):
    made = osb.ok("file", "mkdir", sandbox, "/tmp/f/a", "/tmp/f/b", "--mode", "750", "-o", "json").json
    assert made == [{"path": "/tmp/f/a", "status": "created"}, {"path": "/tmp/f/b", "status": "created"}]
    osb.ok("file", "write", sandbox, "/tmp/f/a/x", "-c", "one two two")
    osb.ok("file", "mv", sandbox, "/tmp/f/a/x", "/tmp/f/b/y")
    osb.ok("file", "chmod", sandbox, "/tmp/f/b/y", "--mode", "0604")
    osb.ok("file", "replace", sandbox, "/tmp/f/b/y", "--old", "two", "--new", "three")
    assert osb.ok("file", "cat", sandbox, "/tmp/f/b/y").stdout == "one three three"
    info = osb.ok("file", "info", sandbox, "/tmp/f/b/y", "/tmp/f/a", "-o", "json").json
    assert [(i["path"], i["entry_type"], i["mode"]) for i in info] == [("/tmp/f/b/y", "file", 604), ("/tmp/f/a", "directory", 750)]
    assert [i["path"] for i in osb.ok("file", "search", sandbox, "/tmp/f", "-p", "**", "-o", "json").json] == ["/tmp/f/b/y"]
    assert osb.ok("file", "rm", sandbox, "/tmp/f/b/y", "-o", "yaml").yaml == [{"path": "/tmp/f/b/y", "status": "deleted"}]
    assert osb.ok("file", "rmdir", sandbox, "/tmp/f", "-o", "json").json == [{"path": "/tmp/f", "status": "removed"}]
    assert osb("file", "info", sandbox, "/tmp/f").status == 1


# ---- lives ----


def test_the_life_of_a_sandbox(osb, tmp_path):
    policy = tmp_path / "policy.json"
    policy.write_text('{"defaultAction": "deny", "egress": [{"action": "allow", "target": "packages.example.org"}]}')
    made = osb("sandbox", "create", "-i", "host", "-t", "90m", "-e", "GREETING=hello there", "-m", "who=me", "--resource", "memory=128Mi",
               "--entrypoint", "sleep", "--entrypoint", "1000", "-o", "json")
    assert made.status == 0 and made.json["timeout"] == "1:30:00" and made.json["status"] == "created"
    sandbox_id = made.json["id"]
    assert osb.ok("command", "run", sandbox_id, "--", "printenv", "GREETING").stdout == "hello there\n"
    assert osb.ok("sandbox", "get", sandbox_id, "-o", "json").json["entrypoint"] == ["sleep", "1000"]
    renewed = osb.ok("sandbox", "renew", sandbox_id, "-t", "2h", "-o", "json").json
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{6})?\+00:00", renewed["expires_at"])
    assert osb.ok("sandbox", "pause", sandbox_id).stdout == f"  ✅ Sandbox paused: {sandbox_id}\n"
    assert "◐" in osb.ok("sandbox", "get", sandbox_id).stdout or "⏸ Paused" in osb.ok("sandbox", "get", sandbox_id).stdout
    osb.ok("sandbox", "resume", sandbox_id)
    assert osb.ok("sandbox", "health", sandbox_id, "-o", "json").json == {"sandbox_id": sandbox_id, "healthy": True}
    killed = osb.ok("sandbox", "kill", sandbox_id, "-o", "json").json
    assert killed == [{"sandbox_id": sandbox_id, "status": "terminated"}]


def test_what_create_needs(osb, tmp_path):
    (tmp_path / "object").write_text("{}")
    (tmp_path / "broken").write_text("{")
    for words, why in [([], "Sandbox image is required"), (["-i", "host", "--image-auth-password", "x"], "Pass both"),
                       (["-i", "host", "--credential-proxy"], "--network-policy-file"),
                       (["-i", "host", "--volumes-file", tmp_path / "object"], "must hold a JSON array"),
                       (["-i", "host", "--network-policy-file", tmp_path / "broken"], "is no JSON"),
                       (["-i", "no/such-image-here:1"], "image")]:
        done = osb("sandbox", "create", *words)
        assert done.status == 1 and done.stdout == "" and why in done.stderr, done


def test_the_image_and_time_of_the_settings(osb, tmp_path):
    config = tmp_path / "c.toml"
    config.write_text('[defaults]\nimage = "host"\ntimeout = "none"\n')
    made = osb.ok("--config", config, "sandbox", "create", "-o", "json").json
    assert made["image"] == "host" and made["timeout"] == "manual-cleanup"
    osb.ok("sandbox", "kill", made["id"])


def test_metrics_go_on_until_ctrl_c(osb, sandbox):
    for form, pattern in [("json", rb'\{"cpu_count": \d+\.\d+, "cpu_used_percentage": .*\}\n'),
                          ("raw", rb"\[\d{4}-.*\+00:00\] cpu=\d+\.\d\d% cores=\S+ mem=\d+\.\d\d/\d+\.\d\dMiB\n")]:
        started = osb.start("sandbox", "metrics", sandbox, "--watch", "-o", form)
        for _ in range(2):
            assert re.fullmatch(pattern, started.stdout.readline())
        started.send_signal(signal.SIGINT)
        started.communicate(timeout=30)
        assert started.returncode == 0


def test_diagnostics(osb, sandbox):
    assert osb.ok("diagnostics", "events", sandbox, "-s", "lifecycle").stdout.strip()
    assert osb.ok("diagnostics", "logs", sandbox, "-s", "container", "-o", "json").json["kind"] == "logs"
    assert "missing option '--scope'" in osb("diagnostics", "logs", sandbox).stderr
    for words in (["inspect"], ["logs", "-n", "3"], ["events", "-l", "2"], ["summary", "--event-limit", "1"]):
        assert osb("devops", words[0], sandbox, *words[1:]).status == 0
    assert "deprecated" in osb("devops", "logs", sandbox).stderr
    done = osb("devops", "summary", NO_ID)
    assert done.status == 1 and done.stderr.startswith(f"Error: Sandbox '{NO_ID}' not found.")


# ---- settings ----


def test_settings_are_made_changed_and_shown(nowhere, tmp_path):
    path = tmp_path / "deep/er/config.toml"
    config = ["--config", path, "config"]
    assert "osb config init" in nowhere(*config, "set", "output.color", "false").stderr
    assert nowhere.ok(*config, "init").stdout == f"  ✅ Config file created: {path}\n"
    assert path.stat().st_mode & 0o777 == 0o600
    again = nowhere.ok(*config, "init")
    assert again.stdout == "" and "already exists" in again.stderr
    path.chmod(0o644)
    nowhere.ok(*config, "set", "output.color", "true")
    assert path.stat().st_mode & 0o777 == 0o644
    nowhere.ok(*config, "set", "connection.api_key", "12345678")
    assert path.stat().st_mode & 0o777 == 0o600
    nowhere.ok(*config, "set", "connection.request_timeout", "7")
    nowhere.ok(*config, "set", "output.color", "False")
    shown = nowhere.ok(*config, "show", "-o", "json", env={"OPEN_SANDBOX_API_KEY": None, "OPEN_SANDBOX_DOMAIN": None}).json
    assert shown == {"api_key": "12****78", "domain": None, "protocol": "http", "request_timeout": 7, "use_server_proxy": False,
                     "color": False, "default_image": None, "default_timeout": None, "config_path": str(path), "config_file_exists": True}
    before = path.read_text()
    done = nowhere(*config, "set", "connection.request_timeout", "soon")
    assert done.status == 1 and "unreadable" in done.stderr and path.read_text() == before
    assert nowhere(*config, "set", "nodot", "x").status == 1
    assert nowhere("--config", path, "sandbox", "list").stderr.startswith("ERROR [")  # output.color is false


def test_settings_with_a_key_that_others_can_read_are_told(osb, tmp_path):
    path = tmp_path / "config.toml"
    path.write_text('[connection]\napi_key = "12345678"\n')
    for mode, told in ((0o644, "holds a secret that other users can read"), (0o666, "other users can change it"), (0o600, None)):
        path.chmod(mode)
        done = osb.ok("--config", path, "sandbox", "list", "-o", "json")
        assert done.json["items"] is not None and done.stderr == (f"Warning: settings: {told}: chmod 600 {path}\n" if told else "")
    path.write_text("[output]\ncolor = false\n")
    path.chmod(0o644)
    assert osb.ok("--config", path, "sandbox", "list", "-o", "json").stderr == ""


# ---- the vault, against a stand-in ----


class Vault(http.server.BaseHTTPRequestHandler):
    STATE = {"revision": 1, "credentials": [{"name": "k", "sourceType": "inline", "revision": 1}],
             "bindings": [{"name": "b", "revision": 1, "match": {"hosts": ["x.org"]}, "auth": {"type": "bearer"}}]}

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.seen.append((self.command, self.path, json.loads(body) if body else None))
        if "/endpoints/" in self.path:
            reply = {"endpoint": f"127.0.0.1:{self.server.server_port}", "headers": {}}
        elif "/credentials" in self.path or "/bindings" in self.path:
            kind = "credentials" if "/credentials" in self.path else "bindings"
            reply = self.STATE[kind][0] if self.path.count("/") > 2 else {kind: self.STATE[kind]}
        else:
            reply = self.STATE
        text = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PATCH = do_DELETE = answer

    def log_message(self, *args):
        pass


@pytest.fixture
def stand_in(tmp_path):
    """stand_in(HANDLER): osb with a server that answers by it, and what that has seen."""
    with contextlib.ExitStack() as stack:

        def start(handler):
            server = stack.enter_context(http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler))
            server.seen = []
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)
            osb = Osb(None, tmp_path)
            osb.env["OPEN_SANDBOX_DOMAIN"] = f"127.0.0.1:{server.server_port}"
            return osb, server.seen

        yield start


@pytest.fixture
def vault(stand_in):
    return stand_in(Vault)


def test_the_vault_takes_json_and_yaml(vault, tmp_path):
    osb, seen = vault
    payload = {"credentials": [{"name": "k", "source": {"type": "inline", "value": "s3cret: #1"}}],
               "bindings": [{"name": "b", "match": {"hosts": ["x.org"]}, "auth": {"type": "bearer", "credential": "k"}}]}
    as_yaml = """# what a person writes
credentials:
- name: k
  source: {type: inline, value: "s3cret: #1"}
bindings:
  - name: b
    match:
      hosts: [x.org]
    auth:
      type: bearer
      credential: k
"""
    state = {"revision": 1, "credentials": [{"name": "k", "source_type": "inline", "revision": 1}],
             "bindings": [{"name": "b", "revision": 1, "match": {"hosts": ["x.org"]}, "auth": {"type": "bearer"}}]}
    (tmp_path / "v.json").write_text(json.dumps(payload))
    assert osb.ok("credential-vault", "create", "x", "--file", tmp_path / "v.json", "-o", "json").json == state
    assert osb.ok("credential-vault", "create", "x", "--file", "-", "-o", "yaml", stdin=as_yaml.encode()).yaml == state
    posts = [body for method, path, body in seen if method == "POST"]
    assert posts == [payload, payload]
    osb.ok("credential-vault", "patch", "x", "--file", "-", stdin=b"expected_revision: 3\ncredentials:\n  delete: [k]\n")
    assert seen[-1] == ("PATCH", "/credential-vault", {"expectedRevision": 3, "credentials": {"delete": ["k"]}})


def test_the_vault_is_shown(vault):
    osb, seen = vault
    group = ["credential-vault"]
    assert osb.ok(*group, "get", "x", "-o", "json").json["revision"] == 1
    assert osb.ok(*group, "credential", "list", "x", "-o", "json").json == [{"name": "k", "source_type": "inline", "revision": 1}]
    assert "SOURCE_TYPE" in osb.ok(*group, "credential", "list", "x").stdout
    assert osb.ok(*group, "credential", "get", "x", "k", "-o", "json").json["name"] == "k"
    assert osb.ok(*group, "binding", "get", "x", "b 1?", "-o", "json").json["name"] == "b"
    assert seen[-1][1] == "/credential-vault/bindings/b%201%3F"
    assert osb.ok(*group, "delete", "x", "-o", "json").json == {"sandbox_id": "x", "status": "deleted"}


@pytest.mark.parametrize("command, text, why", [
    ("create", "[]", "must be a JSON/YAML object"), ("create", "{}", "'credentials' must be a list"),
    ("create", "credentials: []\n", "'bindings' must be a list"), ("create", "a: &b 1\n", "line 1: anchors"),
    ("patch", "{}", "must include credentials or bindings"), ("patch", "credentials: []\n", "must be an object"),
    ("patch", '{"expectedRevision": "3", "bindings": {}}', "must be an integer"),
])
def test_payloads_that_are_wrong(vault, command, text, why):
    osb, seen = vault
    done = osb("credential-vault", command, "x", "--file", "-", stdin=text.encode())
    assert done.status == 1 and why in done.stderr and seen == []


class Trickle(http.server.BaseHTTPRequestHandler):
    """A file that never ends."""

    def do_GET(self):
        self.send_response(200)
        if "/endpoints/" in self.path:
            text = json.dumps({"endpoint": f"127.0.0.1:{self.server.server_port}"}).encode()
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
            return
        self.send_header("Content-Length", "1000000000")
        self.end_headers()
        with contextlib.suppress(OSError):
            while True:
                self.wfile.write(b"x" * 1000)
                time.sleep(0.02)

    def log_message(self, *args):
        pass


@pytest.mark.parametrize("signo", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_download_that_is_ended_leaves_nothing(stand_in, tmp_path, signo):
    osb, _ = stand_in(Trickle)
    target = tmp_path / "target"
    target.mkdir()
    started = osb.start("file", "download", "x", "/y", target / "z")
    wait_for(lambda: any(p.stat().st_size for p in target.iterdir()), what="the first bytes")
    started.send_signal(signo)
    _, stderr = started.communicate(timeout=30)
    assert started.returncode == 1 and stderr == b"Aborted!\n" and list(target.iterdir()) == []


class Slow(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(1)
        text = b'{"items":[],"pagination":{"page":1,"pageSize":20,"totalItems":0,"totalPages":0,"hasNextPage":false}}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *args):
        pass


def test_a_picture_moves_while_people_wait(stand_in):
    osb, _ = stand_in(Slow)
    status, text = osb.on_terminal("sandbox", "list")
    assert status == 0 and text.count("Fetching sandboxes...") > 3 and "No sandboxes found." in text
    assert text.rindex("\r\033[K") > text.rindex("Fetching sandboxes...")  # and goes away
    assert "Fetching" not in osb.on_terminal("sandbox", "list", "-o", "json")[1]
    assert "Fetching" not in osb.ok("sandbox", "list").stderr


# ---- what the tables are good for ----


def test_completion(osb, sandbox):
    assert osb.ok("completion", "sandboxes").stdout.split() == [sandbox]
    for shell in ("bash", "zsh", "fish"):
        assert "credential-vault" in osb.ok("completion", shell).stdout
    script = f"""
        PATH={PROGRAM.parent}:$PATH
        eval "$(osb completion bash)"
        COMP_WORDS=($1) COMP_CWORD=$(($(set -- $1; echo $#) - 1)); [[ $1 == *' ' ]] && COMP_WORDS+=('') COMP_CWORD=$((COMP_CWORD + 1))
        compopt() {{ :; }}
        _osb 2>/dev/null || complete -p osb
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """

    def complete(line):
        done = subprocess.run(["bash", "-c", script, "-", line], env=osb.env, capture_output=True, text=True, check=True)
        return done.stdout.split()

    assert complete("osb sand") == ["sandbox"]
    assert "renew" in complete("osb sandbox ")
    assert complete("osb --domain x sandbox get ") == [sandbox]
    assert complete("osb sandbox get -o ") == ["table", "json", "yaml"]
    assert "--no-use-server-proxy" in complete("osb --no-")


def commands(osb, *path):
    """All commands below a path, from its help."""
    text = osb.ok(*path, "--help").stdout
    found = re.search(r"^COMMANDS\n(.*?)^OPTIONS", text, re.M | re.S)
    names = re.findall(r"^    (\S+)$", found[1], re.M) if found else []
    return [path, *(p for name in names for p in commands(osb, *path, name))]


def test_every_command_has_a_page(nowhere, tmp_path):
    nowhere.ok("man", "--all", tmp_path / "man")
    pages = {p.name for p in (tmp_path / "man").iterdir()}
    wanted = {"-".join(("osb", *path)) + ".1" for path in commands(nowhere)}
    assert len(wanted) > 50 and pages == wanted
    for page in (tmp_path / "man").iterdir():
        text = page.read_text()
        assert text.startswith(f'.TH "{page.stem}" 1 ') and ".SH SYNOPSIS" in text
        assert "be repeated" not in text  # "May be given more than once." is said of every option of which it is true
    assert nowhere.ok("man", "sandbox", "create").stdout == (tmp_path / "man/osb-sandbox-create.1").read_text()


def test_every_command_is_told_of(nowhere):
    text = (ROOT / "docs/osb.md").read_text()
    for path in commands(nowhere):
        assert not path or f"`{path[-1]}" in text, path


def test_the_key_is_in_no_output(osb):
    for words in (["-v", "sandbox", "list"], ["config", "show"], ["-v", "sandbox", "get", NO_ID]):
        done = osb(*words)
        assert KEY not in done.stdout + done.stderr
