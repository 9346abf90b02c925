package web

import "github.com/labstack/echo/v4"

// Routes are all that the server answers, for tests that must miss none.
func (s *Server) Routes() []*echo.Route { return s.echo.Routes() }

// MayAnybody reports whether a route asks nothing of its caller.
func MayAnybody(method, route string) bool {
	a, ok := accessTo(reading(method), route)
	return ok && a.open
}

// InTable reports whether something says who may use a route.
func InTable(method, route string) bool {
	_, ok := accessTo(reading(method), route)
	return ok
}
