// Package api is the HTTP interface of indexd as openapi.yaml describes it: the types that cross the wire and the seam
// between routes and handlers, both generated. Handling is left to package web.
package api

import _ "embed"

//go:generate go -C ../../tools tool oapi-codegen -config ../web/api/config.yaml ../web/api/openapi.yaml

// Description is openapi.yaml, as the server hands it out.
//
//go:embed openapi.yaml
var Description []byte
