// SPDX-License-Identifier: Apache-2.0
// The official TypeScript client library of MCP with osb mcp: scenario.mjs stdio|http OSB [URL].
// One line of JSON for each step.
import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { LoggingMessageNotificationSchema } from "@modelcontextprotocol/sdk/types.js";

const [way, osb, url] = process.argv.slice(2);
const transport = () =>
	way === "stdio"
		? new StdioClientTransport({ command: osb, args: ["mcp"], env: { ...process.env }, stderr: "inherit" })
		: new StreamableHTTPClientTransport(new URL(url));

async function step(name, run) {
	try {
		await run();
		console.log(JSON.stringify({ name, ok: true }));
	} catch (e) {
		console.log(JSON.stringify({ name, ok: false, detail: String(e.stack ?? e) }));
	}
}

const client = new Client({ name: "scenario", version: "1" }, { capabilities: {} });
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// The library holds every result to the tool's output schema, once the tools have been listed.
async function data(name, args = {}, options = undefined) {
	const result = await client.callTool({ name, arguments: args }, undefined, options);
	assert.ok(!result.isError, JSON.stringify(result.content));
	return result.structuredContent;
}

async function error(name, args = {}) {
	const result = await client.callTool({ name, arguments: args });
	assert.equal(result.isError, true);
	assert.equal(result.content.length, 1);
	return result.content[0].text;
}

let box;
const count = async (what) => {
	const ran = await data("command_run", { sandbox_id: box, command: `pgrep -fc '${what}'` });
	return Number(ran.logs.stdout[0].text);
};

await step("connect", async () => {
	await client.connect(transport());
	assert.equal(client.getServerVersion().name, "OpenSandbox Sandbox");
	assert.ok(client.getServerCapabilities().tools);
	assert.ok(client.getInstructions().includes("sandbox_create"));
});

await step("ping", async () => client.ping());

await step("list tools, resources and prompts", async () => {
	const { tools } = await client.listTools();
	assert.equal(tools.length, 42);
	for (const tool of tools) assert.equal(tool.inputSchema.type, "object");
	assert.deepEqual((await client.listResources()).resources, []);
	assert.deepEqual((await client.listPrompts()).prompts, []);
});

await step("progress of a create", async () => {
	const seen = [];
	const made = await data("sandbox_create", { image: "host", timeout_seconds: 300 }, { onprogress: (p) => seen.push(p.message) });
	box = made.sandbox_id;
	// The last messages may come together with the result, and the library then drops them.
	assert.ok(seen.length >= 2);
	assert.deepEqual(seen, ["Validating input", "Creating sandbox", "Fetching sandbox info", "Done"].slice(0, seen.length));
});

await step("sandboxes", async () => {
	assert.equal((await data("sandbox_get_info", { sandbox_id: box })).id, box);
	assert.ok((await data("sandbox_list")).sandbox_infos.some((s) => s.id === box));
	assert.ok((await data("sandbox_renew", { sandbox_id: box, timeout_seconds: 900 })).expires_at);
	assert.equal((await data("sandbox_healthcheck", { sandbox_id: box })).healthy, true);
	assert.ok((await data("sandbox_get_metrics", { sandbox_id: box })).cpu_count > 0);
	assert.ok((await data("sandbox_get_endpoint", { sandbox_id: box, port: 80 })).endpoint);
	assert.equal((await data("sandbox_pause", { sandbox_id: box })).status, "paused");
	assert.equal((await data("sandbox_resume", { sandbox_id: box })).info.status.state, "Running");
});

await step("commands", async () => {
	const ran = await data("command_run", { sandbox_id: box, command: "echo out; echo err >&2; exit 2" });
	assert.equal(ran.exit_code, 2);
	assert.deepEqual(ran.logs.stdout.map((m) => m.text), ["out"]);
	const later = await data("command_run", { sandbox_id: box, command: "echo b; sleep 100", background: true });
	assert.equal((await data("command_status", { sandbox_id: box, execution_id: later.id })).running, true);
	while ((await data("command_logs", { sandbox_id: box, execution_id: later.id })).content !== "b\n") await sleep(20);
	assert.equal((await data("command_interrupt", { sandbox_id: box, execution_id: later.id })).status, "interrupted");
	const { session_id } = await data("session_create", { sandbox_id: box });
	await data("session_run", { sandbox_id: box, session_id, command: "X=7" });
	assert.equal((await data("session_run", { sandbox_id: box, session_id, command: "echo $X" })).logs.stdout[0].text, "7");
	await data("session_delete", { sandbox_id: box, session_id });
});

await step("files", async () => {
	await data("file_create_directories", { sandbox_id: box, entries: [{ path: "/tmp/d" }] });
	await data("file_write", { sandbox_id: box, path: "/tmp/d/a", content: "tåg" });
	assert.equal((await data("file_read", { sandbox_id: box, path: "/tmp/d/a" })).content, "tåg");
	const replaced = await data("file_replace_contents", { sandbox_id: box, entries: [{ path: "/tmp/d/a", old_content: "t", new_content: "T" }] });
	assert.equal(replaced.result[0].replaced_count, 1);
	await data("file_move", { sandbox_id: box, entries: [{ source: "/tmp/d/a", destination: "/tmp/d/b" }] });
	assert.equal((await data("file_search", { sandbox_id: box, path: "/tmp/d", pattern: "*" })).result[0].path, "/tmp/d/b");
	assert.equal((await data("file_info", { sandbox_id: box, paths: ["/tmp/d/b"] })).result[0].size, 4);
	assert.equal((await data("file_list", { sandbox_id: box, path: "/tmp/d" })).result.length, 1);
	await data("file_chmod", { sandbox_id: box, entries: [{ path: "/tmp/d/b", mode: 600 }] });
	await data("file_delete", { sandbox_id: box, paths: ["/tmp/d/b"] });
	await data("file_delete_directories", { sandbox_id: box, paths: ["/tmp/d"] });
});

await step("code", async () => {
	assert.equal((await data("code_run", { sandbox_id: box, code: "6 * 7" })).result[0].text, "42");
	const context = await data("code_context_create", { sandbox_id: box, language: "python" });
	assert.ok((await data("code_context_list", { sandbox_id: box })).result.some((c) => c.id === context.id));
	await data("code_context_delete", { sandbox_id: box, context_id: context.id });
});

await step("snapshots, copies, diagnostics", async () => {
	const snapshot = await data("snapshot_create", { sandbox_id: box });
	const forks = await data("sandbox_fork", { sandbox_id: box });
	await data("sandbox_kill", { sandbox_id: forks.sandbox_infos[0].id });
	const made = await data("sandbox_create_from_snapshot", { snapshot_id: snapshot.id });
	await data("sandbox_kill", { sandbox_id: made.sandbox_id });
	assert.ok((await data("snapshot_list", { sandbox_id: box })).snapshots.length > 0);
	await data("sandbox_rollback", { sandbox_id: box, snapshot_id: snapshot.id });
	await data("egress_get", { sandbox_id: box });
	assert.ok((await data("sandbox_diagnostics", { sandbox_id: box })).content.length > 0);
});

await step("errors", async () => {
	assert.equal(await error("nope"), "Unknown tool: nope");
	assert.match(await error("command_run", { sandbox_id: "x", command: "y" }), /Sandbox not found in local registry\./);
	assert.match(await error("sandbox_get_info"), /sandbox_id: Field required/);
	await assert.rejects(client.request({ method: "no/such" }, LoggingMessageNotificationSchema), /-32601/);
});

await step("progress of output", async () => {
	const seen = [];
	await data("command_run", { sandbox_id: box, command: "for i in 1 2 3 4 5; do echo n$i; sleep 0.5; done" }, { onprogress: (p) => seen.push(p.message) });
	assert.ok(seen.length >= 2 && seen.length <= 5 && seen[0].includes("n1"), JSON.stringify(seen));
});

await step("cancelling", async () => {
	const abort = new AbortController();
	const long = client.callTool({ name: "command_run", arguments: { sandbox_id: box, command: "exec sleep 2109" } }, undefined, { signal: abort.signal });
	const rejected = assert.rejects(long);
	while ((await count("[s]leep 2109")) === 0) await sleep(20);
	abort.abort("enough");
	await rejected;
	for (let i = 0; i < 200 && (await count("[s]leep 2109")) > 0; i++) await sleep(20);
	assert.equal(await count("[s]leep 2109"), 0);
});

await step("a request that takes too long for its client", async () => {
	await assert.rejects(data("command_run", { sandbox_id: box, command: "exec sleep 2108" }, { timeout: 500 }), /timed out/i);
	for (let i = 0; i < 200 && (await count("[s]leep 2108")) > 0; i++) await sleep(20);
	assert.equal(await count("[s]leep 2108"), 0);
});

await step("many at a time", async () => {
	const all = await Promise.all([...Array(10).keys()].map((i) => data("command_run", { sandbox_id: box, command: `sleep 0.3; echo ${i}` })));
	assert.deepEqual(all.map((r) => r.logs.stdout[0].text), [...Array(10).keys()].map(String));
});

await step("log messages", async () => {
	const seen = [];
	client.setNotificationHandler(LoggingMessageNotificationSchema, (n) => void seen.push(n.params.data.tool));
	await client.setLoggingLevel("debug");
	await data("sandbox_list");
	await client.ping();
	assert.deepEqual(seen, ["sandbox_list"]);
});

await step("the end", async () => {
	await data("sandbox_kill", { sandbox_id: box });
	await client.transport.terminateSession?.();
	await client.close();
});
