package dirbucket

// PretendDevice makes the bucket believe that it has found the directory at path on another device than it is on now, as
// a mount point or as an ordinary directory.
func PretendDevice(b *Bucket, path string, mount bool) {
	b.devices.mu.Lock()
	defer b.devices.mu.Unlock()
	dev := b.devices.plain[path]
	if !mount {
		b.devices.plain[path] = dev + 1
		return
	}
	delete(b.devices.plain, path)
	b.devices.mounts = map[string]dirKey{path: {}}
}

// RememberAtMost bounds for how many directories the bucket remembers that their entries are durable.
func RememberAtMost(b *Bucket, n int) {
	b.syncs.mu.Lock()
	defer b.syncs.mu.Unlock()
	b.syncs.most = n
}

// Remembered is for how many it does.
func Remembered(b *Bucket) int {
	b.syncs.mu.Lock()
	defer b.syncs.mu.Unlock()
	return len(b.syncs.entries)
}

// Steps of a Save, in their order.
var Steps = []string{stepLocked, stepCompared, stepCreated, stepWritten, stepSynced, stepRenamed, stepDurable}

// OnStep has fn called at each of them; set it before the bucket is used.
func OnStep(b *Bucket, fn func(step string)) { b.onStep = fn }
