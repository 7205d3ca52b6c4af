// SPDX-License-Identifier: Apache-2.0
// policy.mjs direct|by-server - what the client has about network policies, one line of JSON per step.
import assert from "node:assert/strict";

import { ConnectionConfig, Sandbox } from "@alibaba-group/opensandbox";

const config = () => new ConnectionConfig({ useServerProxy: process.argv[2] === "by-server" });
const allow = (target) => ({ action: "allow", target });
const deny = (target) => ({ action: "deny", target });
let sb;

async function step(name, body) {
	let entry = { name, ok: true, detail: "" };

	try {
		await body();
	} catch (e) {
		entry = { name, ok: false, detail: `${e.stack}` };
	}
	console.log(JSON.stringify(entry));
}

await step("create with a policy", async () => {
	sb = await Sandbox.create({ connectionConfig: config(), image: "host", networkPolicy: { egress: [allow("good.test")] } });
});
await step("get", async () => {
	assert.deepEqual(await sb.getEgressPolicy(), { defaultAction: "deny", egress: [allow("good.test")] });
});
await step("patch", async () => {
	await sb.patchEgressRules([deny("bad.test"), allow("other.test")]);
	assert.deepEqual((await sb.getEgressPolicy()).egress, [deny("bad.test"), allow("other.test"), allow("good.test")]);
});
await step("delete", async () => {
	await sb.deleteEgressRules(["GOOD.test", "other.test"]);
	assert.deepEqual((await sb.getEgressPolicy()).egress, [deny("bad.test")]);
});
await step("none left", async () => {
	await sb.deleteEgressRules(["bad.test"]);
	assert.deepEqual((await sb.getEgressPolicy()).egress, []);
});
await step("a rule that is none", async () => {
	await assert.rejects(sb.patchEgressRules([allow("https://good.test/")]));
});
await step("kill", async () => {
	await sb.kill();
	await sb.close();
});
