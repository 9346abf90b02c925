package blobindex_test

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// deviationsOf returns the keys that a kind of store, or a server, cannot hold. Of several that fit a key the first counts.
func deviationsOf(name string) []deviation {
	refuses := func(why string, of func(key string) bool) deviation {
		return deviation{why, refused, func(key string, _ []string) bool { return of(key) }}
	}
	noUTF8 := refuses("a key that is not UTF-8", func(key string) bool { return !utf8.ValidString(key) })
	dots := refuses("a dot segment", func(key string) bool { return hasSegment(key, isDots) })
	switch name {
	case "s3":
		return []deviation{noUTF8, dots}
	case "s3 elsewhere":
		return []deviation{
			noUTF8, dots,
			refuses("an empty segment, which the driver trusts no server with that was not proved to keep it",
				func(key string) bool { return strings.Contains(key, "//") }),
			refuses("a control character, of the same kind", func(key string) bool {
				return strings.ContainsFunc(key, func(r rune) bool { return r < ' ' })
			}),
		}
	case "gs":
		return []deviation{
			noUTF8, refuses("a line end", func(key string) bool { return strings.ContainsAny(key, "\r\n") }),
		}
	case "directory":
		return []deviation{
			dots,
			refuses("a segment without a name, at the end too", func(key string) bool {
				return hasSegment(key, func(s string) bool { return s == "" })
			}),
			longSegment(refused),
			{"a name that is a directory, or below a file", refused, inTheWay},
		}
	}
	return nil
}

// inTheWay: one of the others is a path below the key, or the key is one below it.
func inTheWay(key string, others []string) bool {
	for _, other := range others {
		if strings.HasPrefix(other, key+"/") || strings.HasPrefix(key, other+"/") {
			return true
		}
	}
	return false
}

// slashTwin: one of the others is the key with a slash at its end, or without.
func slashTwin(key string, others []string) bool {
	return slices.Contains(others, key+"/") || strings.HasSuffix(key, "/") && slices.Contains(others, strings.TrimSuffix(key, "/"))
}

// longSegment is longer than the name of a file may be.
func longSegment(f fate) deviation {
	return deviation{"a segment of more than 255 bytes", f, func(key string, _ []string) bool {
		return hasSegment(key, func(s string) bool { return len(s) > 255 })
	}}
}

func isDots(segment string) bool { return segment == "." || segment == ".." }

// realServers are the servers that TestReal knows, with what each cannot hold, as seen on 2026-11-30. The one without a
// name is the service of the address's scheme.
func realServers() map[string][]deviation {
	elsewhere := func(more ...deviation) []deviation { return append(deviationsOf("s3 elsewhere"), more...) }
	return map[string][]deviation{
		"":          nil,
		"versitygw": elsewhere(longSegment(refused), deviation{"a name that is a directory, or below a file", refused, inTheWay}),
		// A name that is too long is answered with 500, and listed all the same.
		"rclone":   elsewhere(longSegment(stuck), deviation{"a name that is a directory, or below a file", refused, inTheWay}),
		"s3rver":   elsewhere(longSegment(deadly)),
		"Ceph RGW": elsewhere(),
		"SeaweedFS": elsewhere(longSegment(refused), deviation{
			"a name with and without a slash at its end: one takes the place of the other", deadly, slashTwin,
		}),
		"fake-gcs-server": deviationsOf("gs"),
		"gcsemulator": append(deviationsOf("gs"), deviation{
			"a path that is not clean: it is stored and listed, and who asks for it is sent to another one", stuck,
			func(key string, _ []string) bool { return strings.Contains(key, "//") || hasSegment(key, isDots) },
		}),
	}
}
