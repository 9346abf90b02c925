// Package resolve holds the resolvers that tell what has become of an item: Marker reads the labels in the marker's
// body, State a JSON document that the job itself keeps in the bucket. An application may bring its own
// blobindex.Resolver instead.
package resolve
