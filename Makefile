# Everything a developer runs. CI runs `go test ./...`, `make check` and `make test-real`.

GO ?= go

.PHONY: check test test-real explore bench generate fmt

test:
	$(GO) test ./...

check: fmt
	$(GO) vet ./...
	$(GO) -C tools vet ./...
	$(GO) -C tools build -o ../bin/staticcheck honnef.co/go/tools/cmd/staticcheck
	bin/staticcheck ./...
	$(MAKE) --no-print-directory generate
	git diff --exit-code -- web/api go.mod go.sum
	$(GO) mod tidy -diff
	GOOS=darwin $(GO) build -o /dev/null ./cmd/indexd
	GOOS=windows $(GO) build -o /dev/null ./cmd/indexd
	$(GO) test -race ./...

fmt:
	@out=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$out" || { echo "not gofmt-ed:"; echo "$$out"; exit 1; }

generate:
	$(GO) generate ./web/api

# As real processes, for a minute, killed at random. Nothing needs to be installed.
test-real:
	INDEXD_SOAK=60s $(GO) test -count=1 -timeout 10m -run 'TestSoak' -v ./cmd/indexd

# The same searches as in `go test`, wider.
explore:
	INDEXD_EXPLORE=50 $(GO) test -count=1 -timeout 30m -v -run 'TestP3_AnySubsetOfAPlan' ./prune
	INDEXD_EXPLORE=2 $(GO) test -count=1 -timeout 30m -v -run 'TestP1_|TestP3_DeclaredDead' ./blobindex

bench:
	$(GO) -C tools run ./bench > docs/performance.md.new
	mv docs/performance.md.new docs/performance.md
