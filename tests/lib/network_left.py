# SPDX-License-Identifier: Apache-2.0
"""What an installation has in the host's network (box/network.h): counted, and removed after a test that killed its warden."""
import json
import shutil
import subprocess

HAS_NFT = bool(shutil.which("nft") or shutil.which("nft", path="/usr/sbin"))


def run(*args, netns=None, check=False):
    prefix = ["nsenter", f"--net=/run/netns/{netns}"] if netns else []
    return subprocess.run([*prefix, *args], capture_output=True, text=True, check=check, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})


def rows(*args, netns=None):
    out = run("ip", "-j", *args, netns=netns).stdout
    return json.loads(out) if out.strip() else []


def table(prefix):
    return "opensandbox_" + prefix.replace("-", "_")


def gateway(prefix, netns=None):
    """The address of the host that boxes know, or None."""
    for link in rows("-4", "addr", "show", "dev", "lo", netns=netns):
        for a in link.get("addr_info", []):
            if a.get("label") == f"lo:{prefix}":
                return a["local"]
    return None


def range_of(prefix, netns=None):
    first = gateway(prefix, netns)
    return first and f"{first.rsplit('.', 1)[0]}.0/17"


def has_table(prefix, netns=None):
    return HAS_NFT and run("nft", "list", "table", "inet", table(prefix), netns=netns).returncode == 0


def dump(prefix, netns=None):
    """The table, as a list of objects."""
    out = run("nft", "-j", "list", "table", "inet", table(prefix), netns=netns).stdout
    return json.loads(out)["nftables"] if out.strip() else []


def left(prefix, netns=None):
    """Names of what is there."""
    found = [link["ifname"] for link in rows("link", netns=netns) if link["ifname"].startswith(f"{prefix}_")]
    net = range_of(prefix, netns)
    if has_table(prefix, netns):
        found.append("table")
    if net:
        found.append("address")
        found += ["rule" for r in rows("rule", netns=netns) if f"{r.get('dst')}/{r.get('dstlen')}" == net]
        found += ["route" for r in rows("route", "show", "type", "unreachable", netns=netns) if r["dst"] == net]
    return found


def clean(prefix, netns=None):
    for link in rows("link", netns=netns):
        if link["ifname"].startswith(f"{prefix}_"):
            run("ip", "link", "del", link["ifname"], netns=netns)
    net = range_of(prefix, netns)
    if net:
        run("ip", "rule", "del", "to", net, netns=netns)
        run("ip", "route", "del", "unreachable", net, netns=netns)
        run("ip", "addr", "del", f"{gateway(prefix, netns)}/32", "dev", "lo", netns=netns)
    if has_table(prefix, netns):
        run("nft", "delete", "table", "inet", table(prefix), netns=netns)
