package ui

import "io"

// A SignIn is the form that takes a token.
type SignIn struct {
	Return   string // the page to go on with
	Problem  string // why the last one was not taken, or empty
	Needless bool   // the server asks nobody for one
}

// RenderSignIn writes the page as HTML.
func RenderSignIn(w io.Writer, p SignIn) error { return execute(w, "signin.html", p) }
