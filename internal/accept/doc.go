// Package accept keeps a server accepting connections when the process is out of descriptors
// ([Next]), and keeps one host from taking all the places of a server ([Strangers]).
package accept
