// Package realservers lists in what real servers were seen to differ from what Amazon and Google document, and what a
// driver has to be told of them. It is the one place for that. The wire fakes are held to it, so that their lies are those
// of real servers, and tools/testreal, which runs the tests on the servers, fails where one of them deviates otherwise and
// where one no longer does.
//
// It is no fake itself: it has data only, for tests and tools.
package realservers

// A Protocol is what a server speaks.
type Protocol string

// The protocols.
const (
	S3  Protocol = "S3"
	GCS Protocol = "Google Cloud Storage"
)

// A Suite is a group of tests that servers are put to. Its cases are subtests.
type Suite string

// The suites.
const (
	Bucket    Suite = "bucket"    // the contract of package bucket, by the driver: its TestReal
	Agreement Suite = "agreement" // what the wire fake does too: its TestReal
	Index     Suite = "blobindex" // the behaviour of the index: TestReal of package blobindex
	CAS       Suite = "cas"       // conditional writes by the driver, and processes that change one document: TestReal of openbucket
	Doctor    Suite = "doctor"    // what indexd doctor says of it, a case for each of its questions
	Soak      Suite = "soak"      // real processes that are killed at random: TestSoak of cmd/indexd
	Manifest  Suite = "manifest"  // real processes that change one manifest through a faulty wire: TestManifestSoak of cmd/indexd
	Snapshot  Suite = "snapshot"  // real processes that publish and read one snapshot: TestSnapshotSoak of cmd/indexd
	ByHand    Suite = "by hand"   // clients that are not ours
)

// A Server is one that the tests are run on.
type Server struct {
	Name     string
	Protocol Protocol

	Sorted   bool // lists in byte order
	FileTree bool // keys are paths: none lies below another
	PathKeys bool // gcsbucket.Options.PathKeys is needed

	// Unsound says that what races for one object comes out in ways that vary from run to run: a body that is being replaced
	// is cut, of two writers or absent, or conditions do not hold. There a case that is a race may pass or fail in any way,
	// and where it is listed to fail always, in one of three runs.
	Unsound bool

	Deviations []Deviation
}

// A Deviation is one case in which a server is known to fail.
type Deviation struct {
	Suite Suite
	Case  string // name of the subtest, as the code gives it
	// Seen is what the case then reports: of Agreement the answer, of the others some of the words, or one of several
	// with bars between them, where it is a race that shows in several ways. Of Doctor it begins with the sign of the
	// answer.
	Seen string
	Why  string // in words
	How  Manner
}

// A Manner says when a deviation shows.
type Manner int

const (
	Always    Manner = iota // passing the case is an error, too
	Sometimes               // it is a race, which is won now and then
	Ends                    // always, and it ends the server, so that the case is run on one of its own
	NotRun                  // it is not known, because the case would take the server too long
)

// Find returns the server of that name.
func Find(name string) (Server, bool) {
	for _, s := range All() {
		if s.Name == name {
			return s, true
		}
	}
	return Server{}, false
}

// Answers returns what the server answers in each case of Agreement where that is not what is documented.
func (s Server) Answers() map[string]string {
	answers := map[string]string{}
	for _, d := range s.Deviations {
		if d.Suite == Agreement {
			answers[d.Case] = d.Seen
		}
	}
	return answers
}

// All returns every server, in the order in which they are reported.
func All() []Server {
	return []Server{
		versitygw(), versitygwTwo(), versitygwUnlocked(), versitygwSidecar(), rclone(), s3rver(), fakeGCSServer(), gcsemulator(),
		seaweedfs(), cephRGW(), gofakes3(),
	}
}

// races are the cases in which several want one object at once.
var races = map[Suite][]string{
	Bucket:    {"Concurrent"},
	Agreement: {"creates, 32 at once", "increments, 16 at once"},
	CAS:       {"RacingCreates", "RacingIncrements", "TornReads", "Linearizable", "DocumentProcesses"},
	Doctor:    {"racing-creates", "racing-increments", "torn-reads", "absent-reads", "overtaken-upload", "contended-latency"},
}

// Races returns the cases of a suite in which several want one object at once.
func Races(suite Suite) []string { return races[suite] }

// Vary is what a race shows on a server that is unsound, if nothing else is listed.
func Vary(suite Suite, name string) Deviation {
	return Deviation{suite, name, "", "what races for one object comes out in ways that vary", Sometimes}
}

// Busy is what any server may show: it is of the machine.
func Busy() Deviation {
	return Deviation{Doctor, "contended-latency", "✗ median", "on a busy machine, an update waits for seconds", Sometimes}
}
