package mutant

// The faults of nfsdemo/internal/pushwrite.
const (
	DrainSkipped    = "drain-skipped"       // an operation that looks at a file does not wait
	NotRecalled     = "lease-not-recalled"  // an operation that changes a file does not wait either
	ReleaseFirst    = "release-before-sync" // records are released before the files are durable
	LeaseNotDurable = "lease-not-durable"   // a lease is answered before the store has it
	FenceForgotten  = "fence-forgotten"     // leases of a client that does not answer just end
	ErrorSkipped    = "apply-error-skipped" // a record that cannot be applied is released
	NotValidated    = "apply-not-validated" // a record of any lease is applied
)
