// SPDX-License-Identifier: Apache-2.0
// Scenario direct - calls everything that the client has, one line of JSON per step. Where the server is, and its key,
// the client takes from its own variables in the environment.
//
// This version of the client knows neither the headers of endpoints nor the way through the server: the token of a
// sandbox's daemon is asked for by hand and given to the client as a header of its user.

import com.alibaba.opensandbox.sandbox.Sandbox;
import com.alibaba.opensandbox.sandbox.SandboxManager;
import com.alibaba.opensandbox.sandbox.config.ConnectionConfig;
import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxApiException;
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.Execution;
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.ExecutionHandlers;
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.OutputMessage;
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.RunCommandRequest;
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.ContentReplaceEntry;
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.EntryInfo;
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.MoveEntry;
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.SearchEntry;
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.SetPermissionEntry;
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.WriteEntry;
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.PagedSandboxInfos;
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxFilter;
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxInfo;
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxMetrics;
import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.UUID;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

public final class Scenario {
	private static final String DOMAIN = System.getenv("OPEN_SANDBOX_DOMAIN");
	private static final UUID NO_ID = UUID.fromString("00000000-0000-4000-8000-000000000000");
	private static final String RUN = UUID.randomUUID().toString();
	private static final long WAIT_MS = 20000;
	private static final String TOKEN = "X-EXECD-ACCESS-TOKEN";

	private interface Body {
		void run() throws Exception;
	}

	private Sandbox sb; // the sandbox of most steps

	// ---- telling ----

	private static String quoted(String text) {
		StringBuilder b = new StringBuilder("\"");

		for (char c : text.toCharArray())
			b.append(c >= 0x20 && c < 0x7f && c != '"' && c != '\\' ? String.valueOf(c) : String.format("\\u%04x", (int) c));
		return b.append('"').toString();
	}

	private static void step(String name, Body body) {
		String detail = "";

		try {
			body.run();
		} catch (Throwable t) { // an AssertionError too
			StringWriter trace = new StringWriter();
			t.printStackTrace(new PrintWriter(trace, true));
			detail = trace.toString();
		}
		System.out.println("{\"name\":" + quoted(name) + ",\"ok\":" + detail.isEmpty() + ",\"detail\":" + quoted(detail) + "}");
	}

	private static void check(boolean fact, Object what) {
		if (!fact)
			throw new AssertionError(String.valueOf(what));
	}

	private static void same(Object have, Object want) {
		check(Objects.equals(have, want), "have " + have + ", want " + want);
	}

	private static void near(Instant at, Instant want) {
		check(Duration.between(at, want).abs().toSeconds() < 60, at + " is not about " + want);
	}

	private static void raised(Body body, int status, String code) throws Exception {
		try {
			body.run();
		} catch (SandboxApiException e) {
			same(e.getStatusCode(), status);
			same(e.getError().getCode(), code);
			return;
		}
		throw new AssertionError("nothing was raised, not " + status + " " + code);
	}

	// ---- the client ----

	private static ConnectionConfig.Builder config() {
		return ConnectionConfig.builder();
	}

	/** A sandbox whose daemon is not asked whether it is ready: that takes the token. */
	private static Sandbox.Builder builder() {
		return Sandbox.builder().connectionConfig(config().build()).image("host").healthCheck(s -> true);
	}

	private static String token(UUID id) throws Exception {
		URI uri = URI.create("http://" + DOMAIN + "/v1/sandboxes/" + id + "/endpoints/44772");
		HttpRequest rq = HttpRequest.newBuilder(uri).header("OPEN-SANDBOX-API-KEY", System.getenv("OPEN_SANDBOX_API_KEY")).build();
		String body = HttpClient.newHttpClient().send(rq, HttpResponse.BodyHandlers.ofString()).body();
		Matcher m = Pattern.compile("\"" + TOKEN + "\":\"([^\"]+)\"").matcher(body);

		check(m.find(), body);
		return m.group(1);
	}

	private static Sandbox connect(UUID id) throws Exception {
		ConnectionConfig config = config().addHeader(TOKEN, token(id)).build();

		return Sandbox.connector().connectionConfig(config).sandboxId(id).connect();
	}

	private static List<String> texts(List<OutputMessage> messages) {
		return messages.stream().map(OutputMessage::getText).collect(Collectors.toList());
	}

	private String out(String command) {
		return String.join("\n", texts(sb.commands().run(command).getLogs().getStdout()));
	}

	private static List<UUID> ids(PagedSandboxInfos page) {
		return page.getSandboxInfos().stream().map(SandboxInfo::getId).collect(Collectors.toList());
	}

	private List<String> found(String path, String pattern) {
		List<EntryInfo> entries = sb.files().search(SearchEntry.builder().path(path).pattern(pattern).build());

		return entries.stream().map(EntryInfo::getPath).collect(Collectors.toList());
	}

	private static WriteEntry entry(String path, Object data, int mode, String owner, String group) {
		WriteEntry.Builder b = WriteEntry.builder().path(path).mode(mode);

		if (data != null)
			b.data(data);
		return (owner == null ? b : b.owner(owner).group(group)).build();
	}

	private static ContentReplaceEntry replacement(String path, String from, String to) {
		return ContentReplaceEntry.builder().path(path).oldContent(from).newContent(to).build();
	}

	// ---- steps ----

	private void lifecycle() {
		step("create with the defaults of the client", () -> {
			UUID id = builder().metadata(Map.of("run", RUN, "kind", "main")).env("GREETING", "hello").build().getId();

			sb = connect(id);
			same(sb.getId(), id);
		});
		step("info", () -> {
			SandboxInfo info = sb.getInfo();

			same(info.getId(), sb.getId());
			same(info.getStatus().getState(), "Running");
			same(info.getEntrypoint(), List.of("tail", "-f", "/dev/null"));
			same(info.getMetadata(), Map.of("run", RUN, "kind", "main"));
			same(info.getImage().getImage(), "host");
			near(info.getCreatedAt().toInstant(), Instant.now());
			same(Duration.between(info.getCreatedAt(), info.getExpiresAt()), Duration.ofMinutes(10));
		});
		step("is healthy", () -> check(sb.isHealthy(), "it is not"));
		step("endpoints", () -> {
			for (int port : new int[] { 44772, 18080, 8080 })
				check(sb.getEndpoint(port).getEndpoint().endsWith("/sandboxes/" + sb.getId() + "/proxy/" + port), port);
		});
		step("list by state and metadata", this::list);
		step("connect", () -> {
			Sandbox other = connect(sb.getId());

			out("echo kept >/tmp/kept");
			same(texts(other.commands().run("cat /tmp/kept").getLogs().getStdout()), List.of("kept"));
			other.close();
		});
		step("renew", () -> {
			sb.renew(Duration.ofMinutes(30));
			near(sb.getInfo().getExpiresAt().toInstant(), Instant.now().plus(Duration.ofMinutes(30)));
		});
	}

	private void list() throws Exception {
		SandboxManager manager = SandboxManager.builder().connectionConfig(config().build()).build();
		UUID other = builder().metadata("run", RUN).metadata("kind", "other").build().getId();
		Map<String, String> run = Map.of("run", RUN);

		same(ids(manager.listSandboxInfos(SandboxFilter.builder().metadata(run).build())), List.of(other, sb.getId()));
		same(ids(manager.listSandboxInfos(SandboxFilter.builder().metadata(Map.of("run", RUN, "kind", "main")).build())),
				List.of(sb.getId()));
		manager.pauseSandbox(other);
		same(ids(manager.listSandboxInfos(SandboxFilter.builder().metadata(run).states("Paused").build())), List.of(other));
		same(ids(manager.listSandboxInfos(SandboxFilter.builder().metadata(run).states("Paused", "Running").build())).size(), 2);
		PagedSandboxInfos page = manager.listSandboxInfos(SandboxFilter.builder().metadata(run).page(2).pageSize(1).build());
		same(ids(page), List.of(sb.getId()));
		same(page.getPagination().getTotalItems(), 2);
		same(page.getPagination().getHasNextPage(), false);
		manager.resumeSandbox(other);
		same(manager.getSandboxInfo(other).getStatus().getState(), "Running");
		manager.renewSandbox(other, Duration.ofMinutes(20));
		manager.killSandbox(other);
		same(ids(manager.listSandboxInfos(SandboxFilter.builder().metadata(run).build())), List.of(sb.getId()));
		manager.close();
	}

	private void commands() {
		step("command streams to callbacks", this::streamed);
		step("command writes much, and in other scripts", () -> {
			String numbers = IntStream.rangeClosed(1, 20000).mapToObj(String::valueOf).collect(Collectors.joining("\n"));

			same(out("seq 1 20000"), numbers);
			same(out("printf 'gr\\303\\274n \\342\\200\\250 \\360\\237\\220\\263'"), "gr\u00fcn \u2028 \ud83d\udc33");
		});
		step("command fails with its exit code", () -> {
			Execution done = sb.commands().run("echo before; exit 7");

			same(done.getError().getName() + done.getError().getValue(), "CommandExecError7");
			same(texts(done.getLogs().getStdout()), List.of("before"));
			same(sb.commands().run("no-such-program").getError().getValue(), "127");
		});
		step("command with a folder", () -> {
			RunCommandRequest rq = RunCommandRequest.builder().command("pwd").workingDirectory("/tmp").build();

			same(texts(sb.commands().run(rq).getLogs().getStdout()), List.of("/tmp"));
		});
		step("command in the background", () -> {
			String command = "sleep 2; echo done >/tmp/background";
			RunCommandRequest rq = RunCommandRequest.builder().command(command).background(true).build();
			Execution done = sb.commands().run(rq);

			check(done.getId() != null && done.getError() == null, done);
			check(!out("cat /tmp/background 2>&1").equals("done"), "it was not in the background");
			for (long end = System.currentTimeMillis() + WAIT_MS; !out("cat /tmp/background 2>&1").equals("done");)
				check(System.currentTimeMillis() < end, "it never ended");
		});
		step("command is interrupted", () -> {
			String[] id = new String[1];
			ExecutionHandlers handlers = ExecutionHandlers.builder().onInit(i -> id[0] = i.getId())
					.onStdout(m -> sb.commands().interrupt(id[0])).build();
			RunCommandRequest rq = RunCommandRequest.builder().command("echo begun; sleep 100").handlers(handlers).build();
			Execution done = sb.commands().run(rq);

			check(done.getError() != null, "it ended well");
			same(out("echo again"), "again");
		});
	}

	private void streamed() {
		List<String> seen = new ArrayList<>();
		List<Long> at = new ArrayList<>();
		ExecutionHandlers handlers = ExecutionHandlers.builder()
				.onInit(i -> seen.add("init"))
				.onStdout(m -> {
					seen.add("out " + m.getText());
					at.add(System.currentTimeMillis());
				})
				.onStderr(m -> check(m.getText().equals("oops") && m.isError(), m))
				.onExecutionComplete(c -> seen.add("complete " + (c.getExecutionTimeInMillis() >= 900)))
				.onError(e -> seen.add("error"))
				.build();
		String command = "echo one; sleep 1; echo; echo $GREETING; echo oops >&2";
		Execution done = sb.commands().run(RunCommandRequest.builder().command(command).handlers(handlers).build());

		same(seen, List.of("init", "out one", "out \n", "out hello", "complete true"));
		check(at.get(2) - at.get(0) > 250, "the first line came together with the last");
		same(texts(done.getLogs().getStderr()), List.of("oops"));
		near(Instant.ofEpochMilli(done.getLogs().getStdout().get(0).getTimestamp()), Instant.now());
	}

	private void files() {
		step("write text and read it", () -> {
			sb.files().writeFile("/tmp/w/a/text.txt", "line1\nline2\nline3\ngr\u00fcn\n");
			same(sb.files().readFile("/tmp/w/a/text.txt"), "line1\nline2\nline3\ngr\u00fcn\n");
			sb.files().writeFile("/tmp/w/a/gr\u00fcn %41&b=1;#?.txt", "odd");
			same(sb.files().readFile("/tmp/w/a/gr\u00fcn %41&b=1;#?.txt"), "odd");
		});
		step("write bytes of every kind and read them", () -> {
			byte[] data = new byte[300000];

			new Random(1).nextBytes(data);
			sb.files().writeFile("/tmp/w/array", data);
			sb.files().writeFile("/tmp/w/stream", new ByteArrayInputStream(data));
			check(Arrays.equals(sb.files().readByteArray("/tmp/w/array"), data), "array");
			check(Arrays.equals(sb.files().readByteArray("/tmp/w/stream"), data), "stream");
		});
		step("write many with mode and owner", () -> {
			sb.files().write(List.of(entry("/tmp/w/m1", "1", 640, "nobody", "nogroup"), entry("/tmp/w/m2", "22", 755, null, null)));
			same(out("stat -c '%a %U %G %s' /tmp/w/m1 /tmp/w/m2"), "640 nobody nogroup 1\n755 root root 2");
		});
		step("read a range", () -> {
			same(sb.files().readFile("/tmp/w/a/text.txt", "UTF-8", "bytes=0-4"), "line1");
			same(new String(sb.files().readByteArray("/tmp/w/a/text.txt", "bytes=6-10"), StandardCharsets.UTF_8), "line2");
		});
		step("read as a stream", () -> {
			out("head -c 5000000 /dev/zero >/tmp/w/big");
			try (InputStream in = sb.files().readStream("/tmp/w/big")) {
				same(in.readAllBytes().length, 5000000);
			}
		});
		step("file info", () -> {
			EntryInfo info = sb.files().readFileInfo(List.of("/tmp/w/m1", "/tmp/w")).get("/tmp/w/m1");

			same(info.getPath() + info.getSize() + info.getMode() + info.getOwner() + info.getGroup(), "/tmp/w/m11640nobodynogroup");
			near(info.getModifiedAt().toInstant(), Instant.now());
			near(info.getCreatedAt().toInstant(), Instant.now());
		});
		step("search", () -> {
			same(found("/tmp/w", "m?"), List.of("/tmp/w/m1", "/tmp/w/m2"));
			same(found("/tmp/w", "**/*.t[x]t").size(), 2);
			same(found("/tmp/w", "nothing"), List.of());
		});
		step("replace", () -> {
			sb.files().replaceContents(List.of(replacement("/tmp/w/a/text.txt", "line", "row ")));
			same(sb.files().readFile("/tmp/w/a/text.txt"), "row 1\nrow 2\nrow 3\ngr\u00fcn\n");
		});
		step("move", () -> {
			sb.files().moveFiles(List.of(MoveEntry.builder().src("/tmp/w/m2").dest("/tmp/w/new/place/m2").build()));
			same(sb.files().readFile("/tmp/w/new/place/m2"), "22");
		});
		step("permissions", () -> {
			SetPermissionEntry.Builder b = SetPermissionEntry.builder().path("/tmp/w/m1").mode(600);

			sb.files().setPermissions(List.of(b.owner("root").group("root").build()));
			same(out("stat -c '%a %U %G' /tmp/w/m1"), "600 root root");
		});
		step("delete files", () -> {
			sb.files().deleteFiles(List.of("/tmp/w/array", "/tmp/w/never-there"));
			same(found("/tmp/w", "array"), List.of());
		});
		step("directories", () -> {
			sb.files().createDirectories(List.of(entry("/tmp/d/one/deep", null, 750, null, null),
					entry("/tmp/d/two", null, 755, "nobody", "nogroup")));
			same(out("stat -c '%a %U' /tmp/d/one/deep /tmp/d/two"), "750 root\n755 nobody");
			sb.files().deleteDirectories(List.of("/tmp/d/one"));
			same(out("ls /tmp/d"), "two");
		});
		step("missing file raises", () -> {
			raised(() -> sb.files().readFile("/tmp/nowhere"), 404, "FILE_NOT_FOUND");
			raised(() -> sb.files().readFileInfo(List.of("/tmp/nowhere")), 404, "FILE_NOT_FOUND");
			raised(() -> found("/tmp/nowhere", "*"), 404, "FILE_NOT_FOUND");
		});
	}

	private void rest() {
		step("metrics", () -> {
			SandboxMetrics m = sb.getMetrics();

			check(m.getCpuCount() >= 1 && m.getCpuUsedPercentage() >= 0 && m.getCpuUsedPercentage() <= 100, m.getCpuUsedPercentage());
			check(m.getMemoryUsedInMiB() >= 0 && m.getMemoryUsedInMiB() <= m.getMemoryTotalInMiB(), m.getMemoryUsedInMiB());
			same(m.getMemoryTotalInMiB(), 2048f); // the client asked for 2Gi
			near(Instant.ofEpochMilli(m.getTimestamp()), Instant.now());
		});
		step("pause and resume", () -> {
			sb.pause();
			same(sb.getInfo().getStatus().getState(), "Paused");
			check(!sb.isHealthy(), "it is healthy");
			sb.resume();
			same(sb.getInfo().getStatus().getState(), "Running");
			sb.checkReady(Duration.ofSeconds(20), Duration.ofMillis(50));
			same(out("cat /tmp/kept"), "kept");
		});
		step("kill", () -> {
			sb.kill();
			check(!sb.isHealthy(), "it is healthy");
			raised(() -> sb.getInfo(), 404, "NATIVE::SANDBOX_NOT_FOUND");
			sb.close();
		});
		step("missing sandbox raises 404", () -> {
			SandboxManager m = SandboxManager.builder().connectionConfig(config().build()).build();

			for (Body call : List.<Body>of(() -> m.getSandboxInfo(NO_ID), () -> m.killSandbox(NO_ID), () -> m.pauseSandbox(NO_ID),
					() -> m.resumeSandbox(NO_ID), () -> m.renewSandbox(NO_ID, Duration.ofMinutes(1))))
				raised(call, 404, "NATIVE::SANDBOX_NOT_FOUND");
			m.close();
		});
		step("wrong key raises 401", () -> {
			ConnectionConfig wrong = config().apiKey("0".repeat(32)).build();

			raised(() -> SandboxManager.builder().connectionConfig(wrong).build().getSandboxInfo(NO_ID), 401, "INVALID_API_KEY");
		});
	}

	public static void main(String[] args) {
		Scenario s = new Scenario();

		s.lifecycle();
		s.commands();
		s.files();
		s.rest();
		System.exit(0); // without waiting for the client's idle connections
	}
}
