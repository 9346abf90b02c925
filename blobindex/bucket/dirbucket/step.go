package dirbucket

// Steps of a write that has a body, each told right after what it names, in this order. A crash may come at any of them, and
// tests let it: a kill from outside hits the long ones only.
const (
	stepLocked   = "locked"   // by Save alone
	stepCompared = "compared" // by Save alone
	stepCreated  = "created"  // the file in .indexd/tmp is there, and empty
	stepWritten  = "written"
	stepSynced   = "synced"
	stepRenamed  = "renamed"
	stepDurable  = "durable"
)

func (b *Bucket) step(name string) {
	if b.onStep != nil {
		b.onStep(name)
	}
}
