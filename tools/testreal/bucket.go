package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/blobindex/indexd/fakes/realservers"
)

const region = "us-east-1"

// newBucket creates a bucket, as indexd never does, and returns its name.
func (t target) newBucket(ctx context.Context) (string, error) {
	name := "indexd-" + strings.ToLower(rand.Text())
	if t.Protocol == realservers.S3 {
		client := s3.New(s3.Options{
			BaseEndpoint: &t.url, UsePathStyle: true, Region: region,
			Credentials: credentials.NewStaticCredentialsProvider(t.key, t.secret, ""),
		})
		if _, err := client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &name}); err != nil {
			return "", fmt.Errorf("creating bucket %s: %w", name, err)
		}
		return name, nil
	}
	body := strings.NewReader(`{"name":"` + name + `"}`)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url+"/storage/v1/b?project=test", body)
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("creating bucket %s: %w", name, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return "", fmt.Errorf("creating bucket %s: %s", name, resp.Status)
	}
	return name, nil
}
