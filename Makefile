# Everything a developer runs. CI runs `go test ./...`, `make check` and `make test-real`.

GO ?= go

.PHONY: check test test-real test-real-more compatibility testreal explore mutate-cas bench generate fmt

test:
	$(GO) test ./...

# Searches of schedules, each of seconds to a minute. In them one goroutine goes at a time, from request to request, so that the
# race detector has little to see, and makes them take five times as long: `make test` runs them without it.
SEARCHES = ^TestP8_(WriterAndGC|TwoWriters|TwoWritersAndGC|Hasty|TwoCollectors|RemoveBesideGC|Absent|Planted)$$|$\
	^TestP9_(TwoPublishers|Unchanged|Late|Reader|ReaderOfParts|FirstPublication|Alone|Pages|Planted)$$|$\
	^TestP10_(Takeover|Break|Deleted|ClockSteps|Planted|Passes|PassesBesideProducers)$$

check: fmt
	$(GO) vet ./...
	$(GO) -C tools vet ./...
	$(GO) -C tools test ./...
	$(GO) -C tools build -o ../bin/staticcheck honnef.co/go/tools/cmd/staticcheck
	bin/staticcheck ./...
	$(MAKE) --no-print-directory generate
	git diff --exit-code -- web/api go.mod go.sum
	$(GO) mod tidy -diff
	$(GO) build -tags disable_grpc_modules -o /dev/null ./cmd/indexd
	GOOS=darwin $(GO) build -o /dev/null ./cmd/indexd
	GOOS=windows $(GO) build -o /dev/null ./cmd/indexd
	$(GO) test -race -timeout 20m -skip '$(SEARCHES)' ./...

fmt:
	@out=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$out" || { echo "not gofmt-ed:"; echo "$$out"; exit 1; }

generate:
	$(GO) generate ./web/api

# On a directory as real processes: many that change one document, some that are killed at random, for a minute, some that
# change one manifest, for a minute and a half, some that want one lease, some that prune one index, 5,000 clients that come to
# a stream and go, and some that publish and read one snapshot, for a minute; then on real servers,
# which are installed below $INDEXD_SERVERS, by default in the user's cache directory. It wants node with npm, curl, the AWS CLI
# and Python's boto3: apt-get install curl awscli python3-boto3. Behind a real nginx: apt-get install nginx.
test-real: testreal
	INDEXD_PROCESSES=32 $(GO) test -count=1 -timeout 10m -run 'TestProcesses_Increments' -v ./blobindex/bucket/dirbucket
	INDEXD_SOAK=60s $(GO) test -count=1 -timeout 10m -run 'TestSoak' -v ./cmd/indexd
	INDEXD_MANIFEST_SOAK=90s $(GO) test -count=1 -timeout 10m -run 'TestManifestSoak' -v ./cmd/indexd
	INDEXD_TIMED=1 $(GO) test -count=1 -timeout 10m -parallel 6 -run 'TestProcesses_Lease' -v ./cas/lease
	INDEXD_TIMED=1 $(GO) test -count=1 -timeout 15m -run 'TestProcesses_Prune' -v ./cmd/indexd
	INDEXD_TIMED=1 $(GO) test -count=1 -timeout 10m -run 'TestCase_C49_ManyClients' -v ./web
	INDEXD_SNAPSHOT_SOAK=60s $(GO) test -count=1 -timeout 10m -run 'TestSnapshotSoak' -v ./cmd/indexd
	INDEXD_NGINX=1 $(GO) -C tools test -count=1 -timeout 10m -v ./nginx
	bin/testreal

# Servers too that take long to install; Ceph comes from Debian: apt-get install --no-install-recommends radosgw ceph-mon
# ceph-osd ceph-common.
test-real-more: testreal
	bin/testreal -more

# Writes docs/compatibility.md, of the servers of test-real.
compatibility: testreal
	bin/testreal -out docs/compatibility.md

testreal:
	$(GO) -C tools build -o ../bin/testreal ./testreal

# The same searches as in `go test`, wider.
explore:
	INDEXD_EXPLORE=50 $(GO) test -count=1 -timeout 30m -v -run 'TestP3_AnySubsetOfAPlan' ./prune
	INDEXD_EXPLORE=40 $(GO) test -count=1 -timeout 30m -v -run 'TestP7_InAStorm' ./cas
	INDEXD_EXPLORE=2 $(GO) test -count=1 -timeout 30m -v -run 'TestP1_|TestP3_DeclaredDead' ./blobindex
	INDEXD_EXPLORE=2 $(GO) test -count=1 -timeout 60m -v -run 'TestP8_' ./cas/manifest
	INDEXD_EXPLORE=1 $(GO) test -count=1 -timeout 60m -v -run 'TestP10_' ./cas/lease
	INDEXD_EXPLORE=2 $(GO) test -count=1 -timeout 60m -v -run 'TestP10_Passes' ./prune/janitor
	INDEXD_EXPLORE=1 $(GO) test -count=1 -timeout 60m -v -run 'TestP9_' ./cas/snapshot

# Breaks compare-and-swap in one way after the other, in a copy, and prints which test notices; some minutes. What is broken
# and how is in tools/mutatecas/mutants.
mutate-cas:
	$(GO) -C tools run ./mutatecas

bench:
	$(GO) -C tools run ./bench > docs/performance.md.new
	mv docs/performance.md.new docs/performance.md
