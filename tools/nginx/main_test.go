package nginx

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// indexd is the program, built by TestMain. nginxPath is where nginx is.
var indexd, nginxPath string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if os.Getenv("INDEXD_NGINX") == "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "indexd-nginx-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = prepare(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func prepare(dir string) (err error) {
	// Where Debian has it; the search path of others than root may leave it out.
	if nginxPath, err = exec.LookPath("nginx"); err != nil {
		if nginxPath, err = exec.LookPath("/usr/sbin/nginx"); err != nil {
			return fmt.Errorf("INDEXD_NGINX wants nginx; apt-get install --no-install-recommends nginx: %w", err)
		}
	}
	indexd = filepath.Join(dir, "indexd")
	build := exec.Command("go", "build", "-o", indexd, "./cmd/indexd")
	build.Dir, build.Stdout, build.Stderr = "../..", os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("building indexd: %w", err)
	}
	return nil
}

// real skips a test unless real components are wanted.
func real(t *testing.T) {
	t.Helper()
	if os.Getenv("INDEXD_NGINX") == "" {
		t.Skip("it needs nginx; run with INDEXD_NGINX=1")
	}
}
