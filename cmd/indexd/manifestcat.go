package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/blobindex/indexd/cas/manifest"
)

func (a *app) manifestCatCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cat NAMESPACE/NAME ID [FILE]",
		Short: "Write a file of an entry to standard output",
		Long: `Write a file of an entry to standard output, and compare its size and SHA-256 with what the list has. Whether a file is
as it was added is known at its end: use what was written only if the exit status is 0.

FILE is the name that it was added under, or its key; it may be left out where the entry has one file only.`,
		Args: takes(2, 3, "NAMESPACE/NAME, an ID and at most one FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withManifest(cmd, args[0], 0, func(c *catalog) error {
				return a.manifestCat(cmd.Context(), c, args[1], args[2:])
			})
		},
	}
	manifestFlags(cmd)
	return cmd
}

func (a *app) manifestCat(ctx context.Context, c *catalog, id string, names []string) error {
	s, err := c.load(ctx)
	if err != nil {
		return err
	}
	e, err := c.find(s, id)
	if err != nil {
		return err
	}
	b, err := chooseBlob(e, names)
	if err != nil {
		return err
	}
	body, err := c.Open(ctx, b)
	if errors.Is(err, manifest.ErrMissing) {
		return c.lost(ctx, e, b, err)
	}
	if err != nil {
		return err
	}
	defer body.Close()
	return copyVerified(ctx, a.stdout, body, b)
}

// chooseBlob returns the blob of that name, or key; the only one if no name is given.
func chooseBlob(e manifest.Entry, names []string) (manifest.Blob, error) {
	var found []manifest.Blob
	for _, b := range e.Blobs {
		if len(names) == 0 || b.Name == strings.ToValidUTF8(names[0], "\uFFFD") || b.Key == names[0] {
			found = append(found, b)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0:
		return manifest.Blob{}, fmt.Errorf("the entry %.80q has no file %.80q; it has %s", e.ID, names[0], blobNames(e.Blobs))
	case len(names) == 0:
		return manifest.Blob{}, fmt.Errorf("the entry %.80q has %d files; name one of %s", e.ID, len(found), blobNames(found))
	}
	return manifest.Blob{}, fmt.Errorf("the entry %.80q has %d files %.80q; name one by its key: %s", e.ID, len(found), names[0],
		blobKeys(found))
}

const fewNames = 20 // in a message

func blobNames(blobs []manifest.Blob) string {
	return someOf(blobs, func(b manifest.Blob) string { return fmt.Sprintf("%.80q", b.Name) })
}

func blobKeys(blobs []manifest.Blob) string {
	return someOf(blobs, func(b manifest.Blob) string { return b.Key })
}

func someOf(blobs []manifest.Blob, text func(manifest.Blob) string) string {
	var all []string
	for _, b := range blobs[:min(len(blobs), fewNames)] {
		all = append(all, text(b))
	}
	if more := len(blobs) - len(all); more > 0 {
		all = append(all, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, ", ")
}

// lost tells an entry that was removed while it was read from one whose blob somebody else has deleted.
func (c *catalog) lost(ctx context.Context, e manifest.Entry, b manifest.Blob, err error) error {
	s, reading := c.load(ctx)
	if reading != nil {
		return reading
	}
	if now, gone := c.find(s, e.ID); gone != nil || now.Digest != e.Digest || !holds(now, b) {
		return &advisedError{fmt.Errorf("the entry %.80q was removed or added anew while it was read", e.ID),
			fmt.Sprintf("look with \"indexd manifest ls %s\"", c.title)}
	}
	return &advisedError{fmt.Errorf("the file %.80q of the entry %.80q: %w", b.Name, e.ID, err),
		"something else than indexd deleted it, such as a lifecycle rule of the bucket; add the entry anew, or remove it"}
}

func holds(e manifest.Entry, b manifest.Blob) bool {
	for _, has := range e.Blobs {
		if has.Key == b.Key {
			return true
		}
	}
	return false
}

// copyVerified copies a blob, and compares it with what the list has of it.
func copyVerified(ctx context.Context, w io.Writer, r io.Reader, b manifest.Blob) error {
	const wrong = "the file %.80q is not as it was added: %s; do not use what was written"
	sum := sha256.New()
	n, err := copyInterruptible(ctx, w, io.TeeReader(io.LimitReader(r, b.Size), sum))
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("copying %.80q: %w; do not use what was written", b.Name, ctx.Err())
	}
	if err != nil {
		return fmt.Errorf("copying %.80q, broken off after %d of %d bytes: %w", b.Name, n, b.Size, err)
	}
	if n < b.Size {
		return fmt.Errorf(wrong, b.Name, fmt.Sprintf("it ends after %d of %d bytes", n, b.Size))
	}
	// That it goes on is seen by one byte more.
	switch more, err := io.ReadFull(r, make([]byte, 1)); {
	case more > 0:
		return fmt.Errorf(wrong, b.Name, fmt.Sprintf("it has more than %d bytes", b.Size))
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("copying %.80q: %w", b.Name, err)
	}
	if got := "sha256:" + hex.EncodeToString(sum.Sum(nil)); got != b.Digest {
		return fmt.Errorf(wrong, b.Name, fmt.Sprintf("its digest is %s, and was %.80s", got, b.Digest))
	}
	return nil
}
