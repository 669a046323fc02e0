// Package mutant names faults that can be switched on, to prove that the tests notice
// them: build with -tags mutant and -ldflags "-X <this package>.active=NAME". In every
// other build Is is false, and the compiler drops the code.
package mutant
