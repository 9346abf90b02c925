package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// An app is the command with its streams and its environment. Nothing here looks at the process's own, so that a test can
// call it as a shell does.
type app struct {
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	env    []string // "NAME=value"
}

// run is the whole command: it returns the exit status, after one line on stderr if that is not zero. It ends soon
// after ctx does.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(append([]string{}, args...)) // never nil, for which cobra takes the process's own
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	err := root.ExecuteContext(ctx)
	if err != nil && !errors.Is(err, errSilent) {
		fmt.Fprintln(a.stderr, "indexd: "+message(err))
	}
	return exitStatus(err)
}

const rootHelp = `indexd keeps a "running now" list that never loses an entry, on nothing but a directory or a bucket: one empty
object for each item, so that no producer can overwrite another's.

A bucket is file:///dir, ./dir, s3://bucket[/path][?endpoint=URL&region=NAME] with the credentials that the AWS tools find,
or gs://bucket[/path] with Application Default Credentials.

Settings come from flags, then the environment (INDEXD_BUCKET, INDEXD_CONFIG, INDEXD_INDEX, INDEXD_NAMESPACE,
INDEXD_LISTEN, INDEXD_CARDS, INDEXD_RESOLVES, INDEXD_PRUNE_EVERY), then the file named by --config, then the defaults.

Exit status: 0 done; 1 failed; 2 usage; 3 the bucket breaks a guarantee that this needs, or the configuration differs from
the index's rules; 4 outcome unknown, look before you repeat; 75 busy, try later.`

func (a *app) root() *cobra.Command {
	var wantsVersion bool
	root := &cobra.Command{
		Use:           "indexd",
		Short:         `A "running now" list that never loses an entry`,
		Long:          rootHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs, // so that an unknown command comes here, and fails as other wrong usage does
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 0:
				return unknownCommand(cmd, args[0])
			case wantsVersion:
				return a.printVersion(false)
			}
			cmd.SetOut(a.stderr)
			if err := cmd.Help(); err != nil {
				return err
			}
			return usagef("no command given; begin with \"indexd demo\"")
		},
	}
	root.Flags().BoolVar(&wantsVersion, "version", false, "print the version")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%s; \"%s --help\" lists the flags", flagText(err), cmd.CommandPath())
	})
	root.AddCommand(a.serveCommand(), a.demoCommand(), a.registerCommand(), a.heartbeatCommand(), a.finishCommand(),
		a.lsCommand(), a.cardsCommand(), a.recentCommand(), a.explainCommand(), a.pruneCommand(), a.leaseCommand(),
		a.manifestCommand(), a.snapshotCommand(), a.doctorCommand(), a.tokenCommand(), a.versionCommand())
	a.addCompletion(root)
	addHelp(root)
	return root
}

// unknownCommand refuses a name, and tells the commands that it may have been meant for.
func unknownCommand(parent *cobra.Command, name string) error {
	parent.SuggestionsMinimumDistance = 2
	var meant string
	if like := parent.SuggestionsFor(name); len(like) > 0 {
		meant = fmt.Sprintf("did you mean %q? ", like[0])
	}
	help := "indexd help"
	if parent.HasParent() && parent.HasAvailableSubCommands() {
		help += " " + parent.Name()
	}
	return usagef("unknown command %.80q; %s%q lists the commands", name, meant, help)
}

// addHelp adds the command help, which is cobra's but for its answer to a command that does not exist.
func addHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	if err != nil {
		return
	}
	help.Run = nil
	help.RunE = func(_ *cobra.Command, args []string) error {
		cmd, rest, err := root.Find(args)
		if err != nil || len(rest) > 0 {
			return unknownCommand(cmp.Or(cmd, root), args[len(args)-max(1, len(rest))])
		}
		cmd.InitDefaultHelpFlag()
		return cmd.Help()
	}
}

// flagText says what is wrong with a flag: for a value of the wrong type, what would be right.
func flagText(err error) string {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err.Error()
	}
	give := "another value"
	switch invalid.GetFlag().Value.Type() {
	case "int", "uint64":
		give = "a whole number that can be used"
	case "bool":
		give = "true or false"
	case "duration":
		give = "a duration such as 36h"
	}
	return fmt.Sprintf("--%s is %.40q; give %s", invalid.GetFlag().Name, invalid.GetValue(), give)
}

// takes returns a check that a command was given between least and most arguments; want says what it takes.
func takes(least, most int, want string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			given := fmt.Sprintf("%d arguments", len(args))
			if len(args) == 1 {
				given = "1 argument"
			}
			return usagef("%s takes %s, and was given %s", cmd.CommandPath(), want, given)
		}
		return nil
	}
}

// log returns the logger for stderr.
func (a *app) log(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: level}))
}

// note tells the user something that is no failure.
func (a *app) note(format string, args ...any) {
	fmt.Fprintln(a.stderr, "indexd: note: "+readable(fmt.Sprintf(format, args...)))
}

// print writes an answer. An answer that does not arrive is a failure of the command.
func (a *app) print(text string) error {
	if _, err := io.WriteString(a.stdout, text); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}

// oneLine joins the lines of a text, so that a message is one line whatever the errors in it are made of.
func oneLine(s string) string {
	lines := strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' })
	for i, l := range lines {
		lines[i] = strings.TrimSpace(l)
	}
	return strings.ReplaceAll(strings.Join(lines, "; "), ":; ", ": ")
}
