// Package auth says who a caller is and what they may do: the token that they show, its principal, and the grants of that.
// It knows no route and no store; package web asks it before anything else is asked.
//
// # Roles
//
// A grant gives a role on one index and one namespace, or on all of either, which is written *. Names are compared whole and
// byte by byte; there are no other patterns. A reader reads; a producer writes too; a janitor reads and prunes; an admin does
// all of that, and sees how the server itself does. Manifests and snapshots belong to a namespace, and to no index: a grant
// holds for those of its namespace, whatever its index.
//
// # Tokens
//
// A static token is indexd_ and 52 characters of base32, 256 random bits. What is kept of it is its SHA-256: it cannot be found
// out from there, since nobody can go through 2^256 tokens, so that a slow hash would add nothing but the cost of each request.
// Whoever scans for leaked secrets finds it by its beginning.
//
// A JWT of an OpenID Connect issuer (RFC 7519) is taken if it is signed by one of the issuer's keys with one of the algorithms
// that were configured, names the issuer and the audience, is not over, and is valid by now, give or take a minute: issuers put
// the instant of signing into nbf, and their clocks are not ours. Its end is kept to the second. The issuer is asked for its
// keys when the first JWT comes, again every ten minutes, and, at most every ten seconds, for a key that is not known: a
// stranger who invents keys causes no more requests than that, and a key that the issuer has withdrawn is gone in ten minutes.
// While it does not answer, its last keys hold for an hour.
//
// # Limits
//
// Each principal has so many requests a second. Each peer has so many failures to sign in a minute; while it has none left,
// static tokens and JWTs that were seen before are taken as ever, so that behind a proxy, where all have one address, nobody is
// locked out by another one's guesses, and nothing else is looked at.
package auth
