# SPDX-License-Identifier: Apache-2.0
"""The published Python client, unchanged: commands, sessions, files and metrics of a sandbox."""
import datetime
import io
import os
import time

import pytest

from api import wait_for

pytest.importorskip("opensandbox", reason="needs the packages of tests/compat/requirements.txt")

from kit import kit, utc_now  # noqa: E402, F401
from opensandbox.exceptions import SandboxApiException, SandboxException  # noqa: E402
from opensandbox.models.execd import RunCommandOpts  # noqa: E402
from opensandbox.models.filesystem import (  # noqa: E402
    ContentReplaceEntry,
    MoveEntry,
    SearchEntry,
    SetPermissionEntry,
    WriteEntry,
)

MINUTE = datetime.timedelta(minutes=1)
HALF_SECOND = datetime.timedelta(seconds=0.5)


@pytest.fixture
def sb(kit):  # noqa: F811
    return Inside(kit, kit.create(env={"GREETING": "hello"}))


class Inside:
    """A sandbox whose calls of either form give their values: sb.files.read_file(...)."""

    def __init__(self, kit, sandbox):  # noqa: F811
        self.kit, self.sandbox = kit, sandbox
        self.files, self.commands = Calls(kit, sandbox.files), Calls(kit, sandbox.commands)

    def run(self, command, handlers=None, **opts):
        return self.commands.run(command, opts=RunCommandOpts(**opts), handlers=handlers)

    def out(self, command, **opts):
        return self.run(command, **opts).text


class Calls:
    def __init__(self, kit, service):  # noqa: F811
        self.kit, self.service = kit, service

    def __getattr__(self, name):
        return lambda *args, **named: self.kit.wait(getattr(self.service, name)(*args, **named))


def refused(status, call, *args, **named):
    with pytest.raises(SandboxApiException) as e:
        call(*args, **named)
    assert e.value.status_code == status and e.value.request_id
    return e.value


# ---- commands ----


def test_a_command_streams_to_callbacks(sb):
    seen, at = [], {}

    def on_stdout(message):
        seen.append(message.text)
        at[message.text] = time.monotonic()

    handlers = sb.kit.handlers(
        on_init=lambda i: seen.append(i.id), on_stdout=on_stdout, on_error=seen.append,
        on_execution_complete=lambda c: seen.append(c.execution_time_in_millis >= 900))  # fmt: skip
    done = sb.run("echo one; sleep 1; echo; echo $GREETING", handlers=handlers)
    assert seen == [done.id, "one", "\n", "hello", True]
    assert at["hello"] - at["one"] > 0.25, "the first line came together with the last"
    errors = []
    failed = sb.run("echo oops >&2; exit 3", handlers=sb.kit.handlers(on_stderr=errors.append, on_error=errors.append))
    assert [e.text for e in errors[:1]] == ["oops"] and errors[1].value == "3" and failed.exit_code == 3


def test_a_command_writes_in_other_scripts(sb):
    assert sb.out(r"printf 'gr\303\274n \342\200\250\302\205 \360\237\220\263'") == "grün \u2028\u0085 🐳"
    assert sb.out("head -c 262144 /dev/zero | tr '\\0' x") == "x" * 262144


def test_a_command_as_another_user(sb):
    assert sb.out("id -u; id -g", uid=1234, gid=2345) == "1234\n2345"
    assert sb.out("id -un; id -gn", uid=65534) == "nobody\nnogroup"


def test_a_command_in_a_folder_that_is_not_there(sb):
    with pytest.raises(SandboxApiException) as e:
        sb.run("pwd", working_directory="/nowhere")
    assert e.value.status_code == 400


def test_a_command_in_the_background(sb):
    done = sb.run("echo one; sleep 1; echo two >&2; exit 3", background=True)
    assert done.id and done.exit_code is None and done.error is None
    status = sb.commands.get_command_status(done.id)
    assert (status.id, status.running, status.exit_code) == (done.id, True, None)
    text, cursor = "", None

    def ended():
        nonlocal text, cursor
        logs = sb.commands.get_background_command_logs(done.id, cursor=cursor)
        text, cursor = text + logs.content, logs.cursor
        return not sb.commands.get_command_status(done.id).running

    wait_for(ended, what="the end of the command")
    ended()
    status = sb.commands.get_command_status(done.id)
    assert (text, cursor, status.exit_code) == ("one\ntwo\n", 8, 3) and status.finished_at > status.started_at
    assert sb.commands.get_background_command_logs(done.id).content == "one\ntwo\n"
    assert sb.commands.get_background_command_logs(done.id, cursor=4).content == "two\n"
    again = sb.commands.get_background_command_logs(done.id, cursor=8)
    assert (again.content, again.cursor) == ("", 8)
    refused(404, sb.commands.get_command_status, "no-such-id")


def test_a_command_in_the_background_has_a_timeout(sb):
    done = sb.run("sleep 100", background=True, timeout=HALF_SECOND)
    wait_for(lambda: not sb.commands.get_command_status(done.id).running, what="the timeout")
    assert sb.commands.get_command_status(done.id).exit_code == 137


def test_a_command_is_interrupted(sb):
    ids = []
    handlers = sb.kit.handlers(on_init=lambda i: ids.append(i.id), on_stdout=lambda m: sb.sandbox.commands.interrupt(ids[0]))
    done = sb.run("sleep 100 & echo begun; wait; sleep 100", handlers=handlers)
    assert done.id == ids[0] and done.error is not None and done.exit_code != 0
    assert not sb.commands.get_command_status(done.id).running
    assert sb.out("pgrep -c sleep; echo again").endswith("again")
    with pytest.raises(SandboxException):
        sb.commands.interrupt(done.id)
    background = sb.run("sleep 100", background=True)
    sb.commands.interrupt(background.id)
    assert not sb.commands.get_command_status(background.id).running


# ---- sessions ----


def test_a_session_remembers(sb):
    session = sb.commands.create_session(working_directory="/tmp/made/for/it")
    said = lambda command, **more: sb.commands.run_in_session(session, command, **more)  # noqa: E731
    assert said("pwd").text == "/tmp/made/for/it"
    assert said("export A='x y'; B=2; f() { echo in-f; }; cd /usr").exit_code == 0
    assert said("echo $A $B; f; pwd").text == "x y 2\nin-f\n/usr"
    assert said("pwd", working_directory="/etc").text == "/etc"
    failed = said("exit 7")
    assert (failed.exit_code, failed.error.value, failed.complete) == (7, "7", None)
    assert said("sleep 100", timeout=HALF_SECOND).error is not None
    assert said("echo alive").text == "alive"
    lines = []
    said("echo a; echo b", handlers=sb.kit.handlers(on_stdout=lambda m: lines.append(m.text)))
    assert lines == ["a", "b"]
    sb.commands.delete_session(session)
    with pytest.raises(SandboxException):
        said("echo dead")
    other = sb.commands.create_session()
    assert sb.commands.run_in_session(other, "echo ${A-unset}").text == "unset"


# ---- files ----


@pytest.mark.parametrize("path", ["/tmp/w/a/text.txt", "/tmp/w/it's \"grün\" %41&b=1;#?.txt"])
def test_write_text_and_read_it(sb, path):
    sb.files.write_file(path, "line1\ngrün\n")
    assert sb.files.read_file(path) == "line1\ngrün\n"
    assert sb.files.get_file_info([path])[path].mode == 755  # the client's own default
    sb.files.write_file(path, "grün".encode("latin-1"), mode=600)
    assert sb.files.read_file(path, encoding="latin-1") == "grün" and sb.files.get_file_info([path])[path].mode == 600


def test_write_many_of_every_kind(sb):
    data = os.urandom(300000)
    sb.files.write_files([
        WriteEntry(path="/tmp/w/text", data="text", mode=640, owner="nobody", group="nogroup"),
        WriteEntry(path="/tmp/w/bytes", data=data, mode=600),
        WriteEntry(path="/tmp/w/stream", data=io.BytesIO(data)),
        WriteEntry(path="/tmp/w/empty", data=""),
    ])  # fmt: skip
    assert sb.out("cd /tmp/w; stat -c '%n %a %U %G %s' text bytes stream empty") == (
        "text 640 nobody nogroup 4\nbytes 600 root root 300000\nstream 755 root root 300000\nempty 755 root root 0")
    assert sb.files.read_bytes("/tmp/w/bytes") == sb.files.read_bytes("/tmp/w/stream") == data
    assert sb.files.read_file("/tmp/w/empty") == ""


def test_read_a_range(sb):
    sb.files.write_file("/tmp/w/file", "0123456789")
    assert sb.files.read_file("/tmp/w/file", range_header="bytes=0-4") == "01234"
    assert sb.files.read_bytes("/tmp/w/file", range_header="bytes=-3") == b"789"
    assert sb.files.read_bytes("/tmp/w/file", range_header="bytes=8-") == b"89"
    assert refused(416, sb.files.read_file, "/tmp/w/file", range_header="bytes=99-")


def test_read_as_a_stream(sb):
    sb.run("head -c 5000000 /dev/zero >/tmp/big")
    pieces = sb.kit.pieces(sb.sandbox.files.read_bytes_stream("/tmp/big", chunk_size=65536))
    assert sum(map(len, pieces)) == 5000000 and len(pieces) > 1
    assert b"".join(sb.kit.pieces(sb.sandbox.files.read_bytes_stream("/tmp/big", range_header="bytes=0-9"))) == bytes(10)
    refused(404, sb.files.read_bytes_stream, "/tmp/nowhere")


def test_file_info(sb):
    sb.files.write_file("/tmp/w/file", "abc", mode=640, owner="nobody", group="nogroup")
    sb.run("ln -s file /tmp/w/link")
    info = sb.files.get_file_info(["/tmp/w/file", "/tmp/w", "/tmp/w/link"])
    file = info["/tmp/w/file"]
    assert (file.path, file.size, file.mode, file.owner, file.group) == ("/tmp/w/file", 3, 640, "nobody", "nogroup")
    assert abs(file.modified_at - utc_now()) < MINUTE and abs(file.created_at - utc_now()) < MINUTE
    assert info["/tmp/w"].mode == 755 and info["/tmp/w/link"].mode == 777


def test_search(sb):
    sb.files.write_files([WriteEntry(path=f"/tmp/w/{name}", data="x") for name in ("a.py", "b.txt", "d/c.py", "d/.hidden.py")])
    found = lambda pattern: [f.path for f in sb.files.search(SearchEntry(path="/tmp/w", pattern=pattern))]  # noqa: E731
    assert found("*.py") == ["/tmp/w/a.py", "/tmp/w/d/.hidden.py", "/tmp/w/d/c.py"]
    assert found("**/{a,b}.*") == ["/tmp/w/a.py", "/tmp/w/b.txt"]
    assert len(found("**")) == 4 and found("nothing") == []
    refused(404, sb.files.search, SearchEntry(path="/tmp/nowhere", pattern="*"))


def test_replace(sb):
    sb.files.write_file("/tmp/w/file", "one two one", mode=640)
    sb.files.write_file("/tmp/w/other", "one")
    sb.files.replace_contents([
        ContentReplaceEntry(path="/tmp/w/file", old_content="one", new_content="three"),
        ContentReplaceEntry(path="/tmp/w/other", old_content="nothing", new_content="x"),
    ])  # fmt: skip
    assert sb.files.read_file("/tmp/w/file") == "three two three" and sb.files.read_file("/tmp/w/other") == "one"
    assert sb.out("stat -c %a /tmp/w/file") == "640"
    refused(404, sb.files.replace_contents, [ContentReplaceEntry(path="/tmp/nowhere", old_content="a", new_content="b")])


def test_move_and_delete(sb):
    sb.files.write_files([WriteEntry(path=f"/tmp/w/{name}", data=name) for name in "abc"])
    sb.files.move_files([MoveEntry(src="/tmp/w/a", dest="/tmp/w/new/place/a")])
    assert sb.files.read_file("/tmp/w/new/place/a") == "a"
    refused(404, sb.files.move_files, [MoveEntry(src="/tmp/w/a", dest="/tmp/w/d")])
    sb.files.delete_files(["/tmp/w/b", "/tmp/w/c", "/tmp/w/never-there"])
    assert sb.out("ls /tmp/w") == "new"


def test_permissions(sb):
    sb.files.write_file("/tmp/w/file", "x")
    sb.files.set_permissions([SetPermissionEntry(path="/tmp/w/file", mode=604, owner="nobody", group="nogroup")])
    assert sb.out("stat -c '%a %U %G' /tmp/w/file") == "604 nobody nogroup"
    with pytest.raises(SandboxApiException) as e:
        sb.files.set_permissions([SetPermissionEntry(path="/tmp/w/file", owner="no-such-user")])
    assert "no-such-user" in str(e.value)


def test_directories(sb):
    sb.files.create_directories([
        WriteEntry(path="/tmp/d/one/deep", mode=750), WriteEntry(path="/tmp/d/two", owner="nobody", group="nogroup"),
    ])  # fmt: skip
    assert sb.out("stat -c '%a %U' /tmp/d/one/deep /tmp/d/two") == "750 root\n755 nobody"
    sb.files.create_directories([WriteEntry(path="/tmp/d/one/deep", mode=700)])
    assert sb.files.get_file_info(["/tmp/d/one/deep"])["/tmp/d/one/deep"].mode == 750
    sb.files.delete_directories(["/tmp/d/one", "/tmp/d/never-there"])
    assert sb.out("ls /tmp/d") == "two"


def test_a_missing_file_raises_404(sb):
    refused(404, sb.files.read_file, "/tmp/nowhere")
    refused(404, sb.files.read_bytes, "/tmp/nowhere")
    assert refused(404, sb.files.get_file_info, ["/tmp/nowhere"]).error.code == "FILE_NOT_FOUND"


# ---- metrics ----


def test_metrics(sb):
    command = "python3 -c \"x = b'x' * (64 << 20); print('ready', flush=True); import time; time.sleep(100)\""
    hog = sb.run(command, background=True)
    wait_for(lambda: sb.commands.get_background_command_logs(hog.id).content == "ready\n", what="64 MiB in use")
    m = sb.kit.wait(sb.sandbox.get_metrics())
    assert m.cpu_count >= 1 and 0 <= m.cpu_used_percentage <= 100
    assert 64 <= m.memory_used_in_mib < 256 and m.memory_total_in_mib == 2048  # the client asked for 2Gi
    assert abs(m.timestamp / 1000 - time.time()) < 60
