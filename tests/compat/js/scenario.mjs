// SPDX-License-Identifier: Apache-2.0
// scenario.mjs direct|by-server|gateway - calls everything that the client has, one line of JSON per step. Where the server is,
// and its key, the client takes from its own variables in the environment.
import assert from "node:assert/strict";
import { randomBytes, randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

import { ConnectionConfig, Sandbox, SandboxManager } from "@alibaba-group/opensandbox";

const useServerProxy = process.argv[2] === "by-server";
const byGateway = process.argv[2] === "gateway"; // which is where the endpoints of the server lead then
const NO_ID = "00000000-0000-4000-8000-000000000000";
const STAY = ["tail", "-f", "/dev/null"];
const WAIT_MS = 20000;
const run = randomUUID();
const config = (more = {}) => new ConnectionConfig({ useServerProxy, ...more });
const open = []; // sandboxes and managers, to be closed at the end
const keep = (thing) => (open.push(thing), thing);
// Connections of its own, which are never closed: the client waits without end for streams that were given up.
const apart = () => Sandbox.connect({ connectionConfig: config(), sandboxId: sb.id });
const create = async (more = {}) => keep(await Sandbox.create({ connectionConfig: config(), image: "host", ...more }));
let sb; // the sandbox of most steps

async function step(name, body) {
	let entry = { name, ok: true, detail: "" };

	try {
		await body();
	} catch (e) {
		entry = { name, ok: false, detail: `${e.stack}\n${JSON.stringify({ code: e.error?.code, status: e.statusCode })}` };
	}
	console.log(JSON.stringify(entry));
}

async function raised(promise, statusCode, code) {
	let e;

	try {
		await promise;
	} catch (caught) {
		e = caught;
	}
	assert.equal(e?.name, "SandboxApiException", `nothing of the kind: ${e?.stack}`);
	assert.equal(e.statusCode, statusCode);
	assert.equal(e.error.code, code);
	assert.ok(e.message && e.requestId, `no message, or no request id: ${e.stack}`);
	return e;
}

async function until(what, condition) {
	for (const deadline = Date.now() + WAIT_MS; Date.now() < deadline; await sleep(20)) {
		const value = await condition();

		if (value)
			return value;
	}
	throw new Error(`${what} did not come true within ${WAIT_MS} ms`);
}

const texts = (messages) => messages.map((m) => m.text);
const out = async (command, opts) => texts((await sb.commands.run(command, opts)).logs.stdout).join("\n");
const bytes = (text) => new TextEncoder().encode(text);
const near = (date, ms) => assert.ok(Math.abs(date.getTime() - ms) < 60000, `${date} is not about ${new Date(ms)}`);

// ---- lifecycle ----

await step("create with the defaults of the client", async () => {
	sb = await create({ metadata: { run, kind: "main" }, env: { GREETING: "hello" } });
	assert.match(sb.id, /^[0-9a-f-]{36}$/);
});

await step("info", async () => {
	const info = await sb.getInfo();

	assert.equal(info.id, sb.id);
	assert.equal(info.status.state, "Running");
	assert.deepEqual(info.entrypoint, STAY);
	assert.deepEqual(info.metadata, { run, kind: "main" });
	assert.equal(info.image.uri, "host");
	near(info.createdAt, Date.now());
	assert.equal(info.expiresAt - info.createdAt, 600000);
});

await step("is healthy", async () => {
	assert.equal(await sb.isHealthy(), true);
	assert.equal(await sb.health.ping(), true);
});

await step("list by state and metadata", async () => {
	const manager = keep(SandboxManager.create({ connectionConfig: config() }));
	const other = await create({ metadata: { run, kind: "other" } });
	const found = async (filter) => manager.listSandboxInfos({ metadata: { run }, ...filter });
	const ids = (page) => page.items.map((i) => i.id);

	assert.deepEqual(ids(await found()), [other.id, sb.id]);
	assert.deepEqual(ids(await found({ metadata: { run, kind: "main" } })), [sb.id]);
	assert.deepEqual(ids(await found({ states: ["Paused"] })), []);
	await other.pause();
	assert.deepEqual(ids(await found({ states: ["Paused"] })), [other.id]);
	assert.deepEqual(ids(await found({ states: ["Running", "Paused"] })), [other.id, sb.id]);
	const page = await found({ page: 2, pageSize: 1 });
	assert.deepEqual(ids(page), [sb.id]);
	assert.deepEqual(page.pagination, { page: 2, pageSize: 1, totalItems: 2, totalPages: 2, hasNextPage: false });
	await manager.killSandbox(other.id);
	assert.deepEqual(ids(await found()), [sb.id]);
});

await step("connect", async () => {
	const other = keep(await Sandbox.connect({ connectionConfig: config(), sandboxId: sb.id }));

	assert.equal(other.id, sb.id);
	await sb.commands.run("echo kept >/tmp/kept");
	assert.deepEqual(texts((await other.commands.run("cat /tmp/kept")).logs.stdout), ["kept"]);
});

await step("endpoints", async () => {
	for (const port of [44772, 18080, 8080]) {
		const form = byGateway ? `^[^/]+(/${sb.id}/${port})?$` : `^[^/]+/sandboxes/${sb.id}/proxy/${port}$`;

		assert.match((await sb.getEndpoint(port)).endpoint, new RegExp(form));
		assert.match(await sb.getEndpointUrl(port), /^http:\/\//);
	}
});

await step("patch metadata", async () => {
	const info = await sb.patchMetadata({ kind: null, extra: "1" });

	assert.deepEqual(info.metadata, { run, extra: "1" });
	assert.deepEqual((await sb.getInfo()).metadata, info.metadata);
	await raised(sb.patchMetadata({ "not a label": "x" }), 400, "SANDBOX::INVALID_METADATA_LABEL");
});

await step("renew", async () => {
	const { expiresAt } = await sb.renew(1800);

	near(expiresAt, Date.now() + 1800000);
	assert.equal((await sb.getInfo()).expiresAt.getTime(), expiresAt.getTime());
});

await step("create without an expiry", async () => {
	const other = await create({ timeoutSeconds: null });

	assert.equal((await other.getInfo()).expiresAt, null);
	await raised(other.renew(60), 409, "NATIVE::INVALID_EXPIRATION");
	await other.kill();
});

// ---- commands ----

await step("command streams to callbacks", async () => {
	const seen = [], at = {};
	const done = await sb.commands.run("echo one; sleep 1; echo; echo $GREETING; echo oops >&2", {}, {
		onInit: (i) => seen.push(`init ${i.id}`),
		onStdout: (m) => (seen.push(`out ${m.text}`), (at[m.text] = Date.now())),
		onStderr: (m) => seen.push(`err ${m.text}`),
		onExecutionComplete: (c) => seen.push(`complete ${c.executionTimeMs >= 900}`),
		onError: () => seen.push("error"),
	});
	const ordered = seen.filter((s) => s !== "err oops");

	assert.deepEqual(ordered, [`init ${done.id}`, "out one", "out \n", "out hello", "complete true"]);
	assert.ok(seen.includes("err oops"));
	assert.ok(at.hello - at.one > 250, "the first line came together with the last");
	assert.equal(done.exitCode, 0);
	assert.deepEqual(texts(done.logs.stderr), ["oops"]);
	near(new Date(done.logs.stdout[0].timestamp), Date.now());
});

await step("command as a stream of events", async () => {
	const types = [];

	for await (const event of sb.commands.runStream("echo x"))
		if (event.type !== "ping")
			types.push(event.type);
	assert.deepEqual(types, ["init", "stdout", "execution_complete"]);
});

await step("command writes much, and in other scripts", async () => {
	assert.equal(await out("seq 1 20000"), Array.from({ length: 20000 }, (_, i) => i + 1).join("\n"));
	assert.equal(await out("head -c 262144 /dev/zero | tr '\\0' x"), "x".repeat(262144));
	assert.equal(await out("printf 'gr\\303\\274n \\342\\200\\250 \\360\\237\\220\\263'"), "grün \u2028 🐳");
});

await step("command fails with its exit code", async () => {
	const done = await sb.commands.run("echo before; exit 7");

	assert.deepEqual([done.exitCode, done.error.name, done.error.value], [7, "CommandExecError", "7"]);
	assert.equal(done.complete, undefined);
	assert.deepEqual(texts(done.logs.stdout), ["before"]);
	assert.equal((await sb.commands.run("no-such-program")).exitCode, 127);
});

await step("command with a folder and an environment", async () => {
	assert.equal(await out("pwd; echo $GREETING", { workingDirectory: "/tmp", envs: { GREETING: "bye" } }), "/tmp\nbye");
	await assert.rejects(sb.commands.run("pwd", { workingDirectory: "/nowhere" }), (e) => e.statusCode === 400);
});

await step("command as another user", async () => {
	assert.equal(await out("id -u; id -g", { uid: 1234, gid: 2345 }), "1234\n2345");
	assert.equal(await out("id -un", { uid: 65534 }), "nobody");
});

await step("command that takes too long", async () => {
	const began = Date.now();
	const done = await sb.commands.run("echo begun; sleep 100", { timeoutSeconds: 0.5 });

	assert.deepEqual([done.exitCode, texts(done.logs.stdout)], [137, ["begun"]]);
	assert.ok(Date.now() - began < WAIT_MS);
});

await step("command in the background", async () => {
	const done = await sb.commands.run("echo one; sleep 1; echo two >&2; exit 3", { background: true });
	let logs = { content: "", cursor: undefined }, all = "";

	assert.equal(done.exitCode, undefined);
	assert.equal((await sb.commands.getCommandStatus(done.id)).running, true);
	const status = await until("the end of the command", async () => {
		logs = await sb.commands.getBackgroundCommandLogs(done.id, logs.cursor);
		all += logs.content;
		const s = await sb.commands.getCommandStatus(done.id);
		return !s.running && s;
	});
	logs = await sb.commands.getBackgroundCommandLogs(done.id, logs.cursor);
	assert.equal(all + logs.content, "one\ntwo\n");
	assert.deepEqual([logs.cursor, status.id, status.exitCode], [8, done.id, 3]);
	assert.ok(status.finishedAt > status.startedAt && status.content.startsWith("echo one"));
	assert.equal((await sb.commands.getBackgroundCommandLogs(done.id)).content, "one\ntwo\n");
	assert.equal((await sb.commands.getBackgroundCommandLogs(done.id, 4)).content, "two\n");
	assert.deepEqual(await sb.commands.getBackgroundCommandLogs(done.id, 8), { content: "", cursor: 8 });
	await assert.rejects(sb.commands.getCommandStatus("no-such-id"), (e) => e.statusCode === 404 && Boolean(e.requestId));
});

await step("command is interrupted", async () => {
	let id;
	const done = await sb.commands.run("sleep 100 & echo begun; wait; sleep 100", {}, {
		onInit: (i) => { id = i.id; },
		onStdout: () => sb.commands.interrupt(id),
	});

	assert.ok(done.error && done.exitCode !== 0);
	assert.equal((await sb.commands.getCommandStatus(done.id)).running, false);
	assert.equal(await out("echo again"), "again");
	await assert.rejects(sb.commands.interrupt(done.id), (e) => e.statusCode >= 400);
});

await step("stream of a command is given up", async () => {
	let first;

	for await (const event of (await apart()).commands.runStream("sleep 100")) {
		first = event;
		break;
	}
	assert.equal(first.type, "init");
	assert.equal((await sb.commands.getCommandStatus(first.text)).running, true);
	await sb.commands.interrupt(first.text);
	assert.equal((await sb.commands.getCommandStatus(first.text)).running, false);
});

await step("session", async () => {
	const session = await sb.commands.createSession({ workingDirectory: "/tmp/made/for/it" });
	const said = async (command, opts) => texts((await sb.commands.runInSession(session, command, opts)).logs.stdout).join("\n");

	assert.equal(await said("pwd"), "/tmp/made/for/it");
	assert.equal(await said("export A='x y'; f() { echo in-f; }; cd /usr"), "");
	assert.equal(await said("echo $A; f; pwd"), "x y\nin-f\n/usr");
	assert.equal(await said("pwd", { workingDirectory: "/etc" }), "/etc");
	const failed = await sb.commands.runInSession(session, "exit 7");
	assert.deepEqual([failed.exitCode, failed.error.value, failed.complete], [7, "7", undefined]);
	const slow = await sb.commands.runInSession(session, "sleep 100", { timeoutSeconds: 0.5 });
	assert.ok(slow.error);
	assert.equal(await said("echo alive"), "alive");
	await sb.commands.deleteSession(session);
	await raised(sb.commands.deleteSession(session), 404, "CONTEXT_NOT_FOUND");
	await sb.commands.deleteSession(await sb.commands.createSession());
});

// ---- files ----

await step("write text and read it", async () => {
	await sb.files.writeFiles([{ path: "/tmp/w/a/text.txt", data: "line1\nline2\nline3\ngrün\n" }]);
	assert.equal(await sb.files.readFile("/tmp/w/a/text.txt"), "line1\nline2\nline3\ngrün\n");
	await sb.files.writeFiles([{ path: "/tmp/w/a/empty" }]);
	assert.equal(await sb.files.readFile("/tmp/w/a/empty"), "");
	await sb.files.writeFiles([{ path: "/tmp/w/a/it's \"grün\" %41&b=1;#?.txt", data: "odd" }]);
	assert.equal(await sb.files.readFile("/tmp/w/a/it's \"grün\" %41&b=1;#?.txt"), "odd");
});

await step("write bytes of every kind and read them", async () => {
	const data = randomBytes(300000);
	async function* pieces() {
		for (let i = 0; i < data.length; i += 70000)
			yield new Uint8Array(data.subarray(i, i + 70000));
	}

	await sb.files.writeFiles([
		{ path: "/tmp/w/array", data: new Uint8Array(data) },
		{ path: "/tmp/w/buffer", data: data.buffer.slice(data.byteOffset, data.byteOffset + data.length) },
		{ path: "/tmp/w/blob", data: new Blob([data]) },
		{ path: "/tmp/w/pieces", data: pieces() },
		{ path: "/tmp/w/stream", data: new Blob([data]).stream() },
	]);
	for (const name of ["array", "buffer", "blob", "pieces", "stream"])
		assert.ok(data.equals(await sb.files.readBytes(`/tmp/w/${name}`)), name);
});

await step("write many with mode and owner", async () => {
	await sb.files.writeFiles([
		{ path: "/tmp/w/m1", data: "1", mode: 640, owner: "nobody", group: "nogroup" },
		{ path: "/tmp/w/m2", data: "22", mode: 755 },
	]);
	assert.equal(await out("stat -c '%a %U %G %s' /tmp/w/m1 /tmp/w/m2"), "640 nobody nogroup 1\n755 root root 2");
});

await step("read a range, and lines", async () => {
	const path = "/tmp/w/a/text.txt";

	assert.equal(await sb.files.readFile(path, { range: "bytes=0-4" }), "line1");
	assert.deepEqual(Buffer.from(await sb.files.readBytes(path, { range: "bytes=-5" })), Buffer.from("rün\n"));
	assert.equal(await sb.files.readFile(path, { offset: 2, limit: 2 }), "line2\nline3");
	assert.equal(await sb.files.readFile(path, { offset: 99 }), "");
	await assert.rejects(sb.files.readFile(path, { range: "bytes=999-" }), (e) => e.statusCode === 416);
});

await step("read as a stream", async () => {
	let size = 0, pieces = 0;

	await sb.commands.run("head -c 5000000 /dev/zero >/tmp/w/big");
	for await (const piece of sb.files.readBytesStream("/tmp/w/big")) {
		size += piece.length;
		pieces++;
	}
	assert.ok(size === 5000000 && pieces > 1, `${size} bytes in ${pieces} pieces`);
	for await (const piece of (await apart()).files.readBytesStream("/tmp/w/big")) {
		assert.ok(piece.length > 0);
		break;
	}
	assert.equal(await sb.isHealthy(), true);
});

await step("file info", async () => {
	const info = await sb.files.getFileInfo(["/tmp/w/m1", "/tmp/w"]);

	assert.deepEqual(Object.keys(info).sort(), ["/tmp/w", "/tmp/w/m1"]);
	const { path, type, size, mode, owner, group, modifiedAt, createdAt } = info["/tmp/w/m1"];
	assert.deepEqual([path, type, size, mode, owner, group], ["/tmp/w/m1", "file", 1, 640, "nobody", "nogroup"]);
	near(modifiedAt, Date.now());
	near(createdAt, Date.now());
	assert.equal(info["/tmp/w"].type, "directory");
});

await step("search", async () => {
	const paths = async (entry) => (await sb.files.search(entry)).map((f) => f.path);

	assert.deepEqual(await paths({ path: "/tmp/w", pattern: "m?" }), ["/tmp/w/m1", "/tmp/w/m2"]);
	assert.deepEqual(await paths({ path: "/tmp/w", pattern: "**/*.t[x]t" }),
		["/tmp/w/a/it's \"grün\" %41&b=1;#?.txt", "/tmp/w/a/text.txt"]);
	assert.ok((await paths({ path: "/tmp/w" })).length >= 9);
	assert.deepEqual(await paths({ path: "/tmp/w", pattern: "nothing" }), []);
	await raised(sb.files.search({ path: "/tmp/nowhere", pattern: "*" }), 404, "FILE_NOT_FOUND");
});

await step("replace", async () => {
	await sb.files.replaceContents([{ path: "/tmp/w/a/text.txt", oldContent: "line", newContent: "row " }]);
	assert.equal(await sb.files.readFile("/tmp/w/a/text.txt"), "row 1\nrow 2\nrow 3\ngrün\n");
	const counts = await sb.files.replaceContentsDetailed([
		{ path: "/tmp/w/a/text.txt", oldContent: "row", newContent: "line" },
		{ path: "/tmp/w/m1", oldContent: "nothing", newContent: "x" },
	]);
	assert.deepEqual(counts.sort((a, b) => (a.path < b.path ? -1 : 1)),
		[{ path: "/tmp/w/a/text.txt", replacedCount: 3 }, { path: "/tmp/w/m1", replacedCount: 0 }]);
	assert.equal(await out("stat -c '%a %U' /tmp/w/m1"), "640 nobody");
});

await step("move", async () => {
	await sb.files.moveFiles([{ src: "/tmp/w/m2", dest: "/tmp/w/new/place/m2" }]);
	assert.equal(await sb.files.readFile("/tmp/w/new/place/m2"), "22");
	await raised(sb.files.moveFiles([{ src: "/tmp/w/m2", dest: "/tmp/w/m3" }]), 404, "FILE_NOT_FOUND");
});

await step("permissions", async () => {
	await sb.files.setPermissions([{ path: "/tmp/w/m1", mode: 600, owner: "root", group: "root" }]);
	assert.equal(await out("stat -c '%a %U %G' /tmp/w/m1"), "600 root root");
});

await step("delete files", async () => {
	await sb.files.deleteFiles(["/tmp/w/array", "/tmp/w/blob", "/tmp/w/never-there"]);
	assert.deepEqual(await sb.files.search({ path: "/tmp/w", pattern: "{array,blob}" }), []);
});

await step("directories", async () => {
	await sb.files.createDirectories([{ path: "/tmp/d/one/deep", mode: 750 }, { path: "/tmp/d/two", owner: "nobody" }]);
	await sb.files.writeFiles([{ path: "/tmp/d/file", data: "x" }]);
	const listed = async (entry) => (await sb.files.listDirectory(entry)).map((f) => `${f.type} ${f.path}`);
	assert.deepEqual(await listed({ path: "/tmp/d" }), ["file /tmp/d/file", "directory /tmp/d/one", "directory /tmp/d/two"]);
	assert.deepEqual((await listed({ path: "/tmp/d", depth: 2 }))[2], "directory /tmp/d/one/deep");
	assert.equal(await out("stat -c '%a %U' /tmp/d/one/deep /tmp/d/two"), "750 root\n755 nobody");
	await sb.files.deleteDirectories(["/tmp/d/one", "/tmp/d/never-there"]);
	assert.deepEqual(await listed({ path: "/tmp/d" }), ["file /tmp/d/file", "directory /tmp/d/two"]);
	await raised(sb.files.listDirectory({ path: "/tmp/nowhere" }), 404, "FILE_NOT_FOUND");
});

await step("missing file raises", async () => {
	await raised(sb.files.readFile("/tmp/nowhere"), 404, "UNEXPECTED_RESPONSE"); // the client does not look into the body
	await raised(sb.files.getFileInfo(["/tmp/nowhere"]), 404, "FILE_NOT_FOUND");
	const text = [{ path: "/tmp/nowhere", oldContent: "a", newContent: "b" }];
	await raised(sb.files.replaceContents(text), 404, "FILE_NOT_FOUND");
	await assert.rejects(sb.files.readBytesStream("/tmp/nowhere").next(), (e) => e.statusCode === 404);
});

// ---- the rest ----

await step("metrics", async () => {
	const m = await sb.getMetrics();

	assert.ok(m.cpuCount >= 1 && m.cpuUsedPercentage >= 0 && m.cpuUsedPercentage <= 100, JSON.stringify(m));
	assert.ok(m.memoryUsedMiB >= 0 && m.memoryUsedMiB <= m.memoryTotalMiB, JSON.stringify(m));
	assert.equal(m.memoryTotalMiB, 2048); // the client asked for 2Gi
	near(new Date(m.timestamp), Date.now());
});

await step("pause and resume", async () => {
	await sb.pause();
	assert.equal((await sb.getInfo()).status.state, "Paused");
	assert.equal(await sb.isHealthy(), false);
	await assert.rejects(sb.pause(), (e) => e.statusCode === 409);
	sb = keep(await sb.resume());
	assert.equal((await sb.getInfo()).status.state, "Running");
	assert.equal(await out("cat /tmp/kept"), "kept");
	await sb.pause();
	sb = keep(await Sandbox.resume({ connectionConfig: config(), sandboxId: sb.id }));
	assert.equal(await out("echo again"), "again");
});

await step("kill", async () => {
	await sb.kill();
	assert.equal(await sb.isHealthy(), false);
	await raised(sb.getInfo(), 404, "NATIVE::SANDBOX_NOT_FOUND");
	await raised(sb.kill(), 404, "NATIVE::SANDBOX_NOT_FOUND");
});

await step("missing sandbox raises 404 with the request id", async () => {
	const manager = keep(SandboxManager.create({ connectionConfig: config({ headers: { "X-Request-ID": "mine-1" } }) }));

	for (const call of [
		() => manager.getSandboxInfo(NO_ID), () => manager.killSandbox(NO_ID), () => manager.pauseSandbox(NO_ID),
		() => manager.resumeSandbox(NO_ID), () => manager.renewSandbox(NO_ID, 60),
		() => manager.patchSandboxMetadata(NO_ID, { a: "b" }),
	]) {
		const e = await raised(call(), 404, "NATIVE::SANDBOX_NOT_FOUND");

		assert.equal(e.requestId, "mine-1");
		assert.ok(e.message.includes(NO_ID));
	}
	await raised(Sandbox.connect({ connectionConfig: config(), sandboxId: NO_ID }), 404, "NATIVE::SANDBOX_NOT_FOUND");
});

await step("wrong key raises 401", async () => {
	const manager = keep(SandboxManager.create({ connectionConfig: config({ apiKey: "0".repeat(32) }) }));

	await raised(manager.getSandboxInfo(NO_ID), 401, "INVALID_API_KEY");
});

await step("close", () => Promise.all(open.map((thing) => thing.close())));
process.exit(0); // in spite of the streams that were given up
