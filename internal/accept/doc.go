// Package accept takes connections from listeners as a server that wants to live has to.
package accept
