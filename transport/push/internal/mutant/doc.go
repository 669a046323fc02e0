// Package mutant names faults that can be switched on, to prove that the tests notice them:
// tests are built with -tags mutant and -ldflags "-X .../mutant.active=NAME", once for
// each. In every other build Is is false, and the compiler drops the code.
package mutant
