package nginx

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/web/auth"
)

// deployed is the name under which deploy/nginx.conf serves.
const deployed = "indexd.example.org"

// A program is indexd as a child on a directory of its own, reached by its public name through a proxy.
type program struct {
	addr   string
	bucket string // the directory
	token  string // of who may do everything
	pid    int
}

// config is what deploy/nginx.conf says that indexd wants to be told.
const config = `
public_url: https://%s
auth:
  tokens:
    - name: test
      sha256: "%s"
      grants: [{role: admin, index: "*", namespace: "*"}]
  rate: {per_second: 10000}
`

var served = regexp.MustCompile(`http://(127\.0\.0\.1:\d+)`)

// serve starts indexd, which ends with the test.
func serve(t *testing.T) *program {
	t.Helper()
	dir := t.TempDir()
	p := &program{bucket: filepath.Join(dir, "bucket"), token: auth.Mint()}
	file := filepath.Join(dir, "indexd.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, config, deployed, auth.HashOf(p.token)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(indexd, "serve", "--config", file, "--bucket", p.bucket, "--listen", "127.0.0.1:0")
	c := start(t, cmd, filepath.Join(dir, "log"), true)
	lines := bufio.NewScanner(c.out)
	for p.addr == "" && lines.Scan() {
		if m := served.FindStringSubmatch(lines.Text()); m != nil {
			p.addr = m[1]
		}
	}
	if p.addr == "" {
		t.Fatal("indexd told no address")
	}
	p.pid = cmd.Process.Pid
	return p
}

// A child is a process that ends with the test.
type child struct {
	cmd  *exec.Cmd
	out  *os.File      // its standard output, if that was wanted
	done chan struct{} // closed when it has ended
	err  error         // how it ended; to be read after done
}

// start runs a child with what it says in a file, which is shown if the test failed.
func start(t *testing.T, cmd *exec.Cmd, logFile string, piped bool) *child {
	t.Helper()
	log, err := os.Create(logFile)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close() // the child has it
	cmd.Stdout, cmd.Stderr = log, log
	c := &child{cmd: cmd, done: make(chan struct{})}
	if piped {
		in, told, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer told.Close()
		t.Cleanup(func() { in.Close() })
		c.out, cmd.Stdout = in, told
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		c.err = cmd.Wait()
		close(c.done)
	}()
	t.Cleanup(func() {
		c.stop(t)
		if t.Failed() {
			said, _ := os.ReadFile(logFile)
			t.Logf("%s said:\n%s", cmd.Path, said)
		}
	})
	return c
}

func (c *child) stop(t *testing.T) {
	t.Helper()
	_ = c.cmd.Process.Signal(os.Interrupt) // an error is that it has ended, which is told below
	overdue := time.AfterFunc(20*time.Second, func() {
		t.Errorf("%s does not stop", c.cmd.Path)
		_ = c.cmd.Process.Kill()
	})
	defer overdue.Stop()
	<-c.done
	if c.err != nil {
		t.Errorf("%s ended with %v", c.cmd.Path, c.err)
	}
}

// bare is all that somebody writes who knows nothing of indexd.
func bare(addr, upstream string) string {
	return fmt.Sprintf("server {\n\tlisten %s;\n\tlocation / {\n\t\tproxy_pass http://%s;\n\t}\n}\n", addr, upstream)
}

// withPath is bare with a path in proxy_pass, as many guides have it.
func withPath(addr, upstream string) string {
	return strings.Replace(bare(addr, upstream), "http://"+upstream, "http://"+upstream+"/", 1)
}

// deploy is deploy/nginx.conf with other addresses and another certificate.
func deploy(t *testing.T, addr, upstream string, cert certificate) string {
	t.Helper()
	b, err := os.ReadFile("../../deploy/nginx.conf")
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for old, now := range map[string]string{
		"listen 443 ":                           "listen " + addr + " ",
		"http://127.0.0.1:8080;":                "http://" + upstream + ";",
		"/etc/ssl/certs/" + deployed + ".pem":   cert.certFile,
		"/etc/ssl/private/" + deployed + ".key": cert.keyFile,
	} {
		if strings.Count(text, old) != 1 {
			t.Fatalf("deploy/nginx.conf has %q %d times", old, strings.Count(text, old))
		}
		text = strings.Replace(text, old, now, 1)
	}
	return text
}

// A certificate is one for the name in deploy/nginx.conf, signed by itself.
type certificate struct {
	certFile, keyFile string
	pool              *x509.CertPool
}

func certify(t *testing.T) certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: deployed}, DNSNames: []string{deployed},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	c := certificate{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), x509.NewCertPool()}
	c.pool.AddCert(parsed)
	for file, block := range map[string]*pem.Block{
		c.certFile: {Type: "CERTIFICATE", Bytes: der}, c.keyFile: {Type: "PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// proxy starts nginx with the configuration of its package, to which only the server is added that block returns for an
// address. It ends with the test.
func proxy(t *testing.T, block func(addr string) string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr = l.Addr().String()
	l.Close()
	// Not t.TempDir, into which the workers, who are somebody else where the tests are run by root, could not look.
	dir, err := os.MkdirTemp("", "indexd-nginx-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(conf, []byte(packaged(t, dir, block(addr))), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(nginxPath, "-p", dir, "-e", filepath.Join(dir, "error.log"), "-c", conf, "-g", "daemon off;")
	c := start(t, cmd, filepath.Join(dir, "log"), false)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	eventually(ctx, t, "nginx listens", func() bool {
		select {
		case <-c.done:
			t.Fatalf("nginx ended: %v", c.err)
		default:
		}
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return false
		}
		conn.Close()
		return true
	})
	return addr
}

// packaged is the configuration that nginx's package installs, with its files below dir and with block as the only site.
func packaged(t *testing.T, dir, block string) string {
	t.Helper()
	b, err := os.ReadFile("/etc/nginx/nginx.conf")
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, change := range []struct{ from, to string }{
		{`pid /run/nginx\.pid;`, "pid " + dir + "/pid;"},
		{`error_log /var/log/nginx/error\.log;`, "error_log stderr;"},
		{`access_log /var/log/nginx/access\.log;`, "access_log off;\n" + paths(dir)},
		{`include /etc/nginx/conf\.d/\*\.conf;`, ""},
		{`include /etc/nginx/sites-enabled/\*;`, strings.ReplaceAll(block, "$", "$$")},
	} {
		re := regexp.MustCompile(`(?m)^\s*` + change.from)
		if n := len(re.FindAllString(text, -1)); n != 1 {
			t.Fatalf("the packaged nginx.conf matches %s %d times", change.from, n)
		}
		text = re.ReplaceAllString(text, change.to)
	}
	if !strings.Contains(text, "gzip on;") {
		t.Fatal("the packaged nginx.conf does not compress: nothing would be tested")
	}
	return text
}

// paths moves what nginx would write below /var/lib, where only root may.
func paths(dir string) string {
	var b strings.Builder
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&b, "\t%s_temp_path %s/%s;\n", kind, dir, kind)
	}
	return b.String()
}

// eventually waits until ok.
func eventually(ctx context.Context, t *testing.T, what string, ok func() bool) {
	t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for !ok() {
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("it does not come to this: %s", what)
		}
	}
}
