package gcsd

import (
	"net/http"
	"net/url"
	"strconv"
)

// conditions are the four preconditions of every operation; nil: not given.
type conditions struct {
	match, notMatch, metaMatch, metaNotMatch *int64
}

func fromQuery(q url.Values) (conditions, *failure) {
	return parseConditions(q.Get, "ifGenerationMatch", "ifGenerationNotMatch", "ifMetagenerationMatch", "ifMetagenerationNotMatch")
}

func fromHeader(h http.Header) (conditions, *failure) {
	return parseConditions(h.Get, "X-Goog-If-Generation-Match", "-", "X-Goog-If-Metageneration-Match", "-")
}

func parseConditions(get func(string) string, names ...string) (conditions, *failure) {
	var c conditions
	for i, to := range []**int64{&c.match, &c.notMatch, &c.metaMatch, &c.metaNotMatch} {
		text := get(names[i])
		if text == "" {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return c, fail(400, "invalid", "Invalid value for "+names[i])
		}
		*to = &n
	}
	return c, nil
}

func (c conditions) any() bool { return c != conditions{} }

// of leaves what this server looks at.
func (c conditions) of(lies Lies, ignored bool) conditions {
	if ignored {
		return conditions{}
	}
	if lies.IgnoresMetageneration {
		c.metaMatch, c.metaNotMatch = nil, nil
	}
	return c
}

// check holds the conditions against the live generation, nil if there is none. Generation 0 is the absent one.
func (c conditions) check(o *object) *failure {
	var generation, metageneration int64
	if o != nil {
		generation, metageneration = o.generation, o.metageneration
	}
	if c.match != nil && *c.match != generation || c.metaMatch != nil && (o == nil || *c.metaMatch != metageneration) {
		return fail(412, "conditionNotMet", "At least one of the pre-conditions you specified did not hold.")
	}
	if c.notMatch != nil && *c.notMatch == generation || c.metaNotMatch != nil && o != nil && *c.metaNotMatch == metageneration {
		return &failure{code: 304, reason: "notModified"}
	}
	return nil
}

// forWrite: a write that is not wanted is a failed condition, not an unmodified answer.
func (f *failure) forWrite() *failure {
	if f != nil && f.code == 304 {
		return fail(412, "conditionNotMet", "At least one of the pre-conditions you specified did not hold.")
	}
	return f
}
