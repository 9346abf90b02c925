// Package dirbucket is a bucket.Objects and a cas.Store in a directory: the embedded default. It owns the layout of that
// directory, what durable means on a file system, and finding out that the directory is no longer the one it was.
//
// # Layout
//
//	<dir>/<key>                  one object: a regular file that holds the body; its store time is its mtime
//	<dir>/.indexd/dirbucket-v1   the stamp: an empty file that makes the directory a bucket; never replaced
//	<dir>/.indexd/clock          an empty file that a listing touches, to read the file system's clock
//	<dir>/.indexd/locks/<xx>     an empty file that Save locks, by the first byte of the SHA-256 of the key
//	<dir>/.indexd/tmp/           bodies on their way; what is older than an hour is a crash's and is removed at Open
//
// A key is its path, byte for byte, so that ls shows and touch makes objects. What a path cannot say is refused with
// bucket.ErrInvalidKey before anything is written: an empty key, empty or dot segments (so no leading, trailing or
// doubled slash), NUL, a segment of more than 255 bytes, a key of more than 4095, a key that is a directory or lies
// below a file or a symbolic link, and whatever lies in .indexd. Only regular files are objects; symbolic links,
// sockets and the like are never followed, listed, replaced or deleted. A listing of what lies below such a link is an
// error (bucket.ErrIncomplete) and no empty one: the objects may well be where it leads. On file systems that fold case
// or normalise Unicode, as those of macOS and Windows do by default, two keys that differ in that only are one object.
//
// # Durability
//
// Put and Delete answer when what they did survives a power cut: a body is written beside the tree, synced and renamed
// into it, and the directory that holds the name is synced, as is each directory above it unless this process has
// synced the entry of the very directory on the way: the same name, inode and time of birth in the same directory.
// Where the file system tells no time of birth, they are synced each time. Concurrent calls share these syncs: one that
// begins after a call has made its change covers it. Directories are made as keys need them and never removed. A crash
// leaves an object old, new or absent, and at most a file in .indexd/tmp.
//
// Linux is the durable platform. The others work, but what their directories promise is not known: macOS needs
// F_FULLFSYNC for more than a hint, which Go uses for files, and Windows cannot sync a directory.
//
// # Losing the directory
//
// A Bucket holds the directory and the stamp that it found when it was opened. Each call looks whether the path still
// leads to both, before it begins and again before it answers. If the directory was removed, replaced or unmounted,
// calls fail with bucket.ErrNotExist (bucket.ErrUnknown where a write was under way) until it is opened anew; none
// makes the directory again, and a listing is never empty for want of it. The held descriptors keep the file system
// busy: close the bucket before unmounting.
//
// A file system may also be mounted on a directory below the root. A Bucket remembers on which device it found each
// directory (of ordinary ones the latest few thousand). If a mount point that it has used is unmounted, or another file
// system mounted there or over an ordinary directory, calls that concern it fail with bucket.ErrNotExist, and a listing
// that would have gone there is never empty or short for it, until the bucket is opened anew. What was unmounted before
// it was used cannot be noticed, nor a bind mount from the same device. An ordinary directory may be removed at any
// time: then its keys are gone.
//
// # Many processes
//
// Any number of processes of one host may use one directory. Network file systems are not meant: they may serve an old
// directory after another host's write.
package dirbucket
