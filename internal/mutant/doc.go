// Package mutant names faults that a test build can switch on, to prove that the tests notice
// them. There is one file of names for each package that has faults. Build with -tags mutant and
// -ldflags "-X github.com/stag-rdma/stag/internal/mutant.active=NAME"; conformance/faults.sh does
// so for each name of a package. In every other build Is returns false, and the compiler drops
// the code.
package mutant
