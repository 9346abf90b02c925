package main

import (
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/itemid"
)

// bucketFlags adds the flags of every command that works on a bucket.
func bucketFlags(cmd *cobra.Command) {
	cmd.Flags().String("bucket", defaultBucket, "where the index is: file:///dir, or ./dir")
	cmd.Flags().String("config", "", "configuration file (YAML)")
}

// indexFlags adds the flags of every command that works on one index.
func indexFlags(cmd *cobra.Command) {
	bucketFlags(cmd)
	cmd.Flags().String("index", blobindex.DefaultName, "name of the index")
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
	s, err := a.openAll(cmd, u)
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

// openAll is open for a command that takes all namespaces unless told one.
func (a *app) openAll(cmd *cobra.Command, u use) (*session, error) {
	settings, err := a.settings(cmd)
	if err != nil {
		return nil, err
	}
	s := &session{settings: settings}
	if s.bucket, err = parseBucket(settings.Bucket, u); err != nil {
		return nil, err
	}
	all, err := settings.indexes(wiring{objects: s.bucket, log: a.log(slog.LevelWarn)})
	if err != nil {
		return nil, err
	}
	if s.index, err = find(all, settings.Index); err != nil {
		return nil, err
	}
	if settings.Namespace != "" {
		s.namespace, err = s.index.Namespace(settings.Namespace)
	}
	return s, err
}

// close lets go of the bucket. Everything that was acknowledged is durable by then.
func (s *session) close() { s.bucket.Close() }

// id reads an id of the index's grammar.
func (s *session) id(text string) (itemid.ID, error) { return s.index.Rules().Grammar.Parse(text) }
