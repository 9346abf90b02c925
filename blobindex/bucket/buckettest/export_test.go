package buckettest

import "testing"

// RunStep runs one step on t, which need not be a real test.
func RunStep(t testing.TB, c Config, name string) {
	for _, s := range steps {
		if s.name == name {
			s.run(newEnv(t, c, s.name))
			return
		}
	}
	panic("no step " + name) // a failure of t is what callers hope for
}
