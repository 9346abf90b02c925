package blobindex_test

import "testing"

// A behaviour is a test of how an index behaves, whatever the store is.
type behaviour struct {
	test string // its name as a test on the stores that a process can have by itself
	on   func(t *testing.T, s *site)
	// far: it makes thousands of requests, and is run on real servers and in memory; what it does to a driver, the
	// drivers' own tests do on fakes.
	far bool
}

func behaviours() []behaviour {
	return []behaviour{
		{test: "TestCards_DeadUncovers", on: checkCardsDeadUncovers},
		{test: "TestCards_Filters", on: checkCardsFilters},
		{test: "TestCase_C04_ListingFails", on: checkC04ListingFails, far: true},
		{test: "TestCase_C07_NoBoundary", on: checkC07NoBoundary},
		{test: "TestCase_C10_Overlap", on: checkC10Overlap},
		{test: "TestCase_C17_FromTheFuture", on: checkC17FromTheFuture},
		{test: "TestCase_C22_PageBoundaries", on: checkC22PageBoundaries},
		{test: "TestCase_C24_Unsorted", on: checkC24Unsorted, far: true},
		{test: "TestCase_C26_HostileKey", on: checkC26HostileKey},
		{test: "TestCase_C27_Encoding", on: checkC27Encoding},
		{test: "TestCase_C34_PerKeyErrors", on: checkC34PerKeyErrors},
		{test: "TestCase_C34_SweeperRetriesLater", on: checkC34SweeperRetriesLater},
		{test: "TestCase_C35_Chunks", on: checkC35Chunks},
		{test: "TestCase_C39_EmptyPrefix", on: checkC39EmptyPrefix},
		{test: "TestCase_C40_Separators", on: checkC40Separators},
		{test: "TestCase_C44_HealthyLongJob", on: checkC44HealthyLongJob},
		{test: "TestCase_CopiedBucket", on: checkCopiedBucket},
		{test: "TestCase_CrashLooper", on: checkCrashLooper},
		{test: "TestCase_HalfAPlan", on: checkHalfAPlan},
		{test: "TestCase_ResolvedTooEarly", on: checkResolvedTooEarly},
		{test: "TestCase_SkewedProducer", on: checkSkewedProducer},
		{test: "TestCase_SkewedProducer_Heartbeat", on: checkSkewedProducerHeartbeat},
		{test: "TestCase_SkewedRerun", on: checkSkewedRerun},
		{test: "TestCase_SkewedRerun_HiddenNotDeleted", on: checkSkewedRerunHiddenNotDeleted},
		{test: "TestExplain", on: checkExplain},
		{test: "TestExplain_Future", on: checkExplainFuture},
		{test: "TestExplain_WhenItShows", on: checkExplainWhenItShows},
		{test: "TestFinish_ExactKeys", on: checkFinishExactKeys},
		{test: "TestFlatIndex", on: checkFlatIndex},
		{test: "TestHeartbeat_HostBehind", on: checkHeartbeatHostBehind},
		{test: "TestLabels", on: checkLabels},
		{test: "TestListing_TooLong", on: checkListingTooLong},
		{test: "TestNamespaces", on: checkNamespaces},
		{test: "TestP1_RegisterIsOnePut", on: checkP1RegisterIsOnePut},
		{test: "TestP2_AgeNeedsNoResolve", on: checkP2AgeNeedsNoResolve},
		{test: "TestP2_AtTheCutoff", on: checkP2AtTheCutoff},
		{test: "TestP3_NoClockNoDelete", on: checkP3NoClockNoDelete},
		{test: "TestP3_OnlyTheProvenDead", on: checkP3OnlyTheProvenDead},
		{test: "TestP3_WrongClock", on: checkP3WrongClock},
		{test: "TestP4_TheNewestOfAll", on: checkP4TheNewestOfAll, far: true},
		{test: "TestP5_BoundedCost", on: checkP5BoundedCost},
		{test: "TestPass_MaxDeletes", on: checkPassMaxDeletes},
		{test: "TestRecent", on: checkRecent},
		{test: "TestRequests", on: checkRequests},
	}
}

// onStores runs the behaviour that the test is named for on each store that is near.
func onStores(t *testing.T) {
	t.Helper()
	for _, b := range behaviours() {
		if b.test != t.Name() {
			continue
		}
		sites := nearSites()
		if b.far {
			sites = []*site{inMemory()}
		}
		for _, s := range sites {
			t.Run(s.name, func(t *testing.T) { b.on(t, s) })
		}
		return
	}
	t.Fatal("this is none of the behaviours, and would not run on a real server")
}
