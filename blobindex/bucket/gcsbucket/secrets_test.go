package gcsbucket_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/oauth2"
	"google.golang.org/api/option"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/gcsbucket"
	"github.com/blobindex/indexd/fakes/gcsd"
)

// An issuer gives out the access tokens t1, t2 and so on, each good for an hour by its own account, or refuses to.
type issuer struct {
	given   atomic.Int32
	refuses atomic.Bool
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	n := i.given.Add(1)
	if i.refuses.Load() {
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, `{"error":"invalid_grant","refresh_token":"hush-hush"}`)
		return
	}
	fmt.Fprintf(w, `{"access_token":"t%d","token_type":"Bearer","expires_in":3600}`, n)
}

// withADC opens a bucket with Application Default Credentials, a service account's, for which the issuer gives out tokens.
// The server wants t1.
func withADC(t *testing.T, i *issuer) (*gcsbucket.Bucket, *gcsd.Server) {
	t.Helper()
	at := httptest.NewServer(i)
	t.Cleanup(at.Close)
	key, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	account, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "indexd@example.com", "private_key_id": "1", "token_uri": at.URL,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})),
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "account.json")
	if err := os.WriteFile(file, account, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	t.Setenv("STORAGE_EMULATOR_HOST", "")
	s := gcsd.New(unhurried(&gcsd.Options{Token: "t1", Lies: gcsd.Lies{PageCap: 10}}))
	t.Cleanup(s.Close)
	return connect(t, gcsbucket.Options{Bucket: "bucket", FirstPause: time.Microsecond,
		ClientOptions: []option.ClientOption{option.WithEndpoint(s.URL() + "/storage/v1/")}}), s
}

// TestCredentials_Renewed: a token that is no longer accepted, whatever its own account, is replaced once for all the
// requests that find that out at the same time.
func TestCredentials_Renewed(t *testing.T) {
	source := &issuer{}
	b, s := withADC(t, source)
	keys := numbered(t, b, 35)
	s.Plan(t, gcsd.Fault{Op: gcsd.List, Nth: 2, Kind: gcsd.Before("t1 expires", func() { s.SetToken("t2") })})
	s.Reset()
	if got, _, err := list(t.Context(), b, bucket.ListRequest{}); err != nil || len(got) != 35 {
		t.Errorf("List: %d keys, %v", len(got), err)
	}
	if n := s.Reset()[gcsd.List]; n != 5 || source.given.Load() != 2 {
		t.Errorf("%d requests with %d tokens, want 4 pages, one of them twice, and 2", n, source.given.Load())
	}
	s.SetToken("t3")
	if errs := b.Delete(t.Context(), keys); errs != nil {
		t.Error(errors.Join(errs...))
	}
	if n := s.Reset()[gcsd.Delete]; n > 35+32 || source.given.Load() != 3 {
		t.Errorf("%d requests with %d tokens, want at most 32 repeated, and 3", n, source.given.Load())
	}
}

// TestCredentials_StayExpired: the new token is refused as well, and that is told; nothing goes round and round.
func TestCredentials_StayExpired(t *testing.T) {
	source := &issuer{}
	b, s := withADC(t, source)
	put(t, b, "a")
	s.SetToken("none of ours")
	for call, err := range calls(t.Context(), b, "a") {
		if !errors.Is(err, bucket.ErrDenied) || errors.Is(err, bucket.ErrUnknown) || !strings.Contains(err.Error(), "expired") {
			t.Errorf("%s: error %v, want ErrDenied that says so", call, err)
		}
	}
	for op, n := range s.Reset() {
		if op != gcsd.Insert && n != 2 || n > 3 {
			t.Errorf("%d requests %s, want 2", n, op)
		}
	}
}

// TestCredentials_NoToken: who gives tokens out refuses this caller one.
func TestCredentials_NoToken(t *testing.T) {
	source := &issuer{}
	source.refuses.Store(true)
	b, s := withADC(t, source)
	for call, err := range calls(t.Context(), b, "a") {
		if !errors.Is(err, bucket.ErrDenied) || errors.Is(err, bucket.ErrUnknown) || strings.Contains(err.Error(), "hush-hush") {
			t.Errorf("%s: error %v, want ErrDenied, without what was answered", call, err)
		}
	}
	if n := s.Reset(); len(n) != 0 {
		t.Errorf("requests %v", n)
	}
}

// TestNothingSecretAnywhere: neither errors nor logs hold a token, not even where the server repeats what it was sent.
func TestNothingSecretAnywhere(t *testing.T) {
	var out logged
	log.SetOutput(&out)
	defer log.SetOutput(io.Discard)
	old := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	defer slog.SetDefault(old)
	t.Setenv("STORAGE_EMULATOR_HOST", "")
	const token = "ya29.hush"
	for _, kind := range []gcsd.Kind{
		gcsd.Repeat(401, "authError"), gcsd.Repeat(403, "forbidden"), gcsd.Repeat(500, "backendError"), gcsd.Repeat(404, "notFound"),
		gcsd.Repeat(429, "rateLimitExceeded"), gcsd.Repeat(412, "conditionNotMet"), gcsd.Repeat(418, "teapot"),
		gcsd.Reset(), gcsd.AppliedThenDrop(), gcsd.Half(), gcsd.HalfRequest(),
	} {
		s := gcsd.New(unhurried(&gcsd.Options{Token: token}))
		t.Cleanup(s.Close)
		b := connect(t, gcsbucket.Options{Bucket: "bucket", FirstPause: time.Microsecond, ClientOptions: []option.ClientOption{
			option.WithEndpoint(s.URL() + "/storage/v1/"),
			option.WithTokenSource(oauth2.StaticTokenSource(&oauth2.Token{AccessToken: token})),
		}})
		s.Plan(t, gcsd.Fault{Every: true, Kind: kind})
		for call, err := range calls(t.Context(), b, "a") {
			out.WriteString(fmt.Sprintf("%s: %v %+v %#v\n", call, err, err, err))
		}
	}
	text := out.String()
	for _, word := range []string{token, "Bearer", "Authorization"} {
		if i := strings.Index(text, word); i >= 0 {
			t.Errorf("%q is told: …%s…", word, text[max(0, i-200):min(len(text), i+100)])
		}
	}
	if text == "" {
		t.Error("nothing was said at all")
	}
}

type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer // under mu
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) WriteString(s string) { l.Write([]byte(s)) }

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// TestReadOnly: who may only read lists, opens and heads; a put and each key of a delete are denied, and tried once.
func TestReadOnly(t *testing.T) {
	b, s := serve(t, &gcsd.Options{Deny: func(r gcsd.Request) bool { return r.Op == gcsd.Insert || r.Op == gcsd.Delete }}, nil)
	var keys []bucket.Key
	for i := range 100 {
		keys = append(keys, bucket.Key(fmt.Sprint("a", i)))
		s.Store("bucket", string(keys[i]), "body")
	}
	for call, err := range calls(t.Context(), b, keys[0]) {
		if write := call == "Put" || call == "Delete"; errors.Is(err, bucket.ErrDenied) != write || err == nil == write {
			t.Errorf("%s: %v", call, err)
		}
	}
	s.Reset()
	errs := b.Delete(t.Context(), keys)
	if len(errs) != len(keys) {
		t.Fatalf("Delete: %d errors", len(errs))
	}
	for i, err := range errs {
		if !errors.Is(err, bucket.ErrDenied) || errors.Is(err, bucket.ErrUnknown) || !strings.Contains(err.Error(), string(keys[i])) {
			t.Errorf("Delete of %q: %v, want ErrDenied and the key", keys[i], err)
		}
	}
	if n := s.Reset()[gcsd.Delete]; n != len(keys) {
		t.Errorf("%d requests, want %d", n, len(keys))
	}
}

// TestNoStorm: an authority that nobody knows is asked once for each call.
func TestNoStorm(t *testing.T) {
	s := gcsd.NewTLS(nil)
	t.Cleanup(s.Close)
	var n atomic.Int32
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		n.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	b := connect(t, gcsbucket.Options{Bucket: "bucket", Endpoint: s.URL(), HTTPClient: &http.Client{Transport: transport},
		FirstPause: time.Microsecond})
	for call, err := range calls(t.Context(), b, "a") {
		if err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("%s: %v, want the certificate named", call, err)
		}
	}
	if n.Load() > 5 {
		t.Errorf("%d connections for 5 calls", n.Load())
	}
}
