// SPDX-License-Identifier: Apache-2.0

// scenario direct|by-server - calls everything that the client has, one line of JSON per step. Where the server is, and
// its key, the client takes from its own variables in the environment.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"time"

	opensandbox "github.com/alibaba/OpenSandbox/sdks/sandbox/go"
)

const (
	noID = "00000000-0000-4000-8000-000000000000"
	wait = 20 * time.Second
)

var (
	ctx      = context.Background()
	byServer = len(os.Args) > 1 && os.Args[1] == "by-server"
	run      = fmt.Sprintf("r%d", time.Now().UnixNano())
	sb       *opensandbox.Sandbox     // the sandbox of most steps
	execd    *opensandbox.ExecdClient // its daemon, for what the sandbox itself does not offer
)

// ---- telling ----

// A failed check ends its step, not the scenario.
type failure string

func step(name string, body func()) {
	entry := struct {
		Name   string `json:"name"`
		OK     bool   `json:"ok"`
		Detail string `json:"detail"`
	}{name, true, ""}

	func() {
		defer func() {
			if r := recover(); r != nil {
				entry.OK, entry.Detail = false, fmt.Sprint(r)
			}
		}()
		body()
	}()
	line, _ := json.Marshal(entry)
	fmt.Println(string(line))
}

func check(fact bool, format string, args ...any) {
	if !fact {
		panic(failure(fmt.Sprintf(format, args...)))
	}
}

func must(err error) {
	check(err == nil, "%v", err)
}

func got[T any](value T, err error) T {
	must(err)
	return value
}

func same(have, want any) {
	check(reflect.DeepEqual(have, want), "have %v, want %v", have, want)
}

func near(at, want time.Time) {
	check(at.Sub(want).Abs() < time.Minute, "%v is not about %v", at, want)
}

func refused(err error, status int, code string) *opensandbox.APIError {
	var api *opensandbox.APIError

	check(errors.As(err, &api), "not an answer of the server: %v", err)
	same([]any{api.StatusCode, api.Response.Code}, []any{status, code})
	check(api.RequestID != "" && api.Response.Message != "", "no request id, or no message: %v", err)
	return api
}

// ---- the client ----

func config() opensandbox.ConnectionConfig {
	return opensandbox.ConnectionConfig{UseServerProxy: byServer}
}

func create(opts opensandbox.SandboxCreateOptions) *opensandbox.Sandbox {
	opts.Image = "host"
	return got(opensandbox.CreateSandbox(ctx, config(), opts))
}

func command(text string) *opensandbox.Execution {
	return got(sb.RunCommand(ctx, text, nil))
}

func out(text string) string {
	return command(text).Text()
}

func upload(path, text string, mode int, owner, group string) opensandbox.UploadFileEntry {
	meta := opensandbox.FileMetadata{Path: path, Mode: mode, Owner: owner, Group: group}

	return opensandbox.UploadFileEntry{File: strings.NewReader(text), Options: opensandbox.UploadFileOptions{Metadata: meta}}
}

func read(path, byteRange string) string {
	body := got(sb.DownloadFile(ctx, path, byteRange))

	defer body.Close()
	return string(got(io.ReadAll(body)))
}

func ids(page *opensandbox.ListSandboxesResponse) []string {
	found := []string{}

	for _, item := range page.Items {
		found = append(found, item.ID)
	}
	return found
}

func paths(entries []opensandbox.FileInfo) []string {
	found := []string{}

	for _, entry := range entries {
		found = append(found, entry.Path)
	}
	return found
}

// What a client has is by its version: the arguments after the context are given as JSON.
func call(on any, method string, args ...string) (found bool, result any, err error) {
	m := reflect.ValueOf(on).MethodByName(method)

	if !m.IsValid() {
		return false, nil, nil
	}
	values := []reflect.Value{reflect.ValueOf(ctx)}
	for i, text := range args {
		value := reflect.New(m.Type().In(i + 1))
		must(json.Unmarshal([]byte(text), value.Interface()))
		values = append(values, value.Elem())
	}
	results := m.Call(values)
	err, _ = results[len(results)-1].Interface().(error)
	return true, results[0].Interface(), err
}

// ---- steps ----

func lifecycle() {
	step("create with the defaults of the client", func() {
		sb = create(opensandbox.SandboxCreateOptions{
			Metadata: map[string]string{"run": run, "kind": "main"}, Env: map[string]string{"GREETING": "hello"},
		})
		endpoint := got(sb.GetEndpoint(ctx, 44772))
		execd = opensandbox.NewExecdClient("http://"+endpoint.Endpoint, endpoint.Headers["X-EXECD-ACCESS-TOKEN"])
	})
	step("info", func() {
		info := got(sb.GetInfo(ctx))

		same([]any{info.ID, info.Status.State, info.Image.URI}, []any{sb.ID(), opensandbox.StateRunning, "host"})
		same(info.Entrypoint, []string{"tail", "-f", "/dev/null"})
		same(info.Metadata, map[string]string{"run": run, "kind": "main"})
		near(info.CreatedAt, time.Now())
		same(info.ExpiresAt.Sub(info.CreatedAt), 10*time.Minute)
	})
	step("is healthy", func() {
		check(sb.IsHealthy(ctx), "it is not")
		must(sb.Ping(ctx))
	})
	step("endpoints", func() {
		for _, port := range []int{44772, 18080, 8080} {
			endpoint := got(sb.GetEndpoint(ctx, port)).Endpoint
			check(strings.HasSuffix(endpoint, fmt.Sprintf("/sandboxes/%s/proxy/%d", sb.ID(), port)), "%s", endpoint)
		}
	})
	step("list by state and metadata", list)
	step("connect", func() {
		other := got(opensandbox.ConnectSandbox(ctx, config(), sb.ID(), opensandbox.ReadyOptions{}))

		out("echo kept >/tmp/kept")
		same(got(other.RunCommand(ctx, "cat /tmp/kept", nil)).Text(), "kept")
	})
	step("patch metadata", func() {
		if found, _, err := call(sb, "PatchMetadata", `{"kind":null,"extra":"1"}`); found {
			must(err)
			same(got(sb.GetInfo(ctx)).Metadata, map[string]string{"run": run, "extra": "1"})
		}
	})
	step("renew", func() {
		reply := got(sb.Renew(ctx, 30*time.Minute))

		near(reply.ExpiresAt, time.Now().Add(30*time.Minute))
		check(got(sb.GetInfo(ctx)).ExpiresAt.Equal(reply.ExpiresAt), "info has another time")
	})
	step("create without an expiry", func() {
		other := create(opensandbox.SandboxCreateOptions{ManualCleanup: true})

		check(got(other.GetInfo(ctx)).ExpiresAt == nil, "it has one")
		_, err := other.Renew(ctx, time.Minute)
		refused(err, 409, "NATIVE::INVALID_EXPIRATION")
		must(other.Kill(ctx))
	})
}

func list() {
	manager := opensandbox.NewSandboxManager(config())
	other := create(opensandbox.SandboxCreateOptions{Metadata: map[string]string{"run": run, "kind": "other"}})
	found := func(more opensandbox.ListOptions) *opensandbox.ListSandboxesResponse {
		if more.Metadata == nil {
			more.Metadata = map[string]string{"run": run}
		}
		return got(manager.ListSandboxInfos(ctx, more))
	}

	same(ids(found(opensandbox.ListOptions{})), []string{other.ID(), sb.ID()})
	same(ids(found(opensandbox.ListOptions{Metadata: map[string]string{"run": run, "kind": "main"}})), []string{sb.ID()})
	must(manager.PauseSandbox(ctx, other.ID()))
	same(ids(found(opensandbox.ListOptions{States: []opensandbox.SandboxState{opensandbox.StatePaused}})), []string{other.ID()})
	both := []opensandbox.SandboxState{opensandbox.StatePaused, opensandbox.StateRunning}
	same(len(ids(found(opensandbox.ListOptions{States: both}))), 2)
	page := found(opensandbox.ListOptions{Page: 2, PageSize: 1})
	same(ids(page), []string{sb.ID()})
	want := opensandbox.PaginationInfo{Page: 2, PageSize: 1, TotalItems: 2, TotalPages: 2, HasNextPage: false}
	same(page.Pagination, want)
	must(manager.ResumeSandbox(ctx, other.ID()))
	near(got(manager.RenewSandbox(ctx, other.ID(), 9*time.Minute)).ExpiresAt, time.Now().Add(9*time.Minute))
	same(got(manager.GetSandboxInfo(ctx, other.ID())).Status.State, opensandbox.StateRunning)
	must(manager.KillSandbox(ctx, other.ID()))
	same(ids(found(opensandbox.ListOptions{})), []string{sb.ID()})
}

func commands() {
	step("command streams to callbacks", streamed)
	step("command writes much, and in other scripts", func() {
		same(len(command("seq 1 20000").Stdout), 20000)
		same(out("head -c 262144 /dev/zero | tr '\\0' x"), strings.Repeat("x", 262144))
		same(out("printf 'gr\\303\\274n \\342\\200\\250 \\360\\237\\220\\263'"), "grün \u2028 🐳")
	})
	step("command fails with its exit code", func() {
		done := command("echo before; exit 7")

		same([]any{*done.ExitCode, done.Error.Name, done.Error.Value}, []any{7, "CommandExecError", "7"})
		check(done.Complete == nil && done.Text() == "before", "%v", done)
		same(*command("no-such-program").ExitCode, 127)
	})
	step("command with a folder and an environment", func() {
		rq := opensandbox.RunCommandRequest{Command: "pwd; echo $GREETING", Cwd: "/tmp", Envs: map[string]string{"GREETING": "bye"}}

		same(got(sb.RunCommandWithOpts(ctx, rq, nil)).Text(), "/tmp\nbye")
	})
	step("command as another user", func() {
		uid, gid := int32(1234), int32(2345)
		rq := opensandbox.RunCommandRequest{Command: "id -u; id -g", UID: &uid, GID: &gid}

		same(got(sb.RunCommandWithOpts(ctx, rq, nil)).Text(), "1234\n2345")
	})
	step("command that takes too long", func() {
		done := got(sb.RunCommandWithOpts(ctx, opensandbox.RunCommandRequest{Command: "sleep 100", Timeout: 500}, nil))

		same(*done.ExitCode, 137)
	})
	step("command in the background", background)
	step("command is interrupted", func() {
		var id string
		done := got(sb.RunCommand(ctx, "echo begun; sleep 100", &opensandbox.ExecutionHandlers{
			OnInit:   func(i opensandbox.ExecutionInit) error { id = i.ID; return nil },
			OnStdout: func(opensandbox.OutputMessage) error { return execd.InterruptCommand(ctx, id) },
		}))

		check(done.Error != nil, "it ended well")
		same(got(execd.GetCommandStatus(ctx, id)).Running, false)
		same(out("echo again"), "again")
	})
	step("session", func() {
		session := got(sb.CreateSession(ctx)).ID
		said := func(text string) *opensandbox.Execution {
			return got(sb.RunInSession(ctx, session, opensandbox.RunInSessionRequest{Command: text}, nil))
		}

		said("export A='x y'; cd /usr")
		same(said("echo $A; pwd").Text(), "x y\n/usr")
		same(*said("exit 7").ExitCode, 7)
		same(got(sb.RunInSession(ctx, session, opensandbox.RunInSessionRequest{Command: "pwd", Cwd: "/etc"}, nil)).Text(), "/etc")
		must(sb.DeleteSession(ctx, session))
		refused(sb.DeleteSession(ctx, session), 404, "CONTEXT_NOT_FOUND")
	})
}

func streamed() {
	var seen []string
	var at []time.Time
	handlers := &opensandbox.ExecutionHandlers{
		OnInit: func(opensandbox.ExecutionInit) error { seen = append(seen, "init"); return nil },
		OnStdout: func(m opensandbox.OutputMessage) error {
			seen, at = append(seen, "out "+m.Text), append(at, time.Now())
			return nil
		},
		OnComplete: func(c opensandbox.ExecutionComplete) error {
			seen = append(seen, fmt.Sprint("complete ", c.ExecutionTime >= 900))
			return nil
		},
	}
	done := got(sb.RunCommand(ctx, "echo one; sleep 1; echo; echo $GREETING; echo oops >&2", handlers))

	same(seen, []string{"init", "out one", "out \n", "out hello", "complete true"})
	check(at[2].Sub(at[0]) > 250*time.Millisecond, "the first line came together with the last")
	same([]any{*done.ExitCode, done.Stderr[0].Text}, []any{0, "oops"})
	near(time.UnixMilli(done.Stdout[0].Timestamp), time.Now())
}

func background() {
	rq := opensandbox.RunCommandRequest{Command: "echo one; sleep 1; echo two >&2; exit 3", Background: true}
	id := got(sb.RunCommandWithOpts(ctx, rq, nil)).ID
	text, cursor := "", int64(0)
	more := func() {
		logs := got(execd.GetCommandLogs(ctx, id, &cursor))
		text, cursor = text+logs.Output, logs.Cursor
	}

	same(got(execd.GetCommandStatus(ctx, id)).Running, true)
	for deadline := time.Now().Add(wait); got(execd.GetCommandStatus(ctx, id)).Running; time.Sleep(20 * time.Millisecond) {
		check(time.Now().Before(deadline), "it never ended")
		more()
	}
	more()
	same([]any{text, cursor}, []any{"one\ntwo\n", int64(8)})
	status := got(execd.GetCommandStatus(ctx, id))
	same([]any{status.ID, *status.ExitCode}, []any{id, int32(3)})
	check(status.FinishedAt.After(status.StartedAt), "it ended before it began")
	same(got(execd.GetCommandLogs(ctx, id, nil)).Output, "one\ntwo\n")
	_, err := execd.GetCommandStatus(ctx, "no-such-id")
	check(err != nil, "a status of nothing")
}

func files() {
	step("write and read", func() {
		data := make([]byte, 300000)
		meta := opensandbox.UploadFileOptions{FileName: "bytes", Metadata: opensandbox.FileMetadata{Path: "/tmp/w/bytes"}}

		got(rand.Read(data))
		must(sb.UploadFile(ctx, bytes.NewReader(data), meta))
		check(read("/tmp/w/bytes", "") == string(data), "other bytes came back")
		must(execd.UploadFile(ctx, strings.NewReader("line1\ngrün\n"), upload("/tmp/w/a/grün %41&b=1;#?.txt", "", 0, "", "").Options))
		same(read("/tmp/w/a/grün %41&b=1;#?.txt", ""), "line1\ngrün\n")
	})
	step("write many with mode and owner", func() {
		must(execd.UploadFiles(ctx, []opensandbox.UploadFileEntry{
			upload("/tmp/w/m1", "1", 640, "nobody", "nogroup"), upload("/tmp/w/m2", "22", 755, "", ""),
		}))
		same(out("stat -c '%a %U %G %s' /tmp/w/m1 /tmp/w/m2"), "640 nobody nogroup 1\n755 root root 2")
	})
	step("read a range", func() {
		out("printf 0123456789 >/tmp/w/range")
		same(read("/tmp/w/range", "bytes=0-4"), "01234")
		same(read("/tmp/w/range", "bytes=-3"), "789")
	})
	step("read as a stream", func() {
		out("head -c 5000000 /dev/zero >/tmp/w/big")
		body := got(sb.DownloadFile(ctx, "/tmp/w/big", ""))
		defer body.Close()
		same(got(io.Copy(io.Discard, body)), int64(5000000))
	})
	step("file info", func() {
		info := got(sb.GetFileInfo(ctx, "/tmp/w/m1"))["/tmp/w/m1"]

		same([]any{info.Path, info.Size, info.Mode, info.Owner, info.Group}, []any{"/tmp/w/m1", int64(1), 640, "nobody", "nogroup"})
		near(info.ModifiedAt, time.Now())
		near(info.CreatedAt, time.Now())
	})
	step("search", func() {
		same(paths(got(sb.SearchFiles(ctx, "/tmp/w", "m?"))), []string{"/tmp/w/m1", "/tmp/w/m2"})
		same(len(got(sb.SearchFiles(ctx, "/tmp/w", ""))), 6)
		same(len(got(sb.SearchFiles(ctx, "/tmp/w", "nothing"))), 0)
	})
	step("replace", func() {
		must(sb.ReplaceInFiles(ctx, opensandbox.ReplaceRequest{"/tmp/w/range": {Old: "345", New: "x"}}))
		same(read("/tmp/w/range", ""), "012x6789")
	})
	step("move", func() {
		must(sb.MoveFiles(ctx, opensandbox.MoveRequest{{Src: "/tmp/w/m2", Dest: "/tmp/w/new/place/m2"}}))
		same(read("/tmp/w/new/place/m2", ""), "22")
	})
	step("permissions", func() {
		must(sb.SetPermissions(ctx, opensandbox.PermissionsRequest{"/tmp/w/m1": {Mode: 600, Owner: "root", Group: "root"}}))
		same(out("stat -c '%a %U %G' /tmp/w/m1"), "600 root root")
	})
	step("delete files", func() {
		must(sb.DeleteFiles(ctx, []string{"/tmp/w/bytes", "/tmp/w/never-there"}))
		same(len(got(sb.SearchFiles(ctx, "/tmp/w", "bytes"))), 0)
	})
	step("directories", func() {
		must(sb.CreateDirectory(ctx, "/tmp/d/one/deep", opensandbox.OctalMode(0o750)))
		same(out("stat -c %a /tmp/d/one/deep"), "750")
		if found, result, err := call(sb, "ListDirectory", `"/tmp/d"`); found {
			must(err)
			same(paths(result.([]opensandbox.FileInfo)), []string{"/tmp/d/one"})
		}
		must(sb.DeleteDirectory(ctx, "/tmp/d/one"))
		same(out("ls /tmp/d"), "")
	})
	step("missing file raises", func() {
		_, err := sb.GetFileInfo(ctx, "/tmp/nowhere")
		refused(err, 404, "FILE_NOT_FOUND")
		_, err = sb.DownloadFile(ctx, "/tmp/nowhere", "")
		refused(err, 404, "FILE_NOT_FOUND")
		_, err = sb.SearchFiles(ctx, "/tmp/nowhere", "*")
		refused(err, 404, "FILE_NOT_FOUND")
	})
}

func rest() {
	step("metrics", func() { sane(got(sb.GetMetrics(ctx))) })
	step("metrics as a stream", func() {
		enough, seen := errors.New("enough"), 0
		err := execd.WatchMetrics(ctx, func(event opensandbox.StreamEvent) error {
			var m opensandbox.Metrics

			must(json.Unmarshal([]byte(event.Data), &m))
			sane(&m)
			if seen++; seen == 2 {
				return enough
			}
			return nil
		})

		check(errors.Is(err, enough), "%v", err)
	})
	step("pause and resume", func() {
		must(sb.Pause(ctx))
		same(got(sb.GetInfo(ctx)).Status.State, opensandbox.StatePaused)
		check(!sb.IsHealthy(ctx), "it is healthy")
		sb = got(sb.Resume(ctx, opensandbox.ReadyOptions{}))
		same(got(sb.GetInfo(ctx)).Status.State, opensandbox.StateRunning)
		same(out("cat /tmp/kept"), "kept")
	})
	step("kill", func() {
		must(sb.Kill(ctx))
		check(!sb.IsHealthy(ctx), "it is healthy")
		_, err := sb.GetInfo(ctx)
		refused(err, 404, "NATIVE::SANDBOX_NOT_FOUND")
	})
	step("missing sandbox raises 404 with the request id", func() {
		mine := config()
		mine.Headers = map[string]string{"X-Request-ID": "mine-1"}
		m := opensandbox.NewSandboxManager(mine)
		_, get := m.GetSandboxInfo(ctx, noID)
		_, renew := m.RenewSandbox(ctx, noID, time.Minute)
		_, connect := opensandbox.ConnectSandbox(ctx, mine, noID)

		for _, err := range []error{
			get, renew, connect, m.KillSandbox(ctx, noID), m.PauseSandbox(ctx, noID), m.ResumeSandbox(ctx, noID),
		} {
			same(refused(err, 404, "NATIVE::SANDBOX_NOT_FOUND").RequestID, "mine-1")
		}
	})
	step("wrong key raises 401", func() {
		wrong := config()
		wrong.APIKey = strings.Repeat("0", 32)
		_, err := opensandbox.NewSandboxManager(wrong).GetSandboxInfo(ctx, noID)
		refused(err, 401, "INVALID_API_KEY")
	})
}

func sane(m *opensandbox.Metrics) {
	check(m.CPUCount >= 1 && m.CPUUsedPct >= 0 && m.CPUUsedPct <= 100, "%+v", *m)
	check(m.MemUsedMB >= 0 && m.MemUsedMB <= m.MemTotalMB && m.MemTotalMB == 2048, "%+v", *m)
	near(time.UnixMilli(m.Timestamp), time.Now())
}

func main() {
	lifecycle()
	commands()
	files()
	rest()
}
