# SPDX-License-Identifier: Apache-2.0
"""Configuration: where it comes from, what is refused and how, and the commands around it."""
import json
import os
import socket
import stat
import subprocess
import tomllib

import pytest

from conftest import KEY, SERVER, clean_environment, free_port

PREFIX = "opensandbox-server: "


def refused(done, *parts, status=1):
    """One clear line (or one per problem) on standard error, nothing on standard output."""
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert lines and lines[0].startswith(PREFIX), done.stderr
    for part in parts:
        assert part in lines[0], done.stderr


def write(tmp_path, text, name="c.toml"):
    path = tmp_path / name
    path.write_text(text)
    return str(path)


# ---- bad configuration ----


@pytest.mark.parametrize(
    "text, line, message",
    [
        ("[server]\nport = 70000\n", 2, "server.port: "),
        ("[server]\n\nport = \"8080\"\n", 3, "server.port: "),
        ("[server]\nport = 8080.0\n", 2, "server.port: "),
        ("[server]\nprot = 8080\n", 2, "server.prot: unknown key"),
        ("[servers]\n", 1, "servers: unknown key"),
        ("[server]\nport = 1\nport = 2\n", 3, ""),
        ("[server\n", 1, ""),
        ("[log]\nlevel = \"loud\"\n", 2, "log.level: "),
        ("[runtime]\ntype = \"vm\"\n", 2, "runtime.type: "),
        ("[runtime]\ntype = \"docker\"\nexecd_image = \"x\"\n[kubernetes]\n", 4, "kubernetes: not allowed"),
        ("[limits]\nconnections = 0\n", 2, "limits.connections: "),
        ("[docker]\nnetwork_mode = \"Host\"\n", 2, "docker.network_mode: 'host' needs docker.unsafe_weaker_isolation"),
        ("[docker]\nno_new_privileges = false\n", 2, "docker.no_new_privileges: false needs "),
    ],
)
def test_a_bad_file_is_refused_by_file_line_and_key(run_server, tmp_path, text, line, message):
    path = write(tmp_path, text)
    refused(run_server("--config", path), f"{path}:{line}: {message}")
    refused(run_server("config", "--config", path), f"{path}:{line}: {message}")


def test_every_problem_has_its_line(run_server, tmp_path):
    path = write(tmp_path, "[server]\nport = 0\nbacklog = 0\nbogus = 1\n")
    lines = run_server("--config", path).stderr.splitlines()
    assert len(lines) == 3
    assert all(line.startswith(f"{PREFIX}{path}:") for line in lines)


def test_a_named_file_that_is_missing_is_refused(run_server, tmp_path):
    refused(run_server("--config", "/nonexistent.toml"), "'/nonexistent.toml'", "No such file")
    refused(run_server(env={"SANDBOX_CONFIG_PATH": "~/none.toml"}), f"'{tmp_path}/none.toml'", "No such file")
    refused(run_server("--config", str(tmp_path)), str(tmp_path))


def without_home(*args, cwd):
    env = clean_environment(cwd)
    del env["HOME"]
    return subprocess.run([SERVER, *args], env=env, cwd=cwd, capture_output=True, text=True, timeout=20, check=False)


def test_without_a_home_nothing_is_left_in_a_folder_of_that_name(tmp_path):
    path = write(tmp_path, f"[server]\napi_key = \"{KEY}\"\n[log]\nfile_enabled = true\n")
    (tmp_path / "~").mkdir()
    write(tmp_path, "", "~/c.toml")
    refused(without_home("--config", path, cwd=tmp_path), f"{path}:3: log.file_path: HOME is not set: ")
    refused(without_home("--config", "~/c.toml", cwd=tmp_path), "--config: HOME is not set: '~/c.toml'")
    refused(without_home("init-config", cwd=tmp_path), "HOME is not set: '~/.sandbox.toml'")
    assert without_home("config", cwd=tmp_path).returncode == 0
    assert os.listdir(tmp_path / "~") == ["c.toml"]


def test_an_unreadable_file_is_refused(tmp_path):
    path = write(tmp_path, "")
    os.chmod(path, 0)
    user = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}  # root reads every file
    try:
        done = subprocess.run(
            [SERVER, "--config", path], env=clean_environment("/"), capture_output=True, text=True, timeout=20,
            check=False, **user,
        )  # fmt: skip
    except PermissionError:
        pytest.skip("other users cannot run the programs under test here")
    refused(done, path, "Permission denied")


def test_an_unreadable_home_file_is_refused_too(run_server, tmp_path):
    (tmp_path / ".sandbox.toml").mkdir()
    refused(run_server(), ".sandbox.toml")


def test_bad_variables_are_named(run_server):
    refused(run_server(env={"OPENSANDBOX_SERVER_PORT": "x"}), "OPENSANDBOX_SERVER_PORT: server.port: ")
    refused(run_server(env={"OPENSANDBOX_SERVER_PORT": ""}), "OPENSANDBOX_SERVER_PORT: server.port: ")
    refused(run_server(env={"OPENSANDBOX_LOG_FORMAT": "xml"}), "OPENSANDBOX_LOG_FORMAT: log.format: ")


def test_usage_errors_end_with_2(run_server):
    for args in (["--bogus"], ["--port", "x"], ["--port", "70000"], ["bogus"], ["--log-level", "loud"], ["--config"]):
        refused(run_server(*args), status=2)
    refused(run_server("init-config", "--example", "vm"), status=2)
    refused(run_server("init-config", "a", "b"), status=2)


def test_runtimes_that_are_not_there_are_refused(run_server, tmp_path):
    path = write(tmp_path, f"[server]\napi_key = \"{KEY}\"\n[runtime]\ntype = \"docker\"\nexecd_image = \"x\"\n")
    refused(run_server("--config", path), "runtime.type: ")


# ---- the key ----


def test_without_a_key_it_does_not_start(run_server):
    refused(run_server(), "no API key")
    refused(run_server(env={"OPENSANDBOX_SERVER_API_KEY": "  "}), "no API key")
    refused(run_server(env={"OPENSANDBOX_INSECURE_SERVER": "yes"}), "no API key")


def test_an_empty_variable_takes_the_key_away(run_server, tmp_path):
    path = write(tmp_path, f"[server]\napi_key = \"{KEY}\"\n")
    refused(run_server("--config", path, env={"OPENSANDBOX_SERVER_API_KEY": ""}), "no API key")


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_without_a_key_only_loopback_will_do(run_server, host):
    refused(run_server("--host", host, env={"OPENSANDBOX_INSECURE_SERVER": "YES"}), "loopback")
    refused(run_server("--host", host, env={"OPENSANDBOX_SERVER_UNSAFE_NO_AUTH": "true"}), "loopback")


def test_a_weak_key_needs_a_switch_beyond_loopback(run_server, start_server):
    done = run_server("--host", "0.0.0.0", env={"OPENSANDBOX_SERVER_API_KEY": "s3cr3t"})
    refused(done, "server.unsafe_weak_key")
    assert "s3cr3t" not in done.stderr
    start_server(key="s3cr3t", host="0.0.0.0", env={"OPENSANDBOX_SERVER_UNSAFE_WEAK_KEY": "true"})
    start_server(key="s3cr3t")


def test_secrets_are_in_no_output(run_server, start_server, tmp_path):
    secret = "hush-hush-hush-hush-hush-hush"
    path = write(tmp_path, f"[server]\napi_key = \"{secret}\"\nport = 0\n")
    assert "hush" not in run_server("--config", path).stderr
    path = write(tmp_path, f"[server]\napi_key = \"{secret}\"\n[renew_intent.redis]\ndsn = \"redis://:{secret}@h\"\n")
    done = run_server("config", "--config", path)
    assert done.returncode == 0 and "hush" not in done.stdout
    shown = tomllib.loads(done.stdout)
    assert "api_key" not in shown["server"] and "dsn" not in shown["renew_intent"]["redis"]
    assert done.stdout.count(" = (set, not shown)\n") == 2
    server = start_server(key=secret, env={"OPENSANDBOX_LOG_LEVEL": "debug"})
    assert server.get("/x?token=hush", headers={"OPEN-SANDBOX-API-KEY": secret}).status == 404
    assert server.get("/x", headers={"OPEN-SANDBOX-API-KEY": secret + "hush"}).status == 401
    server.stop()
    assert "hush" not in server.stderr
    assert "path=/x" in server.stderr


# ---- addresses ----


def test_a_port_in_use_is_refused(run_server):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        done = run_server("--port", str(port), env={"OPENSANDBOX_SERVER_API_KEY": KEY})
    assert done.returncode == 1
    assert f"{PREFIX}listen on 127.0.0.1:{port}: Address already in use" in done.stderr.splitlines()


def test_hosts_that_cannot_be_listened_on_are_refused(run_server):
    env = {"OPENSANDBOX_SERVER_API_KEY": KEY}
    done = run_server("--host", "192.0.2.1", env=env)
    assert done.returncode == 1
    assert f"{PREFIX}listen on 192.0.2.1:8080: " in done.stderr
    done = run_server("--host", "no.such.host.invalid", env=env)
    assert done.returncode == 1
    assert f"{PREFIX}server.host: look up 'no.such.host.invalid': " in done.stderr


def test_it_listens_on_ipv6_and_by_name(start_server):
    if not socket.has_ipv6 or not os.path.exists("/proc/net/if_inet6"):
        pytest.skip("this machine has no IPv6")
    assert start_server(host="::1").get("/health").status == 200
    assert start_server(host="localhost").get("/health").status == 200


def test_a_missing_certificate_is_refused(run_server, tmp_path):
    path = write(tmp_path, f"[server]\napi_key = \"{KEY}\"\ntls_cert = \"/none.pem\"\ntls_key = \"/none.key\"\n")
    done = run_server("--config", path)
    assert done.returncode == 1
    assert PREFIX in done.stderr and "/none.pem" in done.stderr


# ---- precedence ----


def effective(done):
    assert done.returncode == 0, done.stderr
    return tomllib.loads(done.stdout)


def test_defaults_need_no_file(run_server):
    c = effective(run_server("config"))
    assert c["server"]["host"] == "127.0.0.1"
    assert (c["server"]["port"], c["server"]["proxy_port"]) == (8080, 8081)
    assert c["runtime"] == {"type": "native"}
    assert c["native"]["default_image"] == "host" and c["native"]["user"] == "opensandbox" and c["native"]["images"] == {}
    assert "kubernetes" not in c


def test_flags_beat_the_environment_which_beats_the_file(run_server, tmp_path):
    path = write(tmp_path, "[server]\nport = 1001\nbacklog = 11\nhost = \"127.0.0.2\"\n[log]\nlevel = \"ERROR\"\n")
    env = {"OPENSANDBOX_SERVER_PORT": 1002, "OPENSANDBOX_SERVER_HOST": "127.0.0.3", "OPENSANDBOX_UNRELATED": "x"}
    c = effective(run_server("config", "--config", path, "--port", "1003", env=env))
    assert c["server"]["port"] == 1003
    assert c["server"]["host"] == "127.0.0.3"
    assert c["server"]["backlog"] == 11
    assert c["log"]["level"] == "ERROR"


def test_nested_keys_have_variables_too(run_server):
    env = {
        "OPENSANDBOX_RENEW_INTENT_REDIS_QUEUE_KEY": "q",
        "OPENSANDBOX_STORAGE_ALLOWED_HOST_PATHS": '["/a", "/b"]',
        "OPENSANDBOX_LOG_FILE_ENABLED": "true",
        "OPENSANDBOX_EGRESS_UPSTREAMS": '["192.0.2.53", "[2001:db8::53]:5353"]',
    }
    c = effective(run_server("config", env=env))
    assert c["renew_intent"]["redis"]["queue_key"] == "q"
    assert c["storage"]["allowed_host_paths"] == ["/a", "/b"]
    assert c["log"]["file_enabled"] is True
    assert c["egress"]["upstreams"] == ["192.0.2.53", "[2001:db8::53]:5353"]


@pytest.mark.parametrize("key, value", [
    ("disable_ipv6", "false"), ("upstreams", '["resolver.example"]'), ("upstreams", '["192.0.2.53:0"]'), ("upstreams", '["[2001:db8::53"]'),
    ("upstreams", '[""]'), ("deny_webhook", '"ftp://hook.example"'), ("rules_dir", '"rules"'), ("max_rules", "4097"), ("mode", '"nft"'),
])
def test_what_egress_cannot_keep_is_refused(run_server, tmp_path, key, value):
    done = run_server("config", "--config", write(tmp_path, f"[egress]\n{key} = {value}\n"))
    assert done.returncode == 1 and f"egress.{key}" in done.stderr, done


def test_the_file_is_looked_for_in_order(run_server, tmp_path):
    (tmp_path / ".sandbox.toml").write_text("[server]\nport = 1001\n")
    assert effective(run_server("config"))["server"]["port"] == 1001
    write(tmp_path, "[server]\nport = 1002\n", "env.toml")
    env = {"SANDBOX_CONFIG_PATH": "~/env.toml"}
    assert effective(run_server("config", env=env))["server"]["port"] == 1002
    flag = write(tmp_path, "[server]\nport = 1003\n", "flag.toml")
    assert effective(run_server("--config", flag, "config", env=env))["server"]["port"] == 1003


# ---- what is no mistake, and yet is told ----


def doctors_view(run_server, path):
    checks = json.loads(run_server("doctor", "--json", "--config", path, timeout=60).stdout)["checks"]
    return next(c for c in checks if c["name"] == "file")


@pytest.mark.parametrize("mode, text, is_told", [
    (0o644, f'[server]\napi_key = "{KEY}"\n', "holds a secret that other users can read"),
    (0o604, '[[ingress.secure_access.keys]]\nkey_id = "a"\nkey = "c2VjcmV0"\n[ingress.secure_access]\nactive_key = "a"\n', "holds a secret"),
    (0o600, f'[server]\napi_key = "{KEY}"\n', None),
    (0o644, "[server]\nbacklog = 7\n", None),
    (0o622, "[server]\nbacklog = 7\n", "other users can change it"),
])  # fmt: skip
def test_a_file_that_others_can_read_is_told(start_server, run_server, tmp_path, mode, text, is_told):
    path = tmp_path / "c.toml"
    path.write_text(text)
    path.chmod(mode)
    server = start_server(args=["--config", str(path)], key=None if "api_key" in text else KEY)
    line = [text for text in server.stderr.splitlines() if "the configuration needs a look" in text]
    row = doctors_view(run_server, str(path))
    if is_told:
        assert len(line) == 1 and str(path) in line[0] and is_told in line[0] and "chmod 600" in line[0], server.stderr
        assert row["outcome"] == "warning" and is_told in row["detail"] and f"chmod 600 {path}" in row["detail"]
    else:
        assert not line and row["outcome"] == "ok"


@pytest.mark.parametrize("mode, is_told", [
    (0o600, None), (0o640, None), (0o644, "holds a secret that other users can read"), (0o662, "other users can change it"),
])
def test_a_tls_key_that_others_can_read_is_told(start_server, run_server, tmp_path, mode, is_told):
    key = tmp_path / "tls.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=x", "-keyout", key,
                    "-out", tmp_path / "tls.pem"], check=True, capture_output=True)
    key.chmod(mode)
    path = tmp_path / "c.toml"
    path.write_text(f'[server]\ntls_cert = "{tmp_path}/tls.pem"\ntls_key = "{key}"\n')
    server = start_server(args=["--config", str(path)])
    told = [line for line in server.stderr.splitlines() if "needs a look" in line and "server.tls_key: " in line]
    checks = json.loads(run_server("doctor", "--json", "--config", path, timeout=60).stdout)["checks"]
    row = next(c for c in checks if c["name"] == "tls_key")
    if is_told:
        assert len(told) == 1 and f"{is_told}: chmod 640 {key}" in told[0], server.stderr
        assert row["outcome"] == "warning" and f"{is_told}: chmod 640 {key}" in row["detail"], row
    else:
        assert not told and row["outcome"] == "ok", (told, row)


def test_a_key_from_the_environment_is_not_in_the_file(start_server, tmp_path):
    path = tmp_path / "c.toml"
    path.write_text("[server]\nbacklog = 7\n")
    path.chmod(0o644)
    assert "needs a look" not in start_server(args=["--config", str(path)]).stderr


def test_keys_without_effect_are_told_at_the_start(start_server):
    server = start_server("[docker]\npids_limit = 7\n[egress]\nmax_rules = 9\n", env={"OPENSANDBOX_SERVER_LOOP": "uvloop"})
    told = [line for line in server.stderr.splitlines() if "the configuration needs a look" in line]
    assert len(told) == 2 and "docker.pids_limit: no effect with runtime.type 'native'" in "".join(told), told
    assert "OPENSANDBOX_SERVER_LOOP: server.loop: no effect" in "".join(told)


# ---- init-config ----


@pytest.mark.parametrize("kind", [None, "native"])
def test_init_config_leaves_a_file_that_loads(run_server, tmp_path, kind):
    path = tmp_path / "a" / "b.toml"
    done = run_server("init-config", str(path), *(["--example", kind] if kind else []))
    assert done.returncode == 0, done.stderr
    what = f"example config ({kind})" if kind else "full config skeleton"
    assert done.stdout == f"Wrote {what} to {path}\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(tomllib.loads(path.read_text())["server"]["api_key"]) == 64
    shown = run_server("config", "--config", str(path))
    c = effective(shown)
    assert c["runtime"]["type"] == "native"
    # What is shown loads again as the same, but for the key, which is not shown.
    again = tmp_path / "again.toml"
    again.write_text(shown.stdout)
    without_key = shown.stdout.replace("# api_key = (set, not shown)\n", "")
    assert without_key != shown.stdout
    assert run_server("config", "--config", str(again)).stdout == without_key


@pytest.mark.parametrize("kind", ["docker", "k8s"])
def test_no_example_is_written_that_no_server_starts_with(run_server, tmp_path, kind):
    refused(run_server("init-config", str(tmp_path / "c.toml"), "--example", kind), kind, "native", status=2)
    assert not (tmp_path / "c.toml").exists()


def test_a_server_starts_from_the_example(run_server, tmp_path, start_server):
    path = tmp_path / "c.toml"
    assert run_server("init-config", str(path)).returncode == 0
    key = tomllib.loads(path.read_text())["server"]["api_key"]
    server = start_server(path.read_text(), key=None)
    assert server.get("/x", headers={"OPEN-SANDBOX-API-KEY": key}).status == 404


def test_init_config_does_not_replace_a_file_unasked(run_server, tmp_path):
    assert run_server("init-config").returncode == 0
    first = (tmp_path / ".sandbox.toml").read_text()
    refused(run_server("init-config"), ".sandbox.toml", "--force")
    assert (tmp_path / ".sandbox.toml").read_text() == first
    assert run_server("init-config", "--force").returncode == 0
    assert (tmp_path / ".sandbox.toml").read_text() != first
    assert os.listdir(tmp_path) == [".sandbox.toml"]


# ---- help, version, log ----


def test_help_and_version(run_server):
    done = run_server("--help")
    assert done.returncode == 0 and done.stderr == ""
    for part in ("SYNOPSIS", "--config", "init-config", "ENVIRONMENT", "EXIT STATUS"):
        assert part in done.stdout
    assert run_server("--version").stdout.startswith("opensandbox-server ")
    assert "--example" in run_server("init-config", "--help").stdout


def test_the_log_can_go_to_a_file(start_server, tmp_path):
    log = tmp_path / "logs" / "server.log"
    server = start_server(f"[log]\nfile_enabled = true\nfile_path = \"{log}\"\nformat = \"json\"\n")
    assert server.get("/x").status == 404
    server.stop()
    assert "path" not in server.stderr and '"warden is ready"' in server.stderr
    assert '"path":"/x"' in log.read_text()


def test_a_log_that_is_another_name_of_a_file_is_not_given_away(run_server, tmp_path):
    victim, log = tmp_path / "victim", tmp_path / "server.log"
    victim.write_text("secret")
    victim.chmod(0o600)
    os.link(victim, log)
    path = write(tmp_path, f"[log]\nfile_enabled = true\nfile_path = \"{log}\"\n")
    done = run_server("--config", path, env={"OPENSANDBOX_SERVER_API_KEY": KEY, "OPENSANDBOX_SERVER_PORT": str(free_port())})
    assert done.returncode == 1 and "log.file_path" in done.stderr
    assert victim.stat().st_uid == 0 and victim.read_text() == "secret"


def test_a_log_that_cannot_be_written_is_refused(tmp_path, run_server):
    path = write(tmp_path, "[log]\nfile_enabled = true\nfile_path = \"/proc/none/x.log\"\n")
    done = run_server("--config", path, env={"OPENSANDBOX_SERVER_API_KEY": KEY, "OPENSANDBOX_SERVER_PORT": str(free_port())})
    assert done.returncode == 1 and done.stderr.startswith(f"{PREFIX}make folder '/proc/none'")
