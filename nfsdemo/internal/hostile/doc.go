// Package hostile is an NFS server for tests that lies about its directories, and, if told to, answers calls
// that nobody made.
package hostile
