package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/prune"
)

// addCompletion adds the command completion, which is cobra's but for its answers to wrong usage, and tells it what the
// commands take: file names for --bucket, --config and what is uploaded alone.
func (a *app) addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	known := map[string]cobra.CompletionFunc{
		"index":   a.completeIndex,
		"outcome": cobra.FixedCompletions(outcomes(), cobra.ShellCompDirectiveNoFileComp),
	}
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			cmd.Args = cobra.ArbitraryArgs
			cmd.RunE = func(cmd *cobra.Command, args []string) error {
				if len(args) > 0 {
					return usagef("there is no completion for %.40q; choose bash, fish, powershell or zsh", args[0])
				}
				return cmd.Help()
			}
			for _, shell := range cmd.Commands() {
				shell.Args = takes(0, 0, "no arguments")
			}
			continue
		}
		completes(cmd, known)
	}
}

// completes tells the completion what a command, and those below it, take.
func completes(cmd *cobra.Command, known map[string]cobra.CompletionFunc) {
	for _, sub := range cmd.Commands() {
		completes(sub, known)
	}
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		complete := known[f.Name]
		if complete == nil {
			complete = cobra.NoFileCompletions
		}
		if f.Name != "bucket" && f.Name != "config" {
			// It fails only if the flag has one already.
			_ = cmd.RegisterFlagCompletionFunc(f.Name, complete)
		}
	})
}

// completeIndex offers the configured indexes, as far as the configuration can be read.
func (a *app) completeIndex(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	names := []cobra.Completion{blobindex.DefaultName}
	if s, err := a.settings(cmd); err == nil && len(s.Indexes) > 0 {
		names = names[:0]
		for _, c := range s.Indexes {
			names = append(names, c.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// outcomes are those of finish.
func outcomes() []string {
	var names []string
	for _, o := range []prune.Outcome{prune.Done, prune.Failed, prune.Cancelled} {
		names = append(names, fmt.Sprint(o))
	}
	return names
}
