# SPDX-License-Identifier: Apache-2.0
"""The published Python code interpreter, unchanged, in both of its forms, directly and through the server."""
import threading

import pytest

pytest.importorskip("code_interpreter", reason="needs the packages of tests/compat/requirements.txt")

from code_interpreter import CodeInterpreter, CodeInterpreterSync, SupportedLanguage  # noqa: E402
from kit import kit  # noqa: E402, F401
from opensandbox.exceptions import SandboxApiException  # noqa: E402
from opensandbox.models.filesystem import WriteEntry  # noqa: E402

PROGRAM = """
import json
values = {"a": 2, "b": 3}
print("values:", json.dumps(values))
def product(d):
    result = 1
    for v in d.values():
        result *= v
    return result
product(values)
"""


class Interpreter:
    """A code interpreter whose calls of either form give their values."""

    def __init__(self, kit):  # noqa: F811
        self.kit = kit
        self.sandbox = kit.create()
        self.made = kit.wait((CodeInterpreter if kit.loop else CodeInterpreterSync).create(self.sandbox))

    def __getattr__(self, name):
        return lambda *args, **named: self.kit.wait(getattr(self.made.codes, name)(*args, **named))


@pytest.fixture
def codes(kit):  # noqa: F811
    return Interpreter(kit)


def out(execution):
    return "".join(m.text for m in execution.logs.stdout)


def test_the_scenario_of_a_first_user(codes):
    k = codes.kit
    done = k.wait(codes.made.commands.run("echo from a shell"))
    assert done.logs.stdout[0].text == "from a shell"
    k.wait(codes.made.files.write_files([WriteEntry(path="/tmp/data.txt", data="content", mode=644)]))
    assert k.wait(codes.made.files.read_file("/tmp/data.txt")) == "content"
    execution = codes.run(PROGRAM, language=SupportedLanguage.PYTHON)
    assert execution.result[0].text == "6" and out(execution) == 'values: {"a": 2, "b": 3}\n'
    assert execution.error is None and execution.complete is not None and execution.execution_count == 1 and execution.id
    assert codes.run("open('/tmp/data.txt').read()").result[0].text == "'content'"
    assert codes.run("2 + 2").result[0].text == "4"


def test_contexts_keep_state_and_are_isolated(codes):
    a, b = codes.create_context("python"), codes.create_context("python")
    assert a.id and a.id != b.id and a.language == "python"
    codes.run("x = 41", context=a)
    assert codes.run("x + 1", context=a).result[0].text == "42"
    assert codes.run("x", context=b).error.name == "NameError"
    assert {a.id, b.id} <= {c.id for c in codes.list_contexts("python")}
    assert codes.get_context(a.id).language == "python"
    codes.delete_context(a.id)
    with pytest.raises(SandboxApiException) as e:
        codes.get_context(a.id)
    assert e.value.status_code == 404
    codes.delete_contexts("python")
    assert codes.list_contexts("python") == []


def test_errors_carry_name_value_and_traceback(codes):
    execution = codes.run("def f():\n    return undefined_name\nf()")
    assert execution.error.name == "NameError" and "undefined_name" in execution.error.value
    assert any("in f" in line for line in execution.error.traceback) and execution.result == []
    assert codes.run("1 + 1").result[0].text == "2"


def test_other_languages_run_by_their_interpreters(codes):
    bash = codes.create_context("bash")
    codes.run("A=kept; cd /tmp", context=bash)
    assert out(codes.run("echo $A; pwd", context=bash)) == "kept\n/tmp\n"
    node = codes.create_context("javascript")
    execution = codes.run("const a = 20; console.log('logged'); a * 2", context=node)
    assert execution.result[0].text == "40" and out(execution) == "logged\n"
    assert codes.run("throw new RangeError('r')", context=node).error.name == "RangeError"
    with pytest.raises(SandboxApiException):
        codes.create_context("cobol")


def test_an_interrupt_leaves_a_context_that_works(codes):
    context = codes.create_context("python")
    codes.run("kept = 1", context=context)
    begun, ids = threading.Event(), []

    def on_init(event):
        ids.append(event.id)

    def on_out(event):
        begun.set()

    handlers = codes.kit.handlers(on_init=on_init, on_stdout=on_out)
    if codes.kit.loop:
        import asyncio

        async def both():
            running = asyncio.ensure_future(codes.made.codes.run("print('begun', flush=True)\nwhile True: pass", context=context, handlers=handlers))
            while not begun.is_set():
                await asyncio.sleep(0.02)
            await codes.made.codes.interrupt(ids[0])
            return await running

        execution = codes.kit.wait(both())
    else:
        found = []
        thread = threading.Thread(target=lambda: found.append(
            codes.run("print('begun', flush=True)\nwhile True: pass", context=context, handlers=handlers)))
        thread.start()
        assert begun.wait(30)
        codes.interrupt(ids[0])
        thread.join(30)
        (execution,) = found
    assert execution.error.name == "KeyboardInterrupt"
    assert codes.run("kept", context=context).result[0].text == "1"


def test_a_plot_is_a_result(codes):
    """This version of the client keeps the text of a result alone."""
    execution = codes.run("import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.show()\n'shown'")
    if execution.error is not None and execution.error.name == "ModuleNotFoundError":
        pytest.skip("needs matplotlib in the sandbox")
    assert [r.text for r in execution.result][1:] == ["'shown'"] and execution.result[0].text.startswith("<Figure size")
