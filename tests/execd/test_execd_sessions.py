# SPDX-License-Identifier: Apache-2.0
"""Sessions: shells that stay."""
import concurrent.futures
import json
import os
import re
import shutil
import time

import pytest

from test_execd import EXECD, Connection, serve, start, texts

pytestmark = pytest.mark.skipif(not EXECD.exists(), reason=f"{EXECD} is not built")


@pytest.fixture(scope="module")
def execd(tmp_path_factory):
    yield from serve(tmp_path_factory.mktemp("execd"), env={"GREETING": "hello", "not-a-name": "x"})


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """One that finds no bash."""
    folder = tmp_path_factory.mktemp("plain")
    programs = folder / "bin"
    programs.mkdir()
    for name in ("sh", "cat", "sleep", "seq", "true", "ls"):
        (programs / name).symlink_to(shutil.which(name))
    yield from serve(folder, env={"PATH": str(programs)})


class Session:
    def __init__(self, execd, **body):
        self.execd = execd
        answer = execd.request("POST", "/session", json.dumps(body) if body else None)
        assert answer.status == 200, answer.body
        self.id = answer.json["session_id"]
        assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", self.id)

    def post(self, command, **more):
        return self.execd.request("POST", f"/session/{self.id}/run", json.dumps({"command": command, **more}))

    def run(self, command, **more):
        answer = self.post(command, **more)
        assert answer.status == 200, answer.body
        events = [json.loads(line) for line in answer.body.decode().split("\n\n") if line]
        assert events[0]["type"] == "init" and events[0]["text"] == self.id
        ends = [e for e in events if e["type"] in ("error", "execution_complete")]
        assert len(ends) == 1
        return [e for e in events if e["type"] != "ping"]

    def out(self, command, **more):
        events = self.run(command, **more)
        assert events[-1]["type"] == "execution_complete", events
        assert texts(events, "stderr") == [], events
        return texts(events)

    def code(self, command, **more):
        end = self.run(command, **more)[-1]
        return 0 if end["type"] == "execution_complete" else int(end["error"]["evalue"])

    def delete(self):
        return self.execd.request("DELETE", f"/session/{self.id}")


@pytest.fixture
def session(execd):
    s = Session(execd)
    yield s
    s.delete()


# ---- what stays ----


@pytest.mark.smoke
def test_everything_that_a_run_changes_is_there_in_the_next(session, tmp_path):
    (tmp_path / "sub dir").mkdir()
    assert session.out("echo $GREETING") == ["hello"]
    session.run("export A='one two'; B=plain; C=(x 'y z'); f() { echo in f: $1; }; alias ll='echo aliased'; shopt -s expand_aliases")
    session.run(f"cd '{tmp_path}/sub dir'; set -f; umask 027; shopt -s nullglob; set -- p q")
    assert session.out('echo "$A|$B|${C[1]}"; f x; pwd; echo *; umask; echo $#') == [
        "one two|plain|y z", "in f: x", f"{tmp_path}/sub dir", "*", "0027", "2"]
    assert session.out("ll") == ["aliased"]


@pytest.mark.parametrize("value", ["a\nb", "a\\nb", "$HOME `id` $(id)", "'\"", "\t\x01", "é" * 3000, "x" * 20000, ""])
def test_values_of_all_kinds_stay_as_they_are(session, value):
    quoted = "'" + value.replace("'", "'\\''") + "'"
    session.run(f"export V={quoted}")
    for ending in ("true", "exit 3", "true"):
        session.run(ending)
        assert "\n".join(session.out('printf "%s" "$V" | od -An -v -tx1 | tr -d " \n"')) == value.encode().hex()


def test_output_is_told_as_it_is(session):
    events = session.run("printf 'a\\n\\nb'; echo err >&2; printf tail")
    assert texts(events) == ["a", "\n", "btail"] and texts(events, "stderr") == ["err"]
    assert session.out("cat <<'EOF'\nhere $x\n  doc\nEOF") == ["here $x", "  doc"]
    assert session.out("head -c 200000 /dev/zero | tr '\\0' x")[0] == "x" * 200000


# ---- what a run may do to its shell ----


def test_exit_ends_the_run_and_not_the_session(session, tmp_path):
    session.run(f"cd {tmp_path}; export KEPT=1; local_too=2; f() {{ echo f; }}")
    assert session.code("export LOST=1; exit 7; echo never") == 7
    assert session.out('echo $KEPT $local_too; pwd; f; echo "[$LOST]"') == ["1 2", str(tmp_path), "f", "[]"]
    assert session.code("exit 0") == 0
    assert session.out("echo $KEPT") == ["1"]


def test_exec_and_descriptors_do_not_end_the_session(session, tmp_path):
    session.run("export KEPT=1")
    assert session.out("exec echo replaced") == ["replaced"]
    assert session.out("echo $KEPT") == ["1"]
    session.run(f"exec 5>{tmp_path}/five")
    session.run("echo into five >&5")
    assert (tmp_path / "five").read_text() == "into five\n"
    assert session.out("exec 96>&- 97>&- 98>&- 99>&-; echo fine") == ["fine"]
    assert session.out("echo still fine") == ["still fine"]
    session.run(f"exec >{tmp_path}/all 2>&1; echo away")
    assert session.out("echo away too") == []
    assert (tmp_path / "all").read_text() == "away\naway too\n"


@pytest.mark.parametrize("command, code", [("if", 2), ("echo 'unfinished", 2), ("false", 1), ("kill -9 $$", 137), ("(exit 300)", 44),
                                           ("set -e; false; echo never", 1), ("set -u; echo $nothing", 127), ("kill -TERM $BASHPID", 143)])
def test_failures_cost_only_the_run(execd, command, code):
    s = Session(execd)
    s.run("export KEPT=1")
    assert s.code(command) in (code, 1)
    assert s.out("set +eu; echo $KEPT") == ["1"]
    s.delete()


def test_nothing_of_ours_can_be_seen(session):
    session.run("set -x; set -v; trap 'echo debug' DEBUG")
    events = session.run("echo traced")
    assert "debug" in texts(events) and "traced" in texts(events) and not any("__osb" in t for t in texts(events) + texts(events, "stderr")
                                                                             if not t.startswith("+ set")), events
    session.run("set +xv; trap - DEBUG")
    assert session.out("echo quiet") == ["quiet"]
    assert session.out("ls /proc/self/fd | sort -n | head -c 6 | tr '\\n' ' '") == ["0 1 2 "]
    assert session.out("bash -c 'ls /proc/$$/fd' | sort -n | tr '\\n' ' '")[0].split()[:3] == ["0", "1", "2"]
    assert not any(f in session.out("ls /proc/self/fd") for f in ("96", "97", "98", "99"))


def test_background_jobs_go_on_and_hold_nobody_up(session, tmp_path):
    mark = tmp_path / "mark"
    began = time.monotonic()
    assert session.out(f"(sleep 4; echo late; touch {mark}) & echo now") == ["now"]
    assert time.monotonic() - began < 3
    assert session.out("jobs | wc -l; wait; echo waited")[-1] == "waited"
    assert mark.exists()


# ---- directories ----


def test_directories(execd, tmp_path):
    s = Session(execd, cwd=str(tmp_path / "made" / "for it"))
    assert s.out("pwd") == [str(tmp_path / "made" / "for it")]
    (tmp_path / "o'ther").mkdir()
    assert s.out("pwd", cwd=str(tmp_path / "o'ther")) == [str(tmp_path / "o'ther")]
    assert s.out("pwd") == [str(tmp_path / "o'ther")]
    assert s.code("exit 3", cwd=str(tmp_path)) == 3
    assert s.out("pwd") == [str(tmp_path / "o'ther")]
    answer = s.post("pwd", cwd=str(tmp_path / "missing"))
    assert answer.status == 400 and answer.json["code"] == "INVALID_REQUEST_BODY" and "cwd" in answer.json["message"]
    s.delete()
    (tmp_path / "file").write_text("")
    answer = execd.request("POST", "/session", json.dumps({"cwd": str(tmp_path / "file" / "x")}))
    assert answer.status in (400, 500) and answer.json["message"]


# ---- time, readers, the end ----


def test_a_timeout_ends_the_run_with_all_that_it_started(session, tmp_path):
    pidfile = tmp_path / "pid"
    session.run("export KEPT=1")
    began = time.monotonic()
    end = session.run(f"sleep 100 & echo $! > {pidfile}; wait", timeout=300)[-1]
    assert time.monotonic() - began < 5 and end["error"]["evalue"] == "137"
    pid = int(pidfile.read_text())
    deadline = time.monotonic() + 5
    while os.path.exists(f"/proc/{pid}") and "Z" not in open(f"/proc/{pid}/stat").read().split()[2]:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert session.out("echo $KEPT") == ["1"]


def test_runs_of_one_session_wait_for_each_other(session):
    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        results = list(pool.map(lambda i: session.out(f"N=$((N + 1)); sleep 0.05; echo $N"), range(5)))
    assert sorted(r[0] for r in results) == ["1", "2", "3", "4", "5"]


def test_too_many_that_wait_are_refused(session):
    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        answers = list(pool.map(lambda i: session.post("sleep 0.2").status, range(24)))
    assert 429 in answers and answers.count(200) >= 8
    assert session.out("echo fine") == ["fine"]


def test_a_run_whose_reader_goes_away_is_ended(session, tmp_path):
    mark = tmp_path / "mark"
    connection = Connection(session.execd.path, 30)
    connection.request("POST", f"/session/{session.id}/run", json.dumps({"command": f"sleep 4; touch {mark}"}), session.execd.headers())
    assert connection.getresponse().readline()
    time.sleep(0.2)
    connection.sock.close()
    connection.close()
    began = time.monotonic()
    assert session.out("echo next") == ["next"] and time.monotonic() - began < 3
    time.sleep(5)
    assert not mark.exists()


def test_deleting_ends_what_runs(execd):
    s = Session(execd)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(s.run, "sleep 100")
        time.sleep(0.3)
        began = time.monotonic()
        assert s.delete().status == 200
        assert running.result()[-1]["error"]["evalue"] == "137" and time.monotonic() - began < 3
    again = s.delete()
    assert again.status == 404 and again.json["code"] == "CONTEXT_NOT_FOUND"
    assert s.post("true").status == 404


def test_a_session_ends_like_a_command(execd):
    s = Session(execd)
    assert execd.request("DELETE", f"/command?id={s.id}").status == 200
    assert s.delete().status == 404


def test_bodies(execd):
    assert execd.request("POST", "/session", "{}").status == 200
    assert execd.request("POST", "/session", '{"cwd":null}').status == 200
    assert execd.request("POST", "/session", "{").status == 400
    s = Session(execd)
    for body in ("", "{}", '{"command":""}', '{"command":1}', '{"command":"x","timeout":-1}'):
        answer = execd.request("POST", f"/session/{s.id}/run", body)
        assert answer.status == 400 and answer.json["code"] == "INVALID_REQUEST_BODY", body
    assert execd.request("POST", f"/session/{s.id}/run", '{"command":"true","cwd":null,"timeout":null}').status == 200


def test_there_is_a_limit(tmp_path):
    d = start(tmp_path).wait_ready()
    answers = [d.request("POST", "/session") for _ in range(65)]
    assert [a.status for a in answers] == [200] * 64 + [429]
    for a in answers[:64]:
        assert d.request("DELETE", f"/session/{a.json['session_id']}").status == 200
    deadline = time.monotonic() + 5
    while d.request("POST", "/session").status != 200:
        assert time.monotonic() < deadline
    d.stop()


def test_a_hundred_sessions_leave_nothing_behind(execd):
    fds = f"/proc/{execd.process.pid}/fd"
    Session(execd).delete()
    before = len(os.listdir(fds))
    for i in range(100):
        s = Session(execd)
        s.run("true" if i % 2 else "exit 1")
        s.delete()
    deadline = time.monotonic() + 10
    while len(os.listdir(fds)) > before + 1:
        assert time.monotonic() < deadline
        time.sleep(0.02)


# ---- sh ----


def test_a_plain_shell_keeps_what_is_exported_and_the_directory(plain, tmp_path):
    s = Session(plain)
    s.run(f"export A='it'\"'\"'s one'; cd {tmp_path}")
    for ending, code in (("true", 0), ("exit 5", 5), ("if", 2), ("exec true", 0)):
        assert s.code(ending) == code
        assert s.out('echo "$A"; pwd') == ["it's one", str(tmp_path)]
    events = s.run("echo out; echo err >&2; false")
    assert texts(events) == ["out"] and texts(events, "stderr") == ["err"] and events[-1]["error"]["evalue"] == "1"
    assert s.out("ls /proc/self/fd") [:3] == ["0", "1", "2"] and "98" not in s.out("ls /proc/self/fd")
    assert s.out("cat <<E\nx\nE") == ["x"]
