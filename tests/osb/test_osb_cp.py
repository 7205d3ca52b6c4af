# SPDX-License-Identifier: Apache-2.0
"""osb cp: files and folders between here and a sandbox, which is hostile."""
import contextlib
import http.server
import json
import os
import socket
import stat
import subprocess
import threading
import urllib.parse

import pytest

from conftest import assert_clean
from osb_kit import Osb, standing

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture(scope="module")
def osb(server, tmp_path_factory):
    return Osb(tmp_path_factory.mktemp("osb"), server)


@pytest.fixture(scope="module")
def sandbox(osb):
    with standing(osb) as sandbox:
        yield sandbox


def inside(osb, sandbox, *words):
    return osb.text("shell", sandbox, "--", *words)


def tree_of(top):
    """Path -> what it is."""
    found = {}
    for folder, names, files in os.walk(top):
        for name in names + files:
            path = os.path.join(folder, name)
            s = os.lstat(path)
            key = os.path.relpath(path, top)
            if stat.S_ISLNK(s.st_mode):
                found[key] = ("link", os.readlink(path))
            elif stat.S_ISDIR(s.st_mode):
                found[key] = ("folder", s.st_mode & 0o777)
            else:
                with open(path, "rb") as f:
                    found[key] = ("file", s.st_mode & 0o777, f.read())
    return found


@pytest.fixture
def tree(tmp_path):
    """A folder with all that is awkward."""
    top = tmp_path / "tree"
    (top / "sub/deep").mkdir(parents=True)
    (top / "empty").mkdir()
    (top / "a.txt").write_text("a")
    (top / "sub/run.sh").write_text("#!/bin/sh\n")
    (top / "sub/run.sh").chmod(0o751)
    (top / "sub/deep/zero").write_bytes(b"")
    (top / "sub/deep/bytes").write_bytes(bytes(range(256)) * 100)
    (top / "it's \"q\" *").write_text("quoted")
    (top / "cost$5.txt").write_text("dollar")
    (top / "d$x").mkdir()
    (top / "d$x/in").write_text("in")
    (top / "ü\n").write_text("line")
    (top / "link").symlink_to("sub/run.sh")
    (top / "sub/up").symlink_to("../a.txt")
    (top / "sub/here").symlink_to(".")
    (top / "sub").chmod(0o750)
    (top / "empty").chmod(0o700)
    return top


@needs_root
@pytest.mark.smoke
def test_a_tree_comes_back_as_it_went(osb, sandbox, tree, tmp_path):
    result = osb.json("cp", tree, f"{sandbox}:/tmp/there")
    assert result == {"files": 8, "folders": 5, "links": 3, "bytes": 25600 + 1 + 10 + 6 + 6 + 2 + 4, "skipped": 0, "refused": 0}
    assert osb.json("cp", f"{sandbox}:/tmp/there", tmp_path / "back")["files"] == 8
    assert tree_of(tmp_path / "back") == tree_of(tree)


@needs_root
def test_where_things_go_is_as_with_cp(osb, sandbox, tree, tmp_path):
    osb("cp", tree, f"{sandbox}:/tmp/w")  # becomes it
    osb("cp", tree, f"{sandbox}:/tmp/w")  # goes into it
    osb("cp", f"{tree}/.", f"{sandbox}:/tmp/w2")  # only what is in it
    osb("cp", tree / "a.txt", f"{sandbox}:/tmp/w/new")
    osb("cp", tree / "a.txt", f"{sandbox}:/tmp/fresh/")
    osb("cp", tree / "a.txt", tree / "sub", f"{sandbox}:/tmp/w2/many/")
    names = inside(osb, sandbox, "sh", "-c", "cd /tmp && ls -d w/a.txt w/tree/a.txt w2/a.txt w/new fresh/a.txt w2/many/a.txt w2/many/sub/run.sh")
    assert len(names.split()) == 7
    here = tmp_path / "here"
    here.mkdir()
    osb("cp", f"{sandbox}:/tmp/w2/sub/deep", here)
    osb("cp", f"{sandbox}:/tmp/w2/sub/deep/.", here)
    osb("cp", f"{sandbox}:/tmp/w2/a.txt", here / "renamed")
    assert (here / "deep/zero").exists() and (here / "zero").exists() and (here / "renamed").read_text() == "a"


@needs_root
def test_streams_are_files_too(osb, sandbox):
    data = os.urandom(3_000_000)
    osb("cp", "-", f"{sandbox}:/tmp/stream", stdin=data)
    done = osb("cp", f"{sandbox}:/tmp/stream", "-")
    assert done.stdout == data and done.stderr == b""
    assert b"has no name" in osb("cp", "-", f"{sandbox}:/tmp/", stdin=b"x", status=1).stderr
    assert b"is a folder" in osb("cp", f"{sandbox}:/tmp", "-", status=1).stderr


@needs_root
def test_a_large_file_costs_no_memory(osb, sandbox, tmp_path):
    big = tmp_path / "big"
    with open(big, "wb") as f:
        f.truncate(300_000_000)
        f.seek(123_456_789)
        f.write(b"here")
    osb("cp", big, f"{sandbox}:/tmp/big")
    assert inside(osb, sandbox, "stat", "-c", "%s", "/tmp/big") == "300000000\n"
    osb("cp", "-q", f"{sandbox}:/tmp/big", tmp_path / "copy")
    subprocess.run(["cmp", big, tmp_path / "copy"], check=True)
    inside(osb, sandbox, "rm", "/tmp/big")


@needs_root
def test_what_is_no_file_is_left_out_and_counted(osb, sandbox, tmp_path):
    top = tmp_path / "odd"
    top.mkdir()
    os.mkfifo(top / "fifo")
    (top / "f").write_text("x")
    done = osb("cp", top, f"{sandbox}:/tmp/odd")
    assert b"1 were left out" in done.stderr
    inside(osb, sandbox, "mkfifo", "/tmp/odd/fifo")
    assert osb.json("cp", f"{sandbox}:/tmp/odd", tmp_path / "back")["skipped"] == 1
    assert [p.name for p in (tmp_path / "back").iterdir()] == ["f"]
    assert b"neither a file nor a folder" in osb("cp", f"{sandbox}:/dev/null", tmp_path / "null", status=1).stderr


@needs_root
def test_links_that_lead_out_are_left_behind(osb, sandbox, tmp_path):
    inside(osb, sandbox, "sh", "-c", "mkdir -p /tmp/l/sub && cd /tmp/l && ln -s /etc/passwd abs && ln -s ../../x up && ln -s ok fine && echo 1 > ok && "
                                     "ln -s ../.. sub/out && ln -s a/../../b sneaky")
    done = osb("cp", f"{sandbox}:/tmp/l", tmp_path / "l", status=1)
    assert done.stderr.count(b"leads out of the folder") == 4
    assert tree_of(tmp_path / "l").keys() == {"sub", "fine", "ok"}
    osb("cp", "--unsafe-links", f"{sandbox}:/tmp/l", tmp_path / "all")
    assert os.readlink(tmp_path / "all/abs") == "/etc/passwd"


@needs_root
def test_links_that_stand_in_the_way_are_replaced_and_not_followed(osb, sandbox, tmp_path):
    inside(osb, sandbox, "sh", "-c", "mkdir -p /tmp/way/d && echo new > /tmp/way/f && echo new > /tmp/way/d/g")
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "f").write_text("old")
    target = tmp_path / "target"
    target.mkdir()
    (target / "f").symlink_to(precious / "f")
    osb("cp", f"{sandbox}:/tmp/way/f", target)
    assert (precious / "f").read_text() == "old" and (target / "f").read_text() == "new\n"
    (target / "d").symlink_to(precious)
    assert b"is no folder" in osb("cp", f"{sandbox}:/tmp/way/.", target, status=1).stderr
    assert list(precious.iterdir()) == [precious / "f"]


@needs_root
def test_failures_name_what_failed_and_leave_no_half_file(osb, sandbox, tmp_path):
    assert b"'/no/such' is not there" in osb("cp", f"{sandbox}:/no/such", tmp_path / "x", status=1).stderr
    assert b"no-such-file" in osb("cp", "no-such-file", f"{sandbox}:/tmp/x", status=1).stderr
    assert b"/no/folder" in osb("cp", f"{sandbox}:/etc/passwd", "/no/folder/x", status=1).stderr
    assert b"no-such-sandbox" in osb("cp", "no-such-sandbox:/etc/passwd", tmp_path / "x", status=1).stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [["a", "b"], ["x:a", "y:b"], ["x:a", "y:a", "dir"], ["a"], ["x:a", "x:b", "-"]])
def test_wrong_words_are_told_as_such(tmp_path, words):
    assert b"Usage: osb cp" in Osb(tmp_path)("cp", *words, status=2).stderr


# ---- a sandbox that lies ----


class Liar(http.server.BaseHTTPRequestHandler):
    """The API and the inside of a sandbox in one: listings are what the test says."""

    protocol_version = "HTTP/1.1"

    def answer(self, body, kind="application/json"):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        path = urllib.parse.parse_qs(url.query).get("path", [""])[0]
        if "/endpoints/" in url.path:
            self.answer(json.dumps({"endpoint": f"127.0.0.1:{self.server.server_port}/inside"}).encode())
        elif url.path.endswith("/files/info"):
            self.answer(json.dumps({path: entry(path, "directory")}).encode())
        elif url.path.endswith("/directories/list"):
            self.answer(json.dumps(self.server.listing(path)).encode())
        else:
            self.answer(self.server.content, "application/octet-stream")

    def log_message(self, *_):
        pass


def entry(path, kind="file", size=4, mode=644):
    time = "2026-06-15T09:46:58Z"
    return {"path": path, "type": kind, "size": size, "mode": mode, "owner": "root", "group": "root", "modified_at": time, "created_at": time}


@contextlib.contextmanager
def liar(listing, content=b"evil"):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Liar)
    server.listing, server.content = listing, content
    server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def copy_from(server, folder, status=1):
    osb = Osb(folder, OPEN_SANDBOX_DOMAIN=f"127.0.0.1:{server.server_port}")
    done = osb("cp", "box:/data", folder / "target/data", status=status)
    return done.stderr.decode()


@pytest.mark.parametrize("path", ["/data/../evil", "/etc/passwd", "../evil", "/data/./x", "/data//x", "/data/x/../../evil", "/database/x", "/data/a/",
                                  "/data/" + "x" * 300, "/data" + "/d" * 200, "evil", "/data/\u0000x"])
def test_paths_that_could_leave_are_refused_and_nothing_is_written(tmp_path, path):
    (tmp_path / "target").mkdir()
    with liar(lambda _: [entry(path)]) as server:
        message = copy_from(server, tmp_path)
    assert message.startswith("Error: ") and "Aborted" not in message
    assert list((tmp_path / "target").iterdir()) == []
    assert sorted(p.name for p in tmp_path.iterdir()) == ["target"]


def test_a_name_that_is_listed_twice_cannot_become_a_way_out(tmp_path):
    """First a link out, then a file below it."""
    (tmp_path / "target").mkdir()
    out = tmp_path / "out"
    out.mkdir()

    def listing(path):
        return [entry("/data/d", "directory"), entry("/data/d/x")] if path == "/data" else [entry("/data/d", "directory")]

    (tmp_path / "target/data/data").mkdir(parents=True)  # where it goes, as there is a folder of that name
    (tmp_path / "target/data/data/d").symlink_to(out)
    with liar(listing) as server:
        message = copy_from(server, tmp_path)
    assert "is no folder" in message and list(out.iterdir()) == []


def test_a_folder_without_an_end_has_one(tmp_path):
    (tmp_path / "target").mkdir()
    with liar(lambda path: [entry(path + "/d", "directory")]) as server:
        message = copy_from(server, tmp_path)
    assert "folders deep" in message
    assert list((tmp_path / "target").iterdir()) == []


def test_a_file_gives_no_more_than_was_listed(tmp_path):
    (tmp_path / "target").mkdir()
    with liar(lambda _: [entry("/data/f", size=4)], content=b"evil" * 1_000_000) as server:
        message = copy_from(server, tmp_path, status=0)
    assert "has grown" in message
    assert (tmp_path / "target/data/f").read_bytes() == b"evil"


def test_names_cannot_speak_to_the_terminal(tmp_path):
    (tmp_path / "target").mkdir()
    with liar(lambda _: [entry("/data/\u001b[2Jx/../y")]) as server:
        message = copy_from(server, tmp_path)
    assert "\x1b" not in message and "u001b" in message


def test_modes_that_would_give_rights_are_not_taken(tmp_path):
    """What a sandbox says goes no further than the umask, and folders that were there keep what they have."""
    (tmp_path / "target/data/data/mine").mkdir(parents=True)
    (tmp_path / "target/data/data/mine").chmod(0o700)
    found = [entry("/data/f", mode=6777), entry("/data/g", mode=99999), entry("/data/mine", "directory", mode=777), entry("/data/new", "directory", mode=777)]
    with liar(lambda path: found if path.endswith("data") else []) as server:
        copy_from(server, tmp_path, status=0)
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "target/data/data").iterdir()}
    mask = os.umask(0o22)
    os.umask(mask)
    assert modes == {"f": 0o777 & ~mask, "g": 0o644 & ~mask, "mine": 0o700, "new": 0o777 & ~mask}


@needs_root
def test_ctrl_c_ends_a_copy_and_leaves_nothing(osb, sandbox, tmp_path):
    inside(osb, sandbox, "sh", "-c", "truncate -s 3G /tmp/huge")
    running = osb.start("cp", f"{sandbox}:/tmp/huge", tmp_path / "huge")
    while not any(p.stat().st_size > 1_000_000 for p in tmp_path.iterdir()):
        assert running.poll() is None
    running.send_signal(2)
    assert running.wait(30) == 1
    err = running.communicate()[1].decode()
    assert_clean(err)
    assert "Aborted!" in err and list(tmp_path.iterdir()) == []


@needs_root
def test_ctrl_c_ends_a_tree_and_leaves_no_half_files(osb, sandbox, tmp_path):
    inside(osb, sandbox, "sh", "-c", "mkdir /tmp/wide && cd /tmp/wide && for i in $(seq 20); do truncate -s 400M f$i; done")
    target = tmp_path / "wide"
    running = osb.start("cp", f"{sandbox}:/tmp/wide", target)
    while not (target.exists() and any(target.iterdir())):
        assert running.poll() is None
    running.send_signal(2)
    assert running.wait(30) == 1
    err = running.communicate()[1].decode()
    assert_clean(err)
    assert "Aborted!" in err
    assert [p.name for p in target.iterdir() if p.name.startswith(".osb-") or p.stat().st_size != 400 << 20] == []
    inside(osb, sandbox, "rm", "-r", "/tmp/wide")


@needs_root
def test_many_small_files_go_at_the_same_time(osb, sandbox, tmp_path):
    top = tmp_path / "small"
    for i in range(300):
        (top / f"d{i % 7}").mkdir(parents=True, exist_ok=True)
        (top / f"d{i % 7}/f{i}").write_text(str(i) * (i % 50))
    osb("cp", top, f"{sandbox}:/tmp/small")
    osb("cp", f"{sandbox}:/tmp/small", tmp_path / "back")
    assert tree_of(tmp_path / "back") == tree_of(top)


def test_one_file_that_fails_ends_the_copy(tmp_path):
    """Of several that are under way: it is told once, and nothing half is left."""
    (tmp_path / "target").mkdir()
    with liar(lambda _: [entry(f"/data/f{i}", size=4) for i in range(50)] + [entry("/data/f7/below")]) as server:
        message = copy_from(server, tmp_path)
    assert message.count("Error: ") == 1
    assert [p.name for p in (tmp_path / "target/data").iterdir() if p.name.startswith(".osb-")] == []
