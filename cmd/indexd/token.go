package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/web/auth"
)

func (a *app) tokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make tokens for serve",
		Long: `Make tokens for serve. What serve is given of a token is its hash, in the configuration below auth.tokens: who can read that
cannot use it. Nothing is asked of a bucket or a server.`,
		Args: takes(0, 0, "one of its commands"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usagef("give a command: \"indexd token new\" or \"indexd token hash\"")
		},
	}
	cmd.AddCommand(a.tokenNewCommand(), a.tokenHashCommand())
	return cmd
}

// tokenFlags are what "token new" is asked for.
type tokenFlags struct{ name, role, index, namespace, expires string }

func (a *app) tokenNewCommand() *cobra.Command {
	var f tokenFlags
	cmd := &cobra.Command{
		Use:   "new --name NAME",
		Short: "Make a token, and print it this once with what the configuration needs",
		Args:  takes(0, 0, "no arguments"),
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.tokenNew(f, wantsJSON(cmd)) },
	}
	cmd.Flags().StringVar(&f.name, "name", "", "who it is for, as the log will say")
	cmd.Flags().StringVar(&f.role, "role", string(auth.Reader), "reader, producer, janitor or admin")
	cmd.Flags().StringVar(&f.index, "index", blobindex.DefaultName, "on which index; \"*\" for all")
	cmd.Flags().StringVar(&f.namespace, "namespace", defaultNamespace, "on which namespace; \"*\" for all")
	cmd.Flags().StringVar(&f.expires, "expires", "", "after how long it ends, such as 90d or 12h; never by default")
	cmd.Flags().Bool("json", false, "answer with one JSON object")
	return cmd
}

// tokenJSON is a new token and what the configuration needs of it.
type tokenJSON struct {
	Token   string      `json:"token"`
	Name    string      `json:"name"`
	SHA256  string      `json:"sha256"`
	Expires *time.Time  `json:"expires,omitempty"`
	Grants  []grantJSON `json:"grants"`
}

type grantJSON struct {
	Role      string `json:"role"`
	Index     string `json:"index"`
	Namespace string `json:"namespace"`
}

func (a *app) tokenNew(f tokenFlags, asJSON bool) error {
	life, err := parseLife(f.expires)
	if err != nil {
		return err
	}
	grant := auth.Grant{Role: auth.Role(f.role), Index: f.index, Namespace: f.namespace}
	if err := grant.Check(); err != nil {
		return &statusError{exitUsage, err}
	}
	token := auth.Mint()
	t := tokenJSON{Token: token, Name: f.name, SHA256: auth.HashOf(token).String(), Grants: []grantJSON{{f.role, f.index, f.namespace}}}
	var expires time.Time
	if life > 0 {
		expires = time.Now().Add(life).UTC().Truncate(time.Second)
		t.Expires = &expires
	}
	// As serve would take it, so that nobody finds out there.
	g, err := auth.New(auth.Config{Tokens: []auth.Token{
		{Name: f.name, Hash: auth.HashOf(token), Expires: expires, Grants: []auth.Grant{grant}},
	}}, nil)
	if err != nil {
		return usagef("--name: %s", strings.TrimPrefix(err.Error(), fmt.Sprintf("tokens[0] (%.100q): ", f.name)))
	}
	g.Close()
	if asJSON {
		return a.printJSON(t)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n# The token is shown this once. For the configuration of serve:\nauth:\n  tokens:\n    - name: %q\n      sha256: %q\n", token,
		f.name, t.SHA256)
	if t.Expires != nil {
		fmt.Fprintf(&b, "      expires: %q\n", t.Expires.Format(time.RFC3339))
	}
	fmt.Fprintf(&b, "      grants: [{role: %s, index: %q, namespace: %q}]\n", f.role, f.index, f.namespace)
	return a.print(b.String())
}

// parseLife reads how long a token lives; 0 for ever.
func parseLife(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	var d time.Duration
	days, inDays := strings.CutSuffix(text, "d")
	n, err := strconv.ParseUint(days, 10, 16)
	if inDays && err == nil {
		d = time.Duration(n) * 24 * time.Hour
	} else {
		d, err = time.ParseDuration(text)
	}
	if err != nil || d < time.Second {
		return 0, usagef("--expires is %.40q; give how long it lives, such as 90d or 12h, or leave it out for ever", text)
	}
	return d, nil
}

func (a *app) tokenHashCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "hash < FILE",
		Short: "Print the hash of a token on stdin",
		Args:  takes(0, 0, "no arguments, so that no token gets into a shell's history; give it on stdin"),
		RunE: func(*cobra.Command, []string) error {
			text, err := io.ReadAll(io.LimitReader(a.stdin, auth.MaxToken))
			if err != nil {
				return fmt.Errorf("reading the token: %w", err)
			}
			token := strings.TrimSpace(string(text))
			if err := auth.CheckToken(token); err != nil {
				return &statusError{exitUsage, err}
			}
			return a.print(auth.HashOf(token).String() + "\n")
		},
	}
}
