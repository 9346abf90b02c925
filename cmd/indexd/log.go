package main

import (
	"fmt"
	"log/slog"
	"slices"

	"github.com/spf13/cobra"
)

// The formats and levels of the log of serve and demo.
var (
	logFormats = []string{"text", "json"}
	logLevels  = []string{"debug", "info", "warn", "error"}
)

// logFlags adds the flags of commands that go on, and log what they do.
func logFlags(cmd *cobra.Command, level slog.Level) {
	cmd.Flags().String("log-format", defaultLogFormat, "how to write the log: text or json")
	cmd.Flags().String("log-level", logLevels[1+int(level)/4], "what to write into the log: debug, info, warn or error, and what is worse")
}

// parseLevel reads the name of a level; empty is nil.
func parseLevel(name string) (*slog.Level, error) {
	if name == "" {
		return nil, nil
	}
	if !slices.Contains(logLevels, name) {
		return nil, fmt.Errorf("%.40q is no level of a log; give debug, info, warn or error", name)
	}
	level := new(slog.Level)
	return level, level.UnmarshalText([]byte(name))
}

// logger returns the log of a command that goes on, on stderr.
func (a *app) logger(s *settings, level slog.Level) *slog.Logger {
	if s.level != nil {
		level = *s.level
	}
	opt := &slog.HandlerOptions{Level: level}
	if s.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(a.stderr, opt))
	}
	return slog.New(slog.NewTextHandler(a.stderr, opt))
}
