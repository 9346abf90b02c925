package dirbucket

// PretendDevice is a stand-in.
func PretendDevice(b *Bucket, path string, mounted bool) {}
