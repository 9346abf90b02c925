package gcsbucket

// Path is what stands before each key in the name of its object.
func (b *Bucket) Path() string { return b.root }

// SetMaxEmptyPages sets how many empty pages in a row a listing may have.
func (b *Bucket) SetMaxEmptyPages(n int) { b.maxEmpty = n }
