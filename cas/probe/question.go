package probe

import "slices"

// An ID names a question, and does so for good: it is part of a public format.
type ID string

// The questions.
const (
	PermissionReader   ID = "permission-reader"
	PermissionProducer ID = "permission-producer"
	PermissionJanitor  ID = "permission-janitor"
	WrongSecret        ID = "wrong-secret"
	AbsentBucket       ID = "absent-bucket"

	Date         ID = "date"
	Clock        ID = "clock"
	StoreTime    ID = "store-time"
	LastModified ID = "last-modified"

	Put            ID = "put"
	EmptyPut       ID = "empty-put"
	ReadAfterWrite ID = "read-after-write"

	AbsentObject     ID = "absent-object"
	Versions         ID = "versions"
	VersionKind      ID = "version-kind"
	CreateOnly       ID = "create-only"
	CreateAfter      ID = "create-after-delete"
	CreateOverMarker ID = "create-over-delete-marker"
	IfMatchQuoted    ID = "if-match-quoted"
	IfMatchUnquoted  ID = "if-match-unquoted"
	IfMatch          ID = "if-match"
	IfMatchStale     ID = "if-match-stale"
	IfMatchAbsent    ID = "if-match-absent"
	Impossible       ID = "impossible-condition"
	RacingCreates    ID = "racing-creates"
	RacingIncrements ID = "racing-increments"
	ContendedLatency ID = "contended-latency"
	TornReads        ID = "torn-reads"
	AbsentReads      ID = "absent-reads"
	OvertakenUpload  ID = "overtaken-upload"

	ReadCondition        ID = "read-condition"
	MetadataCondition    ID = "metadata-condition"
	DeleteCondition      ID = "delete-condition"
	BatchDeleteCondition ID = "batch-delete-condition"

	ListAfterWrite ID = "list-after-write"
	ListPrefix     ID = "list-prefix"
	ByteOrder      ID = "byte-order"
	StartAfter     ID = "start-after"
	PageCap        ID = "page-cap"
	URLEncoding    ID = "url-encoding"
	IDKeys         ID = "id-keys"
	ControlKeys    ID = "control-keys"
	PathAliases    ID = "path-aliases"

	Delete      ID = "delete"
	BatchDelete ID = "batch-delete"

	Versioning ID = "versioning"
	SoftDelete ID = "soft-delete"
	Retention  ID = "retention"
	Lifecycle  ID = "lifecycle"
)

// A question is asked so that yes is what indexd would like to hear.
type question struct {
	id       ID
	text     string
	disables []Feature // what a no disables
	mend     string    // how to get a yes
}

// Advice that several questions share.
const (
	conditionsMend = "Use a store, or a version of its server, that honours conditional writes, reached by one way only: no " +
		"second gateway on the same files, no cache or rewriting proxy before it. Markers work here as they are."
	gatewayMend = "Let one gateway serve the bucket, or all of them with the store's own locking (versitygw: without " +
		"--disable-object-lock-file and --sidecar). Markers work here as they are."
	grant = "Grant these credentials what is missing, or use others: docs/buckets.md has a policy for each role."
)

var casOnly = []Feature{CAS}

// questions are in the order of a report.
var questions = []question{
	{PermissionReader, "May these credentials list and read?", []Feature{Markers}, grant},
	{PermissionProducer, "May these credentials write, list and delete, as a producer does?", []Feature{Markers}, grant},
	{PermissionJanitor, "May these credentials list, read, write and delete, as the janitor does?", []Feature{Pruning}, grant},
	{WrongSecret, "Is a wrong secret refused?", nil,
		"Whoever reaches this store may write to it. Turn its authentication on, or keep it to a trusted network."},
	{AbsentBucket, "Is an absent bucket told from an empty one?", nil,
		"A mistyped bucket looks like one in which nothing is running: check the name by hand."},

	{Date, "Does a listing tell the store's clock?", []Feature{Pruning},
		"Let the Date header of the store's answers through the proxy."},
	{Clock, "Do the store's clock and this host's agree within a minute?", nil,
		"Synchronise both by NTP: producers name their items by the host's clock until they have seen the store's."},
	{StoreTime, "Does a listing tell when each object was stored?", []Feature{Pruning},
		"Use a store that tells Last-Modified in its listings: without it nothing can be proved to be old."},
	{LastModified, "Are objects dated by the clock that answers are dated by?", []Feature{Pruning},
		"Synchronise the clocks of the store's machines: ages are the differences of the two."},

	{Put, "Is a write without conditions carried out, and read as it was sent?", []Feature{Markers},
		"Look at what the store, or a proxy before it, answers to a plain PUT."},
	{EmptyPut, "Is an empty object stored as an empty one?", nil,
		"Something on the way adds framing to bodies (aws-chunked, say); markers count all the same, but their labels are lost."},
	{ReadAfterWrite, "Does the next read see an object that was replaced?", nil,
		"Take caches before the bucket out of the way of indexd."},

	{AbsentObject, "Is an absent object answered as an absent one?", casOnly,
		"Grant s3:ListBucket or storage.objects.list: without it these stores answer 403 for what is absent."},
	{Versions, "Does each write have a version of its own, the same in write, read and metadata?", casOnly,
		"Let ETags through as the store tells them: no proxy that compresses, weakens or drops them."},
	{VersionKind, "Is it clear what a version is of?", nil, conditionsMend},
	{CreateOnly, "Is a create refused where there is an object?", casOnly, conditionsMend},
	{CreateAfter, "Can an object be created again after it was deleted?", nil, conditionsMend},
	{CreateOverMarker, "Can an object be created over a delete marker?", nil,
		"Remove the delete marker by hand should a document have been deleted; indexd itself never deletes one."},
	{IfMatchQuoted, "Is a save on the current version carried out, with the ETag as it came?", nil,
		"Nothing needs doing where it works without quotes: indexd then sends it so. Newer versions of Ceph take both."},
	{IfMatchUnquoted, "Is a save on the current version carried out, with the ETag without its quotes?", nil,
		"Nothing needs doing where it works with quotes."},
	{IfMatch, "Is a save on the current version carried out?", casOnly, conditionsMend},
	{IfMatchStale, "Is a save on an older version refused?", casOnly, conditionsMend},
	{IfMatchAbsent, "Is a save on a version refused where there is no object?", casOnly, conditionsMend},
	{Impossible, "Is a condition that cannot hold refused?", casOnly, conditionsMend},
	{RacingCreates, "Does one of many creates at once win, and only one?", casOnly, gatewayMend},
	{RacingIncrements, "Is every acknowledged increment there, of many at once?", casOnly, gatewayMend},
	{ContendedLatency, "Is an update among 32 done within 5 s (99th percentile)?", nil,
		"Have fewer writers to one document, or a faster store; nothing is lost meanwhile."},
	{TornReads, "Does no body come with the version of a later one?", casOnly, gatewayMend},
	{AbsentReads, "Is an object there at every read while it is replaced?", casOnly, gatewayMend},
	{OvertakenUpload, "Is a slow upload refused that a fast one has overtaken?", casOnly, conditionsMend},

	{ReadCondition, "Is a read on an older version refused?", nil, "Nothing needs doing: indexd never asks so."},
	{MetadataCondition, "Is a write on an older state of the metadata refused?", nil, "Nothing needs doing: indexd never asks so."},
	{DeleteCondition, "Is a delete on an older version refused?", nil,
		"Nothing needs doing: indexd never asks so. Other programs should not rely on it here."},
	{BatchDeleteCondition, "Is a delete on an older version refused in a batch?", nil,
		"Nothing needs doing: indexd never asks so. Other programs should not rely on it here."},

	{ListAfterWrite, "Does a listing show each object, once, as soon as it is written?", []Feature{Markers, Pruning},
		"Use a store whose listings are complete and consistent: what they do not show counts as not there."},
	{ListPrefix, "Does a listing keep to its prefix?", nil,
		"Use a store that honours prefixes: each listing reads the whole bucket here."},
	{ByteOrder, "Does a listing come in byte order?", nil, "Nothing needs doing: indexd then reads every listing to its end."},
	{StartAfter, "Can a listing begin after a key?", nil, "Nothing needs doing: indexd then reads every listing from its start."},
	{PageCap, "Has a page as many keys as are asked for, and at most 1,000?", nil,
		"Nothing needs doing; smaller pages cost more requests for each view."},
	{URLEncoding, "Does a listing encode keys when asked to?", nil,
		"Keep keys with control characters out of the bucket: one of them may spoil a whole page."},
	{IDKeys, "Does each key that an item may have stay itself?", []Feature{Markers, Pruning},
		"Use a store that keeps keys as they are, or ids of letters, digits, hyphens and underscores only, in one case."},
	{ControlKeys, "Does a key with a control character stay itself, unless it is refused?", nil,
		"Nothing needs doing: indexd writes no such keys. Keep others from doing so."},
	{PathAliases, "Does a key with empty segments stay itself, unless it is refused?", nil,
		"Nothing needs doing: indexd writes no such keys. Keep others from doing so."},

	{Delete, "Are the objects gone whose deletion was acknowledged, and no others?", []Feature{Pruning},
		"Look at what the store, or a proxy before it, answers to a DELETE, and whether a retention policy holds objects."},
	{BatchDelete, "Are many objects deleted by one request, with an answer for each?", nil,
		"Nothing needs doing: indexd deletes one by one here, which takes longer."},

	{Versioning, "Does the bucket keep no former versions?", nil, versioningMend},
	{SoftDelete, "Does the bucket keep nothing that was deleted?", nil,
		"gcloud storage buckets update gs://BUCKET --clear-soft-delete\n(each finished item is stored, and charged, until then)"},
	{Retention, "May objects be replaced and deleted at any time?", []Feature{Pruning, CAS},
		"Use a bucket without a retention policy or object lock by default."},
	{Lifecycle, "Does no lifecycle rule delete what is below _indexd/?", casOnly,
		"Restrict the rule to other prefixes: documents and blobs below _indexd/ are needed however old they are."},
}

const versioningMend = `Switch versioning off, or let a lifecycle rule remove what was replaced and deleted:
S3: aws s3api put-bucket-lifecycle-configuration --bucket BUCKET --lifecycle-configuration file://rule.json
{"Rules":[{"ID":"indexd","Status":"Enabled","Filter":{},
 "NoncurrentVersionExpiration":{"NoncurrentDays":1},"Expiration":{"ExpiredObjectDeleteMarker":true}}]}
Cloud Storage: gcloud storage buckets update gs://BUCKET --lifecycle-file=rule.json
{"rule":[{"action":{"type":"Delete"},"condition":{"isLive":false,"daysSinceNoncurrentTime":1}}]}`

// rank is the place of a question in a report.
func rank(id ID) int { return slices.IndexFunc(questions, func(q question) bool { return q.id == id }) }
