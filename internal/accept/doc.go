// Package accept keeps a server accepting connections when the process is out of descriptors
// ([Serve]), keeps one host from taking all the places of a server ([Strangers]), and from filling
// its log ([Sampled]).
package accept
