# SPDX-License-Identifier: Apache-2.0
"""opensandbox-server doctor, and what the warden says of the same checks when it cannot start."""
import ctypes
import json
import os
import pathlib
import platform
import pty
import re
import shutil
import signal
import socket
import struct
import subprocess
import uuid

import jsonschema
import pytest

from conftest import BIN, SERVER, assert_clean, clean_environment, free_port

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
X86_ONLY = pytest.mark.skipif(platform.machine() != "x86_64", reason="knows the numbers of x86-64 alone")
WARDEN = BIN / "opensandbox-warden"
NOBODY = 65534
CALLS = {"openat2": 437, "close_range": 436, "clone3": 435, "mount_setattr": 442, "landlock_create_ruleset": 444}
SCHEMA = {
    "type": "object", "additionalProperties": False,
    "required": ["version", "can_run", "ok", "warning", "missing", "untried", "checks"],
    "properties": {
        "version": {"type": "string"}, "can_run": {"type": "boolean"},
        **{name: {"type": "integer", "minimum": 0} for name in ("ok", "warning", "missing", "untried")},
        "checks": {"type": "array", "minItems": 40, "items": {
            "type": "object", "additionalProperties": False,
            "required": ["group", "name", "needed", "outcome", "detail", "cost", "remedy"],
            "properties": {
                "group": {"type": "string"}, "name": {"type": "string"}, "needed": {"type": "boolean"},
                "outcome": {"enum": ["ok", "warning", "missing", "untried"]}, "detail": {"type": "string"},
                "cost": {"type": ["string", "null"]}, "remedy": {"type": ["string", "null"]}}}}},
}  # fmt: skip


def refuse(*names):
    """To be called in a child before exec: these calls fail with ENOSYS from now on."""
    numbers = [CALLS[n] for n in names]
    code = struct.pack("=HBBI", 0x20, 0, 0, 0)  # load the number
    for i, nr in enumerate(numbers):
        code += struct.pack("=HBBI", 0x15, len(numbers) - i, 0, nr)  # jump to the refusal
    code += struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000)  # allow
    code += struct.pack("=HBBI", 0x06, 0, 0, 0x00050000 | 38)  # ENOSYS
    libc = ctypes.CDLL(None, use_errno=True)
    text = ctypes.create_string_buffer(code, len(code))
    program = ctypes.create_string_buffer(struct.pack("=H6xQ", len(code) // 8, ctypes.addressof(text)))

    def load(_keep=text):
        if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(program), 0, 0):
            os._exit(99)

    return load


@pytest.fixture
def folder(tmp_path):
    """A place of its own that another user may look into."""
    for p in [tmp_path, *tmp_path.parents]:
        if p == pathlib.Path("/tmp"):
            break
        p.chmod(p.stat().st_mode | 0o055)
    return tmp_path


@pytest.fixture
def doctor(folder):
    """doctor(*args, config=, program=, **popen) -> CompletedProcess; nothing but the page is written."""

    def run(*args, config="", program=SERVER, env=None, **popen):
        path = folder / "config.toml"
        path.write_text(
            f'[server]\nport = {free_port()}\n[native]\nstate_dir = "{folder}/state"\nrun_dir = "{folder}/run"\n{config}')
        done = subprocess.run(
            [program, "doctor", "--config", path, *args], env=clean_environment(folder, **(env or {})), cwd=folder,
            capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, check=False, **popen)
        assert_clean(done.stderr)
        assert done.stderr == ""
        return done

    return run


def report(done):
    document = json.loads(done.stdout)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    checks = {c["name"]: c for c in document["checks"]}
    assert len(checks) == len(document["checks"])
    for outcome in ("ok", "warning", "missing", "untried"):
        assert document[outcome] == sum(c["outcome"] == outcome for c in checks.values())
    for c in checks.values():
        assert (c["cost"] is not None) == (c["remedy"] is not None) == (c["outcome"] in ("warning", "missing")), c
        assert c["needed"] or c["outcome"] != "missing", c
    assert done.returncode == (0 if document["can_run"] else 1)
    return document, checks


# ---- the page -------------------------------------------------------------------------------------------------


@ROOT_ONLY
def test_the_page_lines_up_and_ends_with_a_verdict(doctor):
    done = doctor()
    lines = done.stdout.splitlines()
    rows = [line for line in lines if re.match(r"  (ok|warning|missing|untried) ", line)]
    assert len(rows) > 40
    for row in rows:
        assert re.match(r"  (ok       |warning  |missing  )\S.{0,16}( +\S|$)", row), row
        assert len(row) < 30 or row[28] == " " and row[29] != " ", row
    for i, line in enumerate(lines):
        if line.startswith(("  warning", "  missing")):
            assert lines[i + 1].startswith(" " * 29 + "cost: ") and lines[i + 2].startswith(" " * 29 + "to do: ")
    assert "\033" not in done.stdout
    verdict = "can" if done.returncode == 0 else "cannot"
    assert re.fullmatch(rf"Sandboxes {verdict} run here: \d+ ok.*\.", lines[-1])


@ROOT_ONLY
@pytest.mark.smoke
def test_the_json_says_the_same_as_the_page(doctor):
    document, checks = report(doctor("--json"))
    page = doctor().stdout
    for name, c in checks.items():
        assert re.search(rf"^  {c['outcome']} +{re.escape(name)}( |$)", page, re.M), name
    assert document["untried"] == 0
    kernel = checks["version"]
    assert kernel["detail"].startswith(os.uname().release) and "tried" in kernel["detail"], kernel
    assert (kernel["outcome"] == "ok") == ("not one of those" not in kernel["detail"]), kernel
    for name in ("root", "openat2", "clone3", "namespaces", "user namespace", "seccomp filter", "overlayfs", "overlay mounts", "memory",
                 "state_dir", "warden"):
        assert checks[name]["outcome"] == "ok", checks[name]


@pytest.mark.parametrize("no_color, wants", [(None, True), ("1", False), ("", True)])
def test_colour_is_for_terminals_that_want_it(folder, no_color, wants):
    env = clean_environment(folder, OPENSANDBOX_NATIVE_STATE_DIR=folder / "s", OPENSANDBOX_NATIVE_RUN_DIR=folder / "r")
    env.pop("NO_COLOR", None)
    if no_color is not None:
        env["NO_COLOR"] = no_color
    main, sub = pty.openpty()
    process = subprocess.Popen([SERVER, "doctor"], stdout=sub, stderr=sub, stdin=sub, env=env, cwd=folder)
    os.close(sub)
    out = b""
    try:
        while piece := os.read(main, 65536):
            out += piece
    except OSError:
        pass  # the other end is closed
    os.close(main)
    process.wait(60)
    assert b"openat2" in out and (b"\033[" in out) == wants


def test_a_bad_configuration_is_refused_with_its_place(folder):
    (folder / "bad.toml").write_text("[server]\nport = 0\n")
    done = subprocess.run([SERVER, "doctor", "-c", folder / "bad.toml"], env=clean_environment(folder), capture_output=True,
                          text=True, timeout=60, check=False)
    assert done.returncode == 1 and "bad.toml:2: server.port" in done.stderr and done.stdout == ""


# ---- who runs it ----------------------------------------------------------------------------------------------


@ROOT_ONLY
def test_another_user_is_told_what_needs_root(doctor, folder):
    shutil.copytree(BIN, folder / "bin", ignore=lambda _, names: {n for n in names if n == "peer-server"})
    (folder / "bin").chmod(0o755)
    who = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    document, checks = report(doctor("--json", program=folder / "bin/opensandbox-server", **who))
    assert not document["can_run"] and document["untried"] > 8
    for name in ("root", "namespaces", "user namespace", "mount api", "overlayfs", "overlay mounts", "id-mapped layers", "state_dir"):
        assert checks[name]["outcome"] == "untried", checks[name]
    for name in ("openat2", "clone3", "seccomp filter", "sealed programs", "memory", "id range", "execd"):
        assert checks[name]["outcome"] == "ok", checks[name]
    page = doctor(program=folder / "bin/opensandbox-server", **who)
    assert page.returncode == 1
    assert re.search(r"untried  overlayfs +needs root$", page.stdout, re.M)
    assert page.stdout.endswith("Run it as root for the checks that need it.\n")
    assert "can run here" not in page.stdout


# ---- things that are missing ----------------------------------------------------------------------------------


@ROOT_ONLY
@X86_ONLY
def test_a_kernel_without_some_calls_is_found_out(doctor):
    document, checks = report(doctor("--json", preexec_fn=refuse("openat2", "clone3")))
    assert not document["can_run"]
    assert checks["openat2"]["outcome"] == checks["clone3"]["outcome"] == "missing"
    assert "openat2" in checks["openat2"]["detail"] and checks["openat2"]["remedy"] == "use Linux 5.6 or later"
    assert checks["close_range"]["outcome"] == checks["namespaces"]["outcome"] == checks["memory"]["outcome"] == "ok"
    page = doctor(preexec_fn=refuse("mount_setattr"))
    assert page.returncode == 1 and "Sandboxes cannot run here" in page.stdout
    for name in ("mount api", "id-mapped mounts", "id-mapped layers"):
        assert re.search(rf"^  missing  {name} .*Function not implemented\n +cost: .*no sandbox can be created\n +to do: ",
                         page.stdout, re.M), page.stdout


@ROOT_ONLY
@X86_ONLY
def test_P3b_a_kernel_that_cannot_confine_our_programs_is_told(doctor):
    _, checks = report(doctor("--json", preexec_fn=refuse("landlock_create_ruleset")))
    assert checks["landlock"]["outcome"] == "warning" and "not in this kernel" in checks["landlock"]["detail"]
    assert "opensandbox-fetch" in checks["landlock"]["cost"]


def test_programs_are_looked_for_beside_the_server(doctor, folder):
    (folder / "bin").mkdir()
    shutil.copy(SERVER, folder / "bin/server")
    shutil.copy(WARDEN, folder / "bin/opensandbox-warden")
    document, checks = report(doctor("--json", program=folder / "bin/server"))
    assert checks["warden"] == {**checks["warden"], "outcome": "ok", "detail": f"{folder}/bin/opensandbox-warden"}
    assert checks["execd"]["outcome"] == "missing" and f"{folder}/bin/execd" in checks["execd"]["detail"]
    assert not document["can_run"]


def test_the_configuration_is_examined_too(doctor, folder):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        busy = taken.getsockname()[1]
        _, checks = report(doctor("--json", env={"OPENSANDBOX_SERVER_PORT": busy}))
    assert checks["ports"]["outcome"] == "warning" and str(busy) in checks["ports"]["detail"]
    _, checks = report(doctor("--json", env={"OPENSANDBOX_NATIVE_RUN_DIR": "/run/" + "x" * 100}))
    assert checks["run_dir"]["outcome"] == "missing" and "too long" in checks["run_dir"]["detail"]
    (folder / "file").touch()
    _, checks = report(doctor("--json", env={"OPENSANDBOX_NATIVE_RUN_DIR": folder / "file"}))
    assert checks["run_dir"]["outcome"] == "missing" and "is not a folder" in checks["run_dir"]["detail"]
    _, checks = report(doctor("--json", config='[storage]\nallowed_host_paths = ["/", "/nowhere"]\n'))
    assert checks["host volumes"]["outcome"] == "warning" and "'/nowhere'" in checks["host volumes"]["detail"]


@ROOT_ONLY
def test_files_of_usr_that_are_not_open_to_everyone_are_told(doctor, folder):
    path = pathlib.Path(f"/usr/.osb-test-{uuid.uuid4().hex[:8]}")  # early in a list that is cut
    try:
        path.touch(mode=0o600)
        _, checks = report(doctor("--json"))
        assert checks["image 'host'"]["outcome"] == "ok"
        assert re.match(r"[1-9][0-9]* files of /usr are not open to everyone, and hidden: /usr/", checks["image 'host'"]["detail"])
        (folder / "run").mkdir()
        (folder / "run/warden.sock").touch()  # a server has started
        path.chmod(0o640)
        _, checks = report(doctor("--json"))
        assert checks["image 'host'"]["outcome"] == "warning", checks["image 'host'"]
        assert checks["image 'host'"]["detail"].startswith("1 changed since the server started") and str(path) in checks["image 'host'"]["detail"]
    finally:
        path.unlink()


@ROOT_ONLY
def test_a_state_directory_that_cannot_hold_layers_is_named(doctor):
    _, checks = report(doctor("--json", env={"OPENSANDBOX_NATIVE_STATE_DIR": "/proc/opensandbox"}))
    assert checks["state_dir"]["outcome"] == "missing" and "/proc" in checks["state_dir"]["detail"]


# ---- what is left ---------------------------------------------------------------------------------------------


class Apart:
    """Namespaces of mounts and of the network that nobody else uses: others may work on the host's at the same time."""

    def __init__(self):
        self.holder = subprocess.Popen(["unshare", "--mount", "--net", "--propagation", "private", "sh", "-c", "echo; exec sleep 600"],
                                       stdout=subprocess.PIPE)
        self.holder.stdout.readline()
        self.spaces = [os.open(f"/proc/{self.holder.pid}/ns/{kind}", os.O_RDONLY) for kind in ("mnt", "net")]

    def enter(self):
        """To be called in a child before exec."""
        libc = ctypes.CDLL(None)
        if any(libc.setns(fd, 0) for fd in self.spaces):
            os._exit(99)

    def census(self):
        lines = pathlib.Path(f"/proc/{self.holder.pid}/mountinfo").read_text().splitlines()
        links = pathlib.Path(f"/proc/{self.holder.pid}/net/dev").read_text().splitlines()[2:]
        return sorted(line.split(" ", 2)[2] for line in lines), sorted(line.split(":")[0].strip() for line in links)

    def close(self):
        self.holder.kill()
        self.holder.wait()
        self.holder.stdout.close()
        for fd in self.spaces:
            os.close(fd)


@pytest.fixture
def apart():
    a = Apart()
    yield a
    a.close()


@ROOT_ONLY
def test_nothing_is_left_behind_even_by_a_killed_run(doctor, folder, apart):
    before = apart.census()
    assert before[1] == ["lo"]
    doctor(preexec_fn=apart.enter)
    assert sorted(p.name for p in folder.iterdir()) == ["config.toml"]
    env = clean_environment(folder, OPENSANDBOX_NATIVE_STATE_DIR=folder / "state", OPENSANDBOX_NATIVE_RUN_DIR=folder / "run")
    for wait_s in (0.005, 0.01, 0.02, 0.03, 0.05):
        process = subprocess.Popen([SERVER, "doctor"], env=env, stdout=subprocess.DEVNULL, process_group=0, preexec_fn=apart.enter)
        try:
            process.wait(wait_s)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
    doctor(preexec_fn=apart.enter)  # removes what a kill in the middle may have left of the trial of the state directory
    assert sorted(p.name for p in folder.iterdir()) == ["config.toml"]
    assert apart.census() == before


# ---- the warden -----------------------------------------------------------------------------------------------


@ROOT_ONLY
@X86_ONLY
def test_the_warden_names_all_that_is_missing_at_once(folder):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(folder / "w.sock"))
        listener.listen(1)
        prefix = f"t{uuid.uuid4().hex[:7]}"
        done = subprocess.run(
            [WARDEN, "--state-dir", folder / "state", "--prefix", prefix, "--execd", BIN / "execd", "--socket-fd",
             str(listener.fileno())], pass_fds=[listener.fileno()], preexec_fn=refuse("openat2", "close_range", "mount_setattr"),
            capture_output=True, text=True, timeout=60, check=False)
    for top in [*pathlib.Path("/sys/fs/cgroup").glob(prefix), *pathlib.Path("/sys/fs/cgroup").glob("*/" + prefix)]:
        top.rmdir()
    assert_clean(done.stderr)
    assert done.returncode == 1
    first, *rest = done.stderr.splitlines()
    assert first.startswith("opensandbox-warden: this host cannot hold sandboxes: this host lacks what sandboxes need: openat2, "
                            "close_range, ")
    assert "mount api" in first and "id-mapped layers" in first
    for name, remedy in (("openat2", "use Linux 5.6 or later"), ("close_range", "use Linux 5.9 or later"),
                         ("mount api", "use Linux 5.12 or later")):
        line, = (text for text in rest if text.startswith(f"opensandbox-warden:   {name}: "))
        assert "no sandbox can be created" in line and line.endswith("to do: " + remedy)
