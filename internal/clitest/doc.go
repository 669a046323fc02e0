// Package clitest tests what a signal does to a command. It runs the command in a process of its own, which
// is the test binary once more.
package clitest
