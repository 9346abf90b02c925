package cas_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/blobindex/indexd/cas"
)

// parts is an envelope as anybody may write it.
type parts struct {
	Format  string          `json:"format"`
	Created cas.Birth       `json:"created"`
	Seq     uint64          `json:"seq"`
	Nonce   string          `json:"nonce"`
	Recent  []markOf        `json:"recent"`
	Payload json.RawMessage `json:"payload"`
}

type markOf struct {
	Seq   int    `json:"seq"`
	Nonce string `json:"nonce"`
}

// TestLoad_EnvelopeThatCannotBe: what no save of ours has written is corrupt, however well it is formed: a verdict on a lost
// save is made of these parts.
func TestLoad_EnvelopeThatCannotBe(t *testing.T) {
	f := newFlaky()
	seed(t, f)
	addMany(t, f, 3)
	o, err := f.Store.Load(t.Context(), "doc")
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*parts){
		"as it is":             func(*parts) {},
		"no nonce":             func(p *parts) { p.Nonce = "" },
		"no birth":             func(p *parts) { p.Created.Nonce = "" },
		"no time of birth":     func(p *parts) { p.Created = cas.Birth{Nonce: p.Created.Nonce} },
		"another first save":   func(p *parts) { p.Seq, p.Recent, p.Nonce = 1, nil, "other" },
		"more saves than seqs": func(p *parts) { p.Seq = 3 },
		"one before the first": func(p *parts) { p.Seq, p.Recent = 2, []markOf{{0, "n"}, {1, "n"}} },
		"no next seq":          func(p *parts) { p.Seq, p.Recent = math.MaxUint64, nil },
		"a gap":                func(p *parts) { p.Recent = append(p.Recent[:1], p.Recent[2:]...) },
		"out of order":         func(p *parts) { p.Recent[0], p.Recent[1] = p.Recent[1], p.Recent[0] },
		"a save without nonce": func(p *parts) { p.Recent[1].Nonce = "" },
		"the last one missing": func(p *parts) { p.Seq++ },
		"257 recent saves": func(p *parts) {
			p.Seq, p.Recent = 1000, nil
			for n := range 257 {
				p.Recent = append(p.Recent, markOf{1000 - 257 + n, "n"})
			}
		},
	} {
		var p parts
		if err := json.Unmarshal(o.Body, &p); err != nil {
			t.Fatal(err)
		}
		change(&p)
		body, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		f := newFlaky()
		if _, err := f.Store.Save(t.Context(), "doc", body, cas.IfAbsent()); err != nil {
			t.Fatal(err)
		}
		_, err = open(f, nil).Load(t.Context())
		if fine := name == "as it is"; fine && err != nil || !fine && !errors.Is(err, cas.ErrCorrupt) {
			t.Errorf("%s: Load: %v", name, err)
		}
	}
}

// TestLoad_TooLarge: what this program would never have written is not looked at.
func TestLoad_TooLarge(t *testing.T) {
	f := newFlaky()
	if _, err := f.Store.Save(t.Context(), "doc", []byte(strings.Repeat(" ", cas.MaxSize)), cas.IfAbsent()); err != nil {
		t.Fatal(err)
	}
	if _, err := open(f, nil).Load(t.Context()); !errors.Is(err, cas.ErrTooLarge) {
		t.Errorf("Load: %v", err)
	}
}

// TestCase_C33_NeverBehindOwnSave: a document of one's own save is not older than what a cache has.
func TestCase_C33_NeverBehindOwnSave(t *testing.T) {
	f := newFlaky()
	seed(t, f)
	c := &cached{flaky: f}
	d := open(c, nil)
	old, err := f.Store.Load(t.Context(), "doc")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Update(t.Context(), add("ours"), nil); err != nil {
		t.Fatal(err)
	}
	c.old, c.times = old, 1000
	if s, err := d.Load(t.Context()); !errors.Is(err, cas.ErrBackwards) {
		t.Errorf("seq %d, %v", s.Seq, err)
	}
}

// TestLoad_NewIncarnation: seqs of different ones do not compare.
func TestLoad_NewIncarnation(t *testing.T) {
	f := newFlaky()
	seed(t, f)
	addMany(t, f, 5)
	d := open(f, nil)
	if s, err := d.Load(t.Context()); err != nil || s.Seq != 6 {
		t.Fatalf("seq %d, %v", s.Seq, err)
	}
	removeFrom(t, f)
	createIn(t, f, "new")
	if s, err := d.Load(t.Context()); err != nil || s.Seq != 1 {
		t.Errorf("seq %d, %v, want 1", s.Seq, err)
	}
}

// TestLoad_NullPayload: null is no empty list, where none is stored so; nothing is saved on top of it.
func TestLoad_NullPayload(t *testing.T) {
	f := newFlaky()
	seed(t, f)
	o, err := f.Store.Load(t.Context(), "doc")
	if err != nil {
		t.Fatal(err)
	}
	var p parts
	if err := json.Unmarshal(o.Body, &p); err != nil {
		t.Fatal(err)
	}
	p.Payload = json.RawMessage("null")
	body, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Store.Save(t.Context(), "doc", body, cas.IfMatch(o.Version)); err != nil {
		t.Fatal(err)
	}
	if s, err := open(f, nil).Load(t.Context()); !errors.Is(err, cas.ErrCorrupt) {
		t.Errorf("Load: %+v, %v", s.Value, err)
	}
	if _, err := open(f, nil).Update(t.Context(), add("ours"), nil); !errors.Is(err, cas.ErrCorrupt) || f.saves != 0 {
		t.Errorf("Update: %v after %d saves", err, f.saves)
	}
	if s, err := cas.NewDoc[[]string](f, "doc", format, nil).Load(t.Context()); err != nil || s.Value != nil {
		t.Errorf("Load of what is stored so: %+v, %v", s.Value, err)
	}
}

// TestUpdate_LastSeq: what could not be read again is not saved.
func TestUpdate_LastSeq(t *testing.T) {
	f := newFlaky()
	seed(t, f)
	o, err := f.Store.Load(t.Context(), "doc")
	if err != nil {
		t.Fatal(err)
	}
	body := strings.Replace(string(o.Body), `"seq":1`, fmt.Sprintf(`"seq":%d`, uint64(math.MaxUint64)-1), 1)
	if _, err := f.Store.Save(t.Context(), "doc", []byte(body), cas.IfMatch(o.Version)); err != nil {
		t.Fatal(err)
	}
	if _, err := open(f, nil).Update(t.Context(), add("ours"), nil); err == nil || f.saves != 0 {
		t.Errorf("Update: %v after %d saves", err, f.saves)
	}
	if _, err := open(f, nil).Load(t.Context()); err != nil {
		t.Errorf("Load: %v", err)
	}
}
