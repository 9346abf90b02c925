package s3bucket_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/fakes/s3d"
)

// bare is the SDK alone, set up like the driver.
func bare(s *s3d.Server) *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: &s.URL, UsePathStyle: true, Region: "us-east-1", Credentials: options(s).Credentials,
	})
}

// BenchmarkRegister compares a marker's Put with the SDK's, on a server 20 ms away.
func BenchmarkRegister(b *testing.B) {
	s := s3d.New(b, &s3d.Options{Latency: 20 * time.Millisecond})
	driver, sdk := open(b, options(s)), bare(s)
	b.Run("driver", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := driver.Put(b.Context(), "m/a", nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("sdk", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := sdk.PutObject(b.Context(), &s3.PutObjectInput{Bucket: aws.String("bucket"), Key: aws.String("m/a")}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkList compares listing 100,000 keys with the SDK's paginator.
func BenchmarkList(b *testing.B) {
	s := s3d.New(b, nil)
	fill(s, 100_000)
	driver, sdk := open(b, options(s)), bare(s)
	b.Run("driver", func(b *testing.B) {
		for b.Loop() {
			n := 0
			err := driver.List(b.Context(), bucket.ListRequest{Prefix: "m/"}, func(p bucket.Page) error { n += len(p.Objects); return nil })
			if err != nil || n != 100_000 {
				b.Fatal(n, err)
			}
		}
	})
	b.Run("sdk", func(b *testing.B) {
		for b.Loop() {
			n := 0
			p := s3.NewListObjectsV2Paginator(sdk, &s3.ListObjectsV2Input{Bucket: aws.String("bucket"), Prefix: aws.String("m/")})
			for p.HasMorePages() {
				out, err := p.NextPage(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				n += len(out.Contents)
			}
		}
	})
}

// BenchmarkDelete compares batches with single deletes, per 10,000 keys on a server 50 ms away.
func BenchmarkDelete(b *testing.B) {
	for name, lies := range map[string]s3d.Lies{"batches": {}, "singles": {NoBatchDelete: true}} {
		b.Run(name, func(b *testing.B) {
			s := s3d.New(b, &s3d.Options{Latency: 50 * time.Millisecond, Lies: lies})
			driver := open(b, options(s))
			for b.Loop() {
				b.StopTimer()
				keys := filled(s, 10_000)
				b.StartTimer()
				if errs := driver.Delete(b.Context(), keys); errs != nil {
					b.Fatal(errs[0])
				}
			}
		})
	}
}
