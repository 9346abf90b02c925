package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
)

// slowAt is when an update under contention is too slow.
const slowAt = 5 * time.Second

// racingCreates has many create one object at once, through all sites. Each round has a key of its own, so that a store
// which paces writes of one key does not matter: who is asked to be slower has simply not won.
func racingCreates(ctx context.Context, r *run) error {
	open, slower, failed, several, acknowledged := 0, 0, 0, 0, 0
	var why error
	for round := range r.opts.Creates {
		t, err := r.createRound(ctx, r.key(fmt.Sprintf("create/race-%d", round)))
		if err != nil {
			return err
		}
		open, slower, failed, why = open+t.open, slower+t.slower, failed+t.failed, first(why, t.why)
		acknowledged += len(t.winners)
		switch {
		case len(t.winners) > 1:
			several++
		case len(t.winners) == 0 && t.open+t.slower+t.failed == 0:
			r.no(RacingCreates, "none of %d creates of one key won", r.opts.Racers)
		case t.overwritten != "":
			r.no(RacingCreates, "%s", t.overwritten)
		}
	}
	if several > 0 {
		r.no(RacingCreates, "%d of %d rounds of %d creates had several winners", several, r.opts.Creates, r.opts.Racers)
	}
	if acknowledged == 0 {
		r.unsure(RacingCreates, "none was acknowledged")
	}
	r.yes(RacingCreates, "%d rounds of %d creates", r.opts.Creates, r.opts.Racers)
	r.open(RacingCreates, open, r.opts.Creates*r.opts.Racers)
	if failed > 0 {
		r.remark(RacingCreates, "%d creates failed: %s", failed, r.plain(why))
	}
	if slower > 0 {
		r.remark(RacingCreates, "the store asked for slower writes %d times", slower)
	}
	return nil
}

func (r *run) open(id ID, open, of int) {
	if open > 0 {
		r.remark(id, "the outcome of %d of %d writes stayed unknown", open, of)
	}
}

func first(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// A createTally is what became of one round.
type createTally struct {
	winners              []int
	open, slower, failed int
	why                  error  // of one that failed for another reason than that it lost
	overwritten          string // what is there instead of the only winner's
}

func (r *run) createRound(ctx context.Context, key bucket.Key) (t createTally, err error) {
	errs := make([]error, r.opts.Racers)
	r.atOnce(func(i int, s *Site) {
		_, errs[i] = s.Store.Save(ctx, key, racer(i), cas.IfAbsent())
	})
	for i, err := range errs {
		switch {
		case err == nil:
			t.winners = append(t.winners, i)
		case isOfRun(err) || ctx.Err() != nil:
			return t, err
		case errors.Is(err, cas.ErrUnknown) && errors.Is(err, cas.ErrThrottled):
			t.open, t.slower = t.open+1, t.slower+1
		case errors.Is(err, cas.ErrUnknown):
			t.open++
		case errors.Is(err, cas.ErrThrottled):
			t.slower++
		case !errors.Is(err, cas.ErrConflict):
			t.failed, t.why = t.failed+1, err
		}
	}
	if len(t.winners) != 1 {
		return t, nil
	}
	now, ok, err := r.holds(ctx, key, string(racer(t.winners[0])))
	if !ok && err == nil {
		t.overwritten = fmt.Sprintf("%q won, and %.40q is there", racer(t.winners[0]), now.Body)
	}
	return t, err
}

func racer(i int) []byte { return fmt.Appendf(nil, "racer %d", i) }

// atOnce calls do for each racer, all at once, each at the next site.
func (r *run) atOnce(do func(i int, s *Site)) {
	var start, done sync.WaitGroup
	start.Add(1)
	for i := range r.opts.Racers {
		s := r.site()
		done.Go(func() {
			start.Wait()
			do(i, s)
		})
	}
	start.Done()
	done.Wait()
}

// pacedRacers is how many increment one number where the store takes about one write of it a second.
const pacedRacers = 4

// errPaced ends a round that the store would not let through.
var errPaced = errors.New("the store asks for slower writes")

// racingIncrements has many add one to one number at once, through all sites.
func racingIncrements(ctx context.Context, r *run) error {
	if r.is(IfMatch, No) {
		return errors.New("no save on a condition is carried out")
	}
	rounds, racers := r.opts.Increments, r.opts.Racers
	sum := incrementTally{}
	for round := 0; round < rounds; round++ {
		t, err := r.incrementRound(ctx, r.key(fmt.Sprintf("increment/round-%d", round)), racers)
		if errors.Is(err, errPaced) && racers > pacedRacers {
			racers, rounds = pacedRacers, round+2 // once more, and that is all
			r.remark(RacingIncrements, "the store takes few writes of one object a second, so that %d raced", racers)
			continue
		}
		if err != nil {
			return err
		}
		sum.add(t)
	}
	if sum.wrong != "" {
		r.no(RacingIncrements, "%s", sum.wrong)
	}
	if sum.lost > 0 {
		r.no(RacingIncrements, "%d of %d acknowledged increments are not there", sum.lost, sum.acknowledged)
	}
	if sum.acknowledged == 0 {
		r.unsure(RacingIncrements, "none was acknowledged")
	}
	r.yes(RacingIncrements, "%d increments, %d at once", sum.acknowledged, racers)
	r.open(RacingIncrements, sum.open, sum.open+sum.acknowledged)
	r.latency(sum.took, racers)
	return nil
}

// latency judges how long acknowledged increments took, conflicts included.
func (r *run) latency(took []time.Duration, racers int) {
	if len(took) == 0 {
		r.unsure(ContendedLatency, "no increment was acknowledged")
		return
	}
	slices.Sort(took)
	half, most := took[len(took)/2], took[(len(took)*99+99)/100-1]
	seen := fmt.Sprintf("median %s, 99th percentile %s", half.Round(time.Millisecond), most.Round(time.Millisecond))
	if racers != r.opts.Racers {
		r.unsure(ContendedLatency, "the store takes few writes of one object a second: of %d racers, %s", racers, seen)
	} else if most > slowAt {
		r.no(ContendedLatency, "%s", seen)
	}
	r.yes(ContendedLatency, "%s", seen)
}

// An incrementTally is what became of some rounds.
type incrementTally struct {
	acknowledged, open, maybe, lost int
	wrong                           string
	took                            []time.Duration
}

func (t *incrementTally) add(o incrementTally) {
	t.acknowledged, t.open, t.lost = t.acknowledged+o.acknowledged, t.open+o.open, t.lost+o.lost
	t.took = append(t.took, o.took...)
	if t.wrong == "" {
		t.wrong = o.wrong
	}
}

func (r *run) incrementRound(ctx context.Context, key bucket.Key, racers int) (t incrementTally, err error) {
	if _, err := r.create(ctx, key, string(incrementBody(0, "nobody"))); err != nil {
		return t, err
	}
	errs := make([]error, r.opts.Racers)
	all := make([]increment, r.opts.Racers)
	took := make([]time.Duration, r.opts.Racers)
	r.atOnce(func(i int, s *Site) {
		if i >= racers {
			return
		}
		began := r.opts.Now()
		all[i] = increment{r: r, s: s, key: key, who: i, patient: racers <= pacedRacers}
		errs[i] = all[i].run(ctx)
		took[i] = r.opts.Now().Sub(began)
	})
	for i, err := range errs[:racers] {
		t.maybe += all[i].maybe
		switch {
		case err == nil:
			t.acknowledged++
			t.took = append(t.took, took[i])
		case errors.Is(err, errPaced):
			return t, err
		case errors.Is(err, cas.ErrUnknown):
			t.open++
		case errors.Is(err, errNumber):
			t.wrong = r.plain(err)
			return t, nil
		default:
			return t, err
		}
	}
	return t, r.count(ctx, key, &t)
}

// count reads the sum until it can be right, a few times.
func (r *run) count(ctx context.Context, key bucket.Key, t *incrementTally) error {
	for n := 1; ; n++ {
		o, err := r.load(ctx, r.site(), key)
		if err != nil && (n == patience || !errors.Is(err, cas.ErrNotExist)) {
			return err
		}
		sum := -1
		if err == nil {
			sum, err = number(o.Body)
		}
		switch {
		case errors.Is(err, cas.ErrNotExist):
			if over := r.opts.Wait(ctx, settleIn); over != nil {
				return over
			}
		case err != nil:
			t.wrong = r.plain(err)
			return nil
		case sum >= t.acknowledged && sum <= t.acknowledged+t.open+t.maybe:
			return nil
		case n < looks:
			if over := r.opts.Wait(ctx, settleIn); over != nil {
				return over
			}
		case sum < t.acknowledged:
			t.lost = t.acknowledged - sum
			return nil
		default:
			t.wrong = fmt.Sprintf("%d increments were acknowledged, %d may have been made, and the sum is %d", t.acknowledged,
				t.open+t.maybe, sum)
			return nil
		}
	}
}

// errNumber: the body is not one that any racer has written.
var errNumber = errors.New("no number")

// incrementEnd is at the end of a body; one without it was cut.
const incrementEnd = "\nend\n"

// incrementBody is a sum, and whose it is. Its length differs from that of the bodies before and after it, so that one that
// is read with another one's length shows.
func incrementBody(sum int, whose string) []byte {
	return fmt.Appendf(nil, "%d by %s%*s%s", sum, whose, sum%7*1500, "", incrementEnd)
}

// number reads the sum.
func number(body []byte) (int, error) {
	sum, _, _ := strings.Cut(string(body), " ")
	n, err := strconv.Atoi(sum)
	if err != nil {
		return 0, fmt.Errorf("a racer read %.40q: %w", body, errNumber)
	}
	return n, nil
}

// An increment is one racer's.
type increment struct {
	r       *run
	s       *Site
	key     bucket.Key
	who     int
	patient bool // waits as long as the store asks for

	failed int // tries that failed for other reasons than that somebody else was first
	maybe  int // tries that may yet be carried out, although others were made after them
}

// run adds one, on the condition that nobody else has meanwhile, until that holds.
func (x *increment) run(ctx context.Context) error {
	for n := 1; ; n++ {
		o, err := x.load(ctx)
		if err != nil {
			return err
		}
		sum, err := number(o.Body)
		if err != nil {
			return err
		}
		body := incrementBody(sum+1, fmt.Sprintf("%d, try %d", x.who, n))
		_, err = x.s.Store.Save(ctx, x.key, body, cas.IfMatch(o.Version))
		if err != nil && ctx.Err() == nil {
			err = x.settle(ctx, err, o, body)
		}
		pause := rand.N(time.Millisecond << min(n, 6))
		switch {
		case err == nil, ctx.Err() != nil, isOfRun(err), errors.Is(err, errPaced):
			return err
		case errors.Is(err, cas.ErrThrottled):
			pause = time.Second + rand.N(time.Second<<min(n, 3))
		case errors.Is(err, cas.ErrUnknown):
			return err
		case !errors.Is(err, cas.ErrConflict) && !errors.Is(err, cas.ErrNotExist):
			if x.failed++; x.failed == repeats {
				return err
			}
		}
		if n == 100*x.r.opts.Racers {
			return fmt.Errorf("an increment was refused %d times", n)
		}
		if over := x.r.opts.Wait(ctx, pause); over != nil {
			return over
		}
	}
}

// settle looks what became of a try whose outcome is open: nil if it was carried out, ErrUnknown if it cannot be known, and
// else what the next try is to wait for.
func (x *increment) settle(ctx context.Context, err error, base cas.Object, body []byte) error {
	if errors.Is(err, cas.ErrThrottled) && !x.patient {
		x.r.pace()
		return errPaced
	}
	if !errors.Is(err, cas.ErrUnknown) {
		return err
	}
	now, loading := x.load(ctx)
	switch {
	case loading != nil:
		return loading
	case string(now.Body) == string(body):
		return nil
	case now.Version != base.Version:
		return cas.ErrUnknown // others have built on it, or came first
	}
	x.maybe++
	if errors.Is(err, cas.ErrThrottled) {
		return cas.ErrThrottled
	}
	return cas.ErrConflict
}

// errCut: not all of a body was read.
var errCut = errors.New("a body is cut")

// load reads the number. That it may be absent, without a version, or cut for a moment is another question's.
func (x *increment) load(ctx context.Context) (cas.Object, error) {
	for n := 1; ; n++ {
		o, err := x.r.load(ctx, x.s, x.key)
		if err == nil && !bytes.HasSuffix(o.Body, []byte(incrementEnd)) {
			x.r.no(TornReads, "a racer read %d bytes that are not the whole of any body: %.20q", len(o.Body), o.Body)
			err = errCut
		}
		if !errors.Is(err, cas.ErrNotExist) && !errors.Is(err, cas.ErrNoVersion) && !errors.Is(err, errCut) || n == 100 {
			return o, err
		}
		if over := x.r.opts.Wait(ctx, rand.N(20*time.Millisecond)); over != nil {
			return o, over
		}
	}
}
