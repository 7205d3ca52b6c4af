// SPDX-License-Identifier: Apache-2.0
// Runs JavaScript and TypeScript for execd, which sends this to a node that it has started with the language as its argument, by the
// socket that is descriptor 8 there.
//
// Messages are those of python.py. V8's own mode for consoles evaluates: names may be declared again and await is allowed. What it
// evaluates cannot import, so import expressions and statements become calls of ours. A promise that the last expression gives is waited for.
(() => {
	'use strict';
	const fs = require('fs');
	const inspector = require('inspector');
	const net = require('net');
	const { Writable } = require('stream');
	const util = require('util');
	const vm = require('vm');

	const CONTROL = 8;
	const RESULT_MAX = 5 * 512 * 1024 - 4096;
	const DRIVER = Symbol.for('code.driver');
	const DISPLAY = Symbol.for('Jupyter.display');
	const language = process.argv[1];
	const nap = new Int32Array(new SharedArrayBuffer(4));
	const holder = { value: undefined };
	const session = new inspector.Session();
	let received = Buffer.alloc(0);
	let count = 0;
	let current = 0; // the run that has not ended; 0: there is none

	// ---- what we say ----

	function frame(kind, payload) {
		const body = Buffer.from(payload || '');
		let data = Buffer.concat([Buffer.from(`${kind}${body.length}\n`), body]);
		while (data.length > 0) {
			try {
				data = data.subarray(fs.writeSync(CONTROL, data));
			} catch (error) {
				if (error.code !== 'EAGAIN')
					process.exit(1);
				Atomics.wait(nap, 0, 0, 1); // whoever reads us is slow: so are we
			}
		}
	}

	function items(pairs) {
		return Buffer.concat(pairs.flatMap(([name, text]) => {
			const value = Buffer.from(String(text));
			return [Buffer.from(`${name} ${value.length}\n`), value];
		}));
	}

	function stream(kind, fd) {
		const out = new Writable({
			decodeStrings: true,
			write(chunk, encoding, done) {
				for (let at = 0; at < chunk.length; at += 32768)
					frame(kind, chunk.subarray(at, at + 32768));
				done();
			},
		});
		out.fd = fd;
		out._isStdio = true;
		out.destroy = () => out;
		return out;
	}

	function bundleOf(value) {
		let found = {};
		try {
			if (value !== null && typeof value === 'object' && typeof value[DISPLAY] === 'function')
				found = { ...value[DISPLAY]() };
		} catch {
			found = {};
		}
		if (!('text/plain' in found))
			found['text/plain'] = util.inspect(value);
		return Object.entries(found).map(([mime, v]) => [mime.replace(/\s/g, '').slice(0, 200), typeof v === 'string' ? v : JSON.stringify(v)]);
	}

	function send(kind, value, number) {
		let pairs = bundleOf(value).slice(0, 32);
		for (const [mime, text] of pairs)
			if (Buffer.byteLength(text) > RESULT_MAX / pairs.length)
				process.stderr.write(`[a result of type '${mime}' with ${text.length} bytes was left out: it is too large]\n`);
		pairs = pairs.filter(([, text]) => Buffer.byteLength(text) <= RESULT_MAX / pairs.length);
		if (pairs.length > 0)
			frame(kind, items([['count', number], ...pairs]));
	}

	// ---- how a run ends ----

	function finish(run, tell) {
		if (run !== current)
			return; // it was interrupted
		current = 0;
		tell();
		session.post('Runtime.releaseObjectGroup', { objectGroup: 'run' });
		holder.value = undefined;
		frame('Z');
	}

	function tellError(error) {
		const isError = util.types.isNativeError(error) || error instanceof Error;
		const name = isError ? String(error.name || error.constructor.name) : 'Uncaught';
		const value = isError ? String(error.message) : util.inspect(error);
		const stack = isError && typeof error.stack === 'string' ? error.stack.split('\n') : [`Uncaught ${value}`];
		const ours = stack.findIndex((line) => /^\s+at .*(node:inspector|\[eval\])/.test(line));
		const lines = (ours < 0 ? stack : stack.slice(0, ours)).slice(0, 200);
		frame('X', items([['name', name], ['value', value.slice(0, 60000)], ...lines.map((line) => ['trace', line.slice(0, 4000)])]));
	}

	function tellInterrupt() {
		frame('X', items([['name', 'KeyboardInterrupt'], ['value', 'the run was interrupted'], ['trace', 'KeyboardInterrupt']]));
	}

	// The value that V8 has under a name of its own.
	function valueOf(remote) {
		if (remote.objectId === undefined) {
			if (remote.unserializableValue !== undefined)
				return remote.type === 'bigint' ? BigInt(remote.unserializableValue.slice(0, -1)) : Number(remote.unserializableValue);
			return remote.value;
		}
		session.post('Runtime.callFunctionOn', {
			objectId: holder.id,
			functionDeclaration: 'function (v) { this.value = v }',
			arguments: [{ objectId: remote.objectId }],
			objectGroup: 'run',
		});
		return holder.value;
	}

	function showLast(run, value) {
		finish(run, () => {
			if (value === undefined)
				return;
			try {
				send('R', value, run);
			} catch (error) {
				tellError(error);
			}
		});
	}

	function onEvaluated(run, error, answer) {
		if (error) // newer nodes tell an interrupt here first, and then where it began
			return finish(run, /execution was terminated/i.test(error.message) ? tellInterrupt : () => tellError(new Error(error.message)));
		if (answer.exceptionDetails) {
			const thrown = answer.exceptionDetails.exception;
			return finish(run, () => tellError(thrown ? valueOf(thrown) : new Error(answer.exceptionDetails.text)));
		}
		const value = valueOf(answer.result);
		if (util.types.isPromise(value))
			return value.then((v) => showLast(run, v), (e) => finish(run, () => tellError(e)));
		return showLast(run, value);
	}

	// ---- imports ----

	// Where CODE has neither strings nor comments, as pairs of offsets. A regular expression with a quote in it ends the search.
	function plainParts(code) {
		const parts = [];
		const other = /\/\/[^\n]*|\/\*[^]*?\*\/|'(?:\\[^]|[^'\\\n])*'|"(?:\\[^]|[^"\\\n])*"|`(?:\\[^]|[^`\\])*`/g;
		let at = 0;
		for (const match of code.matchAll(other)) {
			parts.push([at, match.index]);
			at = match.index + match[0].length;
		}
		parts.push([at, code.length]);
		return parts;
	}

	function withImports(code) {
		if (!code.includes('import'))
			return code;
		let out = '';
		let at = 0;
		for (const [from, to] of plainParts(code)) {
			out += code.slice(at, from) + code.slice(from, to).replace(/(^|[^.\w$])import(?=\s*\()/g, `$1globalThis[Symbol.for("code.driver")].load`);
			at = to;
		}
		return out.replace(/(?<=^|;)[ \t]*import\s+([^'"();]*?)\s*from\s*(['"])([^'"\n]+)\2[ \t]*;?/gm, (whole, names, quote, module) => statement(names, module))
			.replace(/(?<=^|;)[ \t]*import\s*(['"])([^'"\n]+)\1[ \t]*;?/gm, (whole, quote, module) => `await ${call(module)};`);
	}

	function call(module) {
		return `globalThis[Symbol.for("code.driver")].load(${JSON.stringify(module)})`;
	}

	// `a, { b as c }` and `* as d`, of MODULE.
	function statement(names, module) {
		const [, first, rest] = names.match(/^\s*([\w$]+)?\s*,?\s*([^]*)$/);
		const all = rest.match(/^\*\s*as\s+([\w$]+)/);
		const parts = first ? [`default: ${first}`] : [];
		if (all)
			return `const ${all[1]} = await ${call(module)};${first ? ` const ${first} = ${all[1]}.default;` : ''}`;
		for (const part of rest.replace(/[{}]/g, '').split(',').map((p) => p.trim()).filter(Boolean))
			parts.push(part.replace(/\s+as\s+/, ': '));
		return `const { ${parts.join(', ')} } = await ${call(module)};`;
	}

	function withoutTypes(code) {
		const { stripTypeScriptTypes } = require('module');
		const { emitWarning } = process;
		process.emitWarning = () => {};
		try {
			return stripTypeScriptTypes(code, { mode: 'transform' });
		} finally {
			process.emitWarning = emitWarning;
		}
	}

	// ---- runs ----

	function evaluate() {
		const run = current;
		session.post('Runtime.evaluate', { expression: holder.code, replMode: true, objectGroup: 'run', userGesture: false },
			(error, answer) => onEvaluated(run, error, answer));
	}

	function start(code) {
		current = ++count;
		const run = current;
		try {
			frame('B');
			holder.code = withImports(language === 'typescript' ? withoutTypes(code) : code);
			vm.runInThisContext('globalThis[Symbol.for("code.driver")].evaluate()', { breakOnSigint: true });
		} catch (error) {
			finish(run, error.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED' ? tellInterrupt : () => tellError(error));
		}
	}

	function onData(piece) {
		received = Buffer.concat([received, piece]);
		for (;;) {
			const end = received.indexOf(10);
			const size = end < 0 ? 0 : Number(received.subarray(1, end));
			if (end < 0 || received.length < end + 1 + size)
				return;
			const code = received.subarray(end + 1, end + 1 + size).toString();
			received = received.subarray(end + 1 + size);
			start(code);
		}
	}

	function complain(error) {
		process.stderr.write(`Uncaught ${util.inspect(error)}\n`);
	}

	if (language === 'typescript' && typeof require('module').stripTypeScriptTypes !== 'function') {
		frame('N', `this node (${process.version}) cannot run TypeScript: 22.13 or newer can`);
		process.exit(1);
	}
	Object.defineProperty(process, 'stdout', { value: stream('O', 1), configurable: true, enumerable: true });
	Object.defineProperty(process, 'stderr', { value: stream('E', 2), configurable: true, enumerable: true });
	// Modules are named from where the code runs: there is no file that it would be in.
	const base = require('url').pathToFileURL(`${process.cwd()}/code`);
	const isPath = (name) => /^(\.{0,2}\/|file:)/.test(name);
	const load = (name) => {
		const text = String(name);
		if (isPath(text))
			return import(new URL(text, base).href);
		try {
			const found = require.resolve(text);
			return import(found.startsWith('/') ? require('url').pathToFileURL(found).href : found);
		} catch {
			return import(text);
		}
	};
	Object.defineProperty(globalThis, DRIVER, { value: Object.freeze({ evaluate, load, holder }), enumerable: false });
	globalThis.display = (...values) => values.forEach((value) => send('D', value, 0));
	process.argv.length = 1;
	process.on('SIGINT', () => current && finish(current, tellInterrupt));
	process.on('uncaughtException', complain);
	process.on('unhandledRejection', complain);
	session.connect();
	session.post('Runtime.evaluate', { expression: 'globalThis[Symbol.for("code.driver")].holder' }, (error, answer) => {
		holder.id = answer.result.objectId;
	});
	const socket = new net.Socket({ fd: CONTROL, readable: true, writable: false });
	socket.on('data', onData);
	socket.on('end', () => process.exit(0));
	socket.on('error', () => process.exit(0));
	frame('H');
})();
