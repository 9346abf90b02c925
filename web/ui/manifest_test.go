package ui_test

import (
	"strings"
	"testing"

	"github.com/blobindex/indexd/web/ui"
)

func TestSizes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1 << 10: "1.0 KiB", 1536: "1.5 KiB", 10188: "9.9 KiB", 10189: "10 KiB", 1<<20 - 1: "1.0 MiB",
		1 << 20: "1.0 MiB", 20 << 20: "20 MiB", 1 << 40: "1.0 TiB", 1<<63 - 1: "8.0 EiB", -1: "-1 B",
	} {
		var b strings.Builder
		err := ui.RenderManifest(&b, ui.ManifestPage{Manifest: &ui.Manifest{Total: 1, Bytes: n}})
		if err != nil || !strings.Contains(b.String(), ">"+want+" in all</p>") {
			t.Errorf("%d: not %q, %v", n, want, err)
		}
	}
}
