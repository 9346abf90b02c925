// Package fakes holds decorators over bucket.Objects for tests: Faulty carries out planned faults, Counter counts
// requests. Both are transparent where nothing is planned, which the conformance suite of package bucket checks.
//
// A fault breaks no rule of the contract: whatever Faulty answers, some real store has answered on a bad day. So there
// is no fault that drops a part of a listing and calls it complete, and none that lists an object twice; code that
// copes with those would be coping with a broken driver.
//
// Package fakes/explore searches through all schedules and faults of a few actors; Faulty is for one fault at one place.
// Only tests, other fakes and the tools import any of them.
package fakes
