package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/blobindex/indexd/fakes/realservers"
)

// A target is a server that runs, as tests are told of it.
type target struct {
	server
	realservers.Server
	url    string
	beside string        // another URL of the same bucket, by another gateway; empty for none
	root   string        // of the repository
	most   time.Duration // that a soak may go on for; 0: as long as it likes
}

// A suiteTest is where a suite's tests are.
type suiteTest struct{ pkg, run string }

func (t target) test(suite realservers.Suite) suiteTest {
	s3 := t.Protocol == realservers.S3
	switch {
	case suite == realservers.Bucket && s3:
		return suiteTest{"./blobindex/bucket/s3bucket", "^TestReal$"}
	case suite == realservers.Bucket:
		return suiteTest{"./blobindex/bucket/gcsbucket", "^TestReal$"}
	case suite == realservers.Agreement && s3:
		return suiteTest{"./fakes/s3d", "^TestReal$"}
	case suite == realservers.Agreement:
		return suiteTest{"./fakes/gcsd", "^TestReal$"}
	case suite == realservers.CAS:
		return suiteTest{"./blobindex/bucket/openbucket", "^TestReal$"}
	case suite == realservers.Soak:
		return suiteTest{"./cmd/indexd", "^TestSoak$"}
	case suite == realservers.Manifest:
		return suiteTest{"./cmd/indexd", "^TestManifestSoak$"}
	case suite == realservers.Snapshot:
		return suiteTest{"./cmd/indexd", "^TestSnapshotSoak$"}
	}
	return suiteTest{"./blobindex", "^TestReal$"}
}

// env tells the tests of a suite where the server is.
func (t target) env(ctx context.Context, suite realservers.Suite) ([]string, error) {
	if suite == realservers.Bucket || suite == realservers.Agreement {
		return []string{
			"INDEXD_S3_SERVER=" + t.server.name, "INDEXD_S3_ENDPOINT=" + t.url, "INDEXD_S3_KEY=" + t.key + ":" + t.secret,
			"INDEXD_GCS_SERVER=" + t.server.name, "INDEXD_GCS_ENDPOINT=" + t.url,
		}, nil
	}
	name, err := t.newBucket(ctx)
	if err != nil {
		return nil, err
	}
	env := append(t.credentials(), "INDEXD_TEST_BUCKET="+t.bucketURL(name, t.url), "INDEXD_TEST_SERVER="+t.server.name)
	if (suite == realservers.CAS || suite == realservers.Manifest) && t.beside != "" {
		env = append(env, "INDEXD_TEST_BESIDE="+t.bucketURL(name, t.beside))
	}
	if suite == realservers.Soak {
		env = append(env, "INDEXD_SOAK="+t.soakTime(time.Minute))
	}
	if suite == realservers.Snapshot {
		env = append(env, "INDEXD_SNAPSHOT_SOAK="+t.soakTime(time.Minute))
	}
	if suite == realservers.Manifest {
		env = append(env, "INDEXD_MANIFEST_SOAK="+t.soakTime(cmp.Or(t.soak, 30*time.Second)))
	}
	return env, nil
}

// soakTime is how long a soak that wants to go on for d may.
func (t target) soakTime(d time.Duration) string {
	if t.most > 0 {
		d = min(d, t.most)
	}
	return d.String()
}

// credentials are the standard variables that clients of S3 read.
func (t target) credentials() []string {
	return []string{
		"AWS_ACCESS_KEY_ID=" + t.key, "AWS_SECRET_ACCESS_KEY=" + t.secret,
		"AWS_REGION=" + region, "AWS_DEFAULT_REGION=" + region,
	}
}

func (t target) bucketURL(name, endpoint string) string {
	if t.Protocol == realservers.S3 {
		return fmt.Sprintf("s3://%s?endpoint=%s&region=%s", name, endpoint, region)
	}
	return fmt.Sprintf("gs://%s?endpoint=%s", name, endpoint)
}

// run runs the suite's tests, less the cases that end the server or take it too long.
func (t target) run(ctx context.Context, suite realservers.Suite) ([]result, []string, error) {
	test := t.test(suite)
	args := []string{"-run", test.run}
	var skip []string
	for _, d := range append(t.listed(suite, realservers.Ends), t.listed(suite, realservers.NotRun)...) {
		skip = append(skip, testName(d.Case))
	}
	if len(skip) > 0 {
		args = append(args, "-skip", test.run+"/^("+strings.Join(skip, "|")+")$")
	}
	return t.goTest(ctx, suite, append(args, test.pkg)...)
}

// listed are the deviations of the suite that show in that manner.
func (t target) listed(suite realservers.Suite, how realservers.Manner) []realservers.Deviation {
	var all []realservers.Deviation
	for _, d := range t.Deviations {
		if d.Suite == suite && d.How == how {
			all = append(all, d)
		}
	}
	return all
}

// alone is the pattern for one case.
func alone(test suiteTest, d realservers.Deviation) string {
	return test.run + "/^" + testName(d.Case) + "$"
}

// goTest runs go test with the arguments, telling the tests of the suite where the server is.
func (t target) goTest(ctx context.Context, suite realservers.Suite, args ...string) ([]result, []string, error) {
	env, err := t.env(ctx, suite)
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-count=1", "-json", "-timeout=15m"}, args...)...)
	cmd.Dir, cmd.Env = t.root, append(clean(os.Environ()), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	own(cmd)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	results, notes, readErr := readEvents(stdout)
	waitErr := cmd.Wait()
	if ctx.Err() != nil {
		return results, notes, context.Cause(ctx)
	}
	if readErr != nil {
		return results, notes, fmt.Errorf("%w%s", readErr, tail(stderr.String()))
	}
	if waitErr != nil && len(results) == 0 {
		return nil, nil, fmt.Errorf("%w: %s", waitErr, tail(stderr.String()))
	}
	return results, notes, nil
}
