package realservers

func fakeGCSServer() Server {
	return Server{Name: "fake-gcs-server", Protocol: GCS, Sorted: true, Deviations: []Deviation{
		{Agreement, "delete, stale generation", "ok", "DELETE ignores ifGenerationMatch", Always},
		{Agreement, "still there", "404", "the same: the object is gone", Always},
		{Agreement, "delete, right generation", "404", "the same: it was gone before", Always},
		{Agreement, "save, metageneration", "ok", "metageneration conditions are ignored", Always},
		{Agreement, "read, stale generation", "ok", "read preconditions are ignored", Always},
		{Agreement, "read, not this generation", "ok", "read preconditions are ignored", Always},
		{Doctor, "read-condition", "✗ it was carried out", "read preconditions are ignored", Always},
		{Doctor, "metadata-condition", "✗ it was carried out", "metageneration conditions are ignored", Always},
		{Doctor, "delete-condition", "✗ it was carried out", "DELETE ignores ifGenerationMatch", Always},
		{Doctor, "page-cap", "✗ a page had 1001 keys", "a page has as many keys as are asked for", Always},
	}}
}

func gcsemulator() Server {
	return Server{Name: "gcsemulator", Protocol: GCS, Sorted: true, PathKeys: true, Deviations: []Deviation{
		{Agreement, "list, offsets", "a b c d", "StartOffset and EndOffset are ignored", Always},
		{Agreement, "absent bucket", "ok", "an absent bucket is created", Always},
		{Agreement, "read, stale generation", "ok", "read preconditions are ignored", Always},
		{Agreement, "read, not this generation", "ok", "read preconditions are ignored", Always},
		{CAS, "Times", "ModTime is 0001-01-01", "a read does not tell when the object was stored", Always},
		{Doctor, "read-condition", "✗ it was carried out", "read preconditions are ignored", Always},
		{Doctor, "start-after", "✗ 8 keys came where 3 are after it", "StartOffset and EndOffset are ignored", Always},
		{Doctor, "page-cap", "✗ a page had 1001 keys", "a page has as many keys as are asked for", Always},
		{Doctor, "path-aliases", "✗ \"a//b\" cannot be read under its name", "a path that is not clean is stored, and " +
			"whoever asks for it is sent to another one", Always},
		{Doctor, "cleaning up", "left: _indexd/probe/", "the same, so that it cannot be deleted", Always},
		{Bucket, "EmptySegments", "a//b", `"a//b" is stored, and whoever asks for it is redirected to "a/b"`, Always},
	}}
}
