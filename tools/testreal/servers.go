package main

import (
	_ "embed" // of the scripts
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/blobindex/indexd/fakes/realservers"
)

// A server is one that can be installed and started.
type server struct {
	name, version string
	install       installer
	// argv starts the server that is installed in dir: on the loopback port, with its data in the directory data.
	argv func(dir, data string, port int) []string
	// key and secret are what it is told to accept.
	key, secret string
	suites      []realservers.Suite
	byHand      []string      // scripts of the suite of that name
	more        bool          // takes long: only with -more
	program     string        // under which it is installed; default name
	pair        bool          // two processes on the same data
	soak        time.Duration // how long the suite manifest goes on; default 30 s
}

// These scripts start servers that take more than a command line.
var (
	//go:embed testdata/ceph.sh
	cephScript string
	//go:embed testdata/seaweedfs.sh
	seaweedScript string
)

// servers are pinned. Raise a version together with what package realservers lists of it.
func servers() []server {
	conditions := []realservers.Suite{realservers.CAS, realservers.Doctor}
	some := append([]realservers.Suite{realservers.Bucket, realservers.Agreement, realservers.Index}, conditions...)
	hand := append(slices.Clone(some), realservers.Manifest, realservers.ByHand)
	full := append(slices.Clone(some), realservers.Soak, realservers.Manifest, realservers.ByHand)
	gateway := versitygw("versitygw", append(slices.Clone(full), realservers.Snapshot))
	gateway.byHand, gateway.soak = []string{"by_hand_s3.sh"}, 90*time.Second
	two := versitygw("versitygw, two", append(slices.Clone(conditions), realservers.Manifest))
	unlocked := versitygw("versitygw, two unlocked", conditions, "--disable-object-lock-file")
	two.pair, unlocked.pair = true, true
	sidecar := versitygw("versitygw, sidecar", conditions)
	sidecar.argv = func(dir, data string, port int) []string {
		beside := filepath.Join(filepath.Dir(data), "sidecar")
		argv := versitygw("", nil, "--sidecar", beside).argv(dir, data, port)
		return append([]string{"sh", "-c", `mkdir "$0" && exec "$@"`, beside}, argv...)
	}
	return []server{
		gateway, two, unlocked, sidecar,
		{
			name: "rclone", version: "v1.76.0", key: "test", secret: "testsecret", suites: some,
			install: goInstall{"github.com/rclone/rclone", "github.com/rclone/rclone"},
			argv: func(dir, data string, port int) []string {
				return []string{filepath.Join(dir, "rclone"), "--config", "/dev/null", "serve", "s3", "--addr", address(port),
					"--auth-key", "test,testsecret", data}
			},
		},
		{
			name: "s3rver", version: "3.7.1", key: "S3RVER", secret: "S3RVER", suites: some,
			install: npmInstall{"s3rver"},
			argv: func(dir, data string, port int) []string {
				// Node 17 and later have without this no cipher for its continuation tokens.
				return []string{"node", "--openssl-legacy-provider", filepath.Join(dir, "node_modules", "s3rver", "bin", "s3rver.js"), "-d", data,
					"-a", "127.0.0.1", "-p", fmt.Sprint(port), "-s", "--no-vhost-buckets"}
			},
		},
		{
			name: "fake-gcs-server", version: "v1.56.1", suites: full, soak: 90 * time.Second,
			byHand:  []string{"by_hand_gcs.sh", gcloudScript},
			install: goInstall{"github.com/fsouza/fake-gcs-server", "github.com/fsouza/fake-gcs-server"},
			argv: func(dir, data string, port int) []string {
				return []string{filepath.Join(dir, "fake-gcs-server"), "-scheme", "http", "-host", "127.0.0.1",
					"-port", fmt.Sprint(port), "-backend", "memory", "-public-host", address(port), "-log-level", "error"}
			},
		},
		{
			name: "gcsemulator", version: "v0.0.0-20240401123056-edc69752f474", suites: hand,
			byHand:  []string{"by_hand_gcs.sh"}, // it does not understand gcloud's uploads
			install: goInstall{"github.com/fullstorydev/emulators/storage", "github.com/fullstorydev/emulators/storage/cmd/gcsemulator"},
			argv: func(dir, data string, port int) []string {
				return []string{filepath.Join(dir, "gcsemulator"), "-host", "127.0.0.1", "-port", fmt.Sprint(port), "-verbose=false"}
			},
		},
		{
			name: "SeaweedFS", version: "v0.0.0-20261109003541-7506e5f91cd6", key: "test", secret: "testsecret",
			suites: some, more: true,
			install: goTool{
				goInstall{"github.com/seaweedfs/seaweedfs", "github.com/seaweedfs/seaweedfs/weed"},
				"github.com/tyler-smith/go-bip39=github.com/cosmos/go-bip39@v1.0.0",
			},
			argv: func(dir, data string, port int) []string {
				return []string{"bash", "-c", seaweedScript, "seaweedfs", filepath.Join(dir, "weed"), data, fmt.Sprint(port), "test", "testsecret"}
			},
		},
		{
			name: "Ceph RGW", version: "16.2.15", key: "test", secret: "testsecret", suites: some, more: true,
			install: debian{"radosgw", "radosgw ceph-mon ceph-osd ceph-common"},
			argv: func(_, data string, port int) []string {
				return []string{"bash", "-c", cephScript, "ceph", data, fmt.Sprint(port), "test", "testsecret"}
			},
		},
	}
}

// versitygw is that server as it is put to the suites, with options of its backend.
func versitygw(name string, suites []realservers.Suite, options ...string) server {
	return server{
		name: name, program: "versitygw", version: "v1.8.0", key: "test", secret: "testsecret", suites: suites,
		install: goInstall{"github.com/versity/versitygw", "github.com/versity/versitygw/cmd/versitygw"},
		argv: func(dir, data string, port int) []string {
			argv := []string{filepath.Join(dir, "versitygw"), "--port", address(port), "--keep-alive", "--quiet",
				"--access", "test", "--secret", "testsecret", "posix"}
			return append(append(argv, options...), data)
		},
	}
}

func address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
