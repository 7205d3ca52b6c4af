# SPDX-License-Identifier: Apache-2.0
"""A client of `osb mcp` that hides nothing: messages as they are, over stdin and stdout or over HTTP."""
import http.client
import json
import queue
import re
import subprocess
import threading

from conftest import BIN, KEY, assert_clean, clean_environment

OSB = BIN / "osb"
TIMEOUT_S = 60
VERSION = "2025-06-18"
ACCEPT = "application/json, text/event-stream"


def environment(server, folder, **more):
    return clean_environment(folder, OPEN_SANDBOX_API_KEY=KEY, OPEN_SANDBOX_DOMAIN=f"{server.host}:{server.port}", **more)


def request(method, params=None, id=None):
    message = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message["params"] = params
    if id is not None:
        message["id"] = id
    return message


def call(name, arguments, id, token=None):
    params = {"name": name, "arguments": arguments}
    if token is not None:
        params["_meta"] = {"progressToken": token}
    return request("tools/call", params, id)


class Client:
    """What both ways have: answers by id, and everything else in `notes`."""

    def __init__(self):
        self.answers, self.notes, self.next_id = {}, [], 0
        self.arrived = queue.Queue()

    def new_id(self):
        self.next_id += 1
        return self.next_id

    def take(self, message):
        for one in message if isinstance(message, list) else [message]:
            if "id" in one and "method" not in one:
                self.answers[one["id"]] = one
            else:
                self.notes.append(one)

    def initialize(self, version=VERSION, **more):
        info = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}, **more}
        answer = self.ask("initialize", info)
        self.tell("notifications/initialized")
        return answer

    def ask(self, method, params=None):
        answer = self.exchange(request(method, params, self.new_id()))
        return answer["result"] if "result" in answer else answer

    def call(self, name, /, token=None, **arguments):
        return self.exchange(call(name, arguments, self.new_id(), token))["result"]

    def data(self, name, /, **arguments):
        """The object of a call that must succeed; its text says the same."""
        result = self.call(name, **arguments)
        assert not result["isError"], result
        data = result["structuredContent"]
        texts = [json.loads(block["text"]) for block in result["content"] if block["type"] == "text" and block["text"][:1] in "{["]
        assert texts == (data["result"] if list(data) == ["result"] and isinstance(data["result"], list) else [data])
        return data["result"] if list(data) == ["result"] and isinstance(data["result"], list) else data

    def error(self, name, /, **arguments):
        result = self.call(name, **arguments)
        assert result["isError"] and len(result["content"]) == 1, result
        return result["content"][0]["text"]

    def progress(self, token):
        return [n["params"] for n in self.notes if n["method"] == "notifications/progress" and n["params"]["progressToken"] == token]


class Stdio(Client):
    def __init__(self, server, folder, *args, env=None, **popen):
        super().__init__()
        self.process = subprocess.Popen([OSB, "mcp", *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env={**environment(server, folder), **(env or {})}, cwd=folder, **popen)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.arrived.put(json.loads(line))
        self.arrived.put(None)

    def send(self, message):
        self.raw(json.dumps(message).encode() + b"\n")

    def raw(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def tell(self, method, params=None):
        self.send(request(method, params))

    def wait(self, id, timeout=TIMEOUT_S):
        while id not in self.answers:
            message = self.arrived.get(timeout=timeout)
            assert message is not None, self.process.stderr.read()
            self.take(message)
        return self.answers.pop(id)

    def settle(self):
        """Everything that has been said so far is here."""
        self.exchange(request("ping", None, self.new_id()))

    def exchange(self, message):
        self.send(message)
        return self.wait(message["id"])

    def close(self, status=0):
        self.process.stdin.close()
        stderr = self.process.stderr.read().decode()
        assert self.process.wait(TIMEOUT_S) == status, stderr
        self.reader.join(TIMEOUT_S)
        assert_clean(stderr)
        return stderr


class HttpServer:
    """`osb mcp --transport streamable-http` on a port of its own."""

    def __init__(self, server, folder, *args, env=None):
        self.process = subprocess.Popen([OSB, "mcp", "--transport", "streamable-http", "--port", "0", *args], stdin=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, env={**environment(server, folder), **(env or {})}, cwd=folder, text=True)
        line = self.process.stderr.readline()
        found = re.search(r"http://(\S+):(\d+)(/\S*)", line)
        assert found, line + self.process.stderr.read()
        self.host, self.port, self.path = found[1], int(found[2]), found[3]
        self.url = f"http://127.0.0.1:{self.port}{self.path}"

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)

    def request(self, method, body=None, headers=None, path=None):
        """Status, headers and body; of a stream all of it."""
        connection = self.connect()
        try:
            connection.request(method, path or self.path, body=body, headers=headers or {})
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def stop(self):
        self.process.terminate()
        stderr = self.process.stderr.read()
        assert self.process.wait(TIMEOUT_S) == 0, stderr
        assert_clean(stderr)


def events(body):
    """The messages in an event stream."""
    for block in body.decode().split("\n\n"):
        data = "\n".join(line[6:] for line in block.split("\n") if line.startswith("data: "))
        if data:
            yield json.loads(data)


class Http(Client):
    """One session."""

    def __init__(self, server, **headers):
        super().__init__()
        self.server, self.session, self.more = server, None, headers

    def headers(self):
        own = {"Accept": ACCEPT, "Content-Type": "application/json", **self.more}
        return {**own, "Mcp-Session-Id": self.session, "MCP-Protocol-Version": VERSION} if self.session else own

    def post(self, message):
        status, headers, body = self.server.request("POST", json.dumps(message), self.headers())
        if status == 200:
            assert headers["Content-Type"] == "text/event-stream"
            self.session = headers["Mcp-Session-Id"]
            for found in events(body):
                self.take(found)
        return status, body

    def tell(self, method, params=None):
        assert self.post(request(method, params)) == (202, b"")

    def exchange(self, message):
        status, body = self.post(message)
        assert status == 200, body
        return self.answers.pop(message["id"])

    def settle(self):
        pass

    def close(self):
        status, _, _ = self.server.request("DELETE", headers=self.headers())
        assert status == 200
