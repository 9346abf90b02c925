// Package browser holds the page to what people see, in a real Chromium: its tests build the program, run it on loopback over a
// directory, and drive the browser by the DevTools protocol. They run with INDEXD_BROWSER=1, and fail then where there is no
// chromium in the path; `make test-real` runs them so. Screenshots are left in INDEXD_ARTIFACTS, if it is set.
package browser
