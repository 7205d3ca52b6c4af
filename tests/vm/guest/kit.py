# SPDX-License-Identifier: Apache-2.0
"""What the checks share: results as lines, programs, and the two ways in which a server is started here."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
import traceback

PAYLOAD = pathlib.Path("/opt/payload")
BIN = pathlib.Path("/usr/local/bin")
STATE, RUN = pathlib.Path("/var/lib/opensandbox"), pathlib.Path("/run/opensandbox")
PROGRAMS = ("opensandbox-server", "opensandbox-warden", "opensandbox-egress")
TIMEOUT_S = 300  # of one program; all is slow when the processor is emulated
SERVICE, BOXES = "opensandbox.service", "opensandbox-boxes.service"
ENVIRONMENT = pathlib.Path("/etc/opensandbox/environment")
KEY = "0123456789abcdef0123456789abcdef"


class Failed(Exception):
    pass


def check(condition, *facts):
    if not condition:
        raise Failed(" ".join(map(str, facts)))


def run(*words, status=0, stdin=b"", timeout=TIMEOUT_S):
    """What a program writes to its standard output. STATUS None: whatever it is."""
    done = subprocess.run([*map(str, words)], input=stdin, capture_output=True, timeout=timeout, check=False)
    check(status is None or done.returncode == status, f"{' '.join(map(str, words))[:300]}: status {done.returncode}:",
          done.stdout.decode(errors="replace")[-2000:], done.stderr.decode(errors="replace")[-2000:])
    return done.stdout.decode(errors="replace")


def wait_for(condition, what, timeout=120):
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        check(time.monotonic() < end, f"{what}: not within {timeout} s")
        time.sleep(0.2)


class Runner:
    """Runs checks one after the other; each is told with a line when it begins and when it ends."""

    def __init__(self):
        self.failed = 0

    def run(self, name, function, *args):
        print(f"BEGIN {name}", flush=True)
        began = time.monotonic()
        try:
            function(*args)
        except Exception as e:  # noqa: BLE001 what goes wrong is the result
            self.failed += 1
            why = str(e) if isinstance(e, Failed) else traceback.format_exc()
            print(f"FAIL {name}\t{json.dumps(why + chr(10) + journal())}", flush=True)
            return False
        print(f"PASS {name} ({time.monotonic() - began:.1f} s)", flush=True)
        return True


def journal(lines=15):
    """The last words of the servers, for who reads of a failure; requests and delays are of no interest there."""
    text = subprocess.run(["journalctl", "-q", "-n", "200", "-o", "cat", "-u", SERVICE], capture_output=True, text=True, check=False).stdout
    log = pathlib.Path.home() / ".opensandbox/server.log"
    if log.exists():
        text += log.read_text(errors="replace")
    return "\n".join([line for line in text.splitlines() if not re.search(r" info | held up ", line)][-lines:])


# ---- osb --------------------------------------------------------------------------------------------------------


def osb(*words, **more):
    return run(BIN / "osb", *words, **more)


def osb_json(*words, **more):
    return json.loads(osb(*words, "-o", "json", **more))


def create(*words, image="host"):
    """The id of a new sandbox."""
    return osb_json("sandbox", "create", "-i", image, "-t", "2h", "--ready-timeout", "120s", *words)["id"]


def sh(sandbox, command, **more):
    """What a shell in a sandbox prints."""
    return osb("command", "run", sandbox, "-o", "raw", "--", "sh", "-c", command, **more).strip()


def remove(*sandboxes):
    if sandboxes:
        osb("rm", *sandboxes)


@contextlib.contextmanager
def sandbox(*words, **more):
    """One for a `with`: it goes afterwards, however that ends."""
    one = create(*words, **more)
    try:
        yield one
    finally:
        with contextlib.suppress(Failed):
            remove(one)


def listed():
    return [s["id"] for s in osb_json("ps")["items"]]


# ---- processes --------------------------------------------------------------------------------------------------


def pids_of(*names):
    """Of programs by the name of their file."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.path.basename(os.readlink(f"/proc/{pid}/exe")) in names:
                found.append(int(pid))
    return found


def kill_all():
    """Every process of the server, at once and without a warning."""
    for pid in pids_of(*PROGRAMS, "opensandbox-fetch", "opensandbox-unpack"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def is_serving():
    with contextlib.suppress(Failed):
        osb("ps")
        return True
    return False


# ---- two ways to start a server -----------------------------------------------------------------------------------


class Service:
    """As a service of systemd, by the unit that we deploy."""

    name = "service"

    def start(self):
        os.environ["OPEN_SANDBOX_API_KEY"] = KEY
        run("systemctl", "start", SERVICE)
        wait_for(is_serving, "the service to answer")

    def restart(self):
        run("systemctl", "restart", SERVICE)
        wait_for(is_serving, "the service to answer again")

    def come_back(self):
        """After everything was killed, or the machine started again: systemd does it."""
        os.environ["OPEN_SANDBOX_API_KEY"] = KEY
        wait_for(is_serving, "systemd to start the service again", TIMEOUT_S)

    def stop(self):
        run("systemctl", "stop", SERVICE)
        run("systemctl", "stop", BOXES)


class Shell:
    """From the shell of somebody who has logged in: a scope of systemd's, that is not ours to divide."""

    name = "shell"

    def start(self):
        os.environ.pop("OPEN_SANDBOX_API_KEY", None)  # osb has noted what the key is
        run("systemd-run", "-q", "--scope", "--slice=user.slice", BIN / "osb", "up", "--force")
        check(is_serving(), "osb up is done, but nobody answers")

    come_back = start

    def restart(self):
        osb("down", "--keep")
        self.start()

    def stop(self):
        osb("down")


def install():
    """As an administrator does it: what `make install` made, accounts, and a key for the service."""
    shutil.copytree(PAYLOAD / "root", "/", symlinks=True, dirs_exist_ok=True)
    for account in ("opensandbox", "opensandbox-egress", "opensandbox-fetch"):
        run("useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", account)
    ENVIRONMENT.parent.mkdir(exist_ok=True)
    ENVIRONMENT.touch(0o600)
    ENVIRONMENT.write_text(f"OPENSANDBOX_SERVER_API_KEY={KEY}\n")
    run("systemctl", "daemon-reload")
