# SPDX-License-Identifier: Apache-2.0
# The part of python.py that is compiled when it is first needed. `state`, `main`, `frame` and `items` are put in by it.
import os
import sys

RESULT_MAX = 5 * 512 * 1024 - 4096
REPRS = (
    ("_repr_html_", "text/html"),
    ("_repr_markdown_", "text/markdown"),
    ("_repr_latex_", "text/latex"),
    ("_repr_svg_", "image/svg+xml"),
    ("_repr_png_", "image/png"),
    ("_repr_jpeg_", "image/jpeg"),
    ("_repr_pdf_", "application/pdf"),
    ("_repr_json_", "application/json"),
    ("_repr_javascript_", "application/javascript"),
)

# ---- values ----


def encode(value):
    """A value of a bundle as text: bytes in base64, what is neither as JSON."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace")
    if isinstance(value, (bytes, bytearray)):
        from binascii import b2a_base64

        return b2a_base64(value, newline=False)
    import json

    return json.dumps(value, default=repr).encode("utf-8", "replace")


def ask(value, name, *args, **more):
    """What a method for display gives, without what it says about it; None when there is none, or it fails."""
    method = getattr(type(value), name, None)
    if method is None:
        return None
    try:
        found = method(value, *args, **more)
    except Exception:
        return None
    return found[0] if isinstance(found, tuple) and found else found


def picture(figure):
    import io

    out = io.BytesIO()
    figure.savefig(out, format="png", bbox_inches="tight")
    return out.getvalue()


def is_figure(value):
    module = sys.modules.get("matplotlib.figure")
    return module is not None and isinstance(value, getattr(module, "Figure", ()))


def bundle(value):
    found = ask(value, "_repr_mimebundle_", include=None, exclude=None)
    found = dict(found) if isinstance(found, dict) else {}
    for name, mime in REPRS:
        if mime not in found:
            data = ask(value, name)
            if data is not None:
                found[mime] = data
    if is_figure(value):
        found.setdefault("image/png", picture(value))
    if "text/plain" not in found:
        found["text/plain"] = repr(value)
    return {str(mime).replace(" ", "").replace("\n", ""): encode(data) for mime, data in found.items()}


def send(kind, found, count=0):
    while sum(map(len, found.values())) > RESULT_MAX:
        mime = max(found, key=lambda name: len(found[name]))
        print("[a result of type '%s' with %d bytes was left out: it is too large]" % (mime, len(found.pop(mime))), file=sys.stderr)
    pairs = [(mime.encode("ascii", "replace")[:200], found[mime]) for mime in list(found)[:32]]
    if pairs:
        sys.stdout.flush()
        frame(kind, items([(b"count", b"%d" % count)] + pairs))


def show(value, count):
    send(b"R", bundle(value), count)


def display(values):
    for value in values:
        send(b"D", bundle(value))


def show_figures(*args, **more):
    """All figures that are open, which then no longer are."""
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    pyplot = sys.modules.get("matplotlib.pyplot")
    if helpers is None or not hasattr(pyplot, "close"):
        return
    try:
        for manager in helpers.Gcf.get_all_fig_managers():
            figure = manager.canvas.figure
            send(b"D", {"text/plain": repr(figure).encode(), "image/png": encode(picture(figure))})
    finally:
        pyplot.close("all")


class Backend:
    """Of matplotlib: Agg, whose show() shows."""

    NAME = "_figures_of_this_context"

    @staticmethod
    def find_spec(name, path=None, target=None):
        from importlib.machinery import ModuleSpec

        return ModuleSpec(name, Backend) if name == Backend.NAME else None

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        from matplotlib.backend_bases import FigureManagerBase
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        module.FigureCanvas, module.FigureManager, module.show = FigureCanvasAgg, FigureManagerBase, show_figures


def choose_backend(module):
    if not os.environ.get("MPLBACKEND"):
        sys.meta_path.append(Backend)
        module.rcParams["backend"] = "module://" + Backend.NAME


def take_display(module):
    """Without a shell of IPython's own its function would print."""
    module.display = lambda *values, **more: display(values)


class Hooked:
    """Loads a module as its own loader would, and then does what we want done to it."""

    def __init__(self, loader, hook):
        self.loader, self.hook = loader, hook

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        self.hook(module)


def find_hooked(finder, name):
    import importlib.util

    sys.meta_path.remove(finder)
    try:
        spec = importlib.util.find_spec(name)
    finally:
        sys.meta_path.insert(0, finder)
    if spec is not None and spec.loader is not None:
        spec.loader = Hooked(spec.loader, choose_backend if name == "matplotlib" else take_display)
    return spec


# ---- exceptions ----


def remember():
    """The texts of cells, for whoever wants to see a line of one."""
    cache = sys.modules["linecache"].cache
    for name, text in state.sources.items():
        if name not in cache:
            cache[name] = (len(text), None, [line + "\n" for line in text.split("\n")], name)


def lines_of(error):
    """The traceback as text, without our own frames."""
    import linecache  # noqa: F401
    import traceback

    remember()
    story = traceback.TracebackException.from_exception(error)
    todo, seen = [story], set()
    while todo:
        one = todo.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        one.stack[:] = [entry for entry in one.stack if entry.filename != "<driver>"]
        todo += [one.__cause__, one.__context__] + list(getattr(one, "exceptions", None) or ())
    return [text.rstrip("\n") for text in story.format()]


def name_of(error):
    return type(error).__name__


def text_of(error):
    try:
        return str(error)
    except Exception:
        return "<the text of this exception cannot be had>"


def tell(error):
    try:
        lines = lines_of(error)
    except BaseException:
        lines = []
    if len(lines) > 200:
        lines = lines[:100] + ["..."] + lines[-99:]
    pairs = [(b"name", name_of(error)), (b"value", text_of(error)[:60000])] + [(b"trace", line[:4000]) for line in lines]
    del error
    frame(b"X", items([(key, text.encode("utf-8", "replace")) for key, text in pairs]))


def report(error):
    """The same for a fork of the context: as any program does."""
    if not isinstance(error, SystemExit):
        sys.stderr.write("\n".join(lines_of(error)) + "\n")


# ---- await ----


def wait(coroutine):
    """On a loop that stays: what one run has begun goes on when another one waits."""
    import asyncio

    if state.loop is None or state.loop.is_closed():
        state.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(state.loop)
    task = state.loop.create_task(coroutine)
    try:
        return state.loop.run_until_complete(task)
    except KeyboardInterrupt:
        if not task.done():
            task.cancel()
            try:
                state.loop.run_until_complete(task)
            except BaseException:
                pass
        raise


# ---- what notebooks allow and python does not ----


def shell(command):
    import subprocess

    return subprocess.run(["/bin/sh", "-c", command]).returncode


def magic(text):
    name, _, rest = text.partition(" ")
    if name == "pip":
        shell("'%s' -m pip %s" % (sys.executable, rest))
    elif name == "cd":
        os.chdir(os.path.expanduser(rest.strip() or "~"))
    elif name != "matplotlib":
        raise SyntaxError("there is no magic '%%%s' here" % name)


def without_magic(code):
    """!command and %magic as calls. Only code that is no python comes here."""
    main.__dict__["__shell"], main.__dict__["__magic"] = shell, magic
    lines = []
    for line in code.split("\n"):
        text = line.lstrip()
        indent = line[:len(line) - len(text)]
        if text[:1] in ("!", "%") and not text.startswith("%%"):
            line = "%s%s(%r);" % (indent, "__shell" if text[0] == "!" else "__magic", text[1:].strip())
        lines.append(line)
    return "\n".join(lines)


# ---- warm starts ----


def take_order(socket):
    """A directory and the three descriptors of a new context; None at the end."""
    import array
    from _socket import CMSG_SPACE

    data, extra, _, _ = socket.recvmsg(16384, CMSG_SPACE(3 * 4))
    fds = array.array("i")
    for _, _, value in extra:
        fds.frombytes(value[:len(value) - len(value) % 4])
    return (data, list(fds)) if data else None


def become(order, control):
    """In the fork: a context like any other."""
    data, fds = order
    os.setsid()
    os.dup2(fds[0], control, inheritable=False)
    os.dup2(fds[1], 1)
    os.dup2(fds[2], 2)
    for fd in fds:
        os.close(fd)
    os.chdir(data.partition(b"\n")[2])
    state.forked, state.received = False, b""
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()  # python's own generator sees to that itself


def warm(modules, control):
    """Imports, and then forks whenever it is told to; returns in the fork. That is nobody's child but execd's: who forked it ends."""
    import _socket
    import gc
    import linecache  # noqa: F401
    import traceback  # noqa: F401

    for name in modules.split():
        try:
            __import__(name)
        except Exception:
            pass
    gc.collect()
    gc.freeze()
    frame(b"H")
    socket = _socket.socket(fileno=control)
    while True:
        order = take_order(socket)
        if order is None:
            os._exit(0)
        pid = os.fork()
        if pid == 0:
            socket.detach()
            if os.fork() != 0:
                os._exit(0)
            become(order, control)
            return
        os.waitpid(pid, 0)
        for fd in order[1]:
            os.close(fd)
