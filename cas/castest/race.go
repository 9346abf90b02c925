package castest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
)

// racers is how many writers meet.
const racers = 32

// racingCreates: of many that create one object exactly one is told that it did, and what is there is its.
func racingCreates(e *env) {
	for range e.c.Creates {
		key := e.key()
		var start, done sync.WaitGroup
		start.Add(1)
		versions := make([]cas.Version, racers)
		errs := make([]error, racers)
		for i := range racers {
			s := e.another()
			done.Go(func() {
				start.Wait()
				versions[i], errs[i] = s.Save(e.Context(), key, fmt.Appendf(nil, "racer %d", i), cas.IfAbsent())
			})
		}
		start.Done()
		done.Wait()
		winners, open := []int{}, 0
		for i, err := range errs {
			switch {
			case err == nil:
				winners = append(winners, i)
			case errors.Is(err, cas.ErrUnknown) || errors.Is(err, cas.ErrThrottled):
				open++
			case !errors.Is(err, cas.ErrConflict):
				e.Errorf("a racing create: %v", err)
			}
		}
		if len(winners) > 1 || len(winners) == 0 && open == 0 {
			e.Fatalf("%d of %d creates of one key won", len(winners), racers)
		}
		if len(winners) == 1 {
			e.want(key, fmt.Sprintf("racer %d", winners[0]), versions[winners[0]])
		}
	}
}

// racingIncrements: no increment that was acknowledged is lost, and none is there that nobody may have made.
func racingIncrements(e *env) {
	for range e.c.Increments {
		key := e.key()
		e.save(key, "0", cas.IfAbsent())
		var acknowledged, open atomic.Int64
		var done sync.WaitGroup
		for range racers {
			s := e.another()
			done.Go(func() {
				switch err := increment(e, s, key); {
				case err == nil:
					acknowledged.Add(1)
				case errors.Is(err, cas.ErrUnknown):
					open.Add(1)
				default:
					e.Errorf("a racing increment: %v", err)
				}
			})
		}
		done.Wait()
		o, err := e.s.Load(e.Context(), key)
		if err != nil {
			e.Fatal(err)
		}
		sum, err := strconv.ParseInt(string(o.Body), 10, 64)
		if least := acknowledged.Load(); err != nil || sum < least || sum > least+open.Load() {
			e.Errorf("the sum is %q; %d increments were acknowledged, and the outcome of %d is unknown", o.Body, least, open.Load())
		}
	}
}

// increment adds one to a number, and stops where the outcome is unknown.
func increment(e *env, s cas.Store, key bucket.Key) error {
	for n := 1; ; n++ {
		o, err := s.Load(e.Context(), key)
		if err != nil {
			return err
		}
		sum, err := strconv.ParseInt(string(o.Body), 10, 64)
		if err != nil {
			return fmt.Errorf("torn: %w", err)
		}
		_, err = s.Save(e.Context(), key, strconv.AppendInt(nil, sum+1, 10), cas.IfMatch(o.Version))
		switch {
		case err == nil, errors.Is(err, cas.ErrUnknown), n > 100*racers:
			return err
		case errors.Is(err, cas.ErrThrottled):
			select {
			case <-e.Context().Done():
				return e.Context().Err()
			case <-time.After(time.Duration(n%7+1) * 200 * time.Millisecond): // the pace that the store asks for
			}
		case !errors.Is(err, cas.ErrConflict):
			return err
		}
	}
}

// tornReads: a body comes with its own version, while writers replace it.
func tornReads(e *env) {
	const last = 60
	key := e.key()
	body := func(i int) string { return strings.Repeat(strconv.Itoa(i%10), 1000+i%7*500) + "," + strconv.Itoa(i) }
	of, saves := map[cas.Version]int{}, map[string]int{} // which save it is of
	v := e.save(key, body(0), cas.IfAbsent())
	of[v], saves[body(0)] = 0, 0
	writing := make(chan struct{})
	type seen struct {
		version cas.Version
		body    string
	}
	var readers sync.WaitGroup
	reads := make([][]seen, 4)
	for i := range reads {
		s := e.another()
		readers.Go(func() {
			for {
				o, err := s.Load(e.Context(), key)
				if err != nil {
					e.Errorf("Load while it is replaced: %v", err)
					return
				}
				reads[i] = append(reads[i], seen{o.Version, string(o.Body)})
				select {
				case <-writing:
					return
				default:
				}
			}
		})
	}
	for i := 1; i <= last; i++ {
		next, err := e.s.Save(e.Context(), key, []byte(body(i)), cas.IfMatch(v))
		if err != nil {
			e.Errorf("Save while it is read: %v", err)
			break
		}
		v = next
		of[v], saves[body(i)] = i, i
	}
	close(writing)
	readers.Wait()
	newer := 0
	for _, some := range reads {
		for _, got := range some {
			version, told := of[got.version]
			body, whole := saves[got.body]
			switch {
			case !told || !whole || body < version:
				e.Fatalf("the version %s (of save %d, known: %t) came with an older body, or none that was saved: %d bytes "+
					"(of save %d, known: %t)", got.version, version, told, len(got.body), body, whole)
			case body > version:
				newer++
			}
		}
	}
	if newer > 0 { // which loses nothing, since a save of it on its version is refused
		e.Errorf("%d versions came with a newer body than they were saved with", newer)
	}
}
