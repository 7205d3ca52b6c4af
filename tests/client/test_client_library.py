# SPDX-License-Identifier: Apache-2.0
"""libopensandbox as others get it: what it exports, its header in other dialects, and programs that are built against it."""
import os
import re
import shutil
import subprocess

import pytest

from conftest import ROOT

HEADER = ROOT / "src/client/opensandbox.h"
LIB = ROOT / "build/lib"
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]

built = pytest.mark.skipif(not (LIB / "libopensandbox.so.0").exists(), reason="build/lib is not built: make")


def declared():
    return set(re.findall(r"^OSB_API[^;]*?\b(osb_\w+)\(", HEADER.read_text(), re.M))


def listed():
    text = re.sub(r"/\*.*?\*/", "", (ROOT / "src/client/opensandbox.map").read_text(), flags=re.S)
    versions = re.findall(r"(OSB_[\d.]+) \{(.*?)\}", text, re.S)
    return {(name, version) for version, names in versions for name in re.findall(r"\b(osb_\w+);", names)}


def test_the_map_lists_what_the_header_declares():
    assert len(declared()) > 100
    assert {name for name, _ in listed()} == declared()


def test_every_function_is_called_against_a_real_server():
    text = "".join(p.read_text() for p in (ROOT / "tests/client").glob("*.[ch]"))
    assert sorted(name for name in declared() if not re.search(rf"\b{name}\(", text)) == []


@built
def test_the_shared_library_exports_the_map_and_nothing_else():
    out = subprocess.run(["nm", "-D", "--defined-only", LIB / "libopensandbox.so.0"], capture_output=True, text=True, check=True).stdout
    exported = {tuple(word.split("@@")) for word in re.findall(r" T (\S+)", out)}
    assert exported == listed()
    assert "SONAME" in (dynamic := subprocess.run(["readelf", "-dW", LIB / "libopensandbox.so.0"], capture_output=True, text=True, check=True).stdout)
    assert "[libopensandbox.so.0]" in dynamic and "BIND_NOW" in dynamic and "TEXTREL" not in dynamic


@built
def test_the_static_library_has_no_other_names_either():
    out = subprocess.run(["nm", "-g", "--defined-only", LIB / "libopensandbox.a"], capture_output=True, text=True, check=True).stdout
    names = set(re.findall(r"^[0-9a-f]+ [A-Z] (\w+)$", out, re.M))
    assert names == declared()


@pytest.mark.parametrize("command", [["gcc", "-std=c99", "-xc"], ["gcc", "-std=c17", "-xc"], ["g++", "-std=c++17", "-xc++"]], ids=lambda c: c[1])
def test_the_header_is_for_c_and_for_cpp(command, tmp_path):
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not installed")
    text = '#include "opensandbox.h"\n#include "opensandbox.h"\nint main(void) { struct osb_options o = OSB_OPTIONS; return osb_client_new(&o, 0) == 0; }\n'
    subprocess.run([*command, *STRICT, "-fsyntax-only", f"-I{HEADER.parent}", "-"], input=text, text=True, check=True)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A tree that `make install` made."""
    if not (LIB / "libopensandbox.so.0").exists():
        pytest.skip("build/lib is not built: make")
    root = tmp_path_factory.mktemp("root")
    subprocess.run(["make", "-s", "install", f"DESTDIR={root}", "PREFIX=/opt/osb"], cwd=ROOT, check=True, capture_output=True)
    return root


def pkg_config(root, *args):
    env = {"PKG_CONFIG_PATH": f"{root}/opt/osb/lib/pkgconfig", "PKG_CONFIG_SYSROOT_DIR": str(root), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(["pkg-config", *args, "opensandbox"], env=env, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_units_of_systemd_are_installed_with_the_place_of_the_programs(installed):
    units = installed / "opt/osb/lib/systemd/system"
    server, boxes = ((units / f"opensandbox{name}.service").read_text() for name in ("", "-boxes"))
    program = re.search("^ExecStart=(.*)$", server, re.M).group(1)
    assert program == "/opt/osb/bin/opensandbox-server" and os.access(f"{installed}{program}", os.X_OK)
    assert "\nRequires=opensandbox-boxes.service\n" in server and "\nDelegate=yes\n" in boxes
    assert "@" not in server + boxes
    if analyze := shutil.which("systemd-analyze"):
        done = subprocess.run([analyze, "--root", installed, "verify", "opensandbox-boxes.service"], capture_output=True, text=True, check=False)
        assert "Unknown" not in done.stderr, done.stderr


def test_an_installed_tree_is_all_that_a_program_needs(installed, tmp_path):
    if not shutil.which("pkg-config"):
        pytest.skip("pkg-config is not installed")
    prefix = installed / "opt/osb"
    assert pkg_config(installed, "--modversion") == ["0.1.0"]
    source = tmp_path / "main.c"
    source.write_text(
        """#include <opensandbox.h>
#include <stdio.h>
int server_new(void);
int server_new(void) { return 1; } /* names of the library's own are not in the way */
int main(void)
{
	struct osb_options o = OSB_OPTIONS;
	struct osb_client *c;

	o.domain = "127.0.0.1:1";
	c = osb_client_new(&o, NULL);
	if (!c || osb_server_health(c, NULL) == 0 || osb_client_error(c)->kind != OSB_NETWORK)
		return 1;
	puts(osb_version());
	osb_client_free(c);
	return server_new() - 1;
}
"""
    )
    flags = [*STRICT, *pkg_config(installed, "--cflags")]
    libs = pkg_config(installed, "--libs")
    shared, static = tmp_path / "shared", tmp_path / "static"
    subprocess.run(["gcc", "-std=c17", *flags, "-o", shared, source, *libs], check=True)
    subprocess.run(["gcc", "-std=c17", *flags, "-o", static, source, prefix / "lib/libopensandbox.a", "-lssl", "-lcrypto"], check=True)
    for program in (shared, static):
        done = subprocess.run([program], env={"LD_LIBRARY_PATH": str(prefix / "lib")}, capture_output=True, text=True, check=True)
        assert done.stdout == "0.1.0\n"
    for name in ("opensandbox-server", "execd"):
        assert (prefix / "bin" / name).stat().st_mode & 0o111
