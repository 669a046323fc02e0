package coverage

// Mutant is a fault that can be switched on: a program built with the tag stagmutant has the fault that the
// environment variable STAG_MUTANT names (package rdmap/internal/mutant).
type Mutant struct {
	Name   string   `json:"name"`
	Breaks string   `json:"breaks"` // what goes wrong then
	Spec   string   `json:"spec"`
	Rows   []string `json:"rows"` // of Spec: each must have a test that fails
}

// Mutants returns the known mutants.
func Mutants() []Mutant {
	return []Mutant{
		{
			Name: "submission-order", Breaks: "a work request leaves before the one posted ahead of it",
			Spec: "rdmap", Rows: []string{
				"7.1 Send-Send", "7.1 Write-Send", "7.1 Write-Write", "7.1 Write-Read",
				"7.2 Imm-Send", "7.2 Imm-Imm", "7.2 Send-Imm", "7.2 Write-At", "7.2 Write-Imm",
				"7.3 Write-F", "7.3 Write-V", "7.3 Write-AW",
				"7.4 submission", "7.4 contents",
			},
		},
		{
			Name: "unplaced-writes", Breaks: "a Write is delivered before it is placed",
			Spec: "rdmap", Rows: []string{
				"7.1 Write-Send", "7.1 Write-Write", "7.1 Write-Read", "7.2 Write-At", "7.2 Write-Imm",
				"7.3 Write-F", "7.3 Write-V", "7.3 Write-AW", "7.4 contents",
			},
		},
		{
			Name: "response-order", Breaks: "a response is generated before that of an earlier request",
			Spec: "rdmap", Rows: []string{
				"7.1 Read-Read", "7.2 Read-At", "7.2 At-Read", "7.2 At-At",
				"7.3 Read-F", "7.3 Read-V", "7.3 Read-AW", "7.3 At-F", "7.3 At-V", "7.3 At-AW",
				"7.3 F-Read", "7.3 F-At", "7.3 F-V", "7.3 V-Read", "7.3 V-At", "7.3 V-F", "7.3 V-V",
				"7.3 AW-Read", "7.3 AW-At", "7.3 AW-F", "7.3 AW-V", "7.3 AW-AW",
			},
		},
		{
			Name: "execute-on-arrival", Breaks: "a request is carried out before its turn",
			Spec: "rdmap", Rows: []string{"7.2 Read-At", "7.3 Read-AW", "7.3 F-At", "7.3 F-AW", "7.3 V-At", "7.3 V-AW"},
		},
		{
			Name: "requests-pass-messages", Breaks: "requests do not wait for a message that waits for memory",
			Spec: "rdmap", Rows: []string{
				"7.1 Send-Read", "7.2 Send-At", "7.2 Imm-Read", "7.2 Imm-At",
				"7.3 Send-F", "7.3 Send-V", "7.3 Send-AW", "7.3 Imm-F", "7.3 Imm-V", "7.3 Imm-AW",
				"7.4 start",
			},
		},
		{
			Name: "writes-wait", Breaks: "Writes wait for a message that waits for memory",
			Spec: "rdmap", Rows: []string{"7.1 Send-Write", "7.2 Imm-Write"},
		},
		{
			Name: "keep-going", Breaks: "a request that fails counts as carried out",
			Spec: "rdmap", Rows: []string{"7.3 F-F", "7.3 F-AW", "7.3 V-F", "7.3 V-AW", "7.3 AW-AW", "7.2 At-At"},
		},
		{
			Name: "store-in-batch", Breaks: "a store changes a Read Response that is not yet written",
			Spec: "rdmap", Rows: []string{"7.2 Read-At", "7.3 Read-AW", "7.4 touched"},
		},
		{
			Name: "lend-writable", Breaks: "memory that peers store to is lent to the socket",
			Spec: "rdmap", Rows: []string{"7.1 Read-Write", "7.4 streams"},
		},
		{
			Name: "fence", Breaks: "everything after a request waits for its response",
			Spec: "rdmap", Rows: []string{
				"7.1 Read-Send", "7.1 Read-Write", "7.2 Read-Imm", "7.2 At-Send", "7.2 At-Write", "7.2 At-Imm",
				"7.3 F-Send", "7.3 F-Imm", "7.3 F-Write", "7.3 V-Send", "7.3 V-Imm", "7.3 V-Write",
				"7.3 AW-Send", "7.3 AW-Imm", "7.3 AW-Write",
				"7.4 overtake",
			},
		},
		{
			Name: "complete-early", Breaks: "requests complete when they have been written",
			Spec: "rdmap", Rows: []string{"7.4 response"},
		},
		{
			Name: "complete-late", Breaks: "Sends and Writes complete with the next response",
			Spec: "rdmap", Rows: []string{"7.4 local"},
		},
		{
			Name: "complete-unwritten", Breaks: "at the end, what was not taken completes while what precedes it is being written",
			Spec: "rdmap", Rows: []string{"7.5 end"},
		},
		{
			Name: "read-any-order", Breaks: "segments of a Read Response may come in any order, any number of times",
			Spec: "rdmap", Rows: []string{"7.5 Read", "7.5 liar"},
		},
		{
			Name: "any-hash", Breaks: "a Verify Response may have any hash",
			Spec: "rdmap", Rows: []string{"7.5 Verify"},
		},
		{
			Name: "flush-unchecked", Breaks: "a Flush of no octets is not checked",
			Spec: "rdmap", Rows: []string{"7.5 Flush"},
		},
		{
			Name: "silent-first", Breaks: "an error in the first FPDU is not told to the peer",
			Spec: "rdmap", Rows: []string{"7.5 first"},
		},
		{
			Name: "verify-copy", Breaks: "a Verify hashes the copy in memory, not what the medium holds",
			Spec: "rdmap", Rows: []string{"7.5 medium"},
		},
		{
			Name: "coupled-directions", Breaks: "responses wait for those to own requests",
			Spec: "rdmap", Rows: []string{"7.4 streams"},
		},
	}
}
