package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestMain plays other programs: a server, one that ends at once, and one that starts a server as this program does.
func TestMain(m *testing.M) {
	if len(os.Args) < 3 {
		os.Exit(m.Run())
	}
	switch os.Args[1] {
	case "play-server":
		serve(os.Args[2])
	case "play-broken":
		fmt.Println("cannot do that")
		os.Exit(3)
	case "play-program":
		runtime.LockOSThread()
		port, _ := strconv.Atoi(os.Args[2])
		p, err := launch(context.Background(), played("play-server", port), port)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(p.temp)
		select {}
	default:
		os.Exit(m.Run())
	}
}

func serve(port string) {
	fmt.Println("serving")
	err := http.ListenAndServe("127.0.0.1:"+port, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/env" {
			io.WriteString(w, strings.Join(os.Environ(), "\n"))
			return
		}
		w.WriteHeader(http.StatusForbidden)
	}))
	fmt.Println(err)
	os.Exit(1)
}

func played(role string, port int) func(string) []string {
	return func(string) []string { return []string{os.Args[0], role, fmt.Sprint(port)} }
}

func port(t *testing.T) int {
	t.Helper()
	p, err := freePort("")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// hold returns a connection that ends when the server does.
func hold(t *testing.T, port int) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address(port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// onMainThread keeps the thread that starts processes, which they die with, for the test.
func onMainThread(t *testing.T) {
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
}

func TestLaunch(t *testing.T) {
	onMainThread(t)
	t.Setenv("AWS_PROFILE", "production")
	t.Setenv("INDEXD_BUCKET", "s3://production")
	at := port(t)
	p, err := launch(t.Context(), played("play-server", at), at)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get(p.url + "/env")
	if err != nil {
		t.Fatal(err)
	}
	env, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || strings.Contains(string(env), "production") || !strings.Contains(string(env), "PATH=") {
		t.Errorf("%v, the server's environment:\n%s", err, env)
	}
	if log := p.log(); log != "serving" || p.ended() {
		t.Errorf("log %q, ended %v", log, p.ended())
	}
	c := hold(t, at)
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the server goes on")
	}
	if _, err := os.Stat(p.temp); !os.IsNotExist(err) {
		t.Errorf("its data is left: %v", err)
	}
	if err := p.stop(); err != nil { // it has ended, which is no reason to signal anybody
		t.Error(err)
	}
}

// A server that does not start is told with what it printed, and another one on its port is not taken for it.
func TestLaunch_Fails(t *testing.T) {
	onMainThread(t)
	taken := port(t)
	other, err := launch(t.Context(), played("play-server", taken), taken)
	if err != nil {
		t.Fatal(err)
	}
	defer other.stop()
	for role, want := range map[string]string{"play-broken": "cannot do that", "play-server": "address already in use"} {
		at := taken
		if role == "play-broken" {
			at = port(t)
		}
		p, err := launch(t.Context(), played(role, at), at)
		if err == nil {
			// The other server may have answered before this one has found that it cannot listen.
			<-p.done
			err = fmt.Errorf("%s", p.log())
			if !p.ended() {
				t.Error("it has not ended")
			}
			p.stop()
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", role, err, want)
		}
	}
	if _, err := launch(t.Context(), func(string) []string { return []string{"/no/such/program"} }, port(t)); err == nil {
		t.Error("a program that does not exist was started")
	}
}

// Two processes share their data, and are one server: it has ended when one has, and both are stopped.
func TestJoin(t *testing.T) {
	onMainThread(t)
	first, second := port(t), port(t)
	p, err := launch(t.Context(), played("play-server", first), first)
	if err != nil {
		t.Fatal(err)
	}
	defer p.stop()
	var shared string
	if err := p.join(t.Context(), func(data string) []string {
		shared = data
		return played("play-server", second)(data)
	}, second); err != nil {
		t.Fatal(err)
	}
	if shared != filepath.Join(p.temp, "data") || p.beside.url != "http://"+address(second) || p.log() != "serving\nserving" {
		t.Errorf("data %s, url %s, log %q", shared, p.beside.url, p.log())
	}
	alive, c := p.alive(t.Context()), hold(t, first)
	if alive.Err() != nil || p.ended() {
		t.Error("it has ended")
	}
	end(p.beside.cmd)
	<-alive.Done()
	if fate := p.fate(); fate == nil || !strings.Contains(fate.Error(), "has ended") {
		t.Errorf("fate %v, although one has ended", fate)
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the other one goes on")
	}
}

// A second process that does not start is told with what it printed, and the first one can be stopped.
func TestJoin_Fails(t *testing.T) {
	onMainThread(t)
	at := port(t)
	p, err := launch(t.Context(), played("play-server", at), at)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.join(t.Context(), played("play-broken", 0), port(t)); err == nil || !strings.Contains(err.Error(), "cannot do that") {
		t.Errorf("error %v", err)
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

// When the context ends, waiting ends, and so does the server.
func TestLaunch_Cancelled(t *testing.T) {
	onMainThread(t)
	ctx, cancel := context.WithCancel(t.Context())
	at := port(t)
	p, err := launch(ctx, played("play-server", at), at)
	if err != nil {
		t.Fatal(err)
	}
	alive := p.alive(t.Context())
	cancel()
	<-p.done
	<-alive.Done()
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	if _, err := launch(ctx, played("play-server", at), at); err == nil {
		t.Error("a server was started after the end")
	}
}

// When the program is killed, its servers die with it.
func TestLaunch_ProgramKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells a process that its parent has died")
	}
	at := port(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "play-program", fmt.Sprint(at))
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	temp, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(strings.TrimSpace(temp)) })
	c := hold(t, at)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the server outlives the program")
	}
}

func TestFreePort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().(*net.TCPAddr).Port
	if got, err := freePort(fmt.Sprintf("%d-%d", taken, taken)); err == nil {
		t.Errorf("port %d is taken, got %d", taken, got)
	}
	for _, bad := range []string{"x", "5", "0-5", "9-8"} {
		if got, err := freePort(bad); err == nil {
			t.Errorf("%q: %d", bad, got)
		}
	}
}

func TestClean(t *testing.T) {
	got := clean([]string{"PATH=/bin", "AWS_SECRET_ACCESS_KEY=x", "STORAGE_EMULATOR_HOST=x", "INDEXD_TEST_BUCKET=s3://x", "HOME=/root"})
	if !slices.Equal(got[:2], []string{"PATH=/bin", "HOME=/root"}) || slices.ContainsFunc(got, func(v string) bool { return strings.HasSuffix(v, "x") }) {
		t.Errorf("%q", got)
	}
}
