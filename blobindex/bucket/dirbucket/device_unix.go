//go:build unix && !linux

package dirbucket

import (
	"io/fs"
	"syscall"
)

// deviceOf is the number of the file system that holds the file, 0 if it is not told.
func deviceOf(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Dev)
	}
	return 0
}
