package mutant

// The faults of transport/commitlog.
const (
	NoFlush           = "no-fdatasync"                 // Flush is answered, nothing is made durable
	NoAppendFlush     = "no-fdatasync-append"          // the same for the Flushes of producers alone
	TailFirst         = "tail-before-record"           // the tail is stored before the record is flushed
	HeadBeforeEffects = "head-before-effects"          // a record is released when it is handed out
	PublishFirst      = "publish-before-head"          // the producer is told a head that is not durable
	EpochNotFlushed   = "epoch-not-flushed"            // a session is opened before its epoch is durable
	NotQuiesced       = "executor-not-quiesced"        // a session is opened while the old one still runs
	HandOutFirst      = "hand-out-before-tail-durable" // recovery trusts a tail that is not durable
	AnyEpoch          = "survivors-by-number"          // a producer takes records of another for its own
)
