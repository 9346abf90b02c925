package openbucket

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A Location is a bucket's address, checked.
type Location struct {
	address string
	scheme  string // file, mem, s3, gs

	path   string // file: the directory; s3, gs: what everything lives below, without slashes around it
	bucket string // s3, gs

	endpoint    string
	region      string
	virtualHost bool
}

// Scheme is file, mem, s3 or gs.
func (l *Location) Scheme() string { return l.scheme }

// Dir is the directory of a bucket that is one; of others it is empty.
func (l *Location) Dir() string {
	if l.scheme != "file" {
		return ""
	}
	return l.path
}

// String is the address as it was given; it holds no secret.
func (l *Location) String() string { return l.address }

// Cloud says that Amazon or Google themselves are asked, who charge for requests, and not a server that the address or
// the environment names.
func (l *Location) Cloud() bool {
	switch l.scheme {
	case "s3":
		return l.endpoint == "" && os.Getenv("AWS_ENDPOINT_URL") == "" && os.Getenv("AWS_ENDPOINT_URL_S3") == ""
	case "gs":
		return l.endpoint == "" && os.Getenv("STORAGE_EMULATOR_HOST") == ""
	}
	return false
}

// Parse checks an address. It asks nothing of any bucket; its errors wrap ErrAddress and say what to write instead.
func Parse(address string) (*Location, error) {
	l := &Location{address: address}
	scheme, rest, isURL := strings.Cut(address, "://")
	if !isURL {
		scheme = "file"
	}
	l.scheme = scheme
	var err error
	switch {
	case !isURL:
		err = l.directory(address)
	case scheme == "file":
		err = l.fileURL(address)
	case scheme == "mem" && rest == "":
	case scheme == "mem":
		err = wrong("%.200q: memory has no name; write mem://", address)
	case scheme == "s3", scheme == "gs":
		err = l.remote(address)
	default:
		err = wrong("the scheme %.40q has no driver here; write file:///dir, s3://bucket, gs://bucket or mem://", scheme)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

func wrong(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrAddress, fmt.Errorf(format, args...))
}

func (l *Location) fileURL(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return wrong("%.200q is no file URL; write file:///dir, with three slashes", address)
	}
	if err := l.named(u.Path, address); err != nil {
		return err
	}
	l.path = u.Path
	return nil
}

// directory takes a path that cannot be taken for anything else.
func (l *Location) directory(dir string) error {
	if !filepath.IsAbs(dir) && !strings.HasPrefix(dir, "./") && !strings.HasPrefix(dir, "../") {
		return wrong("%.200q; write file:///dir, ./dir for a directory here, s3://bucket or gs://bucket", dir)
	}
	l.path = dir
	return l.named(dir, dir)
}

// named refuses what an unset variable leaves of a path, like an empty prefix.
func (l *Location) named(dir, address string) error {
	if clean := filepath.Clean(dir); strings.TrimSpace(dir) == "" || clean == "." || clean == filepath.Dir(clean) {
		return wrong("%.200q names no directory of its own; write file:///dir, or ./dir for a directory here", address)
	}
	if strings.Contains(dir, "\x00") {
		return wrong("%.200q has a NUL in its path", address)
	}
	return nil
}

// remote takes s3://bucket/path?… and gs://bucket/path?…. Its errors quote nothing that may be a secret: whoever puts
// one into an address puts it before an @, or into a parameter.
func (l *Location) remote(address string) error {
	u, err := url.Parse(address)
	switch {
	case strings.Contains(strings.SplitN(address, "?", 2)[0], "@"):
		return wrong("a %s address takes no user or password; give credentials as the store's own tools take them",
			l.scheme)
	case err != nil || u.Fragment != "" || u.Opaque != "":
		return wrong("this is no %s URL; write %s://bucket/path", l.scheme, l.scheme)
	case u.Host == "" || strings.ContainsAny(u.Host, ":% "):
		return wrong("%s names no bucket; write %s://bucket", l.scheme+"://"+u.Host, l.scheme)
	}
	l.bucket = u.Host
	if l.path, err = cleanPath(u.Path); err != nil {
		return err
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return wrong("what follows the ? in the %s address is no list of name=value", l.scheme)
	}
	return l.parameters(query)
}

// cleanPath drops leading, trailing and doubled slashes, as a prefix of an index has it.
func cleanPath(path string) (string, error) {
	var names []string
	for _, name := range strings.Split(path, "/") {
		switch {
		case name == "":
			continue
		case name == ".", name == "..", strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
			return "", wrong("the path %.200q has the segment %.80q, which no store keeps as it is", path, name)
		}
		names = append(names, name)
	}
	return strings.Join(names, "/"), nil
}

// parameters takes what follows the question mark.
func (l *Location) parameters(query url.Values) error {
	known := map[string]func(string) error{"endpoint": l.setEndpoint}
	if l.scheme == "s3" {
		known["region"] = l.setRegion
		known["path_style"] = l.setPathStyle
	}
	var names []string
	for name := range query {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		set := known[name]
		switch {
		case set == nil && l.scheme == "s3":
			return wrong("an s3 address has no parameter %.40q; it takes endpoint, region and path_style", name)
		case set == nil:
			return wrong("a gs address has no parameter %.40q; it takes endpoint", name)
		case len(query[name]) > 1:
			return wrong("the parameter %s is given twice", name)
		}
		if err := set(query.Get(name)); err != nil {
			return err
		}
	}
	return nil
}

func (l *Location) setEndpoint(v string) error {
	u, err := url.Parse(v)
	if err == nil && u.User != nil {
		return wrong("an endpoint takes no user or password; give credentials as the store's own tools take them")
	}
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" ||
		u.RawQuery != "" || u.Fragment != "" {
		return wrong("the endpoint is not of the form http://host:port or https://host")
	}
	l.endpoint = u.Scheme + "://" + u.Host
	return nil
}

func (l *Location) setRegion(v string) error {
	if v == "" || strings.ContainsFunc(v, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && (r < 'A' || r > 'Z') && r != '_'
	}) {
		return wrong("%.40q is no name of a region; write region=eu-west-1, say", v)
	}
	l.region = v
	return nil
}

func (l *Location) setPathStyle(v string) error {
	switch v {
	case "true":
	case "false":
		l.virtualHost = true
	default:
		return wrong("path_style is %.40q; write true or false", v)
	}
	return nil
}
