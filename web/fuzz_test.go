package web

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
)

// What scanJSON lets through is an object of which nothing is lost or changed by reading it.
func FuzzScanJSON(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"a":"b"}`, `{"a":{"b":"c"},"d":[{"e":"f"},["g"]],"h":1}`, `{"a":1,"a":2}`, `{"a":[null]}`, `[]`, `{} {}`,
		`{"a":"\ud83d\ude00"}`, `{"a":"\ud83d"}`, "{\"\xff\":1}", `{"a":[[]]}`, `{"a":{},"b":true}`, `{"a"`, `{"a":]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		members, err := scanJSON(body)
		if err != nil {
			return
		}
		var v map[string]any
		if err := json.Unmarshal(body, &v); err != nil {
			t.Fatalf("%q is let through: %v", body, err)
		}
		slices.Sort(members)
		if keys := slices.Sorted(maps.Keys(v)); !slices.Equal(keys, members) {
			t.Fatalf("%q has the members %q, and %q were found", body, keys, members)
		}
	})
}
