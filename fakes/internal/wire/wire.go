// Package wire is what the servers that can lie have in common, whatever protocol they speak: connections that end, paths
// that are cleaned, waiting, and the names of the lies that are told.
package wire

import (
	"fmt"
	"net"
	"net/http"
	"path"
	"reflect"
	"strings"
	"time"
)

// Sever ends the connection of a request without an answer, in good order or by a reset.
func Sever(w http.ResponseWriter, reset bool) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2 resets the stream
	}
	if tcp, ok := conn.(*net.TCPConn); ok && reset {
		tcp.SetLinger(0) // so that closing sends RST
	}
	conn.Close()
}

// Cleaned is the key that a server stores which takes keys for paths: a//b is a/b. A slash at the end stays.
func Cleaned(key string) string {
	clean := strings.TrimPrefix(path.Clean("/"+key), "/")
	if strings.HasSuffix(key, "/") && clean != "" {
		clean += "/"
	}
	return clean
}

// Wait waits for d, or until quit is closed.
func Wait(d time.Duration, quit <-chan struct{}) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-quit:
	}
}

// Told names the fields of a struct that are set, such as "Unsorted PageSize=300".
func Told(lies any) string {
	var told []string
	v := reflect.ValueOf(lies)
	for i := range v.NumField() {
		switch f, name := v.Field(i), v.Type().Field(i).Name; {
		case f.IsZero():
		case f.Kind() == reflect.Bool:
			told = append(told, name)
		default:
			told = append(told, fmt.Sprintf("%s=%v", name, f.Interface()))
		}
	}
	return strings.Join(told, " ")
}
