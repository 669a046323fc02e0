package mutant

// The faults of nfsdemo/internal/once.
const (
	ReplyFirst    = "reply-before-record" // a reply leaves before its record is durable
	IntentMissing = "intent-missing"      // a call is executed without an intent
	IntentLate    = "intent-not-durable"  // a call is executed before its intent is durable
	NoSettlement  = "no-settlement"       // at a restart an intent without a reply is forgotten
	HeadTooFar    = "head-too-far"        // the room of records that still count is given back
)
