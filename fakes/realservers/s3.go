package realservers

func versitygw() Server {
	return Server{Name: "versitygw", Protocol: S3, Sorted: true, FileTree: true, Deviations: append([]Deviation{
		{Agreement, "batch delete, stale", "200", "a batch delete ignores ETags", Always},
		{Agreement, "list, encoding", "raw x +&", "encoding-type=url is ignored", Always},
		{Agreement, "key a//b", "a/b", "empty segments are dropped", Always},
		{Agreement, "key with 0x01", "raw a\uFFFDb", "control characters are listed as U+FFFD", Always},
		newerBody(),
	}, versitygwDoctor()...)}
}

func newerBody() Deviation {
	return Deviation{CAS, "TornReads", "came with a newer body", "a body comes with the version of the one before it, which " +
		"loses nothing: a save of it is refused", Sometimes}
}

// versitygwDoctor is what the doctor says of every versitygw.
func versitygwDoctor() []Deviation {
	return []Deviation{
		{Doctor, "batch-delete-condition", "✗ it was carried out", "a batch delete ignores ETags", Always},
		{Doctor, "url-encoding", "✗ it was asked to, and says that it does not", "encoding-type=url is ignored", Always},
		{Doctor, "control-keys", "✗ \"\\x01x\" is listed as", "control characters are listed as U+FFFD", Always},
		{Doctor, "path-aliases", "✗ \"a//b\" is \"a/b\" as well", "empty segments are dropped", Always},
		{Doctor, "lifecycle", "? this store does not say", "it has no lifecycle rules", Always},
	}
}

// versitygwTwo are two gateways on one directory, which lock each other out by files, as is their default.
func versitygwTwo() Server {
	return Server{Name: "versitygw, two", Protocol: S3, Sorted: true, FileTree: true, Deviations: append([]Deviation{
		newerBody(),
	}, versitygwDoctor()...)}
}

// versitygwUnlocked are two gateways on one directory with --disable-object-lock-file: each is sound, and both together
// lose races.
func versitygwUnlocked() Server {
	return Server{Name: "versitygw, two unlocked", Protocol: S3, Sorted: true, FileTree: true, Unsound: true, Deviations: append([]Deviation{
		{CAS, "RacingCreates", "creates of one key won", "two gateways do not see each other's writes coming", Always},
		{CAS, "RacingIncrements", "increments were acknowledged", "the same", Sometimes},
		{CAS, "TornReads", "came with an older body|came with a newer body", "the same", Sometimes},
		{CAS, "Linearizable", "is Illegal linearizable", "the same", Sometimes},
		{CAS, "DocumentProcesses", "acknowledged increments are lost", "the same", Sometimes},
		{Doctor, "exit status", "3: cas", "two gateways do not see each other's writes coming", Always},
		{Doctor, "racing-creates", "had several winners", "the same", Always},
		{Doctor, "racing-increments", "increments are not there", "the same", Sometimes},
		{Doctor, "torn-reads", "had an older body", "the same", Sometimes},
	}, versitygwDoctor()...)}
}

// versitygwSidecar keeps ETags in files of their own with --sidecar, which are not replaced at once with the bodies.
func versitygwSidecar() Server {
	return Server{Name: "versitygw, sidecar", Protocol: S3, Sorted: true, FileTree: true, Unsound: true, Deviations: append([]Deviation{
		{CAS, "RacingIncrements", "increments were acknowledged", "an old body comes with a newer ETag", Always},
		{CAS, "TornReads", "came with an older body|came with a newer body", "the same", Sometimes},
		{CAS, "Linearizable", "is Illegal linearizable", "the same", Sometimes},
		{CAS, "DocumentProcesses", "acknowledged increments are lost", "the same", Sometimes},
		{Doctor, "exit status", "3: cas", "ETags are not replaced at once with the bodies", Always},
		{Doctor, "racing-increments", "increments are not there", "an old body comes with a newer ETag", Always},
		{Doctor, "torn-reads", "had an older body", "the same", Sometimes},
	}, versitygwDoctor()...)}
}

func rclone() Server {
	// Which of them take how long was not measured one by one.
	const slow = "they have thousands of keys, with which the suite did not end within 12 minutes on a busy machine"
	const replaced = "a body that is being replaced is cut, breaks off, or comes without an ETag; nothing is lost by it"
	const brokenOff = "not a document|tells no version|unexpected EOF|came with an older body|came with a newer body|object does not exist"
	return Server{Name: "rclone", Protocol: S3, Sorted: true, FileTree: true, Unsound: true, Deviations: []Deviation{
		{Index, "Case_C04_ListingFails", "", slow, NotRun},
		{Index, "Case_C22_PageBoundaries", "", slow, NotRun},
		{Index, "Case_C24_Unsorted", "", slow, NotRun},
		{Index, "Case_C35_Chunks", "", slow, NotRun},
		{Index, "Namespaces", "", slow, NotRun},
		{Index, "P4_TheNewestOfAll", "", slow, NotRun},
		{Index, "Requests", "", slow, NotRun},
		{Bucket, "OddKeys", "\u2421", "U+007F comes back as U+2421; a key that is too long for a file's name is answered with 500 " +
			"and stored as far as it fits", Always},
		{Bucket, "Nested", "400 InvalidRequest", "a key below another one is refused as InvalidRequest, and deleting a " +
			"directory's name answers 500", Always},
		{Bucket, "Concurrent", "unexpected EOF|is gone", "a body that is being replaced breaks off, or is absent for a moment", Sometimes},
		{CAS, "RacingIncrements", brokenOff, replaced, Sometimes},
		{CAS, "TornReads", brokenOff, replaced, Sometimes},
		{CAS, "Linearizable", brokenOff, replaced, Sometimes},
		{CAS, "DocumentProcesses", brokenOff, replaced, Sometimes},
		{Doctor, "exit status", "3: cas", replaced, Sometimes},
		{Doctor, "torn-reads", "✗ a racer read|had an older body", replaced, Sometimes},
		{Doctor, "absent-reads", "reads found nothing", replaced, Sometimes},
		{Agreement, "list, encoding", "x%20%2B%26", "a space is encoded as %20, where AWS has +", Always},
		{Agreement, "key a//b", "InvalidArgument", "empty segments are refused", Always},
	}}
}

// s3rver is the negative control: it breaks order, encoding and conditions, which must be noticed.
func s3rver() Server {
	return Server{Name: "s3rver", Protocol: S3, Unsound: true, Deviations: []Deviation{
		{Bucket, "OddKeys", "outcome unknown", "a key that is too long for a file's name ends the server", Ends},
		{Bucket, "Concurrent", "unexpected EOF|is torn", "a body that is being replaced breaks off, or is of two writers", Sometimes},
		{Index, "Namespaces", "0 times, and it was there all the while", "a listing in pages leaves keys out that sort between a " +
			"directory's name and its slash: of big/ and big-x/", Always},
		{Agreement, "create-only, there", "200", "If-None-Match is ignored", Always},
		{Agreement, "creates, 32 at once", "several won", "the same", Always},
		{Agreement, "match, stale", "200", "If-Match is ignored", Always},
		{Agreement, "match, absent", "200", "If-Match is ignored, and the object created", Always},
		{Agreement, "increments, 16 at once", "some lost", "If-Match is ignored", Always},
		{Agreement, "delete, stale", "200", "If-Match of a delete is ignored", Always},
		{Agreement, "batch delete, stale", "200", "a batch delete ignores ETags", Always},
		{Agreement, "list, order", "unsorted", "directories are listed before what sorts before their slash", Always},
		{Agreement, "list, encoding", "raw x +&", "encoding-type=url is ignored", Always},
		{Agreement, "read, stale", "200", "If-Match of a read is ignored", Always},
		{Agreement, "key a//b", "NotFound", "empty segments are not found again", Always},
		{Agreement, "key with 0x01", "unreadable", "a control character makes the page unreadable", Always},
		{CAS, "CreateExisting", "<nil>, want ErrConflict", "If-None-Match is ignored", Always},
		{CAS, "Stale", "<nil>, want ErrConflict", "If-Match is ignored", Always},
		{CAS, "MatchAbsent", "it was created", "If-Match is ignored, and the object created", Always},
		{CAS, "RacingCreates", "creates of one key won", "If-None-Match is ignored", Always},
		{CAS, "RacingIncrements", "increments were acknowledged", "If-Match is ignored", Always},
		{CAS, "TornReads", "came with an older body|came with a newer body|tells no version|unexpected EOF", "a body that is " +
			"being replaced is of two writers, or breaks off", Sometimes},
		{CAS, "Linearizable", "is Illegal linearizable|tells no version|unexpected EOF", "conditions are ignored", Always},
		{CAS, "DocumentProcesses", "updates failed|acknowledged increments are lost", "the same", Always},
		{Doctor, "exit status", "3: markers pruning cas", "listings leave keys out, and conditions are ignored", Always},
		{Doctor, "wrong-secret", "✗ a listing with a wrong secret was answered", "a wrong secret is not refused", Always},
		{Doctor, "create-only", "✗ a save if absent was answered as carried out", "If-None-Match is ignored", Always},
		{Doctor, "create-over-delete-marker", "? whether the bucket keeps versions", "it does not say whether it keeps versions", Always},
		{Doctor, "if-match-stale", "was answered as carried out", "If-Match is ignored", Always},
		{Doctor, "if-match-absent", "was answered as carried out", "If-Match is ignored, and the object created", Always},
		{Doctor, "impossible-condition", "was answered as carried out", "If-Match is ignored", Always},
		{Doctor, "racing-creates", "had several winners", "If-None-Match is ignored", Always},
		{Doctor, "racing-increments", "increments are not there", "If-Match is ignored", Always},
		{Doctor, "torn-reads", "✗ a racer read|had an older body", "body and ETag are not replaced at once", Sometimes},
		{Doctor, "overtaken-upload", "✗ both saves if absent were acknowledged", "If-None-Match is ignored", Always},
		{Doctor, "read-condition", "✗ it was carried out", "If-Match of a read is ignored", Always},
		{Doctor, "delete-condition", "✗ it was carried out", "If-Match of a delete is ignored", Always},
		{Doctor, "batch-delete-condition", "✗ it was carried out", "a batch delete ignores ETags", Always},
		{Doctor, "list-after-write", "✗ pages of 3 keys lead to", "a listing in pages leaves keys out", Always},
		{Doctor, "url-encoding", "✗ it was asked to, and says that it does not", "encoding-type=url is ignored", Always},
		{Doctor, "control-keys", "spoils the page", "a control character makes the page unreadable", Always},
		{Doctor, "versioning", "? this store does not say", "it does not say whether it keeps versions", Always},
		{Doctor, "lifecycle", "? this store does not say", "it has no lifecycle rules", Always},
	}}
}

func seaweedfs() Server {
	return Server{Name: "SeaweedFS", Protocol: S3, Sorted: true, Deviations: []Deviation{
		{Bucket, "OddKeys", "\t\"a/b\"", "a backslash is taken for a slash", Always},
		{Doctor, "exit status", "3: markers pruning", "the same", Always},
		{Doctor, "id-keys", "\"back/slash\"", "the same", Always},
		{Doctor, "contended-latency", "✗ median", "racing writers wait for each other for seconds", Always},
		{Doctor, "path-aliases", "✗ \"a//b\" is \"a/b\" as well", "empty segments are dropped", Always},
		{Agreement, "key a//b", "a/b", "empty segments are dropped", Always},
	}}
}

func cephRGW() Server {
	return Server{Name: "Ceph RGW", Protocol: S3, Sorted: true, Deviations: []Deviation{
		{Index, "Case_C22_PageBoundaries", "for {List:2", "999 keys come in two pages", Sometimes},
		{Doctor, "if-match-quoted", "✗ it is refused", "If-Match is honoured without the quotes of the ETag only", Always},
		{Doctor, "delete-condition", "✗ it was carried out", "If-Match of a delete is ignored", Always},
		{Doctor, "batch-delete-condition", "✗ it was carried out", "a batch delete ignores ETags", Always},
		{Agreement, "match", "PreconditionFailed", "If-Match is honoured without the quotes of the ETag only", Always},
		{Agreement, "match, absent", "PreconditionFailed", "If-Match of an absent key is answered with 412", Always},
		{Agreement, "delete, stale", "200", "If-Match of a delete is ignored", Always},
		{Agreement, "batch delete, stale", "200", "a batch delete ignores ETags", Always},
		{Agreement, "list, encoding", "x%20%2B%26", "a space is encoded as %20, where AWS has +", Always},
		{Agreement, "key with 0x01", "ctl%2Fa%01b", "slashes of listed keys are encoded, too", Always},
	}}
}

// gofakes3 is a library, whose memory backend was tried in a process; tools/testreal does not start it.
func gofakes3() Server {
	return Server{Name: "gofakes3", Protocol: S3, Deviations: []Deviation{
		{Agreement, "match, absent", "PreconditionFailed", "If-Match of an absent key is answered with 412", Always},
		{Agreement, "delete, stale", "200", "If-Match of a delete is ignored", Always},
		{Agreement, "batch delete, stale", "200", "a batch delete ignores ETags", Always},
		{Agreement, "list, encoding", "raw x +&", "encoding-type=url is ignored", Always},
		{Agreement, "key with 0x01", "raw a\uFFFDb", "control characters are listed as U+FFFD", Always},
	}}
}
