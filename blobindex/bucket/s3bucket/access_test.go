package s3bucket_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/smithy-go/logging"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/s3bucket"
	"github.com/blobindex/indexd/fakes/s3d"
)

// TestAccess_WrongSecret is denied, whatever is asked, and with the right one every request is signed as the store wants it.
func TestAccess_WrongSecret(t *testing.T) {
	for _, secret := range []string{"the-secret", "another"} {
		s := s3d.New(t, &s3d.Options{Secret: secret, AccessKey: "AK"})
		o := options(s)
		o.Prefix = "a+b/c d"
		for call, err := range everyCall(t.Context(), open(t, o), "m/a b%2B&?=é") {
			if secret != "the-secret" {
				wantErr(t, call, err, bucket.ErrDenied)
			} else if err != nil && !errors.Is(err, bucket.ErrNotExist) {
				t.Errorf("%s with the right secret: %v", call, err)
			}
		}
		if n := s.Counts(); secret != "the-secret" && n[s3d.PutObject] != 1 {
			t.Errorf("requests: %v, want none repeated", n)
		}
	}
}

// TestAccess_ReadOnly: who may only read lists, opens and heads, and every key of a delete is denied, in batches or one by
// one, whether the store refuses the request or each key; nothing is tried twice.
func TestAccess_ReadOnly(t *testing.T) {
	for _, perKey := range []bool{false, true} {
		s, b := start(t, &s3d.Options{Refuse: func(op s3d.Op, key string) string {
			write := op == s3d.PutObject || op == s3d.DeleteObject || op == s3d.DeleteObjects && perKey == (key != "")
			return map[bool]string{true: "AccessDenied"}[write]
		}})
		keys := filled(s, 1200)
		if got, err := list(t, b, "m/"); err != nil || len(got) != 1200 {
			t.Errorf("List: %d keys, %v", len(got), err)
		}
		if _, err := b.Head(t.Context(), keys[0]); err != nil {
			t.Errorf("Head: %v", err)
		}
		r, err := b.Open(t.Context(), keys[0])
		if err != nil {
			t.Fatalf("Open: %v", err)
		}
		r.Close()
		s.Reset()
		_, err = b.Put(t.Context(), "m/new", nil)
		wantErr(t, "Put", err, bucket.ErrDenied)
		for _, some := range [][]bucket.Key{keys, keys[:1]} {
			errs := b.Delete(t.Context(), some)
			if len(errs) != len(some) {
				t.Fatalf("Delete of %d: %d errors", len(some), len(errs))
			}
			for i, err := range errs {
				wantErr(t, string(some[i]), err, bucket.ErrDenied)
				if !strings.Contains(err.Error(), string(some[i])) {
					t.Errorf("%v does not name %q", err, some[i])
				}
			}
		}
		wantCounts(t, "writes", s, map[s3d.Op]int{s3d.PutObject: 1, s3d.DeleteObjects: 2, s3d.DeleteObject: 1})
		if n := len(s.Keys("bucket")); n != 1200 {
			t.Errorf("%d keys left", n)
		}
	}
}

// TestAccess_ExpireInTheMiddle of a listing, of a batch delete, of many single ones and of a HEAD: new credentials are
// asked for once, and only if they are refused, too, the caller is denied.
func TestAccess_ExpireInTheMiddle(t *testing.T) {
	for _, helps := range []bool{true, false} {
		for name, call := range map[string]func(b *s3bucket.Bucket, keys []bucket.Key) error{
			"List":   func(b *s3bucket.Bucket, _ []bucket.Key) error { _, err := list(t, b, ""); return err },
			"Delete": func(b *s3bucket.Bucket, keys []bucket.Key) error { return errors.Join(b.Delete(t.Context(), keys)...) },
			"Delete one by one": func(b *s3bucket.Bucket, keys []bucket.Key) error {
				odd := make([]bucket.Key, 40)
				for i := range odd {
					odd[i] = bucket.Key(fmt.Sprintf("odd\n%d", i))
				}
				return errors.Join(b.Delete(t.Context(), odd)...)
			},
			"Head": func(b *s3bucket.Bucket, keys []bucket.Key) error { _, err := b.Head(t.Context(), keys[0]); return err },
		} {
			// The first token is good for one request, and what comes after it only if it helps.
			var asked, served atomic.Int32
			var token atomic.Value
			s := s3d.New(t, nil)
			keys := filled(s, 2500)
			o := options(s)
			o.HTTPClient = tokens{http.DefaultClient, func(r *http.Request) { token.Store(r.Header.Get("X-Amz-Security-Token")) }}
			o.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
				return aws.Credentials{AccessKeyID: "AK", SecretAccessKey: "s", SessionToken: fmt.Sprint("t", asked.Add(1))}, nil
			})
			first := int32(1)
			if name == "Head" || name == "Delete one by one" {
				first = 0
			}
			s.Plan(s3d.Fault{Every: true, Kind: s3d.Judge(func(r *http.Request) (int, string) {
				if served.Add(1) <= first || helps && r.Header.Get("X-Amz-Security-Token") != "t1" {
					return 0, ""
				}
				return 400, map[bool]string{false: "ExpiredToken"}[r.Method == http.MethodHead]
			})})
			err := call(open(t, o), keys)
			switch {
			case helps && err != nil:
				t.Errorf("%s with credentials that were renewed: %v", name, err)
			case !helps && name == "Head":
				if err == nil || !strings.Contains(err.Error(), "expired") {
					t.Errorf("%s with credentials that stay expired: %v, want a hint", name, err)
				}
			case !helps:
				wantErr(t, name, err, bucket.ErrDenied)
				if !strings.Contains(err.Error(), "expired") {
					t.Errorf("%s: %v, want it said that they have expired", name, err)
				}
			}
			if n := asked.Load(); helps && n != 2 {
				t.Errorf("%s: credentials were asked for %d times, want 2", name, n)
			}
		}
	}
}

// tokens looks at each request.
type tokens struct {
	*http.Client
	look func(*http.Request)
}

func (c tokens) Do(r *http.Request) (*http.Response, error) {
	c.look(r)
	return c.Client.Do(r)
}

// TestAccess_Unavailable: credentials that cannot be had are no answer of the store; nothing is sent.
func TestAccess_Unavailable(t *testing.T) {
	s := s3d.New(t, nil)
	o := options(s)
	o.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{}, errors.New("nobody gives any out")
	})
	for call, err := range everyCall(t.Context(), open(t, o), "m/a") {
		if err == nil || !strings.Contains(err.Error(), "nobody gives any out") || errors.Is(err, bucket.ErrUnknown) || errors.Is(err, bucket.ErrNotExist) {
			t.Errorf("%s: %v", call, err)
		}
	}
	if n := s.Counts(); len(n) != 0 {
		t.Errorf("requests: %v", n)
	}
}

// TestErrors_NothingSecretAnywhere: neither errors nor what the SDK, net/http and we may log hold a secret, a session token
// or a signature, not even where the store repeats what it was sent.
func TestErrors_NothingSecretAnywhere(t *testing.T) {
	var out logged
	log.SetOutput(&out)
	defer log.SetOutput(io.Discard)
	old := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	defer slog.SetDefault(old)
	const secret, token = "the-secret-of-the-caller", "a-session-token-that-nobody-needs-to-see"
	for _, kind := range []s3d.Kind{
		s3d.Repeat(403, "SignatureDoesNotMatch"), s3d.Repeat(400, "ExpiredToken"), s3d.Repeat(500, "InternalError"),
		s3d.Repeat(503, ""), s3d.ResetBefore(), s3d.DropAfter(), s3d.HalfBody(), s3d.HalfRequest(),
	} {
		for _, secure := range []bool{false, true} {
			s := s3d.New(t, &s3d.Options{TLS: secure})
			s.Plan(s3d.Fault{Every: true, Kind: kind})
			o := options(s)
			o.HTTPClient = s.Client
			o.Config.Logger = logging.NewStandardLogger(&out)
			o.Credentials = credentials.NewStaticCredentialsProvider("AKIAEXAMPLE", secret, token)
			for call, err := range everyCall(t.Context(), open(t, o), "m/a") {
				out.WriteString(fmt.Sprintf("%s: %v %+v %#v\n", call, err, err, err))
			}
		}
	}
	for _, word := range []string{secret, token, "Signature=", "AWS4-HMAC", "Authorization", "X-Amz-Security-Token"} {
		if text := out.String(); strings.Contains(text, word) {
			i := strings.Index(text, word)
			t.Errorf("%q is told: …%s…", word, text[max(0, i-200):min(len(text), i+100)])
		}
	}
	if out.String() == "" {
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

// dials counts connections.
func dials(n *atomic.Int32) *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		n.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	return &http.Client{Transport: t}
}

// TestAccess_NoStorm: an authority that nobody knows is asked once for each call, and 40 keys are not 40 times five.
func TestAccess_NoStorm(t *testing.T) {
	s := s3d.New(t, &s3d.Options{TLS: true})
	var n atomic.Int32
	o := options(s)
	o.HTTPClient = dials(&n)
	b := open(t, o)
	for call, most := range map[string]int32{"List": 1, "Put": 1, "Delete": 1} {
		n.Store(0)
		var err error
		switch call {
		case "List":
			_, err = list(t, b, "")
		case "Put":
			_, err = b.Put(t.Context(), "a", nil)
		case "Delete":
			err = errors.Join(b.Delete(t.Context(), make40())...)
		}
		if err == nil || n.Load() > most {
			t.Errorf("%s: %v after %d connections, want at most %d", call, err, n.Load(), most)
		}
	}
}

func make40() []bucket.Key {
	keys := make([]bucket.Key, 40)
	for i := range keys {
		keys[i] = bucket.Key(fmt.Sprintf("k%02d", i))
	}
	return keys
}

// TestAccess_ClockSkew: a store whose clock is an hour off refuses a signature of this host's time; the next attempt is
// made at the store's time.
func TestAccess_ClockSkew(t *testing.T) {
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		s := s3d.New(t, &s3d.Options{Secret: "the-secret", Now: func() time.Time { return time.Now().Add(off) }})
		b := open(t, options(s))
		for call, err := range everyCall(t.Context(), b, "m/a") {
			if err != nil && !errors.Is(err, bucket.ErrNotExist) {
				t.Errorf("%s, with the store's clock off by %v: %v", call, off, err)
			}
		}
		if n := s.Counts(); n[s3d.PutObject] > 2 || n[s3d.ListObjectsV2] > 2 {
			t.Errorf("requests: %v, want one repeated", n)
		}
	}
}

// TestVirtualHost puts the bucket into the host's name, and signs that.
func TestVirtualHost(t *testing.T) {
	s := s3d.New(t, &s3d.Options{Secret: "the-secret", Domain: "s3.test"})
	o := options(s)
	o.Endpoint, o.VirtualHost = "http://s3.test", true
	var hosts sync.Map
	o.HTTPClient = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		hosts.Store(address, true)
		return (&net.Dialer{}).DialContext(ctx, network, strings.TrimPrefix(s.URL, "http://"))
	}}}
	for call, err := range everyCall(t.Context(), open(t, o), "m/a") {
		if err != nil && !errors.Is(err, bucket.ErrNotExist) {
			t.Errorf("%s: %v", call, err)
		}
	}
	if _, ok := hosts.Load("bucket.s3.test:80"); !ok {
		t.Error("the bucket was not in the host's name")
	}
}
