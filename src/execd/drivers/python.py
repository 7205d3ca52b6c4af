# SPDX-License-Identifier: Apache-2.0
# Runs python code for execd, which sends this to a python that it has started, by the socket that is descriptor 250 there.
#
# Messages both ways are a letter, the length in decimal, a newline and so many bytes. To us: R code; W modules, to be what new
# contexts are forked from. From us: H ready, B the run can be interrupted, O and E output, R and D values, X an
# exception, Z the run is over. A start must cost next to nothing: nothing is imported here that an interpreter has not loaded anyway,
# and what is rarely needed comes as a text of its own (MORE) that is compiled when it is.
import os
import sys


def _driver(more):
    import _signal
    import _thread
    import builtins
    import io
    from _ast import Expr, Expression
    from time import sleep

    try:
        from fcntl import ioctl
    except ImportError:
        ioctl = None

    CONTROL, PIECE, FIONREAD, NONE = 250, 32768, 0x541B, b"\0\0\0\0"
    AWAIT = 0x2000 if sys.version_info >= (3, 8) else 0
    main = type(sys)("__main__")
    late = {}
    state = type("State", (), {})()
    state.count, state.running, state.writing, state.pending = 0, False, False, False
    state.ordered, state.forked, state.sources, state.received, state.loop = False, False, {}, b"", None
    lock = _thread.allocate_lock()

    def need(name):
        """A function of the rarely used part."""
        if not late:
            exec(compile(more, "<driver>", "exec"), late)
            late.update(state=state, main=main, frame=frame, items=items)
        return late[name]

    # ---- what we say ----

    def settle():
        """Waits until what programs of ours have written to descriptors 1 and 2 was read: it comes before what we say next."""
        try:
            for tries in range(40):
                if ioctl(1, FIONREAD, NONE) == NONE == ioctl(2, FIONREAD, NONE):
                    return
                sleep(0.0001 if tries < 10 else 0.001)
        except OSError:
            pass
        state.ordered = False  # somebody goes on writing, or these are no pipes

    def frame(kind, payload=b""):
        """Whole or not at all: an interrupt waits until it has been written."""
        if state.forked:
            return
        if state.ordered:
            settle()
        data = memoryview(b"%b%d\n%b" % (kind, len(payload), payload))
        with lock:
            state.writing = True
            try:
                while data:
                    data = data[os.write(CONTROL, data):]
            finally:
                state.writing = False
        if state.pending and state.running and _thread.get_ident() == state.thread:
            state.pending = False
            raise KeyboardInterrupt

    def items(pairs):
        return b"".join(b"%b %d\n%b" % (name, len(value), value) for name, value in pairs)

    class Raw(io.RawIOBase):
        def __init__(self, kind, number):
            self.kind, self.number = kind, number
            self.name = "<stdout>" if number == 1 else "<stderr>"

        def fileno(self):
            return self.number

        def writable(self):
            return True

        def write(self, data):
            data = bytes(data)
            other = err if self.number == 1 else out
            if not other.closed:
                other.flush()
            for at in range(0, len(data), PIECE):
                if state.forked:
                    os.write(self.number, data[at:at + PIECE])
                else:
                    frame(self.kind, data[at:at + PIECE])
            return len(data)

    def stream(kind, number, errors):
        return io.TextIOWrapper(Raw(kind, number), "utf-8", errors, "\n", True)

    def flush():
        for s in (sys.stdout, sys.stderr, out, err):
            try:
                s.flush()
            except Exception:
                pass

    def in_child():
        """A fork of ours runs on without us: the context is its parent's alone."""
        state.writing, state.forked = False, True
        try:
            os.close(CONTROL)
        except OSError:
            pass

    # ---- what we are told ----

    def message():
        while True:
            head, newline, rest = state.received.partition(b"\n")
            if newline:
                size = int(head[1:])
                parts = [rest]
                have = len(rest)
                while have < size:
                    parts.append(os.read(CONTROL, 1 << 16) or os._exit(0))
                    have += len(parts[-1])
                rest = b"".join(parts)
                state.received = rest[size:]
                return head[:1], rest[:size]
            piece = os.read(CONTROL, 1 << 16)
            if not piece:
                os._exit(0)
            state.received += piece

    def on_interrupt(number, where):
        if state.running and not state.writing:
            raise KeyboardInterrupt
        state.pending = state.running

    # ---- runs ----

    def parse(code, name):
        try:
            return compile(code, name, "exec", 0x400 | AWAIT, True)
        except SyntaxError:
            if not any(line.lstrip()[:1] in ("!", "%") for line in code.split("\n")):
                raise
            return compile(need("without_magic")(code), name, "exec", 0x400 | AWAIT, True)

    def evaluate(tree, name):
        code = compile(tree, name, "eval" if isinstance(tree, Expression) else "exec", AWAIT, True)
        value = eval(code, main.__dict__)
        return need("wait")(value) if code.co_flags & 0x80 else value

    def run(code):
        state.count += 1
        name = "<cell %d>" % state.count
        state.sources[name] = code
        if len(state.sources) > 256:
            del state.sources[next(iter(state.sources))]
        if "linecache" in sys.modules:
            need("remember")()
        tree = parse(code, name)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], Expr) and not code.rstrip().endswith(";") else None
        evaluate(tree, name)
        if last is not None:
            value = evaluate(Expression(last.value), name)
            if value is not None:
                main.__dict__["_"] = value
                flush()
                if type(value) in (int, float, bool, str, complex, bytes):
                    text = repr(value).encode("utf-8", "backslashreplace")
                    if len(text) < 1 << 20:
                        return frame(b"R", items(((b"count", b"%d" % state.count), (b"text/plain", text))))
                need("show")(value, state.count)

    def guarded(code):
        """Never leaves anything but its own process: whatever the code does, the run ends with one message."""
        state.running = True
        try:
            try:
                frame(b"B")
                run(code.decode("utf-8", "replace"))
                if "matplotlib.pyplot" in sys.modules:
                    need("show_figures")()
            finally:
                flush()
                state.running = False
        except BaseException as error:
            state.running = False
            if state.forked:
                need("report")(error)
                flush()
                os._exit(1)
            need("tell")(error)
        if state.forked:
            os._exit(0)

    def open_streams():
        nonlocal out, err
        if out is None or out.closed:
            sys.stdout = sys.__stdout__ = out = stream(b"O", 1, "surrogateescape")
        if err is None or err.closed:
            sys.stderr = sys.__stderr__ = err = stream(b"E", 2, "backslashreplace")

    def prepare():
        """What the code of a run before may have taken away from this one."""
        state.thread = _thread.get_ident()
        state.ordered = ioctl is not None
        open_streams()
        if sys.stdin is None or sys.stdin.closed:
            sys.stdin = open(0, closefd=False)
        try:
            _signal.signal(_signal.SIGINT, on_interrupt)
        except ValueError:
            pass

    def serve():
        frame(b"H")
        while True:
            kind, payload = message()
            if kind == b"R":
                prepare()
                guarded(payload)
                state.pending = False
                flush()
                frame(b"Z")
            elif kind == b"W":
                need("warm")(payload.decode(), CONTROL)
                frame(b"H")

    class Finder:
        """Has a say when what shows things is imported, and not before."""

        def find_spec(name, path=None, target=None):
            return need("find_hooked")(Finder, name) if name in ("matplotlib", "IPython.display") else None

    def begin():
        os.set_inheritable(CONTROL, False)
        os.register_at_fork(before=flush, after_in_child=in_child)
        sys.meta_path.insert(0, Finder)
        _signal.signal(_signal.SIGINT, on_interrupt)
        main.__dict__.update(__builtins__=builtins, display=lambda *values, **more: need("display")(values))
        sys.modules["__main__"] = main
        sys.argv = [""]

    out = err = None
    open_streams()
    begin()
    serve()


_driver(MORE)
