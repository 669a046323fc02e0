// Package gss has the machines of RPCSEC_GSS (RFC 2203) at both ends: the credential, contexts and their sequence
// numbers, and what the services integrity and privacy make of arguments and results. They move no octets: package
// transport does (transport.Config.GSS). What a token means is left to a mechanism, which is a [Handshake] that leads to a
// [Context].
package gss
