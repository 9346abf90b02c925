// Package openbucket finds the driver for a bucket's address. It owns the form of addresses and where endpoints and
// credentials come from; what is done with a bucket is left to the drivers.
//
//	file:///dir                a directory; also /dir, ./dir and ../dir
//	mem://                     memory of this process, a new and empty bucket for each Open
//	s3://bucket[/path]?…       Amazon S3, or what speaks its protocol at the endpoint
//	gs://bucket[/path]?…       Google Cloud Storage, or what speaks its protocol at the endpoint
//
// Everything lives below the path, if there is one. The parameters of s3 are
//
//	endpoint=URL        such as http://127.0.0.1:7070, asked instead of AWS
//	region=NAME         default: as configured for the AWS tools; with an endpoint us-east-1
//	path_style=false    https://bucket.host/key with an endpoint, too, as AWS has it; default: https://host/bucket/key
//
// and credentials, region, profile and an endpoint are looked for where the AWS tools look: AWS_ACCESS_KEY_ID and
// AWS_SECRET_ACCESS_KEY, AWS_PROFILE, AWS_REGION, AWS_ENDPOINT_URL_S3, AWS_CA_BUNDLE, the files in ~/.aws, and the roles
// of containers and machines
// (https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html). The parameter of gs is
//
//	endpoint=URL        such as http://127.0.0.1:7074, asked without credentials instead of Google
//
// and without one the server that STORAGE_EMULATOR_HOST names is asked, else Google with Application Default Credentials
// (https://cloud.google.com/docs/authentication/application-default-credentials).
//
// A bucket of S3 or Cloud Storage is never created, only a directory is, and by Create alone. An address holds no secret:
// one with a user or password in it is refused.
package openbucket
