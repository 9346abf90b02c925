package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  takes(0, 0, "no arguments"),
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.printVersion(wantsJSON(cmd)) },
	}
	cmd.Flags().Bool("json", false, "answer with one JSON object")
	return cmd
}

// versionJSON is what was built, with what, and for what.
type versionJSON struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (a *app) printVersion(asJSON bool) error {
	v := versionJSON{Version: version(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if asJSON {
		return a.printJSON(v)
	}
	return a.print(fmt.Sprintf("indexd %s %s %s\n", v.Version, v.Go, v.Platform))
}

// version is the module's version as the build knows it: a tag, a pseudo-version, or "(devel)" with the revision that
// was built, where the build recorded one.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && info.Main.Version == "(devel)" {
			return "(devel) " + s.Value
		}
	}
	return info.Main.Version
}
