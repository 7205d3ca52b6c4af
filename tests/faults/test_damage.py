# SPDX-License-Identifier: Apache-2.0
"""No running sandbox is killed by damage, and each loss is named (G8, S3, S8): what the server and the warden have written down is
removed, cut, overwritten or replaced by an older copy while sandboxes run and nobody looks after them.

Each round kills all programs, damages this or that, and starts again. SOAK: 200 rounds at random. SEED=n[,n...] repeats those."""
import datetime
import os
import random
import time

import pytest

from api import when
from conftest import EXECD, SERVER
from damage import VOLUME, Host, change
from fleet import until

SOAK = bool(os.environ.get("SOAK"))
ROUNDS_OF_A_HOST = 10
BACK_SECONDS = 10
LATE_SECONDS = 5  # until an overdue sandbox has ended (S7)
COPY_SECONDS = 0  # from an answer until what it says outlives damage to the database

if os.environ.get("SEED"):
    SEEDS = [int(n) for n in os.environ["SEED"].split(",")]
else:
    SEEDS = [random.randrange(1 << 30) for _ in range(200)] if SOAK else range(1, 7)

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(not SERVER.exists() or not EXECD.exists(), reason="the server or execd is not built"),
]

# What is damaged, and how. Of the database itself some ways tear its structure: that start may be refused.
LOG = ["removed", "halved", "cut", "flipped", "overwritten"]
DATABASE = ["flipped", "page"]
NOTE = ["removed", "halved", "flipped", "overwritten"]
NOTES = ["box", "record", "stack"]
SECRET = ["removed", "flipped"]
COPY = ["removed", "halved", "flipped", "page", "older"]


class Damage:
    """KINDS: pairs of a target and a way. Notes are those of the sandboxes in ROLES, or of some that are chosen."""

    def __init__(self, host, chooser, kinds, roles=None):
        self.host, self.random, self.kinds, self.roles = host, chooser, kinds, roles
        self.hit = {}  # target: roles of the sandboxes whose note that is
        self.old = self.old_copy = None

    def __str__(self):
        return ", ".join(f"{target} {how}" + (f" of {self.hit[target]}" if target in self.hit else "") for target, how in self.kinds)

    @property
    def targets(self):
        return {target for target, _ in self.kinds}

    @property
    def tears_database(self):
        return "db" in self.targets

    @property
    def may_refuse(self):
        """With status 3: the database is damaged, or new and nothing else says which sandboxes there are."""
        return self.tears_database or (self.is_of_records and "notes" in self.targets)

    @property
    def is_of_records(self):
        """The database may have lost some of them."""
        return bool(self.targets & {"db", "wal", "older"})

    def before(self):
        """While the server has yet to be told what an older copy does not know. A young database is all in its log."""
        if "checkpoint" in self.targets or (self.is_of_records and not self.roles and self.random.random() < 0.5):
            self.host.checkpoint()
        if "older" in self.targets:
            self.old = self.host.copy_database()
        if ("copy", "older") in self.kinds:
            self.old_copy = self.host.copy_database("copy.sqlite")

    def while_it_runs(self):
        """Layers are in a mount of the warden's."""
        for target, how in self.kinds:
            if target == "layer":
                change(self.random.choice(self.host.layer_notes()), how, self.random)

    def choose(self, target):
        """Two kinds of notes are never those of one sandbox; beside the database it is one sandbox alone: somebody must know it."""
        taken = {role for roles in self.hit.values() for role in roles}
        free = [role for role, box in self.host.boxes.items() if role not in taken and (box.folder / target).exists()
                and (box.folder / target).stat().st_size > 0]
        if self.roles:
            return [role for role in free if role in self.roles]
        n = 1 if self.is_of_records else self.random.choice([1, 2, len(free)])
        return self.random.sample(free, min(n, len(free)))

    def do(self):
        for target, how in self.kinds:
            if target == "older":
                self.host.put_back(self.old)
            elif target == "wal":
                change(self.host.database.with_name("db.sqlite-wal"), how, self.random)
            elif target == "db":
                self.host.checkpoint()
                change(self.host.database, how, self.random)
            elif target == "copy" and how == "older":
                self.host.put_back(self.old_copy)
            elif target == "copy":
                self.change_copy(how)
            elif target == "notes":
                self.change_all_notes(how)
            elif target == "secret":
                change(self.host.home.state / "server/secret", how, self.random)
            elif target in NOTES:
                self.hit[target] = self.choose(target)
                assert self.hit[target] or not self.roles, f"no sandbox has a file '{target}'"
                for role in self.hit[target]:
                    change(self.host.boxes[role].folder / target, how, self.random)

    def change_copy(self, how):
        """A file of it that is empty cannot be damaged: what it has may all be in its log."""
        for path in [p for p in self.host.database.parent.glob("copy.sqlite*") if p.name[-4:] != "-shm" and p.stat().st_size > 0]:
            change(path, how if how != "page" or path.stat().st_size >= 4096 else "halved", self.random)

    def change_all_notes(self, how):
        for name in NOTES:
            self.hit[name] = [role for role, box in self.host.boxes.items() if (box.folder / name).exists()]
            for role in self.hit[name]:
                path = self.host.boxes[role].folder / name
                if path.stat().st_size > 0:
                    change(path, how, self.random)

    def may_lose(self, role):
        """What clients know of it was in the database and in its record, and both are damaged."""
        return self.is_of_records and role in self.hit.get("record", ())


def choose_kinds(host, chooser):
    """One to three, of different targets: also the database together with its copy, or with the notes of every sandbox."""
    records = [("wal", how) for how in LOG] + [("db", how) for how in DATABASE] + [("older", "put back")] * 3
    notes = [("box", how) for how in NOTE]
    notes += [(name, how) for name in NOTES[1:] for how in NOTE if any((box.folder / name).exists() for box in host.boxes.values())]
    others = [("secret", how) for how in SECRET] + ([("layer", how) for how in NOTE] if host.layer_notes() else [])
    copies, every = [("copy", how) for how in COPY], [("notes", how) for how in NOTE]
    kinds = []
    for those in chooser.choice([[records], [notes], [others], [copies], [records, notes], [notes, notes], [notes, others], [records, copies],
                                 [records, every], [records, copies, notes], [records, copies, every], [records, copies, others]]):
        kinds += [kind for kind in [chooser.choice(those)] if kind[0] not in [target for target, _ in kinds]]
    return kinds


# ---- what must hold ---------------------------------------------------------------------------------------------


def events_of(host, box):
    return host.fleet.ask("GET", f"/{box.name}/diagnostics/events?limit=500").body.decode().splitlines()


def check_nobody_died(host):
    dead = [box for box in host.boxes.values() if not box.lives()]
    assert not dead, f"killed: {dead}"


def check_nobody_is_frozen(host):
    """But those that were paused."""
    counts = {role: box.count() for role, box in host.boxes.items()}
    for role, box in host.boxes.items():
        if box.truth["status"]["state"] == "Running":
            until(lambda: box.count() != counts[role] or not box.lives(), 3, f"counting on in {box}")  # noqa: B023
    check_nobody_died(host)
    for role, box in host.boxes.items():
        if box.truth["status"]["state"] == "Paused":
            assert box.count() == counts[role], f"{box} was paused"


def same(now, truth):
    """But for the times of what happened since."""
    now, truth = dict(now), dict(truth)
    states = [d.pop("status")["state"] for d in (now, truth)]
    ends = [d.pop("expiresAt", None) for d in (now, truth)]
    if states[0] != states[1] or (ends[0] is None) != (ends[1] is None):
        return False
    return now == truth and (ends[0] is None or abs((when(ends[0]) - when(ends[1])).total_seconds()) <= 1)


def check_is_named(host, box):
    """The loss: to its owner, and to whoever reads the log."""
    events = events_of(host, box)
    assert any("record of this sandbox was lost" in line for line in events), f"no event tells of {box}: {events}"
    assert any(box.name in line for line in host.log()), f"no line of the log tells of {box}"


def check_told(host, damage, known):
    """What clients see is what they were told; where that was lost, they are told so."""
    lost = []
    for role, box in host.boxes.items():
        now = host.describe(box)
        is_same = same(now, box.truth)
        assert is_same or damage.may_lose(role), f"{box} is {now}, was {box.truth}"
        assert now["status"]["state"] == box.truth["status"]["state"], f"{box} is {now}, was {box.truth}"
        if not is_same or (known is not None and box.name not in known) or now["status"]["reason"] == "CONTAINER_RECOVERED":
            check_is_named(host, box)
        if not is_same:
            lost.append(role)
    return lost


def allows_no_more(now, before):
    """NOW, a policy or None, than BEFORE, which denies by default."""
    if now is None:
        return True
    allowed = [rule for rule in now["egress"] if rule["action"] == "allow"]
    return now["defaultAction"] == "deny" and all(rule in before["egress"] for rule in allowed)


def check_policy(host, damage):
    """Where it may be lost, nobody may keep one for it; but it never allows more than it did."""
    box = host.boxes["policy"]
    if not damage.may_lose("policy"):
        until(lambda: host.policy(box) == box.policy, 5, f"the policy of {box}, which is {host.policy(box)}")
    now = host.policy(box)
    assert allows_no_more(now, box.policy), f"{box} may reach more than before: {now}, was {box.policy}"


def check_works(host, box):
    """A command is run with the token that its endpoint tells."""
    is_paused = box.truth["status"]["state"] == "Paused"
    if is_paused:
        assert host.fleet.resume(box.name).status == 202, box
    until(lambda: host.fleet.command(box.name, box.line) == box.says, BACK_SECONDS, f"a command in {box} ({host.fleet.get(box.name)})")
    if is_paused:
        assert host.fleet.pause(box.name).status == 202, box


def check_ends(host, box, latest):
    """One whose time is over, by then."""
    try:
        until(lambda: not box.lives() and host.fleet.state(box.name) == "none", latest - time.monotonic(), f"the end of {box}")
    except AssertionError as e:
        raise AssertionError(f"{e}: it was due {box.truth['expiresAt']}, and is {host.fleet.get(box.name).body}") from e


def check_is_gone(host, box):
    """An older database may know it as one that is over; it never runs again, and nothing of it is left."""
    answer = host.read(box)
    if answer.status == 200:
        assert answer.json["status"]["state"] in ("Failed", "Terminated"), f"{box} is back: {answer.body}"
        assert host.fleet.delete(box.name).status == 204
    until(lambda: host.mentions(box.name) == [], 5, f"removing the files of {box}: {host.mentions(box.name)}")


def check_strangers(host, gone, damage):
    """Nothing runs that nobody was told of. What a damaged database still has of those that are gone, or of one that never was, is over."""
    for name in host.fleet.ids() - {box.name for box in host.boxes.values()} - {box.name for box in gone}:
        status = host.fleet.get(name).json["status"]
        is_known = damage.tears_database or (damage.is_of_records and name in host.past)
        assert is_known and status["state"] in ("Failed", "Terminated"), f"{name} is a stranger: {status}"
        assert host.fleet.delete(name).status == 204


def check_snapshot(host, damage):
    """It is Ready, whatever has become of its record, unless that beside its layer was damaged, too. The log and its status tell."""
    status = host.status_of_snapshot()
    layer = host.snapshot.replace("-", "")
    is_named = any(host.snapshot in line or layer in line for line in host.log())
    if status["state"] != "Ready":
        assert "layer" in damage.targets and damage.is_of_records, f"snapshot {host.snapshot} is lost: {status}"
        host.loses_layers = True
    if status["reason"] != host.snapshot_status["reason"]:
        assert is_named and (status["state"] != "Ready" or status["reason"] == "snapshot_record_recovered"), f"no line of the log tells of snapshot {host.snapshot}, which is {status}"
    if status["state"] != "Ready":
        host.snapshot = None


def check_kept(host, damage):
    """A snapshot and a named volume are there, or the log says which one is not."""
    check_snapshot(host, damage)
    if VOLUME not in host.volumes():
        lost = [name for name in host.volumes() if name.startswith("lost-")]
        assert lost and any(lost[0] in line for line in host.log()), "no line of the log tells of the volume"
        return ["volume"]
    return []


# ---- a round ----------------------------------------------------------------------------------------------------


def settle(host, roles):
    """Those whose records were lost are removed, and made anew by the next round."""
    for role in {*roles, "fresh", "fresh paused"} & {*host.boxes}:
        host.fleet.remove(host.boxes.pop(role).name)


def round_of(host, kinds, chooser, roles=None):
    """KINDS: a list, or a function that chooses one once there is something to damage."""
    host.fill()
    host.note()
    damage = Damage(host, chooser, kinds(host, chooser) if callable(kinds) else kinds, roles)
    damage.before()
    gone = [host.live(chooser)]
    host.note()
    overdue = host.boxes.pop("overdue")
    damage.while_it_runs()
    end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=1)
    assert host.fleet.renew(overdue.name, end.isoformat()).status == 200
    overdue.truth["expiresAt"] = end.isoformat()
    time.sleep(COPY_SECONDS)
    host.kill()
    damage.do()
    try:
        known = host.known()
        host.start(damage.may_refuse)
        began = time.monotonic()
        check_nobody_died(host)
        check_nobody_is_frozen(host)
        lost = check_told(host, damage, known)
        check_policy(host, damage)
        for box in host.boxes.values():
            check_works(host, box)
        check_ends(host, overdue, began + 1 + LATE_SECONDS)
        for box in gone:
            check_is_gone(host, box)
        check_strangers(host, gone, damage)
        lost += check_kept(host, damage)
    except (Exception, pytest.fail.Exception) as e:
        told = [line for line in host.log() if " info " not in line and "loop was held up" not in line]
        raise AssertionError(f"{damage}: {e}\n" + "\n".join(told[-20:])) from e
    settle(host, lost)


class Hosts:
    """Hands out one host to some rounds, and looks at the end whether it is as it was. One that failed a round is no good any more."""

    def __init__(self):
        self.host = None

    def round(self, kinds, seed, roles=None):
        self.host = self.host or Host()
        self.host.seeds.append(seed)
        try:
            round_of(self.host, kinds, random.Random(seed), roles)
            if len(self.host.seeds) >= ROUNDS_OF_A_HOST:
                self.end()
        except BaseException as e:
            host, self.host = self.host, None
            if host:
                host.drop()
                print(f"SEED={','.join(map(str, host.seeds))}: {e}")
            raise

    def end(self):
        host, self.host = self.host, None
        if not host:
            return
        try:
            host.end()
        except BaseException:
            print(f"SEED={','.join(map(str, host.seeds))}: the end")
            host.drop()
            raise


@pytest.fixture(scope="module")
def hosts():
    h = Hosts()
    yield h
    h.end()


CASES = {
    "nothing": [],
    "the log of the database removed": [("wal", "removed")],
    "the log of the database removed after a checkpoint": [("checkpoint", "made"), ("wal", "removed")],
    "the log of the database halved": [("wal", "halved")],
    "a bit of the log of the database flipped": [("wal", "flipped")],
    "bytes of the log of the database overwritten": [("wal", "overwritten")],
    "an older copy of the database": [("older", "put back")],
    "a page of the database overwritten": [("db", "page")],
    "a bit of the database flipped": [("db", "flipped")],
    "the secret removed": [("secret", "removed")],
    "the secret flipped": [("secret", "flipped")],
    "the files of boxes removed": [("box", "removed")],
    "the files of boxes halved": [("box", "halved")],
    "the files of boxes flipped": [("box", "flipped")],
    "the files of boxes overwritten": [("box", "overwritten")],
    "the records of boxes removed": [("record", "removed")],
    "the records of boxes flipped": [("record", "flipped")],
    "the layers of boxes flipped": [("stack", "flipped")],
    "the layers of boxes removed": [("stack", "removed")],
}
BOTH = {
    "no log and no copy": [("wal", "removed"), ("copy", "removed")],
    "a log cut short and a damaged copy": [("wal", "halved"), ("copy", "flipped")],
    "an older database and an older copy": [("older", "put back"), ("copy", "older")],
    "a torn database and no copy": [("db", "page"), ("copy", "removed")],
    "no log, no copy, and the record of the snapshot flipped": [("wal", "removed"), ("copy", "removed"), ("layer", "flipped")],
    "no log and no notes": [("wal", "removed"), ("notes", "removed")],
    "an older database and no notes": [("older", "put back"), ("notes", "removed")],
    "no log, no copy and no notes": [("wal", "removed"), ("copy", "removed"), ("notes", "removed")],
    "no log, a damaged copy and damaged notes": [("wal", "removed"), ("copy", "page"), ("notes", "flipped")],
}
MIXED = {
    "an older copy, and the file of a box removed": ([("older", "put back"), ("box", "removed")], "fresh"),
    "no log, and the file of a box flipped": ([("wal", "removed"), ("box", "flipped")], "labelled"),
    "an older copy, and the record of a box removed": ([("older", "put back"), ("record", "removed")], "fresh"),
    "no log, and the record of a box flipped": ([("wal", "removed"), ("record", "flipped")], "secured"),
}


@pytest.mark.parametrize("name", [*CASES])
def test_nobody_dies_of(hosts, name):
    """Notes are those of all sandboxes."""
    hosts.round(CASES[name], 0, [*"plain paused labelled volume policy secured restored fresh".split(), "fresh paused"])


@pytest.mark.parametrize("name", [*MIXED])
def test_nobody_dies_of_both(hosts, name):
    kinds, role = MIXED[name]
    hosts.round(kinds, 0, [role])


@pytest.mark.parametrize("name", [*BOTH])
def test_nobody_dies_of_the_loss_of_everything_else(hosts, name):
    """The database with its copy, or with the notes of every sandbox."""
    hosts.round(BOTH[name], 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_nobody_dies_of_damage_at_random(hosts, seed):
    hosts.round(choose_kinds, seed)
