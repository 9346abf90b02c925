package snapshot

// SetLimits makes parts smaller, and says how much of them is kept in memory, and how many are put at once.
func (s *Snapshot) SetLimits(part int, memory int64, uploads int) {
	s.limit = limits{part, memory, uploads}
}
