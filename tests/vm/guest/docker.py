# SPDX-License-Identifier: Apache-2.0
"""Docker on the same machine: neither's network disturbs the other's, whoever comes first."""
import json
import subprocess

import features
import world
from kit import PAYLOAD, Service, check, run, sandbox, wait_for

UNITS = ("docker.socket", "docker.service", "containerd.service")
IMAGE = "busybox:vm"


def start_docker():
    run("systemctl", "unmask", *UNITS)
    run("systemctl", "start", "docker.service")
    wait_for(lambda: subprocess.run(["docker", "version"], capture_output=True, check=False).returncode == 0, "dockerd", 300)
    layout = json.loads(subprocess.run(["tar", "-xOf", PAYLOAD / "images/1.tar", "index.json"], capture_output=True, check=True).stdout)
    manifest = json.loads(blob(layout["manifests"][0]["digest"]))
    run("docker", "import", "-", IMAGE, stdin=blob(manifest["layers"][0]["digest"]))


def blob(digest):
    return subprocess.run(["tar", "-xOf", PAYLOAD / "images/1.tar", "blobs/" + digest.replace(":", "/")], capture_output=True, check=True).stdout


def docker_rules():
    """What dockerd has made, but for what we put into the chain that it leaves to others."""
    text = run("iptables-save", "-t", "filter") + run("iptables-save", "-t", "nat")
    return sorted(line.split(" ", 1)[-1] if line.startswith("[") else line for line in text.splitlines()
                  if "docker" in line.lower() and "DOCKER-USER" not in line and not line.startswith(":"))


def container_reaches():
    text = run("docker", "run", "--rm", IMAGE, "/bin/wget", "-q", "-O", "-", f"http://{world.GOOD}/")
    check(text == f"from {world.GOOD}", "a container reaches:", text)


def sandbox_reaches():
    with sandbox() as one:
        check(features.fetch(one, "good.test") == f"from {world.GOOD}", "a sandbox reaches:", features.fetch(one, "good.test"))
        check(features.is_refused(one, "172.17.0.1"), "a sandbox reaches Docker's network")


def docker_first(way):
    rules = docker_rules()
    check(rules, "dockerd has no rules")
    way.start()
    sandbox_reaches()
    container_reaches()
    check(docker_rules() == rules, "Docker's rules have changed:", rules, docker_rules())


def docker_again(_way):
    """A dockerd that starts again writes all of its rules anew."""
    with sandbox() as one:
        run("systemctl", "restart", "docker.service")
        wait_for(lambda: features.fetch(one, "good.test") == f"from {world.GOOD}", "the network of a sandbox after dockerd's restart")
        container_reaches()


def docker_alone(way):
    """Once we are gone, all is as dockerd made it."""
    rules = docker_rules()
    way.stop()
    check(docker_rules() == rules, "Docker's rules have changed:", rules, docker_rules())
    check("osb" not in run("iptables-save") and "opensandbox" not in run("iptables-save"), "rules of ours are left:", run("iptables-save"))
    container_reaches()


def beside(runner):
    way = Service()
    if not runner.run("docker: start", start_docker):
        return
    for name, function in (("dockerd was first", docker_first), ("dockerd starts again", docker_again), ("dockerd alone again", docker_alone)):
        runner.run(f"docker: {name}", function, way)
    run("systemctl", "stop", *UNITS)
