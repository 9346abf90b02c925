package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/web/api"
)

func (a *app) registerCommand() *cobra.Command {
	var subkey string
	var labels []string
	cmd := &cobra.Command{
		Use:   "register [ID] [--subkey X] [--label k=v]...",
		Short: "Register an item as running, and print its id",
		Long: fmt.Sprintf(`Register an item as running: one write of a key of its own, and no read. Give the whole ID, or --subkey for which an
id of now is minted. Of several items of one sub-key only the newest is shown.

An ID is SUBKEY_EPOCH: a time of now in 10, 13, 16 or 19 digits (seconds, milli-, micro-, nanoseconds) after the last
"_", and 1 to 200 bytes in all, without control characters, "/", "~" or "__0x", and without a dot at the beginning.
Indexes may be configured for other ids: ULID, UUIDv7 or KSUID, with or without a sub-key before them.

All labels of an item take at most %d bytes as JSON. Names and values are texts without control characters.

A directory is made if it is not there, a bucket of S3 or Cloud Storage is not. Repeating a registration of the same ID is harmless.`,
			blobindex.MaxLabels),
		Example: `  indexd register --subkey nightly-import --label title="Nightly import" --label owner=data
  indexd register build-42_1764532800`,
		Args: takes(0, 1, "at most one ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd, creating, func(s *session) error { return a.register(cmd, s, args, subkey, labels) })
		},
	}
	indexFlags(cmd)
	cmd.Flags().StringVar(&subkey, "subkey", "", "mint an id for a run of this sub-key")
	cmd.Flags().StringArrayVar(&labels, "label", nil, "a label, as name=value; title, owner and url are shown on the card")
	return cmd
}

func (a *app) register(cmd *cobra.Command, s *session, args []string, subkey string, pairs []string) error {
	labels, err := parsePairs("label", pairs)
	if err != nil {
		return err
	}
	id, err := s.newID(args, subkey, cmd.Flag("subkey").Changed)
	if err != nil {
		return err
	}
	r, err := s.namespace.Register(cmd.Context(), id, labels)
	if err != nil {
		return err
	}
	if r.BornLate {
		a.note("the store's clock was %v past the time in the id when it took %s: a late registration, or this host's "+
			"clock is behind; the item is shown all the same", humane(r.Stored.Sub(id.Time())), id)
	}
	if wantsJSON(cmd) {
		err = a.printJSON(registeredAnswer(r))
	} else {
		err = a.print(id.String() + "\n")
	}
	if err != nil {
		// Not wrapped: repeating it, which is the advice of a full disk, would register another item.
		return fmt.Errorf("the item %s is registered, and runs until it is finished: use that id, or finish it (%v)", id, err)
	}
	return nil
}

// registeredAnswer is the body of a registration over HTTP.
func registeredAnswer(r blobindex.Registered) api.Registered {
	return api.Registered{
		Id: r.ID.String(), Subkey: r.ID.Subkey(), StartedAt: r.ID.Time(), StoredAt: orNull(r.Stored), BornLate: r.BornLate,
	}
}

// newID reads the id that was given, or mints one.
func (s *session) newID(args []string, subkey string, minting bool) (itemid.ID, error) {
	switch {
	case len(args) == 1 && minting:
		return itemid.ID{}, usagef("give an ID or --subkey, not both")
	case len(args) == 1:
		return s.id(args[0])
	case minting && s.bare():
		return itemid.ID{}, usagef("ids of this index (%s) have no sub-key: leave --subkey out", s.index.Rules().Grammar)
	case minting && subkey == "":
		return itemid.ID{}, usagef("--subkey is set to nothing; give the sub-key, or leave it out and give an ID")
	}
	id, err := s.index.Mint(subkey)
	if err != nil && !minting {
		return id, usagef("give an ID, or --subkey for which one is minted")
	}
	return id, err
}

// bare tells whether the ids of the index have no sub-key.
func (s *session) bare() bool {
	switch s.index.Rules().Grammar {
	case itemid.ULID, itemid.UUIDv7, itemid.KSUID:
		return true
	}
	return false
}

// parsePairs reads what was given as name=value; what says what each is.
func parsePairs(what string, pairs []string) (map[string]string, error) {
	all := make(map[string]string, len(pairs))
	for _, p := range pairs {
		name, value, ok := strings.Cut(p, "=")
		if !ok {
			return nil, usagef("the %s %.80q has no value; write name=value", what, p)
		}
		if _, twice := all[name]; twice {
			return nil, usagef("the %s %.80q is given twice", what, name)
		}
		all[name] = value
	}
	return all, nil
}
