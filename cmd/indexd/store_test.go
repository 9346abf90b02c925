package main

import (
	"net/url"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/blobindex/indexd/fakes/gcsd"
	"github.com/blobindex/indexd/fakes/s3d"
	"github.com/blobindex/indexd/web"
)

// TestStores runs the commands on S3 and on Cloud Storage, addressed as a user does, below a path.
func TestStores(t *testing.T) {
	gcs := gcsd.New(nil)
	t.Cleanup(gcs.Close)
	for scheme, endpoint := range map[string]string{"s3": s3d.New(t, nil).URL, "gs": gcs.URL()} {
		t.Run(scheme, func(t *testing.T) {
			address := func(name string) string {
				return scheme + "://" + name + "/some/path?endpoint=" + url.QueryEscape(endpoint)
			}
			runScripts(t, testscript.Params{Dir: "testdata/store"},
				"INDEXD_BUCKET="+address("bucket"), "ABSENT="+address("absent"),
				"AWS_ACCESS_KEY_ID=AK", "AWS_SECRET_ACCESS_KEY=the-secret", "AWS_EC2_METADATA_DISABLED=true")
		})
	}
}

// TestPrices: requests to a cloud cost what its list says, all others nothing.
func TestPrices(t *testing.T) {
	t.Setenv("AWS_ENDPOINT_URL", "")
	t.Setenv("AWS_ENDPOINT_URL_S3", "")
	t.Setenv("STORAGE_EMULATOR_HOST", "")
	cloud := web.Prices{ListPer1000: 0.005, GetPer1000: 0.0004}
	for address, want := range map[string]web.Prices{
		"s3://b": cloud, "gs://b": cloud, "mem://": {}, "/tmp/x": {}, "s3://b?endpoint=http://127.0.0.1:1": {},
	} {
		b, err := parseBucket(address, serving)
		if err != nil {
			t.Fatal(err)
		}
		if got := b.prices(); got != want {
			t.Errorf("%s: %v, want %v", address, got, want)
		}
	}
}
