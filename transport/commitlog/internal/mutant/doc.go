// Package mutant names faults that can be switched on, to prove that the tests notice
// them: `make crash-mutants` builds the tests with -tags mutant, once for each, and
// fails if they pass. In every other build Is is false, and the compiler drops the code.
package mutant
