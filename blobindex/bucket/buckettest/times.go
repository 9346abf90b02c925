package buckettest

import (
	"strings"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// storeTime brackets the time that Put tells by the clock of the listings before and after it.
func storeTime(e *env) {
	for _, body := range []string{"", "body"} {
		before := e.now()
		e.tick()
		put := e.put("item", body)
		if !e.TellsTime {
			if !put.IsZero() {
				e.Errorf("Put tells %v, but the store tells no time", put)
			}
			if e.TimesObjects {
				e.sameTimes("item")
			}
			continue
		}
		listed, headed := e.sameTimes("item")
		e.tick()
		after := e.now()
		if put.Before(before.Add(-e.TimeSlack)) || put.After(after.Add(e.TimeSlack)) {
			e.Errorf("Put of %q tells %v, want between %v and %v, as the listings around it", body, put, before, after)
		}
		for what, t := range map[string]time.Time{"listing": listed, "Head": headed} {
			if d := t.Sub(put).Abs(); d > e.TimeSlack {
				e.Errorf("%s of %q tells %v, Put told %v, want them within %v", what, body, t, put, e.TimeSlack)
			}
		}
	}
}

// sameTimes is what a listing and Head tell of one object that nobody writes meanwhile.
func (e *env) sameTimes(name string) (listed, headed time.Time) {
	e.Helper()
	listed = e.listedTime(name)
	o, err := e.o.Head(e.Context(), e.key(name))
	if err != nil {
		e.Fatalf("Head: %v", err)
	}
	if d := listed.Sub(o.StoreTime).Abs(); d > e.TimeSlack {
		e.Errorf("listing of %q tells %v, Head %v, want them within %v", name, listed, o.StoreTime, e.TimeSlack)
	}
	return listed, o.StoreTime
}

// refresh puts the same body again, until the store's clock has moved on by itself or by Tick.
func refresh(e *env) {
	if !e.timed() {
		return // nothing to tell: storeTime has checked that nothing is told
	}
	for name, body := range map[string]string{"empty": "", "full": "body"} {
		e.put(name, body)
		first := e.listedTime(name)
		const most = 20000 // file clocks tick every few milliseconds, object stores' every second
		for i := 0; ; i++ {
			e.tick()
			put := e.put(name, body)
			listed := e.listedTime(name)
			if e.TellsTime && put.Before(first.Add(-e.TimeSlack)) || listed.Before(first) {
				e.Fatalf("store time of %q ran back: first %v, put again %v, listed %v", name, first, put, listed)
			}
			if listed.After(first) {
				break
			}
			if i == most || e.Tick != nil {
				e.Fatalf("store time of %q is still %v after %d more puts", name, listed, i+1)
			}
		}
		e.wantBody(name, body)
	}
}

func (e *env) tick() {
	if e.Tick != nil {
		e.Tick()
	}
}

// now is the store's clock, as the first page of a listing tells it.
func (e *env) now() time.Time {
	e.Helper()
	var now time.Time
	err := e.o.List(e.Context(), bucket.ListRequest{Prefix: e.prefix}, func(p bucket.Page) error {
		if now.IsZero() {
			now = p.Now
		}
		return nil
	})
	if err != nil {
		e.Fatalf("List: %v", err)
	}
	return now
}

func (e *env) listedTime(name string) time.Time {
	e.Helper()
	for _, o := range e.list(bucket.ListRequest{Prefix: e.prefix + name}) {
		if strings.HasSuffix(string(o.Key), "/"+name) {
			return o.StoreTime
		}
	}
	e.Fatalf("%q is not listed", name)
	return time.Time{}
}
