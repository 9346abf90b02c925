// Package explore searches every schedule of a few actors on one object store, each fault included, for one that
// breaks a promise. It runs production code: an actor is a function that is handed a bucket.Objects, or the same with
// conditional writes, a clock, a source of randomness and crash points by its Env, and that runs in goroutines inside
// a testing/synctest bubble. It is a test tool; only tests and other fakes import it.
//
// # Steps
//
// A goroutine of an actor stops at each request to the store, at each reading of the clock (Env.Now) and at each
// Env.Point. One page of a listing is one request; so is one key of a Delete, since no store promises that a batch
// happens at once. When every goroutine of the bubble is durably blocked, the scheduler picks one of the pending
// requests and what becomes of it: it is carried out and answered, or one of the faults of the scenario strikes (see
// Fault), at most Scenario.MaxFaults of them in one run. Then that actor runs on to its next stop. What the code does
// between two stops touches nothing that another actor can see, so that nothing is lost by not interrupting it there.
//
// The store is strict: a request has its effect at one instant, a later request sees it. The clock stands still
// unless an actor made by Clock moves it; store times, Page.Now and Env.Now all come from it.
//
// # Search
//
// The search is depth first. A state is the bytes of the store (keys, bodies, store times), its clock, the requests
// that are still on their way (AppliedLate), the faults so far (kind and actor), the time that has passed in the
// bubble, and per actor a digest of its requests and of the answers they got, in order. Two prefixes that arrive at
// equal states have equal futures: the store is a function of the first four, and an actor, which sees the world
// through its answers alone, is a function of the last two. So only the first of them is followed. An actor that
// is finished or crashed has no future; of it only what Check can see counts (observations and the text of its
// error). Commuting requests are not reordered: no reduction rests on a notion of independence.
//
// No goroutine can be copied, so a state is reached by running its choices from the start in a fresh bubble. For the
// same reason that equal states may be merged, this is needed only when an actor has been told what it has not been
// told in any run before, or when all actors wait for time to pass: else the answer of the store and the known
// behaviour of the actor give the next state. Runs grow with the actors' own histories and not with their product.
//
// All of this needs code that is a function of its answers. That is checked and not believed: each end state, the first
// 2,000 other states and one in 256 of the rest are reached by a real run too, and in every run an actor that was told
// the same must ask for the same and have observed the same as in all runs before; else the search fails
// ("scenario is not deterministic"). Scenario.Unmerged does without all of it, and the tests of this package hold the
// one search to the other.
//
// # Limits
//
//   - It proves what it says for the given actors, page size and number of faults, on a store as strict as above.
//     A store whose listing is a snapshot, or goes by another order than the two that there are, is not explored.
//   - Actors must share no memory; they stand for processes. What they share is not part of the state, and it is found
//     out only where it makes one of two runs differ.
//   - A timer of the bubble (time.Sleep, a context's deadline) fires only when no request is pending; timers do not race
//     requests.
//   - A request that is abandoned by its own context is not carried out. AppliedLate is the fault for those that are.
//   - A goroutine that waits for a sync.Mutex is not durably blocked: an actor must not hold one across a request while
//     another of its goroutines wants it, or the run hangs until the test's deadline.
//   - Two pending requests of one actor must differ, since nothing else can name them; equal ones fail the run.
//   - Two errors of the same text are one to the search, when an actor ends with them.
package explore
