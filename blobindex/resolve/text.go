package resolve

import (
	"net/url"
	"strings"
	"unicode/utf8"
)

// maxText is the most bytes of a title or an owner that a card takes over.
const maxText = 256

// text returns s as valid UTF-8 of at most maxText bytes.
func text(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= maxText {
		return s
	}
	cut := maxText
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}

// link returns s if it is an absolute http or https URL without user information, else "": what a producer writes ends
// up in a page's link.
func link(s string) string {
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || len(s) > 1024 {
		return ""
	}
	return u.String()
}
