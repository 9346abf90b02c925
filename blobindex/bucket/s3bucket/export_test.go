package s3bucket

// SetMaxEmptyPages sets how many empty pages in a row a listing may have.
func (b *Bucket) SetMaxEmptyPages(n int) { b.maxEmpty = n }

// SetMaxBody sets how many bytes a body may have.
func (b *Bucket) SetMaxBody(n int64) { b.maxBody = n }
