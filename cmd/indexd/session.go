package main

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/itemid"
)

// bucketFlags adds the flags of every command that works on a bucket.
func bucketFlags(cmd *cobra.Command) {
	cmd.Flags().String("bucket", defaultBucket, "where the index is: file:///dir, ./dir, s3://bucket or gs://bucket")
	cmd.Flags().String("config", "", "configuration file (YAML)")
}

// indexFlags adds the flags of every command that works on one index.
func indexFlags(cmd *cobra.Command) {
	bucketFlags(cmd)
	cmd.Flags().String("index", "", fmt.Sprintf("name of the index (default the only one configured, else %q)",
		blobindex.DefaultName))
	cmd.Flags().String("namespace", defaultNamespace, "the team or workspace; _ for a flat index")
	cmd.Flags().Bool("json", false, "answer with one JSON object")
}

func wantsJSON(cmd *cobra.Command) bool { return cmd.Flag("json").Value.String() == "true" }

// A session is one index of one bucket, as the settings of a command name them.
type session struct {
	settings  *settings
	bucket    *lazyBucket
	index     *blobindex.Index
	namespace *blobindex.Namespace // nil: nobody named one, and the command takes all
}

// open wires a session. It makes no request; every error is a usage error.
func (a *app) open(cmd *cobra.Command, u use) (*session, error) {
	s, err := a.openAll(cmd, wiring{told: a.noteRules}, u)
	if err != nil || s.namespace != nil {
		return s, err
	}
	name := defaultNamespace
	if s.index.Flat() {
		name = blobindex.FlatNamespace
	}
	s.namespace, err = s.index.Namespace(name)
	return s, err
}

// openAll is open for a command that takes all namespaces unless told one. It completes w with the bucket and a log.
func (a *app) openAll(cmd *cobra.Command, w wiring, u use) (*session, error) {
	settings, err := a.settings(cmd)
	if err != nil {
		return nil, err
	}
	s := &session{settings: settings}
	if s.bucket, err = parseBucket(settings.Bucket, u); err != nil {
		return nil, settings.blame("bucket", err)
	}
	w.objects, w.rules, w.log, w.usable = s.bucket, s.bucket, a.log(slog.LevelWarn), s.bucket.usable
	all, err := settings.indexes(w)
	if err != nil {
		return nil, err
	}
	if s.index, err = settings.find(all); err != nil {
		return nil, err
	}
	if settings.Namespace != "" {
		s.namespace, err = s.index.Namespace(settings.Namespace)
	}
	return s, settings.blame("namespace", err)
}

// with opens a session for do. Everything that was acknowledged is durable before the bucket is let go of.
func (a *app) with(cmd *cobra.Command, u use, do func(*session) error) error {
	s, err := a.open(cmd, u)
	if err != nil {
		return err
	}
	defer s.bucket.Close()
	return do(s)
}

// withItem is with, for a command that works on one item of a bucket that is there.
func (a *app) withItem(cmd *cobra.Command, text string, do func(*session, itemid.ID) error) error {
	return a.with(cmd, existing, func(s *session) error {
		id, err := s.id(text)
		if err != nil {
			return err
		}
		return do(s, id)
	})
}

// id reads an id of the grammar that the command was given: who writes asks nobody for the saved one.
func (s *session) id(text string) (itemid.ID, error) { return s.index.Rules().Grammar.Parse(text) }

// withTitled opens the bucket of a command that works on what is named NAMESPACE/NAME, of that kind, for do.
func (a *app) withTitled(cmd *cobra.Command, kind, title string, do func(b *lazyBucket, namespace, name string) error) error {
	settings, err := a.settings(cmd)
	if err != nil {
		return err
	}
	b, err := parseBucket(settings.Bucket, existing)
	if err != nil {
		return settings.blame("bucket", err)
	}
	defer b.Close()
	namespace, name, ok := strings.Cut(title, "/")
	if !ok {
		return usagef("the %s %.80q has no namespace; write NAMESPACE/NAME", kind, title)
	}
	return do(b, namespace, name)
}
