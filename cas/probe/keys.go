package probe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// idNames are of the characters that ids may have; those beside each other are the same to somebody.
var idNames = []string{
	"plain-1.x", "a b", "a+b", "a%20b", "a%2Bb", "a%252F", "a&b", "a?x", "a#y", "a~done", "a=b;c,d:e@f", "!$*()[]{}|^`", `"<'>`,
	`back\slash`, "caf\u00e9", "cafe\u0301", "Case", "case", "\u65e5\u672c", "\U0001f7e2",
}

// idKeys stores objects under the names of items, and finds each under its own.
func idKeys(ctx context.Context, r *run) error {
	want := map[bucket.Key]bool{}
	var refused, wrong []string
	for _, name := range idNames {
		key := r.key("id/" + name)
		switch err := r.put(ctx, r.site(), key, "the body of "+name); {
		case err == nil:
			want[key] = true
		case isOfRun(err) || ctx.Err() != nil || errors.Is(err, bucket.ErrThrottled):
			return err
		default:
			refused = append(refused, fmt.Sprintf("%q", name))
		}
	}
	for key := range want {
		name := strings.TrimPrefix(string(key), r.root+"id/")
		got, err := r.read(ctx, r.site().Objects, key)
		if isOfRun(err) || ctx.Err() != nil {
			return err
		}
		if err != nil || got != "the body of "+name {
			wrong = append(wrong, fmt.Sprintf("%q", name))
		}
	}
	got, _, err := r.list(ctx, r.site(), r.root+"id/")
	if err != nil {
		return err
	}
	slices.Sort(wrong)
	switch why := differs(got, want); {
	case len(wrong) > 0:
		r.no(IDKeys, "under %s there is another object, or none", strings.Join(wrong, ", "))
	case why != "":
		r.no(IDKeys, "of %d keys %s: %s", len(want), why, strings.Join(strangers(got, want, r.root+"id/"), ", "))
	}
	if len(want) == 0 {
		return fmt.Errorf("none could be stored, %s among them", strings.Join(refused, ", "))
	}
	r.yes(IDKeys, "each of %d does", len(want))
	if len(refused) > 0 {
		r.remark(IDKeys, "refused: %s", strings.Join(refused, ", "))
	}
	return nil
}

// strangers are listed, and were not written.
func strangers(got map[bucket.Key]int, want map[bucket.Key]bool, prefix string) (all []string) {
	for _, k := range slices.Sorted(maps.Keys(got)) {
		if !want[k] {
			all = append(all, fmt.Sprintf("%q", strings.TrimPrefix(string(k), prefix)))
		}
	}
	return all
}

// An oddKey is one that indexd never writes, and what it may be taken for.
type oddKey struct{ name, alias string }

var (
	controlNames = []oddKey{{"\x01x", ""}, {"tab\tx", ""}, {"line\nx", ""}, {"del\x7fx", ""}, {"sep\u2028x", ""}, {"none\uffffx", ""}}
	aliasNames   = []oddKey{{"a//b", "a/b"}, {"c/", "c"}, {"d/./e", "d/e"}}
)

// oddKeys stores objects under keys that stores were seen to mangle.
func oddKeys(ctx context.Context, r *run) error {
	s := r.site()
	o := r.unguarded(s)
	if o == nil {
		return nil
	}
	// Where a plain key cannot be listed, an odd one has spoiled nothing.
	if err := r.put(ctx, s, r.key("odd/plain/x"), ""); err != nil {
		return err
	}
	if _, _, err := r.list(ctx, s, r.root+"odd/plain/"); err != nil {
		return err
	}
	if err := r.odd(ctx, o, ControlKeys, "control", controlNames); err != nil {
		return err
	}
	return r.odd(ctx, o, PathAliases, "alias", aliasNames)
}

func (r *run) odd(ctx context.Context, o bucket.Objects, id ID, dir string, names []oddKey) error {
	var kept, refused, wrong []string
	for i, n := range names {
		// Below a prefix of its own: one of them may spoil a page.
		prefix := fmt.Sprintf("odd/%s-%d/", dir, i)
		switch how, err := r.oddOne(ctx, o, prefix, n); {
		case err != nil:
			return err
		case how == "kept":
			kept = append(kept, n.name)
		case how == "refused":
			refused = append(refused, n.name)
		default:
			wrong = append(wrong, fmt.Sprintf("%q %s", n.name, how))
		}
	}
	if len(wrong) > 0 {
		r.no(id, "%s", strings.Join(wrong, "; "))
	}
	if len(kept)+len(refused) > 0 {
		r.yes(id, "%d were kept, %d refused", len(kept), len(refused))
	}
	return nil
}

// oddOne says what becomes of one key: "kept", "refused", or what is wrong.
func (r *run) oddOne(ctx context.Context, o bucket.Objects, prefix string, n oddKey) (string, error) {
	key := r.key(prefix + n.name)
	body := "odd"
	if strings.HasSuffix(n.name, "/") {
		body = "" // a directory, to some
	}
	err := r.tries(ctx, func() error {
		_, err := o.Put(ctx, key, strings.NewReader(body))
		return err
	})
	if over := r.over(ctx, err); over != nil {
		return "", over
	}
	if err != nil {
		return "refused", nil
	}
	if n.alias != "" {
		alias := r.key(prefix + n.alias)
		_, err := o.Head(ctx, alias)
		if over := r.over(ctx, err); over != nil {
			return "", over
		}
		if errors.Is(err, bucket.ErrDenied) {
			return "", err
		}
		if !errors.Is(err, bucket.ErrNotExist) {
			return fmt.Sprintf("is %q as well", n.alias), nil
		}
	}
	got, err := r.read(ctx, o, key)
	if over := r.over(ctx, err); over != nil {
		return "", over
	}
	if err != nil || got != body {
		return "cannot be read under its name", nil
	}
	var listed []bucket.Key
	err = o.List(ctx, bucket.ListRequest{Prefix: r.root + prefix}, func(p bucket.Page) error {
		for _, x := range p.Objects {
			listed = append(listed, x.Key)
		}
		return nil
	})
	switch over := r.over(ctx, err); {
	case over != nil:
		return "", over
	case err != nil:
		return "spoils the page that it is on", nil
	case !slices.Equal(listed, []bucket.Key{key}):
		for i := range listed {
			listed[i] = listed[i][min(len(listed[i]), len(r.root)+len(prefix)):]
		}
		return fmt.Sprintf("is listed as %q", listed), nil
	}
	return "kept", nil
}

// over is err if the run cannot go on.
func (r *run) over(ctx context.Context, err error) error {
	if isOfRun(err) {
		return err
	}
	return ctx.Err()
}
