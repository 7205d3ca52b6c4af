# SPDX-License-Identifier: Apache-2.0
"""What happened to a sandbox, as text for people and as an object for programs."""
import re
import time

import pytest

from api import Api, wait_for

STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"
TEXT = "text/plain; charset=utf-8"
COUNT = 300
PROGRAM = f"""
for i in $(seq 1 {COUNT}); do echo line-$i; done
echo to-stderr >&2; printf 'bad \\377 byte\\n'; echo the-end
exec sleep 1000"""


@pytest.fixture(scope="module")
def talker(api):
    """The id of a sandbox that has written all that it will write."""
    sandbox_id = api.create(entrypoint=["/bin/sh", "-c", PROGRAM], timeout=3600, metadata={"team": "infra"},
                            env={"MY_SECRET": "hush-1", "MY_TOKEN": "hush-2", "PLAIN": "hush-3"})["id"]  # fmt: skip
    wait_for(lambda: "the-end" in logs(api, sandbox_id), what="the last line")
    yield sandbox_id
    assert api.delete(sandbox_id).status == 204


def diagnose(api, sandbox_id, kind, query=""):
    return api.get(f"/sandboxes/{sandbox_id}/diagnostics/{kind}{query}")


def logs(api, sandbox_id, query=""):
    a = diagnose(api, sandbox_id, "logs", query)
    assert (a.status, a.headers["Content-Type"]) == (200, TEXT)
    return a.body.decode()


def words(text):
    return [line.split(" ", 1)[1] for line in text.splitlines()]


# ---- logs ----


@pytest.mark.smoke
def test_each_line_has_its_time(api, talker):
    lines = logs(api, talker, "?tail=10000").splitlines()
    assert len(lines) == COUNT + 3
    for line in lines:
        assert re.fullmatch(rf"{STAMP} .*", line), line
    stamps = [line.split("Z")[0] for line in lines]  # fractions of any length: they sort without the Z
    assert stamps == sorted(stamps)


def test_both_streams_in_the_order_they_were_written_and_valid_utf8(api, talker):
    lines = words(logs(api, talker, "?tail=10000"))
    assert lines[:COUNT] == [f"line-{i}" for i in range(1, COUNT + 1)]
    assert set(lines[COUNT:]) == {"to-stderr", "bad \ufffd byte", "the-end"}


@pytest.mark.parametrize("query, n", [("", 100), ("?tail=1", 1), ("?tail=7", 7), ("?tail=303", 303), ("?tail=10000", 303)])
def test_tail_is_the_newest_lines(api, talker, query, n):
    lines = words(logs(api, talker, query))
    assert len(lines) == n and lines == words(logs(api, talker, "?tail=10000"))[-n:]


def test_since_is_the_youngest_lines(api, box):
    sandbox_id = box(entrypoint=["/bin/sh", "-c", "echo old; sleep 4.2; echo new; exec sleep 1000"])["id"]
    wait_for(lambda: "new" in logs(api, sandbox_id), what="the second line")
    assert words(logs(api, sandbox_id, "?since=2s")) == ["new"]
    for since in ("10m", "1h", "2d", " 30s ", "nonsense", "", "10", "m", "1w", "-1s", "1.5s"):
        assert words(logs(api, sandbox_id, f"?since={since.replace(' ', '%20')}")) == ["old", "new"]


def test_nothing_was_written(api, shared):
    assert logs(api, shared) == "(no logs)\n"


def test_logs_of_what_is_paused_or_over(api, box):
    paused = box(entrypoint=["/bin/sh", "-c", "echo hello; exec sleep 1000"])["id"]
    over = box(entrypoint=["/bin/sh", "-c", "echo hello; echo no newline at the end | tr -d '\\n'; exit 3"])["id"]
    wait_for(lambda: "hello" in logs(api, paused), what="a line")
    api.pause(paused)
    api.wait_state(over, "Failed")
    assert words(logs(api, paused)) == ["hello"]
    assert words(logs(api, over)) == ["hello", "no newline at the end"]


def test_of_too_much_the_newest_is_kept_and_the_server_lives(api, box):
    write = ["import time", "for i in range(40000): print(f'{i:06}', 'x' * 180)", "print('the-end', flush=True)", "time.sleep(1000)"]
    sandbox_id = box(entrypoint=["/usr/bin/python3", "-c", "\n".join(write)])["id"]
    wait_for(lambda: "the-end" in logs(api, sandbox_id, "?tail=2"), what="the last line")
    a = diagnose(api, sandbox_id, "logs", "?tail=10000&scope=container").json
    lines = words(a["content"])
    assert a["truncated"] and a["contentLength"] == len(a["content"].encode()) <= 1 << 20
    assert "the-end" in lines
    numbers = [int(line[:6]) for line in lines if line[:6].isdigit()]
    assert numbers == list(range(numbers[0], 40000))


# ---- inspect ----


def test_inspect_tells_what_there_is_and_no_value_of_the_environment(api, talker):
    a = diagnose(api, talker, "inspect")
    text = a.body.decode()
    assert (a.status, a.headers["Content-Type"]) == (200, TEXT) and "Deprecation" not in a.headers
    for line in (f"id: {talker}", "image: host", "state: Running", "reason: CONTAINER_RUNNING", "metadata: team=infra",
                 "env: MY_SECRET=***", "env: MY_TOKEN=***", "env: PLAIN=***", "runtime_state: running"):  # fmt: skip
        assert line in text.splitlines(), line
    for pattern in (rf"created: {STAMP}", rf"expires: {STAMP}", r"limits: cpu 1000m, memory 536870912, pids 4096", r"entrypoint: /bin/sh -c "):
        assert re.search(f"^{pattern}", text, re.M), pattern
    assert "hush" not in text and api.server.home.prefix not in text and str(api.server.home.folder) not in text


@pytest.mark.parametrize("name", ["A\nid: forged", "A\r", "A\x1b[2J", "A\u0085", "A\u2028B", "\u202eA", "A=B", ""])
def test_a9_names_of_variables_forge_no_line(api, name):
    a = api.try_create(env={"GOOD": "1", name: "2"})
    assert a.status == 400 and "env: '" in a.json["message"] and "is not a name" in a.json["message"], a
    assert "\n" not in a.json["message"]


def test_a9_words_of_the_entrypoint_forge_no_line(api, box):
    sandbox_id = box(entrypoint=["/bin/sh", "-c", "sleep 1000\nid: forged\n# \"quoted\" \\\\ \u2028 é"])["id"]
    text = diagnose(api, sandbox_id, "inspect").body.decode()
    assert "id: forged" not in text.splitlines() and text.count("\u2028") == 0
    assert 'entrypoint: /bin/sh -c sleep 1000\\nid: forged\\n# "quoted" \\\\ \\u2028 é' in text.splitlines(), text


def test_inspect_of_what_is_over(api, box):
    sandbox_id = box(entrypoint=["/bin/sh", "-c", "kill -9 $$"])["id"]
    api.wait_state(sandbox_id, "Failed")
    lines = diagnose(api, sandbox_id, "inspect").body.decode().splitlines()
    for line in ("state: Failed", "exit_code: 137", "signal: 9", "oom_killed: false"):
        assert line in lines, lines


# ---- events ----


def test_events_are_the_diary_of_a_life(api, box):
    sandbox_id = box(timeout=60)["id"]
    api.pause(sandbox_id)
    api.resume(sandbox_id)
    assert api.call("PATCH", f"/sandboxes/{sandbox_id}/metadata", {"a": "b"}).status == 200
    at = f"/sandboxes/{sandbox_id}/renew-expiration"
    assert api.post(at, {"expiresAt": "2099-01-01T00:00:00Z"}).status == 200
    a = diagnose(api, sandbox_id, "events")
    assert a.headers["Deprecation"] == "true"
    rows = [re.fullmatch(rf"({STAMP}) (\w+) (\w+) (.+)", line) for line in a.body.decode().splitlines()]
    assert all(rows)
    assert [r[4] for r in rows] == ["Created", "Started", "Paused", "Resumed", "MetadataChanged", "Renewed"]
    assert [r[1] for r in rows] == sorted(r[1] for r in rows)


def test_limit_is_the_newest_events(api, talker):
    whole = api.events(talker).splitlines()
    assert len(whole) == 2
    assert diagnose(api, talker, "events", "?limit=1").body.decode().splitlines() == whole[-1:]


def test_a_diary_is_bounded(api, box):
    sandbox_id = box()["id"]
    for i in range(120):
        api.call("PATCH", f"/sandboxes/{sandbox_id}/metadata", {"n": str(i)})
    assert len(diagnose(api, sandbox_id, "events").body.splitlines()) == 50
    assert 100 <= len(diagnose(api, sandbox_id, "events", "?limit=500").body.splitlines()) <= 500


# ---- summary ----


def test_the_summary_has_all_of_it(api, talker):
    a = diagnose(api, talker, "summary", "?tail=3&event_limit=1")
    lines = a.body.decode().splitlines()
    assert (a.status, a.headers["Content-Type"]) == (200, TEXT) and "Deprecation" not in a.headers
    assert lines[0] == lines[3] == "=" * 72 and lines[1] == "SANDBOX DIAGNOSTICS SUMMARY" and talker in lines[2]
    places = [lines.index(title) for title in ("INSPECT", "EVENTS", "LOGS (last 3 lines)")]
    assert places == sorted(places)
    for place in places:
        assert lines[place + 1] == "-" * 40
    assert len(lines[places[2] + 2 :]) == 3
    assert len([x for x in lines[places[1] + 2 : places[2]] if x]) == 1
    assert "hush" not in a.body.decode()
    assert "LOGS (last 50 lines)" in diagnose(api, talker, "summary").body.decode()


# ---- errors ----


@pytest.mark.parametrize("prefix", ["", "/v1"])
@pytest.mark.parametrize(
    "kind, name, values",
    [
        ("logs", "tail", ["0", "-1", "10001", "x", "", "1.5"]), ("events", "limit", ["0", "501", "x"]),
        ("summary", "tail", ["0", "10001", "x"]), ("summary", "event_limit", ["0", "501", "x"]),
    ],
)  # fmt: skip
def test_numbers_out_of_range_are_named(server, spec, shared, prefix, kind, name, values):
    api = Api(server, spec, prefix)
    for value in values:
        a = api.refused(diagnose(api, shared, kind, f"?{name}={value}"), 422, "SANDBOX::INVALID_PARAMETER", name)
        assert a.json["detail"][0]["loc"] == ["query", name]


def test_the_ends_of_the_ranges(api, shared):
    for kind, query in (("logs", "tail=1"), ("logs", "tail=10000"), ("events", "limit=1"), ("events", "limit=500"),
                        ("summary", "tail=1&event_limit=1"), ("summary", "tail=10000&event_limit=500")):  # fmt: skip
        assert diagnose(api, shared, kind, f"?{query}").status == 200


# ---- with a scope ----


@pytest.mark.parametrize("kind", ["logs", "events"])
@pytest.mark.parametrize("scope", ["container", "lifecycle", "runtime", "all"])
def test_with_a_scope_the_same_comes_as_an_object(api, talker, kind, scope):
    a = diagnose(api, talker, kind, f"?scope={scope}")
    assert a.status == 200 and "Deprecation" not in a.headers
    o = a.json
    assert (o["sandboxId"], o["kind"], o["scope"], o["delivery"]) == (talker, kind, scope, "inline")
    assert o["contentLength"] == len(o["content"].encode()) and not o["truncated"] and o["contentType"] == TEXT


def test_what_each_scope_has(api, talker):
    content = lambda kind, scope: diagnose(api, talker, kind, f"?scope={scope}").json["content"]  # noqa: E731
    assert words(content("logs", "container")) == words(logs(api, talker))
    assert "Created" in content("logs", "lifecycle") and "line-" not in content("logs", "lifecycle")
    both = content("logs", "all")
    assert "Created" in both and "the-end" in both
    assert "Started" in content("events", "lifecycle") and "Started" in content("events", "all")
    assert content("events", "container") == "(no notable events)\n"


def test_the_end_of_a_sandbox_is_an_event_of_its_container(api, box):
    sandbox_id = box(entrypoint=["false"])["id"]
    api.wait_state(sandbox_id, "Failed")
    content = diagnose(api, sandbox_id, "events", "?scope=container").json["content"]
    assert "Sandbox container exited with code 1." in content and "Created" not in content


@pytest.mark.parametrize("kind", ["logs", "events"])
@pytest.mark.parametrize("scope", ["process"])
def test_scopes_that_are_not_there_are_501(api, shared, kind, scope):
    api.refused(diagnose(api, shared, kind, f"?scope={scope}"), 501, "DIAGNOSTICS_NOT_IMPLEMENTED", "scope", scope)


@pytest.mark.parametrize("kind", ["logs", "events"])
@pytest.mark.parametrize("scope", ["", "nonsense", "ALL", "container,all", "a%0Ab"])
def test_scopes_that_nobody_knows_are_400(api, shared, kind, scope):
    api.refused(diagnose(api, shared, kind, f"?scope={scope}"), 400, "SANDBOX::INVALID_PARAMETER", "scope", "lifecycle")


def test_diagnostics_do_not_wait_for_what_is_stuck(api, box):
    sandbox_id = box()["id"]
    api.pause(sandbox_id)
    began = time.monotonic()
    for kind in ("logs", "inspect", "events", "summary"):
        assert diagnose(api, sandbox_id, kind).status == 200
    assert time.monotonic() - began < 5
