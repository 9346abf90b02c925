package gcsd_test

import (
	"crypto/rand"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"cloud.google.com/go/storage"
	"github.com/google/go-cmp/cmp"

	"github.com/blobindex/indexd/fakes/gcsd"
	"github.com/blobindex/indexd/fakes/realservers"
)

// documented is what Google documents of each step of behaviour.
var documented = map[string]string{
	"create-only, absent":       "ok",
	"create-only, there":        "412",
	"create-only, 32 at once":   "1 won",
	"save, right generation":    "ok",
	"save, stale generation":    "412",
	"save, generation, absent":  "412",
	"save, metageneration":      "412",
	"read, stale generation":    "412",
	"read, not this generation": "304",
	"delete, stale generation":  "412",
	"still there":               "ok",
	"delete, right generation":  "ok",
	"delete, absent":            "404",
	"read, absent":              "404",
	"generations grow":          "ok",
	"resumable upload":          "ok",
	"list, offsets":             "b c",
	"list, page of two":         "2 of 4",
	"absent bucket":             "404",
}

// lies make gcsd differ from the documents in the same way as each real server does.
var lies = map[string]gcsd.Lies{
	"": {},
	"fake-gcs-server": {DeleteIgnoresConditions: true, IgnoresMetageneration: true, ReadIgnoresConditions: true,
		NoPageCap: true},
	"gcsemulator": {IgnoresOffsets: true, AutoCreateBucket: true, ReadIgnoresConditions: true},
}

func want(deviates map[string]string) map[string]string {
	w := maps.Clone(documented)
	maps.Copy(w, deviates)
	return w
}

// TestAgreement holds the server, faithful and lying as each real one does, to what these were seen to do.
func TestAgreement(t *testing.T) {
	for name, lies := range lies {
		t.Run(name, func(t *testing.T) {
			server, ok := realservers.Find(name)
			if !ok && name != "" {
				t.Fatalf("nothing is known of server %q", name)
			}
			s, _ := start(t, &gcsd.Options{Lies: lies})
			if diff := cmp.Diff(want(server.Answers()), behaviour(t, client(t, s.URL()), "bucket")); diff != "" {
				t.Errorf("behaviour (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReal asks a real server the same: the environment names it, as for the driver's own test. Where it does not answer as
// documented the case fails here: tools/testreal, which starts servers and runs this, holds the failures to what is listed.
func TestReal(t *testing.T) {
	endpoint := os.Getenv("INDEXD_GCS_ENDPOINT")
	if endpoint == "" {
		t.Skip("INDEXD_GCS_ENDPOINT is not set: make test-real does")
	}
	resp, err := http.Post(endpoint+"/storage/v1/b?project=test", "application/json", strings.NewReader(`{"name":"gcsd-test"}`))
	if err != nil {
		t.Fatalf("the server does not answer: %v", err)
	}
	resp.Body.Close()
	got := behaviour(t, client(t, endpoint), "gcsd-test")
	for _, step := range slices.Sorted(maps.Keys(documented)) {
		t.Run(step, func(t *testing.T) {
			if got[step] != documented[step] {
				t.Errorf("answers %q; documented is %q", got[step], documented[step])
			}
		})
	}
}

// behaviour takes the steps below a prefix of its own.
func behaviour(t *testing.T, c *storage.Client, bucket string) map[string]string {
	t.Helper()
	ctx, b, prefix := t.Context(), c.Bucket(bucket), rand.Text()+"/"
	got := map[string]string{}
	saved := func(o *storage.ObjectHandle) string {
		_, err := save(ctx, o, []byte("body"), 0)
		return code(err)
	}
	o := b.Object(prefix + "doc")
	first, err := save(ctx, o.If(storage.Conditions{DoesNotExist: true}), nil, 0)
	got["create-only, absent"] = code(err)
	got["create-only, there"] = saved(o.If(storage.Conditions{DoesNotExist: true}))
	got["create-only, 32 at once"] = race(saved, b.Object(prefix+"race").If(storage.Conditions{DoesNotExist: true}))
	second, err := save(ctx, o.If(storage.Conditions{GenerationMatch: first}), nil, 0)
	got["save, right generation"] = code(err)
	if got["generations grow"] = "no"; second > first && first > 0 {
		got["generations grow"] = "ok"
	}
	got["save, stale generation"] = saved(o.If(storage.Conditions{GenerationMatch: first}))
	got["save, generation, absent"] = saved(b.Object(prefix + "absent").If(storage.Conditions{GenerationMatch: first}))
	got["save, metageneration"] = saved(o.If(storage.Conditions{MetagenerationMatch: 99}))
	current, err := o.Attrs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_, err = o.If(storage.Conditions{GenerationMatch: first}).Attrs(ctx)
	got["read, stale generation"] = code(err)
	_, err = o.If(storage.Conditions{GenerationNotMatch: current.Generation}).Attrs(ctx)
	got["read, not this generation"] = code(err)
	got["delete, stale generation"] = code(o.If(storage.Conditions{GenerationMatch: first}).Delete(ctx))
	_, err = o.Attrs(ctx)
	got["still there"] = code(err)
	got["delete, right generation"] = code(o.If(storage.Conditions{GenerationMatch: current.Generation}).Delete(ctx))
	got["delete, absent"] = code(o.Delete(ctx))
	_, err = o.Attrs(ctx)
	got["read, absent"] = code(err)
	got["resumable upload"] = resumable(t, b.Object(prefix+"big"))
	got["list, offsets"], got["list, page of two"] = lists(t, b, prefix+"list/")
	_, err = save(ctx, c.Bucket("no-such-bucket-"+strings.ToLower(rand.Text())).Object("a"), nil, 0)
	got["absent bucket"] = code(err)
	return got
}

func race(saved func(*storage.ObjectHandle) string, o *storage.ObjectHandle) string {
	outcomes := make([]string, 32)
	var wg sync.WaitGroup
	for i := range outcomes {
		wg.Go(func() { outcomes[i] = saved(o) })
	}
	wg.Wait()
	slices.Sort(outcomes)
	if slices.Equal(outcomes[:31], slices.Repeat([]string{"412"}, 31)) && outcomes[31] == "ok" {
		return "1 won"
	}
	if outcomes[30] == "ok" && slices.Index(outcomes, "ok") == slices.IndexFunc(outcomes, func(o string) bool { return o != "412" }) {
		return "several won"
	}
	return strings.Join(slices.Compact(outcomes), " ")
}

// resumable takes more than two chunks.
func resumable(t *testing.T, o *storage.ObjectHandle) string {
	t.Helper()
	big := strings.Repeat("0123456789abcdef", 40_000)
	if _, err := save(t.Context(), o, []byte(big), 256<<10); err != nil {
		return code(err)
	}
	if got, err := read(t.Context(), o); err != nil || got != big {
		return "another body"
	}
	return "ok"
}

func lists(t *testing.T, b *storage.BucketHandle, prefix string) (offsets, page string) {
	t.Helper()
	for _, name := range []string{"d", "b", "a", "c"} {
		mustSave(t, b.Object(prefix+name), "")
	}
	var some []string
	for _, name := range names(t, b, &storage.Query{Prefix: prefix, StartOffset: prefix + "b", EndOffset: prefix + "d"}) {
		some = append(some, strings.TrimPrefix(name, prefix))
	}
	it := b.Objects(t.Context(), &storage.Query{Prefix: prefix})
	it.PageInfo().MaxSize = 2
	if _, err := it.Next(); err != nil {
		return strings.Join(some, " "), code(err)
	}
	page = map[int]string{1: "2 of 4", 3: "4 of 4"}[it.PageInfo().Remaining()]
	return strings.Join(some, " "), page
}
